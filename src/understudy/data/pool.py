"""The pool: items to choose from, and what is known of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from PIL import Image

from understudy.data.faults import Fault
from understudy.data.items import ArrayImages, Items, RawItems
from understudy.errors import UnderstudyError
from understudy.frames import count_rows, take_rows
from understudy.messages import count_of, list_some

UNLABELLED: Final = -1


@dataclass(frozen=True, eq=False)
class Pool:
    """n items: row i of everything is the item `ids[i]`.

    `ids` are distinct and stay the same from run to run. `features` is (n, d), often memory-mapped. `labels` is (n,),
    rows of `classes` or UNLABELLED. `faults` are the items that were left out, and notes on some that were not.
    `inputs` is what scikit-learn's estimators are given in place of `features`: a frame, a sparse matrix, an array.
    """

    ids: tuple[str, ...]
    items: Items | None = None
    features: np.ndarray | None = None
    labels: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    inputs: Any = None

    def __post_init__(self) -> None:
        n = len(self.ids)
        if len(set(self.ids)) < n:
            twice = sorted(name for name, times in Counter(self.ids).items() if times > 1)
            raise UnderstudyError(f"the identities of a pool must differ; given more than once: {list_some(twice, 5)}")
        if len(set(self.classes)) < len(self.classes):
            raise UnderstudyError(f"the classes of a pool must differ; got {', '.join(self.classes)}")
        for name, length in (("items", _length_of(self.items)), ("features", _length_of(self.features)),
                             ("labels", _length_of(self.labels)), ("inputs", _length_of(self.inputs))):  # fmt: skip
            if length not in (None, n):
                raise UnderstudyError(
                    f"{n:,} identities but {length:,} rows of {name}; give one of each for every item"
                )
        if self.features is not None and self.features.ndim != 2:
            raise UnderstudyError(f"features must have two axes, items and columns; got shape {self.features.shape}")
        if self.labels is not None and (self.labels.ndim != 1 or self.labels.dtype.kind not in "iu"):
            raise UnderstudyError(
                f"labels must be one whole number an item; got {self.labels.dtype} of shape {self.labels.shape}"
            )
        if self.labels is not None and n:
            low, high = int(self.labels.min()), int(self.labels.max())
            if low < UNLABELLED or high >= len(self.classes):
                raise UnderstudyError(
                    f"labels must be -1 to {len(self.classes) - 1}, one class each; got {low} to {high}"
                )

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Pool({', '.join(self.facts)})"

    @property
    def facts(self) -> tuple[str, ...]:
        """What there is, in a few words each."""
        kinds = {"image": ("image", "images"), "text": ("text", "texts")}
        said = [count_of(len(self), *(kinds[self.items.kind] if self.items is not None else ("item", "items")))]
        if self.features is not None:
            said.append(count_of(int(self.features.shape[1]), "feature"))
        elif self.inputs is not None and len(self.inputs.shape) == 2:
            said.append(count_of(int(self.inputs.shape[1]), "column"))
        said += [count_of(self.classes, "class", "classes")] if self.classes else []
        said += [] if self.labels is None else [f"{int(self.is_labelled.sum()):,} labelled"]
        return tuple(said)

    def _repr_html_(self) -> str | None:
        from understudy.data.pool_card import draw_pool  # which knows pools
        from understudy.notebook import draw_safely

        return draw_safely(lambda: draw_pool(self))

    @property
    def is_labelled(self) -> np.ndarray:
        """(n,): where the label is known."""
        return np.zeros(len(self), bool) if self.labels is None else self.labels != UNLABELLED

    def item(self, row: int) -> Image.Image | str:
        """The raw item: an image or a text, read now. ItemFault says what is wrong with one that cannot be used."""
        return self.raw_items()[row]

    def raw_items(self) -> RawItems:
        """All raw items, images or texts, for what learns from them; each is read when it is asked for."""
        if self.items is None:
            raise UnderstudyError("this pool has no raw items, only what is known of them; load what it was made of")
        return RawItems(self.items)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Features (n, d) and labels (n,), for those who can do nothing without both."""
        if self.features is None:
            raise UnderstudyError("this pool has no features yet; make some with: understudy embed")
        if self.labels is None:
            raise UnderstudyError("this pool has no labels; give them in a column, or as one folder a class")
        return self.features, self.labels

    def pixels(self) -> np.ndarray:
        """(n, height, width) or (n, height, width, channels): all images as bytes, for what learns from pixels."""
        if self.items is None or self.items.kind != "image":
            raise UnderstudyError("this pool has no images; load the folder, table or data set that holds them")
        if isinstance(self.items, ArrayImages):
            return self.items.pixels
        if not len(self):
            raise UnderstudyError("this pool is empty; there are no images to learn from")
        first = np.asarray(self.item(0))
        pixels = np.empty((len(self), *first.shape), np.uint8)
        for row in range(len(self)):
            image = np.asarray(self.item(row))
            if image.shape != first.shape:
                raise UnderstudyError(
                    f"images to be learnt from must be of one size, but {self.ids[0]} has {first.shape[:2]} pixels and "
                    f"{self.ids[row]} {image.shape[:2]}; resize them, or use features: understudy embed"
                )
            pixels[row] = image
        return pixels

    def take(self, rows: Sequence[int] | np.ndarray) -> "Pool":
        """A pool of these rows, in this order. Rows that follow one another are a view: what is mapped stays so."""
        chosen = np.asarray(rows)
        if chosen.dtype == bool:
            raise UnderstudyError("rows must be numbers, got booleans; use numpy.flatnonzero(mask) for a mask of rows")
        kept = chosen.astype(np.int64).tolist()
        in_line = bool(kept) and kept == list(range(kept[0], kept[0] + len(kept))) and kept[0] >= 0
        index = slice(kept[0], kept[0] + len(kept)) if in_line else kept
        return replace(
            self,
            ids=tuple(self.ids[row] for row in kept),
            items=None if self.items is None else self.items.take(kept),
            features=None if self.features is None else self.features[index],
            labels=None if self.labels is None else self.labels[index],
            inputs=None if self.inputs is None else take_rows(self.inputs, np.array(kept, dtype=np.int64)),
        )

    def without(self, faulty: Mapping[int, Fault]) -> "Pool":
        """A pool without these rows, which keeps what is wrong with them among its faults."""
        if not faulty:
            return self
        kept = [row for row in range(len(self)) if row not in faulty]
        return replace(self.take(kept), faults=self.faults + tuple(faulty.values()))


@dataclass(frozen=True, eq=False)
class Dataset:
    """A pool and, where there is one, the test set that nobody labels."""

    name: str
    pool: Pool
    test: Pool | None = None

    @property
    def parts(self) -> tuple[Pool, ...]:
        """The pool, and the test set where there is one."""
        return (self.pool,) if self.test is None else (self.pool, self.test)

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}: {', '.join((*self.pool.facts, *self._on_test))})"

    def _repr_html_(self) -> str | None:
        from understudy.data.pool_card import draw_pool
        from understudy.notebook import draw_safely

        return draw_safely(lambda: draw_pool(self.pool, self.name, self._on_test))

    @property
    def _on_test(self) -> tuple[str, ...]:
        return () if self.test is None else (f"{len(self.test):,} more to test on",)


def _length_of(values: Any) -> int | None:
    return None if values is None else count_rows(values)
