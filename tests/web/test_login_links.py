"""Personal links: the owner comes in from wherever the link stood, and nobody becomes another without being asked."""

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.web import browser
from tests.web.serving import Served, served
from understudy.sessions.session import Session
from understudy.web.access import Access
from understudy.web.tokens import Tokens

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

chromium = browser.chromium


@pytest.fixture
def people(session: Session, tmp_path: Path) -> Iterator[Served]:
    """With a link for ann, and one for somebody whose name would be a tag."""
    tokens = Tokens(tmp_path)
    names = ("ann", "<b>")
    links = tokens.links_for(names)
    with served(session, Access(tokens=tokens, annotators=names)) as running:
        running.tokens = {name: str(token) for name, token in links.items()}
        yield running


def who(client: httpx.Client) -> str | None:
    answer = client.get("/api/me")
    return answer.json()["annotator"] if answer.status_code == 200 else None


def next_address(page: httpx.Response) -> str:
    """Where a page leads on to by itself."""
    found = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', page.text)
    assert found is not None, page.text
    return found.group(1).replace("&amp;", "&")


@pytest.mark.parametrize("site", [{}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}])
def test_a_link_from_elsewhere_lets_its_owner_in_with_one_step_between(people: Served, site: dict[str, str]) -> None:
    first = people.client.get(f"/?token={people.tokens['ann']}", headers=site)
    assert first.status_code == 200
    assert who(people.client) is None  # not yet: there may be a cookie that was not sent
    ours = {"Sec-Fetch-Site": "same-origin"} if site else {}
    second = people.client.get(next_address(first), headers=ours)
    assert (second.status_code, second.headers["location"]) == (303, "/")
    assert who(people.client) == "ann"


def test_a_browser_without_cookies_is_not_sent_round_and_round(people: Served) -> None:
    address = next_address(httpx.get(f"{people.url}/?token={people.tokens['ann']}", timeout=None))
    stopped = httpx.get(people.url + address, timeout=None)
    assert "needs cookies" in stopped.text
    assert "refresh" not in stopped.text


def test_nobody_becomes_another_without_being_asked(people: Served) -> None:
    typed = {"Sec-Fetch-Site": "none"}
    people.client.get(f"/?token={people.tokens['ann']}", headers=typed)
    link = f"/?token={people.tokens['<b>']}"
    asked = people.client.get(link, headers=typed)
    assert asked.status_code == 200
    assert "set-cookie" not in asked.headers
    assert "labels as ann" in asked.text
    assert "&lt;b&gt;" in asked.text
    assert "<b>" not in asked.text
    people.client.get(f"{link}&instead=ann", headers={"Sec-Fetch-Site": "cross-site"})
    assert who(people.client) == "ann"  # the answer is not another site's to give
    assert people.client.get(f"{link}&instead=ann", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303
    assert who(people.client) == "<b>"


def test_the_cookie_of_a_login_is_no_link(behind_password: Served) -> None:
    body = {"annotator": "gil", "password": "open sesame"}
    cookie = behind_password.client.post("/api/login", json=body).cookies
    answer = httpx.get(f"{behind_password.url}/?token={next(iter(cookie.values()))}", timeout=None)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


@pytest.fixture
def other_site(people: Served) -> Iterator[str]:
    """A page of another site with both links on it."""
    page = "".join(f'<a id="{i}" href="{people.url}/?token={t}">x</a>' for i, t in enumerate(people.tokens.values()))

    class Links(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    elsewhere = HTTPServer(("127.0.0.1", 0), Links)
    thread = threading.Thread(target=elsewhere.serve_forever)
    thread.start()
    yield f"http://localhost:{elsewhere.server_port}"  # another site than 127.0.0.1
    elsewhere.shutdown()
    thread.join()
    elsewhere.server_close()


def test_in_a_browser_a_link_on_another_site_works_and_then_asks(
    chromium: "Browser", people: Served, other_site: str
) -> None:
    context = chromium.new_context()
    page = context.new_page()

    def follow(number: int) -> None:
        page.goto(other_site)
        page.click(f"[id='{number}']")

    follow(0)
    page.wait_for_url(f"{people.url}/")
    assert me(page) == "ann"
    follow(1)
    page.get_by_text("This browser labels as ann").wait_for()
    assert me(page) == "ann"
    page.get_by_text("Go on as <b>").click()
    page.wait_for_url(f"{people.url}/")
    assert me(page) == "<b>"
    context.close()


def me(page: "Page") -> object:
    return page.evaluate("fetch('/api/me').then(answer => answer.json()).then(found => found.annotator)")
