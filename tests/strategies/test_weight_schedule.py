"""Weight-decay scheduling: the golden sequence, what a teacher adds, and that the picks are those of entropy."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.strategies.pools import make_arrays
from understudy.errors import UnderstudyError
from understudy.hooks import Step
from understudy.learners.heads import Head, HeadModel
from understudy.learners.protocol import Job
from understudy.learners.training import Recipe
from understudy.strategies.registry import make_strategy
from understudy.strategies.view import PoolView
from understudy.strategies.weight_schedule import DecayHook, DistillationHook, WeightSchedule, distillation_loss

RNG = np.random.default_rng(0)
SIZES = (600, 800, 1000, 2000)
HEAD = Head(hidden=(8,), recipe=Recipe(epochs=8, batch_size=8, weight_decay=0.05))
FEATURES = RNG.normal(size=(24, 5))
LABELS = np.arange(24) % 3


def decays(**settings: Any) -> list[float]:
    strategy = WeightSchedule(**settings)
    return [strategy.training_hook(None, RNG).weight_decay(5e-4, size) for size in SIZES]


@pytest.mark.parametrize(
    ("form", "shares"),
    [
        ("inverse_size", [1, 0.75, 0.6, 0.3]),
        ("inverse_round", [1, 1 / 2, 1 / 3, 1 / 4]),
        ("fixed", [1, 1, 1, 1]),
    ],
)
def test_the_golden_sequence(form: str, shares: list[float]) -> None:
    assert decays(form=form) == pytest.approx([5e-4 * share for share in shares])


def test_it_counts_rounds_unless_told_otherwise() -> None:
    assert decays() == decays(form="inverse_round")


def test_every_strategy_counts_for_itself_and_a_hook_keeps_its_number() -> None:
    one, other = WeightSchedule(), WeightSchedule()
    first = one.training_hook(None, RNG)
    assert one.training_hook(None, RNG).weight_decay(1.0, 9) == 0.5
    assert first.weight_decay(1.0, 9) == 1.0
    assert other.training_hook(None, RNG).weight_decay(1.0, 9) == 1.0


def test_the_learner_is_trained_with_that_weight_decay_and_nothing_else_changes() -> None:
    strategy = WeightSchedule()
    for share in (1, 1 / 2):
        hook = strategy.training_hook(None, RNG)
        assert hook.keeps_loss
        found = HEAD.fit(FEATURES, LABELS, 3, seed=3, hook=hook)
        plain = Head(hidden=(8,), recipe=Recipe(epochs=8, batch_size=8, weight_decay=0.05 * share))
        np.testing.assert_array_equal(found.logits(FEATURES), plain.fit(FEATURES, LABELS, 3, seed=3).logits(FEATURES))


@pytest.mark.parametrize("form", ["fixed", "inverse_round", "inverse_size"])
def test_the_picks_are_those_of_entropy(form: str) -> None:
    arrays = make_arrays(60)
    view = PoolView(np.where(np.arange(60) < 9, arrays.truth, -1), 3, probs=arrays.probs, skipped=[20])
    found = make_strategy("weight_schedule", form=form).select(view, 12, np.random.default_rng(0))
    expected = make_strategy("entropy").select(view, 12, np.random.default_rng(0))
    assert found.rows.tolist() == expected.rows.tolist()
    assert found.scores.tolist() == expected.scores.tolist()


def test_fixed_leaves_training_as_it_is() -> None:
    strategy = WeightSchedule("fixed")
    plain = HEAD.fit(FEATURES, LABELS, 3, seed=3)
    for _ in range(2):
        found = HEAD.fit(FEATURES, LABELS, 3, seed=3, hook=strategy.training_hook(plain, RNG))
        np.testing.assert_array_equal(found.logits(FEATURES), plain.logits(FEATURES))


def test_a_subset_is_drawn_where_one_is_asked_for() -> None:
    arrays = make_arrays(60)
    view = PoolView(np.full(60, -1), 3, probs=arrays.probs)
    strategy = WeightSchedule(subset_size=10)
    rows = [strategy.select(view, 4, np.random.default_rng(seed)).rows for seed in (0, 1)]
    assert rows[0].tolist() != rows[1].tolist()
    assert set(rows[0].tolist()) <= set(view.candidates(4, 10, np.random.default_rng(0)).tolist())


# -- a teacher ----------------------------------------------------------------------------------------------------


def teacher() -> HeadModel:
    return HEAD.fit(FEATURES, (LABELS + 1) % 3, 3, seed=9)  # one that is wrong about everything


def test_the_loss_of_a_taught_item_is_the_literal_one() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, taught = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    losses = torch.rand(5, generator=generator, dtype=torch.float64)
    expected = []
    for i in range(5):
        p, q = (taught[i] / 6).softmax(0), (logits[i] / 6).softmax(0)
        expected.append(0.7 * losses[i] + 0.3 * 36 * (p * (p / q).log()).sum())
    torch.testing.assert_close(distillation_loss(losses, logits, taught, 0.3, 6.0), torch.stack(expected))


def test_a_student_who_agrees_with_the_teacher_pays_only_for_the_labels() -> None:
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    paid = distillation_loss(torch.ones(4, dtype=torch.float64), logits, logits + 3, 0.5, 6.0)
    torch.testing.assert_close(paid, torch.full((4,), 0.5, dtype=torch.float64))


def test_the_first_round_has_no_teacher_and_the_next_has() -> None:
    strategy = WeightSchedule(distillation=True)
    first, second = strategy.training_hook(None, RNG), strategy.training_hook(teacher(), RNG)
    assert type(first) is DecayHook
    assert isinstance(second, DistillationHook)
    assert not second.keeps_loss
    assert second.weight_decay(1.0, 10) == 0.5


def test_without_distillation_the_teacher_is_not_asked() -> None:
    assert type(WeightSchedule().training_hook(object(), RNG)) is DecayHook


def test_the_more_the_teacher_counts_the_more_the_student_is_like_it() -> None:
    wrong, distances = teacher(), []
    for alpha in (0.0, 0.5, 1.0):
        strategy = WeightSchedule("fixed", distillation=True, alpha=alpha, temperature=2.0)
        student = HEAD.fit(FEATURES, LABELS, 3, seed=3, hook=strategy.training_hook(wrong, RNG))
        if alpha == 0:
            plain = HEAD.fit(FEATURES, LABELS, 3, seed=3)
            np.testing.assert_allclose(student.logits(FEATURES), plain.logits(FEATURES), atol=1e-5)
        gaps = student.predict_proba(FEATURES) - wrong.predict_proba(FEATURES)
        distances.append(float(np.abs(gaps).mean()))
    assert distances[0] > distances[1] > distances[2]


def test_two_students_at_once_are_taught_as_each_is_alone() -> None:
    wrong = teacher()
    jobs = [Job(FEATURES[rows], LABELS[rows], seed) for seed, rows in enumerate((slice(12), slice(12, 24)))]

    def hook() -> DecayHook:
        return WeightSchedule(distillation=True).training_hook(wrong, RNG)

    together = HEAD.fit_many(jobs, 3, hook=hook())
    for job, model in zip(jobs, together, strict=True):
        alone = HEAD.fit(job.inputs, job.labels, 3, seed=job.seed, hook=hook())
        np.testing.assert_allclose(model.logits(FEATURES), alone.logits(FEATURES), atol=1e-5)


def test_each_item_is_compared_with_what_the_teacher_said_of_it() -> None:
    hook = DistillationHook(lambda _: 1.0, None, 1.0, 1.0)
    hook.taught = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    rows = torch.tensor([[4, 0], [1, 3]])
    logits = torch.stack([hook.taught[j][rows[j]] for j in range(2)])
    step = Step(0, rows, rows, (), logits, torch.ones(2, 2))
    torch.testing.assert_close(hook.loss(step), torch.zeros(2), atol=1e-6, rtol=0)
    moved = Step(0, rows.flip(1), rows, (), logits, torch.ones(2, 2))
    assert hook.loss(moved).min() > 0.01


def test_teachers_that_cannot_teach_are_refused() -> None:
    strategy = WeightSchedule(distillation=True)
    with pytest.raises(UnderstudyError, match="a teacher with logits, which object does not have"):
        HEAD.fit(FEATURES, LABELS, 3, hook=strategy.training_hook(object(), RNG))
    with pytest.raises(UnderstudyError, match="the teacher has 3 classes, but 4 are to be learnt"):
        HEAD.fit(FEATURES, LABELS, 4, hook=strategy.training_hook(teacher(), RNG))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"form": "linear"}, "form must be one of inverse_round, inverse_size, fixed; got 'linear'"),
        ({"alpha": 1.5}, "0 to 1; got 1.5"),
        ({"temperature": 0.0}, "temperature must be a number above 0; got 0.0"),
        ({"subset_size": 0}, "subset_size must be a whole number of at least 1; got 0"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UnderstudyError, match=complaint):
        WeightSchedule(**settings)


@pytest.mark.parametrize("form", ["inverse_round", "inverse_size", "fixed"])
def test_runs_that_share_trainings_count_rounds_alike(form: Any) -> None:
    strategies = [WeightSchedule(form=form) for _ in range(3)]
    assert strategies[0].shares_training
    shares = []
    for n_labels in SIZES:
        hook = strategies[0].training_hook(None, RNG)
        shares.append(hook.weight_decay(5e-4, n_labels))
        for place, strategy in enumerate(strategies[1:], 1):
            strategy.adopt(hook.part(place))
    assert shares == decays(form=form)
    assert [strategy.rounds for strategy in strategies] == [len(SIZES)] * 3


def test_with_a_teacher_each_run_is_trained_by_itself() -> None:
    assert not WeightSchedule(distillation=True).shares_training
