"""The journal of a loop: what happened in it, as far as it decides what happens next, in plain numbers and lists."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from understudy.errors import UnderstudyError

FORMAT: Final = 1
SHOWN: Final = "shown"  # the strategy saw what the learner says since the last training
TOLD: Final = "told"  # rows, and a class for each
RETRACTED: Final = "retracted"  # rows
Event = tuple[Any, ...]  # one of these words, and what belongs to it
KEYS: Final = frozenset(
    {"format", "pool", "n_classes", "random_state", "strategy", "learner", "round", "most_labels", "trainings", "since"}
    | {"pending", "skipped", "draws"}
)


@dataclass(frozen=True)
class Training:
    """What the learner was trained on, and what the strategy remembered just before."""

    rows: list[int]
    labels: list[int]
    memory: dict[str, Any]


@dataclass(eq=False)
class Journal:
    """The trainings that have to be repeated to get the last model again, and all that happened since."""

    keeps_all: bool  # trainings: where a strategy changes them, each may depend on the one before
    trainings: list[Training] = field(default_factory=list)
    since: list[Event] = field(default_factory=list)
    most_labels: int = 0  # that a training had: later ones may have fewer, if labels were taken back

    @property
    def is_shown(self) -> bool:
        return any(event[0] == SHOWN for event in self.since)

    def note_shown(self) -> None:
        if not self.is_shown:
            self.since.append((SHOWN,))

    def note_told(self, rows: Sequence[int], labels: Sequence[int]) -> None:
        if len(rows):
            self.since.append((TOLD, list(rows), list(labels)))

    def note_retracted(self, rows: Sequence[int]) -> None:
        self.since.append((RETRACTED, list(rows)))

    def note_training(self, training: Training) -> None:
        self.trainings = [*self.trainings, training] if self.keeps_all else [training]
        self.since = []
        self.most_labels = max(self.most_labels, len(training.rows))


def described(thing: Any) -> str:
    """A strategy or learner with its settings, but for where it runs; what does not show them, by its class."""
    if "__repr__" not in {name for kind in type(thing).__mro__[:-1] for name in vars(kind)}:
        return type(thing).__name__
    return re.sub(r"(, )?device='[^']*'|, device=device\([^)]*\)| at 0x[0-9a-f]+", "", repr(thing))


def checked_state(state: Any, expected: Mapping[str, Any]) -> Mapping[str, Any]:
    """A state that a loop of this pool, number of classes, seed, strategy and learner can go on from."""
    if not isinstance(state, Mapping) or "format" not in state:
        raise UnderstudyError("this is not the state of a loop; give what state_dict() returned")
    if state["format"] != FORMAT:
        raise UnderstudyError(
            f"this state has format {state['format']}, this version reads {FORMAT}; resume it where it was saved"
        )
    if missing := sorted(KEYS - set(state)):
        raise UnderstudyError(f"this state is not whole: {', '.join(missing)} missing; was it cut short?")
    for name, here in expected.items():
        if state[name] != here:
            raise UnderstudyError(
                f"this state is of another loop: its {name} is {state[name]!r}, here it is {here!r}; "
                "make the loop as the first one was made"
            )
    return state
