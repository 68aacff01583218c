"""The question about folders over HTTP: asked before anybody labels, decided, and changed again."""

from pathlib import Path

from tests.projects.test_folder_question import CLASSES, fill
from tests.web.serving import Served, served
from understudy.projects.opening import create_or_open
from understudy.sessions.opening import open_session
from understudy.sessions.session import Session
from understudy.web.session_holder import SessionHolder


def decide(server: Served, labels: object) -> tuple[int, dict[str, object]]:
    answer = server.client.post("/api/folders", json={"annotator": "ann", "labels": labels})
    return answer.status_code, answer.json()


def test_folders_are_decided_on_the_page_until_somebody_labels(tmp_path: Path) -> None:
    fill(tmp_path / "photos", CLASSES, 4, loose=6)
    project = create_or_open(tmp_path / "photos", encoder="pixels?size=4", device="cpu", ask_folders=lambda _: None)
    holder = SessionHolder(open_session(project))
    with served(holder) as server:
        before = server.client.get("/api/status").json()
        assert before["folders"]["taken_for"] == "undecided"
        assert (before["folders"]["count"], before["folders"]["loose"], before["classes"]) == (3, 6, [])
        assert before["folders"]["names"] == list(CLASSES)
        assert server.client.post("/api/next", json={"annotator": "ann"}).status_code == 200

        status, now = decide(server, labels=True)
        assert (status, now["phase"], now["classes"], now["labelled"]) == (200, "ready", list(CLASSES), 12)
        assert server.client.get("/api/status").json()["folders"]["taken_for"] == "classes"

        status, now = decide(server, labels=False)
        assert (status, now["classes"], now["labelled"]) == (200, [], 0)

        assert decide(server, "yes")[0] == 422
        server.client.post("/api/classes", json={"name": "owl", "annotator": "ann", "key": "k1"})
        item = server.client.post("/api/next", json={"annotator": "ann"}).json()["item"]
        stored = server.client.post("/api/labels", json={"item": item, "label": 0, "annotator": "ann", "key": "k2"})
        assert stored.status_code == 200
        assert server.client.get("/api/status").json()["folders"] is None
        status, said = decide(server, labels=True)
        assert status == 409
        assert "labelled or skipped already" in str(said["detail"])
        assert server.client.get("/api/status").json()["labelled"] == 1
    assert holder.session is not None
    holder.session.close()


def test_without_folders_there_is_nothing_to_decide(server: Served, session: Session) -> None:
    before = session.status().labelled
    status, said = decide(server, labels=True)
    assert (status, session.status().labelled) == (409, before)
    assert "nothing to decide" in str(said["detail"])
