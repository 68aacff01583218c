"""What is new in the data of a project that is being served, look by look.

A look is cheap where nothing changed: of a folder of images only the folders below it are asked when they were changed
last, of a table only its file. A new file counts once its size and date have stood still, so that one that is still
being written is left alone.
"""

import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from understudy.data.items import Stamp
from understudy.errors import UnderstudyError
from understudy.messages import count_of
from understudy.projects.opening import look_again
from understudy.projects.project import Project

STILL_SECONDS: Final = 2.0  # a file has not changed for, before it counts
SETTLING_SECONDS: Final = 3.0  # until a folder's date is believed: some disks know it to two seconds only

State = dict[str, tuple[int, ...]]  # by path, what changes when something there does


@dataclass(frozen=True)
class Look:
    """What a look found. `ready` are new items, with their stamps, whose files have stood still; `settling` others."""

    ready: Mapping[str, Stamp | None] = field(default_factory=dict)
    settling: int = 0
    gone: int = 0  # items of the pool that are not in the data any more
    notes: tuple[str, ...] = ()
    found: Project | None = field(default=None, compare=False)  # the project as its data is now, where that was read


class SourceWatch:
    """Looks at the data of one project, from one thread at a time. `project` is the one that is served."""

    def __init__(self, project: Project, clock: Callable[[], float] = time.monotonic) -> None:
        self.project, self._clock = project, clock
        self.last = Look()
        self._state: State = {}
        self._changed_at = clock()  # when the state was last found to be another
        self._looked_at: float | None = None
        self._stamps: dict[str, tuple[Stamp | None, float]] = {}  # of new items, and since when they have these
        self._failed: dict[str, tuple[Stamp | None, str]] = {}  # items that could not be added, as they were; why

    @property
    def path(self) -> Path | None:
        """Where the data lies; None for a data set that has a name, or where nothing is there."""
        origin = self.project.info.origin
        return None if origin.name is not None else origin.find(self.project.folder)

    def look(self, *, thoroughly: bool = False) -> Look:
        """What is new. `thoroughly`: also where nothing seems to have changed, and what failed is tried again."""
        if thoroughly:
            self._failed = {}
        if (path := self.path) is None:
            title = self.project.info.origin.title
            is_named = self.project.info.origin.name is not None
            why = "is a data set, which does not grow" if is_named else "is not there; put it back"
            self.last = Look(notes=(f"new items are not looked for: {title} {why}",))
            return self.last
        now, state = self._clock(), self._read_state(path)
        if state != self._state:
            self._state, self._changed_at = state, now
        elif not thoroughly and not self._stamps and self._is_settled():
            return self.last
        self._looked_at = now
        try:
            look = self._compare(look_again(self.project), now)
        except UnderstudyError as error:
            reason = " ".join(str(error).split()).replace(str(path), path.name)
            look = Look(notes=(f"new items are not looked for at the moment: {reason}",))
        self.last = replace(look, found=None)
        return look

    def note_failure(self, tried: Mapping[str, Stamp | None], why: str) -> None:
        """None of these items could be added: they are tried again when they have changed, or on request."""
        self._failed |= {name: (stamp, why) for name, stamp in tried.items()}
        self._stamps = {}

    def _is_settled(self) -> bool:
        """Whether what changed was looked at since, late enough that a further change shows in another date."""
        return self._looked_at is not None and self._looked_at >= self._changed_at + SETTLING_SECONDS

    def _compare(self, found: Project, now: float) -> Look:
        new = found.new_items()
        before, self._stamps = self._stamps, {}
        self._failed = {name: kept for name, kept in self._failed.items() if name in new and kept[0] == new[name]}
        ready, settling = dict[str, Stamp | None](), 0
        for name, stamp in new.items():
            if name in self._failed:
                continue
            known, since = before.get(name, (stamp, now))
            since = since if known == stamp else now
            self._stamps[name] = stamp, since
            if stamp is None:  # nothing of its own says that it is being written: that the whole stands still does
                since = max(since, self._changed_at)
            if now - since >= STILL_SECONDS:
                ready[name] = stamp
            else:
                settling += 1
        gone, notes = found.describe_changes()
        if self._failed:
            *_, (_, why) = self._failed.values()
            notes.append(f"{count_of(self._failed, 'new item')} could not be added: {why}")
        return Look(ready, settling, gone, tuple(notes), found)

    def _read_state(self, path: Path) -> State:
        """What changes when anything does: the dates of all folders, or the sizes and dates of files."""
        if not path.is_dir():
            return dict(_states([str(path)]))
        if self.project.kind == "text":  # a file may be filled later, of which its folder says nothing
            return dict(_states(_paths_below(str(path), with_files=True)))
        base, unusable = str(path), {*self.project.unusable, *self._failed}
        folders = [name for name in self._state if not self._state[name] or stat.S_ISDIR(self._state[name][0])]
        state = dict(_states(folders))
        if not folders or any(state.get(name) != self._state[name] for name in folders):
            state = dict(_states(_paths_below(base, with_files=False)))
        return state | dict(_states(os.path.join(base, name) for name in sorted(unusable)))  # noqa: PTH118


def _states(paths: Collection[str] | Iterator[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for path in paths:
        try:
            found = Path(path).stat()
        except (OSError, ValueError):
            yield path, ()
        else:
            yield path, (found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns)


def _paths_below(folder: str, *, with_files: bool) -> Iterator[str]:
    """A folder and all folders in it, links followed but never round in a circle; with all files where wanted."""
    waiting, met = [folder], set[str]()
    while waiting:
        place = waiting.pop()
        if (real := os.path.realpath(place)) in met:
            continue
        met.add(real)
        yield place
        try:
            with os.scandir(place) as entries:
                visible = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError:
            continue
        for entry in visible:
            if entry.is_dir():
                waiting.append(entry.path)
            elif with_files:
                yield entry.path
