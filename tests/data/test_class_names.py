"""Whatever a source says of classes ends as rows of one list of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy import UnderstudyError
from understudy.data import class_names


@given(st.lists(st.sampled_from(["", "cat", "Dog", "ä", "10", "9", "b c"])))
def test_labels_lead_back_to_their_names(names: list[str]) -> None:
    classes = class_names.sorted_classes(names)
    rows, faulty = class_names.rows_of(names, classes, names)
    assert not faulty
    assert [classes[row] if row >= 0 else "" for row in rows] == names


def test_classes_are_in_order_and_numbers_in_theirs() -> None:
    assert class_names.sorted_classes(["b", "a", "", "b", "10", "9"]) == ("10", "9", "a", "b")
    assert class_names.sorted_classes(["10", "9", "", "2"]) == ("2", "9", "10")
    assert class_names.sorted_classes(["", ""]) == ()


def test_numbers_name_every_class_up_to_the_highest() -> None:
    assert class_names.number_classes(np.array([-1, 3]), np.array([0])) == ("0", "1", "2", "3")
    assert class_names.number_classes(np.array([-1])) == class_names.number_classes() == ()


def test_numbers_that_cannot_be_classes_are_refused() -> None:
    with pytest.raises(UnderstudyError, match="a label is 4,000,000; number the classes from 0"):
        class_names.number_classes(np.array([4_000_000]))
    with pytest.raises(UnderstudyError, match="number the classes from 0"):
        class_names.number_classes(class_names.whole_numbers(np.array([2**64 - 1], dtype=np.uint64), "y"))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([0, -1, 2], np.int8), [0, -1, 2]),
        (np.array([0, 255], np.uint8), [0, 255]),
        (np.array([0.0, np.nan, 2.0], np.float16), [0, -1, 2]),
        (np.array([True, False]), [1, 0]),
        (np.array([], np.float64), []),
    ],
)
def test_any_whole_numbers_are_labels(values: np.ndarray, expected: list[int]) -> None:
    found = class_names.whole_numbers(values, "y")
    assert found.dtype == np.int64
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, -2], r"y must be -1 \(no label\) or a class from 0 on; row 1 is -2"),
        ([0, 1, 0.5], "y must be whole numbers or strings; row 2 is 0.5"),
        ([0, np.inf], "row 1 is inf"),
    ],
)
def test_other_numbers_are_refused(values: list[float], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        class_names.whole_numbers(np.array(values), "y")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (float("nan"), ""), (" cat ", "cat"), (3, "3"), (3.0, "3"), (2.5, "2.5"), (True, "true"), ([1], None)],
)
def test_a_cell_gives_a_label_as_text(value: object, text: str | None) -> None:
    assert class_names.text_of(value) == text


def test_a_label_with_a_typing_error_is_a_fault_that_names_the_nearest_class() -> None:
    rows, faulty = class_names.rows_of(
        ["cat", "dgo", "", "zebra"], ("cat", "dog"), ["line 2", "line 3", "line 4", "line 5"]
    )
    assert rows.tolist() == [0, -1, -1, -1]
    assert {row: str(fault) for row, fault in faulty.items()} == {
        1: "line 3: the label 'dgo' is not a known class; did you mean 'dog'?",
        3: "line 5: the label 'zebra' is not a known class; use one of cat, dog",
    }


def test_the_nearest_class_is_looked_up_for_some_labels_only() -> None:
    classes = [f"class {number}" for number in range(1000)]
    names = [f"clas {number}" for number in range(class_names.MAX_SUGGESTIONS + 5)]
    _, faulty = class_names.rows_of(names, classes, names)
    remedies = [faulty[row].remedy for row in range(len(names))]
    assert all(remedy.startswith("did you mean") for remedy in remedies[: class_names.MAX_SUGGESTIONS])
    assert all(remedy.startswith("use one of class 0") for remedy in remedies[class_names.MAX_SUGGESTIONS :])


def test_a_number_without_a_name_stands_for_itself() -> None:
    assert class_names.names_of(np.array([1, -1, 7]), ("cat", "dog")) == ["dog", "", "7"]
