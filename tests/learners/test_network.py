from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.learners.literal import gradient_lengths
from tests.learners.tasks import stripes
from understudy import UnderstudyError
from understudy.hooks import Setup, Step, TrainingHook
from understudy.learners import network
from understudy.learners.network import Network, NetworkModel, move_images
from understudy.learners.protocol import Learner, Model
from understudy.learners.training import Recipe

QUICK = Network(recipe=Recipe(learning_rate=0.05, batch_size=16, epochs=4, schedule="one_cycle"))


def puzzles(n: int) -> np.ndarray:
    """Images halfway between two classes, of which no network can be certain."""
    lying, standing = stripes(2 * n, seed=3)[0][::2], stripes(2 * n, seed=3)[0][1::2]
    return (lying // 2 + standing // 2).astype(np.uint8)


@pytest.fixture(scope="module")
def model() -> NetworkModel:
    return QUICK.fit(*stripes(48), 2, seed=1)


def test_networks_meet_the_protocols(model: NetworkModel) -> None:
    assert isinstance(QUICK, Learner)
    assert isinstance(model, Model)


def test_a_network_learns_what_it_sees(model: NetworkModel) -> None:
    images, labels = stripes(40, seed=1)
    probs = model.predict_proba(images)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-5)
    assert (probs.argmax(1) == labels).mean() > 0.9


def test_the_same_seed_gives_the_same_network_whatever_else_draws(model: NetworkModel) -> None:
    torch.manual_seed(4321)
    before = torch.random.get_rng_state()
    again = QUICK.fit(*stripes(48), 2, seed=1)
    assert torch.equal(torch.random.get_rng_state(), before)
    images = stripes(8, seed=1)[0]
    np.testing.assert_array_equal(again.logits(images), model.logits(images))


def test_outputs_fit_together_and_blocks_too(model: NetworkModel) -> None:
    images = stripes(10, seed=2)[0]
    layers = model.activations(images)
    assert [layer.shape for layer in layers] == [(10, 64), (10, 128), (10, 256), (10, 512)]
    np.testing.assert_array_equal(layers[-1], model.features(images))
    last = model.net.last
    np.testing.assert_allclose(
        layers[-1] @ last.weight.numpy().T + last.bias.numpy(), model.logits(images), rtol=1e-4, atol=1e-5
    )
    in_blocks = replace(model, images_per_block=4)
    np.testing.assert_allclose(in_blocks.features(images), layers[-1], rtol=1e-3, atol=1e-5)
    assert model.predict_proba(images[:0]).shape == (0, 2)


@pytest.mark.parametrize("of", ["entropy", "each_class"])
def test_gradient_norms_are_those_of_automatic_differentiation(model: NetworkModel, of: str) -> None:
    images = puzzles(3)
    inputs = network.as_input(torch.from_numpy(images)[..., None], model.shift, model.scale)

    class LogitsOnly(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = model.net

        def forward(self, items: torch.Tensor) -> torch.Tensor:
            return self.net(items)[1]

    model.net.requires_grad_(True)
    try:
        expected = [gradient_lengths(LogitsOnly(), item, of) for item in inputs]
        hidden = torch.from_numpy(model.features(images))
        last = [gradient_lengths(model.net.last, item, of) for item in hidden]
    finally:
        model.net.requires_grad_(False)
    np.testing.assert_allclose(model.gradient_norms(images, of), expected, rtol=1e-3)  # type: ignore[arg-type]
    np.testing.assert_allclose(model.gradient_norms(images, of, "last"), last, rtol=1e-3)  # type: ignore[arg-type]


def test_a_pass_uses_one_mask_for_all_images(model: NetworkModel) -> None:
    images = np.repeat(puzzles(2), 2, axis=0)
    probs = model.stochastic_proba(images, 8, dropout=0.5)
    assert probs.shape == (4, 8, 2)
    np.testing.assert_allclose(probs[::2], probs[1::2], rtol=1e-5)
    assert np.log(probs[0]).std(0).max() > 0.1, "the passes do not differ"
    with pytest.raises(UnderstudyError, match="dropout above 0"):
        model.stochastic_proba(images, 8)


def test_images_are_moved_and_mirrored_as_told() -> None:
    images = torch.rand(5, 2, 6, 7)
    down, right = torch.tensor([4, 0, 8, 1, 5]), torch.tensor([4, 8, 0, 2, 7])
    mirrored = torch.tensor([False, False, True, True, False])
    found = move_images(images, down, right, mirrored)
    assert torch.equal(found[0], images[0])
    for i in range(5):
        bordered = torch.zeros(2, 14, 15)
        bordered[:, 4:10, 4:11] = images[i]
        cut = bordered[:, down[i] : down[i] + 6, right[i] : right[i] + 7]
        assert torch.equal(found[i], cut.flip(2) if mirrored[i] else cut)


def test_colours_and_single_images_of_a_class_are_fine() -> None:
    images, labels = stripes(3)
    coloured = np.repeat(images[..., None], 3, axis=3)
    once = replace(QUICK, dropout=0.5, recipe=replace(QUICK.recipe, epochs=1, batch_size=2))
    assert once.fit(coloured, labels, 4).predict_proba(coloured).shape == (3, 4)
    assert once.fit(images[:1], labels[:1], 4).predict_proba(images).shape == (3, 4)


@pytest.mark.parametrize(("n", "seed"), [(49, 0), (50, 1)])
def test_a_few_images_too_many_for_the_batches_do_no_harm(n: int, seed: int) -> None:
    images, labels = stripes(60, seed=1)
    model = QUICK.fit(*stripes(n), 2, seed=seed)
    assert (model.predict_proba(images).argmax(1) == labels).mean() > 0.9


def test_channels_are_scaled_by_their_mean_and_deviation() -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 16, 17, 3), dtype=np.uint8) // np.array([1, 2, 5], np.uint8)
    mean, deviation = network.channel_statistics(torch.from_numpy(images))
    np.testing.assert_allclose(mean, images.mean((0, 1, 2)), rtol=1e-6)
    np.testing.assert_allclose(deviation, images.std((0, 1, 2)), rtol=1e-6)


class FastPath(TrainingHook):
    def loss(self, step: Step) -> torch.Tensor:
        self.flags = (torch.backends.cudnn.enabled, torch.backends.cudnn.deterministic)
        return super().loss(step)


def test_training_is_deterministic_and_not_slow_for_it() -> None:
    hook = FastPath()
    replace(QUICK, recipe=replace(QUICK.recipe, epochs=1)).fit(*stripes(4), 2, hook=hook)
    assert hook.flags == (True, True)


def test_a_gpus_random_numbers_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_seed: int) -> None:
        raise AssertionError("the GPU's stream was seeded")

    monkeypatch.setattr(torch.cuda, "manual_seed_all", refuse)
    replace(QUICK, recipe=replace(QUICK.recipe, epochs=1)).fit(*stripes(4), 2)


class Watcher(TrainingHook):
    def begin(self, setup: Setup) -> None:
        self.widths, self.shapes = setup.widths, []  # type: ignore[var-annotated]

    def loss(self, step: Step) -> torch.Tensor:
        self.shapes.append([tuple(layer.shape) for layer in step.hidden])
        if step.epoch == 1:
            raise KeyboardInterrupt
        return super().loss(step)


def test_a_hook_sees_the_stages_and_an_interrupt_leaves_a_network() -> None:
    hook, (images, labels) = Watcher(), stripes(16)
    found = QUICK.fit(images, labels, 2, hook=hook)
    assert hook.widths == (64, 128, 256, 512)
    assert hook.shapes[0] == [(1, 16, 64), (1, 16, 128), (1, 16, 256), (1, 16, 512)]
    assert found.interrupted
    assert np.isfinite(found.predict_proba(images)).all()


@pytest.mark.parametrize(
    ("images", "complaint"),
    [
        (np.zeros((4, 16, 16)), "must be bytes"),
        (np.zeros((4, 16), np.uint8), "must be bytes"),
        (np.zeros((4, 8, 16), np.uint8), "16 to 128 pixels, best 32 to 64; got 8 x 16: resize"),
        (np.zeros((4, 224, 224, 3), np.uint8), "got 224 x 224"),
    ],
)
def test_images_it_is_not_for_are_refused(images: np.ndarray, complaint: str) -> None:
    with pytest.raises(UnderstudyError, match=complaint):
        QUICK.fit(images, np.zeros(4, int), 2)


def test_questions_in_other_colours_are_refused(model: NetworkModel) -> None:
    with pytest.raises(UnderstudyError, match="images of 1 channels; got shape"):
        model.predict_proba(np.zeros((2, 16, 16, 3), np.uint8))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_finds_the_same_network_twice_and_a_good_one() -> None:
    learner = replace(QUICK, device="cuda")
    images, labels = stripes(40, seed=1)
    first, second = (learner.fit(*stripes(48), 2, seed=1).logits(images) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (first.argmax(1) == labels).mean() > 0.9
