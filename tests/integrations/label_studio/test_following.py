"""`understudy labelstudio`: from the first call to Ctrl+C, and from there on; and what its commands refuse."""

import signal
import threading
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from tests.integrations.label_studio.exchange import replayed
from understudy.cli import app
from understudy.errors import UsageError
from understudy.integrations.label_studio import following
from understudy.integrations.label_studio.client import LabelStudio
from understudy.integrations.label_studio.following import FollowOptions, follow

URL = "http://studio.example.org"
runner = CliRunner()


class Listener:
    """What is said, and the end when it was said that something came."""

    def __init__(self, last: str, times: int = 1) -> None:
        self.last, self.times = last, times
        self.lines: list[str] = []
        self.stop = threading.Event()

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        if sum(self.last in each for each in self.lines) == self.times:
            self.stop.set()


def options(folder: Path) -> FollowOptions:
    return FollowOptions(folder, seconds=0.01, encoder="words", audit_share=0.0, device="cpu")


def test_a_project_is_followed_tasks_that_are_added_join_and_the_next_call_goes_on(tmp_path: Path) -> None:
    client, replay, number = replayed()
    listener = Listener("following project", times=2)
    follow(client, number, options(tmp_path / "studio"), listener.stop, listener)
    assert listener.lines[0] == "the project's sampling was 'Sequential sampling' and becomes 'Uncertainty sampling'"
    assert listener.lines[1] == f"fetching 16 tasks into {tmp_path / 'studio'}"
    assert "0 of 16 tasks labelled; annotators enter by the button Label All Tasks" in "\n".join(listener.lines)
    assert f"fetching 1 task into {tmp_path / 'studio'}" in listener.lines
    assert "0 of 17 tasks labelled" in listener.lines[-1]
    assert (tmp_path / "studio.understudy" / "project.json").exists()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b'"token"' in path.read_bytes()]

    client, replay, number = replayed()
    listener = Listener("bad (admin")
    follow(client, number, options(tmp_path / "studio"), listener.stop, listener)
    assert not any("fetching" in line for line in listener.lines[:2])
    assert any(line.endswith("bad (admin@example.org)") for line in listener.lines)
    assert any(method == "POST" and "predictions" in path for method, path, _ in replay.calls)


def test_while_label_studio_cannot_be_reached_it_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "POLL_SECONDS", 0.001)
    tries: list[int] = []

    def answer(_: httpx.Request) -> httpx.Response:
        tries.append(1)
        if len(tries) < 4:
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json=[])

    client = LabelStudio(URL, "token", transport=httpx.MockTransport(answer))
    said: list[str] = []
    assert following._patiently(client.users, threading.Event(), said.append) == []
    assert said == [f"{URL} cannot be reached (refused); start Label Studio there, or check --url; trying again"]
    stopped = threading.Event()
    stopped.set()
    tries.clear()
    assert following._patiently(client.users, stopped, said.append) is None


def test_a_project_that_asks_something_else_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    project = {"id": 1, "title": "Boxes", "label_config": "<View/>"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=project))
    with pytest.raises(UsageError, match="cannot be followed"):
        follow(LabelStudio(URL, "t", transport=transport), 1, options(tmp_path / "s"), threading.Event(), print)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [[], ["doctor"]])
def test_without_an_address_a_project_or_a_token_it_is_said_what_to_give(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LABEL_STUDIO_TOKEN", raising=False)
    found = runner.invoke(app, ["labelstudio", *command, "--url", URL])
    assert isinstance(found.exception, UsageError)
    assert "give --url and --project" in str(found.exception)
    found = runner.invoke(app, ["labelstudio", *command, "--url", URL, "--project", "1"])
    assert "put one of Label Studio's (Account & Settings) into LABEL_STUDIO_TOKEN" in str(found.exception)


def test_a_second_signal_ends_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[bool] = []

    def follow_slowly(_client: object, _number: int, _options: object, stop: threading.Event, _say: object) -> None:
        for _ in range(2):
            seen.append(stop.is_set())
            signal.raise_signal(signal.SIGINT)

    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(following, "follow", follow_slowly)
    try:
        found = runner.invoke(app, ["labelstudio", "--url", URL, "--project", "1", "--token", "t"])
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    assert (seen, found.exit_code) == ([False, True], 130)


def test_the_doctor_prints_a_line_a_finding_and_exits_with_1_where_something_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, _, number = replayed()
    monkeypatch.setattr("understudy.integrations.label_studio.client.LabelStudio", lambda *_: replayed()[0])
    options = ["--url", URL, "--project", str(number), "--token", "t"]
    found = runner.invoke(app, ["labelstudio", "doctor", *options])
    assert found.exit_code == 1
    assert found.output == runner.invoke(app, ["labelstudio", *options, "doctor"]).output
    assert found.output.splitlines()[0] == "ok    Label Studio 1.23.2 answers"
    assert sum(line.startswith("wrong ") for line in found.output.splitlines()) == 3


def test_the_first_ctrl_c_ends_in_good_order_the_second_at_once_and_afterwards_all_is_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, _, number = replayed()
    monkeypatch.setattr("understudy.integrations.label_studio.client.LabelStudio", lambda *_: client)
    seen: list[str] = []

    def follow_until_interrupted(*given: object) -> None:
        stop = next(each for each in given if isinstance(each, threading.Event))
        signal.raise_signal(signal.SIGINT)
        seen.append("stopped" if stop.is_set() else "not stopped")
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            seen.append("interrupted")

    monkeypatch.setattr(following, "follow", follow_until_interrupted)
    before = signal.getsignal(signal.SIGINT)
    found = runner.invoke(app, ["labelstudio", "--url", URL, "--project", str(number), "--token", "t"])
    assert (found.exit_code, seen) == (0, ["stopped", "interrupted"])
    assert signal.getsignal(signal.SIGINT) is before
