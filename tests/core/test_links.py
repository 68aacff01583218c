import numpy as np
import pytest
import torch

from tests.literal import entropy as literal_entropy
from tests.literal import rho
from tests.pools import make_pool
from understudy.core import links
from understudy.core.links import LINKS, Link


@pytest.mark.parametrize("link", LINKS)
def test_entropy_from_two_sums_is_the_entropy(link: Link) -> None:
    pool = make_pool(30, 4, seed=1)
    correction = np.random.default_rng(0).normal(scale=0.4, size=(30, 4))
    z = links.base(link, torch.from_numpy(pool.probs)) + torch.from_numpy(correction)
    q, q_log = links.weights(link, z)
    found = links.entropy(q.sum(1), q_log.sum(1))
    np.testing.assert_allclose(found, literal_entropy(rho(pool.probs + correction, pool.probs, link)), atol=1e-12)


@pytest.mark.parametrize("link", LINKS)
def test_base_is_a_copy(link: Link) -> None:
    probs = torch.from_numpy(make_pool(5, 3).probs)
    before = probs.clone()
    links.base(link, probs).add_(1.0)
    assert torch.equal(probs, before)


def test_entropy_of_certainty_is_zero_and_of_ignorance_log_c() -> None:
    certain, ignorant = torch.eye(4)[:1], torch.full((1, 4), 0.25)
    assert float(links.entropy_of(certain)) == 0.0
    assert float(links.entropy_of(ignorant)) == pytest.approx(np.log(4))


@pytest.mark.parametrize(("n_classes", "share"), [(10, 0.968), (100, 0.9979), (200, 0.9991)])
def test_literal_softmax_hardly_sees_certainty(n_classes: int, share: float) -> None:
    """Entropy of a softmax over a one-hot vector, as a share of ln c: why `simplex` is offered."""
    q, q_log = links.weights("softmax", torch.eye(n_classes, dtype=torch.float64)[:1])
    found = links.entropy(q.sum(1), q_log.sum(1)) / np.log(n_classes)
    assert float(found) == pytest.approx(share, abs=5e-4)
