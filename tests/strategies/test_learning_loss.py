"""LearningLoss: what it picks, from how many, and that it must have been trained."""

from typing import Any

import numpy as np
import pytest
import torch

from understudy.errors import UnderstudyError
from understudy.hooks import TrainingHook
from understudy.learners.heads import Head, HeadModel
from understudy.learners.protocol import Job
from understudy.learners.training import Recipe
from understudy.strategies.learning_loss import LearningLoss
from understudy.strategies.loss_prediction import LossPredictionHook
from understudy.strategies.protocol import ChangesTraining, SharesTraining
from understudy.strategies.view import PoolView

HEAD = Head(hidden=(8, 5), recipe=Recipe(epochs=5, batch_size=8))
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(80, 6))
LABELS = np.where(np.arange(80) < 20, np.arange(80) % 3, -1)


def fitted(hook: TrainingHook) -> HeadModel:
    return HEAD.fit(FEATURES[:20], LABELS[:20], 3, seed=1, hook=hook)


def trained(**settings: Any) -> tuple[LearningLoss, PoolView]:
    strategy = LearningLoss(**settings)
    model = fitted(strategy.training_hook(None, np.random.default_rng(0)))
    return strategy, PoolView(LABELS, 3, activations=model.activations(FEATURES))


def test_the_largest_predicted_losses_are_chosen() -> None:
    strategy, view = trained()
    predicted = strategy.hook.predict(view.activations).numpy()
    picks = strategy.select(view, 7, np.random.default_rng(0))
    order = 20 + np.argsort(-predicted[20:], kind="stable")
    assert picks.rows.tolist() == order[:7].tolist()
    np.testing.assert_allclose(picks.scores, predicted[order[:7]], rtol=1e-5)


def test_a_subset_is_drawn_and_its_best_are_chosen() -> None:
    strategy, view = trained(subset_size=10)
    predicted = strategy.hook.predict(view.activations).numpy()
    drawn = view.candidates(3, 10, np.random.default_rng(4)).numpy()
    picks = strategy.select(view, 3, np.random.default_rng(4))
    assert picks.rows.tolist() == drawn[np.argsort(-predicted[drawn])][:3].tolist()
    chosen = {tuple(strategy.select(view, 3, np.random.default_rng(seed)).rows) for seed in range(5)}
    assert len(chosen) > 1


def test_every_training_begins_with_a_new_module() -> None:
    strategy, view = trained()
    assert isinstance(strategy, ChangesTraining)
    before = strategy.hook.predict(view.activations)
    hook = strategy.training_hook(None, np.random.default_rng(1))
    assert hook is strategy.hook
    model = fitted(hook)
    again = strategy.hook.predict([torch.from_numpy(layer) for layer in model.activations(FEATURES)])
    assert torch.equal(before, again)  # the same labels and seed, and nothing left of the first


def test_settings_reach_the_hook() -> None:
    hook = LearningLoss(margin=2.0, weight=0.5, width=7, detach_after=0.3).training_hook(None, RNG)
    assert isinstance(hook, LossPredictionHook)
    assert (hook.pair_loss, hook.margin, hook.weight, hook.width, hook.detach_after) == ("margin", 2.0, 0.5, 7, 0.3)


def test_without_a_trained_hook_it_says_what_to_do() -> None:
    _, view = trained()
    with pytest.raises(UnderstudyError, match="train the learner with this strategy's hook first"):
        LearningLoss().select(view, 2, np.random.default_rng(0))
    untrained = LearningLoss()
    untrained.training_hook(None, RNG)
    with pytest.raises(UnderstudyError, match="train the learner with this strategy's hook first"):
        untrained.select(view, 2, np.random.default_rng(0))


def test_the_layers_of_another_learner_are_refused() -> None:
    strategy, _ = trained()
    view = PoolView(LABELS, 3, activations=[FEATURES])
    with pytest.raises(UnderstudyError, match=r"widths \(8, 5\), but the activations have \(6,\)"):
        strategy.select(view, 2, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"weight": 0.0}, "weight must be a number above 0"),
        ({"margin": -1.0}, "margin must be a number above 0; got -1.0"),
        ({"width": 0}, "width must be a whole number of at least 1"),
        ({"detach_after": 2.0}, "0 to 1; got 2.0"),
        ({"subset_size": 0}, "subset_size must be a whole number of at least 1; got 0"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UnderstudyError, match=complaint):
        LearningLoss(**settings)


def test_runs_that_share_a_training_choose_as_each_does_alone() -> None:
    jobs = [Job(FEATURES[:20], np.roll(LABELS[:20], seed), seed) for seed in range(3)]
    strategies = [LearningLoss() for _ in jobs]
    strategy: SharesTraining = strategies[0]
    assert strategy.shares_training
    hook = strategies[0].training_hook(None, np.random.default_rng(0))
    models = HEAD.fit_many(jobs, 3, hook=hook)
    for j, other in enumerate(strategies[1:], 1):
        other.adopt(hook.part(j))
    found = []
    for j, job in enumerate(jobs):
        alone = LearningLoss()
        model = HEAD.fit(
            job.inputs, job.labels, 3, seed=job.seed, hook=alone.training_hook(None, np.random.default_rng(0))
        )
        expected = alone.select(PoolView(LABELS, 3, activations=model.activations(FEATURES)), 8, RNG)
        view = PoolView(LABELS, 3, activations=models[j].activations(FEATURES))
        picks = strategies[j].select(view, 8, RNG)
        assert picks.rows.tolist() == expected.rows.tolist()
        np.testing.assert_allclose(picks.scores, expected.scores, rtol=1e-4)
        found.append(picks.rows.tolist())
    assert found[0] != found[1]
