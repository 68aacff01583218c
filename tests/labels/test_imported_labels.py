"""Who and when as a session accepts it; and imports that would make too many classes."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from understudy.errors import UnderstudyError
from understudy.labels.formats import read_labels
from understudy.labels.imported_labels import (
    MAX_CLASSES,
    Imported,
    ImportedLabel,
    UnusableEntry,
    annotator_name,
    check_new_classes,
    label_of_entry,
    seconds_since_1970,
)
from understudy.sessions.session import check_name


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
    check_name(name)


@pytest.mark.parametrize("value", ["", "  ", None, True, 1.5, ["ann"]])
def test_what_is_no_name_is_nobody(value: object) -> None:
    assert annotator_name(value) is None


def test_only_a_label_of_one_item_is_taken() -> None:
    one, two, none = frozenset({3}), frozenset({3, 4}), frozenset[int]()
    assert label_of_entry(one, "line 2", " cat ", "ann", 1.0) == ImportedLabel(3, "cat", "ann", 1.0)
    assert label_of_entry(two, "line 2", "cat", None, None) == UnusableEntry("ambiguous", "line 2")
    assert label_of_entry(none, "line 2", "cat", None, None) == UnusableEntry("not in the pool", "line 2")
    assert label_of_entry(one, "line 2", "", None, None) == UnusableEntry("unlabelled", "line 2")
    assert label_of_entry(one, "line 2", None, None, None) == UnusableEntry("no text", "line 2")
    assert label_of_entry(one, "line 2", "x" * 300, None, None) == UnusableEntry("no text", "line 2")


def labels_of(names: Sequence[str], classes: Sequence[str] = ()) -> Imported:
    rows = "".join(f"{row},{name}\n" for row, name in enumerate(names))
    table = f"id,category\n{rows}".encode()
    return read_labels(table, "csv", tuple(map(str, range(len(names)))), classes=classes)


def test_a_column_that_would_make_hundreds_of_classes_is_refused_by_its_name() -> None:
    found = labels_of([f"photo {row}" for row in range(51)], ["cat"])
    said = (
        r"^the column 'category' would make 51 new classes of 51 labels \(photo 0, photo 1, photo 2 and 48 more\); "
        r"choose another column with: understudy import --columns label=NAME, or insist with --many-classes$"
    )
    with pytest.raises(UnderstudyError, match=said):
        check_new_classes(found, ["cat"])
    insisting = replace(found, many_classes=True)
    check_new_classes(insisting, ["cat"])


def test_classes_with_ten_labels_each_or_fifty_of_them_raise_no_question() -> None:
    few = labels_of([f"class {row}" for row in range(50)])
    many = labels_of([f"class {row % 60}" for row in range(600)])
    check_new_classes(few, [])
    check_new_classes(many, [])
    with pytest.raises(UnderstudyError, match="60 new classes of 599 labels"):
        check_new_classes(labels_of([f"class {row % 60}" for row in range(599)]), [])


def test_no_import_makes_more_classes_than_a_project_can_have() -> None:
    known = [f"class {number}" for number in range(MAX_CLASSES)]
    one_more = replace(labels_of(["cat"], known), many_classes=True)
    with pytest.raises(UnderstudyError, match=r"1 new class of 1 label .*; a project has at most 10,000$"):
        check_new_classes(one_more, known)
    nothing_new = labels_of(["class 3"], known)
    check_new_classes(nothing_new, [*known, "another"])


def test_new_classes_that_are_easily_taken_for_others_are_asked_about() -> None:
    for names, known, wrong in ((["Cat"], ["cat"], "'Cat'.*'cat'"), (["fox", "f ox"], ["cat"], "'f ox'.*'fox'")):
        found = labels_of(names, known)
        with pytest.raises(UnderstudyError, match=f"{wrong}.*--alike"):
            check_new_classes(found, known)
        check_new_classes(replace(found, alike=True), known)
    check_new_classes(labels_of(["Cat"], ["cat", "Cat"]), ["cat", "Cat"])
