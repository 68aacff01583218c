"""Axes, neighbours and edges of a pool, against singular vectors and loops over all pairs."""

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from understudy.core.features import Features
from understudy.core.neighbour_graph import make_edges, membership, nearest_neighbours, principal_axes


def points(n: int, d: int = 4, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32))


def test_the_axes_are_the_singular_vectors() -> None:
    X = load_digits().data + 100.0
    axes = principal_axes(Features(X), 5, seed=0)
    _, _, expected = np.linalg.svd(X - X.mean(0), full_matrices=False)
    np.testing.assert_allclose(axes.origin.numpy(), X.mean(0), rtol=1e-6)
    np.testing.assert_allclose(np.abs(axes.directions.T.numpy() @ expected[:5].T), np.eye(5), atol=1e-3)
    projected = axes.project(Features(X)).numpy()
    np.testing.assert_allclose(projected, (X - X.mean(0)) @ axes.directions.numpy(), atol=1e-3)


def test_an_axis_points_the_way_of_its_largest_component() -> None:
    X = points(200, 6).numpy()
    for flipped in (X, -X):
        directions = principal_axes(Features(flipped), 3, seed=0).directions
        assert (directions.gather(0, directions.abs().argmax(0, keepdim=True)) > 0).all()


def test_there_are_no_more_axes_than_columns() -> None:
    assert principal_axes(Features(points(30, 3)), 50, seed=0).directions.shape == (3, 3)


def literal_neighbours(X: torch.Tensor, row: int, k: int) -> list[tuple[float, int]]:
    return sorted((math.dist(X[row].tolist(), X[other].tolist()), other) for other in range(len(X)) if other != row)[:k]


@pytest.mark.parametrize("exact_rows", [1000, 0])
def test_neighbours_are_those_of_a_loop_over_all_pairs(exact_rows: int) -> None:
    X = points(150)
    rows, distances = nearest_neighbours(X, 6, seed=0, exact_rows=exact_rows, cells=1000)
    for row in range(150):
        expected = literal_neighbours(X, row, 6)
        assert rows[row].tolist() == [other for _, other in expected]
        np.testing.assert_allclose(distances[row].numpy(), [gap for gap, _ in expected], rtol=1e-3)


def test_nearly_all_neighbours_are_found_in_the_nearest_cells() -> None:
    X = points(6000, 6)
    exact, _ = nearest_neighbours(X, 15, seed=0)
    found, _ = nearest_neighbours(X, 15, seed=0, exact_rows=0)
    shared = [len(set(a) & set(b)) / 15 for a, b in zip(exact.tolist(), found.tolist(), strict=True)]
    assert np.mean(shared) > 0.9


def test_rows_that_are_all_alike_have_neighbours_too() -> None:
    rows, distances = nearest_neighbours(torch.ones(90, 3), 5, seed=0, exact_rows=0)
    assert (rows != torch.arange(90)[:, None]).all()
    assert all(len(set(some)) == 5 for some in rows.tolist())
    assert not distances.any()
    assert (membership(distances) == 1.0).all()


def test_no_more_neighbours_than_other_rows_can_be_had() -> None:
    with pytest.raises(ValueError, match="less than the number of rows, 4; got 4"):
        nearest_neighbours(points(4), 4, seed=0)


def test_memberships_sum_to_the_logarithm_of_the_neighbours() -> None:
    _, distances = nearest_neighbours(points(80), 8, seed=0)
    weights = membership(distances).numpy()
    np.testing.assert_allclose(weights.sum(1), 3.0, rtol=1e-4)
    np.testing.assert_allclose(weights[:, 0], 1.0)
    for row in range(80):  # of one width for the whole row
        beyond = (distances[row] - distances[row, 0]).numpy()[1:]
        widths = -beyond / np.log(weights[row, 1:])
        np.testing.assert_allclose(widths, widths[0], rtol=1e-3)


def test_an_edge_joins_what_both_rows_say_of_each_other() -> None:
    rows, distances = nearest_neighbours(points(40), 5, seed=0)
    weights = membership(distances)
    given = {
        (row, other): weights[row, place].item()
        for row in range(40)
        for place, other in enumerate(rows[row].tolist())
    }  # fmt: skip
    edges = make_edges(rows, weights)
    found = {
        (int(a), int(b)): float(w) for a, b, w in zip(edges.first, edges.second, edges.weight, strict=True)
    }  # fmt: skip
    expected = {}
    for a, b in given:
        one, other = given[a, b], given.get((b, a), 0.0)
        expected[min(a, b), max(a, b)] = one + other - one * other
    assert found.keys() == expected.keys()
    assert all(found[pair] == pytest.approx(expected[pair], abs=1e-5) for pair in expected)
