"""What folders look like before they are taken for classes."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from understudy.projects.folder_question import FolderQuestion, folder_question
from understudy.projects.opening import create_or_open
from understudy.projects.project import Project
from understudy.projects.source_data import open_source

CLASSES = ("cat", "dog", "fox")


def fill(folder: Path, names: tuple[str, ...], each: int = 3, loose: int = 0) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).mkdir(parents=True)
        for number in range(each):
            Image.new("L", (4, 4), 20 * number).save(folder / name / f"{name} {number}.png")
    for number in range(loose):
        Image.new("L", (4, 4), 100 + number).save(folder / f"{number}.png")
    return folder


@pytest.mark.parametrize(
    ("names", "each", "looks"),
    [
        (CLASSES, 3, None),
        (("2024-01-03", "2024-01-04", "2024-02-11"), 3, "they look like dates"),
        (("20240103", "20240104"), 3, "they look like dates"),
        (("2022", "2023", "2024"), 3, "they look like dates"),
        (("2024-01-03 Beach", "2024_02_01 Ann's"), 3, "they look like dates"),
        (("03.01.2024", "14.01.2024"), 3, "they look like dates"),
        (("January 2024", "feb"), 3, "they look like dates"),
        (("100CANON", "101CANON"), 3, "they look like those of a camera"),
        (tuple(map(str, range(10))), 3, None),  # digits may be classes
        (tuple(map(str, range(100, 130))), 3, "their names are numbers"),
        (("anna", "bert", "carl"), 1, "1.0 items a folder: rather one folder an item"),
        (("mars", "jupiter"), 3, None),
        (("type 2024", "maybe"), 3, None),
    ],
)
def test_folders_that_are_hardly_classes_are_recognised(
    tmp_path: Path, names: tuple[str, ...], each: int, looks: str | None
) -> None:
    question = folder_question(open_source(fill(tmp_path / "photos", names, each), None))
    assert question is not None
    assert question.looks == looks
    assert question.are_likely_classes is (looks is None)
    assert (question.folders, question.items) == (len(names), len(names) * each)


def test_the_line_has_the_names_and_the_numbers(tmp_path: Path) -> None:
    names = tuple(f"2024-01-{day:02}" for day in range(1, 13))
    question = folder_question(open_source(fill(tmp_path / "photos", names, loose=2), None))
    assert question is not None
    assert question.line.startswith("12 folders with 36 images: 2024-01-01, 2024-01-02, ")
    assert question.line.endswith("2024-01-08 and 4 more (they look like dates)")
    assert question.loose == 2


def test_there_is_nothing_to_decide_without_folders_or_with_one_or_with_other_classes(tmp_path: Path) -> None:
    assert folder_question(open_source(fill(tmp_path / "flat", (), loose=3), None)) is None
    assert folder_question(open_source(fill(tmp_path / "one", ("cat",)), None)) is None
    several = open_source(fill(tmp_path / "several", CLASSES), None)
    assert folder_question(several, ["owl", "cow"]) is None
    assert folder_question(several, ["dog", "cow"]) is not None
    (tmp_path / "texts.csv").write_text("text,label\na,x\nb,y\n")
    assert folder_question(open_source(tmp_path / "texts.csv", None)) is None


def made(tmp_path: Path, answer: bool | None, **given: Any) -> tuple[Project, list[str]]:
    asked: list[str] = []

    def ask(question: FolderQuestion) -> bool | None:
        asked.append(question.line)
        return answer

    fill(tmp_path / "photos", CLASSES)
    photos = tmp_path / "photos"
    return create_or_open(photos, encoder="pixels?size=4", device="cpu", ask_folders=ask, **given), asked


@pytest.mark.parametrize(("answer", "classes"), [(True, CLASSES), (False, ()), (None, ())])
def test_a_new_project_asks_and_does_what_is_said(
    tmp_path: Path, answer: bool | None, classes: tuple[str, ...]
) -> None:
    project, asked = made(tmp_path, answer)
    project.prepare()
    assert len(asked) == 1
    assert project.classes_at_start == classes
    assert len(project.seed_labels) == (9 if answer else 0)
    assert project.info.folders_decided is (answer is not None)
    assert any("taken for" in note for note in project.notes) is (answer is not None)


@pytest.mark.parametrize("choice", [True, False])
def test_an_option_decides_without_asking(tmp_path: Path, choice: bool) -> None:
    project, asked = made(tmp_path, None, folder_labels=choice)
    assert asked == []
    assert project.info.folders_decided
    assert project.classes_at_start == (CLASSES if choice else ())


def test_a_choice_is_changed_at_once_before_anything_was_prepared(tmp_path: Path) -> None:
    made(tmp_path, None)
    project = create_or_open(tmp_path / "photos", folder_labels=True)
    assert project.classes_at_start == CLASSES
    assert project.info.folders_decided
    assert create_or_open(tmp_path / "photos", folder_labels=False).classes_at_start == ()


def test_projects_of_the_version_before_count_as_decided(tmp_path: Path) -> None:
    project, _ = made(tmp_path, True)
    path = project.folder / "project.json"
    path.write_text(path.read_text().replace('"folders_decided": true,', ""))
    assert "folders_decided" not in path.read_text()
    again = create_or_open(tmp_path / "photos")
    assert (again.info.folders_decided, again.classes_at_start) == (True, CLASSES)
