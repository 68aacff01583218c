"""Points and the gaps between them."""

import pytest
import torch

from understudy.strategies.points import Points, as_points, smallest_gap, squared_lengths, unit_length


def test_points_have_unit_length_and_zeros_stay() -> None:
    points = as_points(torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]]), normalise=True)
    assert points.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, 0.0], [0.0, -1.0]]


def test_points_that_keep_their_length_lie_about_their_mean() -> None:
    X = torch.rand(50, 3, generator=torch.Generator().manual_seed(0)) + 1000
    points = as_points(X, normalise=False)
    assert points.mean(0).abs().max() < 1e-3
    assert torch.allclose(torch.pdist(points.double()), torch.pdist(X.double()), atol=1e-3)


def test_squared_lengths_are_summed_in_the_precision_asked_for() -> None:
    points = 100 * torch.randn(2100, 40, generator=torch.Generator().manual_seed(2))  # three blocks
    exact = points.double().square().sum(1)
    assert squared_lengths(points).dtype == torch.float32
    assert torch.allclose(squared_lengths(points).double(), exact, rtol=1e-5)
    assert torch.allclose(squared_lengths(points, torch.float64), exact, rtol=1e-14)


def test_the_smallest_gap_is_that_of_the_nearest_pair() -> None:
    points = torch.rand(2100, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)  # three blocks
    assert smallest_gap(points) == pytest.approx(float(torch.pdist(points).min()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_duplicates_leave_no_gap(dtype: torch.dtype) -> None:
    X = torch.tensor([[0.1, 0.7], [0.3, 2.1], [0.1, 0.7], [1.0, 0.0], [0.9, 0.1]], dtype=dtype)
    points = as_points(X, normalise=True)  # the second is the first, but for rounding
    apart = torch.pdist(points[[0, 3, 4]].double()).min()
    assert smallest_gap(points) == pytest.approx(float(apart))


def test_a_point_far_out_is_at_no_distance_from_itself() -> None:
    """Rounding makes its squares differ by more than the others are apart."""
    rng = torch.Generator().manual_seed(0)
    points = torch.eye(40, dtype=torch.float64).repeat(50, 1)
    far = 1e6 * torch.rand((30, 40), generator=rng, dtype=torch.float64)
    assert smallest_gap(torch.cat([points, far])) == pytest.approx(2**0.5)


def test_there_is_no_gap_where_no_two_points_differ() -> None:
    assert smallest_gap(torch.ones(4, 3)) is None
    assert smallest_gap(torch.ones(1, 3)) is None
    assert smallest_gap(torch.ones(0, 3)) is None


def test_zeros_have_no_direction() -> None:
    assert unit_length(torch.zeros(2, 3)).tolist() == [[0.0] * 3] * 2
    assert unit_length(torch.tensor([[3.0, 4.0]])).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]]


def test_blocks_cover_all_points_whatever_their_size() -> None:
    points = torch.rand(47, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert [first for first, _ in Points(points, bytes_per_block=10 * 3 * 8).blocks()] == [0, 10, 20, 30, 40]
    assert [first for first, _ in Points(points, bytes_per_block=1).blocks()] == list(range(47))
    assert [first for first, _ in Points(points).blocks()] == [0]
