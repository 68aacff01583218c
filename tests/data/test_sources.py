"""One door for every source."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.leaving_out import import_or_leave_out
from understudy import UnderstudyError
from understudy.data.faults import FaultsFound
from understudy.data.features import FeaturesOrigin, draft_features
from understudy.data.pool import Dataset, Pool
from understudy.data.sources import load

X = np.eye(3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        Image.new("RGB", (1, 1)).save(tmp_path / "pets" / name / "1.png")
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", X=X, y=np.arange(3))
    (tmp_path / "a.csv").write_text("text,label\nhello,x\n")
    (tmp_path / "a.jsonl").write_text('{"text": "hello"}\n')
    return tmp_path


@pytest.mark.parametrize(("name", "n"), [("pets", 2), ("x.npy", 3), ("x.npz", 3), ("a.csv", 1), ("a.jsonl", 1)])
@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_opened_by_what_it_is(name: str, n: int, kind: Any, folder: Path) -> None:
    dataset = load(kind(folder / name))
    assert len(dataset.pool) == n
    assert dataset.name == Path(name).stem


def test_objects_are_pools_already() -> None:
    pool = Pool(("a",))
    dataset = Dataset("mine", pool)
    assert load(dataset) is dataset
    assert load(pool).pool is pool
    assert load(X).pool.features is X


def test_a_hugging_face_object_is_recognised(folder: Path) -> None:
    datasets = import_or_leave_out("datasets")
    datasets.disable_progress_bars()
    data = datasets.Dataset.from_dict({"text": ["a", "b"]})
    assert len(load(data).pool) == 2
    data.save_to_disk(folder / "saved")
    assert len(load(folder / "saved").pool) == 2


def test_a_data_set_goes_by_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    dataset = load("digits")
    assert dataset.name == "digits"
    assert len(dataset.pool.classes) == 10


def test_a_name_that_is_also_a_folder_or_a_file_here_is_not_guessed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "pets").rename("digits")
    with pytest.raises(UnderstudyError) as caught:
        load("digits")
    assert str(caught.value) == (
        "digits is the name of a data set and of a folder here; write ./digits for the folder, "
        "or rename it or work in another folder to get the data set"
    )
    assert len(load("./digits").pool) == len(load(Path("digits")).pool) == 2
    (folder / "cifar10").touch()
    with pytest.raises(UnderstudyError, match="cifar10 is the name of a data set and of a file here"):
        load("cifar10")


def test_a_path_that_no_file_can_have_is_one_line() -> None:
    with pytest.raises(UnderstudyError, match=r"x cannot be looked up \(File name too long\); check the path$"):
        load("x" * 300)


def test_options_reach_the_source(folder: Path) -> None:
    assert load(folder / "pets", folder_labels=False).pool.labels is None
    assert load(folder / "pets", classes=["dog", "cat"]).pool.classes == ("dog", "cat")
    assert load(folder / "a.csv", columns={"text": "label"}).pool.ids == ("line 2",)


def test_faults_are_kept_or_raised_once_all_are_known(folder: Path) -> None:
    (folder / "a.csv").write_text("path\npets/cat/1.png\ngone.png\nlost.png\n")
    assert [fault.item for fault in load(folder / "a.csv").pool.faults] == ["line 3", "line 4"]
    with pytest.raises(FaultsFound, match=r"2 items cannot be used") as caught:
        load(folder / "a.csv", on_error="fail")
    assert len(caught.value.faults) == 2


def test_faults_of_the_test_set_count_too(folder: Path) -> None:
    for good in (0, 1):
        test = np.full((2, 3), np.nan)
        test[:good] = 0
        np.savez(folder / "x.npz", X=X, Xt=test)
        with pytest.raises(FaultsFound, match=r"test row 1: not finite"):
            load(folder / "x.npz", on_error="fail")


def test_a_test_set_of_faults_only_is_none(folder: Path) -> None:
    np.savez(folder / "x.npz", X=X, Xt=np.full((2, 3), np.nan))
    dataset = load(folder / "x.npz")
    assert dataset.test is None
    assert [fault.item for fault in dataset.pool.faults] == ["test row 0", "test row 1"]


def test_a_pool_of_nothing_but_faults_is_an_error(folder: Path) -> None:
    np.save(folder / "x.npy", np.full((1, 3), np.nan))
    with pytest.raises(UnderstudyError, match=r"nothing in x can be used: row 0: not finite"):
        load(folder / "x.npy")
    with pytest.raises(UnderstudyError, match="nothing in pool can be used: it is empty"):
        load(Pool(()))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digit", r"there is no digit \(did you mean digits\?\); give the name of a data set, a folder of images"),
        ("peds", r"there is no peds \(did you mean pets\?\)"),
        ("b.csv", r"there is no b.csv \(did you mean a.csv\?\)"),
        ("nowhere/zzz", r"there is no nowhere/zzz; give"),
        ("notes.doc", r"notes.doc: a file of a kind that holds no pool; give .*\.csv, .*\.npz"),
    ],
)
def test_an_unknown_source_gets_the_nearest_name_and_what_is_accepted(
    name: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "notes.doc").touch()
    with pytest.raises(UnderstudyError, match=message) as caught:
        load(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (3, {}, "a pool cannot be made of a int; give the name"),
        (X, {"on_error": "ignore"}, "on_error must be 'skip' or 'fail'"),
        (X, {"classes": "cat"}, "classes must be a list of names that differ; got 'cat'"),
        (X, {"classes": ["cat", "cat"]}, "classes must be a list of names that differ"),
        (X, {"classes": []}, "classes must be a list of names that differ"),
        (Pool(("a",)), {"classes": ["cat"]}, "pool has 0 classes of its own, which stay"),
    ],
)
def test_bad_arguments_get_one_line(source: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        load(source, **options)


def test_a_folder_of_features_is_recognised_by_its_card(folder: Path) -> None:
    pool = load(folder / "a.jsonl").pool
    written = {
        "digests": [b"0" * 16],
        "stamps": [None],
        "faults": [],
        "origin": FeaturesOrigin("pixels", "1", "a.jsonl"),
    }
    for name in ("features", "features/test"):
        with draft_features(folder / name, pool, [X[:1]], dim=3, **written):  # type: ignore[arg-type]
            pass
    dataset = load(folder / "features")
    assert dataset.name == "features"
    for part in (dataset.pool, dataset.test):
        assert part is not None
        assert part.ids == ("line 1",)
        assert np.array_equal(np.asarray(part.features), X[:1])
    (folder / "pets" / "embedding.json").write_text("{}")
    with pytest.raises(UnderstudyError, match="pets"):  # no folder of images any more, and none of features either
        load(folder / "pets")
