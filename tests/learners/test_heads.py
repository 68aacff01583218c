import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.learners.literal import as_sequential, gradient_lengths
from tests.learners.tasks import blobs
from understudy import UnderstudyError
from understudy.hooks import Step, TrainingHook
from understudy.learners import heads
from understudy.learners.heads import Head
from understudy.learners.protocol import Job, Learner, Model
from understudy.learners.registry import modern, paper
from understudy.learners.training import Recipe

SHORT = Recipe(epochs=15, batch_size=8, learning_rate=0.05)
PLAIN = Head((16, 12), recipe=SHORT)
FANCY = Head((16, 12), "gelu", 0.25, "columns", Recipe("adamw", 3e-3, batch_size=8, epochs=15, schedule="one_cycle"))


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_heads_meet_the_protocols() -> None:
    assert isinstance(PLAIN, Learner)
    assert isinstance(PLAIN.fit(*blobs(9), 3), Model)


@pytest.mark.parametrize("head", [PLAIN, FANCY], ids=["plain", "fancy"])
@pytest.mark.parametrize("m", [1, 2, 7])
def test_many_heads_at_once_are_the_heads_one_by_one(head: Head, m: int) -> None:
    jobs = [Job(*blobs(45, seed=seed), seed + 100) for seed in range(m)]
    items, _ = blobs(20, seed=50)
    for job, model in zip(jobs, head.fit_many(jobs, 3), strict=True):
        alone = head.fit(job.inputs, job.labels, 3, seed=job.seed)
        np.testing.assert_allclose(model.logits(items), alone.logits(items), rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("m", [2, 5])
def test_heads_shared_out_to_threads_are_the_same_heads(m: int) -> None:
    jobs = [Job(*blobs(45, seed=seed), seed) for seed in range(m)]
    items, _ = blobs(20, seed=50)
    shared = FANCY.fit_many(jobs, 3)
    with ThreadPoolExecutor(1) as later:  # the number is each thread's own, and handed down
        assert later.submit(torch.get_num_threads).result() == 2
    torch.set_num_threads(1)
    for job, model in zip(jobs, shared, strict=True):
        alone = FANCY.fit(job.inputs, job.labels, 3, seed=job.seed)
        np.testing.assert_allclose(model.logits(items), alone.logits(items), rtol=1e-4, atol=1e-4)


def test_jobs_of_different_sizes_come_back_in_their_order() -> None:
    jobs = [Job(*blobs(n, seed=n), n) for n in (12, 30, 12, 45)]
    items, _ = blobs(20, seed=50)
    for job, model in zip(jobs, PLAIN.fit_many(jobs, 3), strict=True):
        alone = PLAIN.fit(job.inputs, job.labels, 3, seed=job.seed)
        np.testing.assert_allclose(model.logits(items), alone.logits(items), rtol=1e-4, atol=1e-4)


class HalfDecay(TrainingHook):
    def weight_decay(self, usual: float, n_labels: int) -> float:
        return usual / 2


@pytest.mark.usefixtures("two_threads")
def test_another_weight_decay_for_many_heads_is_that_for_each() -> None:
    jobs = [Job(*blobs(30, seed=seed), seed) for seed in range(4)]
    items, _ = blobs(20, seed=50)
    hook = HalfDecay()
    assert hook.keeps_loss
    assert not ReachesAcross().keeps_loss
    expected = replace(PLAIN, recipe=replace(SHORT, weight_decay=SHORT.weight_decay / 2)).fit_many(jobs, 3)
    for decayed, plain in zip(PLAIN.fit_many(jobs, 3, hook=hook), expected, strict=True):
        np.testing.assert_array_equal(decayed.logits(items), plain.logits(items))


class ReachesAcross(TrainingHook):
    """Asks a lot of the second network only."""

    def loss(self, step: Step) -> Tensor:
        factor = torch.ones(len(step.losses))
        factor[1] = 5.0
        return factor * step.losses.mean(1)


def test_what_a_hook_asks_of_one_network_is_nothing_to_the_others() -> None:
    jobs = [Job(*blobs(30, seed=seed), seed) for seed in range(3)]
    items, _ = blobs(20, seed=50)
    plain, hooked = PLAIN.fit_many(jobs, 3), PLAIN.fit_many(jobs, 3, hook=ReachesAcross())
    for j, same in enumerate([True, False, True]):
        assert np.allclose(plain[j].logits(items), hooked[j].logits(items), atol=1e-4) == same


def test_a_hook_wants_heads_of_one_shape() -> None:
    with pytest.raises(UnderstudyError, match="must have the same shape"):
        PLAIN.fit_many([Job(*blobs(12)), Job(*blobs(15))], 3, hook=TrainingHook())


@pytest.mark.parametrize("head", [PLAIN, FANCY], ids=["plain", "fancy"])
def test_the_same_seed_gives_the_same_head_whatever_else_draws(head: Head) -> None:
    inputs, labels = blobs(30)
    first = head.fit(inputs, labels, 3, seed=5)
    torch.manual_seed(1234)
    before = torch.random.get_rng_state()
    second = head.fit(inputs, labels, 3, seed=5)
    assert torch.equal(torch.random.get_rng_state(), before), "the caller's random numbers were used up"
    other = head.fit(inputs, labels, 3, seed=6)
    np.testing.assert_array_equal(first.logits(inputs), second.logits(inputs))
    assert abs(first.logits(inputs) - other.logits(inputs)).max() > 1e-3


@pytest.mark.parametrize("make", [paper, modern])
def test_named_heads_learn_easy_classes(make: object) -> None:
    inputs, labels = blobs(120, c=4, d=8)
    items, classes = blobs(400, c=4, d=8)[0][120:], blobs(400, c=4, d=8)[1][120:]
    model = make().fit(inputs, labels, 4)  # type: ignore[operator]
    assert (model.predict_proba(items).argmax(1) == classes).mean() > 0.95


def test_classes_without_labels_are_columns_all_the_same() -> None:
    inputs, labels = blobs(30, c=2)
    probs = PLAIN.fit(inputs, labels, 6).predict_proba(inputs)
    assert probs.shape == (30, 6)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-5)
    assert probs[:, 2:].max() < 0.2


@pytest.mark.parametrize("n", [1, 2, 7])
def test_fewer_labels_than_a_batch_and_a_single_class_are_enough(n: int) -> None:
    inputs = blobs(n)[0]
    for head in (PLAIN, FANCY):
        longer = replace(head, recipe=replace(head.recipe, epochs=100, gamma=0.9))
        probs = longer.fit(inputs, np.full(n, 2), 3).predict_proba(inputs)
        assert (probs.argmax(1) == 2).all()


def test_one_class_in_all_is_certain() -> None:
    np.testing.assert_allclose(PLAIN.fit(blobs(9)[0], np.zeros(9, int), 1).predict_proba(blobs(4)[0]), 1)


def test_columns_are_scaled_by_what_the_labelled_items_are_like() -> None:
    inputs, labels = blobs(30)
    model = FANCY.fit(inputs, labels, 3)
    np.testing.assert_allclose(model.shift, inputs.mean(0), rtol=1e-4)
    np.testing.assert_allclose(model.scale, 1 / inputs.std(0), rtol=1e-4)
    whole = replace(FANCY, scaling="whole").fit(inputs, labels, 3)
    np.testing.assert_allclose(whole.scale, 1 / np.sqrt(inputs.var(0).mean()), rtol=1e-4)
    moved = FANCY.fit(inputs * 1000 + 77, labels, 3)
    np.testing.assert_allclose(moved.logits(inputs * 1000 + 77), model.logits(inputs), rtol=0.02, atol=0.02)


def test_a_constant_column_does_no_harm() -> None:
    inputs, labels = blobs(30)
    inputs[:, 2] = 7
    model = FANCY.fit(inputs, labels, 3)
    others = inputs.copy()
    others[:, 2] = -1e6
    np.testing.assert_array_equal(model.logits(others), model.logits(inputs))


def test_inputs_are_taken_as_they_come_and_left_as_they_were() -> None:
    inputs, labels = blobs(30)
    expected = PLAIN.fit(inputs, labels, 3).logits(inputs)
    doubles, backwards = inputs.astype(np.float64), np.asfortranarray(inputs)
    backwards.setflags(write=False)
    for same in (doubles, backwards):
        np.testing.assert_array_equal(PLAIN.fit(same, labels.astype(np.int16), 3).logits(same), expected)
    halves = inputs.astype(np.float16)
    widened = PLAIN.fit(halves.astype(np.float32), labels, 3)
    np.testing.assert_array_equal(PLAIN.fit(halves, labels, 3).logits(halves), widened.logits(halves))
    np.testing.assert_array_equal(inputs, blobs(30)[0])


def test_blocks_of_rows_are_put_together_again() -> None:
    inputs, labels = blobs(30)
    model = FANCY.fit(inputs, labels, 3)
    methods = ("predict_proba", "logits", "features", "gradient_norms")
    whole = [getattr(model, method)(inputs) for method in methods]
    in_blocks = replace(model, rows_per_block=7)
    for method, expected in zip(methods, whole, strict=True):
        np.testing.assert_allclose(getattr(in_blocks, method)(inputs), expected, rtol=1e-4, atol=1e-6)


def test_no_items_give_no_rows() -> None:
    model = PLAIN.fit(*blobs(9), 3)
    none = np.empty((0, 5))
    assert model.predict_proba(none).shape == (0, 3)
    assert model.features(none).shape == (0, 12)
    assert model.gradient_norms(none).shape == (0,)
    assert model.stochastic_proba(none, 4, dropout=0.5).shape == (0, 4, 3)


def test_activations_are_the_outputs_of_every_hidden_layer() -> None:
    inputs, labels = blobs(30)
    model = PLAIN.fit(inputs, labels, 3)
    first, last = model.activations(inputs)
    net = as_sequential(model.stack)
    np.testing.assert_allclose(first, net[:2](torch.from_numpy(inputs)).detach(), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(last, model.features(inputs))
    weight, bias = model.stack.weights[-1][0].numpy(), model.stack.biases[-1][0].numpy()
    np.testing.assert_allclose(last @ weight + bias, model.logits(inputs), rtol=1e-4, atol=1e-5)


# -- stochastic passes ------------------------------------------------------------------------------------


def test_a_pass_uses_one_mask_for_all_items() -> None:
    inputs, labels = blobs(30)
    model = PLAIN.fit(inputs, labels, 3)
    twice = np.repeat(inputs[:4], 2, axis=0)
    probs = model.stochastic_proba(twice, 20, dropout=0.5)
    assert probs.shape == (8, 20, 3)
    np.testing.assert_allclose(probs.sum(2), 1, rtol=1e-5)
    np.testing.assert_array_equal(probs[::2], probs[1::2])
    assert probs[0].std(0).max() > 0.01, "the passes do not differ"


def test_passes_do_not_depend_on_the_blocks_or_on_the_other_items() -> None:
    inputs, labels = blobs(30)
    model = FANCY.fit(inputs, labels, 3)
    whole = model.stochastic_proba(inputs, 6, seed=3)
    some = replace(model, rows_per_block=4).stochastic_proba(inputs[10:], 6, seed=3)
    np.testing.assert_allclose(some, whole[10:], rtol=1e-4, atol=1e-6)
    assert abs(model.stochastic_proba(inputs, 6, seed=4) - whole).max() > 0.01


def test_passes_without_dropout_are_refused() -> None:
    model = PLAIN.fit(*blobs(9), 3)
    with pytest.raises(UnderstudyError, match=r"pass dropout=0\.5"):
        model.stochastic_proba(blobs(9)[0], 5)
    with pytest.raises(UnderstudyError, match="below 1; got 1"):
        model.stochastic_proba(blobs(9)[0], 5, dropout=1.0)
    with pytest.raises(UnderstudyError, match="at least 1; got 0"):
        model.stochastic_proba(blobs(9)[0], 0, dropout=0.5)


# -- gradients --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["entropy", "each_class"])
def test_gradient_norms_are_those_of_automatic_differentiation(of: str) -> None:
    inputs, labels = blobs(12)
    model = PLAIN.fit(inputs, labels, 3)
    net = as_sequential(model.stack)
    expected = [gradient_lengths(net, torch.from_numpy(item), of) for item in inputs]
    np.testing.assert_allclose(model.gradient_norms(inputs, of), expected, rtol=1e-4, atol=1e-6)  # type: ignore[arg-type]
    hidden = torch.from_numpy(model.features(inputs))
    last = [gradient_lengths(net[-1:], item, of) for item in hidden]
    np.testing.assert_allclose(model.gradient_norms(inputs, of, "last"), last, rtol=1e-4, atol=1e-6)  # type: ignore[arg-type]


def test_the_expected_length_in_the_last_layer_has_a_closed_form() -> None:
    inputs, labels = blobs(12)
    model = PLAIN.fit(inputs, labels, 3)
    p, h = model.predict_proba(inputs).astype(np.float64), model.features(inputs)
    lengths = np.sqrt((p**2).sum(1, keepdims=True) - 2 * p + 1)
    expected = np.sqrt((h**2).sum(1) + 1) * (p * lengths).sum(1)
    np.testing.assert_allclose(model.gradient_norms(inputs, "each_class", "last"), expected, rtol=1e-4)


# -- what goes wrong --------------------------------------------------------------------------------------


class Impatient(TrainingHook):
    """A person who presses Ctrl-C in the middle of the fourth epoch."""

    def loss(self, step: Step) -> Tensor:
        if step.epoch == 3:
            raise KeyboardInterrupt
        return super().loss(step)


def test_an_interrupted_training_leaves_a_usable_model() -> None:
    inputs, labels = blobs(30)
    model = PLAIN.fit(inputs, labels, 3, hook=Impatient())
    assert model.interrupted
    assert not PLAIN.fit(inputs, labels, 3).interrupted
    np.testing.assert_allclose(model.predict_proba(inputs).sum(1), 1, rtol=1e-5)


def test_an_interrupt_between_two_epochs_leaves_a_usable_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def tick(done: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(heads, "progress_bar", lambda *_: nullcontext(tick))
    model = PLAIN.fit(*blobs(30), 3)
    expected = replace(PLAIN, recipe=replace(SHORT, epochs=3))
    monkeypatch.undo()
    assert model.interrupted
    np.testing.assert_array_equal(model.logits(blobs(30)[0]), expected.fit(*blobs(30), 3).logits(blobs(30)[0]))


@pytest.fixture
def impatient_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """A progress bar after whose third epoch somebody presses Ctrl-C."""

    def tick(done: int) -> None:
        if done == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(heads, "progress_bar", lambda *_: nullcontext(tick))


@pytest.mark.usefixtures("impatient_bar")
def test_an_interrupt_ends_the_trainings_that_would_follow() -> None:
    inputs, labels = blobs(300)
    long = Head((16, 12), recipe=Recipe(epochs=1_000_000, batch_size=8))
    models = long.fit_many([Job(inputs[:n], labels[:n], n) for n in (300, 30, 60)], 3)
    assert [model.interrupted for model in models] == [True] * 3


class Ruinous(Impatient):
    def loss(self, step: Step) -> Tensor:
        return super().loss(step) * (float("nan") if step.epoch == 2 else 1)


def test_an_interrupt_does_not_hide_that_the_weights_are_ruined() -> None:
    with pytest.raises(UnderstudyError, match="no longer finite"):
        PLAIN.fit(*blobs(30), 3, hook=Ruinous())


@pytest.mark.usefixtures("two_threads", "impatient_bar")
def test_an_interrupt_reaches_heads_in_threads() -> None:
    inputs, labels = blobs(300)
    long = Head((16, 12), recipe=Recipe(epochs=1_000_000, batch_size=8))
    models = long.fit_many([Job(inputs, labels, seed) for seed in range(4)], 3)
    assert [model.interrupted for model in models] == [True] * 4
    assert np.isfinite(models[3].logits(inputs)).all()


@pytest.mark.usefixtures("two_threads", "impatient_bar")
def test_an_interrupt_reaches_heads_in_threads_where_a_library_had_waits_begun_again() -> None:
    signal.siginterrupt(signal.SIGINT, False)  # as polars does when it is imported
    inputs, labels = blobs(300)
    long = Head((16, 12), recipe=Recipe(epochs=1_000_000, batch_size=8))
    models = long.fit_many([Job(inputs, labels, seed) for seed in range(2)], 3)
    assert [model.interrupted for model in models] == [True] * 2


@pytest.mark.usefixtures("two_threads")
def test_whatever_ends_the_wait_ends_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object, **__: object) -> None:
        raise SystemExit("ended")

    monkeypatch.setattr(heads, "wait", end)
    long = Head((16, 12), recipe=Recipe(epochs=1_000_000, batch_size=8))
    with pytest.raises(SystemExit, match="ended"):
        long.fit_many([Job(*blobs(300), seed) for seed in range(2)], 3)


@pytest.mark.usefixtures("two_threads")
def test_an_error_in_one_thread_ends_the_others() -> None:
    jobs = [Job(*blobs(30), seed) for seed in range(4)]
    jobs[1] = Job(blobs(30)[0] * 1e30, blobs(30)[1], 1)
    with pytest.raises(UnderstudyError, match="no longer finite"):
        replace(PLAIN, activation="relu", recipe=replace(SHORT, epochs=10**6)).fit_many(jobs, 3)


def test_the_progress_bar_counts_epochs_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    PLAIN.fit(*blobs(9), 3, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "1 x 9 labels" in shown.err
    assert "15/15" in shown.err
    PLAIN.fit(*blobs(9), 3)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("inputs", "labels", "complaint"),
    [
        (np.zeros(5), np.zeros(5, int), "must have 2 dimensions"),
        (np.zeros((5, 0)), np.zeros(5, int), "must have 2 dimensions"),
        (np.full((2, 3), "a"), np.zeros(2, int), "inputs must be numbers; got <U1"),
        (np.full((2, 3), 1e300), np.zeros(2, int), "item 0 of 2 has inputs that are not finite in float32"),
        (np.zeros((5, 2)), np.zeros(4, int), "5 items need one label each"),
        (np.zeros((0, 2)), np.zeros(0, int), "at least one labelled item"),
        (np.zeros((5, 2)), np.zeros(5), "labels must be integers"),
        (np.zeros((5, 2)), np.array([0, 1, 2, 3, 1]), "0 to 2 for 3 classes; got 0 to 3"),
        (np.zeros((5, 2)), np.array([0, 1, -1, 0, 1]), "got -1 to 1"),
        (np.array([[1.0], [np.nan]]), np.array([0, 1]), "item 1 of 2 has inputs that are not finite"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(inputs: np.ndarray, labels: np.ndarray, complaint: str) -> None:
    with pytest.raises(UnderstudyError, match=complaint):
        PLAIN.fit(inputs, labels, 3)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, "a"])
def test_seeds_are_whole_numbers_numpys_too(seed: object) -> None:
    expected = PLAIN.fit(*blobs(9), 3, seed=7).logits(blobs(9)[0])
    np.testing.assert_array_equal(PLAIN.fit(*blobs(9), 3, seed=np.uint64(7)).logits(blobs(9)[0]), expected)  # type: ignore[arg-type]
    with pytest.raises(UnderstudyError, match="seed must be"):
        PLAIN.fit(*blobs(9), 3, seed=seed)  # type: ignore[arg-type]


def test_questions_that_are_no_numbers_are_refused() -> None:
    items = blobs(9)[0]
    items[4, 1] = np.nan
    with pytest.raises(UnderstudyError, match="item 4 has features that are not finite"):
        PLAIN.fit(*blobs(9), 3).predict_proba(items)


def test_questions_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(UnderstudyError, match=r"takes 5 columns of features; got shape \(4, 6\)"):
        PLAIN.fit(*blobs(9), 3).predict_proba(np.zeros((4, 6)))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"hidden": ()}, "one or more layer widths"),
        ({"hidden": (5, 0)}, "each at least 1"),
        ({"activation": "sigmoid"}, "tanh, relu, gelu; got 'sigmoid'"),
        ({"dropout": 1.0}, "below 1"),
        ({"dropout": 0.001}, "from 1/256 to below 1"),
        ({"device": "gpu"}, "'gpu' is not a device; use 'cpu' or 'cuda'"),
        ({"device": "cuda:99"}, "device='cuda:99' but torch sees"),
        ({"scaling": "rows"}, "none, columns, whole"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(UnderstudyError, match=complaint):
        Head(**settings)  # type: ignore[arg-type]


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_gpu
@pytest.mark.parametrize("head", [PLAIN, replace(FANCY, dropout=0.0)], ids=["plain", "fancy"])
def test_a_gpu_finds_the_same_heads(head: Head) -> None:
    jobs = [Job(*blobs(45, seed=seed), seed) for seed in range(3)]
    items, _ = blobs(20, seed=50)
    for here, there in zip(head.fit_many(jobs, 3), replace(head, device="cuda").fit_many(jobs, 3), strict=True):
        np.testing.assert_allclose(there.logits(items), here.logits(items), rtol=1e-2, atol=1e-3)


@needs_gpu
def test_with_dropout_a_gpu_finds_the_same_heads_together_one_by_one_and_again() -> None:
    head = replace(FANCY, device="cuda")
    jobs = [Job(*blobs(45, seed=seed), seed) for seed in range(3)]
    items, _ = blobs(20, seed=50)
    for job, model in zip(jobs, head.fit_many(jobs, 3), strict=True):
        alone, again = (head.fit(job.inputs, job.labels, 3, seed=job.seed).logits(items) for _ in range(2))
        np.testing.assert_array_equal(alone, again)
        np.testing.assert_allclose(model.logits(items), alone, rtol=1e-3, atol=1e-3)


@needs_gpu
def test_a_recorded_step_is_the_step() -> None:
    inputs, labels = blobs(45)
    plain, hooked = (replace(FANCY, device="cuda").fit(inputs, labels, 3, hook=hook) for hook in (None, TrainingHook()))
    np.testing.assert_allclose(plain.logits(inputs), hooked.logits(inputs), rtol=1e-3, atol=1e-3)
