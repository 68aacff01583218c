"""What is called redundant is counted right, chance is what random rows give, and a round is played by all alike."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.benchmarks.scripts import script, write_task
from understudy.learners.heads import Head
from understudy.learners.training import Recipe
from understudy.strategies.surrogate import SurrogateStrategy
from understudy.strategies.view import PoolView

measures = script("redundancy_measures")
redundancy = script("redundancy")


@pytest.fixture(autouse=True)
def quick_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (redundancy, script("study")):
        monkeypatch.setattr(module, "make_learner", lambda *_: Head((8,), recipe=Recipe(epochs=3)))


def test_near_copies_are_near_and_have_the_label_of_their_origin() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 6)).astype(np.float32), rng.integers(3, size=200)
    made = measures.plant(X, y, origins=10, copies=4, share=0.01, rng=rng)
    assert len(made.X) == len(made.y) == len(made.group) == 240
    np.testing.assert_array_equal(made.X[:200], X)
    pairs = np.linalg.norm(X[:, None] - X, axis=2)[~np.eye(200, dtype=bool)]
    assert made.noise == pytest.approx(0.01 * pairs.mean(), rel=0.05)
    for group in range(10):
        origin, *copies = np.flatnonzero(made.group == group)
        assert origin < 200
        assert len(copies) == 4
        np.testing.assert_allclose(np.linalg.norm(made.X[copies] - X[origin], axis=1), made.noise, rtol=1e-3)
        assert (made.y[copies] == y[origin]).all()


def test_picks_of_one_group_are_counted_once_over() -> None:
    group = np.array([-1, 3, 3, -1, 5, 3, 7, 7, -1])
    assert measures.copies_picked(group) == {"in_groups": 6, "with_fellow": 5, "repeats": 3}
    assert measures.copies_picked(np.array([-1, -1])) == {"in_groups": 0, "with_fellow": 0, "repeats": 0}


@pytest.mark.parametrize("picks", [1, 2, 4, 9])
def test_chance_is_the_mean_over_all_possible_picks(picks: int) -> None:
    group = np.array([0, 0, 0, 1, 1, 1, -1, -1, -1])
    counts = [measures.copies_picked(group[list(rows)]) for rows in combinations(range(9), picks)]
    expected = {name: float(np.mean([each[name] for each in counts])) for name in counts[0]}
    assert measures.copies_by_chance(9, groups=2, members=3, picks=picks) == pytest.approx(expected)


def test_distances_within_a_batch_leave_out_the_row_itself() -> None:
    rows = torch.tensor([[0.0, 0.0], [3.0, 4.0], [3.0, 4.001], [100.0, 0.0]])
    found = measures.nearest(rows, rows, itself=True)
    expected = [min(float((a - b).norm()) for j, b in enumerate(rows) if i != j) for i, a in enumerate(rows)]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-3)
    again = measures.nearest(rows, rows[:3], distinct=True)
    assert again[0] == pytest.approx(5.0)


def test_a_batch_of_pairs_is_crowded_and_a_random_one_is_not() -> None:
    rng = np.random.default_rng(0)
    pool = torch.from_numpy(rng.normal(size=(3000, 4)))
    random = [pool[torch.from_numpy(rng.choice(3000, 100, replace=False))] for _ in range(5)]
    alike = torch.cat([pool[:50], pool[:50] + 0.01])
    found, usual = (measures.distances_of(rows, pool[2000:2100], random) for rows in (alike, pool[:100]))
    assert found["crowding"] < 0.1
    assert usual["crowding"] == pytest.approx(1, abs=0.2)
    assert found["within"]["median"] == pytest.approx(0.02)
    assert found["within_over_random"]["mean"] < 0.1
    assert usual["to_labelled_over_random"]["mean"] == pytest.approx(1, abs=0.2)


def test_balance_is_one_for_equal_classes_and_zero_for_one() -> None:
    assert measures.balance(np.array([0, 1, 2, 0, 1, 2]), 3) == pytest.approx(1)
    assert measures.balance(np.array([1, 1, 1]), 3) == pytest.approx(0)
    assert measures.balance(np.array([0, 0, 1, 1]), 4) == pytest.approx(0.5)


def test_what_is_left_is_summed_over_the_nearest_rows() -> None:
    before, after = np.ones(2000), np.concatenate([[0.0], np.full(9, 0.5), np.ones(1990)])
    assert redundancy.what_is_left(before, after) == pytest.approx([0, 0.45, 0.945, 0.9945])


def test_a_small_run_measures_every_strategy_with_the_same_initial_labels(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    names = ["random", "entropy", "coreset", "weight_schedule", "surrogate", "surrogate_blind", "bald"]
    arguments = ["--rounds", "30:12", "--planted", "20", "--repeats", "2", "--basis", "12", "--out", str(out)]
    data = ["--data", str(write_task(tmp_path / "task.npz")), "--strategies", *names]
    redundancy.main([*arguments, *data])
    found = json.loads(out.read_text())
    (round_,) = found["rounds"]
    for part in ("pool", "copies"):
        assert list(round_[part]["strategies"]) == names[:-1]
        assert "stochastic" in round_[part]["failures"]["bald"]
        for entry in round_[part]["strategies"].values():
            assert len(entry["repeats"]) == 2
            assert 0 < entry["summary"]["accuracy"]["mean"] <= 1
    assert round_["copies"]["by_chance"]["in_groups"] == pytest.approx(12 * 100 / (480 - 30))
    assert all(0 < each["mean"] <= 1 for each in found["fall"]["influence"])


def test_our_picks_are_those_of_the_strategy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = redundancy.options("", 1).parse_args(["--data", str(write_task(tmp_path / "task.npz")), "--basis", "10"])
    given.learner, given.planted, given.copies = "modern", 20, 4
    scene = redundancy.scenes_of(redundancy.read_task(given.data, None, 0), given)[1]
    (state,) = redundancy.states_of(scene, 30, given)
    seed = redundancy.whole_number(0, redundancy.STREAM_STRATEGY, 0)
    ours = redundancy.picked(scene, state, "surrogate", 8, given)
    again = redundancy.picked(scene, state, "surrogate", 8, given)  # on the basis that was found before
    strategy = SurrogateStrategy(method="paper", basis_size=10)
    monkeypatch.setattr(strategy, "_make", _with_seed(strategy, seed))
    probs = state.model.predict_proba(scene.task.X)
    labels = redundancy.labels_of(scene.task, state.labelled)
    view = PoolView(labels, scene.task.n_classes, features=scene.table, probs=probs, round=1)
    theirs = strategy.rehearse(view, 8, scene.task.y, np.random.default_rng(0)).rows
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(again, theirs)
    assert not set(ours) & set(state.labelled)


def _with_seed(strategy: SurrogateStrategy, seed: int):  # type: ignore[no-untyped-def]
    make = strategy._make
    return lambda features, n_classes, _, device: make(features, n_classes, seed, device)
