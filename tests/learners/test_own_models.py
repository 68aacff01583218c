"""A training function or a torch module of one's own is a learner."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from torch import Tensor, nn

from tests.learners.tasks import blobs, stripes
from tests.learners.tiny_models import Breaking, coloured_images, reviews
from understudy import ActiveLoop, UnderstudyError
from understudy.data.items import Texts
from understudy.data.pool import Pool
from understudy.errors import UsageError
from understudy.learners.lightning_models import LightningLearner
from understudy.learners.own_models import TorchLearner, TrainingFunction
from understudy.learners.protocol import Learner, Model
from understudy.learners.registry import make_feature_learner, make_learner
from understudy.learners.training import Recipe

FAST = Recipe("adamw", 0.02, batch_size=8, epochs=4)


# -- training functions ----------------------------------------------------------------------------------------


def count_words(texts: list[str], labels: np.ndarray) -> Any:
    return make_pipeline(CountVectorizer(), MultinomialNB()).fit(texts, labels)


def train_linear(features: np.ndarray, labels: np.ndarray, n_classes: int, epochs: int = 60) -> nn.Module:
    net = nn.Linear(features.shape[1], n_classes)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.1)
    for _ in range(epochs):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(net(torch.tensor(features)), torch.tensor(labels))
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return net


def colours_of(images: Sequence[Image.Image]) -> np.ndarray:
    return np.array([np.asarray(image).mean((0, 1)) for image in images])


def odd(rows: Any, labels: Any) -> None:
    """Its first argument says nothing."""


def test_a_pipeline_of_scikit_learn_learns_texts() -> None:
    texts, labels = reviews(30)
    learner = TrainingFunction(count_words)
    assert isinstance(learner, Learner)
    model = learner.fit(texts, 2 * labels, 4)
    assert isinstance(model, Model)
    probs = model.predict_proba(texts)
    assert probs.shape == (30, 4)  # the pipeline knows two of the four
    assert (probs.argmax(1) == 2 * labels).all()
    assert (probs[:, [1, 3]] == 0).all()


def test_a_function_is_named_on_the_command_line_and_its_first_argument_says_what_it_takes() -> None:
    words = make_learner("tests.learners.test_own_models:count_words")
    linear = make_learner("tests.learners.test_own_models:train_linear")
    assert (words.takes, linear.takes) == ("items", "features")
    features, labels = blobs(60)
    model = linear.fit(features, labels, 3, seed=1)
    assert (model.predict_proba(features).argmax(1) == labels).mean() > 0.9
    np.testing.assert_array_equal(linear.fit(features, labels, 3, seed=1).predict_proba(features),
                                  model.predict_proba(features))  # fmt: skip
    with pytest.raises(UsageError, match="named for what it takes, items, texts, features, images, ids; got 'rows'"):
        make_learner("tests.learners.test_own_models:odd")


def test_a_project_refuses_what_takes_items_and_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"takes items.*understudy compare.*--predictions"):
        make_feature_learner("tests.learners.test_own_models:count_words")


def test_a_loop_hands_texts_to_a_function_and_reads_no_others() -> None:
    texts, labels = reviews(20)
    seen: list[list[str]] = []

    def train(texts: list[str], labels: np.ndarray) -> Any:
        seen.append(texts)
        return count_words(texts, labels)

    pool = Pool(tuple(map(str, range(20))), Texts(texts), classes=("poor", "good"))
    loop = ActiveLoop(pool, TrainingFunction(train), "margin", schedule=[6])
    loop.tell(range(6), labels[:6])
    assert seen == [texts[:6]]
    assert (loop.predict_classes(range(20)) == labels).mean() > 0.7


def test_a_loop_takes_a_function_that_trains_as_it_is() -> None:
    texts = [f"{word} film {number}" for number in range(4) for word in ("a lovely", "an awful")]
    loop = ActiveLoop(texts, count_words, "margin", classes=["bad", "good"], schedule=[4])
    loop.tell(range(4), ["good", "bad", "good", "bad"])
    assert loop.learner == TrainingFunction(count_words)
    assert loop.model.predict_proba(["an awful evening"]).argmax() == 0


def test_images_are_read_when_they_are_asked_for() -> None:
    images, labels = coloured_images(12)
    given: list[Any] = []

    def train(images: Sequence[Image.Image], labels: np.ndarray) -> Any:
        given.append(images)
        assert len(images) == len(labels)
        return TrainingFunction  # anything but a model

    counted = Breaking(images, 3, AssertionError("read too early"))
    with pytest.raises(UnderstudyError, match="must return a torch module or something with predict_proba; got type"):
        TrainingFunction(train).fit(counted, labels, 2)
    assert given == [counted]


def test_a_function_is_given_what_it_names(tmp_path: Path) -> None:
    reported: dict[str, Any] = {}

    def train(items: Any, labels: Any, *, checkpoints: Path, report_progress: Any, device: str) -> Any:
        reported.update(checkpoints=checkpoints, device=device, draws=(torch.rand(1), random.random()))
        (checkpoints / "kept.txt").write_text("here")
        report_progress(1, 2)
        if len(reported["draws"]) and not reported.get("again"):
            raise OSError("unplugged")
        return count_words(items, labels)

    texts, labels = reviews(10)
    learner = TrainingFunction(train, checkpoints=tmp_path)
    with pytest.raises(OSError, match="unplugged"):
        learner.fit(texts, labels, 2, seed=9)
    before = dict(reported)
    assert (before["checkpoints"] / "kept.txt").read_text() == "here"  # the same training finds it again
    reported["again"] = True
    learner.fit(texts, labels, 2, seed=9, progress=True)
    assert reported["checkpoints"] == before["checkpoints"]
    assert reported["draws"] == before["draws"]  # the seed's
    assert not list(tmp_path.iterdir())


def test_functions_that_ask_for_more_are_refused() -> None:
    def train(items: Any, labels: Any, temperature: float) -> None: ...

    with pytest.raises(UsageError, match="also asks for temperature: give that a default"):
        TrainingFunction(train)


@pytest.mark.parametrize(
    ("probs", "complaint"),
    [([[1.0]] * 4, r"shape \(4, 2\); got \(4, 1\)"), ([[2.0, 3.0]] * 4, "apply a softmax first")],
)
def test_predictors_whose_probabilities_are_none_are_refused(probs: Any, complaint: str) -> None:
    class Predictor:
        def predict_proba(self, items: Any) -> np.ndarray:
            return np.array(probs)

    model = TrainingFunction(lambda items, labels: Predictor()).fit(["a", "b"], np.array([0, 1]), 2)  # noqa: ARG005
    with pytest.raises(UnderstudyError, match=complaint):
        model.predict_proba(["a", "b", "c", "d"])


# -- torch modules ---------------------------------------------------------------------------------------------


class Small(nn.Module):
    """Two layers with dropout and batch norm, whose states a checkpoint must have."""

    def __init__(self, n_classes: int, columns: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(columns, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2))
        self.last = nn.Linear(16, n_classes)

    def forward(self, batch: Tensor) -> Tensor:
        logits: Tensor = self.last(self.body(batch))
        return logits


def jittered_colours(images: Sequence[Image.Image]) -> Tensor:
    """Mean colours, with noise from the generators that other libraries use for augmentation."""
    noise = np.random.normal(0, 1, (len(images), 3)) + random.random()  # noqa: NPY002
    return torch.tensor((colours_of(images) + noise) / 100, dtype=torch.float32)


def test_a_module_is_trained_on_features_and_offers_those_of_its_last_layer() -> None:
    features, labels = blobs(80)
    learner = TorchLearner(lambda n: Small(n, 5), takes="features", recipe=replace(FAST, epochs=10), last_layer="last")
    loop = ActiveLoop(features, learner, "badge", schedule=[40], n_classes=3)
    loop.tell(range(40), labels[:40])
    loop.ask(2)
    assert (loop.predict_classes(range(40, 80)) == labels[40:]).mean() > 0.9
    model: Any = loop.model
    last = model.last_layer
    made = model.features(features) @ last.weight.numpy().T + last.bias.numpy()
    np.testing.assert_allclose(made, model.logits(features), atol=1e-5)
    assert model.predict_proba(features[:0]).shape == (0, 3)


def test_a_module_is_trained_on_arrays_of_images() -> None:
    images, labels = stripes(40)

    class Wave(nn.Module):
        def __init__(self, n_classes: int) -> None:
            super().__init__()
            self.last = nn.Linear(32, n_classes)

        def forward(self, pixels: Tensor) -> Tensor:
            values = pixels.float() / 255 - 0.5
            logits: Tensor = self.last(torch.cat([values.mean(1), values.mean(2)], dim=1))
            return logits

    model = TorchLearner(Wave, takes="images", recipe=replace(FAST, epochs=10)).fit(images, labels, 2)
    assert (model.predict_proba(images).argmax(1) == labels).mean() > 0.95


def test_a_broken_training_goes_on_from_its_last_epoch_to_the_same_model(tmp_path: Path) -> None:
    images, labels = coloured_images(24)
    learner = TorchLearner(
        Small, jittered_colours, recipe=FAST, checkpoints=tmp_path / "kept", seconds_between_checkpoints=0
    )
    with pytest.raises(OSError, match="unplugged"):
        learner.fit(Breaking(images, 2 * 24 + 9, OSError("unplugged")), labels, 2, seed=3)
    assert [path.name for path in (tmp_path / "kept").glob("*/*")] == ["state.pt"]
    again = Breaking(images, 1000, OSError())
    resumed = learner.fit(again, labels, 2, seed=3)
    assert 1000 - again.reads_left < 3 * 24  # two epochs were left
    whole = replace(learner, checkpoints=tmp_path / "other").fit(images, labels, 2, seed=3)
    random.seed(1), np.random.seed(1)  # noqa: NPY002
    probs = resumed.predict_proba(images)
    random.seed(1), np.random.seed(1)  # noqa: NPY002
    np.testing.assert_array_equal(probs, whole.predict_proba(images))
    assert not list((tmp_path / "kept").iterdir())


def test_ctrl_c_ends_a_training_with_what_was_learnt(tmp_path: Path) -> None:
    images, labels = coloured_images(16)
    learner = TorchLearner(Small, jittered_colours, recipe=FAST, checkpoints=tmp_path, seconds_between_checkpoints=0)
    stopped = learner.fit(Breaking(images, 30, KeyboardInterrupt()), labels, 2)
    assert stopped.interrupted
    assert stopped.predict_proba(images).shape == (16, 2)
    assert len(list(tmp_path.glob("*/state.pt"))) == 1  # the same training would go on


def test_texts_reach_a_module_as_its_collate_makes_them() -> None:
    texts, labels = reviews(40)
    words = {word: row for row, word in enumerate(sorted({word for text in texts for word in text.split()}), start=1)}

    def collate(texts: list[str]) -> dict[str, Tensor]:
        rows = [torch.tensor([words[word] for word in text.split()]) for text in texts]
        return {"words": nn.utils.rnn.pad_sequence(rows, batch_first=True)}

    class Bag(nn.Module):
        def __init__(self, n_classes: int) -> None:
            super().__init__()
            self.last = nn.EmbeddingBag(len(words) + 1, n_classes, padding_idx=0)

        def forward(self, words: Tensor) -> tuple[Tensor, str]:
            return self.last(words), "and more"

    learner = TorchLearner(Bag, collate, recipe=Recipe("adamw", 0.1, batch_size=8, epochs=8))
    model = learner.fit(texts, labels, 2)
    probs = model.predict_proba(texts)
    assert (probs.argmax(1) == labels).mean() > 0.95
    mixed = [7, 0, 31]  # whatever the order, and however long the others of a batch are
    np.testing.assert_allclose(model.predict_proba([texts[row] for row in mixed]), probs[mixed], atol=1e-6)


@pytest.mark.parametrize(
    ("learner", "complaint"),
    [
        (TorchLearner(lambda n: n, takes="features"), "must return a torch module; got int"),  # type: ignore[arg-type,return-value]
        (TorchLearner(lambda n: nn.Linear(5, n), takes="features", last_layer="head"), "has no layer 'head'"),
        (
            TorchLearner(lambda n: nn.Linear(5, n - 1), takes="features"),
            r"logits of 3 classes for each item; got shape",
        ),
        (
            TorchLearner(lambda n: nn.Linear(5, n + 2), takes="features"),
            r"logits of 3 classes for each item; got shape",
        ),
    ],
)
def test_modules_that_cannot_be_used_are_refused(learner: TorchLearner, complaint: str) -> None:
    features, labels = blobs(9)
    with pytest.raises(UnderstudyError, match=complaint):
        learner.fit(features, labels, 3)


def test_a_module_in_place_of_a_function_that_makes_one_is_refused() -> None:
    with pytest.raises(UsageError, match=r"make_model must be a function that makes the module, .*; got a Linear"):
        TorchLearner(nn.Linear(5, 3))
    with pytest.raises(UsageError, match=r"make_module must be a function that makes the module, .*; got a Linear"):
        LightningLearner(nn.Linear(5, 3))


def test_a_module_with_other_outputs_is_refused() -> None:
    features, labels = blobs(9)
    model = TrainingFunction(lambda features, labels: nn.Linear(5, 2), takes="features").fit(features, labels, 3)  # noqa: ARG005
    with pytest.raises(UnderstudyError, match=r"logits of 3 classes for each item; got shape \(9, 2\)"):
        model.predict_proba(features)
