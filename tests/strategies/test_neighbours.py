"""Neighbours against the whole table of distances."""

import pytest
import torch

from understudy.strategies.neighbours import Neighbours
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
