"""The journal of a loop: those of its events that decide what happens next, in plain numbers and lists."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from understudy.errors import UnderstudyError

FORMAT: Final = 1
SHOWN: Final = "shown"  # the strategy has seen the predictions of the last training
TOLD: Final = "told"  # rows, and the class of each
RETRACTED: Final = "retracted"  # rows
Event = tuple[Any, ...]  # one of these words, and its arguments
KEYS: Final = frozenset(
    {"format", "pool", "n_classes", "random_state", "strategy", "learner", "round", "most_labels", "trainings", "since"}
    | {"pending", "skipped", "draws"}
)


@dataclass(frozen=True)
class TrainingRecord:
    """What the learner was trained on, and what the strategy remembered just before."""

    rows: list[int]
    labels: list[int]
    memory: dict[str, Any]


@dataclass(frozen=True)
class TrainingScore:
    """How many labels a training had, and how many of those since the training before the model then had right."""

    labels: int
    judged: int  # labels since the training before; 0 at the first
    right: int


@dataclass(eq=False)
class Journal:
    """The trainings that must be repeated to restore the last model, and all events since."""

    keeps_all: bool  # all trainings: if a strategy changes training, each may depend on the one before
    trainings: list[TrainingRecord] = field(default_factory=list)
    since: list[Event] = field(default_factory=list)
    most_labels: int = 0  # of any training so far: later ones may have fewer, if labels were retracted
    scores: list[TrainingScore] = field(default_factory=list)  # of all trainings

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

    def note_training(self, training: TrainingRecord) -> None:
        self.trainings = [*self.trainings, training] if self.keeps_all else [training]
        self.since = []
        self.most_labels = max(self.most_labels, len(training.rows))


def describe(thing: Any) -> str:
    """A strategy or learner with its settings except the device; its class if the repr shows no settings."""
    if "__repr__" not in {name for kind in type(thing).__mro__[:-1] for name in vars(kind)}:
        return type(thing).__name__
    return re.sub(r"(, )?device='[^']*'|, device=device\([^)]*\)| at 0x[0-9a-f]+", "", repr(thing))


def check_state(state: Any, expected: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state, if a loop with this pool, number of classes, seed, strategy, learner and predictions can resume it."""
    if not isinstance(state, Mapping) or "format" not in state:
        raise UnderstudyError("this is not the state of a loop; pass what state_dict() returned")
    if state["format"] != FORMAT:
        raise UnderstudyError(
            f"this state has format {state['format']}, but this version reads only {FORMAT}; "
            "resume it with the version that saved it"
        )
    if missing := sorted(KEYS - set(state)):
        raise UnderstudyError(f"this state is incomplete: {', '.join(missing)} missing; the file may be truncated")
    for name, here in expected.items():
        if state.get(name) != here:  # states of earlier versions know of no predictions to start from
            raise UnderstudyError(
                f"this state belongs to another loop: its {name} is {state.get(name)!r}, but here it is {here!r}; "
                "create the loop with the same arguments"
            )
    return state
