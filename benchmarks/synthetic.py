"""A pool to time things on: overlapping clusters with a learner that is right about as often as a real one."""

import numpy as np
from numpy.typing import NDArray


def pool(
    n: int, n_classes: int, n_columns: int = 64, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
    """Features, predictions and labels. About 20 clusters a class up to 2,000, sizes uneven."""
    rng = np.random.default_rng(seed)
    n_clusters = min(20 * n_classes, 2000)
    centres = rng.normal(size=(n_clusters, n_columns)).astype(np.float32)
    member = rng.choice(n_clusters, size=n, p=rng.dirichlet(np.ones(n_clusters)))
    features = centres[member] + 0.6 * rng.normal(size=(n, n_columns)).astype(np.float32)
    labels = member % n_classes
    probs = np.empty((n, n_classes), dtype=np.float32)
    for start in range(0, n, 10_000):
        rows = slice(start, min(start + 10_000, n))
        logits = rng.normal(scale=1.5, size=(rows.stop - start, n_classes)).astype(np.float32)
        logits[np.arange(len(logits)), labels[rows]] += 4.0
        logits -= logits.max(1, keepdims=True)
        probs[rows] = np.exp(logits)
        probs[rows] /= probs[rows].sum(1, keepdims=True)
    return features, probs, labels
