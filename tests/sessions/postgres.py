"""A PostgreSQL cluster of the tests' own: in a temporary folder, behind a socket in it, gone afterwards."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.leaving_out import leave_out

USER = "understudy"


class Cluster:
    """A server that tests may stop, start and kill. Nobody else can reach it: it listens on a socket only."""

    def __init__(self, programs: Path, folder: Path, owner: str | None) -> None:
        self.programs, self.folder, self.owner = programs, folder, owner
        self.data = folder / "data"

    def url(self, database: str = "postgres", password: str = "") -> str:
        user = f"{USER}:{password}" if password else USER
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def as_owner(self, *command: str) -> list[str]:
        """A command of a user who may: PostgreSQL refuses to serve for root."""
        if self.owner is None:
            return list(command)
        return ["setpriv", f"--reuid={self.owner}", f"--regid={group_of(self.owner)}", "--clear-groups", *command]

    def call(self, program: str, *arguments: str) -> None:
        command = self.as_owner(str(self.programs / program), *arguments)
        # Not into pipes: the server inherits them, and they would never end.
        with (self.folder / "calls.txt").open("ab") as file:
            done = subprocess.run(command, stdout=file, stderr=file, cwd=self.folder, env=environment())
        assert done.returncode == 0, (self.folder / "calls.txt").read_text()

    def create(self) -> None:
        self.call("initdb", "-D", str(self.data), "-U", USER, "-E", "UTF8", "--locale=C", "-A", "trust", "--no-sync")
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\nmax_connections = 30\n")
            file.write("shared_buffers = 16MB\nunix_socket_permissions = 0777\n")

    def start(self) -> None:
        self.call("pg_ctl", "start", "-w", "-D", str(self.data), "-l", str(self.folder / "server.txt"))

    def stop(self, how: str = "fast") -> None:
        """`fast` ends connections in order; `immediate` is a crash."""
        self.call("pg_ctl", "stop", "-w", "-m", how, "-D", str(self.data))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Have the server stopped when we are done, or when this process is gone, however it ended."""
        command = self.as_owner("sh", "-c", 'cat; "$0" stop -m immediate -D "$1/data"; cd /; rm -rf "$1"')
        watch = subprocess.Popen(
            [*command, str(self.programs / "pg_ctl"), str(self.folder)],
            stdin=subprocess.PIPE,  # ends with us, and `cat` with it
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            start_new_session=True,  # Ctrl-C is for us
        )
        with watch:
            yield


def programs_folder() -> Path | None:
    """Where PostgreSQL is installed: on the path, or where Debian keeps its versions, the newest first."""
    found = shutil.which("initdb")
    if found and shutil.which("pg_ctl", path=str(Path(found).parent)):
        return Path(found).resolve().parent
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(versions, key=lambda path: float(path.parts[-3]), reverse=True)
    return newest[0].parent if newest else None


def owner_of_servers() -> str | None:
    """None: we ourselves. Root has to lend the server to somebody else."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def group_of(user: str) -> str:
    return str(pwd.getpwnam(user).pw_gid)


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def why_not() -> str | None:
    """Why there can be no cluster here, if so."""
    if sys.platform == "win32":
        return "PostgreSQL is tested on Unix only"
    if programs_folder() is None:
        return "PostgreSQL is NOT INSTALLED (no initdb): the tests of the team's store were NOT RUN"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL cannot serve for root, and there is no setpriv: the tests of the team's store were NOT RUN"
    return None


@contextmanager
def running() -> Iterator[Cluster]:
    """A cluster that serves, where `why_not` has nothing to say."""
    programs, owner = programs_folder(), owner_of_servers()
    assert programs is not None
    # A short path: the name of a socket has 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if owner is not None:
            shutil.chown(folder, owner, int(group_of(owner)))
        folder.chmod(0o755)
        made = Cluster(programs, folder, owner)
        with made.watched():
            made.create()
            made.start()
            yield made


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if reason := why_not():
        leave_out(reason)
    with running() as made:
        yield made
