"""Calls of Label Studio: tokens, errors in one line, and files. What it answers is as 1.23.2 answers."""

import base64
import sys
from collections.abc import Callable

import httpx
import pytest

from understudy.errors import Conflict, NotFound, UnderstudyError, UsageError
from understudy.integrations.label_studio.client import LabelStudio, Unreachable

URL = "http://studio.example.org:8080"
PERSONAL = "head.body.signature"

Answer = Callable[[httpx.Request], httpx.Response]


def client(answer: Answer, token: str = "legacy", url: str = URL) -> LabelStudio:
    return LabelStudio(url, token, transport=httpx.MockTransport(answer), pause=lambda _: None)


def refusal(_: httpx.Request) -> httpx.Response:
    return httpx.Response(401, json={"detail": "Invalid token.", "status_code": 401})


def test_a_legacy_token_is_sent_as_it_is() -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["Authorization"])
        return httpx.Response(200, json={"id": 1})

    assert client(answer).whoami() == {"id": 1}
    assert sent == ["Token legacy"]


def test_a_personal_access_token_is_exchanged_and_renewed_when_it_has_run_out() -> None:
    given: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/token/refresh":
            given.append(f"access {len(given)}")
            return httpx.Response(200, json={"access": given[-1]})
        if request.headers["Authorization"] == "Bearer access 0" and len(given) == 1 and request.url.path == "/late":
            return refusal(request)
        return httpx.Response(200, json={"token": request.headers["Authorization"]})

    studio = client(answer, PERSONAL)
    assert studio.get("/a") == studio.get("/b") == {"token": "Bearer access 0"}
    assert studio.get("/late") == {"token": "Bearer access 1"}


@pytest.mark.parametrize("token", ["two words", "“quoted”", "line\nline"])
def test_what_cannot_be_a_token_is_refused_before_it_is_sent(token: str) -> None:
    with pytest.raises(UsageError, match="the token is none of Label Studio's; copy it again"):
        LabelStudio(URL, token)


@pytest.mark.parametrize("token", ["legacy", PERSONAL])
def test_a_token_that_is_refused_says_where_others_are_had(token: str) -> None:
    with pytest.raises(UsageError, match=r"refuses the token.*Account & Settings"):
        client(refusal, token).whoami()


def test_where_nothing_answers_it_is_said_which_option_is_meant() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Connection refused")

    with pytest.raises(Unreachable, match=rf"{URL} cannot be reached \(Connection refused\).*--url"):
        client(answer).version()


def test_a_call_that_label_studio_could_not_answer_is_made_again() -> None:
    tries: list[int] = []

    def answer(_: httpx.Request) -> httpx.Response:
        tries.append(1)
        if len(tries) == 1:
            raise httpx.ReadTimeout("slow")
        return httpx.Response(200, json=[]) if len(tries) > 2 else httpx.Response(500, text="database is locked")

    assert client(answer).users() == []
    assert len(tries) == 3
    with pytest.raises(Unreachable, match="GET /api/users/ with 503; its own output says why"):
        client(lambda _: httpx.Response(503)).users()


@pytest.mark.parametrize("text", ["<html>", '"text"', '{"version": 1}'])
def test_another_server_is_not_taken_for_label_studio(text: str) -> None:
    with pytest.raises(UnderstudyError, match="does not answer like Label Studio; check --url"):
        client(lambda _: httpx.Response(200, text=text)).version()


@pytest.mark.parametrize(
    ("status", "answered"), [(404, None), (200, ["a", "list"]), (200, {"access": "a", "other": "object"})]
)
@pytest.mark.parametrize("token", ["legacy", PERSONAL])
def test_whatever_another_server_answers_is_one_line(status: int, answered: object, token: str) -> None:
    other = client(lambda _: httpx.Response(status, json=answered), token)
    with pytest.raises(UnderstudyError, match=URL):
        other.project(1)


def test_a_server_that_leads_elsewhere_says_where() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(301, headers={"Location": str(request.url.copy_with(scheme="https", port=443))})

    with pytest.raises(UsageError, match=r"leads on to https://studio.example.org; give Label Studio's own --url"):
        client(answer).project(1)


@pytest.mark.parametrize(
    "url", ["studio:8080", "ftp://studio", "", "http://", "http://studio:eighty", "http://[studio", "http://a:99999"]
)
def test_a_url_must_be_one(url: str) -> None:
    with pytest.raises(UsageError, match="--url is the address"):
        LabelStudio(url, "token")


def test_the_address_of_a_page_is_told_from_the_address_of_label_studio() -> None:
    with pytest.raises(UsageError, match=r"without the page: http://studio:8080; the number .* is --project"):
        LabelStudio("http://studio:8080/projects/1/data?tab=2", "token")


def test_where_a_project_is_missing_those_that_are_there_are_listed() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/projects":
            return httpx.Response(200, json={"results": [{"id": 3, "title": "Birds"}]})
        return httpx.Response(404, json={"detail": "No Project matches the given query."})

    with pytest.raises(UsageError, match=r"no project 7 .*there is 3 \(Birds\)"):
        client(answer).project(7)
    with pytest.raises(NotFound, match="/api/tasks/7; check --url"):
        client(answer).task(7)


def test_what_label_studio_says_of_a_wrong_call_is_passed_on() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(400, json={"detail": "Validation error", "validation_errors": {"task": ["Invalid pk"]}})

    with pytest.raises(Conflict, match=r"POST /api/predictions with 400: .*Invalid pk"):
        client(answer).predict({})


def test_tasks_come_page_by_page() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        page = int(request.url.params["page"])
        return httpx.Response(200, json={"total": 5, "tasks": [{"id": 2 * page - 1}, {"id": 2 * page}][: 7 - 2 * page]})

    assert [task["id"] for task in client(answer).tasks(1)] == [1, 2, 3, 4, 5]


def test_no_task_is_missed_where_others_go_while_pages_are_read() -> None:
    there, pages = list(range(1, 8)), list[int]()

    def answer(request: httpx.Request) -> httpx.Response:
        page = int(request.url.params["page"])
        pages.append(page)
        if len(pages) == 2:
            there.remove(1)  # the third task moves to the first page, which was read
        tasks = [{"id": number} for number in there[3 * page - 3 : 3 * page]]
        return httpx.Response(200, json={"total": len(there), "tasks": tasks})

    assert {task["id"] for task in client(answer).tasks(1)} >= {2, 3, 4, 5, 6, 7}


def test_a_project_that_is_not_found_is_none_without_tasks() -> None:
    with pytest.raises(NotFound):
        list(client(lambda _: httpx.Response(404)).tasks(1))


# -- files -------------------------------------------------------------------------------------------------------


class Files:
    """Answers every call with what was asked for, and whether the token came with it."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bool]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append((str(request.url), "Authorization" in request.headers))
        if request.url.path == "/moved":
            return httpx.Response(302, headers={"Location": "https://elsewhere.example.org/b.png"})
        return httpx.Response(404) if "missing" in request.url.path else httpx.Response(200, content=b"picture")


@pytest.mark.parametrize(
    ("address", "asked", "has_token"),
    [
        ("/data/upload/1/a.png", f"{URL}/data/upload/1/a.png", True),
        (f"{URL}/data/a.png", f"{URL}/data/a.png", True),
        ("https://elsewhere.example.org/a.png", "https://elsewhere.example.org/a.png", False),
        ("http://studio.example.org/a.png", "http://studio.example.org/a.png", False),
        (
            "s3://bucket/a.png",
            f"{URL}/tasks/5/resolve/?fileuri={base64.b64encode(b's3://bucket/a.png').decode()}",
            True,
        ),
    ],
)
def test_only_label_studio_itself_is_sent_the_token(address: str, asked: str, has_token: bool) -> None:
    files = Files()
    assert client(files).file(address, 5) == b"picture"
    assert files.seen == [(asked, has_token)]


def test_the_token_does_not_follow_to_another_host() -> None:
    files = Files()
    client(files).file("/moved", 5)
    assert files.seen == [(f"{URL}/moved", True), ("https://elsewhere.example.org/b.png", False)]


def test_a_short_lived_token_that_ran_out_is_renewed_for_a_file() -> None:
    given: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/token/refresh":
            given.append(f"access {len(given)}")
            return httpx.Response(200, json={"access": given[-1]})
        return httpx.Response(200, content=b"dot") if len(given) > 1 else refusal(request)

    assert client(answer, PERSONAL).file("/data/a.png", 1) == b"dot"
    assert len(given) == 2


@pytest.mark.parametrize("address", ["http://[half/a.png", "http://host:eighty/a.png"])
def test_what_is_no_address_is_a_fault_of_the_file(address: str) -> None:
    with pytest.raises(UnderstudyError, match="cannot be an address"):
        LabelStudio(URL, "token").file(address, 1)


def test_another_host_that_is_away_is_a_fault_of_the_file_and_label_studio_is_not() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(UnderstudyError, match=r"https://elsewhere.example.org/a.png cannot be had: refused") as found:
        client(answer).file("https://elsewhere.example.org/a.png", 1)
    assert not isinstance(found.value, Unreachable)
    with pytest.raises(Unreachable):
        client(answer).file("/data/a.png", 1)


def test_a_file_may_be_in_the_task_itself_and_one_that_is_not_there_is_an_error() -> None:
    studio = client(Files())
    assert studio.file(f"data:image/png;base64,{base64.b64encode(b'dot').decode()}", 1) == b"dot"
    with pytest.raises(UnderstudyError, match="not in base64"):
        studio.file("data:image/png,dot", 1)
    with pytest.raises(UnderstudyError, match=r"missing.png cannot be had: status 404"):
        studio.file("/data/missing.png", 1)


def test_without_httpx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(UnderstudyError, match=r"understudy-al\[labelstudio\]"):
        LabelStudio(URL, "token")
