"""Items that join a pool: the events by which they do, and what looks for them while a project is served.

New items are encoded in a process of its own, which adds them at the end of the project's files. Then an event says
that they are there, and from then on they are, for ever as the same rows: what a kill leaves in the files without an
event joins at the next start. The surrogate takes them in without a rebuild, while people go on labelling.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from understudy.data.items import Stamp
from understudy.errors import UnderstudyError
from understudy.projects.opening import look_again
from understudy.projects.project import Project
from understudy.projects.source_watch import SourceWatch
from understudy.sessions.audit import audit_rows_among_new
from understudy.sessions.chooser import Chooser
from understudy.sessions.learning import Learning
from understudy.sessions.log.events import SOURCE_ANNOTATOR, Event
from understudy.sessions.models import setup_options
from understudy.sessions.record import Move, Record
from understudy.sessions.replies import Joining, SourceLook
from understudy.sessions.training.progress_file import read_progress
from understudy.sessions.training.side_process import SideProcess
from understudy.sessions.views import items_news

LOOK_SECONDS: Final = 2.0  # between two looks at the data
PAUSE_FOR_LOOK: Final = 30  # times as long as a look took, if that is more
PAUSE_AFTER_FAILURE: Final = 30.0  # seconds
PAUSE_FOR_JOINING: Final = 9  # the same of letting items join, without encoding them
MIN_ITEMS_AT_ONCE: Final = 1_000  # of which each time all files of features are written anew
MAX_LABELLED_AT_ONCE: Final = 200  # where items come with labels: a surrogate follows so many
MAX_GROWTH_WITHOUT_MODEL: Final = 1.5  # of the pool on one set-up, while nothing is learnt yet
NEW_ITEMS: Final = "new-items"
log = logging.getLogger(__name__)


# -- events ---------------------------------------------------------------------------------------------------


def new_item_events(project: Project, record: Record) -> list[Event]:
    """The events by which a project's new items join, with the labels and classes that they came with."""
    n, before = len(project.pool), record.n_items
    if n < before:
        raise UnderstudyError(
            f"the log of {project.folder} knows {before:,} items, its pool has {n:,}; put its items.parquet back"
        )
    table = record.class_table  # a class that was renamed, merged or removed is known by its former name
    names = [name for name in project.new_classes if table.number_known_as(name) is None]
    classes = [Event("class_added", data={"name": name}) for name in names]
    if n == before:
        return classes
    known = {row: name for row, name in project.source_labels.items() if row >= before}
    settings = record.settings
    rows, turns = audit_rows_among_new(
        n, settings.audit_share, settings.seed, known.keys(), first_row=before, largest_share=record.largest_audit_share
    )
    data = {"count": n - before, "audit": list(rows), "turns": list(turns), "basis_rows": basis_rows_for(record, n)}
    numbers = {name: number for name in set(known.values()) if (number := table.counts_as(name)) is not None}
    numbers |= {name: number for number, name in enumerate(names, len(record.classes))}
    # The key: where nobody could say whether it was stored, it is not stored a second time.
    joined = Event("items_added", None, SOURCE_ANNOTATOR, f"items from {before}", data)
    return [*classes, joined, *label_events(known, numbers)]


def label_events(known: Mapping[int, str], numbers: Mapping[str, int]) -> list[Event]:
    """The labels that items came with, of classes with these numbers, as events."""
    return [
        Event(
            "labelled",
            row,
            SOURCE_ANNOTATOR,
            data={"label": numbers[name], "source": "import", "guess": None, "model": None},
        )
        for row, name in sorted(known.items())
        if name in numbers
    ]


def basis_rows_for(record: Record, n_items: int) -> int:
    """Of how many items the surrogate's set-up is when there are so many: of those it was of, or of all of them.

    Of all where nothing is learnt yet and they are half as many again: a basis of three files would be no basis for a
    thousand. With a model the next training takes care of it.
    """
    outgrown = not record.trainings and n_items > MAX_GROWTH_WITHOUT_MODEL * record.basis_rows
    return n_items if outgrown else record.basis_rows


# -- while a project is served -----------------------------------------------------------------------------------


class Growth:
    """Looks for new items of a session's project and lets them join, in a thread of its own.

    `lock` and `store` are the session's. What `store` brings about calls `adopt`.
    """

    def __init__(
        self,
        project: Project,
        learning: Learning,
        *,
        lock: threading.RLock,
        store: Callable[..., object],
        note_change: Callable[[], None],
    ) -> None:
        self.project, self.learning, self.record, self.models = project, learning, learning.record, learning.models
        self.lock, self._store, self._note_change = lock, store, note_change
        self.joining: Joining | None = None  # what is being encoded
        self.watch = SourceWatch(project)
        self._watching = threading.Lock()  # one look at a time
        self._process = SideProcess(project.work, NEW_ITEMS)
        self._next: tuple[Project, Any] | None = None  # the project with items that are about to join; predictions
        self._said: set[str] = set()
        self._say: Callable[[str], None] = lambda _: None
        self._polls = False
        self._wanted, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    # -- looking ------------------------------------------------------------------------------------------

    def start(self, *, polls: bool = True, say: Callable[[str], None] | None = None) -> None:
        """Look for new items from now on: every two seconds if it `polls`, else on request. `say` prints a line."""
        self._polls = polls
        self._say = self._say if say is None else say
        if self._thread is None and not self._stopping.is_set():
            self._thread = threading.Thread(target=self._run, name="new items", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Look no more, and end what is being encoded."""
        self._stopping.set()
        self._wanted.set()
        self._process.stop()
        if self._thread is not None:
            self._thread.join()

    def look_now(self) -> SourceLook:
        """Look at once, and let what is new join as soon as it can."""
        with self._watching:
            look = self.watch.look(thoroughly=True)
        self._note_change()
        self.start(polls=self._polls)
        self._wanted.set()
        new = len(look.ready) + look.settling
        return SourceLook(new, len(self.project.unusable), look.gone, list(look.notes))

    @property
    def notes(self) -> list[str]:
        """What people should know of the data as it was last looked at."""
        return list(self.watch.last.notes)

    def _run(self) -> None:
        while not self._stopping.is_set():
            pause = self.take_turn()
            self._wanted.wait(pause)
            self._wanted.clear()

    def take_turn(self) -> float | None:
        """Look once and let what is ready join; the seconds until the next turn, None if it is to be asked for."""
        started, notes = time.monotonic(), self.notes
        try:
            if self.project.is_behind:  # they could not join when they were added
                self.join(look_again(self.project))
            with self._watching:
                look = self.watch.look()
            pause = max(LOOK_SECONDS, PAUSE_FOR_LOOK * (time.monotonic() - started))
            self._say_once(look.notes)
            if self.notes != notes:
                self._note_change()
            if look.found is not None and self.project.reads_source:
                self._read_anew(look.found)
            if look.ready:
                names = list(look.ready)[: self._most_at_once()]
                pause = self._add({name: look.ready[name] for name in names})
                if len(names) < len(look.ready):
                    return 0.0
            return pause if self._polls or look.ready or look.settling else None
        except UnderstudyError as error:  # items that are in the files join when that can be written to the log
            if not self._stopping.is_set():
                self._say_once([" ".join(str(error).split())])
        except Exception:
            log.exception("new items could not be added")
        return PAUSE_AFTER_FAILURE

    def _most_at_once(self) -> int:
        source = self.project.source
        has_labels = source is not None and source.pool.labels is not None and self.project.info.import_labels
        return MAX_LABELLED_AT_ONCE if has_labels else max(MIN_ITEMS_AT_ONCE, self.record.n_items // 2)

    def _say_once(self, lines: Sequence[str]) -> None:
        """Print what was not said the last time, and remember these."""
        for line in lines:
            if line not in self._said:
                self._say(line)
        self._said = set(lines)

    # -- joining ------------------------------------------------------------------------------------------

    def _add(self, wanted: Mapping[str, Stamp | None]) -> float:
        """Encode these items and let them join; the seconds until the next look."""
        self._show_progress(Joining(0, len(wanted)))
        try:
            encoding = self._encode(wanted)
            if encoding is None:
                return LOOK_SECONDS
            started = time.monotonic()
            joined = self.join(look_again(self.project))
            log.info("%s new items: encoded in %.1f s, joined in %.1f s", joined, encoding, time.monotonic() - started)
            return max(LOOK_SECONDS, PAUSE_FOR_JOINING * (time.monotonic() - started))
        finally:
            self._show_progress(None)

    def _encode(self, wanted: Mapping[str, Stamp | None]) -> float | None:
        """Let a process add items to the project's files; the seconds it took. None where none could be added."""
        job = {
            "kind": "items", "project": str(self.project.folder), "device": self.project.device,
            "wanted": dict(wanted),
        }  # fmt: skip
        started, why = time.monotonic(), "they have changed since they were seen"
        try:
            if self._process.run(job, self._look_at_progress)["added"]:
                return time.monotonic() - started
        except UnderstudyError as error:
            if self._stopping.is_set():
                raise
            why = " ".join(str(error).split()).replace(str(self.project.folder), self.project.name)
        with self._watching:
            self.watch.note_failure(wanted, why)
        return None

    def _look_at_progress(self, folder: Path) -> None:
        if (found := read_progress(folder)) is not None:
            self._show_progress(Joining(*found))

    def _show_progress(self, joining: Joining | None) -> None:
        if joining != self.joining:
            self.joining = joining
            self._note_change()

    def join(self, now: Project) -> int:
        """Let the items join that are in the files of `now` and not in the log; how many."""
        n, first = len(now.pool), self.record.n_items
        if n <= first:
            return 0
        now.notes += now.columns.read_or_note(self.record.settings.show)
        new = now.features[first:]
        if basis_rows_for(self.record, n) == n:
            self._make_setup(now, n)
        predicted: Any = None

        def prepare(chooser: Chooser, moves: Sequence[Move]) -> Chooser:
            nonlocal predicted
            if basis_rows_for(self.record, n) == n:
                predicted = None
                chooser = Chooser(self.models.surrogate_without_model(now.features, n), self.models.describe_rows)
                for move in moves:
                    chooser.follow(move)
                return chooser
            predicted = self.models.predict(new)
            chooser.take_in(new, self.models.rows_for(predicted, n - first, chooser.surrogate.n_classes))
            return chooser

        def store() -> None:
            self._next = now, predicted
            self._store(*new_item_events(now, self.record))

        self.learning.take_in(prepare, store)
        with self.lock:
            self.learning.train_if_due()
        if (news := items_news(self.record)) is not None:
            self._say(news.line)
        return n - first

    def _read_anew(self, now: Project) -> None:
        """Read images where they are in the data now: its rows may have moved."""
        with self.lock:
            if len(now.pool) == self.record.n_items:
                self.project.adopt(now)

    def _make_setup(self, now: Project, n: int) -> None:
        """Let a process make the set-up of all items, on which the surrogate goes on."""
        n_classes, options = setup_options(now, n)
        features = str(now.features_path.absolute())
        job = {"kind": "setup", "features": features, "n_classes": n_classes, "surrogate": options, "basis_rows": n}
        self._process.run(job)

    def adopt(self) -> None:
        """Have the items that have just joined. Called with the session's lock held, once the record has them."""
        known, self._next = self._next, None
        now, predicted = (look_again(self.project), None) if known is None else known
        self.project.adopt(now)
        self.learning.trainer.features = self.project.features_path
        self.models.note_growth(predicted)
