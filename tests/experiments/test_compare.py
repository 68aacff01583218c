"""A comparison is checked before it starts, may grow, and its picks can be judged by another learner."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.small import ARRAYS, LEARNER, SCHEDULE, dataset, part
from understudy import UnderstudyError
from understudy.data.pool import Dataset
from understudy.experiments.compare import Comparison, Outcome, compare, replay
from understudy.experiments.results import CEILING, OFTEN, SELECTION_ONLY, Results

OTHERWISE = LEARNER.replace("QUICKLY", "OTHERWISE")
OWN = """
import numpy as np
from tests.experiments.small import QUICKLY
from understudy.strategies.protocol import Needs
from understudy.strategies.view import Picks

class Lowest:
    needs = Needs()
    def select(self, view, n, rng):
        return Picks(np.sort(view.candidates(n).cpu().numpy())[:n], np.zeros(n))

def learner():
    return QUICKLY
"""


def made(out: Path, *strategies: str, **more: Any) -> Comparison:
    settings = {"repeats": 2, "schedule": SCHEDULE, "learner": LEARNER, **more}
    return compare(settings.pop("source", dataset()), strategies, out=out, **settings)


def played(out: Path, *strategies: str, **more: Any) -> Outcome:
    outcome = made(out, *strategies, **more).run(jobs=1, progress=False)
    assert outcome.failed == {}
    return outcome


def results(out: Path) -> bytes:
    return (out / "results.parquet").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return played(tmp_path_factory.mktemp("whole"), "surrogate", "random", "weight_schedule").results


def test_strategies_and_repetitions_may_come_later(whole: Results, tmp_path: Path) -> None:
    played(tmp_path, "random", repeats=1, controls=False)
    played(tmp_path, "surrogate", repeats=2)
    first = {path: path.stat().st_mtime_ns for path in (tmp_path / "rounds").rglob("*.parquet")}
    played(tmp_path, "weight_schedule", "random", repeats=2)
    assert results(tmp_path) == results(whole.folder)
    assert all(path.stat().st_mtime_ns == then for path, then in first.items())  # nothing was played again
    settings = json.loads((tmp_path / "experiment.json").read_text())
    assert (settings["strategies"], settings["repeats"]) == (["random", "surrogate", "weight_schedule"], 2)


def test_repetitions_that_come_later_leave_blocks_of_the_first_as_they_are(tmp_path: Path) -> None:
    played(tmp_path, "random", repeats=2, together=2, controls=False)
    later = made(tmp_path, "random", repeats=5, controls=False)
    assert [unit.repeats for unit in later.task.units] == [(0, 1), (2, 3), (4,)]
    assert later.task.total - later.task.stored() == 12


def test_controls_stand_beside_the_strategies(whole: Results) -> None:
    assert whole.strategies == [
        "surrogate", "random", "weight_schedule", "weight_schedule" + SELECTION_ONLY, OFTEN, CEILING,
    ]  # fmt: skip
    ceiling, curves = whole.ceiling(), whole.curves()
    assert ceiling is not None
    assert (ceiling.shape, curves.schedule, curves.repeats) == ((2,), SCHEDULE, 2)
    for name in ("random", "weight_schedule" + SELECTION_ONLY, OFTEN):
        np.testing.assert_array_equal(curves.accuracy[name][:, 0], curves.accuracy["surrogate"][:, 0])


def test_the_number_of_processes_changes_nothing(whole: Results, tmp_path: Path) -> None:
    outcome = made(tmp_path, "surrogate", "random", "weight_schedule").run(jobs=2, progress=True)
    assert outcome.failed == {}
    assert results(tmp_path) == results(whole.folder)


def test_what_will_be_done_is_said(tmp_path: Path) -> None:
    lines = made(tmp_path, "random", "margin", controls=False).describe(jobs=2)
    assert lines == [
        "small: 120 rows to choose from, 50 to test on, 3 classes",
        "strategies: random, margin",
        f"trained from scratch at 9, 14, 20, 26 labels (own schedule); learner {LEARNER}, 2 repetitions, seed 0",
        f"on cpu, 2 processes, 1 repetition trained at once; stored in {tmp_path}",
    ]
    played(tmp_path, "random", repeats=1, controls=False)
    assert made(tmp_path, "random", controls=False).describe()[3].endswith("; 4 of 8 rounds left")
    labels = ARRAYS.truth[:120].copy()
    labels[:3] = -1
    fewer = Dataset("fewer", part(range(120), labels=labels), part(range(120, 170)))
    lines = made(tmp_path / "other", "random", schedule=None, repeats=1, source=fewer).describe(where="in a cloud")
    assert lines[1] == "strategies: random; controls: margin_x10, ceiling"
    assert "(protocol small)" in lines[2]
    assert ", 1 repetition, seed 0" in lines[2]
    assert lines[3].startswith("on cpu, in a cloud, ")
    assert lines[4:] == ["items left out: 3 that have no label"]


def test_own_strategies_and_learners_come_by_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_comparison_of_a_test.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = "own_comparison_of_a_test:Lowest"
    found = played(tmp_path / "out", name, "random", repeats=1, learner="own_comparison_of_a_test:learner").results
    start, *later = found.picks(name, 0)
    rest = np.setdiff1d(np.arange(120), start)
    assert np.concatenate(later).tolist() == rest[:17].tolist()
    usual = played(tmp_path / "usual", "random", repeats=1).results
    np.testing.assert_array_equal(found.curves(["random"]).of("random"), usual.curves(["random"]).of("random"))


def test_own_code_that_was_edited_is_not_taken_for_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, spec, out = tmp_path / "edited_code_of_a_test.py", "edited_code_of_a_test:Lowest", tmp_path / "out"
    module.write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    own: dict[str, Any] = {"repeats": 1, "controls": False}
    played(out, spec, **own)
    learnt = tmp_path / "learnt"
    played(learnt, "random", learner="edited_code_of_a_test:learner", **own)
    made(out, spec, **own)
    module.write_text(OWN + "# edited")
    stored = out / "rounds" / "edited_code_of_a_test%3ALowest"
    message = f"{spec} was changed since its rounds were stored; choose another folder with --out, or delete {stored}"
    with pytest.raises(UnderstudyError, match=f"^{re.escape(message)}$"):
        made(out, spec, **own)
    message = f"edited_code_of_a_test:learner was changed since .* or delete {learnt / 'rounds'}$"
    with pytest.raises(UnderstudyError, match=message):
        made(learnt, "random", learner="edited_code_of_a_test:learner", **own)
    played(out, "random", **own)  # others are not held up
    shutil.rmtree(stored)
    played(out, spec, **own)
    made(out, spec, **own)


def test_another_device_or_version_is_said_before_a_folder_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert played(tmp_path, "random", repeats=1).results.settings["versions"][1].startswith("torch ")
    monkeypatch.setattr("understudy.experiments.compare.device_name", lambda _: "an abacus")
    assert made(tmp_path, "random").describe()[-1].endswith("continues with an abacus; rounds may differ by rounding")


def test_pools_without_a_test_set_hold_a_fifth_out(tmp_path: Path) -> None:
    found = played(tmp_path, "random", source=Dataset("alone", part(range(120))), repeats=1).results
    assert (found.settings["plan"]["pool_rows"], found.settings["plan"]["test_rows"]) == (96, 24)
    assert np.concatenate(found.picks("random", 0)).max() < 96


# -- replay -------------------------------------------------------------------------------------------------------


def test_the_same_learner_judges_the_same_picks_the_same(whole: Results, tmp_path: Path) -> None:
    outcome = replay(whole.folder, dataset(), LEARNER, out=tmp_path).run(jobs=1, progress=False)
    assert outcome.failed == {}
    again = outcome.results
    assert again.strategies == ["surrogate", "random", "weight_schedule", OFTEN, CEILING]
    for name, source in [(n, n) for n in ("surrogate", "random", OFTEN)] + [
        ("weight_schedule", "weight_schedule" + SELECTION_ONLY)  # judged by the common learner
    ]:
        np.testing.assert_array_equal(again.curves([name]).of(name), whole.curves([source]).of(source))
        for repeat in range(2):
            for one, other in zip(again.picks(name, repeat), whole.picks(source, repeat), strict=True):
                np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(again.ceiling(), whole.ceiling())


def test_another_learner_judges_the_same_picks_otherwise_in_a_folder_within(whole: Results) -> None:
    before = results(whole.folder)
    outcome = replay(whole.folder, dataset(), OTHERWISE).run(jobs=1, progress=False)
    assert outcome.failed == {}
    assert outcome.folder.parent == whole.folder
    again = outcome.results
    assert again.picks("surrogate", 1)[2].tolist() == whole.picks("surrogate", 1)[2].tolist()
    assert (again.curves(["surrogate"]).of("surrogate") != whole.curves(["surrogate"]).of("surrogate")).any()
    assert results(whole.folder) == before
    assert Results.open(whole.folder).strategies == whole.strategies


def test_a_replay_takes_the_repetitions_that_are_finished(tmp_path: Path) -> None:
    out = tmp_path / "out"
    comparison = made(out, "random", "margin", repeats=3, controls=False)
    comparison.run(jobs=1, progress=False)
    comparison.task.store.path("random", 0, 26).unlink()
    again = replay(out, dataset(), LEARNER)
    assert (again.strategies, again.repeats) == (("margin",), 3)  # the first of random is under way
    comparison.task.store.path("margin", 1, 20).unlink()
    comparison.task.store.path("margin", 1, 26).unlink()
    assert replay(out, dataset(), LEARNER, out=tmp_path / "other").repeats == 1
    comparison.task.store.path("margin", 0, 26).unlink()
    with pytest.raises(UnderstudyError, match=r"no run in .* has finished yet"):
        replay(out, dataset(), LEARNER)


def test_a_replay_needs_the_items_it_was_made_with(whole: Results) -> None:
    found = dataset()
    changed = ARRAYS.features[:120].copy()
    changed[0] += 1
    with pytest.raises(UnderstudyError, match="have changed since"):
        replay(whole.folder, replace(found, pool=replace(found.pool, features=changed)), LEARNER)


# -- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategies", "more", "message"),
    [
        (["margn"], {}, "there is no strategy 'margn'; did you mean 'margin'?"),
        (["margin(x=1)"], {}, "margin has no setting 'x'"),
        (["margin"], {"protocol": "small"}, "a schedule and the protocol small both set the numbers of labels"),
        (["margin"], {"source": "digts"}, "digits"),
        (["margin"], {"schedule": (9, 121)}, "ends at 121 labels, but the pool has 120 rows; end it at 120"),
        (["margin"], {"schedule": (2, 9)}, "starts from 2 labels for 3 classes; start from 3 or more"),
        (["margin"], {"schedule": None, "protocol": "paper"}, "ends at 11,000 labels, but the pool has 120 rows"),
        (["margin"], {"protocol": "large"}, "protocol must be 'paper' or 'small', or give a schedule; got 'large'"),
        (["margin"], {"learner": "moden"}, "there is no learner 'moden'"),
        (["margin"], {"learner": "no_such_module:x"}, "cannot be imported"),
        (["margin"], {"device": "cuda:7"}, "device='cuda:7' but torch sees"),
        (
            ["badge"],
            {"learner": "logistic"},
            "badge cannot be run with the learner logistic: Badge needs hidden, which Classifier does not offer; "
            "leave it out, or use the learner 'modern'",
        ),
        (["margin"], {"source": Dataset("one", part(range(9), labels=np.zeros(9, int)))}, "belong to one class, a"),
        (["bgadl"], {}, "Bgadl generates images"),
        (["margin", OFTEN], {}, "margin_x10 is a control and always runs; leave it out"),
        (["margin"], {"repeats": 0}, "repeats must be a whole number of at least 1"),
        (["margin"], {"seed": -1}, "seed must be a whole number of at least 0"),
        (["margin"], {"source": Dataset("no", part(range(9), labels=None))}, "the pool has no labels"),
    ],
)
def test_bad_input_is_one_line_before_anything_is_written(
    tmp_path: Path, strategies: list[str], more: dict[str, Any], message: str
) -> None:
    if more.get("device") and not str(more["device"]).startswith("cpu"):
        more = {**more, "learner": "modern"}  # one's own learner knows where it runs
    with pytest.raises(UnderstudyError, match=re.escape(message)) as caught:
        made(tmp_path / "out", *strategies, **more)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"schedule": (9, 14)}, "schedule was 9,14,20,26 and is now 9,14"),
        ({"seed": 1}, "seed was 0 and is now 1"),
        ({"learner": OTHERWISE}, "learner was tests.experiments.small:QUICKLY and is now"),
        ({"source": Dataset("small", part(range(119)), part(range(120, 170)))}, "digest was"),
        ({"source": Dataset("other", part(range(120)), part(range(120, 170)))}, "dataset was small and is now other"),
    ],
)
def test_the_folder_of_another_experiment_is_left_alone(whole: Results, more: dict[str, Any], message: str) -> None:
    before = {path: path.read_bytes() for path in whole.folder.rglob("*") if path.is_file()}
    with pytest.raises(UnderstudyError, match=re.escape(message)):
        made(whole.folder, "random", **more)
    assert {path: path.read_bytes() for path in whole.folder.rglob("*") if path.is_file()} == before
