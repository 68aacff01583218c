"""The map of a pool: pulls and pushes against gradients, an epoch against a loop, and what it keeps of the digits."""

from functools import cache

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.manifold import trustworthiness

from understudy.core import projection
from understudy.core.features import Features
from understudy.core.neighbour_graph import Edges
from understudy.core.projection import (
    SOFTENING,
    A,
    B,
    first_axes,
    lay_out,
    neighbour_map,
    place_rows,
    pull,
    push,
    to_unit_square,
)

K = 15


@cache
def digits() -> Features:
    return Features(load_digits().data.astype(np.float32))


@cache
def digits_map() -> torch.Tensor:
    return neighbour_map(digits(), seed=0)


def gaps(n: int = 50) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(n, 2))).requires_grad_()


def test_a_pull_is_minus_the_gradient_of_its_term() -> None:
    gap = gaps()
    q = 1 / (1 + A * gap.square().sum(1) ** B)
    (gradient,) = torch.autograd.grad(-q.log().sum(), gap)
    torch.testing.assert_close(pull(gap.detach()), -gradient)


def test_a_push_is_minus_the_gradient_of_its_term_but_for_the_softening() -> None:
    gap = gaps()
    squares = gap.square().sum(1)
    q = 1 / (1 + A * squares**B)
    (gradient,) = torch.autograd.grad(-(1 - q).log().sum(), gap)
    softened = (squares / (SOFTENING + squares)).detach()[:, None]
    torch.testing.assert_close(push(gap.detach()), -gradient * softened)


def test_rows_in_one_place_neither_pull_nor_push() -> None:
    nowhere = torch.zeros(3, 2)
    assert not pull(nowhere).any()
    assert not push(nowhere).any()


def test_an_epoch_moves_each_row_as_a_loop_over_edges_does() -> None:
    rng = np.random.default_rng(1)
    start = torch.from_numpy(rng.normal(size=(12, 2)).astype(np.float32))
    pairs = [(a, b) for a in range(12) for b in range(a + 1, 12) if rng.random() < 0.4]
    weights = rng.random(len(pairs)).astype(np.float32)
    edges = Edges(torch.tensor([a for a, _ in pairs]), torch.tensor([b for _, b in pairs]), torch.from_numpy(weights))
    found = lay_out(edges, start, seed=3, epochs=1)

    random = torch.Generator().manual_seed(3)
    drawn = torch.rand(len(pairs), generator=random)
    chosen = [pair for place, pair in enumerate(pairs) if drawn[place] < weights[place] / weights.max()]
    turned = torch.rand(len(chosen), generator=random) < 0.5
    expected = start.clone().double()
    place = start.double()
    for a, b in chosen:
        gap = place[a] - place[b]
        s = float(gap @ gap)
        move = 2 * A * B * s ** (B - 1) / (1 + A * s**B) * gap
        expected[a] -= projection.STEP * move
        expected[b] += projection.STEP * move
    for _ in range(projection.PUSHES):
        strangers = torch.randint(12, (len(chosen),), generator=random)
        for (a, b), is_turned, stranger in zip(chosen, turned.tolist(), strangers.tolist(), strict=True):
            end = b if is_turned else a
            gap = place[end] - place[stranger]
            s = float(gap @ gap)
            move = 2 * B / ((SOFTENING + s) * (1 + A * s**B)) * gap
            expected[end] += projection.STEP * move.clamp(-projection.LARGEST_MOVE, projection.LARGEST_MOVE)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


def kept_neighbours(X: np.ndarray, Y: np.ndarray) -> float:
    """The share of each row's nearest rows that are among its nearest on the map too."""
    near = [np.argsort(((Z[:, None] - Z[None]) ** 2).sum(2) + 1e9 * np.eye(len(Z)), 1)[:, :K] for Z in (X, Y)]
    return float(np.mean([len(set(a) & set(b)) / K for a, b in zip(*near, strict=True)]))


def test_on_the_digits_it_keeps_more_neighbours_than_the_axes_and_is_to_be_trusted_more() -> None:
    X, flat, ours = digits().parts[0], first_axes(digits(), 0).numpy(), digits_map().numpy()
    some = np.random.default_rng(0).permutation(len(X))[:600]
    assert kept_neighbours(X[some], ours[some]) > 2 * kept_neighbours(X[some], flat[some])
    assert trustworthiness(X, ours, n_neighbors=K) > trustworthiness(X, flat, n_neighbors=K) + 0.1


def test_the_same_seed_gives_the_same_map() -> None:
    features = Features(digits().parts[0][:300])
    assert torch.equal(neighbour_map(features, seed=1), neighbour_map(features, seed=1))
    assert not torch.equal(neighbour_map(features, seed=1), neighbour_map(features, seed=2))


def test_it_says_how_far_it_is() -> None:
    said: list[tuple[int, int]] = []
    neighbour_map(Features(digits().parts[0][:50]), seed=0, report=lambda done, of: said.append((done, of)))
    assert said == [(epoch, projection.EPOCHS) for epoch in range(1, projection.EPOCHS + 1)]


def test_a_row_that_came_later_lies_among_its_neighbours() -> None:
    labels, m = load_digits().target, 1600
    placed = place_rows(digits(), digits_map()[:m], seed=0)
    assert torch.equal(placed[:m], digits_map()[:m])
    near = torch.cdist(placed[m:], placed[:m]).topk(K, largest=False).indices
    votes = np.array([np.bincount(labels[rows]).argmax() for rows in near.numpy()])
    assert (votes == labels[m:]).mean() > 0.9


def test_a_row_that_is_like_one_on_the_map_lies_in_its_place() -> None:
    X = digits().parts[0][:100]
    placed = place_rows(Features(np.concatenate([X, X[:3]])), digits_map()[:100], seed=0)
    torch.testing.assert_close(placed[100:], digits_map()[:3], atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_pools_of_few_rows_and_columns_have_a_map(n: int, d: int) -> None:
    X = Features(np.random.default_rng(0).normal(size=(n, d)).astype(np.float32))
    for found in (first_axes(X, 0), neighbour_map(X, 0)):
        assert found.shape == (n, 2)
        assert torch.isfinite(found).all()


def test_a_pool_of_rows_that_are_all_alike_has_a_map() -> None:
    X = Features(np.ones((40, 3), np.float32))
    assert torch.isfinite(neighbour_map(X, 0)).all()
    assert (to_unit_square(first_axes(X, 0)) == 0.5).all()


def test_the_unit_square_holds_the_map_in_its_own_shape() -> None:
    Y = torch.tensor([[0.0, 10.0], [8.0, 12.0], [4.0, 11.0]])
    np.testing.assert_allclose(to_unit_square(Y), [[0, 0.375], [1, 0.625], [0.5, 0.5]])
