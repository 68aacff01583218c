"""ProbCover: the literal greedy cover, the radius, and what happens when all is covered."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from tests.strategies.pools import make_arrays
from understudy.errors import UnderstudyError
from understudy.strategies import probcover
from understudy.strategies.neighbours import Neighbours, check_distances
from understudy.strategies.probcover import ProbCover, cover, estimate_delta, pure_radius
from understudy.strategies.registry import make_strategy
from understudy.strategies.view import Picks, PoolView


def choose(points: np.ndarray, n: int, delta: float, labelled: tuple[int, ...] = (), **more: Any) -> Picks:
    labels = np.full(len(points), -1)
    labels[list(labelled)] = 0
    view = PoolView(labels, 2, features=points, **more)
    return ProbCover(delta=delta, normalise=False).select(view, n, np.random.default_rng(0))


def literal(
    points: np.ndarray, delta: float, taken: list[int], is_open: list[bool], n: int
) -> tuple[list[int], list[float]]:
    """Sets of rows, one ball at a time; then the row whose nearest taken or chosen one is farthest."""
    D = np.sqrt(((points[:, None] - points) ** 2).sum(2))
    balls = [set(np.flatnonzero(row < delta)) for row in D]
    covered = set().union(*(balls[row] for row in taken))
    chosen: list[int] = []
    scores: list[float] = []
    for _ in range(n):
        left = [row for row in range(len(points)) if is_open[row] and row not in chosen]
        gains = [len(balls[row] - covered) for row in left]
        if max(gains) > 0:
            best = int(np.argmax(gains))
            scores.append(gains[best])
        else:
            gaps = [D[row, taken + chosen].min() for row in left]
            best = int(np.argmax(gaps))
            scores.append(gaps[best] / delta)
        chosen.append(left[best])
        covered |= balls[left[best]]
    return chosen, scores


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("delta", [0.15, 0.4, 1.0])
def test_every_pick_is_that_of_the_literal_sets(seed: int, delta: float) -> None:
    points = np.random.default_rng(seed).random((30, 2))
    labelled = (4, 9) if seed % 2 else ()
    picks = choose(points, 24, delta, labelled, pending=[1], skipped=[2, 3])
    is_open = [row not in (1, 2, 3, *labelled) for row in range(30)]
    rows, scores = literal(points, delta, [1, *labelled], is_open, 24)
    assert picks.rows.tolist() == rows
    assert picks.scores.tolist() == pytest.approx(scores)


@pytest.mark.parametrize("name", ["probcover", "dcom"])
def test_more_distances_than_may_be_computed_are_refused_with_what_to_do(name: str) -> None:
    arrays = make_arrays(40)
    labels = np.where(np.arange(40) == 7, 0, -1)
    for probs in (None, arrays.probs) if name == "dcom" else (None,):
        view = PoolView(labels, 3, features=arrays.features, probs=probs)

        more = {"max_delta": 1e-6, "resolution": 1.0} if name == "dcom" else {}

        def select(most: int, view: PoolView = view, more: dict[str, float] = more) -> Picks:
            strategy = make_strategy(name, delta=1e-6, max_distances=most, **more)
            return strategy.select(view, 5, np.random.default_rng(0))

        distances = 39 * 40 - 39 * 19  # each of the uncovered with all, and their pairs once
        words = f"39 of 40 rows are not covered, .* more than {distances - 1}; pass max_distances={distances} to have"
        with pytest.raises(UnderstudyError, match=words):
            select(distances - 1)
        assert len(select(distances)) == 5


def test_a_million_rows_are_within_the_limits_and_more_on_a_gpu() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    check_distances(1_000_000, 1_000_000, cpu, None)
    check_distances(4_000_000, 10_000, cpu, None)  # the others are covered
    check_distances(4_000_000, 4_000_000, gpu, None)
    with pytest.raises(UnderstudyError, match=r"hours and more than 1,099,511,627,776; .* use a GPU, or take max_herd"):
        check_distances(4_000_000, 4_000_000, cpu, None)


def test_golden_line() -> None:
    points = np.array([[0.0], [1.0], [2.0], [50.0], [51.0], [90.0]])
    picks = choose(points, 6, 1.5)
    assert picks.rows.tolist() == [1, 3, 5, 0, 2, 4]
    assert picks.scores.tolist() == pytest.approx([3, 2, 1, 1 / 1.5, 1 / 1.5, 1 / 1.5])


def test_what_lies_around_labelled_and_pending_rows_is_covered_already() -> None:
    points = np.array([[0.0], [1.0], [2.0], [50.0], [51.0], [90.0]])
    assert choose(points, 1, 1.5, (1,)).rows.tolist() == [3]
    assert choose(points, 1, 1.5, (1,), pending=[4]).rows.tolist() == [5]


def test_rows_that_are_skipped_are_worth_covering() -> None:
    points = np.array([[0.0], [1.0], [2.0], [50.0], [51.0]])
    assert choose(points, 1, 1.5, skipped=[0, 1]).rows.tolist() == [2]


@pytest.mark.parametrize("seed", range(3))
def test_coverage_grows_by_the_scores_and_each_adds_no_more_than_the_last(seed: int) -> None:
    points = np.random.default_rng(seed).random((200, 2))
    picks = choose(points, 12, 0.12)
    near = np.sqrt(((points[:, None] - points) ** 2).sum(2)) < 0.12
    coverage = [near[picks.rows[:k]].any(0).sum() for k in range(13)]
    assert np.diff(coverage).tolist() == picks.scores.tolist()
    assert (np.diff(picks.scores) <= 0).all()


def test_picks_do_not_depend_on_whether_pairs_are_kept() -> None:
    points = torch.rand(2300, 2, generator=torch.Generator().manual_seed(0))
    taken, is_open = torch.tensor([3, 700]), torch.ones(2300, dtype=torch.bool)
    is_open[[3, 700]] = False
    kept, anew = (cover(points, 0.05, taken, is_open, 60, max_pairs) for max_pairs in (10**8, 0))
    assert kept[0].tolist() == anew[0].tolist()
    assert kept[1].tolist() == anew[1].tolist()


# -- where rounding decides who is near -------------------------------------------------------------------------------


def awkward(name: str) -> tuple[np.ndarray, ProbCover, int]:
    """Pools with many pairs as far apart as the radius, and more picks than it takes to cover them."""
    rng = np.random.default_rng(1)
    if name == "whole":
        return rng.integers(0, 3, (211, 6)) * 1.0, ProbCover(delta=2**0.5, normalise=False), 150
    if name == "lattice":
        turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
        points = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), -1).reshape(-1, 3)
        return points @ turn, ProbCover(delta=1.0, normalise=False), 150
    points = (rng.random((200, 20)) < 0.3) * 1.0
    points[:, 0] = 1
    return points, ProbCover(), 60


@pytest.mark.parametrize("max_pairs", [2**28, 0])
@pytest.mark.parametrize("picked_out", [0.0, 1 / 64, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["whole", "lattice", "binary"])
def test_no_row_is_chosen_twice_where_many_are_at_the_radius(
    name: str, dtype: type, picked_out: float, max_pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probcover, "cover", partial(cover, max_pairs=max_pairs, most_picked_out=picked_out))
    features, strategy, n = awkward(name)
    view = PoolView(np.full(len(features), -1), 5, features=features.astype(dtype))
    for count in (n, len(features)):
        picks = strategy.select(view, count, np.random.default_rng(1))
        assert len(set(picks.rows.tolist())) == count
        assert (np.diff(picks.scores) <= 1e-9).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_numbers_give_the_literal_picks_in_both_precisions(dtype: type) -> None:
    points = np.random.default_rng(1).integers(0, 3, (120, 5)) * 1.0
    picks = choose(points.astype(dtype), 100, 1.5)
    rows, _ = literal(points, 1.5, [], [True] * 120, 100)
    covering = int((picks.scores >= 1).sum())
    assert picks.rows[:covering].tolist() == rows[:covering]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_pair_seen_from_one_side_only_does_no_harm(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if rounding hid every second neighbour when a ball is looked at on its own."""
    plain = Neighbours.members
    monkeypatch.setattr(Neighbours, "members", lambda self, point: plain(self, point)[::2])
    points = torch.rand(150, 2, generator=torch.Generator().manual_seed(0), dtype=dtype)
    rows, degrees = cover(points, 0.2, torch.tensor([], dtype=torch.int64), torch.ones(150, dtype=torch.bool), 150)
    assert len(set(rows.tolist())) == len(rows)
    assert bool((degrees >= 1).all())


def test_copies_in_two_clusters_are_at_no_distance_in_single_precision() -> None:
    points = torch.rand(50, 40, generator=torch.Generator().manual_seed(0)).repeat(2, 1)
    clusters = torch.arange(100) // 50
    nearest = torch.pdist(points[:50].double()).min()
    # Every ball has a copy of its centre from the other cluster: no radius is pure, and none is above zero.
    assert pure_radius(points, clusters, torch.arange(100), 0.95) == np.inf
    points[7] += 10
    assert pure_radius(points, clusters, torch.arange(100), 0.95) >= float(nearest)


def test_it_stops_covering_when_all_is_covered() -> None:
    points = torch.rand(100, 2, generator=torch.Generator().manual_seed(0))
    rows, degrees = cover(points, 10.0, torch.tensor([], dtype=torch.int64), torch.ones(100, dtype=torch.bool), 5)
    assert rows.tolist() == [0]
    assert degrees.tolist() == [100]


def purity(points: np.ndarray, clusters: np.ndarray, centres: np.ndarray, delta: float) -> float:
    balls = np.sqrt(((points[centres][:, None] - points) ** 2).sum(2)) < delta
    return float(np.mean([len(set(clusters[ball])) == 1 for ball in balls]))


@pytest.mark.parametrize("alpha", [0.5, 0.95, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_radius_is_the_largest_with_that_purity(seed: int, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    points, clusters = rng.standard_normal((120, 3)), rng.integers(0, 3, 120)
    points += clusters[:, None]
    centres = np.sort(rng.permutation(120)[:40])
    radius = pure_radius(torch.from_numpy(points), torch.from_numpy(clusters), torch.from_numpy(centres), alpha)
    assert purity(points, clusters, centres, radius - 1e-9) >= alpha
    assert purity(points, clusters, centres, radius + 1e-9) < alpha


def test_the_estimated_radius_reaches_from_blob_to_blob() -> None:
    rng = np.random.default_rng(0)
    points = torch.from_numpy(np.repeat([[0.0, 0.0], [10.0, 0.0]], 100, 0) + rng.uniform(-0.5, 0.5, (200, 2)))
    assert 9 < estimate_delta(points, 2, rng, 0.95, 1000) < 11
    assert 9 < estimate_delta(points, 2, rng, 0.95, 7) < 11


def test_without_a_radius_there_is_one_pick_a_blob_before_any_second() -> None:
    rng = np.random.default_rng(0)
    angle = np.repeat([0.0, 1.5, 3.0], 20) + rng.uniform(-0.1, 0.1, 60)
    view = PoolView(np.full(60, -1), 3, features=np.stack([np.cos(angle), np.sin(angle)], 1) * rng.random((60, 1)))
    picks = ProbCover(alpha=1.0).select(view, 3, rng)
    assert sorted(picks.rows // 20) == [0, 1, 2]
    assert picks.scores.tolist() == [20, 20, 20]


def test_one_cluster_only_is_one_ball() -> None:
    points = torch.rand(10, 2, generator=torch.Generator().manual_seed(0))
    assert pure_radius(points, torch.zeros(10, dtype=torch.int64), torch.arange(10), 0.95) == np.inf
    view = PoolView(np.full(10, -1), 1, features=points)
    assert np.isfinite(ProbCover().select(view, 10, np.random.default_rng(0)).scores).all()


def test_clusters_that_touch_leave_a_radius_above_zero() -> None:
    points = torch.tensor([[0.0], [0.0], [3.0], [7.0]])
    radius = pure_radius(points, torch.tensor([0, 1, 1, 1]), torch.arange(4), 0.95)
    assert radius == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delta": 0.0}, "delta must be a number above 0"),
        ({"delta": float("inf")}, "delta must be a number above 0"),
        ({"alpha": 0.0}, "alpha must be a number above 0 and of at most 1"),
        ({"alpha": 1.5}, "alpha must be a number above 0 and of at most 1"),
        ({"purity_rows": 0}, "purity_rows must be a whole number of at least 1"),
    ],
)
def test_bad_settings_are_errors(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        ProbCover(**settings)  # type: ignore[arg-type]
