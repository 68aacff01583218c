"""Features of a pool: read, hashed and decoded in threads, computed in batches, kept by content.

Batches are successive items that are not in the store yet. A batch enters the store whole, so a run that was killed
goes on with the same batches and ends with the same bits.
"""

import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from understudy.data import user_folders
from understudy.data.encoders.protocol import Encoder, Prepared
from understudy.data.faults import Fault, ItemFault, OnError, check_on_error, list_faults, settle
from understudy.data.feature_store import FeatureStore, Note, open_store
from understudy.data.features import (
    ABOUT,
    TEST,
    Embedding,
    FeaturesOrigin,
    digest_of,
    draft_features,
    errors_in_one_line,
    open_features,
    require_free,
    reserve_folder,
)
from understudy.data.items import Items, Stamp
from understudy.data.pool import Dataset, Pool
from understudy.defaults import ITEMS_PER_BATCH
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import count_of

__all__ = ["Embedding", "Interrupted", "embed", "embed_dataset", "open_features"]

ROWS_PER_BLOCK: Final = 1024  # rows written at a time

T = TypeVar("T")


class Interrupted(UnderstudyError):
    """Somebody pressed Ctrl-C. What was computed is kept."""


def embed_dataset(
    dataset: Dataset,
    encoder: Encoder,
    *,
    out: Path,
    batch_size: int = ITEMS_PER_BATCH,
    workers: int | None = None,
    on_error: OnError = "skip",
    progress: bool = True,
    cache: Path | None = None,
) -> tuple[Embedding, Embedding | None]:
    """Features of the pool in `out`, and of the test set, where there is one, in `out/test`, as `embed` makes them.

    Both are put in place together, when all items of both have been looked at. A test set that is there already and
    belongs to another run is no longer part of the features.
    """
    folders = (out, out / TEST)
    parts = dict(zip(folders, dataset.parts, strict=False))
    made = _embed_parts(
        parts,
        folders,
        encoder=encoder,
        batch_size=batch_size,
        workers=workers,
        on_error=on_error,
        progress=progress,
        cache=cache,
        source=dataset.name,
    )
    return made[0], made[1] if len(made) > 1 else None


def embed(
    pool: Pool,
    encoder: Encoder,
    *,
    out: Path,
    batch_size: int = ITEMS_PER_BATCH,
    workers: int | None = None,
    on_error: OnError = "skip",
    progress: bool = True,
    cache: Path | None = None,
    source: str = "",
    on_progress: Callable[[int, int], None] | None = None,
    on_wait: Callable[[], None] | None = None,
) -> Embedding:
    """A features folder `out` of a pool's items. Content that this encoder met before is not computed again.

    With on_error="skip" items that cannot be used are left out and listed; with "fail" they are an error, raised when
    all items have been looked at, and `out` stays as it was. `cache` is where features are kept by content.
    `on_progress` is told how many items are done, of how many; what it raises ends the run, and the store stays.
    `on_wait` is called now and then while another process uses this encoder; without it, that is an error.
    """
    return _embed_parts(
        {out: pool},
        (out,),
        encoder=encoder,
        batch_size=batch_size,
        workers=workers,
        on_error=on_error,
        progress=progress,
        cache=cache,
        source=source,
        on_progress=on_progress,
        on_wait=on_wait,
    )[0]


def _embed_parts(
    parts: Mapping[Path, Pool],
    replaced: Sequence[Path],
    encoder: Encoder,
    batch_size: int,
    workers: int | None,
    on_error: OnError,
    progress: bool,
    cache: Path | None,
    source: str,
    on_progress: Callable[[int, int], None] | None = None,
    on_wait: Callable[[], None] | None = None,
) -> list[Embedding]:
    """Features of pools in a folder each; what was in the folders `replaced` before is not valid any more."""
    on_error = check_on_error(on_error)
    items = {out: _check(pool, encoder, batch_size) for out, pool in parts.items()}
    folder = (cache or user_folders.features_folder()) / encoder.identity
    with errors_in_one_line(), ExitStack() as stack:
        for out in parts:
            require_free(out)
            stack.enter_context(reserve_folder(out))
        store = stack.enter_context(open_store(folder, dim=encoder.dim, encoder=encoder.name, on_wait=on_wait))
        runs = {out: EmbeddingRun(pool, items[out], encoder, store, batch_size) for out, pool in parts.items()}
        for run in runs.values():
            with _bar(len(run.pool), encoder.name, progress, on_progress) as advance:
                run.embed_all(workers or min(8, os.cpu_count() or 1), advance)
        settle([fault for run in runs.values() for fault in run.faults()], on_error)
        origin = FeaturesOrigin(encoder.name, encoder.identity, source)
        with ExitStack() as drafts:
            # Put in place from the last to the first: where the pool's features are whole, so are the test set's.
            for out, run in runs.items():
                drafts.enter_context(run.draft(out, origin))
            for out in replaced:
                (out / ABOUT).unlink(missing_ok=True)
    return [run.embedding(out) for out, run in runs.items()]


@dataclass(frozen=True, slots=True)  # there are as many as items
class ItemCheck:
    """What reading an item found: who it is and what is to be said of it."""

    digest: bytes = b""
    stamp: Stamp | None = None
    faults: tuple[Fault, ...] = ()
    is_usable: bool = True


@dataclass
class EmbeddingRun:
    """One walk over a pool, in order."""

    pool: Pool
    items: Items
    encoder: Encoder
    store: FeatureStore
    batch_size: int
    checks: list[ItemCheck] = field(default_factory=list)
    batch: dict[bytes, Prepared] = field(default_factory=dict)
    notes: dict[bytes, list[Note]] = field(default_factory=dict)
    computed: int = 0
    fresh: set[bytes] = field(default_factory=set)
    not_finite: set[bytes] = field(default_factory=set)
    seconds: float = 0.0

    def embed_all(self, workers: int, advance: Callable[[], None]) -> None:
        # As many items wait as one batch needs, and a few more for the threads to work on.
        ahead = self.batch_size + 2 * workers
        start = time.perf_counter()
        try:
            # Pillow warns of images that might be attacks; from threads, this is the only way to hear it.
            with warnings.catch_warnings():
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                for check, prepared in _in_order(self.check_item, len(self.pool), workers, ahead):
                    self.take(check, prepared)
                    advance()
                self.compute()
            self.seconds = time.perf_counter() - start
        except KeyboardInterrupt:
            done = len(self.checks) - len(self.batch)
            raise Interrupted(
                f"interrupted after {done:,} of {len(self.pool):,} items; run the same command to go on"
            ) from None

    def check_item(self, row: int) -> tuple[ItemCheck, Prepared | None]:
        """Read an item, and prepare it unless its features are known. Runs in a thread."""
        name = self.pool.ids[row]
        try:
            stamp = self.items.stamp(row)  # before reading: a change in between is then seen later
            content = self.items.read(row)
            digest = digest_of(content)
            known = self.store.get(digest)
            if known is not None:
                if not np.isfinite(known).all():
                    self.not_finite.add(digest)
                noted = self.store.notes.get(digest, [])
                return ItemCheck(digest, stamp, tuple(Fault(name, *note, used=True) for note in noted)), None
            item, notes = self.items.decode(row, content)
            prepared = self.prepare_item(name, item)
        except ItemFault as error:
            return ItemCheck(faults=(replace(error.fault, item=name),), is_usable=False), None
        return ItemCheck(digest, stamp, tuple(replace(note, item=name) for note in notes)), prepared

    def prepare_item(self, name: str, item: Image.Image | str) -> Prepared:
        try:
            return self.encoder.prepare(item)
        except Exception as error:  # one odd item must not end a run of a million
            problem = f"{self.encoder.name} cannot prepare it ({type(error).__name__}: {error})"
            raise ItemFault(Fault(name, problem, "remove it, or mend the encoder")) from error

    def take(self, check: ItemCheck, prepared: Prepared | None) -> None:
        self.checks.append(check)
        if prepared is None or check.digest in self.batch or check.digest in self.fresh:
            return  # known, unusable, or the same content as an item before
        self.batch[check.digest] = prepared
        if check.faults:
            self.notes[check.digest] = [(fault.problem, fault.remedy) for fault in check.faults]
        if len(self.batch) == self.batch_size:
            self.compute()

    def compute(self) -> None:
        """Features of the batch that waits, into the store."""
        if not self.batch:
            return
        try:
            vectors = np.ascontiguousarray(self.encoder.encode(list(self.batch.values())), dtype=np.float32)
        except torch.OutOfMemoryError as error:
            raise UnderstudyError(f"no memory for {len(self.batch)} items at once; lower the batch size") from error
        if vectors.shape != (len(self.batch), self.encoder.dim):
            raise UnderstudyError(
                f"{self.encoder.name} made features of shape {vectors.shape} of {len(self.batch)} items with "
                f"{self.encoder.dim} columns; mend its encode"
            )
        digests = list(self.batch)
        self.store.append(digests, vectors, self.notes)
        self.not_finite.update(digests[i] for i in np.flatnonzero(~np.isfinite(vectors).all(1)))
        self.fresh.update(digests)
        self.computed += len(digests)
        self.batch, self.notes = {}, {}

    def usable_rows(self) -> list[int]:
        return [i for i, check in enumerate(self.checks) if check.is_usable and check.digest not in self.not_finite]

    def count_computed(self, rows: Sequence[int]) -> int:
        """How many of these rows were computed in this run or have the content of one that was."""
        return sum(self.checks[row].digest in self.fresh for row in rows)

    def faults(self) -> list[Fault]:
        """What was known of the pool before, and what this walk found."""
        # What was noted of items when they were embedded before is found again, or is not true any more.
        looked_at = set() if self.pool.features is None else set(self.pool.ids)
        found = [fault for fault in self.pool.faults if not (fault.used and fault.item in looked_at)]
        for name, check in zip(self.pool.ids, self.checks, strict=True):
            found += check.faults
            if check.is_usable and check.digest in self.not_finite:
                found.append(Fault(name, "its features are not finite", "remove it, or use another encoder"))
        return found

    def vectors(self, rows: Sequence[int]) -> Iterator[np.ndarray]:
        """The features of these rows, in blocks."""
        for start in range(0, len(rows), ROWS_PER_BLOCK):
            block = [self.store.get(self.checks[row].digest) for row in rows[start : start + ROWS_PER_BLOCK]]
            whole = [vector for vector in block if vector is not None]
            if len(whole) < len(block):
                raise UnderstudyError(f"{self.store.folder} was changed while it was read; run embed again")
            yield np.stack(whole)

    def draft(self, out: Path, origin: FeaturesOrigin) -> AbstractContextManager[None]:
        """The features of what can be used, to be put into the folder."""
        rows = self.usable_rows()
        if not rows:
            unused = [fault for fault in self.faults() if not fault.used]
            raise UnderstudyError(f"none of {count_of(self.pool.ids, 'item')} can be used:{list_faults(unused)}")
        return draft_features(
            out,
            self.pool if len(rows) == len(self.pool) else self.pool.take(rows),
            self.vectors(rows),
            dim=self.encoder.dim,
            digests=[self.checks[row].digest for row in rows],
            stamps=[self.checks[row].stamp for row in rows],
            faults=self.faults(),
            origin=origin,
        )

    def embedding(self, out: Path) -> Embedding:
        rows = self.usable_rows()
        cached = len(rows) - self.count_computed(rows)
        return Embedding(
            out,
            len(rows),
            dim=self.encoder.dim,
            computed=self.computed,
            cached=cached,
            faults=tuple(self.faults()),
            seconds=self.seconds,
        )


def _in_order(work: Callable[[int], T], n: int, workers: int, ahead: int) -> Iterator[T]:
    """work(0), work(1), ... done in threads, at most `ahead` of them before they are asked for."""
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(workers) as threads:
        try:
            for row in range(n):
                waiting.append(threads.submit(work, row))
                if len(waiting) >= ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            threads.shutdown(cancel_futures=True)


def _check(pool: Pool, encoder: Encoder, batch_size: int) -> Items:
    if pool.items is None:
        raise UsageError("this pool has features but no raw items, so there is nothing to embed; use it as it is")
    if not len(pool):
        raise UnderstudyError("this pool has no items; add some, or look at its faults")
    if pool.items.kind != encoder.kind:
        remedy = "use text:NAME" if pool.items.kind == "text" else "use an encoder of images, such as resnet18"
        raise UsageError(f"{encoder.name} takes {encoder.kind}s, this pool has {pool.items.kind}s; {remedy}")
    if batch_size < 1:
        raise UsageError(f"batch_size must be at least 1; got {batch_size}")
    return pool.items


class Speed(ProgressColumn):
    """Items a second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s")


@contextmanager
def _bar(
    total: int, name: str, wanted: bool, on_progress: Callable[[int, int], None] | None = None
) -> Iterator[Callable[[], None]]:
    """A progress bar on standard error, where somebody sees it; what is yielded counts one item."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Speed(), TimeRemainingColumn())
    shown = wanted and console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not shown) as progress:
        task = progress.add_task(name, total=total)

        def advance() -> None:
            progress.advance(task)
            if on_progress is not None:
                on_progress(int(progress.tasks[0].completed), total)

        yield advance
