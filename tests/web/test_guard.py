"""Hosts, other sites, bodies, methods: what the guard refuses before anything else hears of it."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from tests.web.serving import Served
from understudy.web import guard
from understudy.web.guard import MAX_BODY_BYTES, Guard

LABEL = {"item": 1, "label": 3, "annotator": "ann", "key": "guard"}


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "a@localhost", "", "["])
def test_a_host_that_is_not_ours_is_refused(server: Served, host: str) -> None:
    for path in ("/api/status", "/", "/openapi.json", "/nothing"):
        assert server.client.get(path, headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST:1"])
def test_the_names_of_this_machine_are_heard(server: Served, host: str) -> None:
    assert server.client.get("/api/status", headers={"Host": host}).status_code == 200


def test_two_hosts_or_none_are_refused(server: Served) -> None:
    for head in ("", "Host: localhost\r\nHost: evil.example\r\n"):
        answer = raw(server, f"GET /api/status HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
        assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_other_sites_may_not_even_read(server: Served, site: str) -> None:
    for path in ("/api/status", "/api/items/0/content", "/api/live", "/openapi.json"):
        assert server.client.get(path, headers={"Sec-Fetch-Site": site}).status_code == 403
    assert server.client.post("/api/labels", json=LABEL, headers={"Sec-Fetch-Site": site}).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "file://", "", "https://"])
def test_a_page_of_another_origin_changes_nothing(server: Served, origin: str) -> None:
    answer = server.client.post("/api/labels", json=LABEL | {"key": "origin"}, headers={"Origin": origin})
    assert answer.status_code == 403


def test_our_own_page_is_heard(server: Served) -> None:
    headers = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    assert server.client.post("/api/next", json={"annotator": "ann"}, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "a/b/c"]
)
def test_what_a_form_of_another_site_could_send_is_refused(server: Served, kind: str) -> None:
    answer = server.client.post("/api/next", content=b'{"annotator": "ann"}', headers={"Content-Type": kind})
    assert answer.status_code == 415
    assert "access-control-allow-origin" not in answer.headers


def test_a_large_body_is_refused_whether_its_size_is_said_or_not(server: Served) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(20):
            yield b" " * 8192

    headers = {"Content-Type": "application/json"}
    for content in (b" " * (MAX_BODY_BYTES + 1), b" " * (10 * MAX_BODY_BYTES), chunks()):
        assert server.client.post("/api/next", content=content, headers=headers).status_code == 413
    fits = b'{"annotator": "ann"' + b" " * (MAX_BODY_BYTES - 20) + b"}"
    assert server.client.post("/api/next", content=fits, headers=headers).status_code == 200


def test_a_body_without_end_is_refused_in_the_middle(server: Served) -> None:
    head = b"POST /api/next HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with connection(server) as line:
        line.sendall(head)
        try:
            for _ in range(200):
                line.sendall(chunk)
        except OSError:
            pass  # the server hung up, as it should
        else:
            pytest.fail("a body of 13 MB was read to its end")


@pytest.mark.parametrize("method", ["OPTIONS", "HEAD", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"])
def test_other_methods_are_not_known(server: Served, method: str) -> None:
    for path in ("/api/status", "/api/labels", "/api/items/0/content"):
        answer = server.client.request(method, path)
        assert answer.status_code == 405
        assert answer.headers["allow"] in ("GET", "POST")


def test_posting_to_what_is_only_read_is_not_known_whatever_is_sent(server: Served) -> None:
    for path in ("/api/status", "/api/items/0", "/api/items/0/content"):
        assert server.client.post(path).status_code == 405
        assert server.client.post(path, json={}).status_code == 405


def test_every_answer_carries_the_strict_headers(server: Served) -> None:
    answers = [
        server.client.get("/"),
        server.client.get("/api/status"),
        server.client.get("/nothing"),
        server.client.get("/api/items/0/content"),
        server.client.get("/api/status", headers={"Host": "evil.example"}),
        server.client.post("/api/next", json={}),
        server.client.post("/api/next", content=b" " * 70_000, headers={"Content-Type": "application/json"}),
    ]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "server" not in answer.headers
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert server.client.get("/api/status").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        "/api/items/../../etc/passwd",
        "/api/items/%2e%2e/%2e%2e/etc/passwd/content",
        "/api/items/..%2f..%2fetc%2fpasswd/content",
        "/assets/../../../etc/passwd",
        "/assets/%2e%2e/%2e%2e/app.py",
        "/%2e%2e/app.py",
        "/../app.py",
        "//etc/passwd",
        "/etc/passwd",
        "/index.html%00",
        "/static/index.html",
        "/api/items/0/content/../../../app.py",
        "/docs",
        "/redoc",
        "/.env",
    ],
)
def test_no_path_leads_out(server: Served, path: str) -> None:
    answer = raw(server, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.split(b" ", 2)[1] in (b"404", b"422")
    assert b"root:" not in answer
    assert b"import" not in answer


def test_an_error_that_nobody_thought_of_is_one_plain_line(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret of the inside")

    monkeypatch.setattr(server.app.state.holder.session, "progress", broken)
    answer = server.client.get("/api/progress")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "secret of the inside" in caplog.text


def test_no_line_of_the_terminal_is_written_by_a_client(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(Guard, "refuse", broken)
    answer = server.client.get("/a%0Aunderstudy:%20all%20is%20well%1B%5B2J")
    assert answer.status_code == 500
    assert caplog.messages == ["GET /a\\nunderstudy: all is well\\x1b[2J failed"]


def test_a_body_that_does_not_arrive_is_not_waited_for(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.2)
    monkeypatch.setattr(guard, "IMPORT_SECONDS", 0.2)
    for path, kind in (("/api/next", "application/json"), ("/api/import?annotator=ann", "application/octet-stream")):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: 100\r\n\r\n"
        answer = raw(server, head.encode() + b'{"annotator"')
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"0.2 seconds" in answer


def connection(server: Served) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname or "", parts.port or 0))


def raw(server: Served, request: bytes) -> bytes:
    """An answer to bytes that no well-behaved client sends."""
    with connection(server) as line:
        line.sendall(request)
        answer = b""
        while part := line.recv(65536):
            answer += part
        return answer


def test_a_client_of_httpx_is_a_program_like_any_other(server: Served) -> None:
    assert httpx.get(f"{server.url}/api/me", timeout=None).json() == {
        "annotator": None, "person": None, "role": "owner", "login": False, "fixed": False,
        "several": None,
    }  # fmt: skip
