"""What holds for every strategy, whatever it does."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from tests.strategies.pools import Arrays, constant_arrays, make_arrays, view_for
from tests.strategies.quick import DRAWS, LEARNS, QUICK, SENSITIVE, TRAINED
from understudy.errors import PoolExhausted, UnderstudyError
from understudy.strategies.protocol import Needs, Strategy
from understudy.strategies.registry import STRATEGIES, make_strategy
from understudy.strategies.view import Picks, PoolView

NAMES = sorted(STRATEGIES)
LABELLED = [3, 8, 11, 20, 26, 31]


def fresh(name: str) -> Strategy:
    return make_strategy(name, **QUICK.get(name, {}))


def choose(name: str, arrays: Arrays, labelled: Any, n: int, seed: int = 0, **more: Any) -> tuple[Picks, PoolView]:
    strategy = fresh(name)
    view = view_for(strategy, arrays, labelled, **more)
    return strategy.select(view, n, np.random.default_rng(seed)), view


def check(picks: Picks, view: PoolView, n: int) -> None:
    assert picks.rows.dtype == np.int64
    assert picks.rows.shape == (n,)
    assert len(set(picks.rows.tolist())) == n
    assert bool(view.is_open[torch.from_numpy(picks.rows)].all())
    assert picks.scores.shape == (n,)
    assert picks.scores.dtype == np.float64
    assert np.isfinite(picks.scores).all()


def assert_same(one: Any, other: Any) -> None:
    """The same values throughout, whatever holds them."""
    if isinstance(one, dict):
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, tuple):
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, np.ndarray):
        assert np.array_equal(one, other)
    else:
        assert one == other


@pytest.mark.parametrize("name", NAMES)
class TestContract:
    def test_it_is_a_strategy(self, name: str) -> None:
        strategy = fresh(name)
        assert isinstance(strategy, Strategy)
        assert isinstance(strategy.needs, Needs)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("n", [1, 5])
    def test_it_gives_distinct_open_rows_and_their_scores(self, name: str, n: int, dtype: type) -> None:
        arrays = make_arrays().as_type(dtype)
        check(*choose(name, arrays, LABELLED, n, pending=[0, 5], skipped=[7]), n)

    def test_what_all_rows_scored_can_be_asked_for(self, name: str) -> None:
        arrays = make_arrays()
        picks, view = choose(name, arrays, LABELLED, 4, pending=[0, 5], skipped=[7])
        assert picks.utilities is not None
        scored = picks.utilities()
        assert set(scored.rows.tolist()) >= set(picks.rows.tolist())
        assert bool(view.is_open[torch.from_numpy(scored.rows)].all()) or name == "dal"
        assert scored.values.shape == (4, len(scored.rows))
        of_picks = scored.values[np.arange(4), [scored.rows.tolist().index(row) for row in picks.rows.tolist()]]
        if not name.startswith("bait"):  # which eliminates some of the rows that it has added
            np.testing.assert_allclose(of_picks, picks.scores, rtol=1e-5, atol=1e-9)

    def test_it_can_take_all_that_is_left(self, name: str) -> None:
        arrays = make_arrays(24)
        picks, view = choose(name, arrays, [3, 8, 11, 20], 18, pending=[0], skipped=[7])
        check(picks, view, 18)

    def test_more_than_is_left_is_an_error(self, name: str) -> None:
        with pytest.raises(PoolExhausted, match="only 19 of 24 can still be chosen"):
            choose(name, make_arrays(24), [3, 8, 11, 20], 20, pending=[0])

    @pytest.mark.parametrize("n", [0, -1])
    def test_a_wrong_number_of_rows_is_an_error(self, name: str, n: int) -> None:
        with pytest.raises(UnderstudyError, match="n must be"):
            choose(name, make_arrays(24), [3, 8, 11, 20], n)

    @pytest.mark.parametrize("labelled", [0, 1, 39])
    def test_it_works_with_few_labels_and_many_or_says_what_it_needs(self, name: str, labelled: int) -> None:
        arrays, needs = make_arrays(), fresh(name).needs
        rows = list(range(labelled))
        if labelled < needs.labelled or len(set(arrays.truth[rows].tolist())) < needs.classes:
            with pytest.raises(UnderstudyError, match="label"):
                choose(name, arrays, rows, 1)
        else:
            check(*choose(name, arrays, rows, 1), 1)

    def test_inputs_are_left_as_they_were(self, name: str) -> None:
        strategy = fresh(name)
        view = view_for(strategy, make_arrays(), LABELLED, pending=[0], skipped=[7])
        before = deepcopy(vars(view))
        strategy.select(view, 4, np.random.default_rng(0))
        assert_same(before, vars(view))

    def test_the_same_seed_gives_the_same_rows_and_no_other_stream_is_touched(self, name: str) -> None:
        arrays = make_arrays()
        torch.manual_seed(1)
        np.random.seed(1)  # noqa: NPY002
        one, _ = choose(name, arrays, LABELLED, 6, seed=5)
        after = (torch.rand(1).item(), np.random.rand())  # noqa: NPY002
        torch.manual_seed(1)
        np.random.seed(1)  # noqa: NPY002
        assert after == (torch.rand(1).item(), np.random.rand())  # noqa: NPY002
        other, _ = choose(name, arrays, LABELLED, 6, seed=5)
        assert one.rows.tolist() == other.rows.tolist()
        assert one.scores.tolist() == other.scores.tolist()

    def test_what_it_chose_before_does_not_matter(self, name: str) -> None:
        strategy = fresh(name)
        view = view_for(strategy, make_arrays(), LABELLED)
        strategy.select(view, 3, np.random.default_rng(0))
        again = strategy.select(view, 6, np.random.default_rng(1))
        # One that learns keeps the basis that it drew when it was first shown the pool, and nothing of its picks.
        first, _ = choose(name, make_arrays(), LABELLED, 6, seed=0 if name in LEARNS else 1)
        assert again.rows.tolist() == first.rows.tolist()

    def test_it_copes_with_a_single_class(self, name: str) -> None:
        arrays = make_arrays(24)
        arrays.truth[:] = 1
        if fresh(name).needs.classes > 1:
            with pytest.raises(UnderstudyError, match="labels of 2 classes, got 1"):
                choose(name, arrays, [3, 8, 11, 20], 5)
        else:
            check(*choose(name, arrays, [3, 8, 11, 20], 5), 5)

    def test_it_copes_with_rows_that_come_four_times(self, name: str) -> None:
        arrays = make_arrays(10).take(np.repeat(np.arange(10), 4))
        check(*choose(name, arrays, LABELLED, 15), 15)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_it_copes_with_rows_that_are_all_alike(self, name: str, dtype: type) -> None:
        arrays = constant_arrays(12).as_type(dtype)
        arrays.truth[:6] = [0, 1, 2, 0, 1, 2]  # labels may differ where nothing else does
        check(*choose(name, arrays, [0, 1, 2], 7), 7)

    def test_what_is_missing_is_named(self, name: str) -> None:
        strategy = fresh(name)
        for supply in strategy.needs.supplies:
            view = view_for(strategy, make_arrays(), LABELLED, without=supply)
            with pytest.raises(UnderstudyError, match=f"needs {supply}"):
                strategy.select(view, 2, np.random.default_rng(0))


@pytest.mark.parametrize("name", sorted(set(NAMES) - DRAWS))
class TestWhereNothingIsDrawn:
    def test_the_seed_does_not_matter(self, name: str) -> None:
        arrays = make_arrays()
        one, other = (choose(name, arrays, LABELLED, 6, seed=seed)[0] for seed in (0, 1))
        assert one.rows.tolist() == other.rows.tolist()

    def test_the_order_of_the_pool_does_not_matter(self, name: str) -> None:
        arrays = make_arrays()
        order = np.random.default_rng(3).permutation(len(arrays))
        plain, _ = choose(name, arrays, LABELLED, 6)
        moved, _ = choose(name, arrays.take(order), np.flatnonzero(np.isin(order, LABELLED)), 6)
        assert order[moved.rows].tolist() == plain.rows.tolist()


@pytest.mark.parametrize("name", sorted(set(NAMES) - DRAWS - SENSITIVE))
def test_both_precisions_choose_alike(name: str) -> None:
    one, other = (choose(name, make_arrays().as_type(kind), LABELLED, 6)[0] for kind in (np.float32, np.float64))
    assert one.rows.tolist() == other.rows.tolist()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_chooses_as_a_cpu_does(name: str) -> None:
    here, there = (choose(name, make_arrays(), LABELLED, 6, device=device) for device in ("cpu", "cuda"))
    assert len(set(there[0].rows.tolist())) == 6
    if name not in TRAINED:
        assert here[0].rows.tolist() == there[0].rows.tolist()


def test_names_in_the_settings_of_this_test_are_strategies() -> None:
    assert set(QUICK) | DRAWS | SENSITIVE | TRAINED | LEARNS <= set(STRATEGIES)
