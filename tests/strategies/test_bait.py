"""BAIT: every fast form against traces of matrices that are written out and inverted."""

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tests.strategies.pools import make_arrays, softmax, view_for
from understudy.errors import UnderstudyError
from understudy.strategies import available_memory
from understudy.strategies.bait import REFRESH_BELOW, Bait, BaitBinary, Design, Fisher, binary_roots, class_roots
from understudy.strategies.protocol import Strategy
from understudy.strategies.registry import make_strategy
from understudy.strategies.view import PoolView

NAMES = ("bait", "bait_binary")


def random_view(n: int = 8, d: int = 2, classes: int = 3, labelled: int = 2, seed: int = 0) -> PoolView:
    rng = np.random.default_rng(seed)
    labels = np.full(n, -1)
    labels[:labelled] = 0
    hidden, probs = rng.standard_normal((n, d)), softmax(2 * rng.standard_normal((n, classes)))
    return PoolView(labels, classes, hidden=hidden, probs=probs)


def written_factors(name: str, view: PoolView) -> Tensor:
    """(n, r, c d): V of every row, word for word."""
    factors = []
    for h, p in zip(view.hidden.double(), view.probs.double(), strict=True):
        if name == "bait_binary":
            factors.append((p.max() * (1 - p.max())).sqrt() * h[None])
        else:
            unit = torch.eye(len(p), dtype=torch.float64)
            factors.append(torch.stack([p[y].sqrt() * torch.kron(unit[y] - p, h) for y in range(len(p))]))
    return torch.stack(factors)


def trace_after(M: Tensor, V: Tensor, F: Tensor) -> float:
    return float((torch.linalg.inv(M + V.T @ V) @ F).trace())


def slow(name: str, view: PoolView, n: int, lamb: float = 1.0, over: int = 2) -> tuple[list[int], list[float], Tensor]:
    """Rows, gains and the last M⁻¹ of forward and backward search, with an inverse for each candidate of each step."""
    V = written_factors(name, view)
    F = torch.stack([v.T @ v for v in V]).mean(0)
    M = lamb * torch.eye(V.shape[2], dtype=torch.float64)
    taken = view.taken.tolist()
    if taken:
        M = M + len(taken) / (len(taken) + n) * torch.stack([V[i].T @ V[i] for i in taken]).mean(0)
    V = math.sqrt(n / (len(taken) + n)) * V
    left, chosen, gains = view.candidates(n).tolist(), [], []
    for _ in range(min(over * n, len(left))):
        before = float((torch.linalg.inv(M) @ F).trace())
        falls = [before - trace_after(M, V[i], F) for i in left]
        best = int(np.argmax(falls))
        gains.append(falls[best])
        chosen.append(left.pop(best))
        M = M + V[chosen[-1]].T @ V[chosen[-1]]
    while len(chosen) > n:
        traces = [float((torch.linalg.inv(M - V[i].T @ V[i]) @ F).trace()) for i in chosen]
        worst = int(np.argmin(traces))
        M = M - V[chosen[worst]].T @ V[chosen[worst]]
        del chosen[worst], gains[worst]
    return chosen, gains, torch.linalg.inv(M)


def fisher_of(name: str, view: PoolView, numbers_per_block: int | None = None) -> Fisher:
    if name == "bait":
        return Fisher(view.hidden, view.probs, class_roots, numbers_per_block=numbers_per_block)
    best = view.probs.amax(1, keepdim=True)
    return Fisher(view.hidden, best, binary_roots, numbers_per_block=numbers_per_block)


def start_of(
    name: str, view: PoolView, sign: Literal[1, -1] = 1, lamb: float = 1.0, refresh_below: float = REFRESH_BELOW
) -> Design:
    fisher, everybody = fisher_of(name, view), torch.arange(len(view))
    M = lamb * torch.eye(fisher.size, dtype=torch.float64)
    return Design(fisher, everybody, M, fisher.total(everybody) / len(view), sign, refresh_below)


@pytest.mark.parametrize("name", NAMES)
def test_factors_and_their_sum_are_those_written_out(name: str) -> None:
    view = random_view(9, 4)
    fisher, written = fisher_of(name, view), written_factors(name, view)
    for row, V in enumerate(written):
        assert torch.allclose(fisher.factor(row), V, rtol=0, atol=1e-12)
    rows = torch.tensor([1, 4, 8])
    expected = torch.stack([written[row].T @ written[row] for row in rows]).sum(0)
    assert torch.allclose(fisher.total(rows), expected, rtol=0, atol=1e-12)


def test_a_factor_squared_is_the_information_of_a_softmax() -> None:
    view = random_view()
    for row, (h, p) in enumerate(zip(view.hidden, view.probs, strict=True)):
        V = fisher_of("bait", view).factor(row)
        assert torch.allclose(V.T @ V, torch.kron(p.diag() - p.outer(p), h.outer(h)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("numbers_at_once", [1, 1 << 19])
def test_forms_are_those_of_written_factors_in_blocks_of_any_size(name: str, numbers_at_once: int) -> None:
    view = random_view(9, 4)
    fisher, written = fisher_of(name, view, numbers_at_once), written_factors(name, view)
    K = torch.randn(fisher.size, fisher.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    K = K + K.T
    rows = torch.tensor([0, 2, 3, 7])
    expected = torch.stack([written[row] @ K @ written[row].T for row in rows])
    assert torch.allclose(fisher.forms(rows, K), expected, rtol=0, atol=1e-12)


class LargeTensors(TorchFunctionMode):
    """Notes where the tensors lie that have at least so many numbers; all are kept, so that no place is used twice."""

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least, self.kept = least, dict[int, Tensor]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor) and made.numel() >= self.least:
            self.kept[made.data_ptr()] = made
        return made


def test_forms_are_worked_out_in_the_memory_they_end_up_in() -> None:
    view = random_view(50, 2, 4)
    with LargeTensors(50 * 4 * 4) as large:
        fisher_of("bait", view, numbers_per_block=1).forms(torch.arange(50), torch.eye(8, dtype=torch.float64))
    assert len(large.kept) == 1


def test_what_is_worked_out_afresh_replaces_the_old(monkeypatch: pytest.MonkeyPatch) -> None:
    design = start_of("bait", random_view(10), refresh_below=2.0)
    held: list[int] = []
    forms = Fisher.forms

    def watched(self: Fisher, *args: Tensor) -> Tensor:
        held.append(design.S.numel() + design.T.numel())
        return forms(self, *args)

    monkeypatch.setattr(Fisher, "forms", watched)
    design.step(3)
    assert held == [0, 10 * 3 * 3]


@pytest.mark.parametrize("name", NAMES)
def test_the_tiny_case_by_brute_force(name: str) -> None:
    view = random_view(8, 2, 3, labelled=3)
    V = written_factors(name, view)
    F = torch.stack([v.T @ v for v in V]).mean(0)
    M = torch.eye(V.shape[2], dtype=torch.float64) + 3 / 4 * torch.stack([v.T @ v for v in V[:3]]).mean(0)
    traces = [trace_after(M, math.sqrt(1 / 4) * V[row], F) for row in range(3, 8)]
    picks = make_strategy(name, oversampling=1).select(view, 1, np.random.default_rng(0))
    assert picks.rows.tolist() == [3 + int(np.argmin(traces))]
    assert picks.scores[0] == pytest.approx(float((torch.linalg.inv(M) @ F).trace()) - min(traces), abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("labelled", [0, 3])
@pytest.mark.parametrize("lamb", [1.0, 0.01])
def test_rows_and_gains_are_those_of_the_slow_search(name: str, labelled: int, lamb: float) -> None:
    for trial in range(4):
        view = random_view(14, 3, 3, labelled, seed=trial)
        picks = make_strategy(name, regularisation=lamb).select(view, 4, np.random.default_rng(0))
        rows, gains, _ = slow(name, view, 4, lamb)
        assert picks.rows.tolist() == rows
        assert picks.scores.tolist() == pytest.approx(gains, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_changes_stay_those_of_brute_force_at_every_step_there_and_back(name: str) -> None:
    view = random_view(10, 3)
    design, V = start_of(name, view), written_factors(name, view)
    for place in (4, 7, 1):
        before = float((torch.linalg.inv(design.M) @ design.F).trace())
        falls = [before - trace_after(design.M, v, design.F) for v in V]
        found = design.changes()[design.is_open]
        assert torch.allclose(found, torch.tensor(falls, dtype=torch.float64)[design.is_open], rtol=0, atol=1e-12)
        assert design.step(place) == pytest.approx(falls[place], abs=1e-12)
        assert torch.allclose(design.M_inv, torch.linalg.inv(design.M), rtol=0, atol=1e-8)
        assert torch.allclose(design.G, design.M_inv @ design.F @ design.M_inv, rtol=0, atol=1e-8)
        assert torch.allclose(design.S, design.fisher.forms(design.rows, design.M_inv), rtol=0, atol=1e-12)
        assert torch.allclose(design.T, design.fisher.forms(design.rows, design.G), rtol=0, atol=1e-12)
    back = Design(design.fisher, torch.tensor([4, 7, 1]), design.M, design.F, -1)
    before = float((torch.linalg.inv(back.M) @ back.F).trace())
    rises = [float((torch.linalg.inv(back.M - V[i].T @ V[i]) @ back.F).trace()) - before for i in (4, 7, 1)]
    assert (-back.changes()).tolist() == pytest.approx(rises, abs=1e-12)
    back.step(1)
    expected = torch.eye(back.fisher.size, dtype=torch.float64) + V[4].T @ V[4] + V[1].T @ V[1]
    assert torch.allclose(back.M_inv, torch.linalg.inv(expected), rtol=0, atol=1e-8)


@pytest.mark.parametrize("lamb", [1.0, 1e-3])
def test_without_classes_it_is_the_greedy_design_of_a_linear_regression(lamb: float) -> None:
    X = torch.randn(12, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    fisher = Fisher(X, torch.ones(12, 1, dtype=torch.float64), lambda ones: ones[:, :, None])
    design = Design(fisher, torch.arange(12), lamb * torch.eye(4, dtype=torch.float64), X.T @ X / 12, 1)
    chosen: list[int] = []
    for _ in range(6):
        # V-optimal: the mean variance of a prediction over the pool, after ridge regression on the chosen rows
        variances = []
        for row in range(12):
            tried = X[[*chosen, row]]
            covariance = torch.linalg.inv(lamb * torch.eye(4, dtype=torch.float64) + tried.T @ tried)
            variances.append(math.inf if row in chosen else float((X @ covariance * X).sum(1).mean()))
        place = int(design.changes().argmax())
        assert place == int(np.argmin(variances))
        design.step(place)
        chosen.append(place)


def test_two_classes_need_no_more_than_one_factor() -> None:
    """diag(p) - p pᵀ is then p (1 - p) (1, -1)(1, -1)ᵀ: twice the information, in one direction of two."""
    view = random_view(20, 3, 2)
    full = Bait(regularisation=0.5).select(view, 5, np.random.default_rng(0))
    binary = BaitBinary(regularisation=0.25).select(view, 5, np.random.default_rng(0))
    assert full.rows.tolist() == binary.rows.tolist()
    assert full.scores.tolist() == pytest.approx(binary.scores.tolist(), abs=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_that_shrink_by_far_are_worked_out_afresh(name: str) -> None:
    view = random_view(30, 4)
    large = PoolView(np.full(30, -1), 3, hidden=30 * view.hidden + 30, probs=view.probs)
    far_off = []
    for share in (REFRESH_BELOW, 0.0):
        design = start_of(name, large, lamb=1e-2, refresh_below=share)
        for _ in range(12):
            design.step(int(design.changes().argmax()))
        fresh = Design(design.fisher, design.rows, design.M, design.F, 1).changes()[design.is_open]
        far_off.append(float((design.changes()[design.is_open] - fresh).abs().max() / fresh.max()))
    assert far_off[0] < 1e-4
    assert far_off[1] > 10 * far_off[0]


def test_classes_that_do_not_quite_sum_to_one_are_scaled() -> None:
    B = class_roots(torch.tensor([[0.5, 0.3001, 0.2]], dtype=torch.float64))[0]
    p = torch.tensor([0.5, 0.3001, 0.2], dtype=torch.float64) / 1.0001
    assert torch.allclose(B.T @ B, p.diag() - p.outer(p), rtol=0, atol=1e-12)


@pytest.mark.parametrize("strategy", [Bait(), BaitBinary()])
def test_pending_rows_count_as_labelled_ones(strategy: Strategy) -> None:
    arrays = make_arrays(20)
    asked = strategy.select(view_for(strategy, arrays, [2, 5]), 4, np.random.default_rng(0))
    pending = strategy.select(view_for(strategy, arrays, [2], pending=[5]), 4, np.random.default_rng(0))
    assert asked.rows.tolist() == pending.rows.tolist()
    assert asked.scores.tolist() == pending.scores.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_it_oversamples_no_more_than_is_left(name: str) -> None:
    view = random_view(10, labelled=2)
    picks = make_strategy(name, oversampling=5.0).select(view, 6, np.random.default_rng(0))
    rows, _, _ = slow(name, view, 6, over=5)
    assert picks.rows.tolist() == rows


def test_a_subset_is_drawn_and_chosen_from() -> None:
    view = random_view(40)
    drawn = view.candidates(3, 7, np.random.default_rng(5)).tolist()
    picks = BaitBinary(subset_size=7).select(view, 3, np.random.default_rng(5))
    assert set(picks.rows.tolist()) <= set(drawn)


def test_scale_is_of_the_factor() -> None:
    fisher = fisher_of("bait", random_view())
    assert torch.allclose(replace(fisher, scale=0.5).factor(3), 0.5 * fisher.factor(3))


def test_too_many_classes_and_outputs_are_an_error_that_names_the_way_out() -> None:
    view = PoolView(np.full(3, -1), 11, hidden=np.ones((3, 500)), probs=np.full((3, 11), 1 / 11))
    words = (
        r"500 hidden outputs x 11 classes = 5,500 rows, more than 5,000; .* take 1.13 GiB of memory; use bait_binary"
    )
    with pytest.raises(UnderstudyError, match=words):
        Bait().select(view, 1, np.random.default_rng(0))
    assert len(BaitBinary().select(view, 1, np.random.default_rng(0))) == 1


def test_more_candidates_than_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    view = random_view(50, 2, 4, labelled=10)
    monkeypatch.setattr(available_memory, "available_bytes", lambda _: 12 * 2 * 4 * 4 * 8)  # for twelve rows
    words = (
        r"bait keeps two matrices of 4 x 4 for each of 40 rows, which takes \S+ GiB of memory, and \S+ GiB are free; "
        "pass a smaller subset_size, or use bait_binary"
    )
    with pytest.raises(UnderstudyError, match=words):
        Bait().select(view, 1, np.random.default_rng(0))
    assert len(Bait(subset_size=12).select(view, 1, np.random.default_rng(0))) == 1
    assert len(BaitBinary().select(view, 1, np.random.default_rng(0))) == 1


@pytest.mark.parametrize("name", NAMES)
def test_bad_settings_are_errors(name: str) -> None:
    for wrong in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(UnderstudyError, match="regularisation must be a number above 0"):
            make_strategy(name, regularisation=wrong)
    for wrong in (0.5, math.nan, math.inf):
        with pytest.raises(UnderstudyError, match="oversampling must be a number of at least 1"):
            make_strategy(name, oversampling=wrong)
    with pytest.raises(UnderstudyError, match="subset_size must be a whole number of at least 1"):
        make_strategy(name, subset_size=0)
