"""Tokens, passwords, names: nobody comes in without, and nobody acts as another."""

import json
import socket
import stat
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import iter_route_contexts

from tests.web.serving import Served, opened, served
from understudy.errors import UnderstudyError, UsageError
from understudy.sessions.log.events import Event
from understudy.sessions.session import Session
from understudy.web.access import (
    Access,
    Tries,
    access_for,
    allowed_hosts,
    check_access,
    check_names,
    client_network,
    is_loopback,
    name_in,
)
from understudy.web.app import create_app
from understudy.web.tokens import Tokens


def every_call(app: Any) -> list[tuple[str, str]]:
    """All calls there are, with an item filled in: a new one cannot be forgotten. The page's files need no token."""
    found = [(method, route.path) for route in iter_route_contexts(app.routes) for method in route.methods or ()]
    return [(method, str(path).replace("{item}", "0")) for method, path in found if path not in app.state.page]


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer", "Basic YW5uOmE=", "Bearer \xe4"])
def test_every_call_is_refused_without_the_right_token(team: Served, header: str | None) -> None:
    calls = every_call(team.app)
    assert len(calls) > 25
    for method, path in calls:
        headers = {"Content-Type": "application/json"}
        if header is not None:
            headers["Authorization"] = header
        request = team.client.build_request(
            method, path, headers=[(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        )
        answer = team.client.send(request)
        assert answer.status_code == 401, (method, path, answer.text)
        assert method == "HEAD" or list(answer.json()) == ["detail"]


def test_a_token_in_the_query_opens_the_page_only(team: Served) -> None:
    token = team.tokens["ann"]
    assert team.client.get(f"/api/status?token={token}").status_code == 401
    answer = team.client.get(f"/?token={token}", headers={"Sec-Fetch-Site": "none"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    with_cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
    team.client.cookies.clear()
    assert team.client.get("/api/me", headers=with_cookie).json() == {
        "annotator": "ann", "person": "ann", "role": "owner", "login": False, "fixed": True,
        "several": None,
    }  # fmt: skip
    assert team.client.get("/api/items/0/content", headers=with_cookie).status_code == 200
    assert team.client.get("/?token=wrong").status_code == 401
    assert "set-cookie" not in team.client.get("/?token=wrong").headers


def test_no_call_takes_the_name_of_another(team: Served) -> None:
    """Every call that names an annotator, in its body or its query, found by its own description.

    What others did an owner may read; test_roles.py sees to who else may not.
    """
    described = team.client.get("/openapi.json", headers=team.bearer("ann")).json()
    tried = 0
    for path, methods in described["paths"].items():
        for method, call in methods.items():
            query = {p["name"] for p in call.get("parameters", []) if p["in"] == "query"}
            body = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            fields = described["components"]["schemas"][body["$ref"].rpartition("/")[2]] if body else {}
            if path in ("/api/login", "/api/history") or "annotator" not in query | set(fields.get("properties", {})):
                continue
            values = {"annotator": "bob", "item": 1, "items": [1], "label": 1, "key": uuid.uuid4().hex, "name": "new",
                      "what": "skipped", "labels": True, "number": 1, "into": 2, "order": [1], "change": 1,
                      "person": "ann"}  # fmt: skip
            sent = {name: value for name, value in values.items() if name in fields.get("properties", {})}
            answer = team.client.request(
                method,
                path,
                params={"annotator": "bob", "format": "csv", "label": "1"} if "annotator" in query else {},
                json=sent if body else None,
                content=None if body or method == "get" else b"id,label\n0,1\n",
                headers=team.bearer("ann") | ({} if body else {"Content-Type": "application/octet-stream"}),
            )
            assert answer.status_code == 403, (path, answer.text)
            tried += 1
    assert tried >= 15
    assert team.client.get("/api/live?annotator=bob", headers=team.bearer("ann")).status_code == 403


def test_a_token_counts_only_while_its_owner_is_let_in(session: Session, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    links = tokens.links_for(["ann", "eve"])
    with served(session, Access(tokens=Tokens(tmp_path), annotators=("ann",))) as again:
        status = {name: again.client.get("/api/status", headers={"Authorization": f"Bearer {token}"}).status_code
                  for name, token in links.items()}  # fmt: skip
    assert status == {"ann": 200, "eve": 401}


def test_links_survive_a_restart_and_are_kept_as_hashes_for_the_owner_only(tmp_path: Path) -> None:
    first = Tokens(tmp_path).links_for(["ann", "bob"])
    again = Tokens(tmp_path)
    assert again.links_for(["ann", "bob", "eve"])["ann"] is None
    assert again.owner_of_link(str(first["ann"]), ["ann", "bob"]) == "ann"
    assert again.owner_of_link(str(first["ann"]), ["bob"]) is None
    content = (tmp_path / "tokens.json").read_text()
    assert str(first["ann"]) not in content
    assert stat.S_IMODE((tmp_path / "tokens.json").stat().st_mode) == 0o600
    renewed = again.links_for(["ann"], anew=True)["ann"]
    assert again.owner_of_link(str(first["ann"]), ["ann"]) is None
    assert again.owner_of_link(str(renewed), ["ann"]) == "ann"


def test_a_spoilt_file_of_tokens_is_said_and_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text('{"format": 1}')
    with pytest.raises(UnderstudyError, match="delete it"):
        Tokens(tmp_path)
    assert (tmp_path / "tokens.json").read_text() == '{"format": 1}'


def test_a_password_lets_in_under_a_name_that_then_is_fixed(behind_password: Served) -> None:
    client = behind_password.client
    assert client.get("/api/me").json() == {
        "annotator": None, "person": None, "role": None, "login": True, "fixed": False,
        "several": None,
    }  # fmt: skip
    assert client.get("/api/status").status_code == 401
    assert client.post("/api/login", json={"annotator": "gil", "password": "wrong"}).status_code == 401
    answer = client.post("/api/login", json={"annotator": "gil", "password": "open sesame"})
    assert (answer.status_code, answer.json()) == (200, {"annotator": "gil"})
    assert client.get("/api/me").json() == {
        "annotator": "gil", "person": "gil", "role": "annotator", "login": False, "fixed": True,
        "several": None,
    }  # fmt: skip
    assert client.post("/api/next", json={"annotator": "gil"}).status_code == 200
    assert client.post("/api/next", json={"annotator": "bob"}).status_code == 403
    cookie = dict(client.cookies)
    assert client.post("/api/logout", json={}).status_code == 200
    assert client.get("/api/status").status_code == 401
    client.cookies.update(cookie)  # kept by somebody
    assert client.get("/api/status").status_code == 401


def test_logins_survive_a_restart_but_not_another_password(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.set_password("first")
    token = str(tokens.login("ann", "first"))
    again = Tokens(tmp_path)
    again.set_password("first")
    assert again.owner_of_login(token) == "ann"
    assert "first" not in (tmp_path / "tokens.json").read_text()
    other = Tokens(tmp_path)
    other.set_password("second")
    assert other.owner_of_login(token) is None
    assert other.login("ann", "first") is None
    assert json.loads((tmp_path / "tokens.json").read_text())["logins"] == {}


def test_a_link_does_not_open_where_a_password_is_wanted_nor_a_login_where_links_are(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    link = str(tokens.links_for(["ann"])["ann"])
    tokens.set_password("first")
    login = str(tokens.login("ann", "first"))
    assert Access(tokens=tokens, password=True).visitor_with(link) is None
    assert Access(tokens=tokens, annotators=("ann",)).visitor_with(login) is None


def test_behind_a_password_owners_have_links_and_nobody_logs_in_under_their_names(tmp_path: Path) -> None:
    with opened(tmp_path, people={}) as session:
        add = Event("person_added", None, "owner", "r", {"name": "rex", "role": "reviewer"})
        session.change_people(add)
        rule, links = access_for(
            tmp_path / "project", "127.0.0.1", password="open sesame", people=session.record.people
        )
        assert all(links.values())
        assert list(links) == ["owner", "rex"]
        with served(session, rule) as running:

            def log_in(name: str) -> httpx.Response:
                body = {"annotator": name, "password": "open sesame"}
                return httpx.post(f"{running.url}/api/login", json=body, timeout=None)

            def roles(token: object) -> object:
                found = running.client.get("/api/me", headers={"Authorization": f"Bearer {token}"}).json()
                return found["role"]

            assert [roles(links[name]) for name in links] == ["owner", "reviewer"]
            for name in ("owner", "rex"):
                refused = log_in(name)
                assert refused.status_code == 403
                assert "comes in by a personal link" in refused.json()["detail"]
            assert "easily taken for 'Rex'" in log_in("Rex").json()["detail"]
            gil = next(iter(log_in("gil").cookies.values()))
            assert roles(gil) == "annotator"
            assert "easily taken for Gil" in log_in("Gil").json()["detail"]  # though gil has done nothing yet
            as_gil = {"Authorization": f"Bearer {gil}"}
            assert running.client.post("/api/next", json={"annotator": "gil"}, headers=as_gil).status_code == 200
            promote = {"person": "gil", "role": "reviewer"}
            session.change_people(Event("person_changed", None, "owner", "p", promote))
            assert running.client.get("/api/status", headers=as_gil).status_code == 401  # a link is needed from now on
            session.change_people(Event("person_changed", None, "owner", "q", {"person": "gil", "role": "annotator"}))
            assert running.client.get("/api/status", headers=as_gil).status_code == 200
            session.change_people(Event("person_changed", None, "owner", "s", {"person": "gil", "retired": True}))
            refused = running.client.get("/api/status", headers=as_gil)
            assert (refused.status_code, "ask owner" in refused.json()["detail"]) == (401, True)
            assert "has retired" in log_in("gil").json()["detail"]


def test_a_link_made_on_the_page_works_after_a_restart_and_whoever_has_retired_is_not_let_in(tmp_path: Path) -> None:
    with opened(tmp_path, people={"ann": "owner", "bob": None}) as session:
        folder = tmp_path / "project"
        rule, links = access_for(folder, "127.0.0.1", annotators="ann,bob", people=session.record.people)
        with served(session, rule) as running:
            as_ann = {"Authorization": f"Bearer {links['ann']}"}
            body = {"annotator": "ann", "key": "1", "name": "eve", "role": "reviewer"}
            token = running.client.post("/api/people/add", json=body, headers=as_ann).json()["issued"]["token"]
            rename = {"annotator": "ann", "key": "2", "person": "bob", "name": "rob"}
            assert running.client.post("/api/people/change", json=rename, headers=as_ann).status_code == 200
        again, known = access_for(folder, "127.0.0.1", annotators="ann,bob", people=session.record.people)
        assert known == {"ann": None, "rob": None, "eve": None}  # none is new
        found = again.visitor_with(token)
        assert found is not None
        assert (found.name, found.role) == ("eve", "reviewer")
        assert again.visitor_with(str(links["bob"])) is not None
        retire = {"person": "bob", "retired": True}
        session.change_people(Event("person_changed", None, "ann", "3", retire))
        gone, _ = access_for(folder, "127.0.0.1", annotators="ann", people=session.record.people)
        assert gone.visitor_with(str(links["bob"])) is None
        with pytest.raises(UsageError, match=r"rob has retired .* understudy people PROJECT return rob"):
            access_for(folder, "127.0.0.1", annotators="ann,rob", people=session.record.people)


def test_roles_in_names_are_read(tmp_path: Path) -> None:
    assert check_access("127.0.0.1", "ann:owner, bob : reviewer,eve", None)[0] == {
        "ann": "owner", "bob": "reviewer", "eve": None
    }  # fmt: skip
    with pytest.raises(UsageError, match="'king' is not a role"):
        check_access("127.0.0.1", "ann:king", None)
    with pytest.raises(UsageError, match="Ann is easily taken for ann"):
        check_access("127.0.0.1", "ann,Ann", None)
    with pytest.raises(UsageError, match="write bob:owner"):
        access_for(tmp_path, "127.0.0.1", annotators="bob:reviewer")


def test_guesses_at_once_are_counted_like_guesses_in_a_row(behind_password: Served) -> None:
    def guess(number: int) -> int:
        body = {"annotator": "eve", "password": f"guess {number}"}
        return httpx.post(f"{behind_password.url}/api/login", json=body, timeout=None).status_code

    with ThreadPoolExecutor(20) as pool:
        found = Counter(pool.map(guess, range(60)))
    assert found == {401: 5, 429: 55}


def test_guessing_passwords_is_slow(behind_password: Served) -> None:
    guess = {"annotator": "eve", "password": "guess"}
    found = [behind_password.client.post("/api/login", json=guess) for _ in range(7)]
    assert [answer.status_code for answer in found] == [401] * 5 + [429] * 2
    assert int(found[-1].headers["retry-after"]) >= 1
    right = behind_password.client.post("/api/login", json=guess | {"password": "open sesame"})
    assert right.status_code == 429  # not even the right one tells an attacker anything before the wait is over


def test_each_wrong_password_makes_the_wait_longer_and_the_right_one_ends_it() -> None:
    now = [0.0]
    tries = Tries(lambda: now[0])
    waits = []
    for _ in range(14):
        assert tries.begin("a") == 0
        waits.append(tries.failures["a"][1] - now[0])
        assert waits[-1] == 0 or tries.begin("a") == waits[-1]  # a try that is not heard does not count
        now[0] += waits[-1]
    assert waits[:7] == [0, 0, 0, 0, 1, 2, 4]
    assert waits[-1] == 60
    tries.record_success("a")
    assert [tries.begin("a") for _ in range(5)] == [0] * 5
    assert tries.begin("a") > 0
    for number in range(3000):
        now[0] += 2
        assert tries.begin(str(number)) == 0
    assert len(tries.failures) == 1000


def test_many_addresses_guess_no_faster_than_sixty_a_minute() -> None:
    now = [0.0]
    tries = Tries(lambda: now[0])
    assert [tries.begin(str(number)) for number in range(60)] == [0] * 60
    assert tries.begin("another") == 60
    tries.record_success("3")  # a right one does not use it up
    assert tries.begin("another") == 0
    now[0] = 61
    assert tries.begin("and another") == 0


def test_addresses_that_one_client_has_to_itself_are_one() -> None:
    assert client_network("192.0.2.1") != client_network("192.0.2.2")
    assert client_network("::ffff:192.0.2.1") == client_network("192.0.2.1")
    assert client_network("2001:db8::1") == client_network("2001:db8::ffff:2%eth0") != client_network("2001:db8:0:1::1")
    assert client_network("::1") == "::1"
    assert client_network("no address") == "no address"


def test_no_password_is_asked_for_where_none_is_wanted(server: Served, team: Served) -> None:
    body = {"annotator": "ann", "password": "x"}
    assert server.client.post("/api/login", json=body).status_code == 404
    assert team.client.post("/api/login", json=body, headers=team.bearer("ann")).status_code == 404


def test_an_address_that_others_can_reach_needs_tokens_or_a_password() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("localhost")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("::")
    assert not is_loopback("192.0.2.1")
    for host in ("0.0.0.0", "192.0.2.1"):
        with pytest.raises(UnderstudyError, match="--annotators"):
            allowed_hosts(host, guarded=False)
    for host in ("0.0.0.0", "192.0.2.1"):
        hosts = allowed_hosts(host, guarded=True)
        assert {"localhost", socket.gethostname().lower()} <= hosts
        assert "evil.example" not in hosts
    assert "192.0.2.1" in hosts


def test_off_loopback_strangers_names_are_refused_and_addresses_are_not(tmp_path: Path) -> None:
    rule, _ = access_for(tmp_path, "0.0.0.0", annotators="ann", allow_host="label.example.org, Other.example.")
    own = socket.gethostname().lower()
    for host in (own, f"{own.partition('.')[0]}.local", "localhost:8000", "192.0.2.7:8000", "[2001:db8::1]:8000"):
        assert rule.is_host(host), host
    for host in ("label.example.org", "LABEL.example.org:443", "other.example"):
        assert rule.is_host(host), host
    for host in ("evil.example", "192.0.2.7.nip.io:8000", "x.label.example.org", "", "1.2.3", "0x7f.1"):
        assert not rule.is_host(host), host


def test_on_loopback_a_reverse_proxy_may_call_by_its_name(tmp_path: Path) -> None:
    rule, _ = access_for(tmp_path, "127.0.0.1", allow_host="label.example.org")
    assert rule.is_host("label.example.org")
    assert rule.is_host("127.0.0.1:8000")
    for host in ("evil.example", "192.0.2.7:8000"):
        assert not rule.is_host(host), host


@pytest.mark.parametrize("given", ["", "a,,b", "a:8000", "http://a", "*", "a b", "a/b", "user@a"])
def test_names_to_allow_are_checked(given: str) -> None:
    with pytest.raises(UsageError, match="host names without a port"):
        check_access("127.0.0.1", None, None, given)


def test_a_stranger_s_name_for_a_server_that_others_reach_is_refused(session: Session, tmp_path: Path) -> None:
    rule, links = access_for(tmp_path, "0.0.0.0", annotators="ann")
    bearer = {"Authorization": f"Bearer {links['ann']}"}
    with served(session, rule) as running:
        assert running.client.get("/api/status", headers=bearer).status_code == 200
        assert running.client.get("/api/status", headers=bearer | {"Host": "192.0.2.7"}).status_code == 200
        for path in ("/", "/api/status", f"/?token={links['ann']}"):
            answer = running.client.get(path, headers=bearer | {"Host": "rebound.example"})
            assert answer.status_code == 403
            assert "--allow-host" in answer.json()["detail"]


def test_the_name_in_a_host_header() -> None:
    assert name_in("Localhost:80") == "localhost"
    assert name_in("[::1]:80") == "::1"
    assert name_in("localhost.") == "localhost"
    for bad in ("a@localhost", "localhost/x", "localhost:x", "localhost?x", "[", ""):
        assert name_in(bad) == ""


def test_names_of_annotators_are_checked() -> None:
    assert check_names("ann, bob") == ("ann", "bob")
    for bad in ("ann,ann", "", "ann,,bob", "a\nb", "x" * 65):
        with pytest.raises(UnderstudyError, match="names that differ"):
            check_names(bad)


def test_an_app_without_a_rule_listens_to_loopback_names_only(session: Session) -> None:
    app = create_app(session)
    assert app.state.access.is_host("localhost:1")
    assert not app.state.access.is_host("example.org")
