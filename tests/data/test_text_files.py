"""Texts without a table: a file with one a line, or a folder with one a file."""

from pathlib import Path

import pytest
from PIL import Image

from understudy import load
from understudy.errors import UnderstudyError, UsageError
from understudy.projects.opening import create_or_open


def test_a_text_file_is_one_text_a_line(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one, with a comma\n\n  \nthree\n", encoding="utf-8")
    pool = load(tmp_path / "lines.txt").pool
    assert [pool.item(row) for row in range(len(pool))] == ["one, with a comma", "three"]
    assert pool.ids == ("line 1", "line 4")
    with pytest.raises(UsageError, match="it has no columns"):
        load(tmp_path / "lines.txt", columns={"text": "a"})
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(UnderstudyError, match="has no text in it"):
        load(tmp_path / "empty.txt")


def test_a_folder_of_text_files_is_one_text_a_file(tmp_path: Path) -> None:
    for name, text in {"sport/1.txt": "A draw.\nAgain.", "weather/1.TXT": "Rain", "who.txt": "Who?"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "old.txt").write_bytes("Käse aus Zürich".encode("latin-1"))
    (tmp_path / "older.txt").write_bytes("Grüße".encode("latin-1"))
    (tmp_path / "empty.txt").touch()
    (tmp_path / "russian.txt").write_bytes("Привет как дела".encode("cp1251"))
    (tmp_path / "notes.docx").touch()
    pool = load(tmp_path).pool
    assert pool.ids == ("old.txt", "older.txt", "sport/1.txt", "weather/1.TXT", "who.txt")
    assert [pool.item(row) for row in range(3)] == ["Käse aus Zürich", "Grüße", "A draw.\nAgain."]
    assert pool.classes == ("sport", "weather")
    assert sorted(str(fault).partition(";")[0] for fault in pool.faults) == [
        "1 file: left out, not texts judging by their names: 1 .docx (notes.docx)",
        "empty.txt: the text is empty",
        "old.txt and 1 more: not in UTF-8",
        "russian.txt: neither in UTF-8 nor in an encoding that is recognised",
    ]


def test_beside_images_texts_are_not_items_but_counted(tmp_path: Path) -> None:
    Image.new("L", (4, 4)).save(tmp_path / "a.png")
    (tmp_path / "readme.txt").write_text("hello")
    (tmp_path / "clip.mp4").touch()
    (tmp_path / "clip2.mp4").touch()
    (tmp_path / "LICENSE").touch()
    pool = load(tmp_path).pool
    assert pool.ids == ("a.png",)
    assert str(pool.faults[0]).startswith(
        "4 files: left out, not images judging by their names: 2 .mp4, 1 without an ending, 1 .txt (LICENSE and 3 more)"
    )


def test_a_project_of_texts_in_folders_asks_about_them_and_grows_by_files(tmp_path: Path) -> None:
    for name in ("good/1.txt", "good/2.txt", "good/3.txt", "bad/1.txt", "bad/2.txt", "bad/3.txt"):
        (tmp_path / "texts" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "texts" / name).write_text(f"this is {name}")
    asked = []
    project = create_or_open(
        tmp_path / "texts", encoder="words", device="cpu", ask_folders=lambda question: asked.append(question.line)
    )
    project.prepare()
    assert asked == ["2 folders with 6 texts: bad, good"]
    assert (project.kind, len(project.pool), project.classes_at_start) == ("text", 6, ())
    (tmp_path / "texts" / "bad" / "1.txt").write_text("changed")
    (tmp_path / "texts" / "new.txt").write_text("new")
    project = create_or_open(tmp_path / "texts", device="cpu")
    project.prepare()
    assert project.added == 1, "an item is known by its file, whatever is in it"
    assert project.pool.ids[-1] == "new.txt"
    assert project.pool.item(0) == "this is bad/1.txt"


def test_notes_on_the_source_are_shown(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_bytes("text,label\nKäse,a\nBrot,b\n".encode("cp1252"))
    project = create_or_open(tmp_path / "texts.csv", encoder="words", device="cpu")
    assert any("texts.csv: not in UTF-8; it is read as Windows-1252, so that it has 'Käse'" in n for n in project.notes)
