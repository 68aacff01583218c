import numpy as np
import torch

from understudy.core.posterior import Closeup, Posterior, weights_given

K, C, N = 6, 3, 30


class Small:
    """A handful of rows and their posterior, with everything recomputed on demand."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.W = torch.from_numpy(0.4 * rng.normal(size=(N, K)))
        self.nu = torch.from_numpy(rng.uniform(0.1, 0.5, N))
        self.probs = torch.from_numpy(rng.dirichlet(np.ones(C), N))
        self.targets = torch.from_numpy(np.eye(C)[rng.integers(0, C, N)])
        self.omega = torch.from_numpy(rng.uniform(0.1, 1.0, N))

    def scratch(self, told: list[int], pending: list[int], open_rows: list[int]) -> Posterior:
        precision = (self.W[told] / self.nu[told, None]).T @ self.W[told]
        taught = (self.W[told] / self.nu[told, None]).T @ (self.targets - self.probs)[told]
        R_told, B = weights_given(precision, taught)
        R, _ = weights_given(precision + (self.W[pending] / self.nu[pending, None]).T @ self.W[pending], taught)
        M = (self.W[open_rows] * self.omega[open_rows, None]).T @ self.W[open_rows]
        return Posterior(R, M, B, R_told if pending else None)

    def look(self, posterior: Posterior, row: int) -> Closeup:
        stats = torch.stack([self.nu[row], self.nu[row], torch.ones_like(self.nu[row]), self.omega[row]])[None]
        return posterior.look(self.W[[row]], self.probs[[row]], stats)


def assert_same(ours: Posterior, exact: Posterior) -> None:
    for name in ("R", "M", "B"):
        np.testing.assert_allclose(getattr(ours, name), getattr(exact, name), atol=1e-12, err_msg=name)
    if exact.R_told is not None:
        assert ours.R_told is not None
        np.testing.assert_allclose(ours.R_told, exact.R_told, atol=1e-12)


def test_look_is_what_the_posterior_says() -> None:
    small = Small()
    posterior = small.scratch([1, 2], [], [3, 4, 5])
    seen = small.look(posterior, 7)
    w = small.W[7]
    np.testing.assert_allclose(seen.g, (w @ posterior.R @ w)[None, None])
    np.testing.assert_allclose(seen.h, (w @ posterior.R @ posterior.M @ posterior.R @ w)[None, None])
    np.testing.assert_allclose(seen.mean[0], small.probs[7] + w @ posterior.B)


def test_one_of_several_is_that_one() -> None:
    small = Small()
    posterior = small.scratch([1, 2], [], [3, 4, 5])
    stats = torch.stack([small.nu, 2 * small.nu, 3 * small.nu, small.omega], 1)[:4]
    several = posterior.look(small.W[:4], small.probs[:4], stats)
    one = several.one(torch.tensor([2]))
    for name, value in vars(several).items():
        assert torch.equal(getattr(one, name), value[2:3]), name


def test_learning_expecting_hearing_and_their_opposites_are_the_posterior_from_scratch() -> None:
    small = Small()
    rest = list(range(4, N))
    posterior = small.scratch([0, 1], [], [2, 3, *rest])
    target = small.targets

    posterior.turn_and_shift(small.look(posterior, 2), target[2], sign=1, on_pool=-1)
    assert_same(posterior, small.scratch([0, 1, 2], [], [3, *rest]))

    posterior.split()
    posterior.turn(small.look(posterior, 3), sign=1, on_pool=-1)
    assert_same(posterior, small.scratch([0, 1, 2], [3], rest))

    posterior.turn_and_shift(small.look(posterior, 4), target[4], sign=1, on_pool=-1)
    assert_same(posterior, small.scratch([0, 1, 2, 4], [3], rest[1:]))

    posterior.shift(small.look(posterior, 3), target[3], sign=1)
    posterior.merge()
    assert_same(posterior, small.scratch([0, 1, 2, 3, 4], [], rest[1:]))

    posterior.turn_and_shift(small.look(posterior, 0), target[0], sign=-1, on_pool=1)
    assert_same(posterior, small.scratch([1, 2, 3, 4], [], [0, *rest[1:]]))

    posterior.split()
    posterior.shift(small.look(posterior, 3), target[3], sign=-1)
    assert_same(posterior, small.scratch([1, 2, 4], [3], [0, *rest[1:]]))

    posterior.turn(small.look(posterior, 3), sign=-1, on_pool=0)
    posterior.merge()
    assert_same(posterior, small.scratch([1, 2, 4], [], [0, *rest[1:]]))


def test_each_step_takes_the_rows_from_one_posterior_to_the_next() -> None:
    """g and h of every row follow g -= s²/d, h += on_square s² - 2 s r/d."""
    small = Small(1)
    rest = list(range(3, N))
    before = small.scratch([0, 1], [], [2, *rest])
    for sign, row, after in (
        (1, 2, small.scratch([0, 1, 2], [], rest)),
        (-1, 1, small.scratch([0], [], [1, 2, *rest])),
    ):
        posterior = Posterior(before.R.clone(), before.M.clone(), before.B.clone())
        seen = small.look(posterior, row)
        step, mean = posterior.turn_and_shift(seen, small.targets[row], sign=sign, on_pool=-sign)
        s, r = small.W @ step.p, small.W @ step.m
        g = torch.einsum("ik,kl,il->i", small.W, before.R, small.W) - step.inverse * s * s
        h = torch.einsum("ik,kl,il->i", small.W, before.R @ before.M @ before.R, small.W)
        h = h + step.on_square * s * s - 2 * step.inverse * s * r
        np.testing.assert_allclose(g, torch.einsum("ik,kl,il->i", small.W, after.R, small.W), atol=1e-12)
        exact = torch.einsum("ik,kl,il->i", small.W, after.R @ after.M @ after.R, small.W)
        np.testing.assert_allclose(h, exact, atol=1e-11)
        moved = small.W @ before.B + torch.outer(small.W @ mean.p, mean.change)
        np.testing.assert_allclose(moved, small.W @ after.B, atol=1e-12)


def test_joining_and_leaving_the_pool() -> None:
    small = Small(2)
    posterior = small.scratch([0], [], [2, 3])
    step = posterior.join_pool(small.look(posterior, 5), sign=1)
    np.testing.assert_allclose(posterior.M, small.scratch([0], [], [2, 3, 5]).M, atol=1e-13)
    s = small.W @ step.p
    counts = small.omega[5] * (small.W @ posterior.R @ small.W[5]) ** 2
    np.testing.assert_allclose(step.on_square * s * s, counts, atol=1e-13)
    posterior.join_pool(small.look(posterior, 2), sign=-1)
    np.testing.assert_allclose(posterior.M, small.scratch([0], [], [3, 5]).M, atol=1e-13)


def test_what_is_left_of_a_row_that_is_taken_out() -> None:
    small = Small(3)
    posterior = small.scratch([0, 1], [], [2])
    without = small.scratch([1], [], [2])
    g = small.W[0] @ without.R @ small.W[0]  # before it was learnt
    left = posterior.left_after(small.look(posterior, 0), told=True)
    np.testing.assert_allclose(left, float(small.nu[0] / (small.nu[0] + g)), rtol=1e-10)
