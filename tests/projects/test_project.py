import json
import os
import signal
import stat
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.sessions.label_data import images, pixels, prepared, texts
from tests.warm_training import WarmProcess
from understudy.data.features import digest_of
from understudy.errors import UnderstudyError, UsageError
from understudy.projects.opening import create_or_open
from understudy.store_urls import kept_url

SMALL = "pixels?size=4"


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("UNDERSTUDY_HOME", str(folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return images(tmp_path / "photos", [f"{name}.png" for name in "abcde"])


def test_a_folder_of_images_becomes_a_project_beside_it(photos: Path) -> None:
    project = prepared(photos, classes=["cat", "dog"], encoder=SMALL)
    assert project.folder == photos.with_name("photos.understudy")
    assert (project.name, project.kind, project.encoder) == ("photos", "image", SMALL)
    assert project.classes_at_start == ("cat", "dog")
    assert project.pool.ids == ("a.png", "b.png", "c.png", "d.png", "e.png")
    assert project.is_ready
    assert not project.seed_labels
    for row in range(5):
        np.testing.assert_array_equal(project.features[row], pixels(project, row))
    np.testing.assert_array_equal(np.load(project.features_path, mmap_mode="r"), project.features)
    assert project.store_url == f"sqlite:///{project.folder / 'log.sqlite3'}"
    assert sorted(path.name for path in photos.iterdir()) == [f"{name}.png" for name in "abcde"]


def test_class_folders_give_classes_and_labels(tmp_path: Path) -> None:
    folder = images(tmp_path / "animals", ["cat/1.png", "dog/1.png", "dog/2.png", "loose.png"])
    project = prepared(folder, encoder=SMALL)
    assert project.classes_at_start == ("cat", "dog")
    assert project.seed_labels == {0: "cat", 1: "dog", 2: "dog"}
    assert project.pool.labels is None
    assert prepared(folder).seed_labels == project.seed_labels


def test_folders_that_are_no_classes_and_labels_that_are_not_wanted_stay_out(tmp_path: Path) -> None:
    folder = images(tmp_path / "trips", ["2019/1.png", "2020/1.png"])
    project = prepared(folder, encoder=SMALL, folder_labels=False)
    assert (project.classes_at_start, project.source_labels) == ((), {})
    images(folder, ["2021/1.png"], first=5)
    assert prepared(folder).new_classes == ()
    table = texts(
        tmp_path / "t.jsonl", [{"text": "rates rise", "label": "money"}, {"text": "a goal", "label": "sport"}]
    )
    blind = prepared(table, encoder="words", folder_labels=False)
    assert (blind.classes_at_start, blind.source_labels) == (("money", "sport"), {})


def test_folders_that_are_no_class_lose_no_image(tmp_path: Path) -> None:
    folder = images(tmp_path / "trips", ["2019/1.png", "2020/1.png", "cat/1.png"])
    project = prepared(folder, encoder=SMALL, classes=["cat", "dog"])
    assert len(project.pool) == 3
    assert project.seed_labels == {2: "cat"}
    assert "2 items in folders that are none of the classes you gave (2019, 2020) will be asked for" in project.notes[0]


def test_a_single_folder_is_no_class(tmp_path: Path) -> None:
    project = prepared(images(tmp_path / "photos", ["all/1.png", "all/2.png"]), encoder=SMALL)
    assert (project.classes_at_start, project.seed_labels) == ((), {})
    assert "all images lie in one folder, all" in project.notes[0]


def test_a_table_of_texts_with_labels_becomes_a_project(tmp_path: Path) -> None:
    table = texts(tmp_path / "news.jsonl", [{"text": "rates rise", "label": "money"}, {"text": "a goal", "label": ""}])
    project = prepared(table, encoder="words")
    assert project.folder == tmp_path / "news.jsonl.understudy"
    assert (project.kind, project.classes_at_start, project.seed_labels) == ("text", ("money",), {0: "money"})
    assert [project.pool.item(row) for row in range(2)] == ["rates rise", "a goal"]
    assert project.features.shape == (2, 256)


def test_a_table_of_paths_keeps_files_outside_of_its_folder(tmp_path: Path) -> None:
    images(tmp_path / "far", ["1.png"])
    images(tmp_path / "lists", ["2.png"])
    (tmp_path / "lists" / "list.csv").write_text("path,kind of\n../far/1.png,x\n2.png,y\n")
    project = prepared(tmp_path / "lists" / "list.csv", encoder=SMALL, columns={"label": "kind of"})
    assert project.seed_labels == {0: "x", 1: "y"}
    assert project.pool.items is not None
    assert [project.pool.items.read(row) for row in range(2)] == [
        (tmp_path / "far" / "1.png").read_bytes(),
        (tmp_path / "lists" / "2.png").read_bytes(),
    ]


def test_the_demo_has_ten_classes_and_gives_nothing_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    project = prepared(None, demo=True)
    assert project.folder == tmp_path / "understudy-demo"
    assert project.classes_at_start == tuple("0123456789")
    assert project.seed_labels == {}
    assert project.source_labels == {}
    assert (project.features.shape, project.encoder, project.kind) == ((1297, 64), "given", "image")
    shown = project.pool.item(0)
    assert isinstance(shown, Image.Image)
    assert prepared(None, demo=True).pool.ids == project.pool.ids
    assert prepared("understudy-demo").pool.ids == project.pool.ids


def test_an_array_of_images_and_one_of_features_become_projects(tmp_path: Path) -> None:
    drawn = np.random.default_rng(0)
    np.savez(tmp_path / "small.npz", X=drawn.integers(0, 256, (3, 4, 4, 3), dtype=np.uint8), y=[0, 1, -1])
    project = prepared(tmp_path / "small.npz", encoder=SMALL)
    assert (project.kind, project.classes_at_start, project.seed_labels) == ("image", ("0", "1"), {0: "0", 1: "1"})
    np.testing.assert_array_equal(project.features[2], pixels(project, 2))
    np.savez(tmp_path / "plain.npz", X=drawn.normal(size=(3, 2)), ids=["ann", "bob", "cid"])
    plain = prepared(tmp_path / "plain.npz")
    assert (plain.kind, plain.pool.item(1)) == ("text", "bob")
    assert plain.features.dtype == np.float32
    assert "nothing to show: its 3 items are shown by their names" in plain.notes[0]


def test_a_features_folder_is_used_as_it_is(photos: Path, tmp_path: Path) -> None:
    from understudy.data.embedding import embed
    from understudy.data.encoders import make_encoder
    from understudy.data.sources import load

    made = embed(load(photos).pool, make_encoder(SMALL), out=tmp_path / "made", progress=False)
    project = prepared(made.folder)
    np.testing.assert_array_equal(project.features, np.load(made.folder / "features.npy"))
    assert project.pool.items is not None
    assert project.pool.items.read(0) == (photos / "a.png").read_bytes()


def test_broken_images_stay_out_and_are_reported_and_are_not_tried_again(photos: Path) -> None:
    (photos / "b.png").write_bytes(b"no image")
    (photos / "z.jpg").write_bytes(b"")
    project = prepared(photos, encoder=SMALL)
    assert project.pool.ids == ("a.png", "c.png", "d.png", "e.png")
    assert "2 items left out" in project.notes[-1]
    lines = [json.loads(line) for line in (project.folder / "faults.jsonl").read_text().splitlines()]
    assert [line["item"] for line in lines] == ["b.png", "z.jpg"]
    again = create_or_open(photos)
    assert again.is_ready
    images(photos, ["b.png"], first=77)
    mended = prepared(photos)
    assert mended.pool.ids[-1] == "b.png"
    assert mended.added == 1


def test_progress_is_told_item_by_item_and_may_end_the_run(photos: Path) -> None:
    told: list[tuple[int, int]] = []
    project = create_or_open(photos, encoder=SMALL)
    assert (project.is_ready, project.total) == (False, 5)
    with pytest.raises(UnderstudyError, match="no features yet"):
        _ = project.pool

    def stop(done: int, _total: int) -> None:
        if done == 3:
            raise KeyError

    with pytest.raises(KeyError):
        project.prepare(stop)
    assert not project.is_ready
    project.prepare(lambda done, total: told.append((done, total)))
    assert told == [(done, 5) for done in range(1, 6)]


def test_without_an_encoder_the_best_that_can_be_had_is_taken_and_named(photos: Path) -> None:
    project = prepared(photos)
    assert project.encoder == "pixels"
    assert any(note.startswith("colours and shapes only: ") for note in project.notes)
    assert project.features_note.is_weak
    assert prepared(photos).encoder == project.encoder


@pytest.mark.parametrize("moment", ["start", "freeze", "end"])
def test_a_kill_while_features_are_made_loses_nothing(photos: Path, moment: str, warm: WarmProcess) -> None:
    whole = prepared(photos, encoder=SMALL, project=photos.with_name("whole"))
    hooks = {
        "start": "project.prepare(lambda done, total: done == 3 and os.kill(os.getpid(), signal.SIGKILL))",
        "freeze": "item_table.atomic_file = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\nproject.prepare()",
        "end": "item_table.remove_other_features = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\nproject.prepare()",
    }
    code = (
        "import os, signal, sys\nfrom understudy.projects import item_table\n"
        "from understudy.projects.opening import create_or_open\n"
        f"project = create_or_open(sys.argv[1], encoder={SMALL!r}, classes=['x'])\n{hooks[moment]}\n"
    )
    assert warm.run(code, photos) == -signal.SIGKILL
    project = create_or_open(photos)
    assert project.is_ready == (moment == "end")
    project.prepare()
    assert project.classes_at_start == ("x",)
    assert project.pool.ids == whole.pool.ids
    np.testing.assert_array_equal(project.features, whole.features)


def test_a_project_and_its_data_may_move_together_or_apart(photos: Path, tmp_path: Path) -> None:
    first = prepared(photos, encoder=SMALL)
    (tmp_path / "away").mkdir()
    photos.rename(tmp_path / "away" / "photos")
    first.folder.rename(tmp_path / "away" / "photos.understudy")
    project = prepared(tmp_path / "away" / "photos.understudy")
    assert (project.notes, project.added) == ([], 0)
    assert project.pool.items is not None
    assert project.pool.items.read(0) == (tmp_path / "away" / "photos" / "a.png").read_bytes()
    (tmp_path / "away" / "photos").rename(tmp_path / "elsewhere")
    lost = prepared(tmp_path / "away" / "photos.understudy")
    assert "photos cannot be read" in lost.notes[0]
    assert len(lost.features) == 5
    told = prepared(tmp_path / "elsewhere", project=tmp_path / "away" / "photos.understudy")
    assert told.pool.items is not None
    assert told.pool.items.read(4) == (tmp_path / "elsewhere" / "e.png").read_bytes()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"classes": ["cat"]}, "has the class dog, which stays"),
        ({"encoder": "pixels"}, "was made with pixels.size=4; to change it: understudy encoder "),
        ({"seed": 5}, "has seed = 0; this stays"),
        ({"columns": {"text": "body"}}, "was made with the columns that have the usual names"),
        ({"store": "postgresql://me@here/db"}, "is in its folder, not postgresql://me@here/db"),
    ],
)
def test_what_contradicts_a_project_is_refused_in_one_line(photos: Path, given: dict[str, object], said: str) -> None:
    prepared(photos, encoder=SMALL, classes=["cat", "dog"])
    with pytest.raises(UsageError, match=said) as caught:
        prepared(photos, **given)
    assert "\n" not in str(caught.value)


def test_more_classes_on_reopening_are_new_classes(photos: Path) -> None:
    prepared(photos, encoder=SMALL, classes=["cat", "dog"])
    project = prepared(photos, classes=["cat", "dog", "fox"], encoder=SMALL, seed=0)
    assert (project.new_classes, project.classes_at_start) == (("fox",), ("cat", "dog"))


def test_before_there_are_features_one_may_change_ones_mind(photos: Path) -> None:
    create_or_open(photos, classes=["cat", "dgo"], encoder="pixels")
    kept = create_or_open(photos)
    assert (kept.classes_at_start, kept.encoder) == (("cat", "dgo"), "pixels")
    create_or_open(photos, classes=["cat", "dog"], encoder=SMALL, seed=3)
    project = prepared(photos)
    assert (project.classes_at_start, project.encoder, project.settings.seed) == (("cat", "dog"), SMALL, 3)
    assert project.features.shape == (5, 48)


def test_classes_come_from_a_file_one_a_line(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("\ufeffcat\n\n dog \n", encoding="utf-8")
    assert prepared(photos, encoder=SMALL, classes_file=tmp_path / "classes.txt").classes_at_start == ("cat", "dog")
    with pytest.raises(UnderstudyError, match="by name or in a file, not both"):
        create_or_open(photos, classes=["a"], classes_file=tmp_path / "classes.txt")
    with pytest.raises(UnderstudyError, match="cannot be read"):
        create_or_open(photos, classes_file=tmp_path / "nothing.txt")


def test_places_where_no_project_can_be_are_refused(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    (tmp_path / "file").touch()
    for place, said in (
        ("full", "is not a project but holds 'thesis.txt'"),
        ("file", "is a file"),
        ("photos/p", "lies in"),
        ("file/p", "cannot be written .*; give another place with --project"),
    ):
        with pytest.raises(UnderstudyError, match=said):
            create_or_open(photos, project=tmp_path / place, encoder=SMALL)
    assert not (photos / "p").exists()
    with pytest.raises(UnderstudyError, match="nothing to label; give a folder"):
        create_or_open(None)
    with pytest.raises(UnderstudyError, match="is not a project; give the data"):
        create_or_open(None, project=tmp_path / "none")
    with pytest.raises(UnderstudyError, match="there is no"):
        create_or_open("nul\0byte")
    with pytest.raises(UnderstudyError, match="there is no"):
        create_or_open(tmp_path / "missing")
    with pytest.raises(UnderstudyError, match="the demo brings its own data"):
        create_or_open(photos, demo=True)


def test_what_is_wrong_leaves_no_project_behind(photos: Path) -> None:
    for wrong in ({"encoder": "nonsense"}, {"encoder": "words"}, {"classes": ["a", "a"]}, {"audit_share": 2.0}):
        with pytest.raises(UnderstudyError):
            create_or_open(photos, **wrong)
    assert not photos.with_name("photos.understudy").exists()


def test_a_second_folder_of_images_cannot_take_a_project(photos: Path, tmp_path: Path) -> None:
    project = prepared(photos, encoder=SMALL)
    other = images(tmp_path / "other", ["1.png"])
    with pytest.raises(UsageError, match=r"is the project of .*photos, not of .*other"):
        create_or_open(other, project=project.folder)


def test_a_newer_or_damaged_project_file_is_refused_in_one_line(photos: Path) -> None:
    project = prepared(photos, encoder=SMALL)
    file = project.folder / "project.json"
    about = json.loads(file.read_text())
    file.write_text(json.dumps({**about, "format": 4}))
    with pytest.raises(
        UnderstudyError, match="has format 4, this version reads up to 3; upgrade: pip install -U understudy-al"
    ):
        create_or_open(photos)
    for damage in ("", "{", "[]", json.dumps({**about, "origin": 3}), json.dumps({"format": 1})):
        file.write_text(damage)
        with pytest.raises(UnderstudyError, match=r"project.json is damaged; restore it from a backup"):
            create_or_open(photos)


def test_a_password_is_never_written_down(photos: Path) -> None:
    url = "postgresql://me:se%40cret@host:5432/labels?password=se%40cret&sslmode=require"
    project = create_or_open(photos, encoder=SMALL, store=url)
    assert project.store_url == url
    written = (project.folder / "project.json").read_text()
    assert "cret" not in written
    assert create_or_open(photos).store_url == "postgresql://me@host:5432/labels?sslmode=require"
    assert create_or_open(photos, store=url).store_url == url
    with pytest.raises(UnderstudyError, match="this is neither") as caught:
        kept_url("se@cret")
    assert "cret" not in str(caught.value)
    with pytest.raises(UnderstudyError, match="this is neither"):
        kept_url("mysql://me@host/db")


def test_a_log_in_another_file_is_the_same_from_every_folder(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = create_or_open(photos, encoder=SMALL, store="sqlite:///labels.db").store_url
    assert url == f"sqlite:///{tmp_path / 'labels.db'}"
    monkeypatch.chdir(photos)
    assert create_or_open(photos).store_url == url
    with pytest.raises(UsageError, match="leave out the store"):
        create_or_open(photos, store="sqlite:///labels.db")
    with pytest.raises(UnderstudyError, match="would forget every label"):
        kept_url("sqlite:///:memory:")


def test_hostile_names_of_files_and_folders_are_only_names(tmp_path: Path) -> None:
    names = ["\u202egnp.exe.png", "line\nbreak.png", "=cmd.png", "x..png", "é?#%20.png"]
    folder = images(tmp_path / "a 'photo' folder?#%41", names)
    raw = os.fsencode(folder) + b"/\xff\xfe.png"
    try:
        Path(os.fsdecode(raw)).write_bytes((folder / "=cmd.png").read_bytes())
    except OSError:  # a file system that wants UTF-8
        raw = b""
    project = prepared(folder, encoder=SMALL)
    assert len(project.pool) == len(names) + bool(raw)
    assert all(name.splitlines() == [name] for name in project.pool.ids)
    assert prepared(folder).is_ready
    assert project.pool.items is not None
    contents = {digest_of(project.pool.items.read(row)) for row in range(len(project.pool))}
    assert len(contents) == len(names)


def test_a_file_that_became_a_link_is_not_followed(photos: Path, tmp_path: Path) -> None:
    secret = images(tmp_path / "secret", ["s.png"], first=50) / "s.png"
    (photos / "link.png").symlink_to(secret)
    project = prepared(photos, encoder=SMALL)
    items = project.pool.items
    assert items is not None
    assert items.read(project.pool.ids.index("link.png")) == secret.read_bytes()  # as it was when it was opened
    (photos / "a.png").unlink()
    (photos / "a.png").symlink_to(secret)
    with pytest.raises(UnderstudyError, match="has become a link"):
        items.read(0)
    (photos / "b.png").unlink()
    with pytest.raises(UnderstudyError, match="no such file"):
        items.read(1)


def test_a_folder_that_cannot_be_written_is_said_so(photos: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    photos.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(UnderstudyError, match="Permission denied"):
            create_or_open(photos, encoder=SMALL)
    finally:
        photos.parent.chmod(stat.S_IRWXU)


def test_what_a_kill_or_a_file_manager_left_is_in_nobodys_way(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    for name in (".DS_Store", ".0123456789abcdef.part", ".project.json.0123456789ab.part"):
        (tmp_path / "p" / name).touch()
    assert create_or_open(photos, project=tmp_path / "p", encoder=SMALL).folder == tmp_path / "p"
