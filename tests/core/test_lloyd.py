"""The step that every k-means shares, against means taken by hand."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from understudy.core.blocks import block_slices
from understudy.core.lloyd import lloyd_step, mean_and_spread, run_lloyd


@dataclass
class Table:
    """Points that are their own scale, in blocks of three."""

    X: Tensor

    def __len__(self) -> int:
        return len(self.X)

    def blocks(self) -> Iterator[tuple[int, Tensor]]:
        for some in block_slices(len(self.X), 3):
            yield some.start, self.X[some]

    def take(self, places: Tensor) -> Tensor:
        return self.X[places]


def points(n: int = 50, d: int = 3) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(n, d)))


def test_a_step_moves_each_centre_to_the_mean_of_its_points() -> None:
    X, centres = points(), points(4)
    moved, inertia = lloyd_step(Table(X), centres)
    nearest = torch.cdist(X, centres).argmin(1)
    for c in range(4):
        torch.testing.assert_close(moved[c], X[nearest == c].mean(0))
    assert inertia == pytest.approx(float(torch.cdist(X, centres).min(1).values.square().sum()))


def test_weights_count_as_copies_would() -> None:
    X, centres = points(20), points(3)
    copies = torch.arange(20).remainder(3) + 1
    weighted = lloyd_step(Table(X), centres, copies.double())
    copied = lloyd_step(Table(X.repeat_interleave(copies, 0)), centres)
    torch.testing.assert_close(weighted[0], copied[0])
    assert weighted[1] == pytest.approx(copied[1])


def test_a_centre_without_points_restarts_at_the_farthest_point() -> None:
    X = torch.tensor([[0.0], [0.1], [0.2], [9.0]])
    moved, inertia = lloyd_step(Table(X), torch.tensor([[0.1], [50.0]]))
    assert moved[1].tolist() == [9.0]
    assert inertia == pytest.approx(0.01 + 0.01 + 8.9**2, rel=1e-5)


def test_it_stops_where_the_inertia_no_longer_falls() -> None:
    table = Table(points())
    found = run_lloyd(table, points(4), tolerance=0.0, max_iterations=100)
    assert found.iterations < 100
    assert torch.equal(lloyd_step(table, found.centres)[0], found.centres)
    assert run_lloyd(table, points(4), tolerance=0.0, max_iterations=1).iterations == 1


def test_mean_and_spread_are_those_of_all_blocks() -> None:
    table = Table(points() + 7)
    origin, spread = mean_and_spread(table.blocks, len(table))
    torch.testing.assert_close(origin, table.X.mean(0))
    assert spread == pytest.approx(float((table.X - table.X.mean(0)).square().sum(1).mean()) ** 0.5)
    assert mean_and_spread(Table(torch.ones(5, 2)).blocks, 5)[1] == 1.0
