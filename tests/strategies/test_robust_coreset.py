"""The integer program: the best radius of all sets of centres, and never a worse one than greedy's."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from understudy.errors import UnderstudyError
from understudy.strategies import robust_coreset
from understudy.strategies.kcenter import CoreSet
from understudy.strategies.robust_coreset import RobustCoreSet
from understudy.strategies.view import Picks, PoolView

# Rows 0 and 1 are labelled, 2 pending, 3 and 4 skipped. What is left can be chosen.
SOME_TAKEN: dict[str, Any] = {"labelled": [0, 1], "pending": [2], "skipped": []}
SOME_SKIPPED: dict[str, Any] = {"labelled": [0], "pending": [], "skipped": [3, 4]}
NONE_TAKEN: dict[str, Any] = {"labelled": [], "pending": [], "skipped": []}


def make_view(points: np.ndarray, labelled: list[int], pending: list[int], skipped: list[int]) -> PoolView:
    labels = np.full(len(points), -1)
    labels[labelled] = 0
    return PoolView(labels, 1, hidden=points, pending=pending, skipped=skipped)


def radius(view: PoolView, rows: Any, spare: int) -> float:
    """How far the farthest row is from its nearest centre when `spare` rows may be forgotten."""
    points = view.hidden.double().numpy()
    centres = [*view.taken.tolist(), *rows]
    lengths = np.linalg.norm(points[:, None] - points[centres], axis=2).min(1)
    return float(np.sort(lengths)[-1 - spare])


def choose(view: PoolView, n: int, seed: int = 0, **settings: Any) -> Picks:
    return RobustCoreSet(**settings).select(view, n, np.random.default_rng(seed))


@pytest.mark.parametrize("spare", [0, 1, 3])
@pytest.mark.parametrize("state", [SOME_TAKEN, SOME_SKIPPED, NONE_TAKEN])
def test_no_set_of_centres_has_a_smaller_radius(state: dict[str, Any], spare: int) -> None:
    improved = 0
    for seed in range(4):
        view = make_view(np.random.default_rng(seed).standard_normal((12, 2)), **state)
        for n in (1, 3):
            best = min(radius(view, rows, spare) for rows in combinations(view.candidates(n).tolist(), n))
            picks = choose(view, n, outliers=spare / 12)
            assert radius(view, picks.rows.tolist(), spare) == pytest.approx(best, rel=1e-9)
            greedy = CoreSet().select(view, n, np.random.default_rng(0))
            improved += best < radius(view, greedy.rows.tolist(), spare) * (1 - 1e-9)
    assert improved > 2  # or this would be a test of greedy


def test_outliers_are_forgotten_only_if_they_may_be() -> None:
    points = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [1000.0]])
    view = make_view(points, **NONE_TAKEN)
    assert choose(view, 1, outliers=1 / 6).rows.tolist() == [2]
    assert choose(view, 2, outliers=0).rows.tolist() in ([2, 5], [5, 2])


def test_the_share_of_outliers_is_rounded_up_and_none_stay_none() -> None:
    points = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [1000.0]])
    view = make_view(points, **NONE_TAKEN)
    assert choose(view, 1).rows.tolist() == [2]  # the default, 1e-4: one row of six may be forgotten
    assert radius(view, choose(view, 1, outliers=0.0).rows.tolist(), 0) == 996
    # A third of six is two, however the product comes out.
    far = make_view(np.append(points[:5], [[1000.0], [2000.0]], axis=0)[1:], **NONE_TAKEN)
    assert radius(far, choose(far, 1, outliers=1 / 3).rows.tolist(), 2) == 2


def test_where_every_row_is_asked_for_no_program_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    view = make_view(np.random.default_rng(0).standard_normal((12, 2)), **SOME_TAKEN)
    greedy = CoreSet().select(view, 9, np.random.default_rng(0))
    monkeypatch.delattr(robust_coreset, "CoverProgram")
    picks = choose(view, 9)
    assert picks.rows.tolist() == greedy.rows.tolist()
    assert picks.scores.tolist() == greedy.scores.tolist()


def test_an_optimum_below_half_of_greedys_radius_is_found() -> None:
    # Greedy spends its centres on the two far rows. It is better to forget one of them.
    points = np.array([[0.0], [100.0], [101.0], [102.0], [103.0], [500.0], [-500.0]])
    view = make_view(points, labelled=[0], pending=[], skipped=[])
    greedy = CoreSet().select(view, 2, np.random.default_rng(0))
    assert radius(view, greedy.rows.tolist(), 1) == 102
    assert radius(view, choose(view, 2, outliers=1 / 7).rows.tolist(), 1) == 2


@pytest.mark.parametrize("seed", range(3))
def test_it_is_never_worse_than_greedy(seed: int) -> None:
    points = np.random.default_rng(seed).standard_normal((150, 5)).astype(np.float32)
    view = make_view(points, list(range(10)), [], [])
    greedy = CoreSet().select(view, 12, np.random.default_rng(0))
    picks = choose(view, 12, outliers=0.0, time_limit=0.5)
    assert radius(view, picks.rows.tolist(), 0) <= radius(view, greedy.rows.tolist(), 0)


def test_without_time_it_is_greedy() -> None:
    points = np.random.default_rng(0).standard_normal((150, 5))
    view = make_view(points, list(range(10)), [], [])
    greedy = CoreSet().select(view, 12, np.random.default_rng(0))
    picks = choose(view, 12, time_limit=1e-9)
    assert picks.rows.tolist() == greedy.rows.tolist()
    assert picks.scores.tolist() == greedy.scores.tolist()


def test_picks_come_farthest_first() -> None:
    points = np.random.default_rng(5).standard_normal((60, 3))
    view = make_view(points, [0, 1], [], [])
    picks = choose(view, 8)
    taken = [0, 1]
    for place, (row, score) in enumerate(zip(picks.rows.tolist(), picks.scores.tolist(), strict=True)):
        lengths = {i: np.linalg.norm(points[i] - points[taken], axis=1).min() for i in picks.rows.tolist()[place:]}
        assert score == pytest.approx(lengths[row])
        assert score == pytest.approx(max(lengths.values()))
        taken.append(row)


def test_centres_that_the_solver_does_not_use_are_added_by_greedy() -> None:
    points = np.concatenate([np.zeros((4, 1)), np.full((4, 1), 5.0)])
    picks = choose(make_view(points, **NONE_TAKEN), 4)
    assert len(set(picks.rows.tolist())) == 4
    assert sorted(picks.scores.tolist()) == [0, 0, 5, 5]


def test_only_some_rows_of_a_large_pool_are_looked_at() -> None:
    points = np.random.default_rng(0).standard_normal((300, 2))
    view = make_view(points, [0], [], list(range(250, 300)))
    one, other, again = (choose(view, 5, seed, max_points=40).rows.tolist() for seed in (0, 1, 0))
    assert one == again
    assert one != other
    assert len(choose(view, 50, max_points=1)) == 50


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"outliers": 1.0}, "outliers must be a number of at least 0 and below 1"),
        ({"outliers": -0.1}, "outliers must be a number of at least 0 and below 1"),
        ({"max_points": 0}, "max_points must be a whole number of at least 1"),
        ({"time_limit": 0.0}, "time_limit must be more than 0 seconds"),
        ({"time_limit": float("nan")}, "time_limit must be more than 0 seconds"),
    ],
)
def test_wrong_settings_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        RobustCoreSet(**settings)
