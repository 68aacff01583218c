from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.learners.literal import train_literally
from tests.learners.tasks import blobs
from understudy import UnderstudyError
from understudy.hooks import Setup, Step, TrainingHook
from understudy.learners.heads import Head, HeadModel
from understudy.learners.protocol import Job, TrainingDiverged
from understudy.learners.training import Recipe, cut_batches

SHORT = Recipe(epochs=12, step_every=5, batch_size=8, learning_rate=0.05)
SMALL = Head((6, 5), recipe=SHORT)


def test_the_printed_schedule_takes_the_rate_to_a_tenth_every_ten_epochs() -> None:
    rates = [Recipe().rate(epoch, epoch / 100) for epoch in (0, 9, 10, 39, 40, 99)]
    assert rates == pytest.approx([1e-2, 1e-2, 1e-3, 1e-5, 1e-6, 1e-11])
    slow = Recipe(gamma=0.9)
    assert [slow.rate(epoch, epoch / 100) for epoch in (9, 10, 99)] == pytest.approx([1e-2, 9e-3, 1e-2 * 0.9**9])


def test_one_cycle_rises_from_a_25th_to_the_rate_and_falls_to_nothing() -> None:
    recipe = Recipe(schedule="one_cycle", learning_rate=1.0)
    shares = np.linspace(0, 1, 101)
    rates = np.array([recipe.rate(0, share) for share in shares])
    assert rates[0] == pytest.approx(0.04)
    assert rates.max() == rates[30] == pytest.approx(1)
    assert rates[-1] == pytest.approx(0)
    assert (np.diff(rates[:31]) > 0).all()
    assert (np.diff(rates[30:]) < 0).all()


@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu"])
@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_training_is_what_torch_does_step_by_step(activation: str, optimiser: str) -> None:
    # 50 labels in batches of 8: the last batch is a short one and must count like the others.
    inputs, labels = blobs(50)
    recipe = replace(SHORT, optimiser=optimiser, label_smoothing=0.05)  # type: ignore[arg-type]
    head = Head((6, 5), activation, recipe=recipe)  # type: ignore[arg-type]
    net = train_literally(head, inputs, labels, 3, seed=7)
    model = head.fit(inputs, labels, 3, seed=7)
    expected = net(torch.from_numpy(inputs)).detach().numpy()
    np.testing.assert_allclose(model.logits(inputs), expected, rtol=1e-3, atol=1e-4)
    assert abs(expected).max() > 1  # it has learnt something


def test_a_hook_that_changes_nothing_changes_nothing() -> None:
    inputs, labels = blobs(30)
    plain, hooked = (SMALL.fit(inputs, labels, 3, seed=1, hook=hook) for hook in (None, TrainingHook()))
    np.testing.assert_array_equal(plain.logits(inputs), hooked.logits(inputs))


class Decay(TrainingHook):
    def weight_decay(self, usual: float, n_labels: int) -> float:
        self.seen = (usual, n_labels)
        return 0.3


def test_a_hook_may_set_the_weight_decay_of_a_training() -> None:
    inputs, labels = blobs(30)
    hook = Decay()
    decayed = SMALL.fit(inputs, labels, 3, hook=hook).logits(inputs)
    expected = Head((6, 5), recipe=replace(SHORT, weight_decay=0.3)).fit(inputs, labels, 3).logits(inputs)
    assert hook.seen == (5e-4, 30)
    np.testing.assert_array_equal(decayed, expected)


class LossWatcher(TrainingHook):
    """Learns along to predict each item's loss from the hidden layers."""

    def begin(self, setup: Setup) -> None:
        self.setup = setup
        generator = torch.Generator().manual_seed(setup.seeds[0])
        self.weight = torch.randn(len(setup.seeds), sum(setup.widths), 1, generator=generator, requires_grad=True)
        self.drawn = self.weight.detach().clone()
        self.epochs: list[int] = []

    def parameters(self) -> list[Tensor]:
        return [self.weight]

    def loss(self, step: Step) -> Tensor:
        self.epochs.append(step.epoch)
        torch.testing.assert_close(step.labels, self.setup.labels.gather(1, step.rows))
        predicted = torch.bmm(torch.cat(step.hidden, dim=2).detach(), self.weight)[:, :, 0]
        return step.losses.mean(1) + ((predicted - step.losses.detach()) ** 2).mean(1)


def test_a_hook_may_train_a_module_of_its_own_along() -> None:
    inputs, labels = blobs(30)
    hook = LossWatcher()
    plain = SMALL.fit(inputs, labels, 3, seed=4)
    hooked = SMALL.fit(inputs, labels, 3, seed=4, hook=hook)
    # Hidden layers were detached, so that the head learns what it learns without the hook.
    np.testing.assert_allclose(hooked.logits(inputs), plain.logits(inputs), rtol=1e-4, atol=1e-5)
    assert (hook.weight - hook.drawn).abs().max() > 0.01
    assert hook.setup.widths == (6, 5)
    assert hook.epochs == [epoch for epoch in range(12) for _ in range(4)]


class Distillation(TrainingHook):
    def __init__(self, teacher: HeadModel) -> None:
        self.teacher = teacher

    def begin(self, setup: Setup) -> None:
        self.targets = torch.from_numpy(np.stack([self.teacher.predict_proba(items) for items in setup.inputs]))

    def loss(self, step: Step) -> Tensor:
        targets = self.targets.gather(1, step.rows[:, :, None].expand(-1, -1, self.targets.shape[2]))
        return -(targets * step.logits.log_softmax(2)).sum(2).mean(1)


def test_a_hook_may_replace_the_loss_by_a_teachers_word() -> None:
    inputs, labels = blobs(60)
    teacher = Head((20,), recipe=Recipe(gamma=0.9)).fit(inputs, labels, 3)
    nonsense = np.zeros_like(labels)  # the pupil never gets to use these
    pupil = Head((20,), recipe=Recipe(gamma=0.9)).fit(inputs, nonsense, 3, hook=Distillation(teacher))
    assert (pupil.predict_proba(inputs).argmax(1) == teacher.predict_proba(inputs).argmax(1)).mean() > 0.95


class Average(TrainingHook):
    def loss(self, step: Step) -> Tensor:
        return step.losses.mean()


@pytest.mark.parametrize("m", [1, 3])
def test_a_hooks_loss_must_be_one_number_a_model(m: int) -> None:
    with pytest.raises(UnderstudyError, match=rf"shape \({m},\); got \(\): take means over axis 1 only"):
        SMALL.fit_many([Job(*blobs(20), seed) for seed in range(m)], 3, hook=Average())


def test_batches_are_as_long_as_asked_or_evenly_long() -> None:
    for n in (1, 5, 16, 17, 50):
        for evenly in (False, True):
            places = np.concatenate([np.arange(n)[batch] for batch in cut_batches(n, 16, evenly)])
            np.testing.assert_array_equal(places, np.arange(n))
    assert [batch.stop - batch.start for batch in cut_batches(50, 16, False)] == [16, 16, 16, 2]
    assert [batch.stop - batch.start for batch in cut_batches(50, 16, True)] == [12, 13, 12, 13]


def test_training_needs_gradients_whatever_its_caller_does_without() -> None:
    inputs, labels = blobs(20)
    expected = SMALL.fit(inputs, labels, 3).logits(inputs)
    with torch.no_grad():
        np.testing.assert_array_equal(SMALL.fit(inputs, labels, 3).logits(inputs), expected)
    with torch.inference_mode():
        np.testing.assert_array_equal(SMALL.fit(inputs, labels, 3).logits(inputs), expected)
    torch.set_default_dtype(torch.float64)
    try:
        np.testing.assert_array_equal(SMALL.fit(inputs, labels, 3).logits(inputs), expected)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_last_step_that_ruins_the_weights_is_an_error_too() -> None:
    inputs, labels = blobs(30)
    one_step = Head((6,), "relu", recipe=Recipe(epochs=1, batch_size=30, learning_rate=1e38))
    with pytest.raises(TrainingDiverged, match="in epoch 1 of 1"):
        one_step.fit(inputs * 1e3, labels, 3)


@pytest.mark.parametrize("schedule", ["step", "one_cycle"])
def test_a_loss_that_is_no_number_is_an_error_that_says_what_to_do(schedule: str) -> None:
    inputs, labels = blobs(30)
    recipe = replace(SHORT, learning_rate=1e30, schedule=schedule)  # type: ignore[arg-type]
    wild = Head((6,), "relu", recipe=recipe)
    with pytest.raises(TrainingDiverged, match=r"in epoch \d+ of 12.*lower the learning rate"):
        wild.fit(inputs * 1e3, labels, 3)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be a number above 0"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"batch_size": -1}, "batch_size must be a whole number of at least 1"),
        ({"epochs": 2.5}, "epochs must be a whole number"),
        ({"momentum": 1.0}, "momentum must be a number of at least 0 and below 1"),
        ({"weight_decay": -1.0}, "weight_decay must be a number of at least 0"),
        ({"label_smoothing": 1.5}, "label_smoothing must be"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number above 0"),
        ({"optimiser": "adam"}, "sgd, adamw; got 'adam'"),
        ({"schedule": "cosine"}, "step, one_cycle"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(UnderstudyError, match=complaint):
        replace(Recipe(), **change)  # type: ignore[arg-type]
