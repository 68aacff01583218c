"""Columns are found by their names, or named."""

import pytest

from understudy import UnderstudyError
from understudy.data.columns import choose_columns, parse_columns


@pytest.mark.parametrize(
    ("there", "named", "found"),
    [
        (["path"], {}, {"path": "path"}),
        (["ID", "Text", "Class", "Split"], {}, {"text": "Text", "label": "Class", "split": "Split", "id": "ID"}),
        (["image", "filename", "label"], {}, {"path": "filename", "label": "label"}),
        (["path", "text"], {}, {"path": "path"}),
        (["path", "text"], {"text": "text"}, {"text": "text"}),
        (["body", "topic", "label"], {"text": "body", "label": "topic"}, {"text": "body", "label": "topic"}),
    ],
)
def test_columns_are_known_by_what_they_hold(there: list[str], named: dict[str, str], found: dict[str, str]) -> None:
    assert choose_columns(there, named, "a.csv") == found


@pytest.mark.parametrize(
    ("there", "named", "message"),
    [
        (
            ["a", "b"],
            {},
            r"a.csv has no column of paths \(path, .*'a', 'b': name one, as in columns=.* or --columns text=body",
        ),
        (["a", "b"], {"text": "c"}, "a.csv has no column 'c'; its columns are 'a', 'b'"),
        (["a"], {"texts": "a"}, "columns can be named for path, text, label, split, id; got one for 'texts'"),
        (["a", "b"], {"text": "a", "path": "b"}, "not for both"),
    ],
)
def test_what_is_missing_is_said_with_what_is_there(there: list[str], named: dict[str, str], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        choose_columns(there, named, "a.csv")


def test_columns_are_read_from_the_command_line() -> None:
    assert parse_columns("text=body, label=the topic") == {"text": "body", "label": "the topic"}
    for text in ("", "text", "text=", "=body", "text=body,"):
        with pytest.raises(UnderstudyError, match="columns are given as text=body,label=topic; got '"):
            parse_columns(text)
