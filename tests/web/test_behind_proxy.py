"""Behind a reverse proxy: with a prefix that it takes off or passes on, under another name, and believed or not."""

import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.web import browser
from tests.web.browser import desk
from tests.web.own_certificates import make_certificate
from tests.web.reverse_proxy import reverse_proxy
from tests.web.serving import Served, served
from tests.web.test_server import free_port, labelling
from understudy.errors import UsageError
from understudy.sessions.session import Session
from understudy.web import behind_proxy
from understudy.web.access import Access, Tries, access_for, check_access
from understudy.web.behind_proxy import ProxyRule, parse_proxies
from understudy.web.public_url import PublicUrl, parse_public_url
from understudy.web.tokens import Tokens

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
PUBLIC = "https://label.example.org/label/"
TRUSTING = ProxyRule(trusted=frozenset({"127.0.0.1"}))
LOGIN = {"annotator": "ann", "password": "open sesame"}


@pytest.mark.parametrize(
    ("given", "shown", "prefix"),
    [
        ("https://label.example.org/label/", "https://label.example.org/label/", "/label"),
        ("https://label.example.org/label", "https://label.example.org/label/", "/label"),
        ("https://Label.Example.org.:443", "https://label.example.org/", ""),
        ("http://workshop:8080/a/b/", "http://workshop:8080/a/b/", "/a/b"),
        ("http://[2001:db8::1]:80/", "http://[2001:db8::1]/", ""),
    ],
)
def test_a_public_address_is_taken_apart(given: str, shown: str, prefix: str) -> None:
    found = parse_public_url(given)
    assert (str(found), found.prefix) == (shown, prefix)
    assert str(parse_public_url(str(found))) == shown


@pytest.mark.parametrize(
    "given",
    [
        "", "label.example.org", "/label", "ftp://label.example.org/", "https://", "https://a b/", "https://u:p@h/",
        "https://h:x/", "https://h/?a", "https://h/#a", "https://h/a b", "https://h/../", "https://h//a", "https://h/ü",
        "https://h/api/", "https://h/p", "https://h/assets/x", "https://h/%2e",
    ],
)  # fmt: skip
def test_what_cannot_be_a_public_address_is_said_in_one_line(given: str) -> None:
    with pytest.raises(UsageError, match="--public-url") as error:
        parse_public_url(given)
    assert "\n" not in str(error.value)


def test_a_public_address_brings_its_host_and_wants_people_or_a_password(tmp_path: Path) -> None:
    public = parse_public_url(PUBLIC)
    with pytest.raises(UsageError, match="--annotators ann,bob"):
        check_access("127.0.0.1", None, None, None, public)
    check_access("127.0.0.1", None, None, None, parse_public_url("http://localhost:9000/label/"))
    rule, _ = access_for(tmp_path, "127.0.0.1", annotators="ann", public=public)
    assert rule.is_host("label.example.org")
    assert not rule.is_host("other.example.org")
    assert (rule.origin, rule.home) == ("https://label.example.org", "/label/")


@pytest.mark.parametrize("given", ["", "proxy.example.org", "10.0.0.0/8", "127.0.0.1,"])
def test_proxies_are_named_by_their_addresses(given: str) -> None:
    assert parse_proxies("127.0.0.1, ::ffff:10.0.0.1") == {"127.0.0.1", "10.0.0.1"}
    with pytest.raises(UsageError, match="--trust-proxy takes IP addresses"):
        parse_proxies(given)


@pytest.fixture(params=["takes the prefix off", "passes it on"])
def proxied(request: pytest.FixtureRequest, session: Session, tmp_path: Path) -> Iterator[tuple[Served, str, str]]:
    """A server for ann behind a proxy with HTTPS; the address of the proxy, and ann's token."""
    own = make_certificate(tmp_path)
    tokens = Tokens(tmp_path)
    token = str(tokens.links_for(["ann"])["ann"])
    public = PublicUrl("https", "", "127.0.0.1", "/label")
    rule = Access(tokens=tokens, annotators=("ann",), home="/label/")
    with served(session, rule, proxy=ProxyRule(public)) as running:
        strips = request.param == "takes the prefix off"
        with reverse_proxy(running.url, "/label", strips=strips, keeps_host=not strips, certificate=own) as url:
            running.app.app.state.access.origin = url
            trusted = ssl.create_default_context(cafile=str(own.certfile))
            running.client = httpx.Client(base_url=f"{url}/label", timeout=None, verify=trusted)
            with running.client:
                yield running, url, token


def test_links_cookies_and_addresses_have_the_prefix(proxied: tuple[Served, str, str]) -> None:
    running, url, token = proxied
    client = running.client
    led = client.get(f"{url}/label")
    assert led.status_code in (301, 307)
    assert led.headers["location"].removeprefix(url) == "/label/"
    assert client.get("/api/status").status_code == 401
    answer = client.get(f"/?token={token}", headers={"Sec-Fetch-Site": "none"})
    assert answer.headers["location"] == "/label/"
    for cookie in answer.headers.get_list("set-cookie"):
        assert "; Path=/label/;" in cookie
    assert "; Secure" in answer.headers.get_list("set-cookie")[0]
    assert client.get("/api/me").json()["annotator"] == "ann"
    assert client.get("/openapi.json").json()["servers"] == [{"url": "/label"}]
    own = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
    assert client.post("/api/next", json={"annotator": "ann"}, headers=own).status_code == 200
    other = {"Origin": "https://evil.example"}
    assert client.post("/api/next", json={"annotator": "ann"}, headers=other).status_code == 403
    with client.stream("GET", "/api/live") as stream:
        assert stream.headers["x-accel-buffering"] == "no"
        assert next(stream.iter_lines()).startswith("retry")
    assert client.post("/api/logout", json={}).headers["set-cookie"].count("Path=/label/;") == 1


def test_in_a_browser_one_labels_through_the_proxy(chromium: "Browser", proxied: tuple[Served, str, str]) -> None:
    running, url, token = proxied
    with desk(chromium, f"{url}/label/", ignore_https_errors=True) as person:
        person.page.goto(f"{url}/label/?token={token}")
        person.seen()
        before = person.labelled(0)
        person.answer("1")
        person.labelled(before + 1)
        person.page.reload()
        assert person.page.url == f"{url}/label/"
        person.seen()
        person.require_calm()
    assert running.server.server_state.total_requests > 0


def test_the_address_of_a_folder_leads_into_it_but_not_under_another_s_name(session: Session) -> None:
    public = PublicUrl("http", "localhost", "localhost", "/label")
    with served(session, proxy=ProxyRule(public)) as running:
        led = running.client.get("/label?token=x")
        assert (led.status_code, led.headers["location"]) == (307, "/label/?token=x")
        assert led.headers["x-content-type-options"] == "nosniff"
        assert running.client.get("/label", headers={"Host": "evil.example"}).status_code == 403
        assert running.client.get("/labels").status_code == 404
        assert running.client.get("/label/api/me").json() == running.client.get("/api/me").json()


def test_what_a_stranger_says_of_being_forwarded_is_not_believed(session: Session, tmp_path: Path) -> None:
    """Without a proxy that is named, everybody is who their connection is from."""
    tokens = Tokens(tmp_path)
    tokens.set_password("open sesame")
    for rule, answers in ((ProxyRule(), 429), (TRUSTING, 401)):
        access = Access(tokens=tokens, password=True, tries=Tries(lambda: 0.0))
        with served(session, access, proxy=rule) as running:
            for number in range(5):
                said = {"X-Forwarded-For": f"192.0.2.{number}", "X-Forwarded-Proto": "https"}
                wrong = LOGIN | {"password": "guess"}
                assert running.client.post("/api/login", json=wrong, headers=said).status_code == 401
            sixth = running.client.post("/api/login", json=LOGIN | {"password": "guess"}, headers=said | {
                "X-Forwarded-For": "192.0.2.9"
            })  # fmt: skip
            assert sixth.status_code == answers
    right = {"X-Forwarded-For": "192.0.2.77", "X-Forwarded-Proto": "https"}
    with served(session, replace(access, tries=Tries(lambda: 0.0)), proxy=TRUSTING) as running:
        cookie = running.client.post("/api/login", json=LOGIN | {"annotator": "gil"}, headers=right).headers[
            "set-cookie"
        ]
        assert "; Secure" in cookie


@pytest.mark.parametrize(
    ("said", "client"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("10.9.9.9, 192.0.2.1", "192.0.2.1"),  # the first of them the client wrote itself
        ("192.0.2.1, 127.0.0.1", "192.0.2.1"),
        ("192.0.2.1:4711", "192.0.2.1"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("unknown", None),
        ("192.0.2.1, nonsense", None),
        ("", None),
        ("127.0.0.1", None),
    ],
)
def test_the_client_is_the_nearest_that_is_not_a_trusted_proxy(said: str, client: str | None) -> None:
    through = behind_proxy.BehindProxy(lambda *_: None, TRUSTING)  # type: ignore[arg-type]
    scope = {"type": "http", "path": "/", "client": ("127.0.0.1", 5), "scheme": "http",
             "headers": [(b"x-forwarded-for", said.encode())]}  # fmt: skip
    seen, behind = through.seen_from_outside(scope)
    assert seen["client"][0] == (client or "127.0.0.1")
    assert (behind is None) == (client is None)
    assert scope["client"] == ("127.0.0.1", 5)


def test_one_client_behind_a_proxy_gets_only_so_many_calls_at_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(behind_proxy, "MAX_CALLS", 3)
    with served(session, proxy=TRUSTING) as running, ExitStack() as streams:
        ann, bob = {"X-Forwarded-For": "192.0.2.1"}, {"X-Forwarded-For": "192.0.2.2"}
        for _ in range(3):
            streams.enter_context(running.client.stream("GET", "/api/live", headers=ann))
        refused = running.client.get("/api/status", headers=ann)
        assert refused.status_code == 503
        assert refused.headers["x-content-type-options"] == "nosniff"
        assert running.client.get("/api/status", headers=bob).status_code == 200
        streams.close()
        done = threading.Event()
        while running.client.get("/api/status", headers=ann).status_code == 503:
            done.wait(0.05)


def test_the_whole_command_behind_a_proxy(tmp_path: Path) -> None:
    options = ("--port", str(free_port()), "--public-url", PUBLIC, "--annotators", "ann", "--trust-proxy", "127.0.0.1")
    with labelling(tmp_path / "project", *options) as (process, url):
        assert url == PUBLIC
        assert process.stdout is not None
        link, way = process.stdout.readline(), process.stdout.readline()
        assert re.search(r"ann: https://label\.example\.org/label/\?token=\S+ +\(owner\)$", link.strip())
        found = re.search(r"the proxy finds it at (http://127\.0\.0\.1:\d+/)", way)
        assert found is not None
        outside = {"Host": "label.example.org", "Authorization": f"Bearer {link.partition('token=')[2].split()[0]}"}
        answer = httpx.get(f"{found[1]}label/api/me", headers=outside, timeout=None)
        assert answer.json()["annotator"] == "ann"
