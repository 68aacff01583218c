"""HTTPS by certificate files: what is refused before anything is made, and what is served, also to slow clients."""

import contextlib
import socket
import ssl
import subprocess
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.waiting import wait_until
from tests.web.own_certificates import make_certificate
from tests.web.serving import Served, served
from tests.web.test_connections import wait_until_hung_up
from tests.web.test_guard import connection
from understudy.cli import app as command
from understudy.errors import UsageError
from understudy.sessions.session import Session
from understudy.web import certificates, connections
from understudy.web.access import Access
from understudy.web.certificates import Certificate, RenewedContext, find_certificate, validity_of
from understudy.web.tokens import Tokens

REQUEST = b"GET /api/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def secure(session: Session, own: Certificate) -> Iterator[Served]:
    with served(session, certificate=own) as running:
        yield running


def test_a_certificate_with_its_key_is_found_also_in_one_file(own: Certificate, tmp_path: Path) -> None:
    assert find_certificate(None, None) is None
    assert find_certificate(own.certfile, own.keyfile) == own
    both = tmp_path / "both.pem"
    both.write_bytes(own.certfile.read_bytes() + own.keyfile.read_bytes())
    assert find_certificate(both, None) == Certificate(both, both)


def test_its_dates_are_those_that_openssl_reads(own: Certificate) -> None:
    shown = subprocess.run(
        ["openssl", "x509", "-in", str(own.certfile), "-noout", "-startdate", "-enddate"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    dates = [line.partition("=")[2].strip() for line in shown.splitlines()]
    read = [datetime.strptime(date, "%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC) for date in dates]
    assert list(validity_of(own.certfile)) == read


def faulty_files(folder: Path) -> dict[str, tuple[Path | None, Path | None, str | None, str]]:
    """Files and a password that do not go together, with the words that say so."""
    own, other = make_certificate(folder, "own"), make_certificate(folder, "other")
    locked = make_certificate(folder, "locked", "open sesame")
    text = folder / "notes.txt"
    text.write_text("nothing of the kind")
    torn = folder / "torn.pem"
    torn.write_text(own.certfile.read_text()[:200] + "\n-----END CERTIFICATE-----\n")
    return {
        "missing": (folder / "gone.pem", own.keyfile, None, "--certfile .*gone.pem cannot be read"),
        "a folder": (folder, own.keyfile, None, "cannot be read"),
        "missing key": (own.certfile, folder / "gone.key", None, "--keyfile .*gone.key cannot be read"),
        "not a certificate": (text, own.keyfile, None, "notes.txt is not a certificate in PEM"),
        "torn": (torn, own.keyfile, None, "torn.pem is not a certificate"),
        "not a key": (own.certfile, text, None, "no private key"),
        "no key": (own.certfile, None, None, "no private key .* --keyfile"),
        "another key": (own.certfile, other.keyfile, None, "does not belong to"),
        "encrypted": (locked.certfile, locked.keyfile, None, "UNDERSTUDY_KEY_PASSWORD"),
        "another password": (locked.certfile, locked.keyfile, "wrong", "does not open the key"),
        "key alone": (None, own.keyfile, None, "give the certificate as --certfile"),
    }


def test_files_that_cannot_be_used_are_said_in_one_line(tmp_path: Path) -> None:
    for name, (certfile, keyfile, password, words) in faulty_files(tmp_path).items():
        with pytest.raises(UsageError, match=words) as error:
            find_certificate(certfile, keyfile, password)
        assert "\n" not in str(error.value), name
    locked = Certificate(tmp_path / "locked.pem", tmp_path / "locked.key", "open sesame")
    assert "sesame" not in repr(locked)
    assert locked.make_context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_certificate_that_has_ended_or_not_begun_is_refused(
    own: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, ends = validity_of(own.certfile)
    for now, words in ((ends + timedelta(1), "ended on"), (starts - timedelta(1), "valid only from")):
        monkeypatch.setattr(certificates, "time_now", lambda now=now: now)
        with pytest.raises(UsageError, match=words):
            own.make_context()
    for now, lines in ((ends - timedelta(1), 1), (starts, 0)):
        monkeypatch.setattr(certificates, "time_now", lambda now=now: now)
        assert len([*own.warnings()]) == lines


def test_a_wrong_certificate_leaves_no_project(tmp_path: Path) -> None:
    options = ["--demo", "--project", str(tmp_path / "p"), "--no-browser", "--certfile", str(tmp_path / "gone.pem")]
    with pytest.raises(UsageError, match="cannot be read"):
        command(["label", *options], standalone_mode=False)
    assert not (tmp_path / "p").exists()


def test_calls_are_answered_over_tls_and_only_over_tls(secure: Served) -> None:
    assert secure.url.startswith("https://")
    headers = {"Origin": secure.url}
    assert secure.client.post("/api/next", json={"annotator": "ann"}, headers=headers).status_code == 200
    answer = secure.client.get("/api/status")
    assert "strict-transport-security" not in answer.headers  # it would hold for every port of this name
    with secure.client.stream("GET", "/api/live") as stream:
        assert next(stream.iter_lines()).startswith("retry")
    with pytest.raises(httpx.HTTPError):
        httpx.get(secure.url.replace("https", "http"), timeout=None)
    assert secure.client.get("/api/status").status_code == 200


def test_an_old_tls_is_refused(secure: Served) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with connection(secure) as line, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(line).recv(1)


def test_a_cookie_given_over_tls_is_sent_over_tls_only(session: Session, own: Certificate, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    token = tokens.links_for(["ann"])["ann"]
    with served(session, Access(tokens=tokens, annotators=("ann",)), certificate=own) as running:
        answer = running.client.get(f"/?token={token}", headers={"Sec-Fetch-Site": "none"})
        assert "; Secure" in answer.headers["set-cookie"]
        assert running.client.get("/api/me").json()["annotator"] == "ann"


def test_a_handshake_that_does_not_come_is_not_waited_for(
    session: Session, own: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS", 0.3)
    with served(session, certificate=own) as running:
        for said in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"):
            with connection(running) as line:
                line.sendall(said)
                wait_until_hung_up(line)
        wait_until(lambda: not running.server.server_state.connections)
        assert running.client.get("/api/status").status_code == 200


def test_a_head_that_does_not_come_over_tls_is_not_waited_for(
    session: Session, own: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    with served(session, certificate=own) as running, encrypted(running, own) as line:
        line.sendall(b"GET /api")
        wait_until_hung_up(line)


def test_connections_count_before_they_are_encrypted(
    session: Session, own: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_FROM_LOOPBACK", 5)
    with served(session, certificate=own) as running:
        with contextlib.ExitStack() as lines:
            crowd = [lines.enter_context(connection(running)) for _ in range(5)]
            wait_until(lambda: len(running.server.server_state.connections) == 5)
            with connection(running) as sixth:
                wait_until_hung_up(sixth)
            assert all(is_open(line) for line in crowd)
        wait_until(lambda: not running.server.server_state.connections)
        assert running.client.get("/api/status").status_code == 200


def is_open(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        return line.recv(1) != b""
    except BlockingIOError:
        return True


@contextlib.contextmanager
def encrypted(running: Served, own: Certificate) -> Iterator[ssl.SSLSocket]:
    context = ssl.create_default_context(cafile=str(own.certfile))
    with connection(running) as line, context.wrap_socket(line, server_hostname="127.0.0.1") as secured:
        yield secured


def test_a_request_that_comes_with_the_last_words_of_the_handshake_is_heard(secure: Served, own: Certificate) -> None:
    context = ssl.create_default_context(cafile=str(own.certfile))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    speaker = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    parts = urlsplit(secure.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as line:
        while True:
            try:
                speaker.do_handshake()
                break
            except ssl.SSLWantReadError:
                line.sendall(outgoing.read())
                incoming.write(line.recv(65536))
        speaker.write(REQUEST)
        line.sendall(outgoing.read())  # the end of the handshake and the request at once
        answer = b""
        while b"\r\n\r\n" not in answer:
            try:
                answer += speaker.read(65536)
            except ssl.SSLWantReadError:
                incoming.write(line.recv(65536))
    assert answer.startswith(b"HTTP/1.1 200")


def test_renewed_files_are_taken_up_and_broken_ones_are_not(
    session: Session, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own, renewed = make_certificate(tmp_path, "own"), make_certificate(tmp_path / "new", "renewed")
    first = own.certfile.read_text()
    with served(session, certificate=own) as running:
        assert certificate_of(running).split() == first.split()
        replace_file(own.certfile, renewed.certfile)  # only half of the pair
        assert certificate_of(running).split() == first.split()
        assert "does not belong to" in caplog.text
        replace_file(own.keyfile, renewed.keyfile)
        assert certificate_of(running).split() == renewed.certfile.read_text().split()
        own.keyfile.unlink()
        assert certificate_of(running).split() == renewed.certfile.read_text().split()
        assert "cannot be read" in caplog.text
        with httpx.Client(verify=ssl.create_default_context(cafile=str(renewed.certfile)), timeout=None) as client:
            assert client.get(f"{running.url}/api/status").status_code == 200


def certificate_of(running: Served) -> str:
    parts = urlsplit(running.url)
    return ssl.get_server_certificate((parts.hostname or "", parts.port or 0))


def replace_file(path: Path, by: Path) -> None:
    """As a program that renews certificates does it: the file is there whole, or not at all."""
    draft = path.with_suffix(".draft")
    draft.write_bytes(by.read_bytes())
    draft.replace(path)


def test_a_context_is_made_anew_only_when_a_file_changed(own: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Certificate] = []
    make: Callable[[Certificate], ssl.SSLContext] = Certificate.make_context

    def noted(each: Certificate) -> ssl.SSLContext:
        made.append(each)
        return make(each)

    monkeypatch.setattr(Certificate, "make_context", noted)
    context = RenewedContext(own)
    context.look()
    context.look()
    assert len(made) == 1
