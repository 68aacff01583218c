"""Pools made harder: what each regime does, that nothing else changes, and that runs go on from any round."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.small import ARRAYS, CLASSES, LEARNER, SCHEDULE, dataset, images_of, only_results, part
from understudy import UnderstudyError
from understudy.data.items import ArrayImages, Texts
from understudy.data.pool import Dataset, Pool
from understudy.experiments.bench import Bench, bench_of
from understudy.experiments.compare import Comparison, compare, replay
from understudy.experiments.plan import Plan, Regime, regime_of
from understudy.experiments.regimes import NOISE, apply_regime, distances_to_nearest, thinned_rows
from understudy.experiments.report import commands_to_repeat
from understudy.experiments.results import ORACLE, Results, Round, RoundStore

HARDER: dict[str, dict[str, Any]] = {
    "imbalance": {"imbalance": 4},
    "wrong": {"wrong": 0.2},
    "duplicates": {"duplicates": 0.3},
    "all": {"imbalance": 3, "wrong": 0.2, "duplicates": 0.4},
    "all from nothing": {"imbalance": 3, "wrong": 0.2, "duplicates": 0.4, "start": 0},
    "all from predictions": {"imbalance": 3, "wrong": 0.2, "duplicates": 0.4, "predictions": np.full((120, 3), 1 / 3)},
}
STRATEGIES = ("surrogate_blind", "margin")


def made(out: Path, *strategies: str, **more: Any) -> Comparison:
    settings = {"repeats": 2, "schedule": SCHEDULE, "learner": LEARNER, "controls": False, "source": dataset(), **more}
    return compare(settings.pop("source"), strategies or STRATEGIES, out=out, **settings)


def plan(regime: Regime, seed: int = 0, rows: int = 1000) -> Plan:
    return Plan("d", "", CLASSES, rows, 20, learner="modern", schedule=(10, 20), seed=seed, regime=regime)


def bench() -> Bench:
    return bench_of(dataset())


# -- imbalance ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [2.0, 20.0])
def test_class_sizes_fall_geometrically_and_the_pool_has_rows_for_no_larger_ones(ratio: float) -> None:
    truth = np.repeat(np.arange(5), (100, 100, 90, 120, 100))
    rows = thinned_rows(truth, ratio, tuple("abcde"), seed=0)
    sizes = np.sort(np.bincount(truth[rows]))[::-1]
    np.testing.assert_allclose(sizes, sizes[0] * ratio ** -(np.arange(5) / 4), atol=1)
    counts = np.bincount(truth)
    assert (np.bincount(truth[rows]) == counts).any()  # one class is there whole
    assert (np.diff(rows) > 0).all()
    orders = {tuple(np.argsort(np.bincount(truth[thinned_rows(truth, ratio, tuple("abcde"), s)]))) for s in range(5)}
    assert len(orders) > 1


def test_a_thinned_pool_keeps_its_items_as_they_are_and_the_test_items_all_of_theirs() -> None:
    whole = bench()
    made, rows = apply_regime(whole, Regime(imbalance=5), 0)
    assert made.pool.ids == tuple(whole.pool.ids[row] for row in rows)
    np.testing.assert_array_equal(made.truth, whole.truth[rows])
    np.testing.assert_array_equal(made.pool.features, ARRAYS.features[rows])
    assert made.test is whole.test


# -- wrong answers ------------------------------------------------------------------------------------------------


def test_that_share_of_answers_is_another_class_each_as_likely_and_fixed_by_the_repetition() -> None:
    truth = np.zeros(30_000, np.int64)
    given = plan(Regime(wrong=0.3), rows=len(truth))
    told = given.answers(truth, 0)
    counts = np.bincount(told, minlength=3) / len(truth)
    np.testing.assert_allclose(counts, [0.7, 0.15, 0.15], atol=0.015)
    np.testing.assert_array_equal(told, given.answers(truth, 0))
    assert (told != given.answers(truth, 1)).any()
    assert (told != plan(Regime(wrong=0.3), seed=1, rows=len(truth)).answers(truth, 0)).any()
    assert plan(Regime()).answers(truth, 0) is truth


def test_every_strategy_hears_the_same_answer_and_is_judged_by_the_right_one(tmp_path: Path) -> None:
    comparison = made(tmp_path, "margin", "random", "surrogate", wrong=0.3, repeats=1)
    assert comparison.run(jobs=1, progress=False).failed == {}
    given = comparison.task.experiment
    told = given.plan.answers(given.bench.truth, 0)
    results = Results.open(tmp_path)
    assert (told != given.bench.truth).any()
    for name in results.strategies:
        picks = np.concatenate(results.picks(name, 0))
        [last] = [row for row in results.table.to_pylist() if row["strategy"] == name and row["labels"] == SCHEDULE[-1]]
        assert last["class_counts"] == np.bincount(told[picks], minlength=3).tolist()
    np.testing.assert_array_equal(given.bench.test_labels, ARRAYS.truth[120:])
    assert made(tmp_path / "other", wrong=0.3).task.experiment.bench.digest() == given.plan.digest


# -- near-copies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_that_share_of_the_pool_are_copies_near_their_source(share: float) -> None:
    whole = bench()
    found, rows = apply_regime(whole, Regime(duplicates=share), 0)
    n, pool = len(whole.pool), found.pool
    assert (len(pool) - n) / len(pool) == pytest.approx(share, abs=0.005)
    np.testing.assert_array_equal(rows[:n], np.arange(n))
    times = np.bincount(rows[n:], minlength=n)
    assert times.max() - times.min() <= 1
    assert pool.features is not None
    np.testing.assert_array_equal(pool.features[:n], ARRAYS.features[:n])
    np.testing.assert_array_equal(found.truth, whole.truth[rows])
    features = ARRAYS.features[:n].astype(np.float64)
    apart = np.linalg.norm(features[:, None] - features, axis=2)
    np.fill_diagonal(apart, np.inf)
    moved = np.linalg.norm(pool.features[n:] - features[rows[n:]], axis=1)
    np.testing.assert_allclose(moved, NOISE * apart.min(1)[rows[n:]], rtol=1e-3)
    assert found.test is whole.test


def test_the_nearest_row_is_another_one_also_among_some_and_where_there_is_none() -> None:
    points = np.array([[0.0, 0], [3, 4], [3, 4], [10, 4]])
    everything = np.arange(4)
    np.testing.assert_allclose(distances_to_nearest(points, everything, everything), [5, 0, 0, 7])
    np.testing.assert_allclose(distances_to_nearest(points, np.array([0, 3]), np.array([0, 1])), [5, 7])
    np.testing.assert_allclose(distances_to_nearest(points, np.array([0]), np.array([0])), [0])


def test_copies_of_raw_items_are_exact_and_identities_are_new() -> None:
    pool = images_of(range(20))
    taken = replace(pool, ids=("item 1 (copy 1)", *pool.ids[1:]))
    given = Bench("images", taken, part(range(120, 150)))
    found, rows = apply_regime(given, Regime(duplicates=0.5), 0)
    assert isinstance(found.pool.items, ArrayImages)
    np.testing.assert_array_equal(found.pool.items.pixels, ARRAYS.images[rows])
    assert len(set(found.pool.ids)) == 40
    assert "item 1 (copy 2)" in found.pool.ids
    texts = Pool(("1", "2"), Texts(["x", "y"]), labels=np.array([0, 1]), classes=("a", "b"))
    found, rows = apply_regime(Bench("texts", texts, texts), Regime(duplicates=0.5), 0)
    assert list(found.pool.raw_items()) == ["xy"[row] for row in rows]
    assert found.pool.features is None


@pytest.mark.parametrize("kind", [np.uint8, np.float16, np.float64])
def test_whole_numbers_become_floats_and_floats_stay_what_they_are(kind: type) -> None:
    values: np.ndarray = (ARRAYS.features * 20).round().clip(0, 255).astype(kind)
    given = Bench("some", part(range(50), features=values[:50]), part(range(120, 150)))
    found, _ = apply_regime(given, Regime(duplicates=0.5), 0)
    assert found.pool.features is not None
    assert found.pool.features.dtype == (np.float32 if kind is np.uint8 else kind)
    assert (found.pool.features[50:] != found.pool.features[50:].round()).any()


# -- together, stored and repeated --------------------------------------------------------------------------------


def test_a_copy_is_predicted_as_its_source_and_what_was_thinned_out_not_at_all(tmp_path: Path) -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 120)
    given = made(tmp_path, imbalance=3, duplicates=0.4, predictions=probs).task.experiment
    _, rows = apply_regime(bench(), given.plan.regime, 0)
    assert given.predictions is not None
    np.testing.assert_allclose(given.predictions, probs[rows], atol=1e-6)


def test_a_plan_without_a_regime_is_stored_as_before_and_one_with_it_comes_back() -> None:
    assert not {"regime", "imbalance", "wrong", "duplicates"} & plan(Regime()).as_json().keys()
    regime = Regime(20, 0.1, 0.3)
    stored = json.loads(json.dumps(plan(regime).as_json()))
    assert {name: stored[name] for name in regime.settings} == {"imbalance": 20, "wrong": 0.1, "duplicates": 0.3}
    assert regime_of(stored) == regime
    assert regime_of({}) == Regime()


def test_the_folder_of_another_regime_is_left_alone_and_the_usual_one_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "out", wrong=0.1)
    for other, message in (
        ({}, "wrong was 0.1 and is now not given"),
        ({"wrong": 0.2}, "wrong was 0.1 and is now 0.2"),
    ):
        with pytest.raises(UnderstudyError, match=message):
            made(tmp_path / "out", **other)
    monkeypatch.chdir(tmp_path)
    comparison = compare(dataset(), ["random"], schedule=SCHEDULE, learner=LEARNER, imbalance=4, duplicates=0.25)
    assert comparison.task.store.folder == Path("comparisons/small-imbalance4-duplicates0.25")


def test_regimes_are_said_and_in_the_command(tmp_path: Path) -> None:
    comparison = made(tmp_path, "random", repeats=1, imbalance=4, wrong=0.125, duplicates=0.3)
    line = "class sizes of the pool fall to 1/4, 30 % of the pool are near-copies, 12.5 % of the answers are wrong"
    assert line in comparison.describe()
    comparison.run(jobs=1, progress=False)
    [command, _] = commands_to_repeat(Results.open(tmp_path))
    assert " --imbalance 4 --wrong 0.125 --duplicates 0.3 " in command


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"imbalance": 1}, "imbalance must be a number above 1; got 1"),
        ({"imbalance": float("inf")}, "imbalance must be a number above 1; got inf"),
        ({"imbalance": 500}, "the pool has too few rows for classes of which the largest is 500 times the smallest"),
        ({"wrong": 0}, "wrong must be a number above 0 and below 1; got 0"),
        ({"wrong": 1}, "wrong must be a number above 0 and below 1; got 1"),
        ({"duplicates": 0.95}, "duplicates must be a number above 0 and of at most 0.9; got 0.95"),
        ({"duplicates": float("nan")}, "duplicates must be a number above 0 and of at most 0.9; got nan"),
        ({"imbalance": 20}, "the schedule ends at 26 labels, but the pool has"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    few = Dataset("few", part(range(40)), part(range(120, 170)))
    with pytest.raises(UnderstudyError, match=re.escape(message)) as caught:
        made(tmp_path / "out", **{"source": few, **more})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_copies_are_not_for_a_learner_that_knows_items_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match="knows items by their identities, and copies have new ones"):
        made(tmp_path, "random", duplicates=0.3, learner=f"{__name__}:BY_NAME")


class ByName:
    takes = "ids"
    offers: frozenset[str] = frozenset()

    def fit(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError


BY_NAME = ByName()


# -- going on -----------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for the end of a process."""


@pytest.mark.parametrize("name", HARDER)
def test_a_comparison_that_is_killed_and_one_of_two_processes_end_with_the_same_bytes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {**HARDER[name], "oracle": True}
    assert made(tmp_path / "whole", **more).run(jobs=1, progress=False).failed == {}
    add = RoundStore.add
    left = [3]

    def killing(self: RoundStore, rounds: list[Round]) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1
        add(self, rounds)

    while True:
        monkeypatch.setattr(RoundStore, "add", killing)
        comparison = made(tmp_path / "out", **more)
        try:
            assert comparison.run(jobs=1, progress=False).failed == {}
            break
        except Killed:
            left[0] = 5
    assert only_results(tmp_path / "out") == only_results(tmp_path / "whole")
    if name == "all":
        monkeypatch.undo()
        assert made(tmp_path / "two", **more).run(jobs=2, progress=False).failed == {}
        assert only_results(tmp_path / "two") == only_results(tmp_path / "whole")


def test_a_replay_tells_the_same_answers_of_the_same_pool(tmp_path: Path) -> None:
    more = {"imbalance": 3, "wrong": 0.2, "duplicates": 0.4}
    assert made(tmp_path / "out", "margin", **more, oracle=True).run(jobs=1, progress=False).failed == {}
    again = replay(tmp_path / "out", dataset(), LEARNER, out=tmp_path / "again").run(jobs=1, progress=False)
    assert again.failed == {}
    before = Results.open(tmp_path / "out")
    for name in ("margin", ORACLE):
        np.testing.assert_array_equal(again.results.curves([name]).of(name), before.curves([name]).of(name))
