"""Models that are on this machine: in our own folder, and in the cache that Hugging Face's libraries share."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from understudy.data import user_folders

REPOSITORY: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")  # OWNER/NAME
BRANCH: Final = "main"
PREFIX: Final = "models--"


def is_repository(name: str) -> bool:
    """Whether this can be the name of a repository of models, OWNER/NAME, rather than a path."""
    return REPOSITORY.fullmatch(name) is not None and not Path(name).exists()


def hub_cache() -> Path:
    """The folder in which Hugging Face's libraries keep what they downloaded."""
    if given := os.environ.get("HF_HUB_CACHE"):
        return Path(given).expanduser()
    if home := os.environ.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "huggingface" / "hub"


def own_folder(repository: str) -> Path:
    """Where we keep a repository: in the layout of the hub's cache, in a folder of ours."""
    return user_folders.models_folder() / _folder_name(repository)


def snapshots(repository: str) -> Iterator[Path]:
    """The folders that hold a version of this repository: ours, if it is whole, then those of the hub's cache."""
    own = own_folder(repository)
    if last := _last_version(own):  # written when everything was there
        yield own / "snapshots" / last
    cached = hub_cache() / _folder_name(repository)
    last = _last_version(cached)
    found = [path for path in sorted((cached / "snapshots").glob("*")) if path.is_dir()]
    yield from sorted(found, key=lambda path: path.name != last)


def cached_repositories() -> list[str]:
    """The repositories of which there is something on this machine, by name."""
    roots = (user_folders.models_folder(), hub_cache())
    names = {path.name.removeprefix(PREFIX) for root in roots for path in root.glob(f"{PREFIX}*--*")}
    return sorted(name.replace("--", "/", 1) for name in names)


def find_snapshot(repository: str, *files: str) -> Path | None:
    """A folder with a version of this repository that has these files; None where there is none here."""
    return next((path for path in snapshots(repository) if all((path / name).is_file() for name in files)), None)


def _folder_name(repository: str) -> str:
    return f"{PREFIX}{repository.replace('/', '--')}"


def _last_version(place: Path) -> str:
    try:
        return (place / "refs" / BRANCH).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
