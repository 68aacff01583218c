"""The one question that a Label Studio project asks: one class for each image or text. Others are refused, with why."""

from dataclasses import dataclass
from typing import Any, Final, Literal
from xml.etree import ElementTree

from understudy.data.class_names import check_classes
from understudy.data.items import make_printable
from understudy.errors import UnderstudyError, UsageError

KINDS: Final[dict[str, Literal["image", "text"]]] = {"Image": "image", "Text": "text"}
ONLY: Final = "Understudy works with one <Choices> about one <Image> or <Text>"


@dataclass(frozen=True)
class LabelQuestion:
    """What is asked of each task: the names in the label config, and the classes as annotations have them."""

    control: str  # the name of <Choices>
    shown: str  # the name of <Image> or <Text>
    kind: Literal["image", "text"]
    field: str  # of a task's data that holds the image or text
    classes: tuple[str, ...]
    values: tuple[str, ...]  # the same as Label Studio writes them: with blanks around them, say

    def class_of(self, value: str) -> str | None:
        """The class that an annotation names, None where the label config does not have it."""
        return dict(zip(self.values, self.classes, strict=True)).get(value)

    def result_for(self, name: str, confidence: float | None = None) -> list[dict[str, Any]]:
        """The result of a prediction of this class, as Label Studio wants it."""
        value = dict(zip(self.classes, self.values, strict=True))[name]
        found: dict[str, Any] = {
            "from_name": self.control, "to_name": self.shown, "type": "choices", "value": {"choices": [value]},
        }  # fmt: skip
        return [found if confidence is None else {**found, "score": round(confidence, 4)}]


def read_label_config(xml: str) -> LabelQuestion:
    """The question of a label config; an error that says why it is none that can be followed."""
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError as error:
        raise UnderstudyError(f"the project's label config is not XML ({error}); mend it in its settings") from None
    tags = list(root.iter())
    controls = [tag for tag in tags if "toName" in tag.attrib or tag.tag in ("Choices", "Taxonomy", "Labels")]
    others = [tag.tag for tag in controls if tag.tag != "Choices"]
    if others:
        raise _refusal(f"it has <{others[0]}>")
    if len(controls) != 1:
        raise _refusal(f"it has {len(controls)} <Choices>" if controls else "it asks nothing")
    choices = controls[0]
    _check_choices(choices)
    target = choices.get("toName", "")
    shown = next((tag for tag in tags if tag.get("name") == target and tag is not choices), None)
    if shown is None:
        raise _refusal(f"its <Choices> are about {target!r}, which it does not have")
    if shown.tag not in KINDS:
        raise _refusal(f"its <Choices> are about <{shown.tag}>")
    field = shown.get("value", "")
    if not field.startswith("$") or shown.get("valueType", "text") == "url" or shown.get("valueList"):
        raise _refusal(f"its <{shown.tag}> takes more than one field of the data: {make_printable(field)!r}")
    values = [tag.get("alias") or tag.get("value") or "" for tag in choices.iter("Choice")]
    if len(values) < 2:
        raise _refusal(f"its <Choices> have {len(values)} <Choice>, and two are needed")
    try:
        classes = check_classes(values)
    except UsageError as error:
        raise _refusal(str(error)) from None
    return LabelQuestion(choices.get("name", ""), target, KINDS[shown.tag], field[1:], classes, tuple(values))


def _check_choices(choices: ElementTree.Element) -> None:
    """Refuse choices of which several may be taken, or that are not known before a task is."""
    if choices.get("choice", "single") not in ("single", "single-radio"):
        raise _refusal(f'its <Choices> have choice="{choices.get("choice")}": more than one class may be chosen')
    for name, meaning in (("perRegion", "each region"), ("perItem", "each item")):
        if choices.get(name, "false").lower() == "true":
            raise _refusal(f"its <Choices> are asked for {meaning} of a task ({name})")
    if choices.get("value"):
        raise _refusal("its <Choices> are another list for every task (value)")
    if any(list(tag.iter("Choice"))[1:] for tag in choices.iter("Choice")):
        raise _refusal("its <Choice> hold further <Choice>")


def _refusal(reason: str) -> UsageError:
    return UsageError(f"this label config cannot be followed: {reason}; {ONLY}")
