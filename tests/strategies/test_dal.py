"""DAL: what it takes for new, how its classifier is trained, and how the picks are split."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.strategies import dal
from understudy.strategies.dal import (
    DAL,
    OTHER_TRAINING,
    TRAININGS,
    ClassifierTraining,
    make_classifier,
    train_classifier,
)
from understudy.strategies.view import Picks, PoolView


def clusters(labelled_in: int, d: int = 4, labelled: int = 6) -> PoolView:
    """Twenty rows here (0), twenty there (1), some of one side labelled. One side's rows are even."""
    rng = np.random.default_rng(0)
    side = np.arange(40) % 2
    hidden = rng.normal(size=(40, d)) + 4 * side[:, None]
    labels = np.where((side == labelled_in) & (np.arange(40) < 2 * labelled), 0, -1)
    return PoolView(labels, 2, hidden=hidden)


def pick(strategy: DAL, view: PoolView, n: int, seed: int = 0) -> Picks:
    return strategy.select(view, n, np.random.default_rng(seed))


class Calls(list[tuple[Tensor, Tensor, ClassifierTraining]]):
    """Stands in for training: what the classifier would have been trained on, and how."""

    def __call__(
        self,
        classifier: nn.Sequential,
        hidden: Tensor,
        taken: Tensor,
        others: Tensor,
        training: ClassifierTraining,
        stop_above: float,
        generator: torch.Generator,
    ) -> int:
        self.append((taken, others, training))
        return 1


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    found = Calls()
    monkeypatch.setattr(dal, "train_classifier", found)
    return found


@pytest.mark.parametrize("labelled_in", [0, 1])
@pytest.mark.parametrize(("stochastic", "labelled"), [(False, 6), (True, 19)])
def test_the_first_rows_come_from_the_cluster_without_labels(labelled_in: int, stochastic: bool, labelled: int) -> None:
    view = clusters(labelled_in, labelled=labelled)
    picks = pick(DAL(stochastic=stochastic, sub_batches=1, max_epochs=200), view, 5)
    assert set((picks.rows % 2).tolist()) == {1 - labelled_in}
    assert picks.scores.min() > 0.9


def test_the_labelled_side_grows_by_what_was_chosen_and_the_others_are_drawn_anew(calls: Calls) -> None:
    view = PoolView(
        [0, 0, *[-1] * 58], 2, hidden=np.random.default_rng(0).normal(size=(60, 3)), pending=[5], skipped=[6]
    )
    picks = pick(DAL(sub_batches=4), view, 10)
    assert len(calls) == 4
    start = [0, 1, 5]
    for i, (before, (taken, others, _)) in enumerate(zip((0, 2, 5, 7), calls, strict=True)):
        assert sorted(taken.tolist()) == sorted([*start, *picks.rows[:before].tolist()]), f"sub-batch {i}"
        assert len(others) == min(10 * (3 + before), 56 - before)  # ten for each that is taken by now, or all
        assert not set(others.tolist()) & {*taken.tolist(), 6}
        assert others.tolist() == sorted(others.tolist())
    assert calls[0][1].tolist() != calls[1][1].tolist()


def test_few_others_are_all_used_and_never_fewer_than_are_to_be_chosen(calls: Calls) -> None:
    view = PoolView([0, *[-1] * 29], 2, hidden=np.random.default_rng(0).normal(size=(30, 3)))
    pick(DAL(sub_batches=2), view, 28)
    assert [len(others) for _, others, _ in calls] == [14, 15]  # 10 would not do; then all that are left
    calls.clear()
    pick(DAL(subsample=100, sub_batches=2), view, 4)
    assert [len(others) for _, others, _ in calls] == [29, 27]


@pytest.mark.parametrize(("n", "sizes"), [(1, [1]), (7, [1] * 7), (20, [1] * 20), (1000, [50] * 20)])
def test_twenty_sub_batches_none_of_them_empty(n: int, sizes: list[int]) -> None:
    assert DAL().sizes(n) == sizes


def test_sub_batches_are_about_equal_and_ten_if_stochastic() -> None:
    assert sorted(set(DAL().sizes(50))) == [2, 3]
    assert sum(DAL().sizes(50)) == 50
    assert DAL(stochastic=True).sizes(30) == [3] * 10
    assert DAL(stochastic=True, sub_batches=3).sizes(6) == [2, 2, 2]


def test_the_draw_falls_by_e_with_each_hundredth_of_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    likely = torch.tensor([0.9, 0.9 - 0.01 * math.log(3)], dtype=torch.float64)
    monkeypatch.setattr(DAL, "unlabelled_probability", lambda *_: likely)
    view = PoolView([-1, -1, 0], 2, hidden=np.ones((3, 2)))
    first = [int(pick(DAL(stochastic=True), view, 1, seed).rows[0]) for seed in range(400)]
    assert abs(first.count(0) - 300) < 3 * math.sqrt(400 * 0.75 * 0.25)


# -- the classifier -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("inputs", "width"), [(2, 20), (29, 20), (30, 256), (512, 256)])
def test_it_has_three_hidden_layers_narrow_for_few_inputs(inputs: int, width: int) -> None:
    shapes = [tuple(parameter.shape) for parameter in make_classifier(inputs).parameters() if parameter.ndim == 2]
    assert shapes == [(width, inputs), (width, width), (width, width), (2, width)]


@pytest.mark.parametrize(("d", "expected"), [(512, TRAININGS[512]), (128, TRAININGS[128]), (300, OTHER_TRAINING)])
def test_training_depends_on_the_number_of_inputs(d: int, expected: ClassifierTraining, calls: Calls) -> None:
    pick(DAL(), clusters(0, d), 1)
    assert calls[0][2] == expected
    pick(DAL(learning_rate=0.1, max_epochs=3, batch_size=5), clusters(0, d), 1)
    assert calls[1][2] == ClassifierTraining(0.1, 3, 5)


def test_the_authors_trainings() -> None:
    assert TRAININGS[512] == ClassifierTraining(2e-4, 500, 1024)
    assert TRAININGS[128] == ClassifierTraining(1e-4, 1000, 128)
    assert (OTHER_TRAINING.learning_rate, OTHER_TRAINING.epochs, OTHER_TRAINING.batch_size) == (1e-3, 1000, 32)


def trained_on(hidden: Tensor, n_taken: int, epochs: int, stop_above: float = 0.98) -> tuple[nn.Sequential, int]:
    torch.manual_seed(0)
    classifier = make_classifier(hidden.shape[1]).to(hidden)
    rows = torch.arange(len(hidden))
    done = train_classifier(
        classifier,
        hidden,
        rows[:n_taken],
        rows[n_taken:],
        ClassifierTraining(1e-3, epochs, 32),
        stop_above,
        torch.Generator().manual_seed(0),
    )
    return classifier, done


def test_training_ends_once_it_is_right_often_enough_and_not_before() -> None:
    hidden = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    hidden[100:] += 2
    classifier, done = trained_on(hidden, 100, 500)
    assert 5 < done < 400
    with torch.no_grad():
        right = (classifier(hidden).argmax(1) == (torch.arange(200) >= 100)).double().mean()
    assert right > 0.97  # about what it was on the way
    _, sooner = trained_on(hidden, 100, 500, stop_above=0.6)
    assert sooner < done
    assert trained_on(torch.ones(20, 4), 10, 7)[1] == 7  # what cannot be told apart is given up after all epochs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_classes_count_alike_however_many_rows_each_has(dtype: torch.dtype) -> None:
    hidden = torch.ones(110, 4, dtype=dtype)  # nothing to see: the best guess is the classes' weight
    classifier, _ = trained_on(hidden, 10, 150)
    with torch.no_grad():
        assert float(classifier(hidden[:1]).softmax(1)[0, 1]) == pytest.approx(0.5, abs=0.05)


def test_training_works_where_gradients_are_switched_off() -> None:
    strategy = DAL(sub_batches=2, max_epochs=20)
    expected = pick(strategy, clusters(0), 4)
    with torch.no_grad():
        assert pick(strategy, clusters(0), 4).rows.tolist() == expected.rows.tolist()


def test_no_labels_are_an_error_that_says_so() -> None:
    view = PoolView(np.full(5, -1), 2, hidden=np.ones((5, 2)), pending=[1])
    with pytest.raises(UnderstudyError, match="dal needs 1 labelled rows, got 0; label some at random first"):
        pick(DAL(), view, 1)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"sub_batches": 0}, "sub_batches must be a whole number of at least 1; got 0"),
        ({"subsample": 0}, "subsample must be a whole number of at least 1"),
        ({"max_epochs": 0}, "max_epochs must be a whole number of at least 1"),
        ({"batch_size": -1}, "batch_size must be a whole number of at least 1; got -1"),
        ({"stop_above": 1.5}, "at most 1; got 1.5"),
        ({"learning_rate": 0.0}, "learning_rate must be a number above 0; got 0.0"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UnderstudyError, match=complaint):
        DAL(**settings)
