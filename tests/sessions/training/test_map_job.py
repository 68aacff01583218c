"""The map that is kept in a project's work folder: of which features, and what becomes of it when the pool grows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from understudy.sessions.training.map_job import MAP, make_map, read_map

X = load_digits().data[:240].astype(np.float32)


def job(work: Path, version: str | None = None) -> dict[str, Any]:
    return {"work": str(work), "version": version, "seed": 0}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("work")
    make_map(X[:200], job(work))
    return work


def places(work: Path, features: np.ndarray, version: str | None = None) -> np.ndarray | None:
    found = read_map(work / MAP, features, version, 0)
    return None if found is None else found.places


def test_a_map_is_kept_and_the_same_when_it_is_made_again(kept: Path, tmp_path: Path) -> None:
    make_map(X[:200], job(tmp_path))
    once = places(kept, X[:200])
    assert once is not None
    np.testing.assert_array_equal(once, places(tmp_path, X[:200]))


def test_a_map_of_other_features_is_not_taken(kept: Path) -> None:
    assert places(kept, X[:200], version="another") is None
    assert places(kept, X[:150]) is None


def test_items_that_came_later_have_places_and_the_others_keep_theirs(kept: Path) -> None:
    before, few = places(kept, X[:200]), read_map(kept / MAP, X[:210], None, 0)
    assert before is not None
    assert few is not None
    np.testing.assert_array_equal(few.places[:200], before)
    assert np.isfinite(few.places).all()
    assert (len(few.places), few.is_outgrown) == (210, False)
    many = read_map(kept / MAP, X, None, 0)
    assert many is not None
    assert many.is_outgrown


def test_a_pool_that_has_outgrown_its_map_is_laid_out_anew_and_stays_alike(kept: Path, tmp_path: Path) -> None:
    before = places(kept, X[:200])
    make_map(X[:200], job(tmp_path))
    make_map(X, job(tmp_path))
    after = read_map(tmp_path / MAP, X, None, 0)
    assert before is not None
    assert after is not None
    assert not after.is_outgrown
    for axis in range(2):
        assert np.corrcoef(before[:, axis], after.places[:200, axis])[0, 1] > 0.8


def test_a_damaged_map_is_as_none(tmp_path: Path) -> None:
    make_map(X[:60], job(tmp_path))
    (tmp_path / MAP / "places.npy").write_bytes(b"not an array")
    assert places(tmp_path, X[:60]) is None
