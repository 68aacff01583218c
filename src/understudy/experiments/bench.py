"""The bench: a pool whose labels are known but not shown, and test items that no strategy sees."""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from understudy.data.items import ArrayImages
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError
from understudy.experiments.plan import STREAM_SPLIT
from understudy.learners.protocol import Takes

HELD_OUT: Final = 0.2  # of the pool, where there is no test set


@dataclass(frozen=True, eq=False)
class Bench:
    """What strategies are compared on."""

    name: str
    pool: Pool
    test: Pool

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
    def n_classes(self) -> int:
        return len(self.pool.classes)

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
    pool = known(dataset.pool, "pool")
    if dataset.test is not None:
        return Bench(dataset.name, pool, known(dataset.test, "test set"))
    order = np.random.default_rng([seed, STREAM_SPLIT]).permutation(len(pool))
    cut = round(HELD_OUT * len(pool))
    if not cut or cut == len(pool):
        raise UnderstudyError(f"{dataset.name} has {len(pool)} labelled items, too few to hold some out as a test set")
    return Bench(dataset.name, pool.take(np.sort(order[cut:])), pool.take(np.sort(order[:cut])))


def known(part: Pool, called: str) -> Pool:
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
        raise UnderstudyError("this learner needs features, and there are none; make some: understudy embed")
    return part.features
