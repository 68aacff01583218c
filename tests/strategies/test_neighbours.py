"""Neighbours against the whole table of distances."""

import pytest
import torch

from understudy.strategies.neighbours import Neighbours

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


@pytest.mark.parametrize("room", [10**8, 0])
def test_a_point_is_its_own_neighbour_however_small_the_ball(room: int) -> None:
    points = torch.rand(5, 40, generator=torch.Generator().manual_seed(0)) + 100  # float32 cannot tell 0 from 0.01 here
    near = Neighbours(points, 1e-9, 5, room)
    assert bool((near.counts >= 1).all())
    assert all(point in near.members(point).tolist() for point in range(5))
    assert bool((near.count_around(torch.arange(5)) >= 1).all())
