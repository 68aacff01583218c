"""The classes of a project, as its events leave them.

A class is a number, for ever: labels in the log, predictions and models refer to it. Its name, its place in the list,
its key and its colour are what it is shown by, and may change at any time. A class that was merged or removed keeps its
number too; `becomes` says what its labels and predictions count for.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from understudy.sessions.log.events import CLASS_KINDS, Event

CHANGEABLE: Final = ("name", "shortcut", "colour", "description", "hidden", "examples")  # what `class_changed` may have
Gone = Literal["merged", "removed", "taken back"]


@dataclass(frozen=True)
class ProjectClass:
    """A class, alive or gone. `added_by`: the annotator who added it; None for those that came with the project."""

    name: str
    shortcut: str | None = None
    colour: str | None = None
    description: str = ""
    hidden: bool = False
    examples: tuple[int, ...] = ()
    former_names: tuple[str, ...] = ()
    added_by: str | None = None
    gone: Gone | None = None
    into: int | None = None  # the class that it was merged into


class ClassTable:
    """All classes by number, brought up to date by `apply`, one event at a time."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.classes = [ProjectClass(name) for name in names]
        self.becomes: list[int | None] = list(range(len(self.classes)))  # what each counts for; None: nothing any more
        self.is_whole = True  # every class there ever was is still alive
        self._order: list[int] = []  # as somebody put them; those that came later follow

    @classmethod
    def from_events(cls, names: Iterable[str], events: Iterable[Event], undone: Collection[int] = ()) -> "ClassTable":
        """The classes after these events. One that was added and taken back keeps its number."""
        table = cls(names)
        for event in events:
            if event.seq not in undone:
                table.apply(event)
            elif event.kind == "class_added":
                table._add(ProjectClass(event.data["name"], added_by=event.annotator, gone="taken back"))
        return table

    def copy(self) -> "ClassTable":
        table = ClassTable()
        table.classes, table.becomes, table._order = list(self.classes), list(self.becomes), list(self._order)
        table.is_whole = self.is_whole
        return table

    def apply(self, event: Event) -> None:
        """Take an event into account; one that is not about classes changes nothing."""
        data = event.data
        if event.kind not in CLASS_KINDS:
            return
        if event.kind == "class_added":
            self._add(ProjectClass(data["name"], added_by=event.annotator))
        elif event.kind == "classes_reordered":
            self._order = list(data["order"])
        elif event.kind == "class_changed":
            self._change(data["class"], {name: data[name] for name in CHANGEABLE if name in data})
        else:
            gone: Gone = "merged" if event.kind == "class_merged" else "removed"
            number, into = data["class"], data.get("into")
            self.classes[number] = replace(self.classes[number], gone=gone, into=into)
            self.is_whole = False
            self.becomes = [self._follow(each) for each in range(len(self.classes))]

    def _add(self, added: ProjectClass) -> None:
        self.is_whole = self.is_whole and added.gone is None
        self.becomes.append(None if added.gone else len(self.classes))
        self.classes.append(added)

    def _change(self, number: int, values: dict[str, object]) -> None:
        before = self.classes[number]
        if "name" in values:
            values["former_names"] = tuple(dict.fromkeys((*before.former_names, before.name)))
        if "examples" in values:
            values["examples"] = tuple(values["examples"])  # type: ignore[arg-type]
        self.classes[number] = replace(before, **values)  # type: ignore[arg-type]

    def _follow(self, number: int) -> int | None:
        """What a class counts for, through all merges."""
        found = self.classes[number]
        while found.gone is not None:
            if found.into is None:
                return None
            number, found = found.into, self.classes[found.into]
        return number

    # -- what is known ------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """By number, those of classes that are gone included."""
        return [each.name for each in self.classes]

    @property
    def alive(self) -> list[int]:
        """The classes that are neither merged nor removed, in the order they are shown in."""
        put = dict.fromkeys(number for number in self._order if number < len(self.classes))
        later = (number for number in range(len(self.classes)) if number not in put)
        return [number for number in (*put, *later) if self.lives(number)]

    @property
    def offered(self) -> list[int]:
        """The classes that items can be labelled as, in the order they are shown in: those that are not hidden."""
        return [number for number in self.alive if not self.classes[number].hidden]

    def lives(self, number: int) -> bool:
        return self.classes[number].gone is None

    def number_of(self, name: str) -> int | None:
        """The class that has this name now."""
        return next((number for number, each in enumerate(self.classes) if each.name == name and not each.gone), None)

    def number_known_as(self, name: str) -> int | None:
        """The class that has this name, or had it; of several the one that has it now, else the latest."""
        now = self.number_of(name)
        if now is not None:
            return now
        had = [
            number
            for number, each in enumerate(self.classes)
            if each.gone != "taken back" and name in (each.name, *each.former_names)
        ]
        return max(had, key=lambda number: (self.becomes[number] is not None, number), default=None)

    def names_that_count(self) -> list[str]:
        """Every name by which a label is known: those of now, and former ones whose class still counts."""
        now = dict.fromkeys(self.classes[number].name for number in self.alive)
        former = [name for each in self.classes for name in (each.name, *each.former_names) if name not in now]
        return [*now, *(name for name in dict.fromkeys(former) if self.counts_as(name) is not None)]

    def counts_as(self, name: str) -> int | None:
        """The class alive that a label of this name counts for."""
        known = self.number_known_as(name)
        return None if known is None else self.becomes[known]

    def project(self, probs: np.ndarray) -> np.ndarray:
        """Predictions of all classes by number as those of the classes alive.

        What a merged class had goes to the one it was merged into; what a removed one had is shared by the others, each
        by what it has. Columns stay where they are, so that of a class that is gone is zero.
        """
        n_known = probs.shape[1]
        if self.is_whole:
            return probs
        found = np.zeros((len(probs), max(n_known, len(self.classes))), probs.dtype)
        for number in range(n_known):
            into = self.becomes[number]
            if into is not None:
                found[:, into] += probs[:, number]
        if any(self.becomes[number] is None for number in range(n_known)):
            found = _renormalise(found, self.alive)
        return found


def _renormalise(probs: np.ndarray, alive: Sequence[int]) -> np.ndarray:
    """Rows that sum to one; where nothing is left, all classes alive are alike."""
    sums = probs.sum(1, keepdims=True, dtype=np.float64)
    is_empty = sums[:, 0] <= 0
    found = (probs / np.where(sums > 0, sums, 1.0)).astype(probs.dtype)
    if is_empty.any() and alive:
        found[np.ix_(is_empty, alive)] = 1 / len(alive)
    return found
