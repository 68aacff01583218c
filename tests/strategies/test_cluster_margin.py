"""Cluster-Margin: the round robin and the linkage against their textbook forms, and singletons before giants."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.strategies.test_clusters import blobs
from understudy.errors import UnderstudyError
from understudy.strategies import cluster_margin
from understudy.strategies.cluster_margin import (
    ClusterMargin,
    average_linkage,
    divide_into_cells,
    fingerprint,
    round_robin,
)
from understudy.strategies.points import Points
from understudy.strategies.view import Picks, PoolView


def view_of(points: Any, first: Any = None, **more: Any) -> PoolView:
    first = np.full(len(points), 0.5) if first is None else np.asarray(first)
    return PoolView(np.full(len(points), -1), 2, features=points, probs=np.stack([first, 1 - first], 1), **more)


def choose(strategy: ClusterMargin, view: PoolView, n: int, seed: int = 0) -> Picks:
    return strategy.select(view, n, np.random.default_rng(seed))


def literal_round_robin(clusters: list[int], order: list[int], n: int) -> list[int]:
    groups: dict[int, list[int]] = {}
    for place in order:
        groups.setdefault(clusters[place], []).append(place)
    queue = sorted(groups, key=lambda c: (len(groups[c]), c))
    chosen: list[int] = []
    while len(chosen) < n:
        for c in queue:
            if groups[c] and len(chosen) < n:
                chosen.append(groups[c].pop(0))
    return chosen


def literal_linkage(points: np.ndarray, n_clusters: int) -> list[set[int]]:
    groups = [{i} for i in range(len(points))]
    while len(groups) > n_clusters:
        pairs = [(a, b) for a in range(len(groups)) for b in range(a)]
        mean = [
            np.mean([np.linalg.norm(points[i] - points[j]) for i in groups[a] for j in groups[b]]) for a, b in pairs
        ]
        a, b = pairs[int(np.argmin(mean))]
        groups[b] |= groups.pop(a)
    return groups


def as_sets(assignment: torch.Tensor) -> set[frozenset[int]]:
    return {frozenset((assignment == c).nonzero()[:, 0].tolist()) for c in set(assignment.tolist())}


@pytest.mark.parametrize("seed", range(10))
def test_the_round_robin_is_the_one_written_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    clusters, order = rng.integers(0, 9, 40) ** 2, rng.permutation(40)
    for n in (1, 5, 23, 40):
        expected = literal_round_robin(clusters.tolist(), order.tolist(), n)
        assert round_robin(clusters, order, n).tolist() == expected


@pytest.mark.parametrize("seed", range(3))
def test_the_linkage_is_the_one_written_out(seed: int) -> None:
    points = np.random.default_rng(seed).standard_normal((24, 3))
    made = average_linkage(Points(torch.from_numpy(points)), 100, 4.0, 0.0, np.random.default_rng(0))
    assert as_sets(made) == {frozenset(group) for group in literal_linkage(points, 6)}


def test_a_distance_in_place_of_a_size() -> None:
    line = torch.tensor([[0.0], [1.0], [10.0], [11.5], [30.0]])

    def made(distance: float) -> set[frozenset[int]]:
        return as_sets(average_linkage(Points(line), 9, None, distance, np.random.default_rng(0)))

    assert made(0.5) == {frozenset({i}) for i in range(5)}
    assert made(1.0) == {frozenset({0, 1}), frozenset({2}), frozenset({3}), frozenset({4})}
    assert made(2.0) == {frozenset({0, 1}), frozenset({2, 3}), frozenset({4})}
    assert made(99.0) == {frozenset(range(5))}


@pytest.mark.parametrize("cell_rows", [30, 200, 1000])
def test_clusters_have_the_size_asked_for_on_average_whether_or_not_the_pool_is_divided(cell_rows: int) -> None:
    points = torch.from_numpy(np.random.default_rng(0).standard_normal((700, 5)))
    made = average_linkage(Points(points), cell_rows, 10.0, 0.0, np.random.default_rng(0))
    found = len(set(made.tolist()))
    assert made.shape == (700,)
    assert int(made.max()) == found - 1
    assert found == max(70, len(divide_into_cells(Points(points), cell_rows, np.random.default_rng(0))))


def test_a_divided_pool_has_the_clusters_of_the_whole_where_they_are_far_apart() -> None:
    points, owner = blobs(12, 10)
    for cell_rows in (1000, 45):
        made = average_linkage(Points(points), cell_rows, 10.0, 0.0, np.random.default_rng(1))
        assert as_sets(made) == {frozenset(np.flatnonzero(owner == c).tolist()) for c in range(12)}


@pytest.mark.parametrize("constant", [False, True])
def test_cells_hold_every_row_once_and_not_more_than_they_may(constant: bool) -> None:
    points = torch.zeros(500, 3) if constant else torch.from_numpy(np.random.default_rng(0).standard_normal((500, 3)))
    cells = divide_into_cells(Points(points), 60, np.random.default_rng(0))
    assert max(len(cell) for cell in cells) <= 60
    assert sorted(torch.cat(cells).tolist()) == list(range(500))


@pytest.mark.parametrize("seed", range(5))
def test_singletons_come_before_a_giant_cluster(seed: int) -> None:
    rng = np.random.default_rng(seed)
    far = 100 * np.eye(12)
    points = rng.permutation(np.concatenate([0.1 * rng.standard_normal((100, 12)) - 100, far]))
    single = np.flatnonzero(points.max(1) > 50)
    picks = choose(ClusterMargin(average_size=112 / 13), view_of(points), 15, seed)
    assert len(single) == 12
    assert set(picks.rows[:12]) == set(single)


def test_only_the_smallest_margins_are_drawn_from() -> None:
    points, _ = blobs(10, 20)
    first = np.random.default_rng(0).random(200)
    near = np.argsort(abs(first - 0.5))
    for per_pick in (1, 1.25, 10):
        picks = choose(ClusterMargin(per_pick=per_pick), view_of(points, first), 8)
        assert set(picks.rows) <= set(near[: round(8 * per_pick)])
        assert picks.scores.tolist() == pytest.approx((1 - abs(2 * first[picks.rows] - 1)).tolist())


def test_rows_within_a_cluster_are_drawn_evenly() -> None:
    points = np.concatenate([np.zeros((5, 2)), np.ones((10, 2))]) + 1
    strategy, view = ClusterMargin(normalise=False, average_size=7.5), view_of(points * [1, 3])
    counts = np.zeros(15)
    for seed in range(300):
        picks = choose(strategy, view, 2, seed)
        assert picks.rows[0] < 5 <= picks.rows[1]  # the smaller cluster first
        counts[picks.rows] += 1
    # Chi-square: 99.9 % of fair draws stay under 18.5 with 4 degrees of freedom and 27.9 with 9.
    assert ((counts[:5] - 60) ** 2 / 60).sum() < 18.5
    assert ((counts[5:] - 30) ** 2 / 30).sum() < 27.9


def test_a_pool_is_clustered_once_and_another_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    plain = cluster_margin.average_linkage

    def counted(points: Points, *arguments: Any) -> torch.Tensor:
        calls.append(len(points))
        return plain(points, *arguments)

    monkeypatch.setattr(cluster_margin, "average_linkage", counted)
    points, _ = blobs(5, 10)
    strategy = ClusterMargin()
    one = choose(strategy, view_of(points), 4)
    other = choose(strategy, view_of(points.clone(), pending=[0]), 4, seed=1)
    assert calls == [50]
    assert one.rows.tolist() != other.rows.tolist()
    assert choose(strategy, view_of(points), 4).rows.tolist() == one.rows.tolist()
    choose(strategy, view_of(points[:40]), 4)
    choose(strategy, view_of(points[:40] + 1), 4)
    assert calls == [50, 40, 40]
    assert strategy == ClusterMargin()  # what it remembers is no setting


def test_picks_do_not_depend_on_what_came_before() -> None:
    """The pool is divided into cells by k-means, which draws."""
    points = np.random.default_rng(0).standard_normal((300, 4))
    view = view_of(points, np.random.default_rng(1).random(300))
    used = ClusterMargin(cell_rows=20)
    choose(used, view, 10, seed=0)
    again = choose(used, view, 25, seed=1)
    fresh = choose(ClusterMargin(cell_rows=20), view, 25, seed=1)
    assert again.rows.tolist() == fresh.rows.tolist()
    assert torch.equal(used.clusters(view.features), ClusterMargin(cell_rows=20).clusters(view.features.clone()))


def test_parts_of_rows_are_errors() -> None:
    broken = ClusterMargin()
    object.__setattr__(broken, "cell_rows", 2.5)
    with pytest.raises(UnderstudyError, match=r"cell_rows must be a whole number of at least [0-9]; got 2.5"):
        broken.__post_init__()


def test_features_that_differ_anywhere_or_in_their_order_have_other_names() -> None:
    points = torch.from_numpy(np.random.default_rng(0).standard_normal((20, 3)))
    other = points.clone()
    other[7, 1] += 1e-9
    names = {fingerprint(each) for each in (points, other, points.flip(0), points[:19], points.float())}
    assert len(names) == 5
    assert fingerprint(points.clone()) == fingerprint(points)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"per_pick": 0.5}, "per_pick must be a number of at least 1; got 0.5"),
        ({"average_size": 0}, "average_size must be a number of at least 1"),
        ({"per_pick": float("inf")}, "per_pick must be a number of at least 1; got inf"),
        ({"average_size": float("nan")}, "average_size must be a number of at least 1"),
        ({"distance": -1.0}, "distance must be a number of at least 0"),
        ({"distance": float("inf")}, "distance must be a number of at least 0"),
        ({"cell_rows": 1}, "cell_rows must be a whole number of at least 2"),
    ],
)
def test_bad_settings_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        ClusterMargin(**settings)
