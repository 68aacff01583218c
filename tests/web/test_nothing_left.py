"""A call of `understudy label` that cannot work leaves nothing behind, whichever of its options is wrong."""

import socket
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.sessions import postgres
from understudy.cli import app
from understudy.errors import UnderstudyError
from understudy.sessions.log.events import Event
from understudy.sessions.log.log import EventLog
from understudy.store_urls import sqlite_url

cluster = postgres.cluster  # a fixture


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with six pictures, a file of predictions and a password of nobody."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNDERSTUDY_PASSWORD", raising=False)
    (tmp_path / "photos").mkdir()
    for shade in range(6):
        Image.new("L", (8, 8), 40 * shade).save(tmp_path / "photos" / f"{shade}.png")
    np.save(tmp_path / "good.npy", np.full((6, 2), 0.5))
    np.save(tmp_path / "three.npy", np.full((6, 3), 0.5))
    np.save(tmp_path / "many.npy", np.full((9, 2), 0.5))
    (tmp_path / "broken.npy").write_bytes(b"no array")
    (tmp_path / "notes.txt").write_text("hello")
    return tmp_path


def files(folder: Path) -> set[str]:
    """All that lies there, but for what SQLite needs to read a file."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return {name for name in found if not name.endswith(("-wal", "-shm"))}


def refused(here: Path, *options: object) -> str:
    """What a call that must fail says; an error of the test where it leaves something behind."""
    before = files(here)
    words = ["label", "photos", "--no-browser", "--encoder", "pixels", "--classes", "cat,dog", *map(str, options)]
    with pytest.raises((UnderstudyError, SystemExit)) as error:
        app(words, standalone_mode=False)
    assert files(here) == before
    said = str(error.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--store", "postgres"), "a store is postgresql://"),
        (("--store", "mysql://ann@here/labels"), "a store is postgresql://"),
        (("--store", "postgresql://ann@127.0.0.1:1/labels"), "cannot be reached"),
        (("--store", "sqlite:///no/such/folder/log.db"), "is not a folder"),
        (("--store", "sqlite:///notes.txt"), "notes.txt"),
        (("--store", "sqlite:///photos"), "photos"),
        (("--predictions", "god.npy"), "god.npy is not a file"),
        (("--predictions", "photos"), "photos is not a file"),
        (("--predictions", "broken.npy"), "cannot be read"),
        (("--predictions", "notes.txt"), "is not a file that predictions can be read from"),
        (("--predictions", "three.npy"), "three.npy"),
        (("--predictions", "many.npy"), "has 9 rows for 6 items"),
        (("--encoder", "pixel"), "pixel"),
        (("--encoder", "onnx:no.onnx"), "no.onnx"),
        (("--device", "gpu"), "device must be auto, cpu or cuda"),
        (("--learner", "moderne"), "there is no learner"),
        (("--classes-file", "no.txt", "--classes", ""), ""),
        (("--audit-share", "0.9"), "audit_share must be"),
        (("--agreement-share", "-1"), "agreement_share must be"),
        (("--lease-minutes", "0"), "lease_seconds must be"),
        (("--retrain-growth", "1"), "retrain_growth must be"),
        (("--retrain-at-most", "0"), "retrain_at_most must be"),
        (("--basis-size", "0"), "basis_size must be"),
        (("--seed", "-1"), "seed must be"),
        (("--columns", "colour=x"), "has no columns"),
        (("--project", "photos/inside"), "lies in photos"),
        (("--project", "good.npy"), "is a file"),
        (("--host", "no.such.host.invalid"), "is not an address of this machine"),
        (("--host", "0.0.0.0"), "--annotators"),
        (("--annotators", "a,a"), "names that differ"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_option_leaves_nothing_behind(here: Path, options: tuple[str, ...], said: str) -> None:
    assert said in refused(here, *options)


def test_a_taken_port_leaves_nothing_behind(here: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "give another --port" in refused(here, "--port", taken.getsockname()[1])


def test_the_log_of_another_project_is_not_taken_over(here: Path) -> None:
    other = EventLog.open(sqlite_url(here / "other.db"))
    other.append(Event("labelled", 1, "ann", data={"label": 0}))
    other.close()
    assert "holds the log of a project already" in refused(here, "--store", "sqlite:///other.db")
    sqlite3.connect(here / "empty.db").close()
    assert "photos" in refused(here, "--store", "sqlite:///empty.db", "--predictions", "photos")


def test_a_database_that_is_not_there_or_forbids_it_is_left_alone(here: Path, cluster: postgres.Cluster) -> None:
    url = cluster.url("no_such_database")
    assert "no_such_database" in refused(here, "--store", url)
    assert "god.npy" in refused(here, "--store", cluster.url(), "--predictions", "god.npy")
    assert "understudy_" not in " ".join(schemas(cluster))


def schemas(cluster: postgres.Cluster) -> list[str]:
    import psycopg

    with psycopg.connect(cluster.url()) as connection:
        return [row[0] for row in connection.execute("SELECT nspname FROM pg_namespace").fetchall()]
