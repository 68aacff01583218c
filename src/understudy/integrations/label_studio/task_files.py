"""The tasks of a Label Studio project on this disk: a table of texts or images, which an Understudy project reads.

It only ever grows, so that the items of the project keep their places. The token is not in it.
"""

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from understudy.data.files import write_atomically
from understudy.errors import Conflict, NotStored, UnderstudyError
from understudy.integrations.label_studio.client import LabelStudio, Unreachable
from understudy.integrations.label_studio.label_config import LabelQuestion
from understudy.messages import count_of, list_some

TABLE: Final = "tasks.jsonl"
LINK: Final = "label-studio.json"
IMAGES: Final = "images"
DOWNLOADS_AT_ONCE: Final = 6
USUAL_SUFFIX: Final = ".jpg"
SUFFIXES: Final = frozenset({
    ".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".heic", ".heif", ".avif",
})  # fmt: skip


@dataclass(frozen=True)
class Link:
    """Which project of which Label Studio a folder belongs to."""

    url: str
    project: int


class TaskFiles:
    """A folder with the tasks that were fetched so far. `notes` are lines for people, on tasks that cannot be used."""

    def __init__(self, folder: Path, link: Link, question: LabelQuestion) -> None:
        self.folder, self.question = folder, question
        self.notes: list[str] = []
        self._lines: dict[int, dict[str, str]] = {}  # by task
        self.seen: set[int] = set()  # tasks that were looked at, those that cannot be used included
        self._open(link)

    @property
    def table(self) -> Path:
        return self.folder / TABLE

    @property
    def project_folder(self) -> Path:
        """The folder of the Understudy project that reads the table: beside it."""
        return self.folder.with_name(f"{self.folder.name}.understudy")

    def __len__(self) -> int:
        return len(self._lines)

    def _open(self, link: Link) -> None:
        path = self.folder / LINK
        try:
            if path.exists():
                known = Link(**json.loads(path.read_text()))
                if known != link:
                    raise Conflict(
                        f"{self.folder} belongs to project {known.project} of {known.url}; give another --folder"
                    )
                with self.table.open(encoding="utf-8") as stream:
                    self._lines = {int(line["id"]): line for line in map(json.loads, stream)}
            else:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._write()
                write_atomically(path, json.dumps(asdict(link)).encode())
        except (OSError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise UnderstudyError(f"{self.folder} cannot be used ({error}); give another --folder") from error
        self.seen = set(self._lines)

    def add(self, client: LabelStudio, tasks: Iterable[Mapping[str, Any]]) -> int:
        """Fetch tasks that are not here yet; how many could be used."""
        new = [task for task in tasks if int(task["id"]) not in self.seen]
        with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
            lines_or_faults = pool.map(lambda task: self._fetch(client, task), new)
            found = dict(zip((int(task["id"]) for task in new), lines_or_faults, strict=True))
        lines = {number: line for number, line in found.items() if isinstance(line, dict)}
        faults = [f"task {number}: {fault}" for number, fault in found.items() if isinstance(fault, str)]
        if faults:
            self.notes.append(f"{count_of(faults, 'task')} left out: {list_some(faults)}")
        self.seen |= found.keys()
        if lines:
            self._lines |= lines
            self._write()
        return len(lines)

    def _fetch(self, client: LabelStudio, task: Mapping[str, Any]) -> dict[str, str] | str:
        """The task's line in the table, or why it has none."""
        number, value = int(task["id"]), task["data"].get(self.question.field)
        if not isinstance(value, str) or not value.strip():
            return f"it has no {self.question.field!r} in its data"
        if self.question.kind == "text":
            return {"id": str(number), "text": value}
        path = self.folder / IMAGES / f"{number}{_suffix_of(value[:2000])}"
        try:
            if not path.exists():
                write_atomically(path, client.file(value, number), parents=True)
        except (Unreachable, NotStored):  # no fault of the task: all is tried again
            raise
        except UnderstudyError as error:
            return str(error)
        return {"id": str(number), "path": f"{IMAGES}/{path.name}"}

    def _write(self) -> None:
        lines = (json.dumps(line) + "\n" for line in self._lines.values())
        write_atomically(self.table, "".join(lines).encode())


def _suffix_of(address: str) -> str:
    """The suffix under which an image is kept."""
    try:
        suffix = Path(unquote(urlsplit(address).path)).suffix.lower()
    except ValueError:
        return USUAL_SUFFIX
    return suffix if suffix in SUFFIXES else USUAL_SUFFIX
