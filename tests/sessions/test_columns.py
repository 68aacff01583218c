from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.sessions.label_data import prepared, texts
from tests.sessions.small_projects import CALM, after_a_kill, label_next
from tests.waiting import wait_until
from understudy.errors import UsageError
from understudy.sessions.opening import open_session
from understudy.sessions.replies import Column
from understudy.sessions.session import Session
from understudy.sessions.settings_changes import change_settings, list_settings


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    rows: list[dict[str, object]] = [
        {"text": f"word{row % 7} other{row % 3}", "id": f"r{row}", "title": f"Title {row}", "date": "2024-01-31"}
        for row in range(30)
    ]
    path = texts(tmp_path / "reviews.jsonl", rows)
    project = prepared(
        path, project=tmp_path / "project", classes=["good", "bad"], encoder="words", show=["title", "date"], **CALM
    )
    session = open_session(project)
    yield session
    session.close()


def beside(item: int | None) -> list[Column]:
    return [Column("title", f"Title {item}"), Column("date", "2024-01-31")]


def test_columns_are_beside_items_wherever_they_are_shown(session: Session) -> None:
    asked = session.next("ann")
    assert asked.columns == beside(asked.item)
    assert all(shown.columns == beside(shown.item) for shown in session.preview("ann"))
    assert session.card(5).columns == beside(5)


def test_columns_are_beside_labels_to_review(session: Session) -> None:
    for row in range(30):
        session.label(row, int(row % 7 < 3), "ann", f"k{row}")
    session.label(7, 0, "ann", "wrong")
    wait_until(lambda: not session.learning.is_busy)
    found = session.review()
    assert found
    assert all(doubt.columns == beside(doubt.item) for doubt in found)


def test_other_columns_are_shown_after_a_change_and_a_kill(session: Session, tmp_path: Path) -> None:
    changed = session.change_settings({"show": ["date"]}, "ann", "s")
    assert changed.notes == ["Beside each item 'date' is shown, to people only."]
    again = session.change_settings({"show": ["date"]}, "ann", "s")
    assert again.notes == []
    setting = next(each for each in changed.settings if each.name == "show")
    assert (setting.kind, setting.value, setting.choices) == ("columns", ["date"], ["id", "title", "date"])
    assert session.card(5).columns == [Column("date", "2024-01-31")]
    with pytest.raises(UsageError, match="has no column 'rating' to show; it can show 'id', 'title', 'date'"):
        session.change_settings({"show": ["date", "rating"]}, "ann", "t")
    with after_a_kill(session, tmp_path / "killed") as follower:
        assert follower.card(5).columns == [Column("date", "2024-01-31")]
        assert follower.change_settings({"show": []}, "ann", "u").notes == [
            "No columns are shown beside the items any more."
        ]
        assert follower.card(5).columns == []


def test_models_do_not_see_the_columns(session: Session) -> None:
    before = session.project.features.copy()
    label_next(session, "ann", "k", 0)
    session.change_settings({"show": ["title"]}, "ann", "s")
    assert (session.project.features == before).all()


def test_columns_are_changed_on_the_console(session: Session) -> None:
    folder = str(session.project.folder)
    session.close()
    with pytest.raises(UsageError, match="has no column 'rating' to show"):
        change_settings(folder, ["show=title,rating"])
    assert change_settings(folder, ["show=id"]).notes == ["Beside each item 'id' is shown, to people only."]
    assert change_settings(folder, ["show=id"]).notes[0].startswith("Nothing to change")
    assert next(each.value for each in list_settings(folder).settings if each.name == "show") == ["id"]
    with closing(open_session(prepared(None, project=session.project.folder))) as again:
        assert again.card(5).columns == [Column("id", "r5")]
