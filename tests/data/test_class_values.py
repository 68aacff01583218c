"""Labels come in as the classes that the caller knows, and go out as such."""

import re
from typing import Any

import numpy as np
import pytest
import torch

from tests.leaving_out import import_or_leave_out
from understudy import UnderstudyError
from understudy.data.class_values import ClassValues, choose_classes

pd, pl = import_or_leave_out("pandas"), import_or_leave_out("polars")

PETS = ClassValues(("cat", "dog", "owl"))


@pytest.mark.parametrize(
    "labels",
    [
        ["dog", "cat", "dog"],
        pd.Series(["dog", "cat", "dog"], index=[9, 9, 9]),
        pd.Series(["dog", "cat", "dog"], dtype="category"),
        pl.Series(["dog", "cat", "dog"]),
        np.array(["dog", "cat", "dog"], dtype=object),
        [1, 0, 1],
        torch.tensor([1, 0, 1]),
    ],
)
def test_names_and_their_places_are_the_same(labels: Any) -> None:
    assert PETS.numbers_of(labels, 3).tolist() == [1, 0, 1]
    assert PETS.values_of(PETS.numbers_of(labels, 3)).tolist() == ["dog", "cat", "dog"]


@pytest.mark.parametrize(
    ("classes", "labels", "places"),
    [
        ([-1, 1], [1, -1], [1, 0]),
        ([30, 10, 20], np.array([10, 30]), [1, 0]),
        ([False, True], [True, False], [1, 0]),
        (np.array(["b", "a"]), ["a", "b"], [1, 0]),
        (pd.Series([3, 7]), pd.Series([7, 3]), [1, 0]),
        (("x",), "x", [0]),
    ],
)
def test_classes_that_are_numbers_are_told_as_such(classes: Any, labels: Any, places: list[int]) -> None:
    chosen = ClassValues.of(classes)
    assert chosen.numbers_of(labels, len(places)).tolist() == places
    assert chosen.values_of(np.array(places)).tolist() == np.atleast_1d(np.asarray(labels)).tolist()


@pytest.mark.parametrize(
    ("classes", "labels", "message"),
    [
        (PETS, ["cat", "dgo"], "'dgo' is not a class; did you mean 'dog'? The classes are 'cat', 'dog', 'owl'"),
        (PETS, ["cat", "xyz"], "'xyz' is not a class. The classes are 'cat', 'dog', 'owl'"),
        (PETS, [0, 3], "labels must be 0 to 2 for 3 classes, the places of 'cat', 'dog', 'owl'; got 0 to 3"),
        (PETS, [True, False], "True is not a class"),
        (PETS, ["cat"], "2 rows need one label each; got <U3 of shape (1,)"),
        (
            PETS,
            [0.0, 1.0],
            "0.0 (float64) is not a label; astype(int) makes whole numbers of them. The classes are 'cat'",
        ),
        (
            PETS,
            [b"cat", b"dog"],
            "b'cat' (|S3) is not a label; decode() makes names of bytes. The classes are 'cat', 'dog'",
        ),
        (
            ClassValues((0, 1)),
            [0.5, 1.0],
            "0.5 (float64) is not an integer label; astype(int) makes whole numbers of them",
        ),
        (PETS, ["cat", None], "labels: 1 value of 2 missing, the first at place 1; leave these rows out"),
        (ClassValues((0, 1)), ["cat", "dog"], "'cat' is not a class; pass classes=[...] to tell labels by name"),
        (ClassValues((-1, 1)), [0, 1], "0 is not a class. The classes are -1, 1"),
        (ClassValues((-1, 1)), ["1", "1"], "'1' is not a class. The classes are -1, 1"),
        (
            ClassValues(tuple("abcdefghijklm")),
            ["A", "a"],
            "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j' and 3 more",
        ),
    ],
)
def test_a_label_that_is_not_a_class_is_one_line_with_the_classes(classes: Any, labels: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=re.escape(message)) as error:
        classes.numbers_of(labels, 2)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("cat", "classes must be a list of names or numbers; got 'cat'"),
        ([], "got none"),
        ({"cat", "dog"}, "classes must be a list, whose order is kept; got a set"),
        (3, "got a int"),
        (["cat", 1], "all names, all whole numbers or all booleans; got 'cat', 1"),
        ([0.5, 1.5], "all names, all whole numbers or all booleans; got 0.5, 1.5"),
        (["cat", None], "got 'cat', None"),
        (["cat", "cat"], "classes must differ and none may be empty; got 'cat', 'cat'"),
        (["cat", ""], "none may be empty"),
    ],
)
def test_classes_that_cannot_be_are_one_line(classes: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=re.escape(message)):
        ClassValues.of(classes)


def test_classes_are_those_of_the_caller_or_of_the_pool() -> None:
    assert choose_classes((), ["a", "b"]).values == ("a", "b")
    assert choose_classes((), ["a", "b"], 2).values == ("a", "b")
    assert choose_classes(("a", "b")).values == ("a", "b")
    assert choose_classes(("a", "b"), n_classes=2).values == ("a", "b")
    assert choose_classes(("7", "8"), [7, 8]).values == (7, 8)
    assert choose_classes((), n_classes=3).values == (0, 1, 2)
    assert choose_classes(("0", "1"), ["a", "b", "c"]).values == ("a", "b", "c")  # numbers in a data set are places
    for named, classes, n, message in (
        ((), None, None, "this pool does not say which classes there are; pass classes=[...], or pass n_classes"),
        ((), ["a", "b"], 3, "classes has 2, but n_classes is 3; leave out n_classes"),
        (("a", "b"), ["b", "a"], None, "the pool has 2 classes of its own, which stay: 'a', 'b'; leave out classes"),
        (("0", "1"), ["a"], None, "the pool has 2 classes of its own, which stay: '0', '1'; leave out classes"),
        (
            ("0", "2"),
            ["a", "b", "c"],
            None,
            "the pool has 2 classes of its own, which stay: '0', '2'; leave out classes",
        ),
    ):
        with pytest.raises(UnderstudyError, match=re.escape(message)):
            choose_classes(named, classes, n)
