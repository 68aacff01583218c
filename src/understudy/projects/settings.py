"""The settings of a project: what each means, within what it may be, and which stay as they were at the start."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from understudy import defaults
from understudy.checks import check_number, check_whole_number
from understudy.core.options import METHODS
from understudy.data.class_names import check_classes
from understudy.data.items import make_printable
from understudy.errors import UsageError

MAX_LEASE_SECONDS: Final = 7 * 24 * 3600.0

NUMBER_RANGES: Final = {  # the lowest and the highest value
    "audit_share": (0.0, 0.5),
    "agreement_share": (0.0, 1.0),
    "lease_seconds": (1.0, MAX_LEASE_SECONDS),
    "retrain_growth": (1.01, 100.0),
}
WHOLE_NUMBER_RANGES: Final = {
    "seed": (0, 2**63 - 1),
    "retrain_at_most": (1, 1_000_000),
    "basis_size": (1, 100_000),
}
METHOD_IF_UNNAMED: Final = "paper"  # the only one there was when such projects were made
FLAGS: Final = frozenset({"suggestions"})
CHOICES: Final = {"copies": ("ask", "off")}
MAX_COLUMNS: Final = 20  # shown beside an item
MEANINGS: Final = {
    "classes": "the classes the project began with",
    "seed": "for everything random: the same seed gives the same choices",
    "audit_share": "share of items that are random audit items: they only measure models",
    "agreement_share": "share of items that two people are asked for",
    "lease_seconds": "how long an item is kept for the one who was asked",
    "learner": "what is trained on the labels",
    "retrain_growth": "train again when there are this many times as many labels, or items",
    "retrain_at_most": "and at the latest after this many new ones",
    "basis_size": "basis points of the surrogate; none: as many as its method chooses",
    "method": "how the surrogate chooses",
    "suggestions": "whether annotators may see what the model suggests; each turns it on for themselves",
    "copies": "near-copies of an item: ask whether its answer is theirs too, or off",
    "show": "columns of the table shown beside each item; they are not features, so no model sees them",
}
FIXED: Final = {  # why a setting stays as it was when the project was made
    "classes": "they are what the project began with; change classes on the page, or with understudy classes",
    "seed": "the audit items and second opinions so far were drawn with it",
    "basis_size": "what the surrogate learnt rests on it; begin another project with --project",
    "method": "what the surrogate learnt rests on it; begin another project with --project",
}


@dataclass(frozen=True)
class Settings:
    """The choices of a project; all but the classes have defaults that fit most.

    `audit_share` is the share of items that become audit items: a random sample that only measures models.
    `agreement_share` is the share that two people are asked for. A model is trained when the labels have grown by the
    factor `retrain_growth`, and at the latest after `retrain_at_most` new ones. `classes` are those at the start; more
    are added while labelling. `method` is the surrogate's, and `basis_size` None the number of basis points that the
    method itself chooses. Without `suggestions` nobody is shown what the model would say. `copies` is "ask" or "off":
    whether a person may give an answer to near-copies too. `show` names columns of the table that people see beside an
    item, and models do not.
    """

    classes: tuple[str, ...] = ()
    seed: int = defaults.SEED
    audit_share: float = defaults.AUDIT_SHARE
    agreement_share: float = defaults.AGREEMENT_SHARE
    lease_seconds: float = defaults.LEASE_SECONDS
    learner: str = defaults.LEARNER
    retrain_growth: float = defaults.RETRAIN_GROWTH
    retrain_at_most: int = defaults.RETRAIN_AT_MOST
    basis_size: int | None = None
    method: str = "understudy"
    suggestions: bool = True
    copies: str = "ask"
    show: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value in check_settings(vars(self)).items():
            object.__setattr__(self, name, value)

    def to_json(self) -> dict[str, Any]:
        """The settings as plain values."""
        return {**asdict(self), "classes": list(self.classes), "show": list(self.show)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Settings":
        """The settings that `to_json` gave, in this version or one before.

        A setting this version does not know is an error, not a loss. A project keeps the method it began with.
        """
        return cls(**check_settings({"method": METHOD_IF_UNNAMED, **values}))


NAMES: Final = tuple(field.name for field in fields(Settings))


def check_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Some settings by name, each of its type and within its range; an error names the first that is not."""
    unknown = sorted(str(name) for name in values if name not in NAMES)
    if unknown:
        raise UsageError(f"there is no setting {make_printable(unknown[0])}; there are {', '.join(NAMES)}")
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name == "classes":
            found[name] = check_classes(value)
        elif name == "learner":
            found[name] = _check_learner(value)
        elif name == "method":
            found[name] = _check_method(value)
        elif name in FLAGS:
            found[name] = _check_switch(name, value)
        elif name in CHOICES:
            found[name] = _check_choice(name, value)
        elif name == "show":
            found[name] = _check_shown(value)
        elif name == "basis_size" and value is None:
            found[name] = None
        elif name in NUMBER_RANGES:
            least, most = NUMBER_RANGES[name]
            found[name] = check_number(name, value, least=least, most=most)
        else:
            found[name] = check_whole_number(name, value, *WHOLE_NUMBER_RANGES[name])
    return found


def check_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that are to be changed, each of its type and within its range; an error names one that stays."""
    found = check_settings(changes)
    for name in found:
        if name in FIXED:
            raise UsageError(f"{name} stays as it is: {FIXED[name]}")
    return found


def read_changes(words: Sequence[str]) -> dict[str, Any]:
    """The changes that are written `name=value`, as on the command line."""
    changes: dict[str, Any] = {}
    for word in words:
        name, equals, text = (part.strip() for part in word.partition("="))
        if not equals:
            raise UsageError(
                f"{make_printable(word)!r} is not a setting; write name=value, audit_share=0.2 for example"
            )
        if name in changes:
            raise UsageError(f"{name} is given twice; leave out one")
        changes[name] = _read_value(name, text)
    return check_changes(changes)


def as_typed(value: object) -> str:
    """A value as it is typed on the command line: on, 0.2, title,date."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return ",".join(f'"{name}"' if "," in name else name for name in value) or "none"
    return str(value)


def _read_value(name: str, text: str) -> Any:
    """A value as it is written; text that is not of the setting's kind is left for the checks to refuse."""
    if name in FLAGS:
        return {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}.get(
            text.lower(), text
        )
    if name == "show":
        return parse_shown(text)
    try:
        if name in WHOLE_NUMBER_RANGES:
            return int(text.replace("_", ""))
        if name in NUMBER_RANGES:
            return float(text)
    except ValueError:
        pass
    return text


def _check_learner(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise UsageError(f"learner must be a name such as modern; got {name!r}")
    return name.strip()


def _check_switch(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be on or off; got {value!r}")
    return value


def _check_choice(name: str, value: object) -> str:
    if not isinstance(value, str) or value not in CHOICES[name]:
        raise UsageError(f"{name} must be {' or '.join(CHOICES[name])}; got {value!r}")
    return value


def _check_shown(names: object) -> tuple[str, ...]:
    """Names of columns to show, each once. Whether the table has them only the table can say."""
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise UsageError(f"columns to show are given by name, as in show=title,date; got {names!r}")
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise UsageError(f"column {make_printable(twice)!r} is given twice; name each once")
    if len(names) > MAX_COLUMNS:
        raise UsageError(f"at most {MAX_COLUMNS} columns are shown beside an item; got {len(names)}")
    return tuple(names)


def parse_shown(text: str) -> list[str]:
    """Names of columns as they are typed: title,date; "none" or nothing for none; quotes around one with a comma."""
    [names] = csv.reader([text], skipinitialspace=True) if text.strip() else [[]]
    found = [name.strip() for name in names]
    return [] if found == ["none"] else found


def _check_method(name: object) -> str:
    if not isinstance(name, str) or name not in METHODS:
        raise UsageError(f"method must be {' or '.join(METHODS)}; got {name!r}")
    return name
