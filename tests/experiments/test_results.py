"""Rounds are stored whole or not at all, and the tables made of them are the same whoever came first."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.experiments.made_up import made_up
from tests.experiments.small import a_round, same_of
from understudy import UnderstudyError
from understudy.data.files import write_atomically
from understudy.experiments.metrics import METRICS
from understudy.experiments.plan import Plan
from understudy.experiments.results import (
    RESULT_COLUMNS,
    SELECTION_ONLY,
    TIMING_COLUMNS,
    Results,
    RoundStore,
    file_name,
)

PLAN = Plan("small", "d1", ("a", "b", "c"), pool_rows=100, test_rows=20, learner="modern", schedule=(9, 14, 20))


def begun(folder: Path, **also: Any) -> RoundStore:
    store = RoundStore(folder)
    store.begin(PLAN, {"strategies": ["margin", "random"], "repeats": 2, **also})
    return store


def test_a_round_comes_back_as_it_was(tmp_path: Path) -> None:
    store = begun(tmp_path / "new" / "folder")
    rounds = [
        a_round(labels=9),
        a_round(labels=14, round=1, picks=[7, 2], scores=[0.5, 0.25], was_right=[True, False], asked_accuracy=0.5),
        a_round(labels=20, round=2, memory='{"seed": 9223372036854775807}', finished="now"),
    ]
    store.add(rounds)
    assert [vars(found) for found in store.rounds_of("margin", 0, (9, 14, 20))] == [vars(one) for one in rounds]
    assert store.rounds_of("margin", 1, (9, 14, 20)) == []
    assert [one.labels for one in store.rounds_of("margin", 0, (9, 10, 14))] == [9]  # up to the first that is missing
    store.check()


def test_names_of_strategies_may_hold_anything_and_none_is_taken_for_another(tmp_path: Path) -> None:
    store = begun(tmp_path)
    names = [
        "a:b",
        "a/b",
        "a%3Ab",
        "a(x='../..')",
        "margin",
        "margin (selection only)",
        "surrogate(width=0.25,link='x')",
    ]
    for place, name in enumerate(names):
        store.add([a_round(name, accuracy=place / 10)])
    for place, name in enumerate(names):
        (found,) = store.rounds_of(name, 0, (9,))
        assert (found.strategy, found.accuracy) == (name, place / 10)
    assert len(list(tmp_path.rglob("*.parquet"))) == len(names)
    assert {path.parent.parent.parent for path in tmp_path.rglob("*.parquet")} == {tmp_path / "rounds"}


def test_long_names_are_cut_and_short_ones_stay_as_they_were(tmp_path: Path) -> None:
    store = begun(tmp_path)
    names = [f"own:Mine(file='{'x' * 300}{end}')" for end in "ab"]
    for place, name in enumerate([*names, names[0] + SELECTION_ONLY]):
        store.add([a_round(name, accuracy=place / 10)])
    assert [store.rounds_of(name, 0, (9,))[0].accuracy for name in names] == [0, 0.1]
    assert len(Results.open(tmp_path).table) == 3
    assert len({file_name(name) for name in names}) == 2
    assert max(len(file_name(name) + "-1000.lock") for name in names) <= 255
    for short in ("surrogate(width=0.25)", "margin (selection only)", "a" * 255):
        assert store.path(short, 0, 9).parent.parent.name == short
    assert store.path("a:b", 0, 9).parent.parent.name == "a%3Ab"


def test_the_tables_do_not_depend_on_who_came_first(tmp_path: Path) -> None:
    rounds = [
        a_round(name, repeat, labels, accuracy=0.1 * repeat, train_seconds=float(labels))
        for name in ("margin", "random", "learning_loss", "learning_loss (selection only)")
        for repeat in range(2)
        for labels in (9, 14)
    ]
    contents: list[list[bytes]] = []
    for order in (rounds, rounds[::-1], rounds[5:] + rounds[:5]):
        store = begun(tmp_path / str(len(contents)))
        store.add(order[:3])
        store.merge()
        store.add(order[3:])
        store.merge()
        contents.append([(store.folder / name).read_bytes() for name in ("results.parquet", "timings.parquet")])
    assert contents[0] == contents[1] == contents[2]
    table, timings = (pq.read_table(tmp_path / "0" / f"{name}.parquet") for name in ("results", "timings"))
    assert (table.schema.names, timings.schema.names) == (RESULT_COLUMNS.names, TIMING_COLUMNS.names)
    assert table.schema.equals(RESULT_COLUMNS)
    keys = list(zip(*(table[name].to_pylist() for name in ("strategy", "repeat", "labels")), strict=True))
    assert keys == sorted((one.strategy, one.repeat, one.labels) for one in rounds)
    assert timings["train_seconds"].to_pylist() == [float(labels) for _, _, labels in keys]


def test_a_kill_between_writing_and_replacing_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"before")
    code = (
        "import os, sys, signal; from pathlib import Path; from understudy.data.files import write_atomically\n"
        "Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomically(Path(sys.argv[1]), b'after' * 1000)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 2  # what was written lies beside it, and nobody reads it


def test_what_a_kill_left_beside_the_rounds_is_not_read(tmp_path: Path) -> None:
    store = begun(tmp_path)
    store.add([a_round()])
    (store.path("margin", 0, 9).parent / ".abc.part").write_bytes(b"half")
    (store.path("margin", 0, 9).parent / ".abc.parquet.part").write_bytes(b"half")
    store.check()
    store.merge()
    assert len(Results.open(tmp_path).table) == 1


def test_a_full_disk_is_said_and_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    store = begun(tmp_path)
    store.add([a_round()])
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnderstudyError, match=r"cannot write .*: No space left on device; make room"):
        store.add([a_round(labels=14)])
    assert [path.name for path in store.path("margin", 0, 9).parent.iterdir()] == ["0000009.parquet"]


@pytest.mark.parametrize("at", [0, 1, 100, -1])
def test_a_round_file_cut_short_is_named_with_what_to_do(tmp_path: Path, at: int) -> None:
    store = begun(tmp_path)
    store.add([a_round(), a_round(labels=14)])
    path = store.path("margin", 0, 14)
    path.write_bytes(path.read_bytes()[:at])
    message = re.escape(f"{path} is truncated or not a Parquet file; delete it, and run the same command again")
    with pytest.raises(UnderstudyError, match=message):
        store.rounds_of("margin", 0, (9, 14))
    with pytest.raises(UnderstudyError, match=message):
        store.check()
    with pytest.raises(UnderstudyError, match=message):
        Results.open(tmp_path)
    path.unlink()
    assert len(Results.open(tmp_path).table) == 1


def test_a_results_file_cut_short_is_made_again_where_there_are_rounds_and_named_where_there_are_none(
    tmp_path: Path,
) -> None:
    store = begun(tmp_path)
    store.add([a_round()])
    store.merge()
    path = tmp_path / "results.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    Results.open(tmp_path)
    assert path.read_bytes() == whole
    store.path("margin", 0, 9).unlink()
    for folder in sorted((tmp_path / "rounds").rglob("*"), reverse=True):
        folder.rmdir()
    (tmp_path / "rounds").rmdir()
    assert len(Results.open(tmp_path).table) == 1
    path.write_bytes(whole[:-20])
    with pytest.raises(UnderstudyError, match=r"results.parquet is truncated or not a Parquet file; restore it"):
        Results.open(tmp_path)
    path.unlink()
    with pytest.raises(UnderstudyError, match=r"has no results.parquet yet; run its comparison first"):
        Results.open(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"format": 1, "pl', "experiment.json cannot be read"),
        (b"", "experiment.json cannot be read"),
        (b"\xff\xfe", "experiment.json cannot be read"),
        (b'{"format": 99, "plan": {}}', "was written by another version of understudy; choose another folder"),
        (b'{"format": 1}', "was written by another version of understudy"),
        (b"[]", "was written by another version of understudy"),
    ],
)
def test_settings_cut_short_are_named_and_nothing_is_overwritten(tmp_path: Path, content: bytes, message: str) -> None:
    begun(tmp_path)
    path = tmp_path / "experiment.json"
    path.write_bytes(content)
    for attempt in (lambda: begun(tmp_path), lambda: Results.open(tmp_path)):
        with pytest.raises(UnderstudyError, match=message) as caught:
            attempt()
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"dataset": "large"}, "dataset was small and is now large"),
    ({"digest": "d2"}, "digest was d1 and is now d2"),
    ({"classes": ("a", "b", "d")}, "classes was a,b,c and is now a,b,d"),
    ({"pool_rows": 101}, "pool_rows was 100 and is now 101"),
    ({"test_rows": 21}, "test_rows was 20 and is now 21"),
    ({"learner": "paper"}, "learner was modern and is now paper"),
    ({"schedule": (9, 14)}, "schedule was 9,14,20 and is now 9,14"),
    ({"seed": 1}, "seed was 0 and is now 1"),
]


@pytest.mark.parametrize(("change", "message"), OTHERS)
def test_a_folder_of_another_experiment_is_refused_with_what_differs(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    store = begun(tmp_path)
    before = (tmp_path / "experiment.json").read_bytes()
    with pytest.raises(UnderstudyError, match=re.escape(message)) as caught:
        store.begin(replace(PLAN, **change), {})
    assert "\n" not in str(caught.value)
    assert "choose another folder with --out" in str(caught.value)
    assert (tmp_path / "experiment.json").read_bytes() == before


def test_every_setting_that_decides_numbers_is_looked_at() -> None:
    assert {name for change, _ in OTHERS for name in change} == PLAN.as_json().keys()


def test_the_same_experiment_goes_on_and_notes_who_came_later(tmp_path: Path) -> None:
    begun(tmp_path, source="digits")
    store = RoundStore(tmp_path)
    store.begin(PLAN, {"strategies": ["badge", "margin"], "repeats": 1, "device": "cpu"})
    assert store.settings == {
        "format": 1, "plan": PLAN.as_json(), "source": "digits", "device": "cpu",
        "strategies": ["margin", "random", "badge"], "repeats": 2,
    }  # fmt: skip


def test_a_table_of_something_else_is_no_round(tmp_path: Path) -> None:
    store = begun(tmp_path)
    store.add([a_round()])
    store.merge()
    path = store.path("margin", 0, 9)
    path.write_bytes((tmp_path / "timings.parquet").read_bytes())
    with pytest.raises(UnderstudyError, match=re.escape(f"{path} is not a round of a comparison; delete it")):
        store.check()


def test_other_devices_and_versions_are_noted_and_said_once_there_are_rounds(tmp_path: Path) -> None:
    def went_on(device: str, *versions: str) -> list[str]:
        return RoundStore(tmp_path).begin(PLAN, {"devices": [device], "versions": list(versions)})

    assert went_on("x86_64", "torch 2.10", "numpy 2.4") == []
    assert went_on("H200", "torch 2.11", "numpy 2.4") == []  # nothing was played
    RoundStore(tmp_path).add([a_round()])
    assert went_on("H200", "torch 2.11", "numpy 2.4") == []
    assert went_on("x86_64", "torch 2.12", "numpy 2.4") == [
        f"{tmp_path} has rounds made with H200, and continues with x86_64; rounds may differ by rounding",
        f"{tmp_path} has rounds made with torch 2.11, numpy 2.4, and continues with torch 2.12; "
        "rounds may differ by rounding",
    ]
    assert went_on("x86_64", "torch 2.11", "numpy 2.4") == []
    settings = RoundStore(tmp_path).settings
    assert (settings["devices"], settings["versions"]) == (
        ["H200", "x86_64"],
        ["torch 2.11", "numpy 2.4", "torch 2.12"],
    )


def test_where_nothing_can_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "shut" / ".lock").mkdir(parents=True)
    with pytest.raises(UnderstudyError, match=r"cannot write to .*shut: .*; choose another folder"):
        begun(tmp_path / "shut")
    store = begun(tmp_path / "open")
    (store.folder / "rounds").write_text("a file, where a folder should be")
    with pytest.raises(UnderstudyError, match=r"cannot write to .*rounds.*: .*; choose another folder"):
        store.add([a_round()])


def test_folders_that_cannot_be_used_are_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnderstudyError, match=r"cannot write to .*file: File exists; choose another folder"):
        begun(tmp_path / "file")
    store = begun(tmp_path / "lost")
    store.add([a_round()])
    (store.folder / "experiment.json").unlink()
    with pytest.raises(UnderstudyError, match=r"has rounds but no experiment.json; choose another folder"):
        begun(store.folder)
    with pytest.raises(UnderstudyError, match=r"is not a comparison \(experiment.json is missing\)"):
        Results.open(tmp_path / "nowhere")
    with pytest.raises(UnderstudyError, match=r"has no (finished round|results.parquet) yet"):
        Results.open(begun(tmp_path / "empty").folder)


# -- looking at them ----------------------------------------------------------------------------------------------


def results(folder: Path, runs: dict[tuple[str, int], tuple[int, ...]]) -> Results:
    """Runs that got as far as these numbers of labels; the accuracy says which it is."""
    store = begun(folder, strategies=list(dict.fromkeys(name for name, _ in runs)))
    for (name, repeat), budgets in runs.items():
        store.add([a_round(name, repeat, at, accuracy=at + repeat / 10, picks=[at, repeat]) for at in budgets])
    return Results.open(folder)


def test_curves_are_paired_and_of_the_budgets_and_repetitions_that_all_have(tmp_path: Path) -> None:
    whole = (9, 14, 20)
    found = results(
        tmp_path,
        {("random", 1): whole, ("random", 0): whole, ("random", 2): (9,), ("margin", 0): whole, ("margin", 1): whole},
    )
    curves = found.curves()
    assert curves.schedule == whole
    assert list(curves.accuracy) == ["random", "margin"]
    for values in curves.accuracy.values():
        np.testing.assert_allclose(values, np.array([whole, [9.1, 14.1, 20.1]]))
    assert found.curves(["margin"]).repeats == 2


def test_a_run_that_is_under_way_shortens_the_curves(tmp_path: Path) -> None:
    found = results(tmp_path, {("random", 0): (9, 14, 20), ("margin", 0): (9, 14), ("random", 1): (9, 14, 20)})
    assert found.curves().schedule == (9, 14)
    assert found.curves().repeats == 1
    assert found.curves(["random"]).schedule == (9, 14, 20)


def test_runs_without_a_common_repetition_are_said_to_be_unfinished(tmp_path: Path) -> None:
    found = results(tmp_path, {("random", 0): (9, 14), ("margin", 1): (9, 14)})
    with pytest.raises(UnderstudyError, match=r"no repetition in .* is finished for all strategies"):
        found.curves()
    with pytest.raises(UnderstudyError, match="there is no round of badge"):
        found.curves(["badge"])


def test_controls_come_last_selection_only_beside_its_system_and_the_ceiling_is_no_curve(tmp_path: Path) -> None:
    names = ["weight_schedule", "weight_schedule" + SELECTION_ONLY, "badge", "margin_x10"]
    runs = {(name, 0): (9, 14) for name in ["margin_x10", *names[::-1]]}
    found = results(tmp_path, {**runs, ("ceiling", 1): (100,), ("ceiling", 0): (100,)})
    settings = {**found.settings, "strategies": ["weight_schedule", "badge"]}
    found = replace(found, settings=settings)
    assert found.strategies == [*names, "ceiling"]
    assert list(found.curves().accuracy) == names
    ceiling = found.ceiling()
    assert ceiling is not None
    np.testing.assert_allclose(ceiling, [100, 100.1])
    assert results(tmp_path / "without", {("margin", 0): (9,)}).ceiling() is None


def test_picks_come_round_by_round(tmp_path: Path) -> None:
    found = results(tmp_path, {("margin", 1): (14, 9), ("margin", 0): (9,)})
    assert [rows.tolist() for rows in found.picks("margin", 1)] == [[9, 1], [14, 1]]
    with pytest.raises(UnderstudyError, match="there is no repetition 3 of margin"):
        found.picks("margin", 3)


def test_what_differs_from_run_to_run_is_in_the_timings_alone() -> None:
    assert same_of(a_round(finished="now", train_seconds=1.0, peak_memory=5)) == same_of(a_round())
    assert not set(RESULT_COLUMNS.names) & {"finished", "train_seconds", "versions", "device", "together"}
    assert json.loads(a_round().memory) == {}
    assert len(set(itertools.chain(RESULT_COLUMNS.names, TIMING_COLUMNS.names))) == len(vars(a_round()))


def test_curves_of_every_metric_are_read_from_the_rounds(tmp_path: Path) -> None:
    results = made_up(tmp_path, ["random", "margin"], repeats=2)
    rows = results.table.to_pylist()
    for metric in METRICS:
        curves = results.curves(metric=metric)
        assert curves.metric == metric
        for name, values in curves.values.items():
            for repeat, labels in itertools.product(range(2), curves.schedule):
                (row,) = (
                    row for row in rows if (row["strategy"], row["repeat"], row["labels"]) == (name, repeat, labels)
                )
                kept = row["class_accuracy"] if metric == "balanced_accuracy" else [row[metric]]
                expected = sum(kept) / len(kept)
                assert values[repeat, curves.schedule.index(labels)] == pytest.approx(expected, rel=1e-12)
    with pytest.raises(UnderstudyError, match="no metric 'f1'; choose accuracy, "):
        results.curves(metric="f1")


def test_classes_that_the_test_set_lacks_do_not_count_in_balanced_accuracy() -> None:
    assert METRICS["balanced_accuracy"].read([0.5, None, 1.0, float("nan")]) == 0.75
