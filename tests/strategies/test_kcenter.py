"""K-center greedy: golden picks, the brute force it must equal, and what it does not depend on."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.strategies import kcenter
from understudy.strategies.kcenter import (
    CoreSet,
    FarthestFirst,
    Metric,
    SearchSizes,
    Start,
    kcenter_greedy,
    nearest_distances,
)
from understudy.strategies.registry import make_strategy
from understudy.strategies.view import PoolView

STARTS: tuple[Start, ...] = ("taken", "random")


def distance(x: np.ndarray, y: np.ndarray, metric: Metric = "euclidean") -> float:
    if metric == "cosine":
        return float(1 - x @ y / np.linalg.norm(x) / np.linalg.norm(y))
    return float(np.sqrt(((x - y) ** 2).sum()))


def brute_force(
    points: np.ndarray, centres: Any, candidates: Any, n: int, metric: Metric = "euclidean"
) -> tuple[list[int], list[float]]:
    """Every distance to every centre, anew for every pick."""
    centres, points, order, distances = list(centres), points.astype(np.float64), [], []
    for _ in range(n):
        left = [i for i in candidates if i not in order]
        nearest = [min(distance(points[i], points[j], metric) for j in centres) for i in left]
        best = int(np.argmax(nearest))
        order.append(left[best])
        distances.append(nearest[best])
        centres.append(left[best])
    return order, distances


def greedy(points: Any, centres: Any, candidates: Any, n: int, **more: Any) -> tuple[list[int], list[float]]:
    order, distances = kcenter_greedy(
        torch.as_tensor(points),
        torch.tensor(list(centres), dtype=torch.int64),
        torch.tensor(list(candidates), dtype=torch.int64),
        n,
        more.pop("rng", np.random.default_rng(0)),
        **more,
    )
    return order.tolist(), distances.tolist()


def chosen(points: Any, labelled: Any, n: int, name: str = "coreset", **settings: Any) -> list[int]:
    labels = np.full(len(points), -1)
    labels[labelled] = 0
    view = PoolView(labels, 1, hidden=points)
    rows: list[int] = make_strategy(name, **settings).select(view, n, np.random.default_rng(0)).rows.tolist()
    return rows


@pytest.mark.parametrize("name", ["coreset", "farthest_first"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_golden_picks_on_a_line(name: str, dtype: type) -> None:
    points: np.ndarray = np.array([[0], [1], [2], [3], [10]], dtype)
    view = PoolView([0, -1, -1, -1, -1], 1, hidden=points)
    picks = make_strategy(name).select(view, 4, np.random.default_rng(0))
    assert picks.rows.tolist() == [4, 3, 1, 2]  # 1 and 2 tie, at distance 1 from a centre
    assert picks.scores.tolist() == [10, 3, 1, 1]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("blocks", [(2, 3, 1, 1), (7, 5, 4, 2), (2048, 256, 64, 8)])
def test_lazy_bounds_choose_what_brute_force_does(metric: Metric, dtype: type, blocks: tuple[int, ...]) -> None:
    sizes = SearchSizes(*blocks)
    rng = np.random.default_rng(4)
    points: np.ndarray = rng.standard_normal((70, 6)).astype(dtype)
    for centres, candidates in ((range(3), range(3, 70)), (range(40, 52), range(1, 40, 2))):
        n = len(candidates)
        order, distances = greedy(points, centres, candidates, n, metric=metric, sizes=sizes)
        slow_order, slow_distances = brute_force(points, centres, candidates, n, metric)
        assert order == slow_order
        assert distances == pytest.approx(slow_distances, rel=1e-9)


def test_many_centres_and_leaders_in_several_blocks() -> None:
    points = np.random.default_rng(0).standard_normal((1500, 3)).astype(np.float32)
    plain = greedy(points, range(700), range(700, 1500), 300)
    sizes = SearchSizes(1500, 1500, 1500, 1500)
    assert greedy(points, range(700), range(700, 1500), 300, sizes=sizes) == plain
    measured = np.full(800, np.inf)
    for row in range(700):
        measured = np.minimum(measured, ((points[700:].astype(float) - points[row]) ** 2).sum(1))
    for row, length in zip(*plain, strict=True):
        assert row - 700 == measured.argmax()
        assert length == pytest.approx(measured.max() ** 0.5)
        measured = np.minimum(measured, ((points[700:].astype(float) - points[row]) ** 2).sum(1))
        measured[row - 700] = -1


def test_nearest_distances_are_those_of_all_pairs() -> None:
    points = torch.from_numpy(np.random.default_rng(0).standard_normal((900, 4)).astype(np.float32))
    centres, rows = torch.arange(600), torch.arange(550, 900)
    apart = (points[rows, None].double() - points[centres].double()).norm(dim=2)
    assert torch.allclose(nearest_distances(points, centres, rows), apart.amin(1), rtol=1e-12, atol=0)
    assert nearest_distances(points, centres[:0], rows[:2]).tolist() == [np.inf, np.inf]


def test_equal_distances_go_to_the_first_however_many_there_are() -> None:
    grid = np.stack(np.meshgrid(np.arange(9.0), np.arange(9.0)), -1).reshape(-1, 2)
    order, distances = greedy(grid, [40], range(40), 40)
    slow_order, slow_distances = brute_force(grid, [40], range(40), 40)
    assert order == slow_order
    assert distances == pytest.approx(slow_distances, rel=1e-12)  # roots differ by a rounding on some processors


def test_a_distant_origin_does_not_matter() -> None:
    points = np.round(np.random.default_rng(1).standard_normal((60, 4)), 3) + 1e6
    assert greedy(points, [0, 1], range(2, 60), 30)[0] == brute_force(points, [0, 1], range(2, 60), 30)[0]


def test_equal_rows_are_at_distance_zero_and_come_last_in_order() -> None:
    unlike = np.random.default_rng(2).standard_normal((5, 30)).astype(np.float32)
    points = np.repeat(unlike, 3, axis=0) + 100
    order, distances = greedy(points, [0], range(1, 15), 14)
    assert all(length > 1 for length in distances[:4])
    assert distances[4:] == [0.0] * 10
    assert order[4:] == sorted(order[4:])


def test_rotation_translation_and_scale_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    points = rng.standard_normal((50, 5))
    rotation = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    plain = chosen(points, [4, 9], 20)
    assert chosen(points @ rotation, [4, 9], 20) == plain
    assert chosen(points + rng.standard_normal(5), [4, 9], 20) == plain
    assert chosen(1e-3 * points, [4, 9], 20) == plain
    lengths = rng.uniform(0.1, 10, (50, 1))
    turned = chosen(points, [4, 9], 20, "farthest_first", metric="cosine")
    assert chosen(points * lengths, [4, 9], 20, "farthest_first", metric="cosine") == turned
    assert turned != plain


@pytest.mark.parametrize("seed", range(5))
def test_the_radius_is_at_most_twice_the_best(seed: int) -> None:
    points = np.random.default_rng(seed).standard_normal((11, 2))
    apart = np.linalg.norm(points[:, None] - points, axis=2)

    def radius(centres: tuple[int, ...]) -> float:
        return float(apart[:, list(centres)].min(1).max())

    best = min(radius((0, *more)) for more in combinations(range(1, 11), 3))
    assert best <= radius((0, *chosen(points, [0], 3))) <= 2 * best


def test_the_labelled_rows_are_where_they_are_not_at_the_origin() -> None:
    assert chosen(np.array([[5.0], [0.0], [9.0]]), [0], 1) == [1]


def test_pending_rows_count_as_taken_and_skipped_ones_do_not() -> None:
    points = np.array([[0.0], [10.0], [11.0], [30.0], [17.0]])
    view = PoolView([0, -1, -1, -1, -1], 1, hidden=points, pending=[1], skipped=[3])
    picks = CoreSet().select(view, 2, np.random.default_rng(0))
    assert picks.rows.tolist() == [4, 2]
    assert picks.scores.tolist() == [7, 1]


class TestWithoutCentres:
    def test_the_first_is_drawn_evenly_and_only_the_first(self) -> None:
        points = np.random.default_rng(0).standard_normal((6, 2))
        rng = np.random.default_rng(1)
        runs = [greedy(points, [], range(6), 4, rng=rng)[0] for _ in range(600)]
        counts = np.bincount([run[0] for run in runs], minlength=6)
        assert ((counts - 100) ** 2 / 100).sum() < 20.5  # chi-square with 5 degrees of freedom, 0.1 %
        for run in runs:
            assert run[1:] == brute_force(points, run[:1], [i for i in range(6) if i != run[0]], 3)[0]

    @pytest.mark.parametrize("n", [1, 2])
    def test_it_is_as_far_as_the_farthest_is_from_it(self, n: int) -> None:
        (first, *_), (length, *_) = greedy(np.array([[0.0], [1.0], [5.0]]), [], range(3), n)
        assert length == [5, 4, 5][first]

    def test_a_lonely_row_is_no_distance_away(self) -> None:
        assert greedy(np.ones((1, 2)), [], [0], 1) == ([0], [0.0])


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_random_start_is_any_row_and_the_rest_are_farthest_from_the_taken_and_it(metric: Metric) -> None:
    points = np.random.default_rng(0).standard_normal((8, 3))
    strategy = FarthestFirst(metric, start="random")
    view = PoolView([0, 0, *[-1] * 6], 1, hidden=points)
    rng = np.random.default_rng(1)
    firsts = []
    for _ in range(300):
        picks = strategy.select(view, 4, rng)
        first = int(picks.rows[0])
        left = [row for row in range(2, 8) if row != first]
        order, distances = brute_force(points, [0, 1, first], left, 3, metric)
        own = min(distance(points[first], points[row], metric) for row in (0, 1))
        assert picks.rows.tolist() == [first, *order]
        assert picks.scores.tolist() == pytest.approx([own, *distances])
        firsts.append(first)
    counts = np.bincount(firsts, minlength=8)[2:]
    assert ((counts - 50) ** 2 / 50).sum() < 20.5  # chi-square with 5 degrees of freedom, 0.1 %


def test_with_nothing_taken_both_starts_are_the_same() -> None:
    view = PoolView(np.full(20, -1), 1, hidden=np.random.default_rng(0).standard_normal((20, 3)))
    one, other = (FarthestFirst(start=start).select(view, 5, np.random.default_rng(3)) for start in STARTS)
    assert one.rows.tolist() == other.rows.tolist()
    assert one.scores.tolist() == other.scores.tolist()


def test_rows_of_zeros_have_no_direction_and_do_not_crowd() -> None:
    points = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]])
    order, distances = greedy(points, [2], [0, 1, 3, 4], 4, metric="cosine")
    assert order == [4, 0, 1, 3]
    assert distances == [2.0, 0.5, 0.0, 0.0]


def test_most_distances_are_never_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = 0
    compare = kcenter.DistanceBounds._compare

    def counted(self: kcenter.DistanceBounds, which: Tensor, X: Tensor, start: int, end: int) -> None:
        nonlocal measured
        measured += len(which) * (end - start)
        compare(self, which, X, start, end)

    monkeypatch.setattr(kcenter.DistanceBounds, "_compare", counted)
    greedy(np.random.default_rng(0).standard_normal((6000, 16)), range(200), range(200, 6000), 100)
    assert measured < 0.3 * 300 * 5800


def test_an_unknown_metric_or_start_is_an_error() -> None:
    with pytest.raises(UnderstudyError, match="metric must be one of euclidean, cosine; got 'taxi'"):
        FarthestFirst("taxi")  # type: ignore[arg-type]
    with pytest.raises(UnderstudyError, match="start must be one of taken, random; got 'first'"):
        FarthestFirst(start="first")  # type: ignore[arg-type]
