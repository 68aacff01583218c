"""What a client may send: every field with its type and its limits, and no field besides."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from understudy.data.class_names import MAX_NAME_LENGTH, check_class
from understudy.errors import UnderstudyError
from understudy.learners.registry import FEATURE_LEARNERS
from understudy.projects.settings import MEANINGS, NUMBER_RANGES, WHOLE_NUMBER_RANGES
from understudy.sessions.browsing import Sort
from understudy.sessions.bulk_decisions import MAX_ITEMS
from understudy.sessions.class_changes import (
    COLOUR,
    MAX_DESCRIPTION_LENGTH,
    MAX_EXAMPLES,
    SHORTCUT,
    check_colour,
    check_description,
    check_shortcut,
)
from understudy.sessions.item_columns import State
from understudy.sessions.log.events import PutBack as PutBackWhat

LAST_ITEM: Final = 2**31 - 1
MANY: Final = 100  # items of one grid
# Control characters, ends of lines, and what turns the direction of a text: none of it belongs in a name.
UNSEEN: Final = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
ONE_LINE: Final = rf"^[^{UNSEEN}]*$"
NAME: Final = rf"^[^{UNSEEN}\s]([^{UNSEEN}]*[^{UNSEEN}\s])?$"  # and no space at either end


def _only_digits(value: object) -> object:
    """A number in an address is digits: " 1", "1.0" and "1_0" are not taken for one."""
    if isinstance(value, str) and not (value.isascii() and value.isdigit() and len(value) <= 10):
        raise ValueError("must be a whole number, written in digits")
    return value


def _only_number(value: object) -> object:
    """A share in an address is written in digits: not " 1", "1_0" or "nan"."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,20})?", value) is None:
        raise ValueError("must be a number from 0 to 1, 0.5 say")
    return value


def _whole_number(value: object) -> object:
    """1.0 is the whole number 1 to JSON, and some programs write it like that."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _class_name(value: str) -> str:
    if value != value.strip():
        raise ValueError("the name of a class has a space before or after it; take it away")
    return _in_sentences(check_class)(value)


def _in_sentences(check: Callable[[str], object]) -> Callable[[str], str]:
    """The value as it was given, if a check of ours lets it through; otherwise what that says."""

    def checked(value: str) -> str:
        try:
            check(value)
        except UnderstudyError as error:
            raise ValueError(str(error)) from None
        return value

    return checked


def _all_differ(items: list[int]) -> list[int]:
    if len(set(items)) < len(items):
        raise ValueError("each item once")
    return items


def _within(setting: str) -> Any:
    """The limits of a setting, and what it means."""
    ranges: dict[str, tuple[float, float]] = {**NUMBER_RANGES, **WHOLE_NUMBER_RANGES}
    least, most = ranges[setting]
    return Field(ge=least, le=most, description=MEANINGS[setting])


Annotator = Annotated[
    str, Field(min_length=1, max_length=64, pattern=NAME, description="Who this is.", examples=["ann"])
]
# Checked by functions whose errors are sentences; programs read the same limits in the description.
ClassName = Annotated[
    str,
    AfterValidator(_class_name),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH, "pattern": NAME}),
]
Shortcut = Annotated[
    str,
    AfterValidator(_in_sentences(check_shortcut)),
    WithJsonSchema({"type": "string", "pattern": f"^({SHORTCUT})?$", "examples": ["q", "Shift+1", ""]}),
]
Colour = Annotated[
    str,
    AfterValidator(_in_sentences(check_colour)),
    WithJsonSchema({"type": "string", "pattern": f"^({COLOUR})?$", "examples": ["#c03060", ""]}),
]
Description = Annotated[
    str,
    AfterValidator(_in_sentences(check_description)),
    WithJsonSchema({"type": "string", "maxLength": MAX_DESCRIPTION_LENGTH, "pattern": ONE_LINE}),
]
ClassNumber = Annotated[int, Field(ge=0, le=9999, examples=[0, 1]), BeforeValidator(_whole_number)]
Item = Annotated[
    int,
    Field(ge=0, le=LAST_ITEM, description="A row of the pool.", examples=[0, 1, 17]),
    BeforeValidator(_whole_number),
]
ItemInPath = Annotated[Item, BeforeValidator(_only_digits)]
HowMany = Annotated[int, Field(ge=1, le=200), BeforeValidator(_only_digits)]
Key = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        pattern=r"^[!-~]+$",
        description="The client's name for this call, a UUID say: sent twice, it is stored once.",
    ),
]


Alike = Annotated[bool, Field(description="Whether it may be easily taken for another class: Cat for cat, say.")]


class Request(BaseModel):
    """Nothing is converted, and nothing unknown is let through."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Nothing(Request):
    """`{}`"""


class Who(Request):
    annotator: Annotator


class Login(Who):
    password: Annotated[str, Field(min_length=1, max_length=256)]


class Act(Who):
    """Something an annotator does. The same `key` twice is one deed."""

    key: Key


class Decision(Act):
    """Something that is decided about items. It may have waited for the server."""

    ago: Annotated[
        float,
        Field(
            allow_inf_nan=False,
            description="Seconds since it was decided, where it had to wait. Less than 0 is 0, at most a year counts.",
        ),
    ] = 0.0


class OfItem(Decision):
    item: Item


class Label(OfItem):
    label: Annotated[ClassNumber | ClassName, Field(description="The number of a class, or its name.")]
    seconds: Annotated[
        float | None, Field(ge=0, le=86_400, allow_inf_nan=False, description="How long the answer took.")
    ] = None
    suggestion: Annotated[ClassNumber | None, Field(description="The class that was suggested, if one was.")] = None
    source: Literal["person", "grid", "review"] = "person"


class Labels(Decision):
    items: Annotated[
        list[Item],
        Field(min_length=1, max_length=MANY, json_schema_extra={"uniqueItems": True}),
        AfterValidator(_all_differ),
    ]
    label: Annotated[ClassNumber | ClassName, Field(description="The number of a class, or its name.")]


class Flag(OfItem):
    on: bool = True
    note: Annotated[str, Field(max_length=500, pattern=ONE_LINE)] = ""


class PutBack(Act):
    what: Literal["skipped", "dont_know"]


class OfItems(Decision):
    """Something that is decided about many items at once."""

    items: Annotated[
        list[Item],
        Field(min_length=1, max_length=MAX_ITEMS, json_schema_extra={"uniqueItems": True}),
        AfterValidator(_all_differ),
    ]


class LabelItems(OfItems):
    label: Annotated[ClassNumber | ClassName, Field(description="The number of a class, or its name.")]


class FlagItems(OfItems):
    on: bool = True
    note: Annotated[str, Field(max_length=500, pattern=ONE_LINE)] = ""


class PutItemsBack(OfItems):
    what: Annotated[PutBackWhat, Field(description="Why they were put aside; any: all of these.")] = "any"


class NewClass(Act):
    name: ClassName
    item: Annotated[
        Item | None,
        Field(
            description="The item it is made for: when its label is undone, the class goes too, if nobody else uses it."
        ),
    ] = None
    alike: Alike = False


class OfClass(Act):
    number: Annotated[ClassNumber, Field(description="The number of a class.")]


class ClassChange(OfClass):
    """What is not given, or null, stays; "" takes a key or a colour away."""

    name: ClassName | None = None
    shortcut: Annotated[Shortcut | None, Field(description="The key that labels with it, for everybody.")] = None
    colour: Colour | None = None
    description: Description | None = None
    hidden: Annotated[bool | None, Field(description="Whether it is not offered any more; its labels count.")] = None
    examples: Annotated[list[Item] | None, Field(max_length=MAX_EXAMPLES)] = None
    alike: Alike = False


class ClassMerge(OfClass):
    into: Annotated[ClassNumber, Field(description="The class that its labels count for from now on.")]


class ClassRemoval(OfClass):
    into: Annotated[
        ClassNumber | None,
        Field(description="The class that its labels count for from now on; null: its items are unlabelled again."),
    ] = None


class ClassOrder(Act):
    order: Annotated[list[ClassNumber], Field(max_length=10_000, description="The numbers of all classes, once each.")]


class ClassUndo(Act):
    change: Annotated[
        int, Field(ge=1, le=LAST_ITEM, description="`seq` of the change."), BeforeValidator(_whole_number)
    ]


class FolderChoice(Who):
    labels: Annotated[bool, Field(description="Whether each image is labelled by its folder.")]


if TYPE_CHECKING:
    LearnerName: TypeAlias = str
else:  # a learner of one's own is code: who may run it here is who may use the console
    LearnerName = Literal[FEATURE_LEARNERS]


class SettingsChange(Act):
    """What is not given, or null, stays."""

    audit_share: Annotated[float | None, _within("audit_share")] = None
    agreement_share: Annotated[float | None, _within("agreement_share")] = None
    lease_seconds: Annotated[float | None, _within("lease_seconds")] = None
    retrain_growth: Annotated[float | None, _within("retrain_growth")] = None
    retrain_at_most: Annotated[int | None, _within("retrain_at_most"), BeforeValidator(_whole_number)] = None
    learner: LearnerName | None = None
    suggestions: bool | None = None


Words = Annotated[str, Field(max_length=200, description="Found whatever the case and the accents.")]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), BeforeValidator(_only_number)]


class BrowseQuery(BaseModel):
    """Which items are listed, and how."""

    model_config = ConfigDict(extra="forbid")

    label: Annotated[
        list[ClassName], Field(max_length=100, description="Labelled as: the number or the name of a class.")
    ] = []
    suggested: Annotated[list[ClassName], Field(max_length=100, description="Suggested: likewise.")] = []
    person: Annotated[Annotator | None, Field(description="Who decided something about it.")] = None
    state: Annotated[list[State], Field(max_length=20)] = []
    confidence_from: Share = 0.0
    confidence_to: Share = 1.0
    text: Annotated[Words, Field(description="In the text, whatever the case and the accents.")] = ""
    name: Annotated[Words, Field(description="In the name, likewise.")] = ""
    search: Annotated[Words, Field(description="In the text or in the name, likewise.")] = ""
    id: Annotated[str | None, Field(max_length=4096, description="Exactly this name.")] = None
    item: ItemInPath | None = None
    similar: Annotated[ItemInPath | None, Field(description="The nearest to this item first.")] = None
    lasso: Annotated[
        str, Field(max_length=4096, description="Inside this polygon on the map of the pool: x,y;x,y;x,y")
    ] = ""
    sort: Annotated[Sort | None, Field(description="Without it, `similarity` with `similar`, else `pool`.")] = None
    offset: Annotated[int, Field(ge=0, le=LAST_ITEM), BeforeValidator(_only_digits)] = 0
    limit: Annotated[HowMany, Field(description="Items of a page.")] = 60
    only: Annotated[
        Annotator | None, Field(description="What this annotator decided, and nothing of anybody else.")
    ] = None
    rows: Annotated[bool, Field(description="Whether to list the numbers of all that match, up to 5,000.")] = False
