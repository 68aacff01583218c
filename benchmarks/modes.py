"""A pool for strategies: classes of four modes each, features as a network's, and a learner of few labels to match.

Features are mode centres with low-rank noise through a ReLU, of mean length 1. Predictions are a logistic regression's,
trained on the labelled rows; stochastic ones are those of the same regression with disturbed weights. Everything is
written to a folder once, for other processes to read.
"""

from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

MODES = 4  # a class
LATENT = 32  # directions that matter
RANK = 16  # of the noise within a mode
NOISE = 2.0  # within a mode; centres of modes are 1 from their class's in every direction
OWN_NOISE = 0.3  # of every column
ROWS_AT_ONCE = 10_000
SIDE = 28  # of the images
DISTURBED = 2.0  # deviation of the stochastic weights, in deviations of the weights

Array = NDArray[np.float32]


def write_pool(folder: Path, n: int, d: int, n_classes: int, n_labelled: int, seed: int = 0) -> dict[str, float]:
    """Features, labels, weights, predictions, gradients and images into files; what the learner is worth back."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    features = features_of(labels, d, n_classes, rng)
    labelled = a_few_of_each(labels, n_classes, n_labelled, rng)
    learner = LogisticRegression(C=n_classes / 10, max_iter=300).fit(features[labelled], labels[labelled])
    weights = np.vstack([learner.coef_.T, learner.intercept_]).astype(np.float32)
    probs = softmax(features @ weights[:-1] + weights[-1])
    known = np.full(n, -1)
    known[labelled] = labels[labelled]
    slopes = -probs * (np.log(np.maximum(probs, 1e-30)) + entropy(probs)[:, None])
    steps = np.linalg.norm(slopes, axis=1) * (np.linalg.norm(features, axis=1) + 1)
    arrays = {"features": features, "labels": known, "probs": probs, "weights": weights, "gradient_norms": steps}
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    np.save(folder / "images.npy", images_of(features, rng))
    others = known < 0
    return {
        "accuracy": float((probs.argmax(1) == labels)[others].mean()),
        "mean_largest_probability": float(probs[others].max(1).mean()),
    }


def features_of(labels: NDArray[np.int64], d: int, n_classes: int, rng: np.random.Generator) -> Array:
    """Modes overlap in a space of few directions, which is then spread over all columns."""
    classes = rng.standard_normal((n_classes, 1, LATENT))
    centres = (classes + rng.standard_normal((n_classes, MODES, LATENT))).reshape(-1, LATENT)
    spread = rng.standard_normal((n_classes * MODES, RANK, LATENT)) / RANK**0.5
    onto = (rng.standard_normal((LATENT, d)) / LATENT**0.5).astype(np.float32)
    member = labels * MODES + rng.integers(0, MODES, len(labels))
    features = np.empty((len(labels), d), dtype=np.float32)
    for mode in range(n_classes * MODES):
        rows = np.flatnonzero(member == mode)
        latent = centres[mode] + NOISE * rng.standard_normal((len(rows), RANK)) @ spread[mode]
        own = OWN_NOISE * rng.standard_normal((len(rows), d), dtype=np.float32)
        features[rows] = np.maximum(latent.astype(np.float32) @ onto + own, 0)
    return features / np.linalg.norm(features, axis=1).mean()


def a_few_of_each(
    labels: NDArray[np.int64], n_classes: int, n_labelled: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Rows to be labelled, as many of every class, so that the learner knows them all."""
    each = max(1, n_labelled // n_classes)
    rows = [rng.permutation(np.flatnonzero(labels == c))[:each] for c in range(n_classes)]
    return np.sort(np.concatenate(rows))


def images_of(features: Array, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Blurred patterns that hang on the features as pictures hang on what they show."""
    shapes = rng.standard_normal((features.shape[1], SIDE // 4, SIDE // 4), dtype=np.float32)
    patterns = np.kron(shapes, np.ones((4, 4), dtype=np.float32)).reshape(features.shape[1], -1)
    images = np.empty((len(features), SIDE, SIDE), dtype=np.uint8)
    for start in range(0, len(features), ROWS_AT_ONCE):
        block = features[start : start + ROWS_AT_ONCE] @ patterns
        images[start : start + ROWS_AT_ONCE] = np.clip(128 + 64 * block, 0, 255).reshape(-1, SIDE, SIDE)
    return images


def stochastic_file(folder: Path, passes: int, seed: int = 1) -> Path:
    """(n, passes, c) predictions, made where they are missing."""
    file = folder / f"stochastic-{passes}.npy"
    if not file.exists():
        rng = np.random.default_rng(seed)
        features, weights = np.load(folder / "features.npy"), np.load(folder / "weights.npy")
        noise = rng.standard_normal((passes, *weights.shape), dtype=np.float32)
        drawn = weights + DISTURBED * weights.std() * noise
        shape = (len(features), passes, weights.shape[1])
        out = open_memmap(file, mode="w+", dtype=np.float32, shape=shape)
        for start in range(0, len(features), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            for t in range(passes):
                out[rows, t] = softmax(features[rows] @ drawn[t, :-1] + drawn[t, -1])
        out.flush()
    return file


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def entropy(probs: Array) -> Array:
    return -(probs * np.log(np.maximum(probs, 1e-30))).sum(-1)
