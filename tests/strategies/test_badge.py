"""BADGE: distances between gradients that are never written out, and draws in proportion to them."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from tests.strategies.pools import make_arrays, view_for
from understudy.errors import UnderstudyError
from understudy.strategies.badge import Badge, Gradients, Start, draw_row, draw_seeds, update_nearest
from understudy.strategies.view import PoolView

HIDDEN = np.tile([1.0, 0.0], (3, 1))
PROBS = np.array([[0.5, 0.5], [0.9, 0.1], [1.0, 0.0]])


def golden_view() -> PoolView:
    return PoolView(np.full(3, -1), 2, hidden=HIDDEN, probs=PROBS)


def explicit(hidden: Tensor, probs: Tensor, bias: bool = False) -> Tensor:
    """(m, c h): the gradient of the cross-entropy at the most probable class, written out."""
    if bias:
        hidden = torch.cat([hidden, torch.ones_like(hidden[:, :1])], 1)
    one_hot = torch.nn.functional.one_hot(probs.argmax(1), probs.shape[1])
    return torch.einsum("mc,mh->mch", probs - one_hot, hidden).flatten(1)


def random_pool(m: int = 60, h: int = 7, c: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(seed)
    hidden = torch.randn(m, h, generator=source, dtype=torch.float64)
    return hidden, torch.randn(m, c, generator=source, dtype=torch.float64).mul(2).softmax(1)


def everywhere(m: int) -> Tensor:
    return torch.full((m,), torch.inf, dtype=torch.float64)


def test_golden_lengths_and_distances() -> None:
    gradients = Gradients(torch.from_numpy(HIDDEN), torch.from_numpy(PROBS))
    assert gradients.squares.sqrt().tolist() == pytest.approx([0.5**0.5, 0.02**0.5, 0])
    assert gradients.distances(0, everywhere(3)).tolist() == pytest.approx([0, 0.32, 0.5])


def test_golden_draw() -> None:
    rng, draws = np.random.default_rng(0), 1_000
    seconds = []
    for _ in range(draws):
        picks = Badge().select(golden_view(), 2, rng)
        assert picks.rows[0] == 0
        seconds.append(int(picks.rows[1]))
    counts = np.bincount(seconds, minlength=3)
    assert counts[0] == 0
    assert chisquare(counts[1:], draws * np.array([0.32, 0.5]) / 0.82).pvalue > 1e-3


def test_scores_are_the_squared_length_and_then_the_squared_distances() -> None:
    picks = Badge().select(golden_view(), 3, np.random.default_rng(0))
    distance = {1: {1: 0.32, 2: 0.02}, 2: {2: 0.5, 1: 0.02}}[int(picks.rows[1])]
    assert picks.scores.tolist() == pytest.approx([0.5, *(distance[int(row)] for row in picks.rows[1:])])


@pytest.mark.parametrize("bias", [False, True])
def test_factored_distances_are_those_of_gradients_written_out(bias: bool) -> None:
    hidden, probs = random_pool()
    written, gradients = explicit(hidden, probs, bias), Gradients(hidden, probs, bias)
    assert torch.allclose(gradients.squares, written.square().sum(1), rtol=0, atol=1e-12)
    for centre in range(len(hidden)):
        expected = (written - written[centre]).square().sum(1)
        assert torch.allclose(gradients.distances(centre, everywhere(60)), expected, rtol=0, atol=1e-12)
        again = gradients.small_distances(torch.arange(60), centre)
        assert torch.allclose(again, expected, rtol=0, atol=1e-12)


def test_single_precision_measures_rows_that_nearly_coincide() -> None:
    hidden, probs = random_pool(40)
    hidden[20:], probs[20:] = hidden[:20] * (1 + 1e-5), probs[:20]
    hidden, probs = (100 * hidden).float(), probs.float()
    written, gradients = explicit(hidden.double(), probs.double()), Gradients(hidden, probs)
    for centre in range(40):
        expected = (written - written[centre]).square().sum(1)
        assert torch.allclose(gradients.distances(centre, everywhere(40)), expected, rtol=2e-3, atol=0)


def test_every_sequence_is_as_likely_as_the_textbook_has_it() -> None:
    hidden, probs = random_pool(5, seed=3)
    written, gradients = explicit(hidden, probs), Gradients(hidden, probs)
    squared = torch.cdist(written, written).square().numpy()
    first = int(written.square().sum(1).argmax())
    chances = {}
    for second, third in itertools.permutations([row for row in range(5) if row != first], 2):
        after_one = squared[first]
        after_two = np.minimum(after_one, squared[second])
        chances[second, third] = after_one[second] / after_one.sum() * after_two[third] / after_two.sum()
    rng, draws = np.random.default_rng(1), 2_000
    counts = dict.fromkeys(chances, 0)
    for _ in range(draws):
        rows, _ = draw_seeds(gradients, torch.ones(5, dtype=torch.bool), 3, "largest", rng)
        assert rows[0] == first
        counts[int(rows[1]), int(rows[2])] += 1
    expected = draws * np.array(list(chances.values()))
    assert expected.sum() == pytest.approx(draws)
    assert chisquare(list(counts.values()), expected).pvalue > 1e-3


def test_a_uniform_start_is_uniform() -> None:
    rng, draws = np.random.default_rng(2), 600
    firsts = [int(Badge("uniform").select(golden_view(), 1, rng).rows[0]) for _ in range(draws)]
    assert chisquare(np.bincount(firsts, minlength=3)).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rows_come_twice_only_when_nothing_else_is_left(dtype: torch.dtype) -> None:
    hidden, probs = random_pool(6)
    copies = torch.arange(6).repeat(3)
    view = PoolView(np.full(18, -1), 4, hidden=hidden[copies].to(dtype), probs=probs[copies].to(dtype))
    for trial in range(50):
        picks = Badge().select(view, 12, np.random.default_rng(trial))
        assert sorted(picks.rows[:6] % 6) == list(range(6))
        assert (picks.scores[:6] > 0).all()
        assert (picks.scores[6:] == 0).all()


def test_gradients_that_are_all_zero_leave_a_uniform_draw() -> None:
    view = PoolView(np.full(4, -1), 2, hidden=np.ones((4, 3)), probs=np.tile([1.0, 0.0], (4, 1)))
    rng = np.random.default_rng(0)
    runs = [Badge().select(view, 2, rng).rows.tolist() for _ in range(500)]
    assert {first for first, _ in runs} == {0}
    assert chisquare(np.bincount([second for _, second in runs], minlength=4)[1:]).pvalue > 1e-3


def test_closed_rows_are_never_drawn_whether_few_or_many() -> None:
    arrays = make_arrays(40)
    for labelled in ([1, 4], list(range(30))):
        open_rows = sorted(set(range(40)) - set(labelled))
        view = view_for(Badge(), arrays, labelled)
        picks = Badge().select(view, len(open_rows), np.random.default_rng(0))
        assert sorted(picks.rows.tolist()) == open_rows


def test_the_same_rows_are_drawn_whether_closed_ones_lie_between_or_not() -> None:
    arrays = make_arrays(40)
    kept = np.arange(0, 40, 3)
    labelled = np.setdiff1d(np.arange(40), kept)
    among = Badge().select(view_for(Badge(), arrays, labelled), 6, np.random.default_rng(4))
    alone = Badge().select(view_for(Badge(), arrays.take(kept), []), 6, np.random.default_rng(4))
    assert among.rows.tolist() == kept[alone.rows].tolist()


def test_a_number_that_rounds_up_to_the_total_still_gives_a_row_with_mass() -> None:
    class One(np.random.Generator):
        def random(self, *_: object, **__: object) -> float:  # type: ignore[override]
            return 1.0

    mass = torch.tensor([0.0, 0.3, 0.0, 0.7, 0.0], dtype=torch.float64)
    assert draw_row(mass, mass > 0, One(np.random.PCG64(0))) == 3


def test_a_row_without_mass_is_drawn_again_where_sums_do_not_rise(monkeypatch: pytest.MonkeyPatch) -> None:
    mass = torch.tensor([0.0, 0.3, 0.0, 0.7, 0.0], dtype=torch.float64)
    answers = iter([0, 4, 5, 2, 3, 1])  # as of sums that were added in parallel: 5 is beyond the last
    monkeypatch.setattr(torch, "searchsorted", lambda *_, **__: torch.tensor(next(answers)))
    rng = np.random.default_rng(0)
    assert [draw_row(mass, mass > 0, rng), draw_row(mass, mass > 0, rng)] == [3, 1]


def test_outputs_too_large_to_measure_are_an_error() -> None:
    hidden = np.array([[3e38, 1], [-3e38, 2], [1, 1]], dtype=np.float32)
    view = PoolView(np.full(3, -1), 2, hidden=hidden, probs=np.array([[0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]))
    with pytest.raises(UnderstudyError, match="scale the hidden outputs down"):
        Badge().select(view, 3, np.random.default_rng(0))


def test_bad_settings_are_errors() -> None:
    with pytest.raises(UnderstudyError, match="start must be one of largest, uniform"):
        Badge("first")  # type: ignore[arg-type]
    with pytest.raises(UnderstudyError, match="bias must be True or False"):
        Badge(bias=2)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [True, False])
def test_rows_out_of_reach_need_not_be_measured(dtype: torch.dtype, bias: bool) -> None:
    rng = np.random.default_rng(3)
    hidden = torch.from_numpy(np.maximum(rng.standard_normal((400, 16)), 0)).to(dtype)
    probs = torch.from_numpy(rng.dirichlet(np.full(8, 0.1), 400)).to(dtype)
    gradients = Gradients(hidden, probs, bias)
    nearest = torch.full((400,), torch.inf, dtype=torch.float64)
    plain, left_out = nearest.clone(), 0
    for centre in rng.permutation(400)[:60].tolist():
        nearest[centre] = plain[centre] = 0
        left_out += 400 - len(gradients.within_reach(centre, nearest))
        update_nearest(gradients, centre, nearest)
        torch.minimum(plain, gradients.distances(centre, plain), out=plain)
        assert torch.equal(nearest, plain) or torch.allclose(
            nearest, plain, rtol=1e-3 if dtype.itemsize == 4 else 1e-12
        )
    assert left_out > 60 * 200  # more than half


# -- pending rows are chosen already ------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["largest", "uniform"])
@pytest.mark.parametrize("labelled", [3, 45])  # with most rows closed, those that are not are copied
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_row_at_a_time_is_drawn_as_a_batch_is(start: Start, labelled: int, dtype: type) -> None:
    arrays = make_arrays(60).as_type(dtype)
    for trial in range(10):
        together = Badge(start).select(view_for(Badge(), arrays, range(labelled)), 12, np.random.default_rng(trial))
        rng = np.random.default_rng(trial)
        pending: list[int] = []
        scores: list[float] = []
        for _ in range(12):
            picks = Badge(start).select(view_for(Badge(), arrays, range(labelled), pending=pending), 1, rng)
            pending += picks.rows.tolist()
            scores += picks.scores.tolist()
        assert pending == together.rows.tolist()
        assert scores == pytest.approx(together.scores.tolist(), rel=1e-3)


def test_a_copy_of_a_pending_row_is_drawn_only_when_nothing_else_is_left() -> None:
    hidden, probs = random_pool(6)
    copies = torch.arange(6).repeat(2)
    view = PoolView(np.full(12, -1), 4, hidden=hidden[copies], probs=probs[copies], pending=[1, 4])
    for trial in range(30):
        picks = Badge().select(view, 6, np.random.default_rng(trial))
        assert sorted(picks.rows[:4] % 6) == [0, 2, 3, 5]
        assert (picks.scores[4:] == 0).all()


def test_the_odds_beside_a_pending_row_are_squared_distances_to_it() -> None:
    hidden, probs = random_pool(5, seed=3)
    squared = torch.cdist(explicit(hidden, probs), explicit(hidden, probs)).square().numpy()[2]
    view = PoolView(np.full(5, -1), 4, hidden=hidden, probs=probs, pending=[2])
    rng, draws = np.random.default_rng(1), 1_000
    counts = np.bincount([int(Badge().select(view, 1, rng).rows[0]) for _ in range(draws)], minlength=5)
    assert counts[2] == 0
    others = np.array([0, 1, 3, 4])
    assert chisquare(counts[others], draws * squared[others] / squared.sum()).pvalue > 1e-3


def test_a_row_that_has_its_label_is_pending_no_more() -> None:
    arrays = make_arrays(40)
    plain = Badge().select(view_for(Badge(), arrays, [3, 8]), 5, np.random.default_rng(0))
    both = Badge().select(view_for(Badge(), arrays, [3, 8], pending=[8]), 5, np.random.default_rng(0))
    assert both.rows.tolist() == plain.rows.tolist()
