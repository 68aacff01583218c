"""Small pools for strategies: arrays that hang together, and views with just what a strategy asked for."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from understudy.learners.heads import Head
from understudy.learners.training import Recipe
from understudy.strategies.protocol import ChangesTraining, Strategy
from understudy.strategies.view import UNLABELLED, PoolView

N_CLASSES = 3


@dataclass(frozen=True, eq=False)
class Arrays:
    """What there is to know about a pool, whether a strategy asks for it or not."""

    features: np.ndarray
    truth: np.ndarray
    probs: np.ndarray
    hidden: np.ndarray
    activations: tuple[np.ndarray, ...]
    stochastic: np.ndarray
    gradient_norms: np.ndarray
    images: np.ndarray

    def __len__(self) -> int:
        return len(self.features)

    def take(self, rows: np.ndarray) -> "Arrays":
        """These rows, in this order; some may come more than once."""
        taken = {name: values[rows] for name, values in vars(self).items() if name != "activations"}
        return Arrays(**taken, activations=tuple(layer[rows] for layer in self.activations))

    def as_type(self, dtype: type) -> "Arrays":
        kept = {"truth", "images"}
        cast = {
            name: values.astype(dtype)
            for name, values in vars(self).items()
            if name not in kept and name != "activations"
        }
        return replace(self, **cast, activations=tuple(layer.astype(dtype) for layer in self.activations))


def make_arrays(n: int = 40, d: int = 6, seed: int = 0, passes: int = 8, side: int = 16) -> Arrays:
    """Three overlapping blobs, and a made-up learner that is mostly right about them. Nothing ties."""
    rng = np.random.default_rng(seed)
    centres = 2.0 * rng.standard_normal((N_CLASSES, d))
    truth = rng.integers(0, N_CLASSES, n)
    features = centres[truth] + rng.standard_normal((n, d))
    weights = [rng.standard_normal((d, 8)) / d**0.5, rng.standard_normal((8, 5)) / 8**0.5]
    first = np.maximum(features @ weights[0], 0)
    hidden = np.maximum(first @ weights[1], 0) + 0.01 * rng.random((n, 5))
    logits = -0.5 * ((features[:, None] - centres) ** 2).sum(2) / d
    noise = rng.standard_normal((n, passes, N_CLASSES))
    pictures = rng.integers(0, 60, (n, side, side)) + 60 * truth[:, None, None]
    return Arrays(
        features=features,
        truth=truth,
        probs=softmax(logits),
        hidden=hidden,
        activations=(first, hidden),
        stochastic=softmax(logits[:, None] + 0.7 * noise),
        gradient_norms=rng.random(n),
        images=pictures.astype(np.uint8),
    )


def constant_arrays(n: int = 12) -> Arrays:
    """Rows that nobody can tell apart."""
    return make_arrays(1).take(np.zeros(n, dtype=np.int64))


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def labels_of(arrays: Arrays, labelled: Any) -> np.ndarray:
    labels = np.full(len(arrays), UNLABELLED)
    labels[labelled] = arrays.truth[labelled]
    return labels


def view_for(strategy: Strategy, arrays: Arrays, labelled: Any, without: str = "", **more: Any) -> PoolView:
    """A view with what the strategy needs and nothing else; one thing can be left out.

    The hook of a strategy that changes training is trained here, with a small learner on the labelled rows.
    """
    needs, labels = strategy.needs, labels_of(arrays, labelled)
    supplies = {name: getattr(arrays, name) for name in needs.supplies if name != without}
    if needs.images_or_features:
        supplies["features"] = arrays.features
    if isinstance(strategy, ChangesTraining) and needs.hook and len(labelled):
        learner = Head(hidden=(8, 5), recipe=Recipe(epochs=2, batch_size=8))
        hook = strategy.training_hook(None, np.random.default_rng(7))
        model = learner.fit(arrays.features[labelled], labels[labelled], N_CLASSES, hook=hook)
        if "activations" in supplies:
            activations = model.activations(arrays.features)
            supplies["activations"] = tuple(layer.astype(arrays.features.dtype) for layer in activations)
    return PoolView(labels, N_CLASSES, **supplies, **more)
