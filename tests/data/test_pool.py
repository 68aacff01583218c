"""Row i of everything is the same item, and a pool that cannot hold this is not made."""

from pathlib import Path

import numpy as np
import pytest

from understudy import UnderstudyError
from understudy.data.faults import Fault
from understudy.data.items import Texts
from understudy.data.pool import Dataset, Pool

IDS = ("a", "b", "c", "d")
POOL = Pool(
    IDS,
    items=Texts(["A", "B", "C", "D"]),
    features=np.arange(8.0).reshape(4, 2),
    labels=np.array([0, -1, 1, 0]),
    classes=("x", "y"),
)


def text(pool: Pool, row: int) -> object:
    assert pool.items is not None
    return pool.items.decode(row, pool.items.read(row))[0]


def test_rows_taken_keep_everything_together() -> None:
    taken = POOL.take([3, 1])
    assert taken.ids == ("d", "b")
    assert [text(taken, 0), text(taken, 1)] == ["D", "B"]
    assert taken.features is not None
    assert taken.features.tolist() == [[6, 7], [2, 3]]
    assert taken.labels is not None
    assert taken.labels.tolist() == [0, -1]
    assert taken.is_labelled.tolist() == [True, False]
    assert len(POOL.take([])) == 0


def test_a_pool_without_labels_has_none_labelled() -> None:
    assert Pool(IDS).is_labelled.tolist() == [False] * 4
    assert len(Pool(())) == 0


def test_neighbouring_rows_of_a_map_stay_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(4))
    pool = Pool(IDS, features=np.load(tmp_path / "x.npy", mmap_mode="r"))
    part = pool.take([1, 2]).features
    assert isinstance(part, np.memmap)
    assert np.shares_memory(part, pool.features)
    assert np.array_equal(part, np.eye(4)[1:3])


def test_rows_left_out_are_kept_as_faults() -> None:
    fault = Fault("b", "broken", "mend it")
    pool = POOL.without({1: fault})
    assert pool.ids == ("a", "c", "d")
    assert pool.faults == (fault,)
    assert POOL.without({}) is POOL
    assert POOL.take([0]).without({0: fault}).ids == ()


def test_a_mask_is_no_list_of_rows() -> None:
    with pytest.raises(UnderstudyError, match=r"rows must be numbers, got booleans; use numpy.flatnonzero"):
        POOL.take(np.array([True, False, True, False]))


def test_identities_given_twice_are_named() -> None:
    with pytest.raises(UnderstudyError, match=r"must differ; given more than once: a, b$"):
        Pool(("b", "a", "b", "a", "c"))
    with pytest.raises(UnderstudyError, match=r"given more than once: 00, 01, 02, 03, 04 and 15 more$"):
        Pool(tuple(f"{i:02}" for i in range(20)) * 2)


def test_many_identities_are_compared_without_comparing_each_with_each() -> None:
    ids = tuple(map(str, range(200_000)))  # it would take an hour, and tests have minutes
    with pytest.raises(UnderstudyError, match=r"given more than once: 17$"):
        Pool((*ids, "17"))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"features": np.zeros((3, 2))}, "4 identities but 3 rows of features"),
        ({"items": Texts(["one"])}, "4 identities but 1 rows of items"),
        ({"labels": np.zeros(5, int), "classes": ("x",)}, "4 identities but 5 rows of labels"),
        ({"features": np.zeros(4)}, r"features must have two axes, items and columns; got shape \(4,\)"),
        ({"labels": np.array([0, 1, 2, 0]), "classes": ("x", "y")}, "labels must be -1 to 1, .* got 0 to 2"),
        ({"labels": np.array([0, -2, 0, 0]), "classes": ("x",)}, "got -2 to 0"),
        ({"labels": np.zeros(4), "classes": ("x",)}, r"one whole number an item; got float64 of shape \(4,\)"),
        ({"labels": np.zeros((4, 1), int), "classes": ("x",)}, r"got int64 of shape \(4, 1\)"),
        ({"classes": ("x", "x")}, "the classes of a pool must differ; got x, x"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts: dict[str, object], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        Pool(IDS, **parts)  # type: ignore[arg-type]


def test_who_needs_features_and_labels_is_told_which_are_missing() -> None:
    features, labels = np.zeros((2, 3)), np.array([0, 1])
    whole = Pool(("a", "b"), features=features, labels=labels, classes=("x", "y"))
    assert whole.arrays()[0] is features
    assert whole.arrays()[1] is labels
    with pytest.raises(UnderstudyError, match="no features yet; make some with: understudy embed"):
        Pool(("a", "b"), labels=labels, classes=("x", "y")).arrays()
    with pytest.raises(UnderstudyError, match="no labels; give them in a column"):
        Pool(("a", "b"), features=features).arrays()


def test_a_data_set_has_one_part_or_two() -> None:
    pool = Pool(("a", "b"))
    assert Dataset("x", pool).parts == (pool,)
    assert Dataset("x", pool, pool).parts == (pool, pool)


def test_a_raw_item_is_had_by_its_row() -> None:
    assert Pool(("a", "b"), items=Texts(["one", "two"])).item(1) == "two"
    with pytest.raises(UnderstudyError, match="no raw items"):
        Pool(("a", "b")).item(1)
