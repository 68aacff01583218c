"""The classes as the caller knows them, names or numbers: labels come in as such and go out as such.

Inside, a label is the place of its class among all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Final

import numpy as np

from understudy.checks import check_whole_number
from understudy.errors import UnderstudyError, UsageError
from understudy.frames import as_values
from understudy.messages import count_of, list_some

MAX_CLASSES_LISTED: Final = 10  # in a message

ClassValue = str | int | bool


@dataclass(frozen=True)
class ClassValues:
    """Distinct names, whole numbers or booleans, one for each class, in order.

    Where classes are names, a whole number that is told is the place of a class; otherwise it is the class itself.
    """

    values: tuple[ClassValue, ...]

    @classmethod
    def of(cls, given: Any) -> "ClassValues":
        """The classes in a list, an array or a series."""
        if isinstance(given, str | bytes):
            raise UsageError(f"classes must be a list of names or numbers; got {given!r}")
        if isinstance(given, dict | set | frozenset) or not hasattr(given, "__iter__"):
            raise UsageError(f"classes must be a list, whose order is kept; got a {type(given).__name__}")
        values = tuple(value.item() if hasattr(value, "item") else value for value in given)
        if not values:
            raise UsageError("classes must be names or numbers, one for each class; got none")
        kinds = {bool if isinstance(value, bool) else type(value) for value in values}
        if len(kinds) > 1 or not kinds <= {str, int, bool}:
            raise UsageError(
                f"classes must be all names, all whole numbers or all booleans; got {_list_values(values)}"
            )
        if "" in values or len(set(values)) < len(values):
            raise UsageError(f"classes must differ and none may be empty; got {_list_values(values)}")
        return cls(values)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def are_names(self) -> bool:
        return isinstance(self.values[0], str)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.values))

    @cached_property
    def array(self) -> np.ndarray:
        return np.array(self.values)

    def numbers_of(self, labels: Any, n: int) -> np.ndarray:
        """(n,): the place of the class of each of n labels; an error that lists the classes where there is none."""
        given = as_values("labels", labels)
        if given.dtype == object:
            given = np.array([str(value) if isinstance(value, str) else value for value in given.tolist()])
        kind = "integer label" if self.is_counted else "label"
        if given.shape != (n,):
            raise UnderstudyError(f"{n:,} rows need one {kind} each; got {given.dtype} of shape {given.shape}")
        if n and given.dtype.kind not in "iubU":
            hint = {"f": "; astype(int) makes whole numbers of them", "S": "; decode() makes names of bytes"}
            raise UnderstudyError(
                f"{given.tolist()[0]!r} ({given.dtype}) is not {'an' if self.is_counted else 'a'} {kind}"
                f"{hint.get(given.dtype.kind, '')}. The classes are {self._list_classes()}"
            )
        if not n:
            return np.zeros(0, dtype=np.int64)
        is_place = given.dtype.kind in "iu" and (self.are_names or self.is_counted)
        return self._check_places(given) if is_place else self._look_up(given)

    @cached_property
    def is_counted(self) -> bool:
        """Whether the classes are just 0, 1, 2 and so on."""
        return self.values == tuple(range(len(self))) and not isinstance(self.values[0], bool)

    def values_of(self, numbers: np.ndarray) -> np.ndarray:
        """The classes at these places."""
        return self.array[np.asarray(numbers, dtype=np.int64)]

    def _check_places(self, given: np.ndarray) -> np.ndarray:
        if given.min() < 0 or given.max() >= len(self):
            hint = f", the places of {self._list_classes()}" if self.are_names else ""
            raise UnderstudyError(
                f"labels must be 0 to {len(self) - 1} for {len(self)} classes{hint}; got {given.min()} to {given.max()}"
            )
        return given.astype(np.int64)

    def _look_up(self, given: np.ndarray) -> np.ndarray:
        place = {value: number for number, value in enumerate(self.values)}
        kinds = {"U": str, "b": bool}
        if kinds.get(given.dtype.kind, int) is not type(self.values[0]):
            raise self._unknown(given[0].item())
        different, where = np.unique(given, return_inverse=True)
        numbers = [place.get(value, -1) for value in different.tolist()]
        if -1 in numbers:
            raise self._unknown(different[numbers.index(-1)].item())
        return np.array(numbers, dtype=np.int64)[where.reshape(-1)]

    def _unknown(self, label: ClassValue) -> UnderstudyError:
        near = get_close_matches(label, self.names, n=1) if isinstance(label, str) and self.are_names else []
        hint = f"; did you mean {near[0]!r}?" if near else "."
        if self.is_counted:
            hint = "; pass classes=[...] to tell labels by name."
        return UnderstudyError(f"{label!r} is not a class{hint} The classes are {self._list_classes()}")

    def _list_classes(self) -> str:
        return list_some(map(repr, self.values), MAX_CLASSES_LISTED, total=len(self))


def choose_classes(named: Sequence[str], classes: Any = None, n_classes: int | None = None) -> ClassValues:
    """The classes that the caller names or counts, or else those that the pool names."""
    n_classes = n_classes if n_classes is None else check_whole_number("n_classes", n_classes, 1)
    if classes is not None:
        chosen = ClassValues.of(classes)
        if n_classes not in (None, len(chosen)):
            raise UsageError(f"classes has {len(chosen)}, but n_classes is {n_classes}; leave out n_classes")
        # Labels 0, 1, 2 of a data set are places, whatever the caller calls the classes.
        has_names = tuple(named) != tuple(map(str, range(len(named)))) or len(named) > len(chosen)
        if named and has_names and chosen.names != tuple(named):
            raise UsageError(
                f"the pool has {count_of(len(named), 'class', 'classes')} of its own, which stay: "
                f"{_list_values(named)}; leave out classes"
            )
        return chosen
    if named and n_classes in (None, len(named)):
        return ClassValues(tuple(named))
    if n_classes is None:
        raise UnderstudyError("this pool does not say which classes there are; pass classes=[...], or pass n_classes")
    return ClassValues(tuple(range(n_classes)))


def _list_values(values: Sequence[Any]) -> str:
    return list_some(map(repr, values), MAX_CLASSES_LISTED, total=len(values))
