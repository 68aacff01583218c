"""An exchange with a real Label Studio: recorded once, and played again without one.

    python -m tests.integrations.label_studio.exchange http://localhost:8080 TOKEN

makes a project there, plays the scenario against it, and writes `exchange.json`. Played again, answers come in the
order in which they were given. Which prediction is written is not compared: it follows from choices, which may differ.
"""

import json
import re
import sys
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from understudy.integrations.label_studio.client import LabelStudio
from understudy.integrations.label_studio.doctor import Finding, examine
from understudy.integrations.label_studio.follower import Follower, Say
from understudy.integrations.label_studio.label_config import read_label_config
from understudy.integrations.label_studio.task_files import Link, TaskFiles
from understudy.projects.opening import create_or_open
from understudy.sessions.opening import open_session

KEPT: Final = Path(__file__).with_name("exchange.json")
CONFIG: Final = (
    '<View><Text name="text" value="$text"/><Choices name="choice" toName="text" choice="single">'
    '<Choice value="bad"/><Choice value="good"/></Choices></View>'
)
TEXTS: Final = (
    "awful", "lovely", "dull plot", "fine cast", "cold sad end", "warm happy end", "bad", "great", "so so",
    "good end", "bad end", "sad plot", "happy plot", "warm cast", "cold cast", "great end",
)  # fmt: skip
UNUSED: Final = frozenset({
    "created_username", "created_ago", "created_at", "draft_created_at", "import_id", "last_action", "bulk_created",
    "updated_by", "parent_prediction", "parent_annotation", "last_created_by", "ground_truth", "cluster", "neighbors",
    "mislabeling", "model", "model_run", "drafts", "annotators", "inner_id", "annotations_results", "avatar",
    "predictions_results", "predictions_score", "file_upload", "storage_filename", "annotations_ids", "completed_at",
    "predictions_model_versions", "avg_lead_time", "draft_exists", "comment_count", "unresolved_comment_count", "meta",
    "last_comment_updated_at", "comment_authors", "control_weights", "parsed_label_config", "custom_hotkeys",
    "permissions", "active_organization_meta", "organization", "expert_instruction", "color", "pinned_at", "state",
    "queue_total", "queue_done", "lse_fields", "label-studio-os-package", "label-studio-os-backend",
    "label-studio-frontend", "dm2", "label-studio-converter", "edition", "lsf", "backend", "last_activity",
})  # fmt: skip

Played = dict[str, list[Finding]]
Look = Callable[[str, Follower], object]


class Acts:
    """What annotators do at Label Studio between our calls. Played again, they have done it already."""

    def __init__(self, http: httpx.Client | None = None, project: int = 0) -> None:
        self.http, self.project = http, project
        self.annotations: list[int] = []

    def _call(self, method: str, path: str, **content: Any) -> Any:
        assert self.http is not None
        answer = self.http.request(method, path, json=content or None).raise_for_status()
        return answer.json() if answer.content else None

    def answer(self, **values: Any) -> None:
        if self.http is None:
            return
        task = self._call("GET", f"/api/projects/{self.project}/next")["id"]
        result = [{"from_name": "choice", "to_name": "text", "type": "choices", "value": {"choices": ["bad"]}}]
        sent = {"result": result, "lead_time": 2.5, **values}
        self.annotations.append(self._call("POST", f"/api/tasks/{task}/annotations", **sent)["id"])

    def skip(self) -> None:
        self.answer(was_cancelled=True, result=[])

    def delete(self, place: int) -> None:
        if self.http is not None:
            self._call("DELETE", f"/api/annotations/{self.annotations[place]}")

    def delete_all(self) -> None:
        """As the Data Manager does it: its tasks are not marked as changed."""
        if self.http is not None:
            path = f"/api/dm/actions?id=delete_tasks_annotations&project={self.project}"
            self._call("POST", path, selectedItems={"all": True, "excluded": []})

    def import_one(self) -> None:
        if self.http is not None:
            self.http.post(f"/api/projects/{self.project}/import", json=[{"text": "added"}]).raise_for_status()


@contextmanager
def followed(client: LabelStudio, number: int, folder: Path, say: Say) -> Iterator[Follower]:
    """A follower of a project, with a session of its own."""
    question = read_label_config(str(client.project(number)["label_config"]))
    files = TaskFiles(folder / "tasks", Link(client.url, number), question)
    tasks = list(client.tasks(number))
    files.add(client, tasks)
    project = create_or_open(
        files.table, project=files.project_folder, classes=question.classes, columns={"text": "text", "id": "id"},
        encoder="words", audit_share=0.0, device="cpu",
    )  # fmt: skip
    session = open_session(project)
    try:
        yield Follower(client, number, question, session, [int(task["id"]) for task in tasks], say=say)
    finally:
        session.close()


def play(client: LabelStudio, number: int, acts: Acts, folder: Path, look: Look, say: Say = print) -> Played:
    """The scenario; `look` is called after each step. What the doctor found before and after."""
    before = list(examine(client, number))
    with followed(client, number, folder, say) as follower:
        follower.start()
        look("started", follower)
        for name, act in (
            ("first", acts.answer), ("second", acts.answer), ("skipped", acts.skip), ("third", acts.answer),
            ("undone", lambda: acts.delete(3)), ("nothing", lambda: None), ("all gone", acts.delete_all),
        ):  # fmt: skip
            act()
            assert follower.poll()
            look(name, follower)
        after = list(examine(client, number))
        acts.import_one()
        assert not follower.poll()
        look("grown", follower)
        assert len(list(client.tasks(number))) == len(TEXTS) + 1
    return {"before": before, "after": after}


# -- played again ------------------------------------------------------------------------------------------------


class Replay:
    """Answers calls as they were answered; those that write predictions in any order."""

    def __init__(self, exchange: list[dict[str, Any]]) -> None:
        self.answers: dict[tuple[str, str], deque[tuple[int, Any]]] = defaultdict(deque)
        for each in exchange:
            self.answers[each["method"], _place(each["path"])].append((each["status"], each["answer"]))
        self.calls: list[tuple[str, str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        content = json.loads(request.content) if request.content else None
        self.calls.append((request.method, path, content))
        waiting = self.answers[request.method, _place(path)]
        assert waiting, f"never recorded: {request.method} {path}"
        status, answer = waiting.popleft() if len(waiting) > 1 else waiting[0]
        return httpx.Response(status, json=answer) if answer is not None else httpx.Response(status)

    def written(self) -> list[Any]:
        """What was sent about predictions, in order."""
        return [content for method, path, content in self.calls if "/predictions" in path and method != "GET"]


def _place(path: str) -> str:
    """Which of the answers may be given to a call."""
    return re.sub(r"/api/predictions/\d+", "/api/predictions/*", path)


def replayed() -> tuple[LabelStudio, Replay, int]:
    """A client that is answered as the real one was, and the number of the project."""
    kept = json.loads(KEPT.read_text())
    replay = Replay(kept["exchange"])
    client = LabelStudio(kept["url"], "token", transport=httpx.MockTransport(replay), pause=lambda _: None)
    return client, replay, int(kept["project"])


# -- recorded ----------------------------------------------------------------------------------------------------


def _without_unused(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_unused(held) for name, held in value.items() if name not in UNUSED}
    return [_without_unused(held) for held in value] if isinstance(value, list) else value


class Recorder(httpx.HTTPTransport):
    """The network, and what came over it."""

    def __init__(self) -> None:
        super().__init__()
        self.exchange: list[dict[str, Any]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        response.read()
        answer = _without_unused(response.json()) if response.content else None
        path = request.url.raw_path.decode()
        kept = {"method": request.method, "path": path, "status": response.status_code, "answer": answer}
        self.exchange.append(kept)
        return response


def record(url: str, token: str) -> None:
    with httpx.Client(base_url=url, headers={"Authorization": f"Token {token}"}, timeout=60) as http:
        made = http.post("/api/projects", json={"title": "Recorded", "label_config": CONFIG}).raise_for_status()
        number = int(made.json()["id"])
        http.post(f"/api/projects/{number}/import", json=[{"text": text} for text in TEXTS]).raise_for_status()
        recorder = Recorder()
        client = LabelStudio(url, token, transport=recorder)
        with tempfile.TemporaryDirectory() as folder:
            found = play(client, number, Acts(http, number), Path(folder), lambda name, _: print(name))  # noqa: T201
    lines = [[finding.line for finding in part] for part in found.values()]
    kept = {"url": url, "project": number, "doctor": lines, "exchange": recorder.exchange}
    KEPT.write_text(json.dumps(kept, indent=None, separators=(",", ":")).replace('},{"method"', '},\n{"method"') + "\n")


if __name__ == "__main__":
    record(*sys.argv[1:3])
