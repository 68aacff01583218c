"""Folders are taken for classes only when somebody says so, and that can be changed while nobody has labelled."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.projects.test_folder_question import CLASSES, fill
from tests.sessions.small_projects import CALM, after_a_kill, require_in_step, stored_events
from understudy.errors import Conflict
from understudy.projects.opening import create_or_open
from understudy.projects.project import Project
from understudy.sessions.opening import open_session
from understudy.sessions.session import Session


def begin(tmp_path: Path, **given: Any) -> Session:
    """A session on three folders of six images; undecided unless something else is said."""
    folder = tmp_path / "both"
    new = {} if folder.exists() else {"encoder": "pixels?size=4", **CALM}
    if new:
        folder.mkdir()
        fill(folder / "photos", CLASSES, 6)
    chosen = {"ask_folders": lambda _: None, **new, **given}
    return open_session(create_or_open(folder / "photos", project=folder / "project", device="cpu", **chosen))


def taken(session: Session) -> str | None:
    folders = session.status().folders
    return None if folders is None else folders.taken_for


def test_undecided_folders_are_not_classes_and_both_ways_are_open(tmp_path: Path) -> None:
    session = begin(tmp_path)
    assert (taken(session), session.record.classes, session.record.effective) == ("undecided", [], {})
    assert any("until somebody says that they are classes" in note for note in session.project.notes)
    session.close()

    session = begin(tmp_path, folder_labels=True)
    assert (taken(session), session.record.classes, len(session.record.effective)) == ("classes", list(CLASSES), 18)
    require_in_step(session)
    assert session.record.audit_rows == (), "what came with a label is not an audit item"
    session.close()

    session = begin(tmp_path, folder_labels=False)
    assert (taken(session), session.record.classes, session.record.effective) == ("folders", [], {})
    assert len(session.record.audit_rows) == 2
    require_in_step(session)
    with after_a_kill(session, tmp_path / "later") as follower:
        assert taken(follower) == "folders"
        assert follower.record.classes == []
        assert follower.next("ann").item == session.next("ann").item
    session.close()
    assert [event.kind for event in stored_events(session)].count("restarted") == 2


def test_classes_that_people_added_and_settings_survive_a_change(tmp_path: Path) -> None:
    session = begin(tmp_path)
    session.add_class("owl", "ann", "k1")
    session.change_settings({"audit_share": 0.5}, "ann", "k2")
    session.close()
    session = begin(tmp_path, folder_labels=True)
    assert session.record.classes == [*CLASSES, "owl"]
    assert session.record.settings.audit_share == 0.5
    require_in_step(session)
    session.close()
    session = begin(tmp_path, folder_labels=False)
    assert session.record.classes == ["owl"]
    session.close()


def test_once_somebody_labelled_the_choice_stays(tmp_path: Path) -> None:
    session = begin(tmp_path)
    session.add_class("owl", "ann", "k1")
    item = session.next("ann").item
    assert item is not None
    session.label(item, 0, "ann", "k2")
    assert taken(session) is None
    session.close()
    with pytest.raises(Conflict, match="labelled or skipped already"):
        begin(tmp_path, folder_labels=True)
    session = begin(tmp_path)
    assert session.record.effective == {item: 0}
    assert session.project.info.folders_decided, "whoever labels without them has decided"
    session.undo("ann", "k3")
    assert taken(session) == "folders"
    session.close()


def test_a_kill_between_the_log_and_the_file_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path).close()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Project, "follow_plan", killed)
        with pytest.raises(KeyboardInterrupt):
            begin(tmp_path, folder_labels=True)
    about = json.loads((tmp_path / "both" / "project" / "project.json").read_text())
    assert about["import_labels"] is False
    session = begin(tmp_path)
    assert (taken(session), len(session.record.effective)) == ("classes", 18)
    assert session.project.settings.classes == CLASSES
    assert len(session.project.seed_labels) == 18
    session.close()


def test_with_classes_given_only_folders_of_that_name_label(tmp_path: Path) -> None:
    session = begin(tmp_path, classes=["dog", "owl"])
    assert taken(session) == "undecided"
    session.close()
    session = begin(tmp_path, folder_labels=True)
    assert session.record.classes == ["dog", "owl"]
    assert len(session.record.effective) == 6
    session.close()
