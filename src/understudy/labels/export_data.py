"""What an export is made of, frozen at one moment: decisions, labels, the last model and its predictions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from understudy.data.items import Items
from understudy.errors import NotFound
from understudy.learners.calibration import Calibration


class LabelRow(NamedTuple):
    """One annotator's decision on an item: a label, don't know, bad, skipped, a flag, or a settlement.

    `item` is the row in the pool. `effective` is the label that counts and `resolution` how it came about: single,
    agreed, settled, majority or review. `disputed`: people differ and nobody has decided. `asked` says how the item
    came to the annotator: choice, audit, second, again or unasked. `guess` is what the model `model` predicted then.
    A settlement, a reviewer's last word, has a row too; what it says stands beside all other rows of the item.
    """

    id: str
    item: int
    label: str | None
    effective: str | None
    decision: str
    annotator: str
    labelled_at: str
    asked: str
    why: str | None
    influence_share: float | None
    model: str | None
    guess: str | None
    source: str | None
    seconds: float | None
    flagged: bool
    note: str | None
    resolution: str | None = None
    disputed: bool = False
    settled_by: str | None = None
    settled_note: str | None = None


COLUMNS: Final = LabelRow._fields
FIRST_COLUMNS: Final = COLUMNS[:16]  # that exports of every version begin with


@dataclass(frozen=True, eq=False)
class ExportData:
    """All that an export may need. It never changes, so it can be written while people go on labelling.

    `effective` is the class of each labelled row. `classes` are in the order they are shown in, `model_classes` in that
    of the predictions' columns, with those that the model does not know at the end. `read_rows` makes the rows of all
    decisions, `predictions` reads the last model's probabilities and `calibrate` fits what they are calibrated by; all
    only when a format asks for it.
    `model_file` is that model's safetensors file. With `is_raw` probabilities stay as the model gives them.
    `base` is the folder that the files of the items lie in. `prefix` is what addresses of images begin with in formats
    that have such; None for what is usual there.
    """

    ids: Sequence[str]
    classes: tuple[str, ...]
    read_rows: Callable[[], Iterable[LabelRow]]
    effective: Mapping[int, str]
    items: Items | None = None
    model_classes: tuple[str, ...] | None = None  # None: as `classes`
    predictions: Callable[[], np.ndarray] | None = None
    model: str | None = None
    model_file: Path | None = None
    model_outputs: Sequence[str | None] = ()  # what the classes of that file are called today; None: it was removed
    about_model: Mapping[str, Any] = field(default_factory=dict)
    calibrate: Callable[[np.ndarray], Calibration] | None = None
    is_raw: bool = False
    base: Path | None = None
    prefix: str | None = None

    @cached_property
    def raw_probs(self) -> np.ndarray | None:
        """(n, c): what the last model itself predicts, or None before there is one; rows that came later have none."""
        return None if self.predictions is None else self.predictions()

    @cached_property
    def calibration(self) -> Calibration:
        """What probabilities are calibrated by; it changes nothing where they are to stay raw."""
        if self.is_raw or self.calibrate is None or self.raw_probs is None:
            return Calibration()
        return self.calibrate(self.raw_probs)

    @cached_property
    def probs(self) -> np.ndarray | None:
        """The same, calibrated."""
        return None if self.raw_probs is None else self.calibration.apply(self.raw_probs)

    @cached_property
    def rows(self) -> Sequence[LabelRow]:
        return tuple(self.read_rows())

    @cached_property
    def kind(self) -> Literal["image", "text"]:
        return "image" if self.items is None else self.items.kind

    def text(self, row: int) -> str | None:
        """The text of an item; None in a pool of images."""
        if self.items is None or self.items.kind != "text":
            return None
        return self.items.read(row).decode("utf-8", "replace")

    @cached_property
    def rows_of_item(self) -> Mapping[int, list[LabelRow]]:
        found: dict[int, list[LabelRow]] = {}
        for row in self.rows:
            found.setdefault(row.item, []).append(row)
        return found

    @property
    def known_classes(self) -> tuple[str, ...]:
        """The classes that the last model knows, in the order of its probabilities."""
        names = self.classes if self.model_classes is None else self.model_classes
        return names[: self.require_probs().shape[1]]

    def require_probs(self) -> np.ndarray:
        if self.probs is None:
            raise NotFound("there is no model yet, so there are no predictions; label items of two classes first")
        return self.probs


def about_resolution(row: LabelRow) -> dict[str, Any]:
    """How the label that counts came about, for formats that keep such things beside a label."""
    settled = {} if row.settled_by is None else {"settled_by": row.settled_by, "settled_note": row.settled_note}
    return {"effective": row.effective, "resolution": row.resolution, "disputed": row.disputed, **settled}
