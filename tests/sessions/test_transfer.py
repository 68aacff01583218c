"""`understudy import` and `understudy export`: real projects, real files, also while somebody labels."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from tests.sessions.commands import command
from understudy.errors import Conflict, NotFound, UnderstudyError, UsageError
from understudy.projects.opening import create_or_open
from understudy.projects.project import Project
from understudy.sessions.opening import open_session


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with six pictures and, beside them, a project of two classes in which nothing is labelled."""
    folder = tmp_path_factory.mktemp("fresh")
    (folder / "photos").mkdir()
    for shade in range(6):
        Image.new("L", (8, 8), 40 * shade).save(folder / "photos" / f"{shade}.png")
    made = create_or_open(folder / "photos", classes=("cat", "dog"), encoder="pixels?size=8", audit_share=0.0)
    open_session(made).close()
    return folder


@pytest.fixture
def project(fresh: Path, tmp_path: Path) -> Project:
    """A copy of the fresh project."""
    shutil.copytree(fresh, tmp_path, dirs_exist_ok=True)
    return create_or_open(tmp_path / "photos")


def test_labels_go_in_and_come_out(project: Project, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text(
        "filename,class,annotator\n0.png,cat,ann\n1.png,dog,bob\n2.png,fox,\n9.png,cat,\n"
    )
    printed = command("import", project.folder, tmp_path / "old.csv", "--annotator", "me")
    assert "3 labels stored, 0 were there already" in printed
    assert "new classes: 1 (fox)" in printed
    assert "not in the pool: 1 (line 5 (9.png))" in printed
    command("export", tmp_path / "photos", "--out", tmp_path / "out" / "new.csv")
    text = (tmp_path / "out" / "new.csv").read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(row["id"], row["label"], row["annotator"], row["source"]) for row in rows] == [
        ("0.png", "cat", "ann", "import"), ("1.png", "dog", "bob", "import"), ("2.png", "fox", "me", "import"),
    ]  # fmt: skip
    again = command("import", project.folder, tmp_path / "out" / "new.csv")
    assert "0 labels stored, 3 were there already" in again


def test_a_file_that_nobody_named_is_not_replaced(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.csv").write_text("my own")
    with pytest.raises(UsageError, match=r"labels.csv is there already; give a name with --out"):
        command("export", project.folder)
    assert (tmp_path / "labels.csv").read_text() == "my own"
    command("export", project.folder, "--out", "labels.csv")
    assert (tmp_path / "labels.csv").read_text(encoding="utf-8-sig").startswith("id,item,label")


def test_new_classes_can_be_left_out(project: Project, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text('{"id": "0.png", "label": "cat"}\n{"id": "1.png", "label": "fox"}\n')
    printed = command("import", project.folder, tmp_path / "old.jsonl", "--no-add-classes")
    assert "1 labels stored" in printed
    assert "left out, not being classes: 1 (fox)" in printed


def test_the_wrong_column_leaves_the_project_as_it_was(project: Project, tmp_path: Path) -> None:
    rows = "".join(f"0.png,name {row},ann {row}\n" for row in range(60))
    (tmp_path / "old.csv").write_text(f"id,label,annotator\n{rows}")
    with pytest.raises(UnderstudyError, match="the column 'label' would make 60 new classes"):
        command("import", project.folder, tmp_path / "old.csv")
    assert "left out, not being classes: 60" in command(
        "import", project.folder, tmp_path / "old.csv", "--no-add-classes"
    )
    printed = command("import", project.folder, tmp_path / "old.csv", "--many-classes")
    assert "60 labels stored" in printed


def test_labels_are_exported_while_somebody_labels_but_not_imported(project: Project, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("id,label\n0.png,cat\n")
    session = open_session(project)
    try:
        session.label(3, 1, "ann", "key")
        command("export", project.folder, "--format", "jsonl", "--out", tmp_path / "now.jsonl")
        assert json.loads((tmp_path / "now.jsonl").read_text())["label"] == "dog"
        with pytest.raises(Conflict, match=r"in use: process \d+ .*Its page imports labels too"):
            command("import", project.folder, tmp_path / "old.csv")
    finally:
        session.close()


def test_folders_are_links_or_copies_or_a_zip(project: Project, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("id,label\n0.png,cat\n")
    command("import", project.folder, tmp_path / "old.csv")
    assert "1 items in" in command("export", project.folder, "--format", "folders", "--out", tmp_path / "links")
    assert (tmp_path / "links" / "cat" / "0.png").is_symlink()
    command("export", project.folder, "--format", "folders", "--copy", "--out", tmp_path / "copies")
    assert not (tmp_path / "copies" / "cat" / "0.png").is_symlink()
    command("export", project.folder, "--format", "folders", "--out", tmp_path / "x.zip")
    assert "0 labels stored, 1 were there already" in command("import", project.folder, tmp_path / "x.zip")
    with pytest.raises(UnderstudyError, match="--copy is for folders"):
        command("export", project.folder, "--copy", "--out", tmp_path / "x.csv")


def test_what_cannot_be_done_is_said_in_a_line(project: Project, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no .*nowhere; give a project's folder, or the data it lies beside"):
        command("export", tmp_path / "nowhere")
    (tmp_path / "others").mkdir()
    with pytest.raises(UsageError, match="has no project; make one with: understudy label"):
        command("export", tmp_path / "others")
    with pytest.raises(UnderstudyError, match="no format 'xml'"):
        command("export", project.folder, "--format", "xml")
    with pytest.raises(NotFound, match="no model yet"):
        command("export", project.folder, "--format", "model", "--out", tmp_path / "model.zip")
    with pytest.raises(UsageError, match="no such file"):
        command("import", project.folder, tmp_path / "nothing.csv")
    assert not (tmp_path / "model.zip").exists()
