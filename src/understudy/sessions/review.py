"""Surprising labels: what the other labels would predict for each item, without its own.

All labelled rows are judged alike, whether the learner was trained on them or not: a sparse Gaussian process of the
labels over the features, and its exact leave-one-out means. The learner itself would not do, for it has seen
the labels it is to judge. Derivation: docs/accuracy-and-stopping.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.spatial.distance import cdist

from understudy.errors import UnderstudyError
from understudy.sessions.record import Record

LABEL_NOISE: Final = 0.1  # variance of a label: any of them may be wrong, so a single neighbour never decides
WIDTHS: Final = (0.25, 0.35, 0.5, 0.7, 1.0)  # in mean distances; the one that predicts the labels best is taken
BASIS_SIZE: Final = 500
MAX_LABELS_TRIED: Final = 1_000  # when a width is chosen
JITTER: Final = 1e-8
LEAST_AGREEMENT: Final = 0.5  # share of labels that are as expected, from which the others can judge a label
LEAST_SURPRISE: Final = 0.3  # from which a label is worth a second look
STREAM: Final = 0x72657669


@dataclass(frozen=True, eq=False)
class LabelsToReview:
    """The labels of a moment, copied, so that they can be judged while others go on labelling."""

    rows: Int[np.ndarray, "q"]
    labels: Int[np.ndarray, "q"]
    kept: Mapping[int, int]  # those that a review found right or a reviewer settled, by row
    n_classes: int
    seed: int

    @classmethod
    def of(cls, record: Record) -> "LabelsToReview":
        known = record.training_rows()
        rows, labels = np.array(list(known), np.int64), np.array(list(known.values()), np.int64)
        settled = {item: record.effective[item] for item, contest in record.contests.items() if contest == "settled"}
        return cls(rows, labels, {**record.kept, **settled}, len(record.classes), record.settings.seed)


@dataclass(frozen=True)
class Suspect:
    """A label that the others contradict. `surprise` is the lead of the class they expect over the label."""

    row: int
    label: int
    expected: int
    surprise: float


def find_suspects(features: np.ndarray, given: LabelsToReview) -> list[Suspect]:
    """The labels that the other labels speak against, worst first, by the features of the pool. It takes long.

    None where fewer than half of all labels are as the others expect: then a surprise says more about the features.
    """
    if len(set(given.labels.tolist())) < 2:
        return []
    own = np.asarray(features[given.rows], np.float32)
    expected, surprise = surprises(own, given.labels, given.n_classes, given.seed)
    if (expected == given.labels).mean() < LEAST_AGREEMENT:
        return []
    return suspects(given.rows, given.labels, expected, surprise, given.kept)


def surprises(
    features: Float[np.ndarray, "q d"], labels: Int[np.ndarray, "q"], n_classes: int, seed: int = 0
) -> tuple[Int[np.ndarray, "q"], Float[np.ndarray, "q"]]:
    """What the other labelled rows expect of each, and the lead of that over its label, from 0 to 1. O(q k²)."""
    return judge_labels(expectations(features, labels, n_classes, seed), labels)


def expectations(
    features: Float[np.ndarray, "q d"], labels: Int[np.ndarray, "q"], n_classes: int, seed: int = 0
) -> Float[np.ndarray, "q c"]:
    """Leave-one-out means of the labels, at the width of the kernel whose means come closest to the labels."""
    if len(labels) == 0:
        return np.zeros((0, n_classes))
    features = features.astype(np.float64) - features.mean(0, dtype=np.float64)
    order = np.random.default_rng([seed, STREAM]).permutation(len(features))
    distances = cdist(features[order], features[order[:BASIS_SIZE]])  # the basis comes first
    typical = float(distances.mean()) or 1.0  # features that say nothing: any width says so
    some, truth = labels[order[:MAX_LABELS_TRIED]], np.eye(n_classes)[labels[order[:MAX_LABELS_TRIED]]]
    errors = [
        float(
            np.square(
                truth - leave_one_out(*whiten(distances[:MAX_LABELS_TRIED], width * typical), some, n_classes)
            ).sum()
        )
        for width in WIDTHS
    ]
    means = np.empty((len(labels), n_classes))
    best = WIDTHS[int(np.argmin(errors))]
    means[order] = leave_one_out(*whiten(distances, best * typical), labels[order], n_classes)
    return means


def whiten(distances: Float[np.ndarray, "q k"], width: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows in terms of the first k of them, as the surrogate has them: w = L⁻¹ k (q, k), and ν = 1 - |w|² + noise."""
    kernel = np.exp(-np.square(distances / width))
    among = kernel[: distances.shape[1]]
    L = cholesky((among + among.T) / 2 + JITTER * np.eye(len(among)), lower=True)
    W = solve_triangular(L, kernel.T, lower=True).T
    return W, np.maximum(1 - np.square(W).sum(1), 0.0) + LABEL_NOISE


def leave_one_out(
    W: Float[np.ndarray, "q k"], nu: Float[np.ndarray, "q"], labels: Int[np.ndarray, "q"], n_classes: int
) -> Float[np.ndarray, "q c"]:
    """Means of one-hot labels by sparse regression on all other rows, for every row at once. O(q k²).

    Before any label every class is as likely as another.
    """
    targets = np.eye(n_classes)[labels]
    S = np.eye(W.shape[1]) + (W / nu[:, None]).T @ W
    factor = cho_factor(S, lower=True)
    g = np.square(solve_triangular(factor[0], W.T, lower=True)).sum(0)
    mean = 1 / n_classes + W @ cho_solve(factor, W.T @ ((targets - 1 / n_classes) / nu[:, None]))
    return without_own(mean, g, nu, targets)


def without_own(
    mean: Float[np.ndarray, "q c"],
    g: Float[np.ndarray, "q"],
    nu: Float[np.ndarray, "q"],
    targets: Float[np.ndarray, "q c"],
) -> Float[np.ndarray, "q c"]:
    """The mean at each row had its own target not been told: t - (t - mean) / (1 - g/ν).

    `mean` and `g` are the posterior's with the row in it. It holds for the surrogate's rows told since
    the last training too, with one-hot targets and while nothing is pending. A row that nothing but its own
    label speaks of, with g = ν to all digits, cannot be judged: it gets its target back.
    """
    left = 1 - g / nu
    told = left > 1e-9
    return targets - np.where(told, 1 / np.where(told, left, 1.0), 0.0)[:, None] * (targets - mean)


def judge_labels(
    means: Float[np.ndarray, "q c"], labels: Int[np.ndarray, "q"]
) -> tuple[Int[np.ndarray, "q"], Float[np.ndarray, "q"]]:
    """The expected class of each row, and by how much its share exceeds that of the given one."""
    shares = np.maximum(means, 0.0) + 1e-12  # all below zero: nothing is expected
    shares /= shares.sum(1, keepdims=True)
    expected = shares.argmax(1)
    rows = np.arange(len(labels))
    return expected, shares[rows, expected] - shares[rows, labels]


def suspects(
    rows: Int[np.ndarray, "q"],
    labels: Int[np.ndarray, "q"],
    expected: Int[np.ndarray, "q"],
    surprise: Float[np.ndarray, "q"],
    kept: Mapping[int, int],
    least: float = LEAST_SURPRISE,
) -> list[Suspect]:
    """Labels that are surprising enough for a review, worst first.

    `kept`: labels that a review found right, by row. They do not come again, unless they were changed since.
    """
    if not 0 <= least <= 1:
        raise UnderstudyError(f"the least surprise must be from 0 to 1; got {least}")
    found = [
        Suspect(row, label, other, size)
        for row, label, other, size in zip(
            rows.tolist(), labels.tolist(), expected.tolist(), surprise.tolist(), strict=True
        )
        if other != label and size >= least and kept.get(row) != label
    ]
    return sorted(found, key=lambda suspect: (-suspect.surprise, suspect.row))
