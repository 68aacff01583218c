"""Neighbours against the whole table of distances."""

import pytest
import torch

from understudy.strategies.neighbours import Neighbours, Outline, order_by_cells
from understudy.strategies.points import exact_distances

RADIUS = 0.11
POINTS = torch.rand(2300, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)  # the last block is short
NEAR = torch.cdist(POINTS, POINTS) < RADIUS


@pytest.mark.parametrize("room", [10**8, 50_000])
@pytest.mark.parametrize("n_wanted", [0, 1024, 1500, 2300])
class TestAgainstTheTable:
    def test_pairs_are_kept_where_there_is_room(self, n_wanted: int, room: int) -> None:
        assert Neighbours(POINTS, RADIUS, n_wanted, room).is_kept == (room == 10**8 or n_wanted == 0)

    def test_every_point_counts_the_wanted_around_it(self, n_wanted: int, room: int) -> None:
        near = Neighbours(POINTS, RADIUS, n_wanted, room)
        assert near.counts.tolist() == NEAR[:, :n_wanted].sum(1).tolist()

    def test_members_are_the_wanted_neighbours(self, n_wanted: int, room: int) -> None:
        near = Neighbours(POINTS, RADIUS, n_wanted, room)
        for point in (0, 699, 1023, 1024, 2047, 2048, 2299):
            assert near.members(point).tolist() == NEAR[point, :n_wanted].nonzero()[:, 0].tolist()

    def test_some_are_counted_around_all(self, n_wanted: int, room: int) -> None:
        near = Neighbours(POINTS, RADIUS, n_wanted, room)
        which = torch.arange(n_wanted)[::3]
        assert near.count_around(which).tolist() == NEAR[:, which].sum(1).tolist()


def lattice(dtype: torch.dtype) -> torch.Tensor:
    """Whole numbers from 0 to 5 in three dimensions, turned: neighbours are at distance 1 but for rounding."""
    axes = torch.arange(6, dtype=torch.float64)
    points = torch.cartesian_prod(axes, axes, axes)
    turn = torch.linalg.qr(torch.rand((3, 3), generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]
    return (points @ turn).to(dtype)


def at_the_radius(name: str, dtype: torch.dtype) -> tuple[torch.Tensor, float]:
    """Pools in which a great many pairs are as far apart as the radius."""
    rng = torch.Generator().manual_seed(0)
    if name == "lattice":
        return lattice(dtype), 1.0
    if name == "whole":
        return torch.randint(3, (211, 6), generator=rng).to(dtype), 2**0.5
    return torch.cat([lattice(dtype), torch.full((1, 3), 1e4, dtype=dtype)]), 1.0  # a far point costs digits


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["lattice", "whole", "far"])
@pytest.mark.parametrize("share", [0.0, 1 / 64, 1.0])
def test_pairs_at_the_radius_are_seen_from_both_sides_and_in_float64(
    name: str, dtype: torch.dtype, share: float
) -> None:
    points, radius = at_the_radius(name, dtype)
    truth = exact_distances(points, points) < radius
    assert torch.equal(truth, truth.T)
    assert torch.allclose(exact_distances(points, points), (points[:, None].double() - points.double()).norm(dim=2))
    kept, anew = (Neighbours(points, radius, len(points), room, most_picked_out=share) for room in (10**8, 0))
    for near in (kept, anew):
        assert [near.members(point).tolist() for point in range(len(points))] == [
            row.nonzero()[:, 0].tolist() for row in truth
        ]
        assert near.counts.tolist() == truth.sum(1).tolist()
        assert near.count_around(torch.arange(len(points))).tolist() == truth.sum(1).tolist()


@pytest.mark.parametrize("room", [10**8, 0])
def test_places_are_those_of_the_order(room: int) -> None:
    order = torch.randperm(2300, generator=torch.Generator().manual_seed(1))
    near, copy = Neighbours(POINTS, RADIUS, 1500, room, order), Neighbours(POINTS[order], RADIUS, 1500, room)
    assert near.counts.tolist() == copy.counts.tolist()
    assert near.members(1700).tolist() == copy.members(1700).tolist()
    assert near.count_around(torch.arange(9)).tolist() == copy.count_around(torch.arange(9)).tolist()


@pytest.mark.parametrize("room", [10**8, 0])
def test_a_point_is_its_own_neighbour_however_small_the_ball(room: int) -> None:
    points = torch.rand(5, 40, generator=torch.Generator().manual_seed(0)) + 100  # float32 cannot tell 0 from 0.01 here
    near = Neighbours(points, 1e-9, 5, room)
    assert bool((near.counts >= 1).all())
    assert all(point in near.members(point).tolist() for point in range(5))
    assert bool((near.count_around(torch.arange(5)) >= 1).all())


def blobs(dtype: torch.dtype, d: int = 40) -> torch.Tensor:
    """Ten tight clusters and some points between them, in no order; the last block is short."""
    rng = torch.Generator().manual_seed(0)
    centres = 3 * torch.randn((10, d), generator=rng, dtype=torch.float64)
    points = centres[torch.randint(10, (2500,), generator=rng)]
    points += 0.2 * torch.randn(points.shape, generator=rng, dtype=torch.float64)
    points[::50] = 2 * torch.randn((50, d), generator=rng, dtype=torch.float64)
    return points.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("radius", [1e-3, 1.4, 1.8, 4.0, 100.0])
@pytest.mark.parametrize("room", [10**8, 0])
def test_in_many_columns_few_pairs_are_looked_at_and_none_is_missed(
    dtype: torch.dtype, radius: float, room: int
) -> None:
    points = blobs(dtype)
    order = order_by_cells(points, torch.arange(len(points)) % 3 == 0)
    truth = (exact_distances(points, points) < radius)[order][:, order]
    near = Neighbours(points, radius, 1666, room, order)
    assert near.counts.tolist() == truth[:, :1666].sum(1).tolist()
    for point in range(0, 2500, 83):
        assert near.members(point).tolist() == truth[point, :1666].nonzero()[:, 0].tolist()
    some = torch.arange(0, 1666, 7)
    assert near.count_around(some).tolist() == truth[:, some].sum(1).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_along_few_directions_no_pair_within_the_radius_is_out_of_reach(dtype: torch.dtype, offset: float) -> None:
    points = blobs(dtype) + offset
    order = torch.randperm(2500, generator=torch.Generator().manual_seed(1))
    outline = Outline.of(points, order)
    assert outline.seen.shape == (2500, 10)
    distances = exact_distances(points, points)[order][:, order]
    for radius in (0.5, 1.4, 4.0):
        for others in (slice(0, 100), slice(1000, 2024), slice(2400, 2500)):
            near = (distances[:, others] < radius).any(1)
            within = outline.within_reach(torch.arange(2500), others, radius)
            assert bool((within | ~near).all())
    if not offset:
        assert 0 < float(outline.within_reach(torch.arange(1000, 2500), slice(0, 1), 1.4).double().mean()) < 0.3


def test_too_few_columns_or_points_have_no_outline() -> None:
    for points in (torch.rand(3000, 3), torch.rand(900, 64)):
        outline = Outline.of(points, torch.arange(len(points)))
        assert outline.seen.shape == (len(points), 0)
        assert bool(outline.within_reach(torch.arange(5), slice(5, 9), 1e-9).all())


def test_points_of_a_cell_follow_each_other_and_the_last_come_last() -> None:
    points = blobs(torch.float64)
    is_last = torch.rand(2500, generator=torch.Generator().manual_seed(2)) < 0.4
    order = order_by_cells(points, is_last)
    assert sorted(order.tolist()) == list(range(2500))
    assert is_last[order].tolist() == sorted(is_last.tolist())
    assert torch.equal(order, order_by_cells(points.clone(), is_last))
    jumps = (points[order][1:] - points[order][:-1]).norm(dim=1).mean()
    assert jumps < 0.95 * (points[1:] - points[:-1]).norm(dim=1).mean()
    few = points[:7]
    assert order_by_cells(few, torch.arange(7) < 2).tolist() == [2, 3, 4, 5, 6, 0, 1]
