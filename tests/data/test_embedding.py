import errno
import json
import multiprocessing
import resource
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pytest
from PIL import Image

from tests.data.image_pools import Counting, by_hand, image, images, pool_of
from understudy.data import features as features_module
from understudy.data.embedding import Interrupted, embed, embed_dataset, open_features
from understudy.data.encoders.protocol import Prepared, identity_of
from understudy.data.faults import Fault, FaultsFound
from understudy.data.features import open_dataset
from understudy.data.items import Texts
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError


def features(folder: Path) -> np.ndarray:
    return np.load(folder / "features.npy")


def faults(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "faults.jsonl").read_text().splitlines()]


def test_features_are_what_the_encoder_makes_of_each_item_in_order(tmp_path: Path) -> None:
    paths, encoder = images(tmp_path / "images", 11), Counting()
    made = embed(pool_of(paths), encoder, out=tmp_path / "out", batch_size=4, workers=3)
    np.testing.assert_array_equal(features(tmp_path / "out"), by_hand(paths))
    assert encoder.batches == [4, 4, 3]
    assert (made.n, made.dim, made.computed, made.cached, made.faults) == (11, 48, 11, 0, ())


def test_what_is_known_is_not_computed_again_in_this_pool_or_another(tmp_path: Path) -> None:
    paths = images(tmp_path / "images", 6)
    embed(pool_of(paths), Counting(), out=tmp_path / "out")
    first = (tmp_path / "out" / "features.npy").read_bytes()
    again = Counting()
    made = embed(pool_of(paths), again, out=tmp_path / "again")
    assert again.batches == []
    assert (made.computed, made.cached) == (0, 6)
    assert (tmp_path / "again" / "features.npy").read_bytes() == first
    more, moved = Counting(), tmp_path / "images" / "0000.png"
    moved = moved.rename(tmp_path / "moved.png")
    grown = [*images(tmp_path / "images", 3, first=20), moved, *paths[1:]]
    made = embed(pool_of(grown), more, out=tmp_path / "out")
    assert (more.batches, made.computed, made.cached) == ([3], 3, 6)
    np.testing.assert_array_equal(features(tmp_path / "out"), by_hand(grown))


def test_another_encoder_shares_nothing(tmp_path: Path) -> None:
    pool = pool_of(images(tmp_path / "images", 3))
    embed(pool, Counting(), out=tmp_path / "out")
    other = Counting(size="5")
    embed(pool, other, out=tmp_path / "out")
    assert other.batches == [3]
    assert features(tmp_path / "out").shape == (3, 75)


def test_the_same_content_is_computed_once(tmp_path: Path) -> None:
    paths = images(tmp_path / "images", 3)
    copies = [tmp_path / f"copy{i}.png" for i in range(8)]
    for i, copy in enumerate(copies):
        copy.write_bytes(paths[i % 3].read_bytes())
    encoder = Counting()
    made = embed(pool_of([*paths, *copies]), encoder, out=tmp_path / "out", batch_size=2)
    assert (encoder.batches, made.n, made.computed) == ([2, 1], 11, 3)
    np.testing.assert_array_equal(features(tmp_path / "out"), by_hand([*paths, *copies]))


@pytest.fixture
def mixed(tmp_path: Path) -> list[Path]:
    """Nine files of which three cannot be used and one has to be told of."""
    paths = images(tmp_path / "mixed", 9)
    paths[1].write_bytes(b"")
    paths[4].write_bytes(paths[4].read_bytes()[:60])
    image(5).convert("CMYK").save(paths[5], format="jpeg")
    paths[7].unlink()
    return paths


def test_what_cannot_be_used_is_left_out_and_named(mixed: list[Path], tmp_path: Path) -> None:
    made = embed(pool_of(mixed), Counting(), out=tmp_path / "out", batch_size=2)
    used = [0, 2, 3, 5, 6, 8]
    np.testing.assert_array_equal(features(tmp_path / "out"), by_hand([mixed[i] for i in used]))
    pool = open_features(tmp_path / "out")
    assert pool.ids == tuple(mixed[i].name for i in used)
    assert pool.labels is not None
    assert pool.labels.tolist() == [i % 2 for i in used]
    assert [fault.item for fault in made.left_out] == ["0001.png", "0004.png", "0007.png"]
    assert [fault["problem"][:20] for fault in faults(tmp_path / "out")] == [
        "the file is empty", "broken or truncated ", "CMYK colours", "no such file",
    ]  # fmt: skip
    assert pool.faults == made.faults


def test_notes_are_the_same_when_features_come_from_the_store(mixed: list[Path], tmp_path: Path) -> None:
    first = embed(pool_of(mixed), Counting(), out=tmp_path / "out")
    second = embed(pool_of(mixed), Counting(), out=tmp_path / "again")
    assert second.computed == 0
    assert second.faults == first.faults
    assert (tmp_path / "again" / "faults.jsonl").read_bytes() == (tmp_path / "out" / "faults.jsonl").read_bytes()


def test_fail_names_all_faults_replaces_nothing_and_keeps_what_was_computed(mixed: list[Path], tmp_path: Path) -> None:
    embed(pool_of(mixed[:1]), Counting(), out=tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(FaultsFound, match="3 items cannot be used") as caught:
        embed(pool_of(mixed), Counting(), out=tmp_path / "out", on_error="fail")
    assert [fault.item for fault in caught.value.faults] == ["0001.png", "0004.png", "0007.png"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert embed(pool_of(mixed), Counting(), out=tmp_path / "out").computed == 0


def test_faults_of_the_pool_itself_are_kept(tmp_path: Path) -> None:
    pool = pool_of(images(tmp_path / "images", 2))
    known = Fault("line 3", "no such class", "mend it")
    with_fault = Pool(pool.ids, pool.items, faults=(known,))
    assert embed(with_fault, Counting(), out=tmp_path / "out").left_out == (known,)
    assert open_features(tmp_path / "out").faults == (known,)


class Unfinite(Counting):
    """The square root of a negative number, for dark images."""

    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        made = super().encode(batch)
        made[made.mean(1) == 0, 3] = np.nan
        return made


def test_features_that_are_no_numbers_are_faults_and_stay_so(tmp_path: Path) -> None:
    paths = images(tmp_path / "images", 5)
    Image.new("RGB", (6, 6)).save(paths[2])
    for expected in ([5], []):
        encoder = Unfinite()
        made = embed(pool_of(paths), encoder, out=tmp_path / "out")
        assert encoder.batches == expected
        assert [str(fault) for fault in made.left_out] == [
            "0002.png: its features are not finite; remove it, or use another encoder"
        ]
        assert features(tmp_path / "out").shape == (4, 48)


def test_an_image_that_might_be_an_attack_is_a_fault_and_no_warning(tmp_path: Path) -> None:
    paths = images(tmp_path / "images", 2)
    bomb = Image.new("1", (10_000, 9_500))
    bomb.save(paths[0])
    (fault,) = embed(pool_of(paths), Counting(), out=tmp_path / "out").left_out
    assert fault.item == "0000.png"
    assert fault.remedy == "make it smaller"


class Picky(Counting):
    def prepare(self, item: Image.Image | str) -> Prepared:
        if isinstance(item, Image.Image) and item.width == 7:
            raise ZeroDivisionError("seven")
        return super().prepare(item)


def test_an_item_the_encoder_cannot_prepare_is_a_fault(tmp_path: Path) -> None:
    paths = images(tmp_path / "images", 3)
    image(1, size=7).save(paths[1])
    (fault,) = embed(pool_of(paths), Picky(), out=tmp_path / "out").left_out
    assert (
        str(fault) == "0001.png: counting cannot prepare it (ZeroDivisionError: seven); remove it, or mend the encoder"
    )


class Wrong(Counting):
    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        return super().encode(batch)[:, :-1]


def test_an_encoder_that_breaks_its_word_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match=r"made features of shape \(2, 47\) of 2 items with 48 columns"):
        embed(pool_of(images(tmp_path / "images", 2)), Wrong(), out=tmp_path / "out")


def test_nothing_usable_is_an_error(tmp_path: Path) -> None:
    paths = images(tmp_path / "images", 2)
    for path in paths:
        path.write_bytes(b"")
    with pytest.raises(UnderstudyError, match=r"none of 2 items can be used:\n  0000\.png: the file is"):
        embed(pool_of(paths), Counting(), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


class Lengths:
    """Texts as their lengths."""

    name, identity, kind, dim = "lengths", identity_of(kind="lengths"), "text", 1

    def prepare(self, item: Image.Image | str) -> Prepared:
        assert isinstance(item, str)
        return item

    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        return np.array([[len(text)] for text in batch], np.float32)


def test_texts_are_embedded_and_had_back(tmp_path: Path) -> None:
    texts = ["one", "", "three", "a \ud800 b"]
    made = embed(Pool(("a", "b", "c", "d"), Texts(texts)), Lengths(), out=tmp_path / "out")  # type: ignore[arg-type]
    assert [fault.item for fault in made.left_out] == ["b"]
    pool = open_features(tmp_path / "out")
    assert features(tmp_path / "out").tolist()[:2] == [[3], [5]]
    assert isinstance(pool.items, Texts)
    assert pool.items.texts[:2] == ("one", "three")


def test_what_cannot_be_embedded_is_told(tmp_path: Path) -> None:
    pool = pool_of(images(tmp_path / "images", 1))
    cases: list[tuple[Pool, dict[str, Any], str]] = [
        (Pool(("a",), features=np.zeros((1, 2))), {}, "no raw items, so there is nothing to embed"),
        (Pool((), Texts([])), {}, "this pool has no items"),
        (Pool(("a",), Texts(["x"])), {}, "counting takes images, this pool has texts; use text:NAME"),
        (pool, {"batch_size": 0}, "batch_size must be at least 1; got 0"),
    ]
    for given, options, message in cases:
        with pytest.raises(UnderstudyError, match=message):
            embed(given, Counting(), out=tmp_path / "out", **options)


def test_a_data_set_has_its_test_set_in_a_folder_inside(tmp_path: Path) -> None:
    pool, test = pool_of(images(tmp_path / "a", 3)), pool_of(images(tmp_path / "b", 2, first=10))
    first, second = embed_dataset(Dataset("set", pool, test), Counting(), out=tmp_path / "out")
    assert second is not None
    assert (first.n, second.n) == (3, 2)
    assert json.loads((tmp_path / "out" / "test" / "embedding.json").read_text())["source"] == "set"
    assert embed_dataset(Dataset("set", pool), Counting(), out=tmp_path / "other")[1] is None


def test_a_run_that_was_killed_before_it_wrote_anything_can_be_run_again(tmp_path: Path) -> None:
    pool, test = pool_of(images(tmp_path / "a", 3)), pool_of(images(tmp_path / "b", 2, first=10))
    (tmp_path / "out" / "test").mkdir(parents=True)  # made at the start, and all that a kill leaves
    first, second = embed_dataset(Dataset("set", pool, test), Counting(), out=tmp_path / "out")
    assert second is not None
    assert (first.n, second.n) == (3, 2)


def test_the_test_set_of_an_older_run_is_not_left(tmp_path: Path) -> None:
    pool, test = pool_of(images(tmp_path / "a", 3)), pool_of(images(tmp_path / "b", 2, first=10))
    embed_dataset(Dataset("set", pool, test), Counting(), out=tmp_path / "out")
    embed_dataset(Dataset("set", pool), Counting("5"), out=tmp_path / "out")
    assert open_dataset(tmp_path / "out").test is None
    embed_dataset(Dataset("set", pool, test), Counting("5"), out=tmp_path / "out")
    assert open_dataset(tmp_path / "out").test is not None


def test_an_older_output_goes_only_when_the_new_one_of_both_parts_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = pool_of(images(tmp_path / "a", 3)), pool_of(images(tmp_path / "b", 2, first=10))
    embed_dataset(Dataset("set", *parts), Counting(), out=tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.*")}
    write = features_module.write_array

    def no_room_for_the_test_set(path: Path, blocks: Any, shape: tuple[int, int]) -> None:
        if shape[0] == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, blocks, shape)

    monkeypatch.setattr(features_module, "write_array", no_room_for_the_test_set)
    with pytest.raises(UnderstudyError, match="the disk is full"):
        embed_dataset(Dataset("set", *parts), Counting("5"), out=tmp_path / "out")
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.*")} == before


def test_what_a_folder_holds_is_said_while_nobody_else_may_write_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: list[bool] = []
    put = Path.replace

    def watched(path: Path, target: Path) -> Path:
        if target.name == "embedding.json":
            lock = filelock.FileLock(target.with_name(".lock"))
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                locked.append(True)
        return put(path, target)

    monkeypatch.setattr(Path, "replace", watched)
    embed(pool_of(images(tmp_path / "a", 1)), Counting(), out=tmp_path / "out")
    assert locked == [True]


def test_fail_looks_at_pool_and_test_set_and_names_what_is_wrong_with_either(mixed: list[Path], tmp_path: Path) -> None:
    more = images(tmp_path / "more", 3, first=20)
    more[1].write_bytes(b"")
    known = Fault("line 3", "no such class", "mend it")
    dataset = Dataset("set", replace(pool_of(mixed), faults=(known,)), pool_of(more))
    with pytest.raises(FaultsFound) as caught:
        embed_dataset(dataset, Counting(), out=tmp_path / "out", on_error="fail")
    assert [fault.item for fault in caught.value.faults] == ["line 3", "0001.png", "0004.png", "0007.png", "0021.png"]
    assert not (tmp_path / "out").exists()
    pool, test = embed_dataset(dataset, Counting(), out=tmp_path / "out")
    assert test is not None
    assert (pool.computed, pool.cached, test.computed, test.cached) == (0, 6, 0, 2)


def test_notes_of_an_earlier_embedding_are_not_copied(mixed: list[Path], tmp_path: Path) -> None:
    embed(pool_of(mixed), Counting(), out=tmp_path / "first")
    image(99).save(mixed[2])
    mixed[3].unlink()
    opened = open_features(tmp_path / "first")
    assert {fault.problem for fault in opened.faults if fault.item in ("0002.png", "0003.png")} == {
        "changed since it was embedded", "embedded, but now: no such file",
    }  # fmt: skip
    embed(opened, Counting("5"), out=tmp_path / "second")
    assert [(fault["item"], fault["problem"][:12]) for fault in faults(tmp_path / "second")] == [
        ("0001.png", "the file is "), ("0004.png", "broken or tr"), ("0007.png", "no such file"),
        ("0003.png", "no such file"), ("0005.png", "CMYK colours"),
    ]  # fmt: skip


def test_a_folder_of_something_else_is_not_written_to(tmp_path: Path) -> None:
    encoder, pool = Counting(), pool_of(images(tmp_path / "images", 2))
    with pytest.raises(UnderstudyError, match=r"images holds '0000.png' and no features; give --out a new folder"):
        embed(pool, encoder, out=tmp_path / "images")
    (tmp_path / "a file").touch()
    with pytest.raises(UnderstudyError, match=r"a file is a file; features need a folder, so give --out another name"):
        embed(pool, encoder, out=tmp_path / "a file")
    (tmp_path / "out" / "test").mkdir(parents=True)
    (tmp_path / "out" / ".lock").touch()  # as a run that was killed leaves it
    (tmp_path / "out" / "test" / "exam.txt").touch()
    with pytest.raises(UnderstudyError, match=r"test holds 'exam.txt' and no features"):
        embed_dataset(Dataset("set", pool, pool), encoder, out=tmp_path / "out")
    assert encoder.batches == []
    assert embed(pool, encoder, out=tmp_path / "out").n == 2
    embed(pool, encoder, out=tmp_path / "new" / "test")  # the test set may be first
    assert embed(pool, encoder, out=tmp_path / "new").n == 2


@pytest.mark.parametrize("place", ["out", "cache"])
def test_a_place_that_cannot_be_written_to_is_one_line_before_anything_is_computed(tmp_path: Path, place: str) -> None:
    encoder, pool = Counting(), pool_of(images(tmp_path / "images", 2))
    (tmp_path / "file").touch()
    where = {"out": tmp_path / "out", "cache": tmp_path / "kept", place: tmp_path / "file" / "below"}
    with pytest.raises(
        UnderstudyError, match=r"file/below.*: Not a directory; check the path, its permissions"
    ) as error:
        embed(pool, encoder, out=where["out"], cache=where["cache"])
    assert "\n" not in str(error.value)
    assert encoder.batches == []
    assert not (tmp_path / "out").exists()


class Stopped(Counting):
    """Somebody presses Ctrl-C during the third batch."""

    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        if len(self.batches) == 2:
            raise KeyboardInterrupt
        return super().encode(batch)


def test_an_interrupted_run_says_how_far_it_was_and_goes_on(tmp_path: Path) -> None:
    paths = images(tmp_path / "images", 20)
    with pytest.raises(Interrupted, match="interrupted after 8 of 20 items; run the same command to go on"):
        embed(pool_of(paths), Stopped(), out=tmp_path / "out", batch_size=4)
    assert not (tmp_path / "out").exists()
    rest = Counting()
    embed(pool_of(paths), rest, out=tmp_path / "out", batch_size=4)
    assert rest.batches == [4, 4, 4]
    np.testing.assert_array_equal(features(tmp_path / "out"), by_hand(paths))


class Hungry(Counting):
    """Counts the items that were prepared and not yet encoded."""

    def __init__(self) -> None:
        super().__init__()
        self.counting, self.alive, self.most = threading.Lock(), 0, 0

    def prepare(self, item: Image.Image | str) -> Prepared:
        with self.counting:
            self.alive += 1
            self.most = max(self.most, self.alive)
        return super().prepare(item)

    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        time.sleep(0.02)  # the threads have all the time they want
        with self.counting:
            self.alive -= len(batch)
        return super().encode(batch)


def test_few_items_are_in_memory_however_slow_the_encoder(tmp_path: Path) -> None:
    encoder = Hungry()
    embed(pool_of(images(tmp_path / "images", 150)), encoder, out=tmp_path / "out", batch_size=5, workers=2)
    assert 5 < encoder.most <= 5 + (5 + 2 * 2)


def in_a_process(action: Callable[[], None]) -> Any:
    process = multiprocessing.get_context("fork").Process(target=action, daemon=True)
    process.start()
    return process


class Slow(Counting):
    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        time.sleep(0.01)
        return super().encode(batch)


def test_a_run_that_is_killed_three_times_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    paths, kept = images(tmp_path / "images", 200), tmp_path / "kept"
    paths[3].write_bytes(b"")
    image(7).convert("CMYK").save(paths[7], format="jpeg")
    dataset = Dataset("set", pool_of(paths[:180]), pool_of(paths[180:]))
    rng = np.random.default_rng(0)
    sizes = [0]

    def slowly() -> None:
        embed_dataset(dataset, Slow(), out=tmp_path / "out", batch_size=8, cache=kept)

    for _ in range(3):
        process = in_a_process(slowly)
        keys = kept / Slow().identity / "keys.bin"
        while process.is_alive() and (not keys.exists() or keys.stat().st_size <= sizes[-1]):
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        process.join()
        assert process.exitcode == -9
        sizes.append(keys.stat().st_size)
    assert not (tmp_path / "out" / "embedding.json").exists()
    last = Counting()
    pool, test = embed_dataset(dataset, last, out=tmp_path / "out", batch_size=8, cache=kept)
    assert test is not None
    assert 0 < pool.computed + test.computed < 199 - 3 * 8
    embed_dataset(dataset, Counting(), out=tmp_path / "whole", batch_size=8, cache=tmp_path / "fresh")
    for part in (".", "test"):
        for name in ("features.npy", "items.parquet", "faults.jsonl", "embedding.json"):
            found, expected = (tmp_path / folder / part / name for folder in ("out", "whole"))
            assert found.read_bytes() == expected.read_bytes()
    usable = [path for path in paths[:180] if path.name != "0003.png"]
    np.testing.assert_array_equal(features(tmp_path / "out"), by_hand(usable))


@pytest.mark.parametrize(("limit", "finished"), [(1_000, 4), (5_000, 24), (9_650, 50)])
def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path: Path, limit: int, finished: int) -> None:
    """Files that may not grow stand for a disk that is full; the last limit is met while the output is written."""
    paths, kept, said = images(tmp_path / "images", 50), tmp_path / "kept", tmp_path / "said"

    def with_little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            embed(pool_of(paths), Counting(), out=tmp_path / "out", batch_size=4, cache=kept)
        except UnderstudyError as error:
            said.write_text(str(error))

    process = in_a_process(with_little_room)
    process.join()
    assert said.read_text() == (
        "the disk is full; what was computed is kept: make room, then run the same command to go on"
    )
    assert not [path for path in tmp_path.glob("out/*") if path.name != ".lock"]
    rest = Counting()
    embed(pool_of(paths), rest, out=tmp_path / "out", batch_size=4, cache=kept)
    assert sum(rest.batches) == 50 - finished
    np.testing.assert_array_equal(features(tmp_path / "out"), by_hand(paths))


def test_a_damaged_vector_is_computed_again(tmp_path: Path) -> None:
    paths, kept = images(tmp_path / "images", 6), tmp_path / "kept"
    embed(pool_of(paths), Counting(), out=tmp_path / "out", cache=kept)
    vectors = kept / Counting().identity / "vectors.f32"
    content = bytearray(vectors.read_bytes())
    content[200] ^= 0xFF
    vectors.write_bytes(content)
    encoder = Counting()
    embed(pool_of(paths), encoder, out=tmp_path / "out", cache=kept)
    assert encoder.batches == [1]
    np.testing.assert_array_equal(features(tmp_path / "out"), by_hand(paths))


def test_features_are_kept_at_home_unless_said_otherwise(tmp_path: Path, home: Path) -> None:
    embed(pool_of(images(tmp_path / "images", 1)), Counting(), out=tmp_path / "out")
    assert (home / "features" / Counting().identity / "vectors.f32").stat().st_size == 192
