"""Connections that say nothing, too little, or come in crowds, keep nobody out."""

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from tests.web.serving import Served, served
from tests.web.test_guard import connection, raw
from understudy.sessions.session import Session
from understudy.web import connections

HEAD = b"GET /api/status HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def impatient(session: Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server that waits half a second for a head, and bears five connections of this machine."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(connections, "MAX_FROM_LOOPBACK", 5)
    with served(session) as running:
        yield running


def wait_until_hung_up(line: socket.socket) -> None:
    line.settimeout(None)
    with contextlib.suppress(ConnectionResetError):
        while line.recv(65536):
            pass


@pytest.mark.parametrize(
    "said", [b"", b"G", HEAD, HEAD + b"\r\nGET", HEAD.replace(b"api/status", b"nothing") + b"\r\nG"]
)
def test_a_head_that_does_not_come_is_not_waited_for(impatient: Served, said: bytes) -> None:
    with connection(impatient) as line:
        line.sendall(said[:-1])
        with contextlib.suppress(OSError):  # it has hung up already
            time.sleep(0.1)
            line.sendall(said[-1:])
        wait_until_hung_up(line)


def test_a_head_that_begins_while_another_is_answered_is_not_waited_for_either(impatient: Served) -> None:
    with connection(impatient) as line:
        line.sendall(HEAD + b"\r\nG")
        wait_until_hung_up(line)


def is_heard(line: socket.socket, said: bytes) -> bool:
    """Whether all of this, slowly said, is taken."""
    try:
        for sign in said:
            line.sendall(bytes([sign]))
            time.sleep(0.1)
    except OSError:
        return False
    return True


def test_one_byte_at_a_time_gets_no_more_time(impatient: Served) -> None:
    with connection(impatient) as line:
        assert not is_heard(line, HEAD)


def test_a_body_that_nobody_wants_is_not_listened_to(impatient: Served) -> None:
    head = b"POST /nothing HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1000\r\n\r\n"
    with connection(impatient) as line:
        line.sendall(head)
        assert not is_heard(line, b" " * 30)


def test_a_connection_that_is_used_stays_and_a_long_answer_is_not_cut(impatient: Served) -> None:
    for _ in range(4):
        assert impatient.client.get("/api/status").status_code == 200
        time.sleep(0.3)
    assert impatient.server.server_state.total_requests == 4
    assert len(impatient.server.server_state.connections) == 1
    with impatient.client.stream("GET", "/api/live") as stream:
        pieces = stream.iter_bytes()
        assert next(pieces)
        time.sleep(1.0)
        assert len(impatient.server.server_state.connections) == 1


def test_a_crowd_of_silent_connections_keeps_nobody_out_for_long(impatient: Served) -> None:
    with contextlib.ExitStack() as lines:
        crowd = [lines.enter_context(connection(impatient)) for _ in range(40)]
        answer = raw_or_nothing(impatient)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 503")
        for line in crowd:
            wait_until_hung_up(line)
        assert impatient.client.get("/api/status").status_code == 200


def raw_or_nothing(server: Served) -> bytes:
    try:
        return raw(server, HEAD + b"\r\n")
    except ConnectionError:
        return b""


def test_what_is_refused_before_it_is_read_carries_the_strict_headers(impatient: Served) -> None:
    answers = [raw(impatient, b"nothing of HTTP\r\n\r\n")]
    with contextlib.ExitStack() as lines:
        for _ in range(5):
            lines.enter_context(connection(impatient))
        with connection(impatient) as sixth:  # says nothing, so nothing of the answer is lost
            answers.append(sixth.recv(65536))
    assert [answer.split(b" ")[1] for answer in answers] == [b"400", b"503"]
    for answer in answers:
        assert b"X-Content-Type-Options: nosniff" in answer
        assert b"default-src 'none'" in answer
        assert b'{"detail": "' in answer


def test_other_machines_get_fewer_connections_each_than_this_one() -> None:
    assert connections.max_connections_of("127.0.0.1") == connections.max_connections_of("::1") == 128
    assert connections.max_connections_of("192.0.2.1") == connections.max_connections_of("2001:db8::/64") == 64
