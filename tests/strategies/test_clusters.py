"""K-means and what is made of its clusters: against Lloyd's algorithm by hand, and where points coincide."""

import numpy as np
import pytest
import torch

from understudy.errors import UnderstudyError
from understudy.strategies.clusters import (
    Clusters,
    _Scaled,
    _seeds,
    check_space,
    k_means,
    nearest_centres,
    nearest_members,
    turn_numbers,
)
from understudy.strategies.points import Points, unit_length


def blobs(k: int, each: int, d: int = 4, apart: float = 50.0, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    """k tight blobs far from each other, shuffled, and which blob each point is of."""
    rng = np.random.default_rng(seed)
    centres = apart * rng.standard_normal((k, d))
    owner = rng.permutation(np.repeat(np.arange(k), each))
    return torch.from_numpy(centres[owner] + rng.standard_normal((len(owner), d))), owner


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(5))
def test_blobs_far_apart_are_the_clusters(seed: int, dtype: torch.dtype) -> None:
    points, owner = blobs(8, 20, seed=seed)
    found = k_means(points.to(dtype), 8, rng(seed))
    assert found.centres.dtype == dtype
    for c in range(8):
        assert len(np.unique(owner[(found.assignment == c).numpy()])) == 1
        assert torch.allclose(found.centres[c], points[found.assignment == c].mean(0).to(dtype), atol=1e-3)


def test_centres_are_the_means_of_their_members_once_it_has_converged() -> None:
    points = torch.from_numpy(rng(1).standard_normal((200, 3)))
    found = k_means(points, 7, rng(), tolerance=0.0)
    for c in range(7):
        assert torch.allclose(found.centres[c], points[found.assignment == c].mean(0))


def test_every_point_belongs_to_the_nearest_of_the_very_centres_that_are_given() -> None:
    points = torch.from_numpy(rng(2).standard_normal((300, 5)))
    for found in (
        k_means(points, 12, rng(), max_iterations=1),
        k_means(points, 12, rng(), lloyd_up_to=5, batch_size=40),
    ):
        distances = torch.cdist(points, found.centres).square()
        assert (found.assignment == distances.argmin(1)).all()
        assert torch.allclose(found.distances, distances.min(1).values)
        assert (found.sizes == torch.bincount(found.assignment, minlength=12)).all()


def test_the_inertia_is_not_worse_than_that_of_lloyds_algorithm_from_random_points() -> None:
    points = torch.from_numpy(rng(3).standard_normal((400, 2)))
    centres = points[torch.from_numpy(rng(0).choice(400, 15, replace=False))].clone()
    for _ in range(100):
        nearest = torch.cdist(points, centres).argmin(1)
        centres = torch.stack([points[nearest == c].mean(0) for c in range(15)])
    literal = float(torch.cdist(points, centres).min(1).values.square().sum())
    assert float(k_means(points, 15, rng()).distances.sum()) < 1.02 * literal


def test_mini_batches_come_close_to_all_points_at_once() -> None:
    points, _ = blobs(30, 40, apart=3.0, seed=4)
    whole = k_means(points, 30, rng())
    parts = k_means(points, 30, rng(), lloyd_up_to=10, batch_size=200)
    assert float(parts.distances.sum()) < 1.1 * float(whole.distances.sum())
    assert int((parts.sizes == 0).sum()) == 0


def test_a_weight_is_as_many_copies() -> None:
    points, _ = blobs(3, 6, apart=5.0)
    weights = torch.tensor([1.0, 2.0, 3.0] * 6, dtype=torch.float64)
    copies = points.repeat_interleave(weights.long(), 0)
    weighted = k_means(points, 3, rng(), weights=weights, tolerance=0.0)
    copied = k_means(copies, 3, rng(), tolerance=0.0)
    one, other = (found.centres[found.centres[:, 0].argsort()] for found in (weighted, copied))
    assert torch.allclose(one, other)


@pytest.mark.parametrize("weights", [torch.zeros(18), torch.tensor([1.0] + 17 * [0.0])])
def test_weights_of_zero_are_no_harm(weights: torch.Tensor) -> None:
    points, owner = blobs(3, 6)
    found = k_means(points, 3, rng(), weights=weights)
    assert bool(torch.isfinite(found.centres).all())
    if not weights.any():
        assert len({(int(c), int(o)) for c, o in zip(found.assignment, owner, strict=True)}) == 3


@pytest.mark.parametrize("k", [6, 9])
def test_as_many_clusters_as_points_are_the_points(k: int) -> None:
    points = torch.from_numpy(rng(5).standard_normal((6, 2)))
    found = k_means(points, k, rng())
    assert (found.centres == points).all()
    assert found.assignment.tolist() == list(range(6))
    assert found.distances.tolist() == [0.0] * 6


@pytest.mark.parametrize("mini", [False, True])
def test_points_that_are_all_alike_make_clusters_without_members(mini: bool) -> None:
    points = torch.full((30, 3), 2.5)
    found = k_means(points, 4, rng(), lloyd_up_to=1, batch_size=10 if mini else 5000)
    assert torch.allclose(found.centres, points[:4])
    assert len(set(nearest_members(Points(points), found, 4).tolist())) == 4


def test_duplicates_are_found_once_each_before_any_comes_twice() -> None:
    distinct = torch.from_numpy(rng(6).standard_normal((5, 2)))
    points = distinct.repeat(4, 1)
    chosen = nearest_members(Points(points), k_means(points, 9, rng()), 9)
    assert len(set(chosen.tolist())) == 9
    assert sorted((chosen[:5] % 5).tolist()) == [0, 1, 2, 3, 4]


def test_the_nearest_members_are_those_found_by_looking_at_each_cluster() -> None:
    points = torch.from_numpy(rng(7).standard_normal((100, 3)))
    found = k_means(points, 6, rng())
    expected = []
    for c in sorted(range(6), key=lambda c: -int(found.sizes[c])):
        members = (found.assignment == c).nonzero()[:, 0]
        expected.append(int(members[(points[members] - found.centres[c]).square().sum(1).argmin()]))
    chosen = nearest_members(Points(points), found, 6).tolist()
    assert sorted(chosen) == sorted(expected)
    assert sorted(found.sizes[found.assignment[chosen]].tolist(), reverse=True) == [
        int(found.sizes[found.assignment[c]]) for c in chosen
    ]


def test_missing_clusters_are_replaced_by_the_farthest_points() -> None:
    points = torch.tensor([[0.0], [1.0], [2.0], [10.0], [20.0]])
    one = Clusters(torch.tensor([[1.0], [99.0]]), torch.zeros(5, dtype=torch.int64), (points[:, 0] - 1).square())
    assert nearest_members(Points(points), one, 4).tolist() == [1, 4, 3, 0]  # 20, then 10; 0 and 2 tie


def test_rows_and_unit_length_are_the_same_as_a_copy_made_so() -> None:
    table = torch.from_numpy(rng(8).standard_normal((50, 4)))
    rows = torch.arange(3, 50, 2)
    copy = unit_length(table[rows])
    lazy = Points(table, rows, unit=True)
    assert torch.equal(torch.cat([block for _, block in lazy.blocks()]), copy)
    assert torch.equal(lazy.take(torch.tensor([2, 0])), copy[[2, 0]])
    assert torch.equal(k_means(lazy, 4, rng()).assignment, k_means(copy, 4, rng()).assignment)


def test_the_size_of_blocks_changes_rounding_alone() -> None:
    points = torch.from_numpy(rng(9).standard_normal((47, 3)))
    whole = k_means(points, 5, rng())
    parts = k_means(Points(points, bytes_per_block=10 * 3 * 8), 5, rng())
    assert torch.equal(whole.assignment, parts.assignment)
    assert torch.allclose(whole.centres, parts.centres)


def test_an_offset_costs_no_digits_in_float32() -> None:
    points, owner = blobs(4, 10, seed=2)
    found = k_means((points + 4096).float(), 4, rng())
    plain = k_means(points.float(), 4, rng())
    assert torch.equal(found.assignment, plain.assignment)
    assert torch.allclose(found.distances, plain.distances, rtol=0.02, atol=0.02)
    assert len({(int(c), int(o)) for c, o in zip(found.assignment, owner, strict=True)}) == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_copies_are_no_seeds_while_there_are_other_points(dtype: torch.dtype) -> None:
    """Two points in 500 copies each, and 6 more very near: what rounding leaves between the copies is no distance."""
    for seed in range(20):
        two = torch.from_numpy(rng(seed).standard_normal((2, 64))).to(dtype)
        others = two[:1] + 5e-4 * torch.from_numpy(rng(100 + seed).standard_normal((6, 64))).to(dtype)
        scaled = _Scaled.of(Points(torch.cat([two.repeat(500, 1), others])))
        seeds = _seeds(scaled, 8, torch.ones(1006, dtype=dtype), rng(seed))
        assert len(np.unique(seeds.numpy(), axis=0)) == 8


def test_weights_a_little_below_zero_are_zero() -> None:
    points, _ = blobs(3, 6)
    weights = torch.tensor([1.0, -5e-4, 0.5] * 6)
    one, other = (k_means(points, 3, rng(), weights=each) for each in (weights, weights.clamp_min(0)))
    assert torch.equal(one.centres, other.centres)


def test_members_take_turns() -> None:
    assert turn_numbers(np.array([7, 3, 7, 7, 3, 9])).tolist() == [0, 0, 1, 2, 1, 0]


def test_missing_clusters_are_replaced_by_places_not_rows() -> None:
    table = torch.tensor([[9.0, 0.0], [1.0, 0.0], [2.0, 0.1], [0.0, 3.0], [-5.0, 0.0]], dtype=torch.float64)
    rows = torch.tensor([4, 1, 3, 2])
    one = Clusters(torch.ones(1, 2).double(), torch.zeros(4, dtype=torch.int64), torch.tensor([3.0, 0.0, 1.0, 2.0]))
    for unit in (True, False):
        assert nearest_members(Points(table, rows, unit), one, 4).tolist() == [1, 0, 2, 3]


def test_nearest_centres_of_given_places() -> None:
    nearest, squares = nearest_centres(Points(torch.tensor([[0.0], [1.0], [5.0]])), torch.tensor([[4.0], [0.5]]))
    assert nearest.tolist() == [1, 1, 0]
    assert squares.tolist() == pytest.approx([0.25, 0.25, 1.0])


def test_the_same_seed_gives_the_same_clusters_and_the_input_is_left_alone() -> None:
    points, _ = blobs(5, 30, apart=1.0)
    before = points.clone()
    for batch in (5000, 40):
        one, other = (k_means(points, 6, rng(3), lloyd_up_to=2, batch_size=batch) for _ in range(2))
        assert torch.equal(one.centres, other.centres)
    nearest_members(Points(points), one, 10)
    assert torch.equal(points, before)


def test_an_unknown_space_is_an_error() -> None:
    with pytest.raises(UnderstudyError, match="on must be one of hidden, features; got 'pixels'"):
        check_space("pixels")
