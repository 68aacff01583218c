"""The bench: a pool whose labels are known but not shown, and test items that no strategy sees."""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from understudy.data.items import ArrayImages
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError, UsageError
from understudy.experiments.plan import STREAM_SPLIT
from understudy.learners.protocol import Takes
from understudy.messages import list_some

HELD_OUT: Final = 0.2  # of the pool, where there is no test set
MAX_CLASSES: Final = 5  # classes named in one line


@dataclass(frozen=True, eq=False)
class Bench:
    """What strategies are compared on."""

    name: str
    pool: Pool
    test: Pool
    unusable: int = 0  # items that were left out when they were loaded
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
        """Its share of the test items: what naming it always would get right."""
        return float(np.bincount(self.test_labels).max() / len(self.test_labels))

    @property
    def n_classes(self) -> int:
        return len(self.pool.classes)

    def notes(self) -> list[str]:
        """What its user should know of these items, a line each."""
        notes = []
        left_out = [(self.unusable, "cannot be used"), (self.unlabelled, "have no label")]
        if any(number for number, _ in left_out):
            said = " and ".join(f"{number:,} that {why}" for number, why in left_out if number)
            notes.append(f"items left out: {said}")
        unseen = np.setdiff1d(self.test_labels, self.truth)
        if len(unseen):
            names = list_some((self.pool.classes[label] for label in unseen), MAX_CLASSES)
            rows = int(np.isin(self.test_labels, unseen).sum())
            notes.append(f"no item to choose from is of {names}: {rows:,} of the test items cannot be got right")
        return notes

    def digest(self) -> str:
        """What tells these items and labels from others."""
        found = hashlib.sha256()
        for part in (self.pool, self.test):
            found.update(repr((len(part), part.classes)).encode())
            found.update("\n".join(part.ids).encode())
            pixels = part.items.pixels if isinstance(part.items, ArrayImages) else None
            for values in (part.features, part.labels, pixels):
                if values is not None:
                    found.update(np.ascontiguousarray(values).view(np.uint8).data)
        return found.hexdigest()[:16]


def bench_of(dataset: Dataset, seed: int = 0) -> Bench:
    """The items whose class is known. Without a test set a fifth of them, drawn once, is held out as one."""
    pool = _known(dataset.pool, "pool")
    found = sorted(set(pool.labels.tolist())) if pool.labels is not None else []
    if len(found) < 2:
        raise UnderstudyError(
            f"all labelled items of {dataset.name} are of one class, {pool.classes[found[0]]}; "
            "there is nothing to learn: give items of two classes or more"
        )
    unusable = sum(not fault.used for part in dataset.parts for fault in part.faults)
    unlabelled = sum(int((~part.is_labelled).sum()) for part in dataset.parts)
    if dataset.test is not None:
        if dataset.test.classes != dataset.pool.classes:
            tested, known = (list_some(part.classes, MAX_CLASSES) for part in (dataset.test, dataset.pool))
            raise UnderstudyError(
                f"the test set of {dataset.name} has other classes than its pool ({tested}; {known}); "
                "give both the same, in the same order"
            )
        return Bench(dataset.name, pool, _known(dataset.test, "test set"), unusable, unlabelled)
    order = np.random.default_rng([seed, STREAM_SPLIT]).permutation(len(pool))
    cut = round(HELD_OUT * len(pool))
    if not cut or cut == len(pool):
        raise UnderstudyError(f"{dataset.name} has {len(pool)} labelled items, too few to hold some out as a test set")
    return Bench(dataset.name, pool.take(np.sort(order[cut:])), pool.take(np.sort(order[:cut])), unusable, unlabelled)


def _known(part: Pool, called: str) -> Pool:
    if not part.is_labelled.any():
        raise UnderstudyError(
            f"the {called} has no labels, and a comparison needs them all; give labels with the items"
        )
    return part if part.is_labelled.all() else part.take(np.flatnonzero(part.is_labelled))


def inputs_of(part: Pool, takes: Takes) -> Any:
    """What a learner is given for each item of a pool."""
    if takes == "ids":
        return list(part.ids)
    if takes == "images":
        return part.pixels()
    if part.features is None:
        raise UsageError("this learner needs features, and there are none; make some: understudy embed")
    return part.features
