"""Objects of other libraries become the arrays that one would write down by hand."""

import re
from typing import Any, Final

import numpy as np
import pytest
import scipy.sparse
import torch

from tests.leaving_out import import_or_leave_out
from understudy import UnderstudyError
from understudy import frames as frames_module
from understudy.frames import (
    as_numbers,
    as_values,
    cells_of,
    count_rows,
    is_frame,
    is_sparse,
    row_names,
    take_rows,
    texts_in,
    without_columns,
)

pd, pl = import_or_leave_out("pandas"), import_or_leave_out("polars")

AGES = {"age": [30, 41, 52], "height": [1.6, 1.7, 1.8]}
TABLE = [[30, 1.6], [41, 1.7], [52, 1.8]]


@pytest.mark.parametrize("frame", [pd.DataFrame(AGES), pl.DataFrame(AGES)], ids=["pandas", "polars"])
def test_columns_of_numbers_are_columns_of_the_array(frame: Any) -> None:
    assert is_frame(frame)
    assert as_numbers(frame).tolist() == TABLE
    assert count_rows(frame) == 3
    assert as_numbers(take_rows(frame, np.array([2, 0]))).tolist() == [TABLE[2], TABLE[0]]
    assert cells_of(frame, "age") == [30, 41, 52]
    assert as_numbers(without_columns(frame, ["age"])).tolist() == [[1.6], [1.7], [1.8]]
    assert without_columns(frame, []) is frame


@pytest.mark.parametrize("kind", ["Int64", "UInt8", "float32", "Float32", "boolean", "bool", "int8[pyarrow]"])
def test_every_type_of_number_that_pandas_has_is_taken(kind: str) -> None:
    assert as_numbers(pd.DataFrame({"a": pd.Series([1, 0], dtype=kind)})).tolist() == [[1], [0]]


@pytest.mark.parametrize("kind", [pl.Int8, pl.Float32, pl.Boolean, pl.Decimal(4, 1)])
def test_every_type_of_number_that_polars_has_is_taken(kind: Any) -> None:
    assert as_numbers(pl.DataFrame({"a": pl.Series([1, 0]).cast(kind)})).tolist() == [[1], [0]]


@pytest.mark.parametrize("of_numbers", [np.array(TABLE, dtype=object), pd.DataFrame(AGES, dtype=object)])
def test_objects_that_are_numbers_are_numbers(of_numbers: Any) -> None:
    assert as_numbers(of_numbers).tolist() == TABLE


def test_features_in_half_precision_stay_so() -> None:
    assert as_numbers(pd.DataFrame({"a": np.ones(2, np.float32)})).dtype == np.float32


TEXT: Final = pd.Series(["a"]).dtype  # of columns of text: str, and object before pandas 3
MIXED: dict[str, Any] = {"age": [1, 2], "city": ["Bern", "Ulm"]}


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame(MIXED), f"1 column of the frame is not: 'city' ({TEXT}); encode them (OneHotEncoder"),
        (pl.DataFrame(MIXED), "1 column of the frame is not: 'city' (String); encode them"),
        (
            pd.DataFrame({**MIXED, "size": pd.Categorical(["s", "m"]), "when": pd.to_datetime(["2020-01-01"] * 2)}),
            f"3 columns of the frame are not: 'city' ({TEXT}), 'size' (category), 'when' (datetime64",
        ),
        (pd.DataFrame({"a": [1.0, None, None]}), "column 'a' has 2 values missing or infinite, the first in row 1"),
        (pd.DataFrame({"a": pd.array([1, 2, None], dtype="Int64")}), "column 'a' has 1 value missing or infinite"),
        (
            pl.DataFrame({"a": [1, None]}),
            "column 'a' has 1 value missing or infinite, the first in row 1; fill them in",
        ),
        (pl.DataFrame({"a": [True, None]}), "column 'a' has 1 value missing"),
        (pd.DataFrame({"a": [1.0, np.inf]}), "the first in row 1; fill them in (SimpleImputer of scikit-learn)"),
        (pd.DataFrame({"a": [1, "2"]}), "1 column of the frame is not: 'a' (object)"),
        (np.array([[1, "2"]], dtype=object), "features must be numbers, got an array of type object"),
        (pd.DataFrame(index=[1, 2]), "the frame has no columns"),
        (pl.LazyFrame(AGES), "a LazyFrame has no rows yet; pass frame.collect()"),
    ],
)
def test_columns_that_are_not_numbers_are_named_in_one_line(frame: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=re.escape(message)) as error:
        as_numbers(frame)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.coo_array, scipy.sparse.csc_array])
def test_a_sparse_matrix_is_written_out_if_it_fits(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = make(np.eye(3))
    assert is_sparse(matrix)
    assert count_rows(matrix) == 3
    assert as_numbers(take_rows(matrix, np.array([1]))).tolist() == [[0, 1, 0]]
    monkeypatch.setattr(frames_module, "MAX_DENSE_BYTES", 35)
    with pytest.raises(UnderstudyError, match=r"a sparse matrix of 3 x 3 is too large .*TruncatedSVD\(100\)"):
        as_numbers(matrix)


def test_a_tensor_is_taken_with_its_gradient_and_in_bfloat16() -> None:
    assert as_numbers(torch.ones(2, 2, requires_grad=True)).tolist() == [[1, 1], [1, 1]]
    assert as_numbers(torch.ones(1, 1, dtype=torch.bfloat16)).dtype == np.float32


def test_an_index_that_tells_rows_apart_names_them() -> None:
    assert row_names(pd.DataFrame(AGES, index=["ann", "bob", "eve"])) == ("ann", "bob", "eve")
    assert row_names(pd.DataFrame(AGES, index=[7, 8, 9])) == ("7", "8", "9")
    for frame in (pd.DataFrame(AGES), pd.DataFrame(AGES, index=["ann", "ann", "eve"]), pl.DataFrame(AGES)):
        assert row_names(frame) is None


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b"],
        ("a", "b"),
        np.array(["a", "b"]),
        np.array(["a", "b"], dtype=object),
        np.array([["a"], ["b"]]),
        pd.Series(["a", "b"]),
        pd.Series(["a", "b"], dtype="category"),
        pd.Index(["a", "b"]),
        pl.Series(["a", "b"]),
    ],
)
def test_labels_come_in_many_kinds(values: Any) -> None:
    assert as_values("labels", values).tolist() == ["a", "b"]


@pytest.mark.parametrize("values", [torch.tensor([1, 2]), pd.Series([1, 2], dtype="Int64"), pl.Series([1, 2]), [1, 2]])
def test_so_do_numbers(values: Any) -> None:
    assert as_values("labels", values).tolist() == [1, 2]
    assert as_values("labels", 5).tolist() == [5]


@pytest.mark.parametrize(
    "values",
    [
        ["a", None],
        pd.Series(["a", None]),
        pd.Series([1, None]),
        np.array([1, np.nan]),
        pd.Series([1, None], dtype="Int64"),
        pl.Series([1, None]),
    ],
)
def test_a_missing_label_is_one_line(values: Any) -> None:
    with pytest.raises(
        UnderstudyError, match=r"labels: 1 value of 2 missing, the first at place 1; leave these rows out"
    ):
        as_values("labels", values)


@pytest.mark.parametrize(
    "texts", [["a", "b"], ("a", "b"), np.array(["a", "b"]), pd.Series(["a", "b"], index=[7, 9]), pl.Series(["a", "b"])]
)
def test_texts_are_known_by_being_strings(texts: Any) -> None:
    found = texts_in(texts)
    assert found is not None
    assert found.tolist() == ["a", "b"]
    assert found.dtype == np.dtype(object)
    with pytest.raises(UnderstudyError, match=r"these are texts; put TfidfVectorizer\(\) before the classifier"):
        as_numbers(texts)


@pytest.mark.parametrize("others", [["a", 1], [], [["a"]], np.array([["a"]]), "ab", {"a": 1}, pd.Series([1, 2])])
def test_all_else_is_not_taken_for_texts(others: Any) -> None:
    assert texts_in(others) is None
