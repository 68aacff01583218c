import numpy as np
import torch

from understudy.core.utilities import LANES, Moments, choose, leaders, moments

RNG = np.random.default_rng(0)
NOTHING = torch.zeros(2, dtype=torch.float64)


def filled(values: np.ndarray) -> torch.Tensor:
    out = torch.full((-(-len(values) // LANES) * LANES,), -torch.inf, dtype=torch.float64)
    out[: len(values)] = torch.from_numpy(values)
    return out


def test_moments_of_parts_add_up_to_those_of_the_whole() -> None:
    values = torch.from_numpy(RNG.normal(size=(2, 100)) + np.array([[5.0], [-3.0]]))
    whole = moments(values)
    parts: Moments = moments(values[:, :30]) + moments(values[:, 30:31]) + moments(values[:, 31:])
    assert parts.count == 100
    np.testing.assert_allclose(parts.mean, whole.mean)
    np.testing.assert_allclose(parts.squares, whole.squares)
    np.testing.assert_allclose(whole.inverse_std(1e-10, NOTHING), 1 / values.numpy().std(1))


def test_a_constant_utility_weighs_nothing() -> None:
    values = torch.ones((2, 50), dtype=torch.float64)
    values[1] = torch.from_numpy(1 + 1e-12 * RNG.normal(size=50))
    assert moments(values).inverse_std(1e-10, NOTHING).tolist() == [0.0, 0.0]


def test_what_is_left_of_a_utility_after_rounding_weighs_nothing() -> None:
    values = torch.from_numpy(1e-18 * RNG.normal(size=(2, 50)))
    least = torch.tensor([1e-15, 0.0], dtype=torch.float64)
    inverse = moments(values).inverse_std(1e-10, least)
    assert inverse[0] == 0.0
    assert inverse[1] > 0.0


def test_moments_over_some_rows_are_those_of_the_rows() -> None:
    values = torch.from_numpy(RNG.normal(size=(2, 60)) + 4)
    mask = torch.from_numpy(RNG.random(60) < 0.5)
    some, exact = moments(values, mask.double(), int(mask.sum())), moments(values[:, mask])
    assert some.count == exact.count
    np.testing.assert_allclose(some.mean, exact.mean)
    np.testing.assert_allclose(some.squares, exact.squares)


def test_leaders_are_the_best_rows_and_know_the_filling() -> None:
    """Also where the best rows are neighbours, as frames of a film are."""
    for n in (1, 7, LANES, 5 * LANES + 3):
        u = RNG.normal(size=n)
        if n > LANES:
            u[2001:2007] += 10
        rows, values = leaders(filled(u), 8, 1e-10)
        assert rows[1:].tolist()[: min(n, 8)] == np.argsort(-u)[:8].tolist()
        for row, value in zip(rows.tolist(), values.tolist(), strict=True):
            assert value == (u[row] if row < n else -np.inf)


def test_leaders_hold_the_lowest_of_rows_that_tie() -> None:
    u = np.zeros(3 * LANES)
    u[[LANES + 5, 40, 2 * LANES + 1, 17, 18]] = 1.0
    rows, _ = leaders(filled(u), 2, 1e-10)
    assert 17 in rows.tolist()


def test_the_first_leader_is_the_lowest_numbered_row_near_the_best() -> None:
    """By a plain search, for rows that tie in many places, and for a block that is told what counts as near."""
    for n in (5, LANES, 2 * LANES + 7, 7 * LANES):
        u = RNG.integers(0, 4, size=n) + 1e-9 * RNG.random(n)
        for nearness, at_least in ((1e-6, None), (0.4, None), (0.0, None), (1e-6, 2.0)):
            least = u.max() * (1 - nearness) if at_least is None else at_least
            told = None if at_least is None else torch.tensor(at_least, dtype=torch.float64)
            rows, values = leaders(filled(u), 4, nearness, told)
            first = int(np.nonzero(u >= least)[0][0])
            assert (int(rows[0]), float(values[0])) == (first, float(u[first]))
    nothing = torch.full((2 * LANES,), -torch.inf, dtype=torch.float64)
    assert int(leaders(nothing, 4, 1e-6)[0][0]) == 0


def test_choice_is_the_largest_and_the_lowest_row_of_ties() -> None:
    rows = torch.tensor([9, 4, 7, 2])
    assert int(rows[choose(rows, torch.tensor([1.0, 3.0, 2.0, 0.5], dtype=torch.float64))]) == 4
    tied = torch.tensor([3.0, 3.0 + 1e-13, 2.0, 3.0], dtype=torch.float64)
    assert int(rows[choose(rows, tied)]) == 2
    negative = torch.tensor([-3.0, -1.0, -torch.inf, -2.0], dtype=torch.float64)
    assert int(rows[choose(rows, negative)]) == 4
