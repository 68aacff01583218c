"""Which part of a source is the pool and which the test set."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final, Literal

from understudy.data.faults import Fault

Part = Literal["pool", "test", "validation"]

PARTS: Final[dict[str, Part]] = {
    "": "pool", "train": "pool", "training": "pool", "pool": "pool",
    "test": "test", "testing": "test",
    "val": "validation", "valid": "validation", "validation": "validation", "dev": "validation",
}  # fmt: skip


def part_of(name: str) -> Part | None:
    """The part a split of this name is; None where the name says nothing."""
    return PARTS.get(name.strip().lower())


def part_to_test(parts: Iterable[Part | None]) -> Part:
    """The part to test on: a validation set has to do where there is no test set."""
    found = set(parts)
    return "test" if "test" in found or "validation" not in found else "validation"


def fault_of_split(item: str, name: str) -> Fault:
    near = get_close_matches(name.strip().lower(), [known for known in PARTS if known], n=1)
    remedy = f"did you mean {near[0]!r}?" if near else "use train, test or val"
    return Fault(item, f"the split {name!r} is not known", remedy)


def note_unused_validation(item: str, count: int) -> Fault:
    """A note: there is a test set, so the validation set is not needed."""
    return Fault(item, f"{count:,} of the validation split stay out", "the test split is used as test set", used=True)
