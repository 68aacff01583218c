"""Arrays from files: the same pool from every format, mapped or read, and one line where they do not fit."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from understudy import UnderstudyError
from understudy.data import arrays
from understudy.data.arrays import from_arrays, load_arrays
from understudy.data.pool import Pool

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 3)).astype(np.float32)
Y = np.array([0, 1, 2, -1, 1, 0], np.int16)
BENCHMARK: dict[str, np.ndarray] = {"X": X.astype(np.float16), "y": Y, "Xt": X[:2].astype(np.float16), "yt": Y[:2]}


def write(path: Path, parts: dict[str, Any], compressed: bool = False) -> Path:
    if path.suffix == ".safetensors":
        save_file(parts, path)
    elif compressed:
        np.savez_compressed(path, **parts)
    else:
        np.savez(path, **parts)
    return path


def error(parts: dict[str, Any], classes: tuple[str, ...] | None = None) -> str:
    with pytest.raises(UnderstudyError) as caught:
        from_arrays(parts, "file", classes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def features(pool: Pool) -> np.ndarray:
    assert pool.features is not None
    return pool.features


def rows(pool: Pool) -> list[int]:
    assert pool.labels is not None
    return pool.labels.tolist()


READ = {False: arrays.MAX_BYTES_READ, True: 0}  # bytes, by whether an array counts as large


@pytest.mark.parametrize("large", [False, True], ids=["read", "mapped"])
@pytest.mark.parametrize("name", ["a.npz", "a.safetensors"])
def test_the_benchmark_form_gives_pool_and_test_set(name: str, large: bool, tmp_path: Path) -> None:
    dataset = load_arrays(write(tmp_path / name, BENCHMARK), max_bytes_read=READ[large])
    assert dataset.test is not None
    assert dataset.name == "a"
    assert dataset.pool.classes == dataset.test.classes == ("0", "1", "2")
    assert rows(dataset.pool) == Y.tolist()
    assert rows(dataset.test) == [0, 1]
    for pool, stored in ((dataset.pool, BENCHMARK["X"]), (dataset.test, BENCHMARK["Xt"])):
        assert features(pool).dtype == np.float16
        assert np.array_equal(features(pool), stored)
        assert isinstance(features(pool), np.memmap) == large
    assert dataset.pool.ids[0] == "row 0"
    assert dataset.test.ids[0] == "test row 0"


@pytest.mark.parametrize("large", [False, True], ids=["read", "mapped"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2", "<i4", "|u1", "|b1"])
def test_a_plain_file_of_features_keeps_its_type(dtype: str, order: Any, large: bool, tmp_path: Path) -> None:
    stored = np.asarray(RNG.integers(0, 2, (5, 4)).astype(dtype), order=order)
    np.save(tmp_path / "x.npy", stored)
    np.savez(tmp_path / "x.npz", X=stored)
    for suffix in (".npy", ".npz"):
        pool = load_arrays(tmp_path / f"x{suffix}", max_bytes_read=READ[large]).pool
        assert features(pool).dtype == np.dtype(dtype)
        assert np.array_equal(features(pool), stored)
        assert isinstance(features(pool), np.memmap) == large
        assert pool.labels is None
        assert pool.faults == ()


def test_what_is_compressed_is_read_however_large(tmp_path: Path) -> None:
    pool = load_arrays(write(tmp_path / "a.npz", BENCHMARK, compressed=True), max_bytes_read=0).pool
    assert not isinstance(features(pool), np.memmap)
    assert np.array_equal(features(pool), BENCHMARK["X"])


def test_what_is_read_into_memory_may_be_written_to(tmp_path: Path) -> None:
    pool = load_arrays(write(tmp_path / "a.npz", BENCHMARK)).pool
    features(pool)[0] = 0  # torch warns of arrays that may not


def test_long_names_and_identities_and_classes(tmp_path: Path) -> None:
    parts = {"features": X, "labels": Y, "ids": np.array(list("abcdef")), "classes": np.array(["x", "y", "z"])}
    pool = load_arrays(write(tmp_path / "a.npz", parts)).pool
    assert pool.ids == tuple("abcdef")
    assert pool.classes == ("x", "y", "z")
    assert rows(pool) == Y.tolist()


def test_identities_may_be_numbers_or_bytes() -> None:
    assert from_arrays({"X": X, "ids": np.arange(6)}, "a").pool.ids == ("0", "1", "2", "3", "4", "5")
    assert from_arrays({"X": X, "ids": np.array(list("abcdef"), "S")}, "a").pool.ids == tuple("abcdef")


@pytest.mark.parametrize("dtype", ["U5", "S5"])
def test_labels_in_words_become_sorted_classes_of_pool_and_test_set(dtype: str) -> None:
    words: np.ndarray = np.array(["dog", "", "cat", "dog", "cat", "dog"], dtype)
    dataset = from_arrays({"X": X, "y": words, "Xt": X[:1], "yt": np.array(["ant"], dtype)}, "a")
    assert dataset.pool.classes == ("ant", "cat", "dog")
    assert rows(dataset.pool) == [2, -1, 1, 2, 1, 2]


@pytest.mark.parametrize("labels", [Y.astype(float), Y.astype(np.int64)[:, None], np.where(Y < 0, np.nan, Y)])
def test_labels_may_be_whole_floats_or_a_column(labels: np.ndarray) -> None:
    assert rows(from_arrays({"X": X, "y": labels}, "a").pool) == Y.tolist()


def test_a_class_only_the_test_set_has_is_a_class() -> None:
    assert from_arrays({**BENCHMARK, "yt": np.array([0, 4])}, "a").pool.classes == ("0", "1", "2", "3", "4")


def test_known_classes_name_the_numbers_and_others_are_faults() -> None:
    pool = from_arrays({"X": X, "y": Y}, "a", ("cat", "dog")).pool
    assert pool.classes == ("cat", "dog")
    assert pool.ids == ("row 0", "row 1", "row 3", "row 4", "row 5")
    assert str(pool.faults[0]) == "row 2: the label '2' is not a known class; use one of cat, dog"
    words = np.array(["cat", "dgo", "", "dog", "dog", "cat"])
    assert "did you mean 'dog'" in from_arrays({"X": X, "y": words}, "a", ("cat", "dog")).pool.faults[0].remedy


def test_the_files_names_are_matched_with_the_known_classes() -> None:
    parts: dict[str, np.ndarray] = {"X": X, "y": Y, "classes": np.array(["x", "y", "z"])}
    assert rows(from_arrays(parts, "a", ("z", "y", "x")).pool) == [2, 1, 0, -1, 1, 2]


@pytest.mark.parametrize("block", [1, arrays.BYTES_PER_BLOCK], ids=["row by row", "at once"])
def test_rows_that_are_not_finite_are_faults_and_the_others_keep_their_numbers(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "BYTES_PER_BLOCK", block)
    bad = X.astype(np.float64)
    bad[1, 2], bad[4, 0], bad[5, 1] = np.nan, -np.inf, 1e300
    pool = from_arrays({"X": bad, "y": Y}, "a").pool
    assert pool.ids == ("row 0", "row 2", "row 3")
    assert rows(pool) == [0, 2, -1]
    assert np.array_equal(features(pool), bad[[0, 2, 3]])
    assert [str(fault).split(";")[0] for fault in pool.faults] == [
        "row 1: not finite in float32: column 2 is nan",
        "row 4: not finite in float32: column 0 is -inf",
        "row 5: not finite in float32: column 1 is 1e+300",
    ]


def test_a_row_with_two_faults_is_named_once() -> None:
    bad = X.copy()
    bad[2] = np.nan
    assert len(from_arrays({"X": bad, "y": Y}, "a", ("cat", "dog")).pool.faults) == 1


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 1), (4, 5, 3), (4, 5, 4)])
def test_bytes_with_three_or_four_axes_are_images(shape: tuple[int, ...], tmp_path: Path) -> None:
    pixels = RNG.integers(0, 256, (6, *shape), dtype=np.uint8)
    dataset = load_arrays(write(tmp_path / "a.npz", {"X": pixels, "y": Y, "Xt": pixels[:2], "yt": Y[:2]}))
    for pool in (dataset.pool, dataset.test):
        assert pool is not None
        assert pool.features is None
        assert pool.items is not None
        image, _ = pool.items.decode(1, pool.items.read(1))
        assert np.asarray(image).shape == (4, 5, 3)
        if shape[-1] != 4:
            assert np.array_equal(np.asarray(image)[..., 0], pixels[1].reshape(4, 5, -1)[..., 0])
    assert rows(dataset.pool) == Y.tolist()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"Z": X, "W": X}, "file has no array X or features; it has Z, W: name one of them X"),
        ({}, "it has none"),
        ({"X": X, "features": X}, "file has both X and features; keep one"),
        ({"X": X, "yt": Y}, "labels but no features of a test set"),
        ({"X": X[0]}, "features must have two axes, items and columns .* got float32 of shape (3,)"),
        (
            {"X": np.zeros((2, 2, 2))},
            "features must have two axes, items and columns .* got float64 of shape (2, 2, 2)",
        ),
        ({"X": X[:0]}, "the array of features has no rows (shape (0, 3))"),
        ({"X": np.float32(3)}, "the array of features has no rows (shape ())"),
        ({"X": X[:, :0]}, "got float32 of shape (6, 0)"),
        ({"X": X.astype("U3")}, "features must be numbers, got an array of type <U3"),
        ({"X": X, "y": Y[:4]}, "6 rows of features but 4 labels"),
        ({"X": X, "y": np.eye(6)}, "labels must be one value a row; got shape (6, 6) (argmax"),
        ({"X": X, "y": Y.astype("M8[s]")}, "labels must be whole numbers or strings; got datetime64"),
        ({"X": X, "y": Y - 1}, "labels must be -1 (no label) or a class from 0 on; row 3 is -2"),
        ({"X": X, "ids": np.arange(4)}, "6 rows of features but identities of shape (4,)"),
        ({"X": X, "ids": np.zeros(6)}, "the identities of a pool must differ; given more than once: 0.0"),
        ({"X": X, "Xt": X[:, :2]}, "the pool has 3 columns, the test set 2"),
        ({"X": np.zeros((2, 3, 8, 8), np.uint8)}, "images in an array must be uint8 of shape (n, height, width)"),
    ],
)
def test_arrays_that_do_not_fit_get_one_line(parts: dict[str, Any], message: str) -> None:
    found = error({key: np.asarray(value) for key, value in parts.items()})
    for piece in message.split(" .* "):
        assert piece in found


def test_keys_that_mean_nothing_are_named_and_others_are_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", {"weights": X, "odd": np.array([None])})
    with pytest.raises(UnderstudyError, match="no array X or features; it has weights, odd"):
        load_arrays(path)
    path = write(tmp_path / "b.npz", {"X": X, "odd": np.array([None])})
    assert len(load_arrays(path).pool) == 6


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_an_array_that_is_alone_may_have_any_name(suffix: str, tmp_path: Path) -> None:
    alone = load_arrays(write(tmp_path / f"a{suffix}", {"embeddings": X}))
    assert np.array_equal(np.asarray(alone.pool.features), X)
    labelled = load_arrays(write(tmp_path / f"b{suffix}", {"embeddings": X, "y": np.arange(len(X))}))
    assert labelled.pool.labels is not None
    with pytest.raises(UnderstudyError, match="no array X or features; it has"):
        load_arrays(write(tmp_path / f"c{suffix}", {"embeddings": X, "others": X}))


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_nothing_is_ever_unpickled(name: str, tmp_path: Path) -> None:
    trap = np.array([[Bomb(tmp_path / "exploded")]], dtype=object)
    if name == "a.npy":
        np.save(tmp_path / name, trap, allow_pickle=True)
    else:
        np.savez(tmp_path / name, X=trap)
    with pytest.raises(UnderstudyError, match="holds Python objects, which are never unpickled"):
        load_arrays(tmp_path / name)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    with pytest.raises(UnderstudyError, match=r"broken, truncated or not a \.npy file"):
        load_arrays(tmp_path / "b.npy")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("large", [False, True], ids=["read", "mapped"])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.99])
def test_a_truncated_file_gets_one_line(suffix: str, share: float, large: bool, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    np.save(path, X) if suffix == ".npy" else write(path, BENCHMARK)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(UnderstudyError, match=rf"broken, truncated or not a \{suffix} file \(.*\); write it again"):
        load_arrays(path, max_bytes_read=READ[large])


def test_a_member_whose_bytes_have_changed_is_found_by_its_checksum(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", {"X": X})
    content = bytearray(path.read_bytes())
    content[content.index(X.tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(UnderstudyError, match="Bad CRC-32"):
        load_arrays(path)


def test_a_header_that_claims_more_than_there_is_is_not_believed(tmp_path: Path) -> None:
    with (tmp_path / "a.npy").open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (2**40, 2**20)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.write(tmp_path / "a.npy", "X.npy")
    for name in ("a.npy", "a.npz"):
        with pytest.raises(UnderstudyError, match="broken, truncated"):
            load_arrays(tmp_path / name)


def test_a_type_numpy_lacks_is_named(tmp_path: Path) -> None:
    header = b'{"X":{"dtype":"BF16","shape":[1,1],"data_offsets":[0,2]}}'
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0")
    with pytest.raises(UnderstudyError, match="X holds BF16, which numpy does not know"):
        load_arrays(tmp_path / "a.safetensors")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for name in ("a.npy", "a.npz", "a.safetensors"):
        with pytest.raises(UnderstudyError, match=f"{name}: no such file"):
            load_arrays(tmp_path / name)
