"""`project.json`: what a project is, written whole. Where its data is stands in it twice, so that both may move."""

import json
import os
import uuid
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

from understudy.data.files import write_atomically
from understudy.data.items import Kind
from understudy.errors import UnderstudyError, UsageError
from understudy.projects.settings import Settings
from understudy.store_urls import full_url, kept_url, sqlite_url
from understudy.version import __version__

FORMAT: Final = 2  # the first knew one method of choosing; 2 names it
FILE: Final = "project.json"
LOG: Final = "log.sqlite3"


@dataclass(frozen=True)
class Origin:
    """Where the items come from: the name of a data set, or a path, from the project's folder and from the root."""

    name: str | None = None
    relative: str | None = None
    absolute: str | None = None
    columns: dict[str, str] | None = None

    @classmethod
    def of_path(cls, path: Path, project: Path, columns: dict[str, str] | None) -> "Origin":
        # The path as people wrote it, links and all: what a link leads to may be another thing tomorrow.
        there = path.absolute()
        try:
            relative = os.path.relpath(there, project.absolute())
        except ValueError:  # another drive
            relative = None
        return cls(relative=relative, absolute=str(there), columns=columns)

    def place(self, project: Path) -> Path | None:
        """The path, beside the project or where it once was; None for a name, or where nothing is there."""
        beside = [] if self.relative is None else [Path(os.path.normpath(project.absolute() / self.relative))]
        once = [] if self.absolute is None else [Path(self.absolute)]
        return next((path for path in (*beside, *once) if path.exists()), None)

    def __str__(self) -> str:
        return self.name or self.absolute or self.relative or "its source"


@dataclass(frozen=True)
class About:
    """What stands in `project.json`. `encoder` is None until one is chosen, or where the source brings features.

    `classes_from`: "given" by people, or taken from the "source" with its labels. `store`: a database's URL without
    its password; None for the file in the project.
    """

    name: str
    kind: Kind
    origin: Origin
    settings: Settings
    encoder: str | None = None
    own_features: bool = False
    made_by: str | None = None  # the identity of the encoder, where the source is a features folder
    import_labels: bool = True
    classes_from: Literal["given", "source"] = "given"
    store: str | None = None
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    version: str = __version__

    def write(self, folder: Path) -> None:
        values = {**asdict(self), "settings": self.settings.to_json()}
        text = json.dumps({"format": FORMAT, **values}, indent=1, ensure_ascii=True)
        write_atomically(folder / FILE, (text + "\n").encode())


def is_project(folder: Path) -> bool:
    return (folder / FILE).is_file()


def read(folder: Path) -> About:
    """What the project in a folder is."""
    path = folder / FILE
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = found["format"]
        if isinstance(version, int) and version > FORMAT:
            raise UnderstudyError(
                f"{folder} is a project of format {version}, this version reads {FORMAT}; install a newer understudy"
            )
        known = {field.name for field in fields(About)}
        values = {name: value for name, value in found.items() if name in known}
        origin = Origin(**values.pop("origin"))
        return About(**{**values, "origin": origin, "settings": Settings.from_json(values["settings"])})
    except UnderstudyError:
        raise
    except FileNotFoundError as error:
        raise UsageError(f"{folder} is no project: it has no {FILE}; give the data, or the project's folder") from error
    except OSError as error:
        raise UnderstudyError(f"{path} cannot be read ({error.strerror}); check its permissions") from error
    except Exception as error:  # other JSON than was written: each reader of it meets that in its own way
        raise UnderstudyError(f"{path} is damaged; put it back from a copy, or make the project anew") from error


def store_of(folder: Path, kept: str | None, given: str | None) -> str:
    """The URL to connect to: the one given, with its password; an error where the project's log is elsewhere."""
    if given is None:
        return kept or sqlite_url(folder.absolute() / LOG)
    if kept_url(given) != kept:
        where = kept or "in its folder"
        raise UsageError(
            f"the log of {folder} is {where}, not {kept_url(given)}; leave out the store, or give that one"
        )
    return full_url(given)
