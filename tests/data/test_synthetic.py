"""The traps are drawn as their page says, the same way always."""

import numpy as np
import pytest

from understudy.data.datasets import load_named


@pytest.mark.parametrize("name", ["honeypot", "diverging_sine"])
def test_a_trap_is_drawn_the_same_way_always_and_without_a_fault(name: str) -> None:
    first, second = load_named(name), load_named(name)
    assert first.test is not None
    assert (len(first.pool), len(first.test)) == (2000, 1000)
    for one, other in zip(first.parts, second.parts, strict=True):
        for values, again in zip(one.arrays(), other.arrays(), strict=True):
            np.testing.assert_array_equal(values, again)
        assert one.classes == ("a", "b")
        assert not one.faults


def test_labels_in_the_honeypot_are_coin_flips_and_on_the_board_colours() -> None:
    data = load_named("honeypot")
    assert data.test is not None
    points, labels = data.pool.arrays()
    in_cloud = points[:, 0] > 1.4  # the board ends at one
    assert 900 < in_cloud.sum() <= 1000
    assert 0.45 < labels[in_cloud].mean() < 0.55
    for some, classes in ((points, labels), data.test.arrays()):
        on_board = np.abs(some).max(1) <= 1
        across, down = np.floor((some[on_board] + 1) / 2 * 3).T
        assert (classes[on_board] == (across + down) % 2).all()
    assert np.abs(data.test.arrays()[0]).max() <= 1


def test_the_waves_diverge_and_most_points_are_where_they_are_close() -> None:
    points, labels = load_named("diverging_sine").pool.arrays()
    along, height = points.T
    apart = (height - np.sin(3 * along)) * (2 * labels - 1)
    np.testing.assert_allclose(apart, 0.15 + 0.3 * along, atol=0.3)  # up to six times the noise
    assert np.median(along) < along.max() / 5
