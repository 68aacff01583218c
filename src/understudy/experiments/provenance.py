"""Where results come from: the commit, packages and processor that made them, and a digest of every file they used."""

import hashlib
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from understudy.data.sources import known_names
from understudy.experiments.specs import code_digests
from understudy.predictors import is_function_name
from understudy.version import __version__

PACKAGES: Final = ("torch", "numpy", "scipy", "scikit-learn", "pyarrow")  # whose versions may change results
SECONDS_FOR_GIT: Final = 10.0
HERE: Final = Path(__file__).parents[1]  # of the package


def package_versions() -> list[str]:
    """Understudy, the packages that results may depend on, and Python, each with its version."""
    found = [f"understudy {__version__}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name).partition('+')[0]}")
        except PackageNotFoundError:  # from a folder that was never installed
            continue
    return [*found, f"python {platform.python_version()}"]


def commit_of(folder: Path = HERE) -> str | None:
    """The commit of the repository that a package belongs to, with a word if its files were changed since.

    None if the package is not part of a repository; one that is merely installed inside of it is not.
    """
    if not _ask_git(folder, "ls-files", "--", "version.py"):
        return None
    if (commit := _ask_git(folder, "rev-parse", "HEAD")) is None:
        return None
    return f"{commit} and changes" if _ask_git(folder, "status", "--porcelain", "--", ".") else commit


def _ask_git(folder: Path, *arguments: str) -> str | None:
    """What git says, without a newline at the end; None if it fails or is not there."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        said = subprocess.run(
            ["git", *arguments],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS_FOR_GIT, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip()


def processor_name() -> str:
    """The processor's own name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def input_digests(**given: Any) -> dict[str, str]:
    """A digest of each thing that a comparison is read from: files as they lie on the disk, modules as their source.

    What is in memory has none here; the plan has a digest of its items.
    """
    digests = {name: _digest(one) for name, one in given.items()}
    return {name: digest for name, digest in digests.items() if digest}


def _digest(given: Any) -> str:
    if not isinstance(given, str | Path):
        return ""
    if isinstance(given, str) and is_function_name(given):
        return next(iter(code_digests([given]).values()), "")
    if isinstance(given, str) and given in known_names():
        from understudy.data.datasets import DATASETS, find

        found = find(given) if DATASETS[given].files else None  # others come with a package
        return "" if found is None else digest_of_files(found)
    path = Path(given).expanduser()
    return digest_of_files(path) if path.exists() else ""  # a name on the Hugging Face hub


def digest_of_files(path: Path) -> str:
    """The SHA-256 of a file, or of the names and SHA-256 sums of all files of a folder."""
    if path.is_file():
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    parts = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    lines = (f"{digest_of_files(path / part)}  {part}\n" for part in parts)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
