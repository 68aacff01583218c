"""What a project shows: nothing outside of what was given, unless somebody is told."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sessions.label_data import images, prepared
from understudy.data import pinned_images, user_folders
from understudy.data.encoders import make_encoder
from understudy.data.faults import ItemFault
from understudy.data.feature_store import open_store
from understudy.data.items import content_of
from understudy.projects.opening import create_or_open

SMALL = "pixels?size=4"


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path_factory.mktemp("home")))


def test_a_table_of_images_shows_no_file_outside_of_its_folder(tmp_path: Path) -> None:
    images(tmp_path, ["secret.png", "table/own.png"])
    paths = ["own.png", "../secret.png", str(tmp_path / "secret.png")]
    table = tmp_path / "table" / "photos.parquet"
    pq.write_table(pa.table({"image": [{"bytes": None, "path": path} for path in paths]}), table)
    project = prepared(table, encoder=SMALL)
    assert project.pool.ids == ("row 0",)
    assert "2 items left out" in project.notes[-1]
    assert "its cell names a file outside of" in project.notes[-1]
    assert project.pool.items is not None
    assert project.pool.items.read(0) == (tmp_path / "table" / "own.png").read_bytes()


def test_a_list_of_files_elsewhere_works_and_says_so(tmp_path: Path) -> None:
    images(tmp_path, ["far.png", "list/near.png"])
    (tmp_path / "list" / "link.png").symlink_to(tmp_path / "far.png")
    (tmp_path / "list" / "photos.csv").write_text("path\nnear.png\n../far.png\nlink.png\n")
    note = "photos.csv lists 2 files outside of its folder, as ../far.png; whoever labels sees them"
    project = prepared(tmp_path / "list" / "photos.csv", encoder=SMALL)
    assert note in project.notes
    assert len(project.pool) == 3
    assert note in create_or_open(tmp_path / "list" / "photos.csv").notes
    (tmp_path / "list" / "other.csv").write_text("path\nnear.png\n")
    assert not any("outside" in note for note in create_or_open(tmp_path / "list" / "other.csv").notes)


def test_a_file_that_becomes_a_link_between_the_look_and_the_reading_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images(tmp_path, ["secret.png", "photos/a.png", "photos/b.png"])
    items = prepared(tmp_path / "photos", encoder=SMALL).pool.items
    assert items is not None
    photo = tmp_path / "photos" / "a.png"

    def swapped(path: Path, name: str, *, follow: bool = True) -> bytes:
        photo.unlink()
        photo.symlink_to(tmp_path / "secret.png")
        return content_of(path, name, follow=follow)

    monkeypatch.setattr(pinned_images, "content_of", swapped)
    with pytest.raises(ItemFault, match="cannot be read"):
        items.read(0)


def test_a_project_waits_for_another_that_uses_its_encoder(tmp_path: Path) -> None:
    project = create_or_open(images(tmp_path / "photos", ["a.png", "b.png"]), encoder=SMALL)
    encoder = make_encoder(SMALL)
    other = open_store(user_folders.features_folder() / encoder.identity, dim=encoder.dim, encoder=SMALL)
    other.__enter__()
    told: list[tuple[int, int, str]] = []

    def progress(done: int, total: int) -> None:
        told.append((done, total, project.held_up))
        if len(told) == 2:
            other.__exit__(None, None, None)

    project.prepare(progress)
    held_up = f"another process is computing features of {SMALL}; when it is done, this goes on"
    assert told == [(0, 2, held_up), (0, 2, held_up), (1, 2, ""), (2, 2, "")]
    assert project.notes.count(f"this waited for another process, which computed features of {SMALL}") == 1
    assert project.is_ready
