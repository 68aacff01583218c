"""CIFAR-10 and CIFAR-100 from small files in both official formats, packed and unpacked, and from broken ones."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.data.official import (
    FINE_NAMES,
    LABELS,
    PER_BATCH,
    PLANES,
    array,
    cifar10,
    cifar100,
    listed,
    number,
    pack_cifar,
    python2,
    string,
    write,
)  # fmt: skip
from understudy.data.datasets import find, load_named
from understudy.data.datasets.cifar import CIFAR10_CLASSES
from understudy.data.pool import Dataset
from understudy.errors import UnderstudyError

KINDS = ("binary", "python")


SETS = {"cifar10": cifar10, "cifar100": cifar100}


def pixels_of(data: Dataset) -> np.ndarray:
    assert data.pool.items is not None
    return np.stack([np.asarray(data.pool.items.decode(row, data.pool.items.read(row))[0])
                     for row in range(len(data.pool))])  # fmt: skip


@pytest.mark.parametrize("packed", [True, False], ids=["archive", "folder"])
@pytest.mark.parametrize("kind", KINDS)
def test_cifar10_is_what_its_files_say(tmp_path: Path, kind: str, packed: bool) -> None:
    pack_cifar(tmp_path, "cifar10", kind, cifar10(kind)) if packed else write(tmp_path, cifar10(kind))
    data = load_named("cifar10", folder=tmp_path)
    assert data.pool.ids == tuple(f"train/{row:05d}" for row in range(5 * PER_BATCH))
    assert data.pool.labels is not None
    assert data.pool.labels.tolist() == LABELS[:5].ravel().tolist()
    assert (pixels_of(data) == PLANES[:5].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)).all()
    assert data.pool.classes == CIFAR10_CLASSES
    assert data.test is not None
    assert data.test.labels is not None
    assert data.test.labels.tolist() == LABELS[5].tolist()


@pytest.mark.parametrize("packed", [True, False], ids=["archive", "folder"])
@pytest.mark.parametrize("kind", KINDS)
def test_cifar100_has_its_fine_labels(tmp_path: Path, kind: str, packed: bool) -> None:
    pack_cifar(tmp_path, "cifar100", kind, cifar100(kind)) if packed else write(tmp_path, cifar100(kind))
    data = load_named("cifar100", folder=tmp_path)
    assert data.pool.labels is not None
    assert data.pool.labels.tolist() == [99, 0, 42]
    assert data.pool.classes == tuple(FINE_NAMES)
    assert (pixels_of(data) == PLANES[0].transpose(0, 2, 3, 1)).all()


@pytest.mark.parametrize("name", SETS)
def test_the_binary_files_come_first(tmp_path: Path, name: str) -> None:
    for kind in KINDS:
        pack_cifar(tmp_path, name, kind, SETS[name](kind))
    found = find(name, folder=tmp_path)
    assert found is not None
    assert "binary" in found.name


def test_a_folder_of_batches_may_be_named_itself(tmp_path: Path) -> None:
    write(tmp_path, cifar10("binary"))
    assert len(load_named("cifar10", folder=tmp_path / "cifar-10-batches-bin").pool) == 5 * PER_BATCH


def test_content_that_is_not_the_official_one_is_noted(tmp_path: Path) -> None:
    data = load_named("cifar10", folder=write(tmp_path, cifar10("binary")), on_error="fail")
    assert [note.item for note in data.pool.faults] == [f"data_batch_{i}.bin" for i in range(1, 6)]
    assert data.test is not None
    assert [note.item for note in data.test.faults] == ["test_batch.bin"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SETS)
def test_a_missing_member_is_named(tmp_path: Path, name: str, kind: str) -> None:
    files = SETS[name](kind)
    gone = sorted(files)[1 if name == "cifar10" else -1]
    del files[gone]
    pack_cifar(tmp_path, name, kind, files)
    with pytest.raises(UnderstudyError, match=rf"lacks {Path(gone).name}; run: understudy datasets --get {name}"):
        load_named(name, folder=tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_is_not_complete_gives_way_to_one_that_is(tmp_path: Path, kind: str) -> None:
    files = cifar10(kind)
    other = cifar10(KINDS[1 - KINDS.index(kind)])
    del files[sorted(files)[2]]
    write(tmp_path, files)
    assert find("cifar10", folder=tmp_path) is None
    flat = {Path(name).name: content for name, content in (files | other).items()}
    assert len(load_named("cifar10", folder=write(tmp_path / "flat", flat)).pool) == 5 * PER_BATCH


def test_a_truncated_archive_is_one_line(tmp_path: Path) -> None:
    path = pack_cifar(tmp_path, "cifar10", "binary", cifar10("binary"))
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(UnderstudyError, match=r"cifar-10-binary\.tar\.gz is truncated or damaged"):
        load_named("cifar10", folder=tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "0 bytes are not a whole number of records of 3,073"),
        (bytes(3072), "3,072 bytes are not a whole number"),
        (bytes(3074), "3,074 bytes are not a whole number"),
        (b"\x0a" + bytes(3072), "label 10 where 0 to 9 are classes"),
    ],
)
def test_a_broken_binary_batch_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    write(tmp_path, cifar10("binary") | {"cifar-10-batches-bin/data_batch_3.bin": content})
    with pytest.raises(UnderstudyError, match=rf"data_batch_3\.bin .*{words}"):
        load_named("cifar10", folder=tmp_path)


PIXELS = PLANES[0].reshape(PER_BATCH, 3072)
THREE = listed(*map(number, (0, 1, 2)))


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({b"labels": THREE}, "'data' and 'labels' are not in it; it has labels"),
        ({b"data": array(PIXELS)}, "it has data"),
        ({b"data": string(b"x"), b"labels": THREE}, "are not in it"),
        ({b"data": array(PIXELS[:2]), b"labels": THREE}, r"shape \(2, 3072\) for 3 labels"),
        ({b"data": array(PIXELS[:, 1:]), b"labels": THREE}, r"shape \(3, 3071\)"),
        ({b"data": array(PIXELS), b"labels": listed(number(0), number(1), string(b"2"))}, "not small numbers"),
        ({b"data": array(PIXELS), b"labels": listed(number(0), number(1), b"J\xff\xff\xff\xff")}, "not small numbers"),
        ({b"data": array(PIXELS), b"labels": listed(*map(number, (0, 1, 10)))}, "label 10 where 0 to 9"),
    ],
)
def test_a_broken_python_batch_is_named(tmp_path: Path, entries: dict[bytes, bytes], words: str) -> None:
    write(tmp_path, cifar10("python") | {"cifar-10-batches-py/data_batch_3": python2(entries)})
    with pytest.raises(UnderstudyError, match=f"data_batch_3 .*{words}"):
        load_named("cifar10", folder=tmp_path)


class Attack:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.marker}",)


@pytest.mark.parametrize("file", ["data_batch_1", "test_batch"])
def test_a_pickle_with_a_program_in_it_is_refused_and_not_run(tmp_path: Path, file: str) -> None:
    marker = tmp_path / "ran"
    pack_cifar(tmp_path, "cifar10", "python",
         cifar10("python") | {f"cifar-10-batches-py/{file}": pickle.dumps({b"data": Attack(marker)}, 2)})  # fmt: skip
    with pytest.raises(UnderstudyError, match=f"{file} is refused: it asks for '(posix|nt|os).system'"):
        load_named("cifar10", folder=tmp_path)
    assert not marker.exists()
