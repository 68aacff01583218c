"""`understudy settings`: shown and changed on the console, while nobody serves the project."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from tests.sessions.commands import command
from understudy.errors import Conflict, UsageError
from understudy.projects.project import create_or_open
from understudy.projects.project_file import read_info
from understudy.sessions.opening import open_session


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty pictures and, beside them, a project in which nothing is labelled."""
    folder = tmp_path_factory.mktemp("fresh")
    (folder / "photos").mkdir()
    for shade in range(20):
        Image.new("L", (8, 8), 12 * shade).save(folder / "photos" / f"{shade}.png")
    open_session(create_or_open(folder / "photos", classes=("cat", "dog"), encoder="pixels?size=8")).close()
    return folder


@pytest.fixture
def photos(fresh: Path, tmp_path: Path) -> Path:
    shutil.copytree(fresh, tmp_path, dirs_exist_ok=True)
    return tmp_path / "photos"


def test_settings_are_shown_with_what_they_mean(photos: Path) -> None:
    printed = command("settings", photos)
    assert "audit_share" in printed
    assert "they only measure models" in printed
    assert "stays: the audit items" in printed, "why the seed cannot be changed"
    values = {each["name"]: each["value"] for each in json.loads(command("settings", photos, "--json"))["settings"]}
    assert (values["audit_share"], values["classes"], values["suggestions"]) == (0.1, ["cat", "dog"], True)


def test_settings_are_changed_and_stay_changed(photos: Path) -> None:
    printed = command("settings", photos, "audit_share=0.4", "lease_seconds=60", "suggestions=off")
    assert "6 more audit items, a random sample" in printed
    folder = photos.with_name("photos.understudy")
    assert read_info(folder).settings.audit_share == 0.4
    session = open_session(create_or_open(photos, audit_share=0.4))
    try:
        assert len(session.record.audit_rows) == 8
        assert (session.record.settings.lease_seconds, session.record.settings.suggestions) == (60, False)
    finally:
        session.close()
    assert "Nothing to change" in command("settings", photos, "audit_share=0.4")


def test_settings_of_a_project_that_never_began_are_those_it_begins_with(tmp_path: Path) -> None:
    Image.new("L", (8, 8)).save(tmp_path / "one.png")
    made = create_or_open(tmp_path, project=tmp_path.parent / f"{tmp_path.name}-p")
    command("settings", made.folder, "audit_share=0.2")
    assert read_info(made.folder).settings.audit_share == 0.2
    assert not (made.folder / "log.sqlite3").exists()
    assert "0.2" in command("settings", made.folder)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["audit_share"], "'audit_share' is not a setting; write name=value"),
        (["audit_share=half"], "audit_share must be a number from 0 to 0.5; got 'half'"),
        (["audit_share=0.9"], "from 0 to 0.5; got 0.9"),
        (["audit_share=0.1", "audit_share=0.2"], "audit_share is given twice"),
        (["audit=0.2"], "there is no setting audit; there are"),
        (["seed=3"], "seed stays as it is: the audit items"),
        (["learner=resnet"], "there is no learner 'resnet'"),
        (["suggestions=maybe"], "suggestions must be on or off; got 'maybe'"),
        (["retrain_at_most=2.5"], "retrain_at_most must be a whole number"),
    ],
)
def test_a_wrong_change_is_refused_in_a_line_and_changes_nothing(photos: Path, words: list[str], said: str) -> None:
    folder = photos.with_name("photos.understudy")
    before = (folder / "project.json").read_bytes()
    with pytest.raises(UsageError, match=said):
        command("settings", photos, *words)
    assert (folder / "project.json").read_bytes() == before


def test_what_has_no_project_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no project"):
        command("settings", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_project_that_is_served_is_changed_on_its_page(photos: Path) -> None:
    session = open_session(create_or_open(photos))
    try:
        assert "0.1" in command("settings", photos), "they can be read"
        with pytest.raises(Conflict, match="Its page changes settings too"):
            command("settings", photos, "audit_share=0.2")
    finally:
        session.close()


def test_opening_with_another_value_says_how_to_change_it(photos: Path) -> None:
    with pytest.raises(
        UsageError, match=r"has audit_share = 0.1; change it with: understudy settings .* audit_share=0.2"
    ):
        create_or_open(photos, audit_share=0.2)
    with pytest.raises(UsageError, match="has seed = 0; this stays: the audit items"):
        create_or_open(photos, seed=3)
