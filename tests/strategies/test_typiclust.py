"""TypiClust: against its algorithm written out, and rows near the modes of blobs."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.strategies.test_clusters import blobs
from understudy.errors import UnderstudyError
from understudy.strategies.points import unit_length
from understudy.strategies.typiclust import TypiClust, cluster_order, typicality
from understudy.strategies.view import Picks, PoolView


def choose(points: Any, n: int, labelled: Any = (), seed: int = 0, skipped: Any = (), **settings: Any) -> Picks:
    labels = np.full(len(points), -1)
    labels[list(labelled)] = 0
    view = PoolView(labels, 2, features=points, skipped=skipped)
    return TypiClust(**settings).select(view, n, np.random.default_rng(seed))


def literal_typicality(points: np.ndarray, neighbours: int, squared: bool) -> list[float]:
    found = []
    for i in range(len(points)):
        others = [float(((points[i] - points[j]) ** 2).sum()) for j in range(len(points)) if j != i]
        nearest = sorted(others)[: min(neighbours, len(points) // 2)]
        found.append(1 / (float(np.mean(nearest if squared else np.sqrt(nearest))) + 1e-5))
    return found


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("m", [2, 3, 7, 60])
def test_typicality_is_what_it_says(m: int, squared: bool) -> None:
    points = np.random.default_rng(m).standard_normal((m, 3)) + 100
    literal = literal_typicality(points, 20, squared)
    assert typicality(torch.from_numpy(points), 20, squared).tolist() == pytest.approx(literal)
    single = typicality(torch.from_numpy(points).float(), 20, squared)
    assert single.tolist() == pytest.approx(literal, rel=1e-3)
    in_blocks = typicality(torch.from_numpy(points), 20, squared, rows_per_block=4)
    assert in_blocks.tolist() == pytest.approx(literal)


def test_a_copy_is_a_neighbour_at_no_distance_and_a_point_alone_has_none() -> None:
    points = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 5.0]], dtype=torch.float64)
    assert typicality(points, 1, True).tolist() == pytest.approx([1e5, 1e5, 1 / (2 + 1e-5), 1 / (16 + 1e-5)])
    assert typicality(points[:1], 20, True).tolist() == [0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ten_copies_of_each_row_are_at_no_distance(dtype: torch.dtype) -> None:
    """Of nine copies each; what rounding in float32 leaves of such distances has a root larger than 1e-5."""
    points = unit_length(torch.rand(200, 64, generator=torch.Generator().manual_seed(0), dtype=dtype)).repeat(10, 1)
    found = typicality(points, 9, squared=False)
    assert found.tolist() == pytest.approx([1e5] * 2000, rel=0.01)
    more = literal_typicality(points[:120].double().repeat(2, 1).numpy(), 20, squared=False)
    assert typicality(points[:120].repeat(2, 1), 20, squared=False).tolist() == pytest.approx(more, rel=1e-4)


def test_clusters_are_ordered_by_labels_then_by_size() -> None:
    sizes, labelled = torch.tensor([7, 9, 8, 9, 30]), torch.tensor([0, 1, 0, 0, 2])
    assert cluster_order(sizes, labelled).tolist() == [3, 2, 0, 1, 4]


@pytest.mark.parametrize("seed", range(5))
def test_blobs_give_one_row_each_near_the_mode(seed: int) -> None:
    points, owner = blobs(6, 60, seed=seed)
    picks = choose(points, 6, seed=seed, normalise=False)
    assert sorted(owner[picks.rows]) == list(range(6))
    for row in picks.rows:
        members = points[torch.from_numpy(owner == owner[row])]
        gaps = (members - members.mean(0)).norm(dim=1)
        assert float((points[row] - members.mean(0)).norm()) < float(gaps.median())


def test_blobs_with_labels_come_last() -> None:
    points, owner = blobs(6, 30)
    labelled = [int(np.flatnonzero(owner == c)[0]) for c in (1, 4)]
    picks = choose(points, 4, labelled, normalise=False)
    assert sorted(owner[picks.rows]) == [0, 2, 3, 5]


@pytest.mark.parametrize("squared", [False, True])
def test_the_picks_are_those_of_the_algorithm_written_out(squared: bool) -> None:
    """On blobs of different sizes, which are the clusters whatever the seed; two turns and a bit."""
    sizes = [40, 31, 22, 13, 5]
    points, _ = blobs(5, 40, seed=3)
    places = np.random.default_rng(0).permutation(sum(sizes))
    centres = 60 * np.eye(5, 4) + 30
    owner = np.repeat(np.arange(5), sizes)[places]
    table = centres[owner] + points.numpy()[: len(owner)] / 50
    labelled = [int(np.flatnonzero(owner == 0)[0]), int(np.flatnonzero(owner == 2)[3])]

    unit = unit_length(torch.from_numpy(table)).numpy()
    labels = owner.copy()
    labels[labelled] = -1
    turns = [1, 3, 0, 2]  # without labels first, then by size; the cluster of 5 is too small
    expected, scores = [], []
    for i in range(9):
        members = np.flatnonzero(labels == turns[i % 4])
        found = literal_typicality(unit[members], 20, squared)
        expected.append(int(members[int(np.argmax(found))]))
        scores.append(max(found))
        labels[expected[-1]] = -1

    picks = choose(table, 9, labelled, max_clusters=5, squared=squared)
    assert picks.rows.tolist() == expected
    assert picks.scores.tolist() == pytest.approx(scores)


def test_small_clusters_wait_until_all_others_are_used_up() -> None:
    points = np.concatenate([np.zeros((8, 2)), np.full((4, 2), 50.0)])
    points += 0.01 * np.random.default_rng(0).standard_normal(points.shape)
    picks = choose(points, 12, normalise=False, max_clusters=2)
    assert sorted(picks.rows[:8]) == list(range(8))
    assert sorted(picks.rows[8:]) == [8, 9, 10, 11]
    assert picks.scores[7] == 0.0  # the last of its cluster


def test_skipped_rows_are_neighbours_but_are_not_chosen() -> None:
    line = np.array([[0.0], [1.0], [1.1], [1.21], [3.0], [6.0]])
    settings: dict[str, Any] = {"normalise": False, "max_clusters": 1, "neighbours": 2}
    assert choose(line, 1, **settings).rows.tolist() == [2]
    assert choose(line, 1, skipped=[2], **settings).rows.tolist() == [1]
    literal = literal_typicality(line, 2, True)
    assert choose(line, 1, skipped=[2], **settings).scores.tolist() == pytest.approx([literal[1]])


def test_clusters_that_take_hours_are_refused_with_what_to_do() -> None:
    points, _ = blobs(3, 10, seed=0)
    sizes = {1: 30 * 30, 2: 20 * 20 + 10 * 10, 3: 3 * 10 * 10}
    for n, distances in sizes.items():
        assert len(choose(points, n, max_distances=distances, normalise=False)) == n
        words = rf"takes {distances:,} distances, hours and more than {distances - 1:,}; ask for more rows at a time.*"
        with pytest.raises(UnderstudyError, match=words + f"pass max_distances={distances} to have them"):
            choose(points, n, max_distances=distances - 1, normalise=False)
    # As many rows as before, in more clusters: only the first look at each counts.
    assert len(choose(points, 9, max_distances=300, normalise=False, max_clusters=3)) == 9


@pytest.mark.parametrize("name", ["max_clusters", "min_cluster_size", "neighbours", "max_distances"])
def test_bad_settings_are_errors(name: str) -> None:
    with pytest.raises(UnderstudyError, match=f"{name} must be a whole number of at least 1; got 0"):
        TypiClust(**{name: 0})  # type: ignore[arg-type]
    broken = TypiClust()
    object.__setattr__(broken, name, 2.5)
    with pytest.raises(UnderstudyError, match=f"{name} must be a whole number of at least [0-9]; got 2.5"):
        broken.__post_init__()
