"""What leaves a project, held still: the decisions, the labels that count, the last model and its predictions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from understudy.data.items import Items
from understudy.data.pool import Pool
from understudy.errors import NotFound
from understudy.sessions.events import Ask, Event
from understudy.sessions.labels.label_rows import LabelRow, label_rows
from understudy.sessions.record import Record
from understudy.sessions.training.artifacts import Artifacts


@dataclass(frozen=True, eq=False)
class Still:
    """What a record knew at one moment. Taken in milliseconds: events never change, so they need not be copied."""

    classes: tuple[str, ...]
    effective: Mapping[int, int]
    asks: Mapping[int, Event]
    asked: Mapping[Ask, dict[int, None]]
    events: Mapping[int, tuple[Event, ...]]

    @classmethod
    def of(cls, record: Record) -> "Still":
        asked = {ask: dict(items) for ask, items in record.asked.items()}
        events = {item: tuple(found.events) for item, found in record._of_item.items()}
        return cls(tuple(record.classes), dict(record.effective), dict(record.asks), asked, events)

    def record(self) -> Record:
        """The record of that moment, as far as rows of labels are made of it."""
        record = Record()
        record.classes, record.effective = list(self.classes), dict(self.effective)
        record.asks, record.asked = dict(self.asks), dict(self.asked)
        for item, events in self.events.items():
            record.tell_again(item, list(events))
        return record


@dataclass(frozen=True, eq=False)
class Outgoing:
    """All that an export may need. Nothing in it changes, so it is written while people go on labelling.

    `effective` is the class of each labelled row. `predictions` reads the last model's probabilities, where there is
    one. `model_file` is its safetensors file.
    """

    ids: Sequence[str]
    classes: tuple[str, ...]
    still: Still
    effective: Mapping[int, str]
    items: Items | None = None
    predictions: Callable[[], np.ndarray] | None = None
    model: str | None = None
    model_file: Path | None = None
    about_model: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def probs(self) -> np.ndarray | None:
        """(n, c): the last model's probabilities, or None before there is one; rows that came later have none."""
        return None if self.predictions is None else self.predictions()

    @cached_property
    def rows(self) -> Sequence[LabelRow]:
        return tuple(label_rows(self.still.record(), self.ids))

    @cached_property
    def kind(self) -> Literal["image", "text"]:
        return "image" if self.items is None else self.items.kind

    def text(self, row: int) -> str | None:
        """The text of an item of a pool of texts."""
        if self.items is None or self.items.kind != "text":
            return None
        return self.items.read(row).decode("utf-8", "replace")

    @cached_property
    def rows_of_item(self) -> Mapping[int, list[LabelRow]]:
        found: dict[int, list[LabelRow]] = {}
        for row in self.rows:
            found.setdefault(row.item, []).append(row)
        return found

    def require_probs(self) -> np.ndarray:
        if self.probs is None:
            raise NotFound("there is no model yet, so there are no predictions; label items of two classes first")
        return self.probs


def outgoing(record: Record, pool: Pool, artifacts: Artifacts | None = None) -> Outgoing:
    """What leaves a project now. To be called while nothing changes, which takes milliseconds: the rest comes later."""
    last = next((event for event in reversed(record.trainings) if event.data.get("predictions")), None)
    data: Mapping[str, Any] = {} if last is None else last.data
    read = model_file = None
    if artifacts is not None and data:
        read = partial(_probabilities, artifacts, data["predictions"])
        model_file = artifacts.path(data["model"]) if data.get("model") else None
    return Outgoing(
        ids=pool.ids,
        classes=tuple(record.classes),
        still=Still.of(record),
        effective={item: record.classes[label] for item, label in record.effective.items()},
        items=pool.items,
        predictions=read,
        model=data.get("model"),
        model_file=model_file,
        about_model={name: data[name] for name in ("until", "labels", "learner", "source") if name in data},
    )


def _probabilities(artifacts: Artifacts, key: str) -> np.ndarray:
    return artifacts.predictions(key).probs
