"""BatchBALD: what a batch's labels say together, by enumeration and by draws."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.strategies.pools import make_arrays, view_for
from understudy.errors import UnderstudyError
from understudy.strategies import batchbald
from understudy.strategies.bald import Bald, entropies, mutual_information
from understudy.strategies.batchbald import BatchBald, all_answers, draw_answers
from understudy.strategies.view import PoolView

TWINS = np.array([[[0.9, 0.1], [0.1, 0.9]]] * 2)


def joint_information(batch: Tensor) -> float:
    """H(y_1..y_k) - Σ E_t H(y_i | t), over every way to label the batch, word for word."""
    _, passes, classes = batch.shape
    joint = 0.0
    for labels in itertools.product(range(classes), repeat=len(batch)):
        probability = math.fsum(
            math.prod(float(batch[i, t, label]) for i, label in enumerate(labels)) for t in range(passes)
        )
        joint -= probability / passes * math.log(probability / passes)
    conditional = -(batch * batch.log()).sum(2).mean(1).sum()
    return joint - float(conditional)


def random_passes(m: int, passes: int, classes: int, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(m, passes, classes, generator=source, dtype=torch.float64).mul(1.5).softmax(2)


def test_golden_numbers() -> None:
    assert joint_information(torch.from_numpy(TWINS)) == pytest.approx(0.514375, abs=1e-6)
    view = PoolView(np.full(2, -1), 2, stochastic=TWINS)
    picks = BatchBald().select(view, 2, np.random.default_rng(0))
    assert picks.rows.tolist() == [0, 1]
    assert picks.scores[0] == pytest.approx(0.368064, abs=1e-6)
    assert picks.scores.sum() == pytest.approx(0.514375, abs=1e-6)
    # the joint entropy: the information and what the two labels would leave open if the pass were known
    _, expected = entropies(torch.from_numpy(TWINS), torch.arange(2))
    assert picks.scores.sum() + float(expected.sum()) == pytest.approx(1.164541, abs=1e-6)


def test_the_first_is_that_of_bald() -> None:
    arrays = make_arrays()
    batch, single = BatchBald(), Bald()
    one = batch.select(view_for(batch, arrays, [3, 8]), 1, np.random.default_rng(0))
    other = single.select(view_for(single, arrays, [3, 8]), 1, np.random.default_rng(0))
    assert one.rows.tolist() == other.rows.tolist()
    assert one.scores.tolist() == pytest.approx(other.scores.tolist(), abs=1e-12)


@pytest.mark.parametrize("numbers_at_once", [1, 1 << 21])
def test_the_batch_is_that_of_the_greedy_search_over_all_rows(
    monkeypatch: pytest.MonkeyPatch, numbers_at_once: int
) -> None:
    monkeypatch.setattr(batchbald, "NUMBERS_PER_BLOCK", numbers_at_once)
    stochastic = random_passes(15, 6, 3)
    view = PoolView(np.full(15, -1), 3, stochastic=stochastic)
    picks = BatchBald().select(view, 4, np.random.default_rng(0))
    chosen: list[int] = []
    for row, score in zip(picks.rows.tolist(), picks.scores.tolist(), strict=True):
        before = joint_information(stochastic[chosen]) if chosen else 0.0
        left = [other for other in range(15) if other not in chosen]
        gains = [joint_information(stochastic[[*chosen, other]]) - before for other in left]
        assert left[int(np.argmax(gains))] == row
        assert max(gains) == pytest.approx(score, abs=1e-10)
        chosen.append(row)


def test_pending_rows_are_in_the_batch_from_the_start() -> None:
    stochastic = random_passes(12, 6, 3, seed=3)
    labels = np.full(12, -1)
    labels[7] = 0  # it was pending too, and has its label now
    picks = BatchBald().select(
        PoolView(labels, 3, stochastic=stochastic, pending=[2, 5, 7]), 2, np.random.default_rng(0)
    )
    held = [2, 5]
    for row, score in zip(picks.rows.tolist(), picks.scores.tolist(), strict=True):
        left = [other for other in range(12) if other not in held and other != 7]
        gains = [joint_information(stochastic[[*held, other]]) - joint_information(stochastic[held]) for other in left]
        assert left[int(np.argmax(gains))] == row
        assert max(gains) == pytest.approx(score, abs=1e-10)
        held.append(row)


def test_gains_of_draw_answers_are_those_of_enumeration_within_two_per_cent() -> None:
    stochastic = random_passes(24, 10, 3, seed=1)
    batch, others = stochastic[:4], stochastic[4:]
    exact = all_answers(batch).expected_entropy(others)
    drawn = draw_answers(batch, 40_000, np.random.default_rng(0)).expected_entropy(others)
    assert torch.allclose(drawn, exact, rtol=0.02, atol=0)
    _, expected = entropies(stochastic, torch.arange(4, 24))
    assert torch.allclose(drawn - expected, exact - expected, rtol=0.02, atol=0)


def test_entropy_given_answers_is_the_weighted_joint_entropy_of_the_publication() -> None:
    stochastic, passes = random_passes(6, 5, 3), 5
    batch, others = stochastic[:4], stochastic[4:]
    answers = draw_answers(batch, 500, np.random.default_rng(0))
    # The same labels again, from the same stream; J is the probability of each under every pass.
    marks = np.random.default_rng(0).random((4, passes, 100))
    labels = np.empty((4, passes, 100), dtype=np.int64)
    for i, t in itertools.product(range(4), range(passes)):
        labels[i, t] = np.searchsorted(np.cumsum(batch[i, t].numpy()), marks[i, t], side="right")
    J = torch.ones(500, passes, dtype=torch.float64)
    for i, of_row in enumerate(labels):
        J *= batch[i][:, of_row.ravel()].T
    q = J.mean(1)
    joint = torch.stack([-(((J @ x / passes) / q[:, None]) * (J @ x / passes).log()).sum() / 500 for x in others])
    alone = -q.log().mean()
    assert torch.allclose(answers.expected_entropy(others), joint - alone, rtol=0, atol=1e-12)


def test_draws_begin_where_enumeration_would_be_too_long_and_agree_with_it() -> None:
    stochastic = random_passes(20, 10, 3, seed=2)
    view = PoolView(np.full(20, -1), 3, stochastic=stochastic)
    exact = BatchBald(max_configurations=3**5).select(view, 5, np.random.default_rng(0))
    drawn = BatchBald(max_configurations=3**3).select(view, 5, np.random.default_rng(0))
    assert drawn.scores[:4].tolist() == exact.scores[:4].tolist()
    assert drawn.scores[4] != exact.scores[4]
    assert drawn.scores[4] == pytest.approx(exact.scores[4], rel=0.3)


def test_answers_are_drawn_anew_at_each_step() -> None:
    stochastic = random_passes(6, 10, 3)
    view = PoolView(np.full(6, -1), 3, stochastic=stochastic)

    sizes: list[tuple[int, ...]] = []

    class Counted(np.random.Generator):
        def random(self, size: tuple[int, ...]) -> np.ndarray:  # type: ignore[override]
            sizes.append(size)
            return super().random(size)

    BatchBald(max_configurations=40).select(view, 6, Counted(np.random.PCG64(0)))
    assert sizes == [(4, 10, 4), (5, 10, 4)]


def test_no_gain_is_more_than_the_row_says_alone() -> None:
    stochastic = random_passes(30, 8, 4)
    picks = BatchBald(max_configurations=8).select(
        PoolView(np.full(30, -1), 4, stochastic=stochastic), 30, np.random.default_rng(0)
    )
    alone = mutual_information(stochastic, torch.arange(30)).numpy()
    assert (picks.scores >= 0).all()
    assert (picks.scores <= alone[picks.rows] + 1e-12).all()


def test_culling_leaves_those_that_say_most_alone() -> None:
    stochastic = random_passes(60, 8, 3)
    view = PoolView(np.full(60, -1), 3, stochastic=stochastic)
    best = set(Bald().select(view, 40, np.random.default_rng(0)).rows.tolist())
    picks = BatchBald(keep=1).select(view, 2, np.random.default_rng(0))
    assert set(picks.rows.tolist()) <= best
    assert picks.rows.tolist() == BatchBald().select(view, 2, np.random.default_rng(0)).rows.tolist()


def test_a_long_batch_and_impossible_labels_leave_finite_numbers() -> None:
    stochastic = random_passes(200, 4, 3)
    stochastic[::2] = torch.nn.functional.one_hot(stochastic[::2].argmax(2), 3).double()
    view = PoolView(np.full(200, -1), 3, stochastic=stochastic)
    picks = BatchBald(max_configurations=30).select(view, 200, np.random.default_rng(0))
    assert sorted(picks.rows.tolist()) == list(range(200))
    assert np.isfinite(picks.scores).all()
    assert picks.scores.sum() < math.log(4) * 1.5  # labels cannot say more than which of four passes is right


def test_bad_settings_are_errors() -> None:
    with pytest.raises(UnderstudyError, match="max_configurations must be a whole number of at least 1"):
        BatchBald(max_configurations=0)
    with pytest.raises(UnderstudyError, match="keep must be a whole number of at least 1"):
        BatchBald(keep=0)
    with pytest.raises(UnderstudyError, match="passes must be a whole number of at least 1"):
        BatchBald(passes=0)
