"""The question of a label config, and why others are refused."""

import pytest

from understudy.errors import UnderstudyError
from understudy.integrations.label_studio.label_config import LabelQuestion, read_label_config

IMAGE = '<Image name="img" value="$image"/>'
TWO = '<Choice value="cat"/><Choice value="dog"/>'


def view(*parts: str) -> str:
    return f"<View>{''.join(parts)}</View>"


def choices(inside: str = TWO, about: str = "img", **attributes: str) -> str:
    written = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<Choices name="choice" toName="{about}"{written}>{inside}</Choices>'


def test_one_class_for_each_image_is_what_is_asked() -> None:
    found = read_label_config(view('<Header value="What is it?"/>', IMAGE, choices()))
    assert found == LabelQuestion("choice", "img", "image", "image", ("cat", "dog"), ("cat", "dog"))


def test_texts_are_asked_about_too_and_an_alias_is_what_annotations_say() -> None:
    inside = '<View><Choice value="Good news" alias="good"/><Choice value=" bad "/></View>'
    text = '<Text name="t" value="$body" valueType="text"/>'
    found = read_label_config(view(text, choices(inside, "t", choice="single-radio")))
    assert (found.kind, found.field, found.classes) == ("text", "body", ("good", "bad"))
    assert found.class_of(" bad ") == "bad"
    assert found.class_of("worse") is None
    assert found.result_for("bad", 0.91239) == [
        {"from_name": "choice", "to_name": "t", "type": "choices", "value": {"choices": [" bad "]}, "score": 0.9124}
    ]
    assert "score" not in found.result_for("good")[0]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (view(IMAGE, choices(choice="multiple")), "more than one class"),
        (view(IMAGE, choices(perRegion="true")), "each region"),
        (view(IMAGE, choices(value="$options")), "another list for every task"),
        (view(IMAGE, choices('<Choice value="pet"><Choice value="cat"/></Choice>')), "further <Choice>"),
        (view(IMAGE, choices('<Choice value="cat"/>')), "two are needed"),
        (view(IMAGE, choices('<Choice value="cat"/><Choice value="cat "/>')), "more than once"),
        (view(IMAGE, choices(), choices()), "2 <Choices>"),
        (view(IMAGE), "asks nothing"),
        (view(IMAGE, choices(), '<TextArea name="why" toName="img"/>'), "<TextArea>"),
        (view(IMAGE, '<RectangleLabels name="box" toName="img"/>'), "<RectangleLabels>"),
        (view('<Audio name="img" value="$sound"/>', choices()), "about <Audio>"),
        (view(choices()), "which it does not have"),
        (view('<Image name="img" value="https://example.org/$image"/>', choices()), "more than one field"),
        (view('<Text name="img" value="$url" valueType="url"/>', choices()), "more than one field"),
        ("<View>", "not XML"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_its_reason(config: str, reason: str) -> None:
    with pytest.raises(UnderstudyError, match=reason):
        read_label_config(config)
