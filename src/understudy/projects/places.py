"""Where a project goes: beside its data, never into it, and never over anything else."""

import os
from pathlib import Path
from typing import Final

from understudy.data.features import default_folder
from understudy.errors import UsageError
from understudy.projects.origins import is_named
from understudy.projects.project_file import FILE, is_project

ENDING: Final = ".understudy"
DEMO: Final = "understudy-demo"
HARMLESS: Final = (f".{FILE}.", ".DS_Store")  # what a kill leaves before there is a project, and what systems leave


def folder_for(source: str | Path | None, project: Path | None, demo: bool) -> Path:
    """The project's folder: the one given, the source if it is one, or one beside the source."""
    if project is not None:
        return project.expanduser()
    if demo:
        return Path(DEMO)
    if source is None:
        raise UsageError("there is nothing to label; give a folder of images, a file, a project, or --demo")
    path = Path(source).expanduser()
    if not is_named(source) and is_project(path):
        return path
    place = default_folder(str(path) if not is_named(source) else str(source))
    return place.with_name(place.name.removesuffix(".features") + ENDING)


def name_of(folder: Path) -> str:
    return folder.absolute().name.removesuffix(ENDING) or "project"


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
    found = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(HARMLESS))
    if found:
        raise UsageError(f"{folder} holds {found[0]!r} and no project; give --project a new or an empty folder")
