"""The loss module: the golden numbers, whom its gradient reaches, and that many are trained as one."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.learners.tasks import stripes
from understudy.errors import UnderstudyError
from understudy.hooks import Setup, Step
from understudy.learners.heads import Head, HeadModel
from understudy.learners.network import Network
from understudy.learners.protocol import Job
from understudy.learners.training import Recipe
from understudy.strategies.loss_prediction import LossPredictionHook, margin_loss, mirrored_pairs, rank_loss

LOSSES = torch.tensor([[1.0, 0.0]])
HEAD = Head(hidden=(8, 5), recipe=Recipe(epochs=4, batch_size=9))


def blobs(n: int = 20, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    return rng.normal(size=(n, 6)) + 2 * labels[:, None], labels


def layers_of(model: HeadModel, features: np.ndarray) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(layer) for layer in model.activations(features))


def test_golden_numbers() -> None:
    assert margin_loss(torch.tensor([[0.2, 0.5]]), LOSSES).item() == pytest.approx(1.3)
    assert margin_loss(torch.tensor([[2.0, 0.0]]), LOSSES).item() == 0
    assert rank_loss(torch.tensor([[0.0, 0.0]]), LOSSES).item() == pytest.approx(math.log(2))


def test_equal_losses_count_as_if_the_first_were_smaller() -> None:
    tie = torch.tensor([[1.0, 1.0]])
    assert margin_loss(torch.tensor([[-1.0, 1.0]]), tie).item() == 0
    assert margin_loss(torch.tensor([[1.0, -1.0]]), tie).item() == 3


@pytest.mark.parametrize("size", [2, 3, 8, 9])
def test_pairs_are_mirrored_and_an_odd_batch_leaves_out_its_middle(size: int) -> None:
    one, other = mirrored_pairs(torch.arange(2.0 * size).view(2, size))
    assert one.tolist() == [[size * j + i for i in range(size // 2)] for j in range(2)]
    assert other.tolist() == [[size * j + size - 1 - i for i in range(size // 2)] for j in range(2)]


@pytest.mark.parametrize("size", [2, 7, 12])
def test_both_losses_equal_their_literal_forms(size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    predicted, losses = torch.randn(2, 3, size, generator=generator, dtype=torch.float64)
    margins, ranks = margin_loss(predicted, losses, 0.7), rank_loss(predicted, losses)
    for j in range(3):
        hinges, logs = [], []
        for i in range(size // 2):
            partner = size - 1 - i
            gap = float(predicted[j, i] - predicted[j, partner])
            larger = bool(losses[j, i] > losses[j, partner])
            hinges.append(max(0.0, -(1 if larger else -1) * gap + 0.7))
            chance = 1 / (1 + math.exp(-gap))
            logs.append(-math.log(chance if larger else 1 - chance))
        assert margins[j].item() == pytest.approx(sum(hinges) / len(hinges))
        assert ranks[j].item() == pytest.approx(sum(logs) / len(logs))


def test_the_true_loss_ranks_every_pair_right() -> None:
    losses = torch.rand(3, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    one, other = mirrored_pairs(losses)
    gap = float((one - other).abs().min())
    assert margin_loss(losses, losses, gap).abs().max() < 1e-12
    assert margin_loss(1 - losses, losses, gap).min() > gap
    assert rank_loss(losses / gap * 50, losses).max() < 1e-20


# -- the hook -----------------------------------------------------------------------------------------------------


def begun(hook: LossPredictionHook, epochs: int = 200, seeds: tuple[int, ...] = (0, 1)) -> LossPredictionHook:
    labels = torch.zeros(len(seeds), 10, dtype=torch.int64)
    hook.begin(Setup([None] * len(seeds), labels, seeds, 3, (4, 3), epochs))
    return hook


def a_step(epoch: int, size: int = 6, models: int = 2) -> Step:
    generator = torch.Generator().manual_seed(epoch)
    hidden = tuple(torch.randn(models, size, width, generator=generator).requires_grad_() for width in (4, 3))
    logits = torch.randn(models, size, 3, generator=generator).requires_grad_()
    labels = torch.zeros(models, size, dtype=torch.int64)
    losses = torch.rand(models, size, generator=generator).requires_grad_()
    return Step(epoch, labels, labels, hidden, logits, losses)


@pytest.mark.parametrize("pair_loss", ["margin", "rank"])
@pytest.mark.parametrize(("epochs", "last"), [(200, 120), (100, 60), (7, 4), (1, 1)])
def test_the_learner_feels_the_module_up_to_the_detach_epoch_and_not_at_all_after_it(
    pair_loss: str, epochs: int, last: int
) -> None:
    hook = begun(LossPredictionHook(pair_loss), epochs)  # type: ignore[arg-type]
    before, after = a_step(last), a_step(last + 1)
    hook.loss(before).sum().backward()  # type: ignore[no-untyped-call]
    assert all(layer.grad is not None and layer.grad.abs().max() > 0 for layer in before.hidden)
    for parameter in hook.parameters():
        parameter.grad = None
    hook.loss(after).sum().backward()  # type: ignore[no-untyped-call]
    assert all(layer.grad is None for layer in after.hidden)
    assert all(parameter.grad is not None for parameter in hook.parameters())
    # The learner's own loss is a target for the module: only its mean sends a gradient back.
    assert torch.equal(after.losses.grad, torch.full_like(after.losses, 1 / 6))  # type: ignore[arg-type]


def test_what_is_minimised_is_the_usual_loss_and_the_weighted_loss_of_pairs() -> None:
    hook, step = begun(LossPredictionHook(weight=0.3, margin=2.0)), a_step(0)
    predicted = hook.trained_module(step.hidden)
    expected = step.losses.mean(1) + 0.3 * margin_loss(predicted, step.losses, 2.0)
    torch.testing.assert_close(hook.loss(step), expected)


@pytest.mark.parametrize("pair_loss", ["margin", "rank"])
def test_the_loss_of_pairs_is_kept_step_by_step_and_of_the_latest_training_only(pair_loss: str) -> None:
    hook = begun(LossPredictionHook(pair_loss, weight=0.3))  # type: ignore[arg-type]
    assert hook.history.shape == (0, 2)
    steps = [a_step(0), a_step(150, size=1), a_step(199)]  # one item has nobody to be compared with
    totals = [hook.loss(step) for step in steps]
    assert not any(kept.requires_grad for kept in hook.pair_losses)
    assert hook.history.shape == (2, 2)
    for row, place in enumerate((0, 2)):
        expected = (totals[place] - steps[place].losses.mean(1)).detach() / 0.3
        np.testing.assert_allclose(hook.history[row], expected, rtol=1e-4)
    features, labels = blobs(20)
    HEAD.fit(features, labels, 3, hook=hook)
    assert hook.history.shape == (4 * 3, 1)  # 4 epochs of batches of 9, 9 and 2


def test_the_module_is_a_small_layer_on_every_layer_and_one_on_all_of_those() -> None:
    hook, step = begun(LossPredictionHook(width=16)), a_step(0)
    (first, a, second, b, last, c) = (tensor[1] for tensor in hook.parameters())
    assert first.shape == (4, 16)
    assert second.shape == (3, 16)
    assert last.shape == (32, 1)
    seen = [torch.relu(step.hidden[0][1] @ first + a), torch.relu(step.hidden[1][1] @ second + b)]
    literal = (torch.cat(seen, 1) @ last + c)[:, 0]
    torch.testing.assert_close(hook.trained_module(step.hidden)[1], literal)


def test_one_item_has_nobody_to_be_compared_with() -> None:
    hook, step = begun(LossPredictionHook()), a_step(0, size=1)
    assert torch.equal(hook.loss(step), step.losses[:, 0])
    features, labels = blobs(10)
    # Batches of nine and of one, and a training on a single item.
    for n in (10, 1):
        assert not HEAD.fit(features[:n], labels[:n], 3, hook=LossPredictionHook()).interrupted


def test_a_detached_module_leaves_the_learner_as_it_would_be_without() -> None:
    class Detached(LossPredictionHook):
        def begin(self, setup: Setup) -> None:
            super().begin(setup)
            self.last_attached = -1

    features, labels = blobs()
    plain = HEAD.fit(features, labels, 3, seed=2)
    detached = HEAD.fit(features, labels, 3, seed=2, hook=Detached())
    attached = HEAD.fit(features, labels, 3, seed=2, hook=LossPredictionHook())
    np.testing.assert_array_equal(plain.logits(features), detached.logits(features))
    assert np.abs(plain.logits(features) - attached.logits(features)).max() > 1e-3


@pytest.mark.parametrize("pair_loss", ["margin", "rank"])
def test_four_heads_at_once_learn_what_each_learns_alone(pair_loss: str) -> None:
    jobs = [Job(*blobs(21, seed), seed) for seed in range(4)]
    together = LossPredictionHook(pair_loss)  # type: ignore[arg-type]
    models = HEAD.fit_many(jobs, 3, hook=together)
    features = blobs(30, 9)[0]
    answers = []
    for j, job in enumerate(jobs):
        alone = LossPredictionHook(pair_loss)  # type: ignore[arg-type]
        model = HEAD.fit(job.inputs, job.labels, 3, seed=job.seed, hook=alone)
        np.testing.assert_allclose(model.logits(features), models[j].logits(features), atol=1e-5)
        answers.append(alone.predict(layers_of(model, features)))
        torch.testing.assert_close(together.predict(layers_of(models[j], features), model=j), answers[-1])
    assert (answers[0] - answers[1]).abs().max() > 1e-3


@pytest.mark.parametrize("pair_loss", ["margin", "rank"])
def test_predicted_losses_are_ordered_as_the_true_ones(pair_loss: str) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 6)).astype(np.float32)
    noisy = features[:, 0] > 0  # labels are coin tosses on one side
    labels = np.where(noisy, rng.integers(0, 2, 300), (features[:, 1] > 0).astype(np.int64))
    hook = LossPredictionHook(pair_loss)  # type: ignore[arg-type]
    learner = replace(HEAD, recipe=Recipe("adamw", 1e-2, epochs=30, batch_size=30))
    model = learner.fit(features, labels, 2, hook=hook)
    fresh = rng.normal(size=(400, 6)).astype(np.float32)
    predicted = hook.predict(layers_of(model, fresh)).numpy()
    uncertain, certain = predicted[fresh[:, 0] > 0], predicted[fresh[:, 0] <= 0]
    assert (uncertain[:, None] > certain[None]).mean() > 0.8


def test_it_learns_along_with_a_network() -> None:
    images, labels = stripes(20)
    hook = LossPredictionHook()
    model = Network(recipe=Recipe(learning_rate=0.05, batch_size=8, epochs=1)).fit(images, labels, 2, hook=hook)
    assert hook.trained_module.widths == (64, 128, 256, 512)
    assert hook.trained_module.last.weight.shape == (1, 512, 1)
    predicted = hook.predict([torch.from_numpy(layer) for layer in model.activations(images)])
    assert predicted.shape == (20,)
    assert float(predicted.std()) > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_predictions_come_in_blocks_of_the_rows_asked_for(dtype: torch.dtype) -> None:
    hook = begun(LossPredictionHook())
    layers = tuple(torch.randn(50, width, generator=torch.Generator().manual_seed(width)).to(dtype) for width in (4, 3))
    whole = hook.predict(layers, model=1)
    assert whole.dtype == dtype
    assert not whole.requires_grad
    torch.testing.assert_close(
        whole.float(), hook.trained_module([layer.float().expand(2, -1, -1) for layer in layers])[1]
    )
    rows = torch.tensor([3, 3, 49, 0, *range(20)])
    torch.testing.assert_close(hook.predict(layers, rows, model=1, rows_per_block=7), whole[rows])


def test_a_module_is_drawn_from_its_models_seed_and_from_nothing_else() -> None:
    torch.manual_seed(3)
    one = begun(LossPredictionHook(), seeds=(5, 7))
    state = torch.random.get_rng_state()
    torch.manual_seed(4)
    other = begun(LossPredictionHook(), seeds=(7,))
    assert all(torch.equal(a[1], b[0]) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert not torch.equal(one.parameters()[0][0], one.parameters()[0][1])
    torch.manual_seed(3)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_an_untrained_hook_and_layers_of_another_learner_are_errors() -> None:
    with pytest.raises(UnderstudyError, match="train the learner with this strategy's hook first"):
        LossPredictionHook().predict((torch.zeros(2, 4),))
    with pytest.raises(UnderstudyError, match=r"widths \(4, 3\), but the activations have \(4,\)"):
        begun(LossPredictionHook()).predict((torch.zeros(2, 4),))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"weight": 0.0}, "weight must be a number above 0; got 0.0"),
        ({"margin": math.inf}, "margin must be a number above 0; got inf"),
        ({"detach_after": 1.1}, "0 to 1; got 1.1"),
        ({"detach_after": math.nan}, "0 to 1; got nan"),
        ({"width": 0}, "width must be a whole number of at least 1; got 0"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, float], complaint: str) -> None:
    with pytest.raises(UnderstudyError, match=complaint):
        LossPredictionHook(**settings)  # type: ignore[arg-type]


def test_an_unknown_loss_of_pairs_is_an_error() -> None:
    hook = LossPredictionHook()
    hook.pair_loss = "square"  # type: ignore[assignment]
    with pytest.raises(UnderstudyError, match="pair_loss must be one of margin, rank; got 'square'"):
        hook.__post_init__()


def test_a_part_of_a_hook_knows_what_was_learnt_along_with_one_model() -> None:
    jobs = [Job(*blobs(21, seed), seed) for seed in range(3)]
    together = LossPredictionHook()
    models = HEAD.fit_many(jobs, 3, hook=together)
    features = blobs(30, 9)[0]
    for j in range(3):
        part = together.part(j)
        layers = layers_of(models[j], features)
        torch.testing.assert_close(part.predict(layers), together.predict(layers, model=j))
        np.testing.assert_array_equal(part.history[:, 0], together.history[:, j])
        assert part.history.shape[1] == 1
    assert len(together.trained_module.last.weight) == 3  # still whole
