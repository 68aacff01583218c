"""A features folder: what `embed` makes of a pool, written atomically and opened again as a pool.

`features.npy` (n, d) is memory-mapped. `items.parquet` has a row an item: identity, label, class, digest, stamp, and
the path or text. `faults.jsonl` has what was left out. `embedding.json` says what the rest is; it is taken away first
and written last, so where it stands the folder is whole.
"""

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import filelock
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.data.faults import Fault, ItemFault, list_faults
from understudy.data.files import replace_durably, sync_file, sync_folder, synced_file
from understudy.data.items import ImageFiles, Items, Stamp, Texts
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import count_of
from understudy.version import __version__

FORMAT: Final = 1
ABOUT: Final = "embedding.json"
FAULTS: Final = "faults.jsonl"
FILES: Final = ("features.npy", "items.parquet", FAULTS, ABOUT)  # in the order they are put in place
LOCK: Final = ".lock"
TEST: Final = "test"  # the folder of the test set, inside that of the pool
DISK_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
BYTES_PER_SYNC: Final = 2**23  # of an array that is being written
STATTERS: Final = 8  # threads that ask the file system about files


@dataclass(frozen=True)
class FeaturesOrigin:
    """Which encoder made the features, and of what."""

    encoder: str
    identity: str
    source: str


@dataclass(frozen=True)
class Embedding:
    """A features folder, and what it cost: items computed now, taken from the store, or left out."""

    folder: Path
    n: int
    dim: int
    computed: int
    cached: int
    faults: tuple[Fault, ...]
    seconds: float

    @property
    def left_out(self) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if not fault.used)


def summarize(embedding: Embedding, part: str = "pool") -> str:
    """The lines to print when an embedding is done."""
    e = embedding
    unused, notes = e.left_out, [fault for fault in e.faults if fault.used]
    faults = f"\n{count_of(unused, 'item')} left out:{list_faults(unused)}" if unused else ""
    noted = f"\n{count_of(notes, 'note')}, the first: {notes[0]}" if notes else ""
    where = f"\nall of this is in {e.folder / FAULTS}" if e.faults else ""
    return (
        f"{part}: {e.n:,} x {e.dim} features in {e.seconds:.1f} s, {e.computed:,} computed, {e.cached:,} from the "
        f"cache{faults}{noted}{where}\nwritten: {e.folder}"
    )


def default_folder(source: str) -> Path:
    """Beside what was embedded, or here for what has a name only."""
    path = Path(source).expanduser()
    if not path.exists():
        place = Path.cwd() / source.rpartition(":")[2].rpartition("/")[2]
    else:
        # A folder that is a link has its features beside the link, where people look for them.
        place = path.absolute() if path.name not in ("", "..") else path.resolve()
    if not place.name:
        raise UsageError(f"{place} has no name and nothing lies beside it; say where features go with --out")
    return place.with_name(f"{place.name}.features")


def output_folder(source: str, out: Path | None) -> Path:
    """Where features of a source go: `out`, or the default; an error where they would damage something."""
    with errors_in_one_line():
        folder = default_folder(source) if out is None else out
        place = Path(source).expanduser()
        read, written = place.resolve(), folder.resolve()
        if place.is_dir() and (written.is_relative_to(read) or read.is_relative_to(written)):
            raise UsageError(
                f"{folder} and {source}, which is to be embedded, are the same or one lies in the other; "
                "give --out a folder of its own"
            )
        require_free(folder)
    return folder


def require_free(folder: Path) -> None:
    """An error unless there is nothing at this path, an empty folder, or one that `embed` wrote to."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; features need a folder, so give --out another name")
    if name := _not_ours(folder):
        raise UsageError(
            f"{folder} holds {name!r} and no features; give --out a new folder, an empty one or one of features"
        )


def _not_ours(folder: Path) -> str | None:
    """Something in a folder that shows that others use it; a kill may have left it with an empty `test`, no more."""
    if not folder.is_dir():
        return None
    names = {path.name for path in folder.iterdir()}
    if names & {ABOUT, LOCK, *map(_draft, FILES)}:
        return None
    if TEST in names and (folder / TEST).is_dir() and _not_ours(folder / TEST) is None:
        names.remove(TEST)
    return min(names, default=None)


@contextmanager
def reserve_folder(folder: Path) -> Iterator[None]:
    """Make the folder and check that it can be written to; folders made here that stay empty are removed."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
        yield
    finally:
        with suppress(OSError):  # the first that is not empty
            for path in made:
                path.rmdir()


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Turn errors of the file system into one line with the path and the reason."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL:
            what = f"{error.filename}: " if error.filename else ""
            raise UnderstudyError(
                f"{what}{error.strerror or error}; check the path, its permissions and the disk"
            ) from error
        raise UnderstudyError(
            "the disk is full; what was computed is kept: make room, then run the same command to go on"
        ) from error


def digest_of(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


@contextmanager
def draft_features(
    folder: Path,
    pool: Pool,
    vectors: Iterable[np.ndarray],
    *,
    dim: int,
    digests: Sequence[bytes],
    stamps: Sequence[Stamp | None],
    faults: Sequence[Fault],
    origin: FeaturesOrigin,
) -> Iterator[None]:
    """What is known of a pool, written, but in place only at the end; `vectors` are its features in blocks of rows."""
    about_pool = {
        "format": FORMAT,
        "encoder": origin.encoder,
        "identity": origin.identity,
        "source": origin.source,
        "n": len(pool),
        "d": dim,
        "classes": list(pool.classes),
        "kind": None if pool.items is None else pool.items.kind,
        "version": __version__,
    }
    with _drafts(folder) as (features, items, found, about):
        write_array(features, vectors, (len(pool), dim))
        with synced_file(items) as file:
            pq.write_table(_table_of(pool, digests, stamps), file)
        with synced_file(found) as file:
            file.writelines(f"{json.dumps(asdict(fault))}\n".encode() for fault in faults)
        with synced_file(about) as file:
            file.write((json.dumps(about_pool, indent=1, ensure_ascii=False) + "\n").encode())
        yield


@contextmanager
def _drafts(folder: Path) -> Iterator[list[Path]]:
    """Paths to write the files of a features folder to; they take their place when all is done, or vanish."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / _draft(name) for name in FILES]
    with filelock.FileLock(folder / LOCK):
        try:
            yield paths
            (folder / ABOUT).unlink(missing_ok=True)
            sync_folder(folder)
            for path, name in zip(paths, FILES, strict=True):
                replace_durably(path, folder / name)
        finally:
            for path in paths:
                path.unlink(missing_ok=True)


def _draft(name: str) -> str:
    # Always the same names, so that what a kill leaves behind is written over the next time.
    return f".{name}.draft"


def write_array(path: Path, blocks: Iterable[np.ndarray], shape: tuple[int, int]) -> None:
    # Not through a memory map: where the disk is full, writing to one kills the process. Synced piece by piece: whoever
    # has a label synced to the same disk meanwhile would wait until all of the file is there.
    with synced_file(path) as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        waiting = 0
        for block in blocks:
            waiting += file.write(np.ascontiguousarray(block, dtype="<f4").data)
            if waiting >= BYTES_PER_SYNC:
                waiting = 0
                sync_file(file)


def _table_of(pool: Pool, digests: Sequence[bytes], stamps: Sequence[Stamp | None]) -> Any:
    nothing = [None] * len(pool)
    labels = nothing if pool.labels is None else [int(label) for label in pool.labels]
    paths = _path_column(pool.items.paths) if isinstance(pool.items, ImageFiles) else pa.array(nothing, pa.string())
    texts = [replace_unwritable(text) for text in pool.items.texts] if isinstance(pool.items, Texts) else nothing
    return pa.table(
        {
            "id": pa.array([replace_unwritable(name) for name in pool.ids], pa.string()),
            "label": pa.array(labels, pa.int64()),
            "class": pa.array([pool.classes[i] if i is not None and i >= 0 else None for i in labels], pa.string()),
            "digest": pa.array([digest.hex() for digest in digests], pa.string()),
            "size": pa.array([stamp and stamp[0] for stamp in stamps], pa.int64()),
            "mtime_ns": pa.array([stamp and stamp[1] for stamp in stamps], pa.int64()),
            "path": paths,
            "text": pa.array(texts, pa.string()),
        }
    )


def _path_column(paths: Sequence[Path]) -> Any:
    """Absolute paths; as bytes if one of them is not text, which file systems allow."""
    absolute = [str(path.absolute()) for path in paths]
    if all(replace_unwritable(path) == path for path in absolute):
        return pa.array(absolute, pa.string())
    return pa.array([os.fsencode(path) for path in absolute], pa.binary())


def replace_unwritable(text: str) -> str:
    """The text without what UTF-8 cannot write."""
    return text.encode("utf-8", "replace").decode()


def is_features(folder: Path) -> bool:
    """Whether `embed` wrote here, and finished."""
    return (folder / ABOUT).is_file()


def open_features(folder: Path | str, *, check: bool = True) -> Pool:
    """The pool in a features folder: features mapped, raw items on demand where they can be had.

    With `check`, a file that changed or vanished since it was embedded is among the faults. Its row stays.
    """
    folder = Path(folder)
    about = read_about(folder)
    try:
        features = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
        table = pq.read_table(folder / "items.parquet")
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        lines = (folder / FAULTS).read_text(encoding="utf-8").splitlines()
        faults = [Fault(**json.loads(line)) for line in lines]
        ids, labels = tuple(columns["id"]), columns["label"]
    except (OSError, ValueError, TypeError, KeyError, pa.ArrowException) as error:
        raise UnderstudyError(f"{folder} is damaged ({error}); run embed again") from error
    if features.shape != (about["n"], about["d"]) or len(ids) != about["n"]:
        raise UnderstudyError(
            f"{folder} is damaged: {about['n']:,} rows of {about['d']} were written, features.npy has shape "
            f"{features.shape}, items.parquet {len(ids):,} rows; run embed again"
        )
    items = _items_of(columns)
    if check and isinstance(items, ImageFiles):
        faults += find_changes(items, columns)
    return Pool(
        ids=ids,
        items=items,
        features=features,
        labels=None if None in labels or not labels else np.array(labels, dtype=np.int64),
        classes=tuple(about["classes"]),
        faults=tuple(faults),
    )


def open_dataset(folder: Path | str, *, check: bool = True) -> Dataset:
    """The pool in a features folder, and the test set in its folder `test`, where there is one."""
    folder = Path(folder)
    pool = open_features(folder, check=check)
    if not is_features(folder / TEST):
        return Dataset(folder.resolve().name, pool)
    about, tested = read_about(folder), read_about(folder / TEST)
    if any(about.get(key) != tested.get(key) for key in ("identity", "d")):
        raise UnderstudyError(
            f"{folder} was made by {about.get('encoder')} with {about.get('d')} columns, its test set by another "
            f"encoder or version of it, {tested.get('encoder')} with {tested.get('d')}; run embed again"
        )
    return Dataset(folder.resolve().name, pool, open_features(folder / TEST, check=check))


def read_about(folder: Path) -> dict[str, Any]:
    """What `embedding.json` says: encoder, identity, source, n, d, classes, kind, version."""
    try:
        about: dict[str, Any] = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UnderstudyError(
            f"{folder} is not a features folder, or was not finished: it has no {ABOUT}; run understudy embed"
        ) from error
    except (OSError, ValueError) as error:
        raise UnderstudyError(f"{folder / ABOUT} cannot be read ({error}); run embed again") from error
    if about.get("format") != FORMAT:
        raise UnderstudyError(
            f"{folder} has format {about.get('format')}, this version reads {FORMAT}; run embed again"
        )
    return about


def _items_of(columns: dict[str, list[Any]]) -> Items | None:
    ids, paths, texts = columns["id"], columns["path"], columns["text"]
    if ids and None not in paths:
        return ImageFiles([Path(os.fsdecode(path)) for path in paths], ids)
    if ids and None not in texts:
        return Texts(texts, ids)
    return None


def find_changes(items: ImageFiles, columns: dict[str, list[Any]]) -> list[Fault]:
    """Files that are not what they were when they were embedded."""

    def change(row: int) -> Fault | None:
        stamp = items.stamp(row)
        if stamp == (columns["size"][row], columns["mtime_ns"][row]):
            return None
        try:
            # A copied or touched file has another stamp and the same content.
            if digest_of(items.read(row)).hex() == columns["digest"][row]:
                return None
            problem = "changed since it was embedded"
        except ItemFault as fault:
            problem = f"embedded, but now: {fault.fault.problem}"
        return Fault(columns["id"][row], problem, "run embed again", used=True)

    with ThreadPoolExecutor(STATTERS) as threads:
        return [fault for fault in threads.map(change, range(len(items))) if fault is not None]
