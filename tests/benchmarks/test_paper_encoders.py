"""Encoders are compared on the same images, whatever rows their files have."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.scripts import script
from understudy import UnderstudyError

encoders = script("encoders")


def features(numbers: list[int]) -> object:
    rows = np.array(numbers)
    return encoders.Features(rows, rows[:, None].astype(np.float16), rows % 3)


def test_images_are_known_by_their_number() -> None:
    assert [encoders.number_of(name) for name in ("train/00017", "row 17", "t10k/3.png")] == [17, 17, 3]
    with pytest.raises(UnderstudyError, match="has no number"):
        encoders.number_of("a cat")


def test_rows_of_all_encoders_are_of_the_same_images_in_one_order() -> None:
    one, two = encoders.aligned([features([5, 3, 9, 1, 7]), features([9, 0, 1, 2, 3, 5])], 10, 0, 0)
    assert one.X[:, 0].tolist() == two.X[:, 0].tolist() == [1, 3, 5, 9]
    fewer = encoders.aligned([features([5, 3, 9, 1, 7]), features([9, 0, 1, 2, 3, 5])], 2, 0, 0)
    assert len(fewer[0].numbers) == 2
    assert fewer[0].X.tolist() == fewer[1].X.tolist()


def test_rows_in_another_order_are_noticed_by_their_classes() -> None:
    other = encoders.Features(np.array([1, 3, 5]), np.zeros((3, 1)), np.array([0, 1, 2]))
    with pytest.raises(UnderstudyError, match="official order"):
        encoders.aligned([features([1, 3, 5]), other], 10, 0, 0)


def test_the_leading_directions_are_the_pools_own() -> None:
    rng = np.random.default_rng(0)
    X, Xt = (rng.normal(size=(n, 5)) * [1, 9, 2, 0.5, 4] + 3 for n in (300, 40))
    pool, test = encoders.reduced(X, Xt, 3)
    _, _, directions = np.linalg.svd(X - X.mean(0), full_matrices=False)
    np.testing.assert_allclose(np.abs(pool), np.abs((X - X.mean(0)) @ directions[:3].T), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.abs(test), np.abs((Xt - X.mean(0)) @ directions[:3].T), rtol=1e-4, atol=1e-4)


def test_a_small_run_compares_two_encoders(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y, yt = rng.integers(3, size=200), rng.integers(3, size=60)
    centres = 3 * rng.normal(size=(3, 8))
    for name, noise in (("good", 1), ("bad", 30)):
        X, Xt = (centres[labels] + noise * rng.normal(size=(len(labels), 8)) for labels in (y, yt))
        np.savez(tmp_path / f"{name}.npz", X=X.astype(np.float32), y=y, Xt=Xt.astype(np.float32), yt=yt)
    out = tmp_path / "found.json"
    paths = [f"{name}={tmp_path / name}.npz" for name in ("good", "bad")]
    size = ["--labels", "20", "40", "--learners", "modern", "--repeats", "2", "--basis", "10", "--directions", "4"]
    encoders.main(["--data", *paths, *size, "--out", str(out)])
    good, bad = json.loads(out.read_text())["results"]
    assert good["random"][0]["values"] == good["surrogate"][0]["values"]  # the same initial labels and learner
    assert good["random"][1]["mean"] > bad["random"][1]["mean"] + 0.2
    assert len(good["surrogate_minus_random"]) == 2
