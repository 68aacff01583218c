"""What a file says of who and when, as a session takes it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from understudy.labels.found_labels import FoundLabel, Trouble, annotator_name, seconds_since_1970, settled
from understudy.sessions.session import checked_name


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01T02:01:00+02:00", 60.0),
        ("1970-01-01 00:01:00", 60.0),
        (60, 60.0),
        ("60.5", 60.5),
        (1_760_000_000_000, 1_760_000_000.0),
        (datetime(1970, 1, 1, 0, 1, tzinfo=UTC), 60.0),
        (datetime(1970, 1, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 60.0),
        ("yesterday", None),
        ("", None),
        (None, None),
        (True, None),
        (-5, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**30, None),
        ([], None),
    ],
)
def test_times_are_read_in_the_usual_forms_and_else_are_unknown(value: object, seconds: float | None) -> None:
    assert seconds_since_1970(value) == seconds


@pytest.mark.parametrize("value", ["ann", " ann ", 7, "x" * 100, "a\nb", "zero\u200djoin", "🦊"])
def test_names_of_annotators_are_made_ones_that_a_session_takes(value: object) -> None:
    name = annotator_name(value)
    assert name is not None
    checked_name(name)


@pytest.mark.parametrize("value", ["", "  ", None, True, 1.5, ["ann"]])
def test_what_is_no_name_is_nobody(value: object) -> None:
    assert annotator_name(value) is None


def test_only_a_label_of_one_item_is_taken() -> None:
    one, two, none = frozenset({3}), frozenset({3, 4}), frozenset[int]()
    assert settled(one, "line 2", " cat ", "ann", 1.0) == FoundLabel(3, "cat", "ann", 1.0)
    assert settled(two, "line 2", "cat", None, None) == Trouble("ambiguous", "line 2")
    assert settled(none, "line 2", "cat", None, None) == Trouble("not in the pool", "line 2")
    assert settled(one, "line 2", "", None, None) == Trouble("unlabelled", "line 2")
    assert settled(one, "line 2", None, None, None) == Trouble("no text", "line 2")
    assert settled(one, "line 2", "x" * 300, None, None) == Trouble("no text", "line 2")
