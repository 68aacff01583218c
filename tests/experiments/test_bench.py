"""What strategies are compared on."""

from dataclasses import replace

import numpy as np
import pytest

from tests.experiments.small import ARRAYS, dataset, images_of, part
from understudy import UnderstudyError
from understudy.data.faults import Fault
from understudy.data.items import Texts
from understudy.data.pool import Dataset, Pool
from understudy.experiments.bench import Bench, bench_of, inputs_of


def test_a_test_set_is_taken_as_it_is() -> None:
    bench = bench_of(dataset(), seed=3)
    assert (len(bench.pool), len(bench.test), bench.n_classes) == (120, 50, 3)
    np.testing.assert_array_equal(bench.truth, ARRAYS.truth[:120])
    np.testing.assert_array_equal(bench.test_labels, ARRAYS.truth[120:])


def test_without_a_test_set_a_fifth_is_held_out_the_same_for_the_same_seed() -> None:
    alone = Dataset("alone", part(range(120)))
    benches = [bench_of(alone, seed) for seed in (0, 0, 1)]
    for bench in benches:
        assert (len(bench.pool), len(bench.test)) == (96, 24)
        assert set(bench.pool.ids) | set(bench.test.ids) == set(alone.pool.ids)
        np.testing.assert_array_equal(bench.pool.features, ARRAYS.features[[int(i[5:]) for i in bench.pool.ids]])
    assert benches[0].test.ids == benches[1].test.ids != benches[2].test.ids
    assert benches[0].digest() == benches[1].digest() != benches[2].digest()


def test_rows_without_a_label_are_left_out_of_both() -> None:
    labels = ARRAYS.truth[:120].copy()
    labels[[3, 7]] = -1
    hidden = ARRAYS.truth[120:].copy()
    hidden[0] = -1
    bench = bench_of(Dataset("some", part(range(120), labels=labels), part(range(120, 170), labels=hidden)))
    assert (len(bench.pool), len(bench.test)) == (118, 49)
    assert not {"item 3", "item 7", "item 120"} & {*bench.pool.ids, *bench.test.ids}
    assert bench.truth.min() >= 0


def test_what_was_left_out_is_counted_and_said() -> None:
    labels = ARRAYS.truth[:120].copy()
    labels[[3, 7]] = -1
    faults = (Fault("a.jpg", "is broken", "mend it"), Fault("b.jpg", "is large", "nothing", used=True))
    pool = part(range(120), labels=labels, faults=faults)
    for test in (None, part(range(120, 170))):
        bench = bench_of(Dataset("some", pool, test))
        assert (bench.unusable, bench.unlabelled) == (1, 2)
        assert bench.notes() == ["items left out: 1 that cannot be used and 2 that have no label"]
    assert bench_of(dataset()).notes() == []


def test_one_class_is_refused_and_test_items_of_unseen_classes_are_said() -> None:
    one = np.zeros(120, np.int64)
    with pytest.raises(
        UnderstudyError, match="all labelled items of one belong to one class, a; a comparison needs two"
    ):
        bench_of(Dataset("one", part(range(120), labels=one)))
    two = np.minimum(ARRAYS.truth[:120], 1)
    (line,) = bench_of(Dataset("two", part(range(120), labels=two), part(range(120, 170)))).notes()
    unseen = int((ARRAYS.truth[120:] == 2).sum())
    assert line == f"the pool has no item of c, so {unseen} of the test items cannot be predicted right"
    with pytest.raises(UnderstudyError, match=r"the test set of x has other classes than its pool \(b, a, c; a, b, c"):
        bench_of(Dataset("x", part(range(120)), part(range(120, 170), classes=("b", "a", "c"))))


def test_labels_must_be_there_and_items_enough_to_hold_some_out() -> None:
    nothing = part(range(120), labels=None)
    with pytest.raises(UnderstudyError, match="the pool has no labels, but a comparison needs them"):
        bench_of(Dataset("none", nothing))
    with pytest.raises(UnderstudyError, match="the test set has no labels"):
        bench_of(Dataset("none", part(range(20)), part(range(20, 30), labels=None)))
    with pytest.raises(UnderstudyError, match="has 2 labelled items, too few"):
        bench_of(Dataset("few", part(range(2), labels=np.array([0, 1]))))


def test_the_digest_tells_features_labels_names_and_classes_apart() -> None:
    found = dataset()
    assert found.test is not None
    other = ARRAYS.features[:120].copy()
    other[5, 0] += 1e-3
    changed = ARRAYS.truth[:120].copy()
    changed[0] = (changed[0] + 1) % 3
    pools = [
        found.pool,
        replace(found.pool, features=other),
        replace(found.pool, labels=changed),
        replace(found.pool, ids=tuple(f"other {i}" for i in range(120))),
        replace(found.pool, classes=("a", "b", "d")),
    ]
    digests = [Bench("small", pool, found.test).digest() for pool in pools]
    assert len(set(digests)) == len(pools)
    assert Bench("another name", found.pool, found.test).digest() == digests[0]


def test_a_learner_is_given_what_it_takes() -> None:
    pool = images_of(range(20))
    np.testing.assert_array_equal(inputs_of(pool, "features"), ARRAYS.features[:20])
    np.testing.assert_array_equal(inputs_of(pool, "images"), ARRAYS.images[:20])
    assert inputs_of(pool, "ids")[3] == "item 3"
    with pytest.raises(UnderstudyError, match="this learner needs features, but there are none"):
        inputs_of(part(range(5), features=None), "features")


def test_texts_that_no_features_stand_for_are_handed_over_and_told_apart_by_the_digest() -> None:
    pools = [
        Pool(("1", "2"), Texts(texts), labels=np.array([0, 1]), classes=("a", "b"))
        for texts in (["x", "y"], ["x", "z"])
    ]
    benches = [bench_of(Dataset("texts", pool, test=pools[0])) for pool in pools]
    assert list(inputs_of(benches[1].pool, "items")) == ["x", "z"]
    assert benches[0].digest() != benches[1].digest()


def test_classes_without_a_test_item_are_said() -> None:
    first = np.zeros(50, np.int64)
    (line,) = bench_of(Dataset("some", part(range(120)), part(range(120, 170), labels=first))).notes()
    assert line == "the test set has no item of b, c, so no metric says how well they are predicted"
