"""The data sets of the default's studies: held-out rows, uneven classes, wrong answers, images beside features."""

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.scripts import script, write_task

prepare = script("prepare")


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 100).astype(np.int16)
    return {
        "X": rng.normal(size=(1000, 4)).astype(np.float16),
        "y": y,
        "Xt": rng.normal(size=(50, 4)).astype(np.float16),
        "yt": np.tile(np.arange(10), 5).astype(np.int16),
    }


def test_held_out_rows_come_from_the_pool_alone(arrays: dict[str, np.ndarray]) -> None:
    found = prepare.hold_out(arrays)
    assert len(found["Xt"]) == 100
    rows = {tuple(row) for row in found["X"].tolist()} | {tuple(row) for row in found["Xt"].tolist()}
    assert rows == {tuple(row) for row in arrays["X"].tolist()}
    assert not rows & {tuple(row) for row in arrays["Xt"].tolist()}
    assert np.array_equal(found["Xt"], prepare.hold_out(arrays)["Xt"])


def test_classes_fall_to_a_twentieth_and_test_rows_stay(arrays: dict[str, np.ndarray]) -> None:
    found = prepare.make_imbalanced(arrays)
    sizes = np.sort(np.bincount(found["y"]))[::-1]
    assert sizes[0] == 100
    assert sizes[-1] == 5
    assert np.allclose(sizes[1:] / sizes[:-1], 20 ** (-1 / 9), atol=0.06)
    assert np.array_equal(found["yt"], arrays["yt"])


def test_a_tenth_of_the_answers_is_wrong_and_every_other_class_is_told(arrays: dict[str, np.ndarray]) -> None:
    many = {**arrays, "y": np.tile(np.arange(10), 2000).astype(np.int16)}
    told = prepare.make_wrong(many)["y"]
    is_wrong = told != many["y"]
    assert is_wrong.mean() == pytest.approx(0.1, abs=0.01)
    assert np.bincount((told - many["y"])[is_wrong] % 10, minlength=10)[1:].min() > 150
    assert told.dtype == many["y"].dtype
    assert np.array_equal(prepare.make_wrong(many)["yt"], many["yt"])


def test_a_smaller_part_is_a_part_of_the_larger(arrays: dict[str, np.ndarray]) -> None:
    small, large = (prepare.take_part(rows)(arrays) for rows in (50, 200))
    assert len(small["X"]) == len(small["y"]) == 50
    assert {tuple(row) for row in small["X"].tolist()} <= {tuple(row) for row in large["X"].tolist()}


def test_a_plain_set_is_what_load_makes_of_its_file(tmp_path: Path) -> None:
    """So that results can be compared with those kept before: the digest is of the same items."""
    from understudy import load
    from understudy.experiments.bench import bench_of

    file = write_task(tmp_path / f"{prepare.SETS['cifar10']}.npz")
    assert prepare.read_bench(tmp_path, "cifar10").digest() == bench_of(load(str(file))).digest()
    assert prepare.read_bench(tmp_path, "cifar10+wrong").digest() != bench_of(load(str(file))).digest()


def test_images_have_the_features_of_the_same_items() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=40).astype(np.int16)
    beside = rng.normal(size=(40, 3))
    features = {"X": beside, "y": y, "Xt": rng.normal(size=(9, 3)), "yt": y[:9]}
    rows = np.array([3, 7, 20, 21])
    images = rng.integers(256, size=(4, 784)).astype(np.uint8)
    pixels = {
        "X": images,
        "y": y[rows],
        "Xt": rng.integers(256, size=(9, 784)).astype(np.uint8),
        "yt": y[:9],
        "rows": rows,
    }
    bench = prepare.with_images(pixels, features, "both")
    assert np.array_equal(bench.pool.features, beside[rows])
    assert np.array_equal(bench.pool.pixels()[2], images[2].reshape(28, 28))
    with pytest.raises(ValueError, match="different items"):
        prepare.with_images({**pixels, "y": (y[rows] + 1) % 10}, features, "both")
