"""The command itself: a port, an address, two servers at once, and a clean end."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.waiting import wait_until
from understudy.cli import app
from understudy.errors import UnderstudyError
from understudy.projects.opening import create_or_open
from understudy.sessions.opening import open_session
from understudy.web.access import Access
from understudy.web.server import Address, announce, base_url, first_lines, listen, make_server, own_address
from understudy.web.session_holder import SessionHolder

UNDERSTUDY = [str(Path(sys.executable).with_name("understudy"))]


@contextmanager
def labelling(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command on the demo in a process of its own, with the address that it prints."""
    command = [*UNDERSTUDY, "label", "--demo", "--project", str(folder), "--no-browser", "--basis-size", "50", *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield process, address_of(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"label at (https?://\S+)", line):
            return found.group(1)
    assert process.stderr is not None
    pytest.fail(f"no address: {process.stderr.read()}")


def wait_until_ready(url: str) -> None:
    with httpx.Client(base_url=url, timeout=None) as client:  # to make one takes longer than to ask
        wait_until(lambda: client.get("api/status").json()["phase"] == "ready")


def test_a_signal_ends_it_cleanly_and_what_was_said_is_there_again(tmp_path: Path) -> None:
    with labelling(tmp_path / "p", "--port", str(free_port())) as (process, url):
        wait_until_ready(url)
        body = {"item": 7, "label": 3, "annotator": "ann", "key": "k"}
        assert httpx.post(f"{url}api/labels", json=body, timeout=None).json()["labelled"] == 1
        with httpx.stream("GET", f"{url}api/live?annotator=ann", timeout=None) as stream:
            lines = stream.iter_lines()
            next(lines)
            end_with(process, signal.SIGINT)
    with labelling(tmp_path / "p", "--port", str(free_port())) as (process, url):
        wait_until_ready(url)
        assert httpx.get(f"{url}api/items/7", timeout=None).json()["label"] == 3
        second = run("label", str(tmp_path / "p"), "--no-browser")
        assert second.returncode == 1
        assert "label at" not in second.stdout
        assert second.stderr.startswith("understudy: ")
        assert second.stderr.count("\n") == 1
        assert httpx.get(f"{url}api/status", timeout=None).status_code == 200  # and the first goes on
        end_with(process, signal.SIGTERM)


def test_a_second_ctrl_c_ends_it_no_differently() -> None:
    server = make_server(SessionHolder(name="p", kind="image"), Access())
    for _ in range(2):
        server.stop(signal.SIGINT, None)
    assert server.should_exit
    assert not server.force_exit  # which would end the app in the middle, with a traceback


def end_with(process: subprocess.Popen[str], number: signal.Signals) -> None:
    process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == 0
    assert "every answer is stored" in out
    assert err == ""


def test_others_get_in_with_their_links_only(tmp_path: Path) -> None:
    port = free_port()
    options = ("--port", str(port), "--host", "0.0.0.0", "--annotators", "ann,bob")
    with labelling(tmp_path / "p", *options) as (process, _):
        assert process.stdout is not None
        links = dict(re.findall(r"(\w+): \S+token=(\S+)", process.stdout.readline() + process.stdout.readline()))
        assert set(links) == {"ann", "bob"}
        url = f"http://127.0.0.1:{port}/"
        assert httpx.get(f"{url}api/status", timeout=None).status_code == 401
        ann = {"Authorization": f"Bearer {links['ann']}"}
        assert httpx.get(f"{url}api/me", headers=ann, timeout=None).json()["annotator"] == "ann"
    assert not (tmp_path / "p" / "tokens.json").stat().st_mode & 0o077


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "PATH, or --demo"),
        (("--demo", "--host", "0.0.0.0"), "--annotators ann,bob"),
        (("--demo", "--host", "no.such.host.invalid"), "not an address of this machine"),
        (("--demo", "--annotators", "a,b", "--password", "x"), "not both"),
        (("--demo", "--annotators", "a,a"), "names that differ"),
        (("no/such/folder",), "no/such/folder"),
    ],
)
def test_a_call_that_cannot_work_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], words: str
) -> None:
    monkeypatch.delenv("UNDERSTUDY_PASSWORD", raising=False)
    where = ("--project", str(tmp_path / "p")) if options else ()
    with pytest.raises(UnderstudyError, match=words) as error:
        app(["label", *options, *where, "--no-browser"], standalone_mode=False)
    assert "\n" not in str(error.value)


def test_a_taken_port_is_said_and_without_one_the_next_is_tried() -> None:
    with listen(Address(port=0)) as first:
        taken = first.getsockname()[1]
        with pytest.raises(UnderstudyError, match=rf"port {taken} of 127\.0\.0\.1 .*another --port"):
            listen(Address(port=taken))
        with listen(Address(), range(taken, taken + 11)) as second:
            assert taken < second.getsockname()[1] <= taken + 10
        with pytest.raises(UnderstudyError, match="none of the ports"):
            listen(Address(), [taken])


def test_an_answer_is_sent_at_once_and_not_held_back_until_there_is_more() -> None:
    with listen(Address(port=0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # asyncio looks at it before it sets TCP_NODELAY


def test_a_project_without_classes_says_so_first(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("red\nblue\ngreen\n")
    for classes, first in (((), "there are no classes yet; add them on the page"), (("a", "b"), "1 random audit item")):
        project = create_or_open(tmp_path / "lines.txt", project=tmp_path / first[:3], classes=classes, encoder="words")
        session = open_session(project)
        assert next(first_lines(session)).startswith(first)
        session.close()


def test_links_are_printed_once_and_then_only_remembered() -> None:
    lines: list[str] = []
    announce("http://127.0.0.1:8000/", {"ann": "secret", "bob": None}, lines.append)
    assert "http://127.0.0.1:8000/?token=secret" in lines[1]
    assert "--new-links" in lines[2]


def test_an_address_as_people_type_it() -> None:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port = some.getsockname()[1]
        assert base_url(some, "127.0.0.1") == f"http://127.0.0.1:{port}/"
        assert base_url(some, "::1") == f"http://[::1]:{port}/"
        assert base_url(some, "0.0.0.0") == f"http://{own_address()}:{port}/"


def free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return int(some.getsockname()[1])


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "UNDERSTUDY_PASSWORD"}
    return subprocess.run([*UNDERSTUDY, *arguments], capture_output=True, text=True, env=environment)
