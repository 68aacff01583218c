"""What annotators are told when the server's disk fails: what to do, and nothing about the server."""

import logging
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from tests.sessions.small_projects import a_full_disk, copied, opened
from tests.web.serving import served
from understudy.sessions.session import Session


def answers(session: Session, *, until: int = 507) -> list[str]:
    """All that annotators are told until a label is refused."""
    told = []
    with served(session) as server:
        for turn in range(300):
            asked = server.client.post("/api/next", json={"annotator": "ann"})
            told.append(asked.text)
            item = asked.json()["item"] or 0
            call = {"item": item, "label": turn % 3, "annotator": "ann", "key": f"k{turn}"}
            answer = server.client.post("/api/labels", json=call)
            told.append(answer.text)
            if answer.status_code == until:
                break
        else:
            pytest.fail("nothing was refused")
        told.append(server.client.post("/api/next", json={"annotator": "bob"}).text)
        told.append(server.client.get("/api/status").text)
        told.append(server.client.get("/api/progress").text)
    return told


def test_a_full_disk_is_said_without_the_paths_of_the_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(copied(tmp_path / "one", taught=2)) as session, a_full_disk(session):
        told = answers(session)
    assert any("the server's disk is full; make room on it" in text for text in told)
    assert not [text for text in told if str(tmp_path) in text or "log.sqlite3" in text]
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any(str(tmp_path) in line for line in said), "whoever runs the server is told where"
    assert len(said) <= 4, "not again for every page that tries again"


@pytest.mark.parametrize("reason", ["disk I/O error", "log is gone"])
def test_a_failing_disk_is_said_without_the_paths_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    folder = copied(tmp_path / "one", taught=2)
    with opened(folder) as session:
        store = session._log.store
        if reason == "log is gone":
            (folder / "log.sqlite3").rename(folder / "elsewhere")
        else:

            def fail(_: object) -> None:
                error = sqlite3.OperationalError(reason)
                error.sqlite_errorname = "SQLITE_IOERR_WRITE"
                raise OperationalError("BEGIN IMMEDIATE", None, error)

            monkeypatch.setattr(store, "begin_writing", fail)
        told = answers(session)
        monkeypatch.undo()
    assert not [text for text in told if str(tmp_path) in text or "sqlite" in text]
    assert any("disk failed" in text or "could not store this" in text for text in told)


def test_a_missing_file_of_the_project_is_named_without_its_folder(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one", taught=2)
    with opened(folder) as session, served(session) as server:
        for path in (folder / "artifacts").iterdir():
            path.unlink()
        for form in ("model", "predictions-csv"):
            answer = server.client.get("/api/export", params={"format": form})
            assert answer.status_code >= 400
            assert str(tmp_path) not in answer.text
