from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch

from tests.leaving_out import import_or_leave_out
from understudy.core.features import Features
from understudy.errors import UnderstudyError

CPU = torch.device("cpu")
X = np.random.default_rng(0).normal(size=(3000, 3)).astype(np.float32)


def whole(features: Features) -> np.ndarray:
    return np.concatenate([block.numpy() for _, block in features.blocks(torch.float64, CPU)])


@pytest.mark.parametrize("given", [X, X.astype(np.float64), torch.from_numpy(X), X.astype(">f4"), np.asfortranarray(X)])
def test_blocks_and_rows_are_the_features_whatever_they_are_held_in(given: np.ndarray | torch.Tensor) -> None:
    features = Features(given)
    assert len(features) == 3000
    np.testing.assert_array_equal(whole(features), X)
    rows = np.array([2999, 0, 1500])
    np.testing.assert_array_equal(features.take(rows, torch.float64, CPU), X[rows])
    assert features.digest() == Features(X).digest()


def test_lists_integers_and_half_precision_are_cast() -> None:
    np.testing.assert_array_equal(whole(Features([[1, 2], [3, 4]])), [[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(whole(Features(X.astype(np.float16))), X.astype(np.float16))
    np.testing.assert_array_equal(
        whole(Features(torch.from_numpy(X).bfloat16())), torch.from_numpy(X).bfloat16().float()
    )


def test_frames_and_sparse_matrices_are_copied_as_numbers() -> None:
    pd, pl = import_or_leave_out("pandas"), import_or_leave_out("polars")
    columns = {name: X[:, place] for place, name in enumerate("abc")}
    for given in (pd.DataFrame(columns), pl.DataFrame(columns), scipy.sparse.csr_matrix(X)):
        np.testing.assert_array_equal(whole(Features(given)), X)
    with pytest.raises(UnderstudyError, match=r"1 column of the frame is not: 'd' \(str\)"):
        Features(pd.DataFrame({**columns, "d": "x"}))


def test_a_read_only_memory_map_is_read_without_a_warning(tmp_path: Path) -> None:
    np.save(tmp_path / "features.npy", X)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    np.testing.assert_array_equal(whole(Features(mapped)), X)


def test_parts_follow_each_other() -> None:
    features = Features(X[:1000]).with_rows(X[1000:])
    np.testing.assert_array_equal(whole(features), X)
    rows = np.array([1500, 3, 2999, 999])
    np.testing.assert_array_equal(features.take(rows, torch.float64, CPU), X[rows])
    assert features.digest() == Features(X).digest()


def test_another_value_or_order_is_another_pool() -> None:
    changed = X.copy()
    changed[2999, 2] += 1e-3
    digests = {Features(pool).digest() for pool in (X, changed, X[::-1], X[:-1], X.reshape(-1, 1))}
    assert len(digests) == 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros(4), r"one row per item and at least one column; got shape \(4,\)"),
        (np.zeros((0, 4)), r"got shape \(0, 4\)"),
        (np.zeros((4, 0)), r"got shape \(4, 0\)"),
        (np.array([["a", "b"]]), "features must be numbers; got an array of type <U1; encode the items first"),
        (np.zeros((2, 2), dtype=complex), "features must be numbers"),
        (torch.zeros((2, 2), dtype=torch.complex64), "dense real tensor"),
        (torch.eye(3).to_sparse(), "dense real tensor"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(given: object, message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        Features(given)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_the_first_bad_number_is_named(bad: float) -> None:
    broken = X.astype(np.float64)
    broken[2345, 1] = bad
    with pytest.raises(UnderstudyError, match=r"row 2345, column 1 is .*fix or remove"):
        Features(broken).require_finite()


def test_new_features_must_have_the_same_columns() -> None:
    with pytest.raises(UnderstudyError, match="the new features have 2 columns, the pool has 3"):
        Features(X).with_rows(X[:, :2])


def test_who_watches_hears_how_many_rows_were_read() -> None:
    reads: list[int] = []
    features = Features(X[:1000]).with_rows(X[1000:])
    watched = features.watched(reads.append)
    whole(features)
    assert not reads
    whole(watched)
    assert sum(reads) == 3000
    assert len(reads) > 2
    reads.clear()
    watched.take(np.array([5, 1500]), torch.float64, CPU)
    whole(watched.between(900, 1100))
    assert reads == [2, 100, 100]
    assert watched.digest() == features.digest()
