"""Pools from what is in memory already."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from tests.leaving_out import import_or_leave_out
from understudy import UnderstudyError, load
from understudy.data.objects import pool_of
from understudy.data.pool import Pool

pd, pl = import_or_leave_out("pandas"), import_or_leave_out("polars")

X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
COLUMNS: dict[str, Any] = {"width": X[:, 0], "height": X[:, 1]}
MAKERS: dict[str, Callable[[], Any]] = {
    "array": lambda: X,
    "tensor": lambda: torch.from_numpy(X),
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "sparse": lambda: scipy.sparse.csr_matrix(X),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_an_object_with_labels_and_identities_is_a_pool(kind: str) -> None:
    found = load(MAKERS[kind](), labels=["dog", "cat", None], ids=["a", "b", "c"]).pool
    assert found.features is not None
    assert found.labels is not None
    assert found.features.tolist() == X.tolist()
    assert (found.ids, found.classes, found.labels.tolist()) == (("a", "b", "c"), ("cat", "dog"), [1, 0, -1])
    assert (found.inputs is None) == (kind in ("array", "tensor"))


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        (pd.Series([1, 0, 2]), ("0", "1", "2"), [1, 0, 2]),
        (pd.Series([1, None, 0]), ("0", "1"), [1, -1, 0]),
        (pd.Series(["b", None, "a"], dtype="category"), ("a", "b"), [1, -1, 0]),
        (pl.Series(["b", None, "a"]), ("a", "b"), [1, -1, 0]),
        (torch.tensor([1, 0, -1]), ("0", "1"), [1, 0, -1]),
        (np.array([1.0, np.nan, 0.0]), ("0", "1"), [1, -1, 0]),
    ],
)
def test_labels_may_be_of_any_kind_and_some_may_be_missing(labels: Any, classes: Any, expected: list[int]) -> None:
    found = load(X, labels=labels).pool
    assert found.labels is not None
    assert (found.classes, found.labels.tolist()) == (classes, expected)


def test_an_index_gives_identities_and_columns_of_a_frame_give_labels() -> None:
    frame = pd.DataFrame({**COLUMNS, "kind": ["b", "a", "b"]}, index=["x", "y", "z"])
    found = load(frame, columns={"label": "kind"}).pool
    assert found.labels is not None
    assert found.features is not None
    assert (found.ids, found.classes, found.labels.tolist()) == (("x", "y", "z"), ("a", "b"), [1, 0, 1])
    assert found.features.tolist() == X.tolist()
    assert list(found.inputs.columns) == ["width", "height"]
    assert load(frame.rename(columns={"kind": "label"})).pool.classes == ("a", "b")
    assert load(pl.DataFrame({**COLUMNS, "label": [0, 1, 1], "id": ["p", "q", "r"]})).pool.ids == ("p", "q", "r")


def test_a_frame_of_texts_is_a_manifest() -> None:
    frame = pd.DataFrame({"text": ["Rain.", None, "A draw."], "label": ["weather", "sport", "sport"]})
    for given in (frame, pl.from_pandas(frame)):
        found = load(given).pool
        assert [found.item(row) for row in range(2)] == ["Rain.", "A draw."]
        assert found.faults[0].item == "row 1"
    assert load(frame.rename(columns={"text": "body"}), columns={"text": "body"}).pool.item(0) == "Rain."


def test_a_column_of_numbers_is_a_feature_whatever_it_is_called() -> None:
    found = load(pd.DataFrame({"content": [0.1, 0.2], "file": [1, 2]})).pool
    assert found.features is not None
    assert found.features.tolist() == [[0.1, 1], [0.2, 2]]


def test_rows_that_cannot_be_used_leave_the_frame_too() -> None:
    frame = pd.DataFrame(COLUMNS)
    found = load(frame, labels=["cat", "dgo", "dog"], classes=["cat", "dog"]).pool
    assert found.ids == ("row 0", "row 2")
    assert found.inputs.to_numpy().tolist() == [X[0].tolist(), X[2].tolist()]


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (X, {"labels": ["a"]}, "3 rows of features but 1 labels; give one label a row, -1 for none"),
        (X, {"labels": "cat"}, "labels must be a list, an array or a series, one value an item; got 'cat'"),
        (X, {"ids": ["a", "a", "b"]}, "the identities of a pool must differ"),
        ("digits", {"labels": [1]}, "labels and ids go with arrays, tensors and frames; a str has its own"),
        (pd.DataFrame({"a": ["x"], "b": [1]}), {}, "1 column of the frame is not: 'a' (str)"),
        (pd.DataFrame({"a": [1]}), {"columns": {"label": "kind"}}, "the frame has no column 'kind'; its columns are"),
        (pd.DataFrame({"a": [1.0, None]}), {}, "column 'a' has 1 value missing or infinite"),
    ],
)
def test_what_does_not_fit_is_one_line(source: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=re.escape(message)) as error:
        load(source, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", MAKERS)
def test_row_i_stays_row_i(kind: str) -> None:
    found = pool_of(MAKERS[kind]())
    assert found.features is not None
    assert (found.ids, found.features.tolist()) == (("0", "1", "2"), X.tolist())


def test_what_strategies_see_may_be_another_thing() -> None:
    for source in (X, pd.DataFrame(COLUMNS), Pool(("a", "b", "c"), features=X)):
        found = pool_of(source, features=[[7], [8], [9]])
        assert found.features is not None
        assert found.features.tolist() == [[7], [8], [9]]
        assert np.asarray(found.inputs).tolist() == X.tolist()
        part = found.take([2, 0])
        assert part.features is not None
        assert (part.features.tolist(), np.asarray(part.inputs).tolist()) == (
            [[9], [7]],
            [X[2].tolist(), X[0].tolist()],
        )
    with pytest.raises(UnderstudyError, match="3 identities but 2 rows of features"):
        pool_of(X, features=[[7], [8]])


def test_a_frame_that_is_not_all_numbers_has_no_features_and_is_kept() -> None:
    found = pool_of(pd.DataFrame({"city": ["Bern", "Ulm"]}))
    assert found.features is None
    assert found.inputs["city"].tolist() == ["Bern", "Ulm"]


def test_bytes_with_three_or_four_axes_are_images() -> None:
    found = pool_of(np.zeros((2, 8, 8), np.uint8))
    assert found.items is not None
    assert found.items.kind == "image"


def test_a_list_of_strings_is_a_pool_of_texts() -> None:
    for texts in (["Rain.", "A draw."], pd.Series(["Rain.", "A draw."], index=["x", "y"])):
        found = load(texts, labels=["weather", "sport"])
        assert [found.pool.item(row) for row in range(2)] == ["Rain.", "A draw."]
        assert found.pool.classes == ("sport", "weather")
    assert found.pool.ids == ("x", "y")


def test_a_pool_says_in_one_line_what_it_has() -> None:
    frame = pd.DataFrame({**COLUMNS, "label": ["a", "b", None]})
    assert repr(load(frame)) == "Dataset('array': 3 items, 2 features, 2 classes, 2 labelled)"
    assert repr(load("digits").test) == "Pool(500 images, 64 features, 10 classes, 500 labelled)"
    assert repr(pool_of(pd.DataFrame({"city": ["Bern"]}))) == "Pool(1 item, 1 column)"
