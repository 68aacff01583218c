import json
from pathlib import Path

import pytest

from tests.sessions.label_data import images, prepared, texts
from understudy.errors import UnderstudyError, UsageError
from understudy.projects.opening import create_or_open
from understudy.projects.project import Project
from understudy.projects.shown_columns import FILE

ROWS: list[dict[str, object]] = [
    {"text": f"text number {row}", "title": f"Title {row}", "stars": row % 5, "secret": f"s{row}"} for row in range(12)
]


def reviews(tmp_path: Path, rows: list[dict[str, object]] = ROWS) -> Path:
    return texts(tmp_path / "reviews.jsonl", rows)


def made(tmp_path: Path, **given: object) -> Project:
    return prepared(reviews(tmp_path), classes=["good", "bad"], encoder="words", **given)


def reopened(project: Project) -> Project:
    again = create_or_open(project=project.folder, device="cpu")
    again.prepare()
    assert again.columns.read_or_note(again.settings.show) == []
    return again


def test_columns_are_read_for_every_item(tmp_path: Path) -> None:
    project = made(tmp_path, show=["title", "stars"])
    assert project.columns.read_or_note(project.settings.show) == []
    assert project.columns_of(7) == [("title", "Title 7"), ("stars", "2")]
    assert project.columns.there() == ("title", "stars", "secret")


def test_only_what_is_shown_is_kept(tmp_path: Path) -> None:
    project = made(tmp_path, show=["title"])
    project.columns.read(project.settings.show)
    kept = (project.folder / FILE).read_bytes()
    assert b"s11" not in kept
    assert b"Title 11" in kept


def test_what_is_kept_is_there_when_the_table_is_not(tmp_path: Path) -> None:
    project = made(tmp_path, show=["title"])
    project.columns.read(project.settings.show)
    (tmp_path / "reviews.jsonl").unlink()
    again = reopened(project)
    assert again.columns_of(3) == [("title", "Title 3")]
    assert again.columns.there() == ("title", "stars", "secret")
    with pytest.raises(UsageError, match=r"column 'stars' cannot be shown: .*reviews.jsonl is not there; put it back"):
        again.columns.read(["stars"])
    assert "is not there" in again.columns.read_or_note(["stars"])[0]


def test_a_project_of_before_reads_them_from_its_table(tmp_path: Path) -> None:
    project = made(tmp_path)
    about = json.loads((project.folder / "project.json").read_text())
    for name in ("show", "copies"):
        del about["settings"][name]
    (project.folder / "project.json").write_text(json.dumps(about))
    again = reopened(project)
    assert again.columns_of(3) == []
    again.columns.read(["secret"])
    assert again.columns.of(3, ["secret"]) == [("secret", "s3")]


def test_values_follow_their_item_when_lines_move_and_are_added(tmp_path: Path) -> None:
    project = made(tmp_path, show=["title"])
    project.columns.read(project.settings.show)
    first: dict[str, object] = {"text": "put in at the top", "title": "New"}
    changed = [first, *ROWS[:5], {**ROWS[5], "title": "Changed"}, *ROWS[6:11]]  # the last one is gone
    reviews(tmp_path, changed)
    again = reopened(project)
    assert [again.columns_of(row)[0][1] for row in (0, 5, 10)] == ["Title 0", "Changed", "Title 10"]
    assert again.columns_of(12) == [("title", "New")], "new items come last"
    assert again.columns_of(11) == [("title", "Title 11")], "as it was kept"


def test_a_table_that_goes_while_people_label_is_said_without_its_path(tmp_path: Path) -> None:
    project = made(tmp_path, show=["title"])
    project.columns.read(project.settings.show)
    with pytest.raises(UsageError) as refused:
        project.columns.read(["title", "rating"])
    (tmp_path / "reviews.jsonl").unlink()
    project.columns.read(["title"])
    assert project.columns.there() == ("title", "stars", "secret")
    with pytest.raises(UnderstudyError, match=r"reviews\.jsonl cannot be read") as gone:
        project.columns.read(["stars"])
    assert str(tmp_path) not in f"{refused.value} {gone.value}"


def test_damaged_columns_are_read_anew(tmp_path: Path) -> None:
    project = made(tmp_path, show=["title"])
    (project.folder / FILE).write_bytes(b"no parquet")
    assert reopened(project).columns_of(2) == [("title", "Title 2")]


def test_what_cannot_be_shown_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = reviews(tmp_path)
    with pytest.raises(UsageError, match="has no column 'rating' to show; it can show 'title', 'stars', 'secret'"):
        create_or_open(path, classes=["a", "b"], show=["title", "rating"])
    photos = images(tmp_path / "photos", ["a.png", "b.png"])
    with pytest.raises(UsageError, match=r"column 'title' cannot be shown: .*photos is not a table"):
        create_or_open(photos, classes=["a", "b"], show=["title"])
    with pytest.raises(UsageError, match="digits is not a table"):
        create_or_open(demo=True, project=tmp_path / "demo", show=["title"])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["photos", "reviews.jsonl"]


def test_a_project_that_shows_others_says_how_to_change_them(tmp_path: Path) -> None:
    project = made(tmp_path, show=["title"])
    assert create_or_open(tmp_path / "reviews.jsonl", show=["title"]).settings.show == ("title",)
    with pytest.raises(UsageError, match=r"has show = title; change it with: understudy settings .* show=title,stars"):
        create_or_open(tmp_path / "reviews.jsonl", show=["title", "stars"])
    assert project.settings.show == ("title",)
