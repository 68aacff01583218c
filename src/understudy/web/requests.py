"""What a client may send: every field with its type and its limits, and no field besides."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

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


def _whole_number(value: object) -> object:
    """1.0 is the whole number 1 to JSON, and some programs write it like that."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _all_differ(items: list[int]) -> list[int]:
    if len(set(items)) < len(items):
        raise ValueError("each item once")
    return items


Annotator = Annotated[
    str, Field(min_length=1, max_length=64, pattern=NAME, description="Who this is.", examples=["ann"])
]
ClassName = Annotated[str, Field(min_length=1, max_length=200, pattern=NAME)]
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


class OfItem(Act):
    item: Item


class Label(OfItem):
    label: Annotated[ClassNumber | ClassName, Field(description="The number of a class, or its name.")]
    seconds: Annotated[
        float | None, Field(ge=0, le=86_400, allow_inf_nan=False, description="How long the answer took.")
    ] = None
    suggestion: Annotated[ClassNumber | None, Field(description="The class that was suggested, if one was.")] = None
    source: Literal["person", "grid", "review"] = "person"


class Labels(Act):
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


class NewClass(Act):
    name: ClassName
