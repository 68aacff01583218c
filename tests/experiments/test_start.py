"""Without a shared start, strategies that can choose without a learner choose their first rows."""

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.experiments.small import LEARNER, SCHEDULE, dataset, experiment, rounds_of, same_of
from understudy import ActiveLoop, UnderstudyError
from understudy.cli import app
from understudy.experiments import picks
from understudy.experiments.compare import Outcome, compare, plan_of, replay
from understudy.experiments.plan import Plan, default_schedule
from understudy.experiments.report import commands_to_repeat, write_report
from understudy.experiments.results import OFTEN, Results, Round
from understudy.experiments.run import Experiment, Unit, play
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import top
from understudy.strategies.view import Picks, PoolView

EITHER_WAY = f"{__name__}:EitherWay"
AT_RANDOM = ["random", "margin", "badge", "surrogate", "learning_loss", OFTEN]
ALONE = ["typiclust", "drop_query", "subquery", EITHER_WAY]


@dataclass
class EitherWay:
    """The highest rows; by the learner's doubts once there are some. Counts its rounds."""

    needs: Needs = field(default_factory=lambda: Needs(optional=frozenset({"probs"})))
    rounds: int = 0

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        self.rounds += 1
        rows = view.candidates(n)
        return top(rows, (1 - view.probs[rows].max(1).values) * self.rounds if view.has("probs") else rows.double(), n)

    def memory(self) -> dict[str, Any]:
        return {"rounds": self.rounds}

    def recall(self, memory: dict[str, Any]) -> None:
        self.rounds = memory["rounds"]


def from_nothing() -> Experiment:
    given = experiment()
    return Experiment(plan_of(given.bench, LEARNER, SCHEDULE, 0, start=0), given.bench)


def firsts(name: str, repeat: int = 0) -> Round:
    return next(one for one in next(play(from_nothing(), Unit(name, (repeat,)), {})) if one.strategy == name)


def test_who_waits_for_a_learner_starts_at_random_from_the_same_rows_and_the_same_model() -> None:
    found = [firsts(name) for name in AT_RANDOM]
    assert len({tuple(one.picks) for one in found}) == 1
    assert len({one.log_loss for one in found if one.strategy != "learning_loss"}) == 1  # which changes training
    given = from_nothing()
    loop = ActiveLoop(given.bench.pool, given.learner(), "margin", (), given.plan.run_seed(0), n_classes=3)
    assert found[0].picks == loop.ask(SCHEDULE[0]).tolist()
    assert firsts("margin", repeat=1).picks != found[0].picks
    assert [(one.scores, one.was_right, one.asked_accuracy) for one in found] == [(None, None, None)] * len(found)


@pytest.mark.parametrize("name", ALONE)
def test_who_can_choose_without_a_learner_chooses_its_first_rows(name: str) -> None:
    given, found = from_nothing(), firsts(name)
    assert len(set(found.picks)) == found.labels == SCHEDULE[0]
    assert found.picks != firsts("random").picks
    loop = ActiveLoop(given.bench.pool, given.learner(), given.make(name, 0), (), given.plan.run_seed(0), n_classes=3)
    by_hand = loop.rehearse(SCHEDULE[0], given.bench.truth)
    assert found.picks == by_hand.rows.tolist()
    assert found.scores == by_hand.scores.tolist()
    assert (found.was_right, found.asked_accuracy) == (None, None)
    if name == EITHER_WAY:
        assert found.picks == list(range(119, 119 - SCHEDULE[0], -1))


def test_who_waits_for_a_label_draws_it_and_then_chooses() -> None:
    """The expected error on a graph needs one label, and nothing of the learner."""
    drawn, own = firsts("random").picks, firsts("subquery").picks
    assert own[0] == drawn[0]
    assert own[1:] != drawn[1:]


@pytest.mark.parametrize("name", ["random", "margin", "surrogate", "typiclust", EITHER_WAY])
def test_a_run_that_was_killed_goes_on_as_it_would_have(name: str) -> None:
    given = from_nothing()
    whole = [one for part in rounds_of(given, name) for one in part]
    for done in range(1, len(SCHEDULE)):
        rest = [one for part in play(given, Unit(name, (0,)), {0: whole[:done]}) for one in part]
        assert [same_of(one) for one in rest] == [same_of(one) for one in whole[done:]]


def played(out: Path, *strategies: str, **more: Any) -> Outcome:
    settings = {"repeats": 2, "schedule": SCHEDULE, "learner": LEARNER, "start": 0, **more}
    outcome = compare(dataset(), strategies, out=out, **settings).run(jobs=1, progress=False)
    assert outcome.failed == {}
    return outcome


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return played(tmp_path_factory.mktemp("whole"), "typiclust", "margin", "random").results


def test_its_bytes_are_the_same_however_often_it_is_interrupted(whole: Results, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(whole.folder, folder)
    for path in sorted((folder / "rounds").rglob("*.parquet")):
        if int(path.stem) > SCHEDULE[1] or "001" in str(path.parent.name):
            path.unlink()
    (folder / "results.parquet").unlink()
    played(folder, "typiclust", "margin", "random")
    name = "results.parquet"
    Results.open(folder)
    assert (folder / name).read_bytes() == (whole.folder / name).read_bytes()


def test_a_folder_keeps_its_kind_of_start(whole: Results, tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match="is of another experiment: start was 0 and is now not given"):
        compare(dataset(), ["margin"], out=whole.folder, schedule=SCHEDULE, learner=LEARNER)
    compare(dataset(), ["margin"], out=tmp_path, schedule=SCHEDULE, learner=LEARNER)
    with pytest.raises(UnderstudyError, match="start was not given and is now 0"):
        compare(dataset(), ["margin"], out=tmp_path, schedule=SCHEDULE, learner=LEARNER, start=0)


def zero_shot() -> np.ndarray:
    """Somebody's predictions for the pool: right three times in four."""
    truth = experiment().bench.truth
    given = np.where(np.arange(len(truth)) % 4, truth, (truth + 1) % 3)
    return (np.eye(3)[given] * 0.6 + 0.4 / 3).astype(np.float32)


def test_all_strategies_start_from_the_same_predictions_until_the_first_training(tmp_path: Path) -> None:
    found = played(tmp_path, "margin", "random", "badge", predictions=zero_shot(), repeats=1).results
    first = {name: found.picks(name, 0)[0].tolist() for name in ("margin", "random", "badge")}
    assert first["random"] == first["badge"] == firsts("random").picks  # who cannot choose by them starts as ever
    given, strategy = experiment(), from_nothing()
    loop = ActiveLoop(
        given.bench.pool, given.learner(), "margin", (), given.plan.run_seed(0), n_classes=3, predictions=zero_shot()
    )
    assert first["margin"] == loop.ask(SCHEDULE[0]).tolist()
    assert first["margin"] != firsts("margin").picks
    assert strategy.can_start("typiclust")
    assert not strategy.can_start("margin")
    plan = found.settings["plan"]
    assert (plan["start"], found.settings["predictions_from"]) == (0, "ndarray")
    assert len(plan["predictions"]) == 16
    with pytest.raises(UnderstudyError, match=r"is of another experiment: predictions was .* and is now not given"):
        compare(dataset(), ["margin"], out=tmp_path, schedule=SCHEDULE, learner=LEARNER, start=0)
    path = tmp_path / "rounds" / "margin" / "000"
    kept = (tmp_path / "results.parquet").read_bytes()
    for name in sorted(path.iterdir())[1:]:
        name.unlink()
    again = played(tmp_path, "margin", "random", "badge", predictions=zero_shot(), repeats=1).results
    assert again.picks("margin", 0)[0].tolist() == first["margin"]
    assert (tmp_path / "results.parquet").read_bytes() == kept


def test_predictions_stand_in_files_and_in_what_is_said(tmp_path: Path) -> None:
    path = tmp_path / "zero.npz"
    np.savez(path, probs=zero_shot(), ids=np.array(experiment().bench.pool.ids), classes=np.array(["a", "b", "c"]))
    made = compare(dataset(), ["margin", "random"], out=tmp_path / "a", learner=LEARNER, predictions=str(path))
    lines = made.describe()
    assert "trained from scratch at 30, 60 labels (doubling from 10 labels per class)" in lines[2]
    assert lines[3] == (
        "predictions and no labels to start from: margin choose their first rows, "
        "the others start from the same random rows"
    )
    with pytest.raises(UnderstudyError, match="predictions are seen only where the first labels are not shared"):
        Plan("d", "d1", ("a", "b"), 100, 20, learner="modern", schedule=(10, 20), predictions="abc")


def test_it_says_beforehand_who_chooses_first_rows(tmp_path: Path) -> None:
    said = compare(dataset(), ["typiclust", "margin", "random", "drop_query"], out=tmp_path, learner=LEARNER, start=0)
    lines = said.describe()
    assert "trained from scratch at 3, 6, 12, 24, 48 labels (doubling from one label per class)" in lines[2]
    assert lines[3] == (
        "no labels to start from: typiclust, drop_query choose their first rows, "
        "the others start from the same random rows"
    )
    none = compare(dataset(), ["margin", "random"], out=tmp_path / "b", learner=LEARNER, start=0).describe()
    assert none[3] == "no labels to start from: all start from the same random rows"
    shared = compare(dataset(), ["typiclust"], out=tmp_path / "c", learner=LEARNER).describe()
    assert not any("no labels to start from" in line for line in shared)


def test_the_report_claims_no_shared_start(whole: Results) -> None:
    page = write_report(whole, dataset()).read_text()
    assert "after the initial labels" not in page
    assert "first rows not shared" in page
    assert "--start 0" in commands_to_repeat(whole)[0]
    first = whole.picks("typiclust", 0)[0].tolist()
    assert picks.first_picks(whole, "typiclust", 5, 0) == (first[:5], [None] * 5)
    drawn, right = picks.first_picks(whole, "margin", 5, 0)
    assert drawn == whole.picks("margin", 0)[1].tolist()[:5]
    assert None not in right


def test_other_learners_judge_the_rows_that_each_started_from(whole: Results, tmp_path: Path) -> None:
    judged = replay(whole.folder, dataset(), LEARNER.replace("QUICKLY", "OTHERWISE"), out=tmp_path)
    found = judged.run(jobs=1, progress=False).results
    for name in ("typiclust", "margin", "random"):
        for theirs, ours in zip(found.picks(name, 1), whole.picks(name, 1), strict=True):
            np.testing.assert_array_equal(theirs, ours)


def test_schedules_without_a_shared_start_double() -> None:
    assert default_schedule(None, 1297, 10, start=0) == (10, 20, 40, 80, 160, 320, 640)
    assert len(default_schedule(None, 10**6, 10, start=0)) == 10
    assert default_schedule(None, 5, 4, start=0) == (4,)
    assert default_schedule("small", 1297, 10, start=0) == default_schedule("small", 1297, 10)


@pytest.mark.parametrize("start", [1, -1])
def test_another_start_is_refused(start: Any) -> None:
    with pytest.raises(UnderstudyError, match="start must be 0 or None"):
        Plan("digits", "d1", ("a", "b"), pool_rows=100, test_rows=20, learner="modern", schedule=(10, 20), start=start)


def test_the_command_takes_it(tmp_path: Path) -> None:
    given = ["compare", "digits", "--strategies", "random,typiclust", "--repeats", "1", "--schedule", "10,20"]
    given += ["--no-controls", "--learner", "logistic", "--jobs", "1", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*given, "--start", "0"])
    assert done.exit_code == 0, done.output
    assert "no labels to start from: typiclust choose" in re.sub(r"\s+", " ", done.output)
    picks = [Results.open(tmp_path / "out").picks(name, 0)[0].tolist() for name in ("random", "typiclust")]
    assert picks[0] != picks[1]
