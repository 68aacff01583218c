import numpy as np
import pytest
import torch

from understudy.learners import noise


def test_masks_keep_the_mean_of_what_they_hide() -> None:
    drawn = noise.draw_bytes((2000, 500), np.random.default_rng(0))
    for rate in (0.25, 0.5, 0.75):
        mask = noise.as_mask(drawn, rate)
        assert mask.mean().item() == pytest.approx(1, abs=0.01)
        assert (mask == 0).float().mean().item() == pytest.approx(rate, abs=0.005)
    assert (noise.as_mask(drawn, 0.0) == 1).all()


def test_the_same_seed_gives_the_same_bytes_and_another_others() -> None:
    here = torch.device("cpu")
    first, again, other = (noise.draw_bytes((3, 5), noise.noise_source(seed, here)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
