"""`understudy backup` and `understudy restore`: real projects, real servers, both databases."""

import hashlib
import json
import shutil
import threading
import zipfile
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from tests.sessions import postgres
from tests.sessions.label_data import images
from tests.sessions.small_projects import CALM, SMALL, copied, label_next, opened, stored_events
from tests.waiting import wait_until
from tests.web.serving import served
from understudy.cli import app
from understudy.errors import Conflict, UnderstudyError, UsageError
from understudy.projects.opening import create_or_open
from understudy.projects.project_file import read_info
from understudy.sessions.backup import FILES, FOLDERS, back_up, open_backup, restore_backup
from understudy.sessions.log.events import Event
from understudy.sessions.log.log import EventLog
from understudy.sessions.opening import open_session
from understudy.sessions.transfer import export_labels
from understudy.store_urls import sqlite_url

cluster = postgres.cluster  # a fixture

FORMATS = ("csv", "jsonl", "parquet", "labelstudio", "prodigy", "predictions-csv", "model")


def contents(folder: Path) -> dict[str, bytes]:
    """What a project's folder holds that a backup must have, by name."""
    paths = [folder / name for name in FILES]
    paths += [path for inner in FOLDERS for path in (folder / inner).iterdir()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.exists()}


def events_in(url: str, identity: str) -> list[Event]:
    with closing(EventLog.open(url, identity, read_only=True)) as log:
        return list(log.read())


def exports(folder: Path, to: Path) -> dict[str, bytes]:
    for form in FORMATS:
        list(export_labels(str(folder), form, to / form))
    return {form: (to / form).read_bytes() for form in FORMATS}


def test_a_backup_made_while_two_people_label_is_a_state_the_project_was_in(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one", n=300, taught=2)
    file = tmp_path / "kept" / "copy.backup.zip"
    acknowledged: list[int] = []
    ends = threading.Event()

    with opened(folder) as session, served(session) as server:

        def label(name: str) -> None:
            with httpx.Client(base_url=server.url, timeout=None) as client:
                item = client.post("/api/next", json={"annotator": name}).json()["item"]
                for turn in count():
                    if ends.is_set() or item is None:
                        return
                    call = {"item": item, "label": turn % 3, "annotator": name, "key": f"{name}{turn}"}
                    stored = client.post("/api/labels", json=call).json()
                    acknowledged.append(stored["stored"])
                    item = stored["next"]["item"]

        people = [threading.Thread(target=label, args=(name,)) for name in ("ann", "bob")]
        for person in people:
            person.start()
        try:
            wait_until(lambda: len(acknowledged) >= 10 or not all(person.is_alive() for person in people))
            known = list(acknowledged)
            lines = list(back_up(str(folder), file))
            wait_until(lambda: len(acknowledged) >= len(known) + 4 or not all(p.is_alive() for p in people))
        finally:
            ends.set()
            for person in people:
                person.join()
        everything = stored_events(session)
    with open_backup(file) as backup:
        until = backup.manifest.events
    assert max(known) <= until < len(everything)
    assert str(until) in lines[0]

    list(restore_backup(file, tmp_path / "again"))
    info = read_info(tmp_path / "again")
    assert events_in(sqlite_url(tmp_path / "again" / "log.sqlite3"), info.identity) == everything[:until]

    # The original, put back to that moment by hand.
    then = tmp_path / "then" / "project"
    shutil.copytree(folder, then, ignore=shutil.ignore_patterns("log.sqlite3*", "work", "server.lock"))
    with closing(EventLog.open(sqlite_url(then / "log.sqlite3"), info.identity)) as log:
        log.append(*(Event(e.kind, e.item, e.annotator, e.key, e.data, e.at) for e in everything[:until]))
    assert exports(tmp_path / "again", tmp_path / "a") == exports(then, tmp_path / "b")
    with opened(tmp_path / "again") as session, opened(then) as original:
        for name in ("ann", "bob", "new"):
            assert session.next(name).item == original.next(name).item
        assert session.record.effective == original.record.effective
        assert label_next(session, "ann", "x", 2).item == label_next(original, "ann", "x", 2).item


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of a project with a model and login links."""
    place = tmp_path_factory.mktemp("made")
    folder = copied(place / "one", taught=2)
    (folder / "tokens.json").write_text('{"format": 1}')
    list(back_up(str(folder), place / "copy.zip"))
    return place


def test_the_files_come_back_as_they_were_and_nothing_else_is_in_a_project(made: Path, tmp_path: Path) -> None:
    known = {*FILES, *FOLDERS, "work", "log.sqlite3", "log.sqlite3-wal", "log.sqlite3-shm", "server.lock"}
    assert {path.name for path in (made / "one" / "project").iterdir()} <= known, "is it to be backed up?"
    lines = list(restore_backup(made / "copy.zip", tmp_path / "again"))
    assert contents(tmp_path / "again") == contents(made / "one" / "project")
    assert (tmp_path / "again" / "tokens.json").stat().st_mode & 0o777 == 0o600
    assert (made / "copy.zip").stat().st_mode & 0o777 == 0o600
    assert lines[-1] == f"go on with: understudy label {tmp_path / 'again'}"


def test_a_restored_project_says_so_where_its_data_is_gone(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one")
    list(back_up(str(folder), tmp_path / "copy.zip"))
    about = json.loads((folder / "project.json").read_text())
    about["origin"].update(relative="../nowhere", absolute=str(tmp_path / "nowhere"))
    (folder / "project.json").write_text(json.dumps(about))
    list(back_up(str(folder), tmp_path / "copy.zip"))
    lines = list(restore_backup(tmp_path / "copy.zip", tmp_path / "again"))
    assert "its data is not at" in lines[-1]
    assert "understudy label DATA --project" in lines[-1]


def test_nothing_is_written_over(made: Path, tmp_path: Path) -> None:
    folder = made / "one" / "project"
    (tmp_path / "notes.zip").write_text("mine")
    other = copied(tmp_path / "other")
    about = json.loads((other / "project.json").read_text())
    (other / "project.json").write_text(json.dumps({**about, "identity": "another"}))
    list(back_up(str(other), tmp_path / "other.zip"))
    for name in ("notes.zip", "other.zip"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(UsageError, match="is not a backup of this project"):
            list(back_up(str(folder), tmp_path / name))
        assert (tmp_path / name).read_bytes() == before
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(UsageError, match="is there already"):
        list(restore_backup(made / "copy.zip", tmp_path / "full"))
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]
    (tmp_path / "empty").mkdir()
    list(restore_backup(made / "copy.zip", tmp_path / "empty"))
    list(back_up(str(tmp_path / "empty"), made / "copy.zip"))  # the same project: the file is replaced


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(content: bytes) -> bytes:
    place = len(content) // 3
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize("spoil", [cut, flip, lambda _: b"", lambda _: b"labels,42\n" * 100])
def test_a_damaged_backup_is_refused_in_a_line(made: Path, tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    file = tmp_path / "copy.zip"
    file.write_bytes(spoil((made / "copy.zip").read_bytes()))
    with pytest.raises(UnderstudyError, match=r"is not a whole backup|is damaged") as caught:
        list(restore_backup(file, tmp_path / "again"))
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["copy.zip"]


def rewritten(made: Path, to: Path, changes: dict[str, bytes], *, listed: bool = True) -> Path:
    """The backup with other files; in its list, too, if `listed`."""
    with zipfile.ZipFile(made / "copy.zip") as old, zipfile.ZipFile(to, "w") as new:
        about = json.loads(old.read("backup.json"))
        files = {name: old.read(name) for name in old.namelist() if name != "backup.json"} | changes
        for name, content in files.items():
            new.writestr(name, content)
            if listed:
                about["files"][name] = [len(content), hashlib.sha256(content).hexdigest()]
        new.writestr("backup.json", json.dumps(about))
    return to


@pytest.mark.parametrize(
    "name", ["../out.txt", "/tmp/out.txt", "artifacts/../../out.txt", "artifacts/.x", "log.sqlite3"]
)
def test_a_file_outside_of_a_project_is_refused(made: Path, tmp_path: Path, name: str) -> None:
    file = rewritten(made, tmp_path / "copy.zip", {name: b"x"})
    with pytest.raises(UnderstudyError, match="is not a file of a project"):
        list(restore_backup(file, tmp_path / "deep" / "again"))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["copy.zip"]


def test_what_is_not_as_it_was_written_is_refused(made: Path, tmp_path: Path) -> None:
    file = rewritten(made, tmp_path / "copy.zip", {"faults.jsonl": b"{}\n"}, listed=False)
    with pytest.raises(UnderstudyError, match=r"its files are not those that backup\.json lists|is damaged"):
        list(restore_backup(file, tmp_path / "again"))
    file = rewritten(made, tmp_path / "copy.zip", {"items.parquet": b"x"}, listed=False)
    with pytest.raises(UnderstudyError, match=r"is damaged: items\.parquet is not what was written"):
        list(restore_backup(file, tmp_path / "again"))
    with zipfile.ZipFile(made / "copy.zip") as old:
        lines = old.read("log.jsonl").splitlines(keepends=True)
    file = rewritten(made, tmp_path / "copy.zip", {"log.jsonl": b"".join(lines[1:])})
    with pytest.raises(UnderstudyError, match="its log has gaps"):
        list(restore_backup(file, tmp_path / "again"))
    assert not (tmp_path / "again").exists()


def test_a_file_that_the_log_refers_to_and_that_is_gone_is_named(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one", taught=2)
    gone = sorted((folder / "artifacts").iterdir())[0]
    gone.unlink()
    lines = list(back_up(str(folder), tmp_path))
    assert f"missing in the project: {gone.name[:12]}…" in lines[1]
    assert len(list(tmp_path.glob("project-*.backup.zip"))) == 1


@pytest.fixture
def team(tmp_path: Path, cluster: postgres.Cluster) -> tuple[Path, str]:
    """A project whose log is in PostgreSQL, and the URL."""
    photos = images(tmp_path / "photos", [f"{row}.png" for row in range(20)])
    options = {"classes": ["cat", "dog"], "encoder": SMALL, "device": "cpu", "store": cluster.url(), **CALM}
    project = create_or_open(photos, **options)  # type: ignore[arg-type]
    session = open_session(project)
    try:
        label_next(session, "ann", "k0", 0)
        label_next(session, "bob", "k1", 1)
        list(back_up(str(project.folder), tmp_path / "copy.zip"))  # while it is open
    finally:
        session.close()
    return project.folder, cluster.url()


def test_a_log_goes_from_one_database_to_another(
    team: tuple[Path, str], tmp_path: Path, cluster: postgres.Cluster
) -> None:
    folder, url = team
    identity = read_info(folder).identity
    with open_backup(tmp_path / "copy.zip") as backup:
        until = backup.manifest.events
    kept = events_in(url, identity)[:until]
    assert {event.key for event in kept} >= {"k0", "k1"}
    with pytest.raises(Conflict, match="has a log of this project already"):
        list(restore_backup(tmp_path / "copy.zip", tmp_path / "again"))
    assert not (tmp_path / "again").exists()
    there = tmp_path / "in-files"
    list(restore_backup(tmp_path / "copy.zip", there, store=sqlite_url(there / "log.sqlite3")))
    assert read_info(there).store is None
    assert events_in(sqlite_url(there / "log.sqlite3"), identity) == kept
    with opened(there) as session:
        label_next(session, "ann", "k2", 0)
        until = session.record.seq
        list(back_up(str(there), tmp_path / "copy.zip"))
    cluster.call(
        "createdb", "-h", str(cluster.folder), "-U", postgres.USER, "-E", "UTF8", "-T", "template0", "elsewhere"
    )
    list(restore_backup(tmp_path / "copy.zip", tmp_path / "moved", store=cluster.url("elsewhere")))
    assert read_info(tmp_path / "moved").store == cluster.url("elsewhere")
    assert len(events_in(cluster.url("elsewhere"), identity)) == until
    with opened(tmp_path / "moved") as session:
        assert len(session.record.effective) == 3


def test_the_commands(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    result = runner.invoke(app, ["backup", str(made / "one" / "project"), "copy.zip"])
    assert result.exit_code == 0, result.output
    assert "understudy restore copy.zip NEW-FOLDER" in result.output
    result = runner.invoke(app, ["restore", "copy.zip", "again"])
    assert result.exit_code == 0, result.output
    with pytest.raises(UsageError, match="is not a file; give a backup"):
        list(restore_backup(tmp_path / "none.zip", tmp_path / "other"))
    with pytest.raises(UsageError, match=r"there is no .*nothing; give a project's folder"):
        list(back_up(str(tmp_path / "nothing")))
