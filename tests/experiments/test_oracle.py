"""The choice that looks at labels: its closed forms are those of fitting again, and it keeps off the test set."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.small import ARRAYS, LEARNER, SCHEDULE, dataset, experiment, part, rounds_of
from tests.experiments.test_run import only
from understudy import UnderstudyError
from understudy.data.pool import Dataset
from understudy.experiments.compare import Comparison, compare
from understudy.experiments.oracle import PENALTIES, Oracle, Ridge, held_out_count
from understudy.experiments.report import commands_to_repeat
from understudy.experiments.results import CEILING, OFTEN, ORACLE
from understudy.experiments.summary import summarise
from understudy.experiments.tables import comparison_grid


def made(out: Path, *strategies: str, **more: Any) -> Comparison:
    settings = {"repeats": 2, "schedule": SCHEDULE, "learner": LEARNER, "controls": False, "oracle": True, **more}
    return compare(settings.pop("source", dataset()), strategies, out=out, **settings)


def problem(m: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    points, held_out = rng.standard_normal((m, 5)), rng.standard_normal((9, 5))
    return points, np.eye(3)[rng.integers(0, 3, m)], held_out, np.eye(3)[rng.integers(0, 3, 9)]


def loss_from_scratch(penalty: float, points: np.ndarray, answers: np.ndarray, *held_out: np.ndarray) -> float:
    weights = np.linalg.solve(points.T @ points + penalty * np.eye(points.shape[1]), points.T @ answers)
    return float(((held_out[1] - held_out[0] @ weights) ** 2).sum())


def test_gains_are_those_of_fitting_again_with_each_row() -> None:
    points, answers, *held_out = problem()
    losses = [loss_from_scratch(penalty, points[:8], answers[:8], *held_out) for penalty in PENALTIES]
    penalty = PENALTIES[int(np.argmin(losses))]
    ridge = Ridge.fit(points[:8], answers[:8], *held_out)
    assert ridge.loss == pytest.approx(min(losses))
    one_more = [
        loss_from_scratch(penalty, np.vstack([points[:8], points[i]]), np.vstack([answers[:8], answers[i]]), *held_out)
        for i in range(8, 12)
    ]
    np.testing.assert_allclose(ridge.gains(points[8:], answers[8:]), min(losses) - np.array(one_more))
    ridge.add(points[8:9], answers[8:9])
    ridge.add(points[9:], answers[9:])
    assert ridge.loss == pytest.approx(loss_from_scratch(penalty, points, answers, *held_out))


def test_margins_are_of_the_answer_over_the_next_class() -> None:
    points, answers, *held_out = problem()
    ridge = Ridge.fit(points, answers, *held_out)
    found = points @ ridge.weights
    literal = [
        row[answer.argmax()] - max(value for at, value in enumerate(row) if at != answer.argmax())
        for row, answer in zip(found, answers, strict=True)
    ]
    np.testing.assert_allclose(ridge.margins(points, answers), literal)


def test_held_out_rows_stay_the_same_and_are_never_taken() -> None:
    given = experiment()
    oracle = Oracle.of(given.plan, 0, given.bench.pool, given.bench.truth, given.bench.truth)
    is_open = np.ones(120, bool)
    is_open[given.plan.initial_rows(0)] = False
    held_out = oracle.held_out(is_open)
    assert len(held_out) == held_out_count(given.plan) == 47
    rounds = only(rounds_of(given, ORACLE), ORACLE)
    for one in rounds:
        is_open[one.picks] = False
        np.testing.assert_array_equal(oracle.held_out(is_open), held_out)
    assert not {*held_out.tolist()} & {row for one in rounds for row in one.picks}


def test_the_first_row_taken_is_the_best_of_those_that_are_most_wrong() -> None:
    given = experiment()
    truth = given.bench.truth
    oracle = Oracle.of(given.plan, 0, given.bench.pool, truth, truth)
    labelled = np.sort(given.plan.initial_rows(0))
    is_open = np.ones(120, bool)
    is_open[labelled] = False
    held_out = oracle.held_out(is_open)
    is_open[held_out] = False
    rows = np.flatnonzero(is_open)
    parts = [each for some in (labelled, held_out) for each in (oracle.encode(some), oracle.one_hot(truth[some]))]
    ridge = Ridge.fit(parts[0], parts[1], parts[2], parts[3])
    points, answers = oracle.encode(rows), oracle.one_hot(truth[rows])
    worst = np.argsort(ridge.margins(points, answers), kind="stable")[:64]
    gains = ridge.gains(points[worst], answers[worst])
    picks = oracle.choose(labelled, 3)
    assert picks.rows[0] == rows[worst[gains.argmax()]]
    assert picks.scores[0] == pytest.approx(gains.max())
    assert len(set(picks.rows.tolist())) == 3


def test_many_rows_are_taken_several_at_a_time_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given = experiment()
    oracle = Oracle.of(given.plan, 0, given.bench.pool, given.bench.truth, given.bench.truth)
    labelled = np.sort(given.plan.initial_rows(0))
    one_by_one = oracle.choose(labelled, 7).rows.tolist()
    monkeypatch.setattr("understudy.experiments.oracle.MAX_STEPS", 3)
    found = oracle.choose(labelled, 7).rows.tolist()
    assert len({*found} - {*labelled.tolist()}) == 7
    assert found[0] == one_by_one[0]


def test_the_test_set_and_the_labels_of_others_change_no_choice(tmp_path: Path) -> None:
    first = made(tmp_path / "a", "random", repeats=1).run(jobs=1, progress=False).results
    test = part(range(120, 170), labels=np.roll(ARRAYS.truth[120:170], 1))
    changed = Dataset("small", part(range(120)), test)
    second = made(tmp_path / "b", "random", repeats=1, source=changed).run(jobs=1, progress=False).results
    for one, other in zip(first.picks(ORACLE, 0), second.picks(ORACLE, 0), strict=True):
        np.testing.assert_array_equal(one, other)
    assert first.picks(ORACLE, 0)[0].tolist() == first.picks("random", 0)[0].tolist()


def test_with_wrong_answers_it_may_avoid_them(tmp_path: Path) -> None:
    comparison = made(tmp_path, "random", wrong=0.4)
    results = comparison.run(jobs=1, progress=False).results
    given = comparison.task.experiment

    def share_of_wrong(name: str) -> float:
        found = []
        for repeat in range(2):
            picks = np.concatenate(results.picks(name, repeat)[1:])
            found.append((given.plan.answers(given.bench.truth, repeat) != given.bench.truth)[picks].mean())
        return float(np.mean(found))

    assert share_of_wrong(ORACLE) < share_of_wrong("random")


def test_it_is_shown_and_never_ranked_and_stands_in_the_command(tmp_path: Path) -> None:
    results = made(tmp_path, "random", "margin", repeats=1).run(jobs=1, progress=False).results
    found = summarise(results).findings
    assert found is not None
    assert set(found.curves.accuracy) == {"random", "margin", ORACLE}
    assert ORACLE not in {one.strategy for one in found.comparisons} | {found.reference}
    assert ORACLE not in repr(found.ranks)
    notes = comparison_grid(found.curves).notes
    assert "oracle is a choice that looks at labels; for orientation, not compared." in notes
    card = str(found.curves._repr_html_())
    places = [card.rindex(f"{name}</td>") for name in (*found.best_first[:2], ORACLE)]
    assert places == sorted(places)
    [command, _] = commands_to_repeat(results)
    assert "--oracle" in command
    assert "--no-controls" in command
    assert "--oracle" not in commands_to_repeat(made(tmp_path / "b", "random", oracle=False, repeats=1).run(
        jobs=1, progress=False).results)[0]  # fmt: skip


def test_it_goes_on_from_any_round_and_begins_like_those_that_need_a_learner(tmp_path: Path) -> None:
    whole = only(rounds_of(experiment(), ORACLE), ORACLE)
    oracle = Oracle.of(experiment().plan, 0, experiment().bench.pool, *[experiment().bench.truth] * 2)
    for before, after in pairwise(whole):
        labelled = np.sort(np.concatenate([one.picks for one in whole[: before.round + 1]]))
        assert oracle.choose(labelled, after.labels - before.labels).rows.tolist() == after.picks
    results = made(tmp_path, "random", start=0, repeats=1).run(jobs=1, progress=False).results
    assert results.picks(ORACLE, 0)[0].tolist() == results.picks("random", 0)[0].tolist()


@pytest.mark.parametrize(
    ("strategies", "more", "message"),
    [
        (["random"], {"schedule": (9, 110)}, "schedule ends at 110 labels of 120 rows; end it at 100 or fewer"),
        (["random"], {"source": Dataset("n", part(range(40), features=None), part(range(9), features=None)),
                      "learner": "tests.experiments.test_regimes:BY_NAME"}, "judges candidates by features"),
        ([ORACLE], {}, "oracle is a control and runs where --oracle (oracle=True) asks for it; leave it out"),
    ],
)  # fmt: skip
def test_where_it_cannot_be_run_a_line_says_so(
    tmp_path: Path, strategies: list[str], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnderstudyError) as caught:
        made(tmp_path / "out", *strategies, **more)
    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_the_controls_are_asked_for_apart(tmp_path: Path) -> None:
    found = {unit.strategy for unit in made(tmp_path, "random", controls=True).task.units}
    assert found == {"random", OFTEN, ORACLE, CEILING}
