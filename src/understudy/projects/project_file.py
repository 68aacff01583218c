"""`project.json`, which says what a project is; and where a project lies: beside its data, never inside it.

The path of the data is written twice, relative to the project and absolute, so that both may be moved.
"""

import json
import os
import uuid
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

from understudy.data import hub
from understudy.data.features import default_folder
from understudy.data.files import is_draft, write_atomically
from understudy.data.items import Kind
from understudy.data.sources import known_names
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import UPGRADE
from understudy.projects.settings import Settings
from understudy.store_urls import full_url, kept_url, sqlite_url
from understudy.version import __version__

FORMAT: Final = 3  # 1 knew only one method of choosing; 2 names the method; 3 may name a version of the features
FORMAT_BEFORE: Final = 2  # is still written where the encoder was never changed
FILE: Final = "project.json"
LOG: Final = "log.sqlite3"
SUFFIX: Final = ".understudy"  # of the folder of a project
DEMO_FOLDER: Final = "understudy-demo"


# -- what it says ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceLocation:
    """Where the items come from: the name of a data set, or a path, relative to the project and absolute."""

    name: str | None = None
    relative: str | None = None
    absolute: str | None = None
    columns: dict[str, str] | None = None

    @classmethod
    def of_path(cls, path: Path, project: Path, columns: dict[str, str] | None) -> "SourceLocation":
        # The path as people wrote it, links and all: what a link leads to may be another thing tomorrow.
        there = path.absolute()
        try:
            relative = os.path.relpath(there, project.absolute())
        except ValueError:  # another drive
            relative = None
        return cls(relative=relative, absolute=str(there), columns=columns)

    def find(self, project: Path) -> Path | None:
        """The path, relative to the project or where it once was; None for a name, or where nothing is there."""
        beside = [] if self.relative is None else [Path(os.path.normpath(project.absolute() / self.relative))]
        once = [] if self.absolute is None else [Path(self.absolute)]
        return next((path for path in (*beside, *once) if path.exists()), None)

    @property
    def title(self) -> str:
        """The source as it is named to people who need not know where it lies."""
        return self.name or Path(str(self)).name

    def __str__(self) -> str:
        return self.name or self.absolute or self.relative or "its source"


@dataclass(frozen=True)
class ProjectInfo:
    """What stands in `project.json`. `encoder` is None until one is chosen, or where the source brings features.

    `classes_from`: "given" by people, or taken from the "source" with its labels. `store`: a database's URL without
    its password; None for the file in the project.
    """

    name: str
    kind: Kind
    origin: SourceLocation
    settings: Settings
    encoder: str | None = None
    own_features: bool = False
    made_by: str | None = None  # the identity of the encoder, where the source is a features folder
    import_labels: bool = True
    folders_decided: bool = True  # False: nobody said yet whether the folders of images are classes
    classes_from: Literal["given", "source"] = "given"
    store: str | None = None
    features_version: str | None = None  # names the file of features since the encoder was changed
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    version: str = __version__

    def write(self, folder: Path) -> None:
        values = {**asdict(self), "settings": self.settings.to_json()}
        version = FORMAT_BEFORE if self.features_version is None else FORMAT
        text = json.dumps({"format": version, **values}, indent=1, ensure_ascii=True)
        write_atomically(folder / FILE, (text + "\n").encode())


def read_info(folder: Path) -> ProjectInfo:
    """What the project in a folder is."""
    path = folder / FILE
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = found["format"]
        if isinstance(version, int) and version > FORMAT:
            raise UnderstudyError(
                f"{folder} has format {version}, this version reads up to {FORMAT}; upgrade: {UPGRADE}"
            )
        known = {field.name for field in fields(ProjectInfo)}
        values = {name: value for name, value in found.items() if name in known}
        origin = SourceLocation(**values.pop("origin"))
        return ProjectInfo(**{**values, "origin": origin, "settings": Settings.from_json(values["settings"])})
    except UnderstudyError:
        raise
    except FileNotFoundError as error:
        raise UsageError(
            f"{folder} is not a project: it has no {FILE}; give the data, or the project's folder"
        ) from error
    except OSError as error:
        raise UnderstudyError(f"{path} cannot be read ({error.strerror}); check its permissions") from error
    except Exception as error:  # JSON of another shape fails in as many ways as there are types
        raise UnderstudyError(f"{path} is damaged; restore it from a backup, or make the project anew") from error


def store_url_of(folder: Path, kept: str | None, given: str | None) -> str:
    """The URL to connect to: the one given, with its password; an error where the project's log is elsewhere."""
    if given is None:
        return kept or sqlite_url(folder.absolute() / LOG)
    if kept_url(given) != kept:
        where = kept or "in its folder"
        raise UsageError(
            f"the log of {folder} is {where}, not {kept_url(given)}; leave out the store, or give that one"
        )
    return full_url(given)


# -- where it lies ---------------------------------------------------------------------------------------------


def is_project(folder: Path) -> bool:
    return (folder / FILE).is_file()


def is_dataset_name(source: str | Path) -> bool:
    """Whether this is the name of a data set rather than a path."""
    return isinstance(source, str) and (source in known_names() or source.startswith(hub.PREFIX))


def folder_for(source: str | Path | None, project: Path | None = None, *, demo: bool = False) -> Path:
    """The project's folder: the one given, the source if it is a project, or one beside the source."""
    if project is not None:
        return project.expanduser()
    if demo:
        return Path(DEMO_FOLDER)
    if source is None:
        raise UsageError("there is nothing to label; give a folder of images, a file, a project, or --demo")
    path = Path(source).expanduser()
    if not is_dataset_name(source) and is_project(path):
        return path
    features = default_folder(str(path) if not is_dataset_name(source) else str(source))
    return features.with_name(features.name.removesuffix(".features") + SUFFIX)


def existing_folder(source: str) -> Path:
    """The folder of the project that is there: its own, or the one beside this data."""
    folder = folder_for(source)
    if not is_project(folder):
        if not is_dataset_name(source) and not Path(source).expanduser().exists():
            raise UsageError(f"there is no {source}; give a project's folder, or the data it lies beside")
        raise UsageError(f"{source} has no project; make one with: understudy label {source}")
    return folder


def name_of(folder: Path) -> str:
    """What the project in a folder is called."""
    return folder.absolute().name.removesuffix(SUFFIX) or "project"


def require_room(folder: Path, source: Path | None) -> None:
    """An error unless a new project can be made here: nothing there, or an empty folder outside of the images."""
    if source is not None and source.is_dir():
        inner, outer = folder.resolve(), source.resolve()
        if inner == outer or inner.is_relative_to(outer):
            raise UsageError(f"{folder} lies in {source}, whose images are to be labelled; give another --project")
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file; a project needs a folder, so give another --project")
    # What a kill left before there was a project, or a file manager put there, is in nobody's way.
    names = (entry.name for entry in folder.iterdir())
    found = sorted(name for name in names if not is_draft(name) and not name.startswith(".DS_Store"))
    if found:
        raise UsageError(f"{folder} is not a project but holds {found[0]!r}; give --project a new or an empty folder")
