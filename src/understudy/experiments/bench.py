"""What strategies are compared on: a pool whose labels are known but hidden, and test items that no strategy sees."""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from understudy.data.items import ArrayImages, Texts
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError, UsageError
from understudy.experiments.metrics import untested_line
from understudy.experiments.plan import STREAM_SPLIT
from understudy.learners.protocol import Takes
from understudy.messages import HOW_TO_EMBED, list_some

HELD_OUT_SHARE: Final = 0.2  # of the pool, if there is no test set
MAX_CLASSES_NAMED: Final = 5  # in one line
HOW_TO_LABEL: Final = "give them with the items: y beside X in an .npz, a column `label`, or a folder for each class"


@dataclass(frozen=True, eq=False)
class Bench:
    """A pool whose labels are known, and a test set."""

    name: str
    pool: Pool
    test: Pool
    unusable: int = 0  # items left out at loading
    unlabelled: int = 0  # left out here

    @property
    def truth(self) -> np.ndarray:
        """(n,): the class of every row of the pool."""
        assert self.pool.labels is not None
        return self.pool.labels.astype(np.int64)

    @property
    def test_labels(self) -> np.ndarray:
        assert self.test.labels is not None
        return self.test.labels.astype(np.int64)

    @property
    def largest_class(self) -> float:
        """The accuracy of always predicting the most frequent class of the test items."""
        return float(np.bincount(self.test_labels).max() / len(self.test_labels))

    @property
    def n_classes(self) -> int:
        return len(self.pool.classes)

    def notes(self) -> list[str]:
        """What one should know about these items before a comparison, one line each."""
        notes = []
        left_out = [(self.unusable, "cannot be used"), (self.unlabelled, "have no label")]
        if any(number for number, _ in left_out):
            said = " and ".join(f"{number:,} that {why}" for number, why in left_out if number)
            notes.append(f"items left out: {said}")
        absent = np.setdiff1d(np.arange(self.n_classes), self.test_labels)
        if len(absent):
            notes.append(untested_line([self.pool.classes[label] for label in absent]))
        unseen = np.setdiff1d(self.test_labels, self.truth)
        if len(unseen):
            names = list_some((self.pool.classes[label] for label in unseen), MAX_CLASSES_NAMED)
            rows = int(np.isin(self.test_labels, unseen).sum())
            notes.append(f"the pool has no item of {names}, so {rows:,} of the test items cannot be predicted right")
        return notes

    def digest(self) -> str:
        """A digest of the items and their labels, to verify which data results belong to."""
        found = hashlib.sha256()
        for part in (self.pool, self.test):
            found.update(repr((len(part), part.classes)).encode())
            found.update("\n".join(part.ids).encode())
            pixels = part.items.pixels if isinstance(part.items, ArrayImages) else None
            for values in (part.features, part.labels, pixels):
                if values is not None:
                    found.update(np.ascontiguousarray(values).view(np.uint8).data)
            if part.features is None and isinstance(part.items, Texts):
                found.update(repr(part.items.texts).encode("utf-8", "surrogatepass"))
        return found.hexdigest()[:16]


def bench_of(dataset: Dataset, seed: int = 0) -> Bench:
    """The labelled items of a data set. Without a test set a random fifth of them is held out as one."""
    pool = _labelled_part(dataset.pool, "pool")
    found = sorted(set(pool.labels.tolist())) if pool.labels is not None else []
    if len(found) < 2:
        raise UnderstudyError(
            f"all labelled items of {dataset.name} belong to one class, {pool.classes[found[0]]}; "
            "a comparison needs two classes or more"
        )
    unusable = sum(not fault.used for part in dataset.parts for fault in part.faults)
    unlabelled = sum(int((~part.is_labelled).sum()) for part in dataset.parts)
    if dataset.test is not None:
        if dataset.test.classes != dataset.pool.classes:
            tested, known = (list_some(part.classes, MAX_CLASSES_NAMED) for part in (dataset.test, dataset.pool))
            raise UnderstudyError(
                f"the test set of {dataset.name} has other classes than its pool ({tested}; {known}); "
                "both need the same classes in the same order"
            )
        return Bench(dataset.name, pool, _labelled_part(dataset.test, "test set"), unusable, unlabelled)
    order = np.random.default_rng([seed, STREAM_SPLIT]).permutation(len(pool))
    cut = round(HELD_OUT_SHARE * len(pool))
    if not cut or cut == len(pool):
        raise UnderstudyError(f"{dataset.name} has {len(pool)} labelled items, too few to hold some out as a test set")
    return Bench(dataset.name, pool.take(np.sort(order[cut:])), pool.take(np.sort(order[:cut])), unusable, unlabelled)


def _labelled_part(part: Pool, called: str) -> Pool:
    if not part.is_labelled.any():
        raise UnderstudyError(f"the {called} has no labels, but a comparison needs them; {HOW_TO_LABEL}")
    return part if part.is_labelled.all() else part.take(np.flatnonzero(part.is_labelled))


def inputs_of(part: Pool, takes: Takes) -> Any:
    """A learner's inputs for all items of a pool."""
    if takes == "ids":
        return list(part.ids)
    if takes == "images":
        return part.pixels()
    if takes == "items":
        return part.raw_items()
    if part.features is None:
        raise UsageError(f"this learner needs features, but there are none; {HOW_TO_EMBED}")
    return part.features
