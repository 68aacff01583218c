"""Several projects under one server: the list, each whole under a path of its own, and who sees which."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.waiting import wait_until
from tests.web import axe, browser, looks
from tests.web.browser import WAIT, Desk, desk
from tests.web.own_certificates import make_certificate
from tests.web.reverse_proxy import reverse_proxy
from tests.web.serving import Served, running
from tests.web.test_server import UNDERSTUDY, address_of, free_port
from understudy.cli import app as command
from understudy.errors import UsageError
from understudy.projects.opening import create_or_open
from understudy.projects.project import Project
from understudy.sessions.log.events import Event
from understudy.sessions.opening import check_free, open_session
from understudy.sessions.session import Session
from understudy.sessions.training import trainer
from understudy.web.access import Access, Tries
from understudy.web.behind_proxy import ProxyRule
from understudy.web.public_url import PublicUrl
from understudy.web.server import Address, build_server
from understudy.web.session_holder import SessionHolder
from understudy.web.several import Place, Several, name_places
from understudy.web.several_server import public_reason, serve_several
from understudy.web.tokens import Tokens

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
NAMES = ("fruit", "weather")
TEXTS = {
    "fruit": [f"{('red apple', 'yellow pear')[n % 2]} number {n}" for n in range(40)],
    "weather": [f"{('blue sky', 'grey rain')[n % 2]} on day {n}" for n in range(30)],
}


def make_project(folder: Path, name: str) -> Project:
    """A project of a few texts, quickly opened."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.csv"
    path.write_text("\n".join(["text", *TEXTS[name]]))
    return create_or_open(path, classes=("one", "two"), encoder="words", learner="quick", basis_size=20)


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[list[Session]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(open_session(make_project(tmp_path, name)))) for name in NAMES]


@contextmanager
def served_together(places: Sequence[Place], proxy: ProxyRule | None = None) -> Iterator[Served]:
    address = Address(port=0, proxy=ProxyRule() if proxy is None else proxy)
    several = Several(places, places[0].access)
    live = [place.app.state.live for place in places if place.app is not None]
    with running(build_server(several, live, address), address) as found:
        yield found


def place_of(session: Session, access: Access | None = None) -> Place:
    name = session.project.name
    place = Place(name_places([(name, "")])[0], name, "text", Access() if access is None else access)
    place.holder = SessionHolder(session)
    place.serve()
    return place


def guarded(folder: Path) -> tuple[Access, str]:
    """A rule with a link for ann, and her token."""
    folder.mkdir(exist_ok=True)
    tokens = Tokens(folder)
    token = str(tokens.links_for(["ann"])["ann"])
    return Access(tokens=tokens, annotators=("ann",)), token


def behind_password(folder: Path, tries: Tries) -> Access:
    folder.mkdir(exist_ok=True)
    tokens = Tokens(folder)
    tokens.set_password("open sesame")
    return Access(tokens=tokens, password=True, tries=tries)


def label_some(session: Session) -> None:
    """Enough for a model."""
    for n in range(9):
        session.label(n, n % 2, "ann", f"key {n}")


def listed(client: httpx.Client, **headers: str) -> list[str]:
    answer = client.get("/api/projects", headers=headers)
    return [project["name"] for project in answer.json()["projects"]] if answer.status_code == 200 else []


def test_each_project_has_all_of_its_interface_under_its_own_path(sessions: list[Session]) -> None:
    with served_together([place_of(session) for session in sessions]) as server:
        client = server.client
        assert listed(client) == ["fruit.csv", "weather.csv"]
        assert client.get("/api/me").json()["several"] == "list"
        for name, total in (("fruit-csv", 40), ("weather-csv", 30)):
            base = f"/p/{name}"
            assert client.get(f"{base}/api/me").json()["several"] == "project"
            assert client.get(f"{base}/api/status").json()["total"] == total
            assert client.get(f"{base}/openapi.json").json()["servers"] == [{"url": base}]
            assert client.get(f"{base}/").text == client.get("/").text
            led = client.get(base)
            assert (led.status_code, led.headers["location"]) == (307, f"{base}/")
        body = {"item": 3, "label": 1, "annotator": "ann", "key": "k"}
        assert client.post("/p/fruit-csv/api/labels", json=body).json()["labelled"] == 1
        assert client.get("/p/weather-csv/api/status").json()["labelled"] == 0
        with client.stream("GET", "/p/weather-csv/api/live?annotator=ann") as stream:
            lines = stream.iter_lines()  # kept, or the stream would end with it
            assert next(lines).startswith("retry")
            wait_until(lambda: client.get("/api/projects").json()["projects"][1]["online"] == ["ann"])
        found = client.get("/api/projects").json()["projects"]
        assert [project["labelled"] for project in found] == [1, 0]
        assert found[0]["to_do"] == ["label 39 more items"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/status", "/api/labels", "/p", "/p/", "/p/nothing/api/status", "/p/../fruit-csv/api/status", "/fruit-csv/",
        "/p/FRUIT-CSV/api/status", "//p/fruit-csv/api/status", "/p/fruit-csvx/api/status", "/p/fruit-csv/p/fruit-csv/",
        "/p/fruit-csv/../../etc/passwd",
    ],
)  # fmt: skip
def test_no_other_path_leads_to_a_project(sessions: list[Session], path: str) -> None:
    with served_together([place_of(session) for session in sessions]) as server:
        parts = httpx.URL(server.url)
        with httpx.Client(timeout=None) as client:
            request = client.build_request("GET", server.url)
            request.url = parts.copy_with(raw_path=path.encode())
            assert client.send(request).status_code in (303, 404)


def test_the_guard_covers_the_list_and_every_project(sessions: list[Session], tmp_path: Path) -> None:
    rules = [guarded(tmp_path / name) for name in NAMES]
    with served_together([place_of(each, rule) for each, (rule, _) in zip(sessions, rules, strict=True)]) as server:
        client = server.client
        for path in ("/api/projects", "/api/me", "/openapi.json", "/nothing", "/p/x/", "/p/fruit-csv/api/status"):
            assert client.get(path).status_code == 401, path
            for stranger in ({"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
                answer = client.get(path, headers=stranger)
                assert answer.status_code == 403, path
                assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert client.get("/p/fruit-csv", headers={"Host": "evil.example"}).status_code == 403
        assert client.post("/api/login", json={"annotator": "ann", "password": "x"}).status_code == 401
        for page in ("/", "/p/fruit-csv/"):
            assert not re.search("fruit.csv|weather", client.get(page).text)


def test_with_links_everybody_sees_the_projects_of_their_cookies(sessions: list[Session], tmp_path: Path) -> None:
    rules = [guarded(tmp_path / name) for name in NAMES]
    with served_together([place_of(each, rule) for each, (rule, _) in zip(sessions, rules, strict=True)]) as server:
        typed, client = {"Sec-Fetch-Site": "none"}, server.client
        assert listed(client) == []
        led = client.get(f"/p/weather-csv/?token={rules[1][1]}", headers=typed)
        assert led.headers["location"] == "/p/weather-csv/"
        assert listed(client) == ["weather.csv"]
        assert client.get("/api/projects").json()["more"] is False
        assert client.get("/p/weather-csv/api/me").json()["annotator"] == "ann"
        assert client.get("/p/fruit-csv/api/status").status_code == 401
        assert client.get(f"/p/fruit-csv/?token={rules[1][1]}", headers=typed).status_code == 401
        from_before = client.get(f"/?token={rules[0][1]}", headers=typed)  # when fruit was served alone
        assert from_before.headers["location"] == f"/p/fruit-csv/?token={rules[0][1]}"
        client.get(from_before.headers["location"], headers=typed)
        assert listed(client) == ["fruit.csv", "weather.csv"]
        assert client.get("/?token=guess", headers=typed).status_code == 401
    with served_together([place_of(each, rule) for each, (rule, _) in zip(sessions, rules, strict=True)]) as server:
        assert listed(server.client, Authorization=f"Bearer {rules[0][1]}") == ["fruit.csv"]


def test_one_password_opens_all_and_guesses_count_together(sessions: list[Session], tmp_path: Path) -> None:
    tries = Tries(lambda: 0.0)
    rules = [behind_password(tmp_path / name, tries) for name in NAMES]
    with served_together([place_of(each, rule) for each, rule in zip(sessions, rules, strict=True)]) as server:
        client, right = server.client, {"annotator": "ann", "password": "open sesame"}
        assert client.get("/api/me").json()["login"] is True
        assert client.get("/api/projects").status_code == 401
        one = client.post("/p/fruit-csv/api/login", json=right)
        assert one.status_code == 200
        assert client.get("/api/projects").json()["more"] is True
        assert client.post("/api/login", json=right).json() == {"annotator": "ann"}
        assert listed(client) == ["fruit.csv", "weather.csv"]
        for name in ("fruit-csv", "weather-csv"):
            assert client.get(f"/p/{name}/api/me").json()["annotator"] == "ann"
        wrong = right | {"password": "guess"}
        paths = ["/api/login", "/p/fruit-csv/api/login", "/p/weather-csv/api/login"] * 2
        assert [client.post(path, json=wrong).status_code for path in paths] == [401] * 5 + [429]


def test_names_in_addresses_are_unique_plain_and_keep_to_their_project() -> None:
    assert name_places([("Vögel & Käfer", "1"), ("写真", "2"), ("a/b.csv", "3")]) == [
        "vogel-kafer",
        "project",
        "a-b-csv",
    ]
    twice = name_places([("a", "1"), ("a", "2"), ("b", "3")])
    assert name_places([("b", "3"), ("a", "2"), ("a", "1")]) == twice[::-1]
    assert len(set(twice)) == 3
    assert twice[2] == "b"
    assert all(re.fullmatch(r"[a-z0-9_-]+", name) for name in twice)
    assert len(set(name_places([("a", "1"), ("a", "1")]))) == 2


def test_a_reason_for_visitors_names_no_place_of_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "birds.understudy"
    told = public_reason(f"{folder}/log.sqlite3 is in use (/srv/other/file); {folder} was left", folder, "birds")
    assert told == "its log is in use file); birds was left"


def serve(sources: Sequence[Path]) -> None:
    serve_several(
        [str(source) for source in sources],
        open_project=create_or_open,
        enter=lambda _: (Access(), {}),
        browser=False,
    )


def test_a_project_is_given_once_and_one_at_least_must_open(tmp_path: Path) -> None:
    source = make_project(tmp_path, "fruit").folder
    with pytest.raises(UsageError, match="given twice"):
        serve([source, source])
    with pytest.raises(UsageError, match=r"gone\.csv"):
        serve([tmp_path / "gone.csv", tmp_path / "lost.csv"])
    with pytest.raises(UsageError, match="at most 100"):
        serve([tmp_path / f"{n}.csv" for n in range(101)])


@pytest.mark.parametrize("option", [("--classes", "a,b"), ("--demo",), ("--seed", "0"), ("--no-folder-labels",)])
def test_options_of_one_project_are_refused_with_several(tmp_path: Path, option: tuple[str, ...]) -> None:
    paths = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    with pytest.raises(UsageError, match="is about one project") as error:
        command(["label", *paths, "--no-browser", *option], standalone_mode=False)
    assert "\n" not in str(error.value)


def test_trainings_of_several_projects_run_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_work, most = [0], [0]
    wait, counting = trainer.Trainer._wait, threading.Lock()

    def counted(self: trainer.Trainer, run: trainer.TrainingRun, folder: Path, gently: bool) -> object:
        with counting:
            at_work[0] += gently
            most[0] = max(most[0], at_work[0])
        try:
            return wait(self, run, folder, gently)
        finally:
            with counting:
                at_work[0] -= gently

    monkeypatch.setattr(trainer.Trainer, "_wait", counted)
    turn = threading.Semaphore()
    with ExitStack() as stack:
        pair = [stack.enter_context(closing(open_session(make_project(tmp_path, name), turn=turn))) for name in NAMES]
        for session in pair:
            label_some(session)
        wait_until(lambda: all(session.record.trainings for session in pair))
    assert most == [1]


def test_a_training_that_waits_for_its_turn_can_be_stopped(tmp_path: Path) -> None:
    turn = threading.Semaphore()
    with turn, closing(open_session(make_project(tmp_path, "fruit"), turn=turn)) as session:
        label_some(session)
        assert session.status().training.state == "running"
    assert not session.record.trainings  # and closing did not wait for ever


# -- the command, in a process of its own -----------------------------------------------------------------------------


@contextmanager
def several(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*UNDERSTUDY, "label", *arguments, "--no-browser"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
    )  # fmt: skip
    try:
        yield process, address_of(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def wait_until_listed(url: str, *phases: str) -> list[dict[str, object]]:
    def found() -> list[dict[str, object]]:
        projects: list[dict[str, object]] = httpx.get(f"{url}api/projects", timeout=None).json()["projects"]
        return projects

    wait_until(lambda: [project["phase"] for project in found()] == list(phases))
    return found()


def test_what_cannot_be_opened_is_listed_with_its_reason_and_the_others_are_served(tmp_path: Path) -> None:
    projects = [make_project(tmp_path, name) for name in NAMES]
    with closing(open_session(projects[0])):  # it is served here already
        sources = [str(tmp_path / "fruit.csv"), str(tmp_path / "weather.csv"), str(tmp_path / "gone.csv")]
        with several(*sources, "--port", str(free_port())) as (process, url):
            found = wait_until_listed(url, "failed", "ready", "failed")
            assert "is in use" in str(found[0]["reason"])
            assert "gone.csv" in str(found[2]["reason"])
            assert str(tmp_path) not in str(found)
            led = httpx.get(f"{url}p/fruit-csv/", timeout=None)
            assert (led.status_code, led.headers["location"]) == (303, "/")
            assert httpx.get(f"{url}p/fruit-csv/api/status", timeout=None).status_code == 404
            assert httpx.get(f"{url}p/weather-csv/api/status", timeout=None).status_code == 200
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate()
            assert process.returncode == 0
            assert "fruit.csv is not served" in said
            assert "every answer is stored" in said
    check_free(projects[1])  # Ctrl-C has closed it
    assert not (tmp_path / "gone.csv.understudy").exists()


def test_in_a_browser_two_projects_are_listed_labelled_and_there_again_after_a_kill(
    chromium: "Browser", tmp_path: Path
) -> None:
    projects = [make_project(tmp_path, name) for name in NAMES]
    port = str(free_port())
    arguments = (*(str(project.folder) for project in projects), "--port", port)
    with several(*arguments) as (process, url), desk(chromium, url) as person:
        wait_until_listed(url, "ready", "ready")
        page = person.page
        page.goto(url)
        for name in NAMES:
            page.get_by_test_id("project").filter(has_text=name).click()
            if name == "fruit":
                person.get("name-input").fill("ann")
                person.press("Enter")
            person.seen()
            person.answer("1")
            person.labelled(1)
            person.until_sent()
            person.get("brand").click()
            person.until_text("project", f"{name}.*1 of")
        process.kill()
        process.wait()
        person.until_text("projects-trouble", "does not answer")
        with several(*arguments) as (_, again):
            assert again == url
            person.until_text("project", "fruit.*1 of 40")
            person.until_text("project", "weather.*1 of 30")
            page.get_by_test_id("project").filter(has_text="weather").click()
            person.seen()
            person.answer("2")
            person.labelled(2)
    texts = [event for project in projects for event in browser.events(project.folder) if event.kind == "labelled"]
    assert len(texts) == 3
    assert {event.annotator for event in texts} == {"ann"}


def test_two_projects_of_one_name_keep_their_unsent_answers_apart(chromium: "Browser", tmp_path: Path) -> None:
    projects = [make_project(tmp_path / folder, "fruit") for folder in ("left", "right")]
    with ExitStack() as stack:
        places = []
        for project, name in zip(projects, ("left", "right"), strict=True):
            place = place_of(stack.enter_context(closing(open_session(project))))
            place.name = name
            places.append(place)
        server = stack.enter_context(served_together(places))
        person = stack.enter_context(desk(chromium, f"{server.url}/p/left/")).sit_down("ann")
        person.page.route("**/api/labels", lambda route: route.abort())
        person.press("1")
        stored = "() => Object.keys(localStorage).filter((name) => name.includes(':out:'))"
        person.page.wait_for_function(f"({stored})().length === 1", timeout=WAIT)
        person.page.goto(f"{server.url}/p/right/")
        person.seen()
        person.page.unroute("**/api/labels")
        person.answer("2")
        person.labelled(1)
        assert [each.holder.require_session().status().labelled for each in places] == [0, 1]
        person.page.goto(f"{server.url}/p/left/")
        person.until_sent()
        wait_until(lambda: places[0].holder.require_session().status().labelled == 1)


def test_behind_a_proxy_with_https_everything_is_under_its_prefix(
    chromium: "Browser", sessions: list[Session], tmp_path: Path
) -> None:
    own = make_certificate(tmp_path)
    for each in sessions:  # as the command sees to: otherwise whoever labels first is owner, who needs a link
        each.change_people(Event("person_added", None, "eve", "first", {"name": "eve", "role": "owner"}))
    rules = [replace(behind_password(tmp_path / name, Tries()), home="/label/") for name in NAMES]
    places = [place_of(each, rule) for each, rule in zip(sessions, rules, strict=True)]
    public = PublicUrl("https", "", "127.0.0.1", "/label")
    with (
        served_together(places, ProxyRule(public)) as server,
        reverse_proxy(server.url, "/label", strips=True, certificate=own) as url,
        desk(chromium, f"{url}/label/", ignore_https_errors=True) as person,
    ):
        person.page.goto(f"{url}/label/")
        person.get("name-input").fill("ann")
        person.get("password-input").fill("open sesame")
        person.press("Enter")
        person.page.get_by_test_id("project").filter(has_text="weather").click()
        person.seen()
        assert person.page.url == f"{url}/label/p/weather-csv/"
        person.answer("1")
        person.labelled(1)
        person.get("brand").click()
        person.until_text("project", "weather.*1 of 30")
        assert person.page.url == f"{url}/label/"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844), (320, 568)])
def test_the_list_looks_right(chromium: "Browser", sessions: list[Session], size: tuple[int, int], dark: bool) -> None:
    places = [place_of(session) for session in sessions]
    failed = Place("birds", "Birds of the north, second survey of 2025 (archive)", "image", Access())
    failed.fail("its log is in use: by process 17 of workshop at http://workshop:8000/; go there, or stop it first")
    coming = Place("fish", "fish", "image", Access(), SessionHolder(name="fish"))
    coming.serve()
    coming.holder.report_progress(420, 12_345)
    sessions[0].arrive("Ann")
    label_some(sessions[0])
    wait_until(lambda: sessions[0].record.trainings)
    options: dict[str, Any] = {
        "viewport": {"width": size[0], "height": size[1]},
        "color_scheme": "dark" if dark else "light",
    }
    with served_together([*places, failed, coming]) as server, desk(chromium, server.url, **options) as person:
        person.page.add_init_script(axe.source())
        person.page.goto(server.url)
        person.until_text("project", "fruit")
        inspect(person, small=size[0] < 760)
        if shots := os.environ.get("UNDERSTUDY_SHOTS"):
            person.page.screenshot(path=f"{shots}/list-{size[0]}-{'dark' if dark else 'light'}.png", full_page=True)
        person.get("project").first.click()
        person.get("name-input").fill("ann")
        person.press("Enter")
        person.seen()
        inspect(person, small=size[0] < 760)
        if shots:
            person.page.screenshot(path=f"{shots}/label-{size[0]}-{'dark' if dark else 'light'}.png")
        person.require_calm()


def inspect(person: Desk, small: bool) -> None:
    """What axe and our own questions find."""
    assert axe.findings(person.page) == []
    questions = [looks.NAMELESS, looks.PALE, looks.TOO_WIDE, *([looks.TOO_SMALL] if small else [])]
    assert [fault for question in questions for fault in person.page.evaluate(question)] == []
