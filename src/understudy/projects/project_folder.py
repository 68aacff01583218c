"""A labelling project: a folder beside the data with its items in a frozen order, their features, and the log.

Made or opened by `create_or_open`, which is quick; `prepare` makes the features, which may take long, and takes in
what is new in the source. A kill at any moment leaves what was there, and the same call goes on.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from understudy.data.embedding import Interrupted, embed
from understudy.data.encoders import Encoder
from understudy.data.faults import Fault
from understudy.data.features import errors_in_one_line, writable
from understudy.data.items import Kind
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError
from understudy.messages import count_of
from understudy.projects import changes, encoder_choice, left_out, pools
from understudy.projects.origins import Source, source_classes
from understudy.projects.project_file import About
from understudy.projects.settings import Settings

OWN: Final = "given"  # what stands for an encoder where the source brings features

Report = Callable[[int, int], None]


class Project:
    """A project's folder and all that is in it but the log.

    `notes` are lines for people: what was decided, left out or found changed. `new_classes` are names that were given
    or found and that the project does not begin with. `added` counts the items that this opening added at the end.
    """

    def __init__(
        self,
        folder: Path,
        about: About,
        source: Source | None,
        store_url: str,
        *,
        new_classes: Sequence[str] = (),
        notes: Sequence[str] = (),
        device: str = "auto",
        encoder: Encoder | None = None,
    ) -> None:
        self.folder = folder.absolute()
        self.about, self.source, self.store_url = about, source, store_url
        self.new_classes, self.notes = tuple(new_classes), list(notes)
        self.device, self.made_encoder = device, encoder
        self.added = 0
        self.held_up = ""  # why nothing goes on at the moment, in a line; for whoever shows the progress
        self.table = pools.read_table(self.folder)
        self.faults = left_out.read(self.folder)
        self.waiting = self.not_yet_known()
        self.opened: Pool | None = None

    @property
    def name(self) -> str:
        return self.about.name

    @property
    def identity(self) -> str:
        """Drawn when the project was made: its log is known by it, wherever the folder goes."""
        return self.about.identity

    @property
    def kind(self) -> Kind:
        return self.about.kind

    @property
    def settings(self) -> Settings:
        return self.about.settings

    @property
    def classes_at_start(self) -> tuple[str, ...]:
        return self.about.settings.classes

    @property
    def encoder(self) -> str | None:
        """The encoder's name, "given" where the source brought features, or None before one is chosen."""
        return OWN if self.about.own_features else self.about.encoder

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def is_ready(self) -> bool:
        """Whether all items that can be used are in the pool, with their features."""
        return self.table is not None and not self.waiting

    @property
    def total(self) -> int:
        """Items that there will be, as far as is known."""
        return (0 if self.table is None else len(self.table)) + len(self.waiting)

    @property
    def pool(self) -> Pool:
        """The items in the order that never changes, with their features."""
        if self.opened is None:
            table = self.frozen()
            features = pools.open_array(self.folder, len(table))
            base, now = (None, None) if self.source is None else (self.source.base, self.source.pool)
            self.opened = pools.pool_of(table, features, self.classes_at_start, base, now)
        return self.opened

    @property
    def features(self) -> np.ndarray:
        """(n, d), mapped."""
        features = self.pool.features
        assert features is not None
        return features

    @property
    def features_path(self) -> Path:
        """The file of exactly these features, for another process."""
        return pools.features_path(self.folder, len(self.frozen()))

    @property
    def seed_labels(self) -> dict[int, str]:
        """The labels that items came with, by row, of the classes that the project begins with."""
        known = set(self.classes_at_start)
        return {row: name for row, name in self.source_labels.items() if name in known}

    @property
    def source_labels(self) -> dict[int, str]:
        """All labels that items came with, by row, whether or not their classes are the project's."""
        return {row: name.strip() for row, name in enumerate(self.frozen()["label"].to_pylist()) if name is not None}

    def frozen(self) -> Any:
        if self.table is None:
            raise UnderstudyError(f"{self.folder} has no features yet; prepare() makes them")
        return self.table

    def not_yet_known(self) -> list[int]:
        """Rows of the source that are to be embedded: those that are new, less those that were no use before."""
        if self.source is None:
            return []
        pool = self.source.pool
        new = list(range(len(pool))) if self.table is None else pools.matched(self.table, pool)[1]
        tried = left_out.stamps(self.faults)
        return [row for row in new if pool.ids[row] not in tried or tried[pool.ids[row]] != self.source.stamp(row)]

    def prepare(self, progress: Report | None = None, quiet: bool = True) -> None:
        """Make the features that are missing. One process at a time: hold the project's lock.

        `progress` is told how many items are done, of how many; what it raises ends the call, and what was computed
        is kept. Unless `quiet`, a bar is drawn on the terminal too. Where only new items fail, the project is as it
        was, and a note says why.
        """
        with errors_in_one_line():
            if self.table is None:
                self.embed_waiting(progress, quiet)
            else:
                self.grow(progress, quiet)
            for path in (self.artifacts, self.work):
                path.mkdir(exist_ok=True)

    def grow(self, progress: Report | None, quiet: bool) -> None:
        before = len(self.frozen())
        if self.source is not None:
            known = pools.matched(self.table, self.source.pool)[0]
            found = changes.changed_files(self.pool, self.table)
            found += changes.changed_texts(self.pool, self.table, self.source.pool, known)
            self.notes += changes.noted(found, before - len(known), str(self.about.origin))
        if not self.waiting:
            return
        wanted = count_of(self.waiting, "new item")
        try:
            self.embed_waiting(progress, quiet)
        except Interrupted:
            raise
        except UnderstudyError as error:
            self.waiting = []
            self.notes.append(f"{wanted} could not be added: {' '.join(str(error).split())}")

    def embed_waiting(self, progress: Report | None, quiet: bool) -> None:
        """The rows that wait, embedded and frozen at the end of the pool."""
        if self.source is None:
            raise UnderstudyError(
                f"{self.about.origin} is not there and {self.folder} not finished; put it back or delete the project"
            )
        before = 0 if self.table is None else len(self.table)
        pool = self.source.pool if before == 0 else self.source.pool.take(self.waiting)
        draft = self.work / "embedding"
        if self.about.own_features:
            assert pool.features is not None
            if self.source.made_by != self.about.made_by:
                raise UnderstudyError(
                    f"{self.about.origin} was embedded anew, by another encoder; begin another project"
                )
            features, marks, faults = pool.features, pools.marks_of(pool), list(self.source.pool.faults)
            if progress is not None:
                progress(len(pool), len(pool))
        else:
            self.work.mkdir(exist_ok=True)
            encoder = self.ready_encoder()
            made = embed(
                pool,
                encoder,
                out=draft,
                progress=not quiet,
                source=self.name,
                on_progress=partial(self.tell, progress, ""),
                on_wait=partial(self.tell, progress, encoder.name, 0, len(pool)),
            )
            features, marks, kept = _made_in(draft)
            faults = list(made.faults)
            rows = {name: row for row, name in enumerate(map(writable, pool.ids))}
            pool = pool.take([rows[name] for name in kept])
        taken = [] if self.table is None else self.table["id"].to_pylist()
        names = pools.free_names(pool.ids, taken)
        table = pools.rows_of(pool, self.source.base, names, marks, self.about.import_labels)
        # Before the table, so that what is left out of it is known whenever it is there.
        told = {each.fault for each in self.faults}
        self.faults = left_out.merged(self.faults, faults, self.source)
        left_out.write(self.folder, self.faults)
        self.table = pools.freeze(self.folder, self.table, table, features)
        self.opened, self.waiting, self.added = None, [], (len(self.table) - before if before else 0)
        self.note_faults([fault for fault in faults if fault not in told])
        with suppress(OSError):
            shutil.rmtree(draft)

    def tell(self, progress: Report | None, taken: str, done: int, total: int) -> None:
        """How far it is; and whether another process has taken the encoder, which is waited for."""
        self.held_up = (
            f"another process is computing features of {taken}; when it is done, this goes on" if taken else ""
        )
        waited = f"this waited for another process, which computed features of {taken}"
        if taken and waited not in self.notes:
            self.notes.append(waited)
        if progress is not None:
            progress(done, total)

    def note_faults(self, faults: Sequence[Fault]) -> None:
        unused = [fault for fault in faults if not fault.used]
        if unused:
            where = self.folder / left_out.FILE
            self.notes.append(f"{count_of(unused, 'item')} left out, all listed in {where}; the first: {unused[0]}")

    def ready_encoder(self) -> Encoder:
        """The project's encoder; the best that can be had where none was named, and then it is kept."""
        if self.made_encoder is None and self.about.encoder is not None:
            self.made_encoder = encoder_choice.named(self.about.encoder, self.kind, self.device)
        if self.made_encoder is None:
            self.made_encoder, note = encoder_choice.chosen(self.kind, self.device)
            self.notes.append(note)
            self.about = replace(self.about, encoder=self.made_encoder.name)
            self.about.write(self.folder)
        return self.made_encoder


def _made_in(folder: Path) -> tuple[np.ndarray, dict[str, list[Any]], list[str]]:
    """What `embed` left in a folder: features, what contents are known by, and the names of the items used."""
    table = pq.read_table(folder / "items.parquet", columns=["id", "digest", "size", "mtime_ns"])
    features = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
    marks = {name: table[name].to_pylist() for name in ("digest", "size", "mtime_ns")}
    return features, marks, table["id"].to_pylist()


def new_names(source: Source | None, about: About, given: Sequence[str]) -> tuple[str, ...]:
    """Classes that are given or found now and that the project did not begin with."""
    found: Sequence[str] = ()
    if source is not None and about.classes_from == "source" and about.import_labels:
        found = source_classes(source.pool)
    return tuple(dict.fromkeys(name for name in (*given, *found) if name not in about.settings.classes))
