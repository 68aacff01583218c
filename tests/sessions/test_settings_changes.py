"""Changing settings while people label: what was drawn stays, what is drawn later is random, and a restart agrees."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from tests.sessions.commands import command
from tests.sessions.small_projects import (
    after_a_kill,
    copied,
    label_next,
    opened,
    require_alike,
    require_in_step,
    stored_events,
)
from tests.waiting import wait_until
from understudy.errors import Conflict, UsageError
from understudy.projects.opening import create_or_open
from understudy.projects.project_file import read_info
from understudy.projects.settings import FIXED, MEANINGS, NAMES
from understudy.sessions.audit import more_audit_rows
from understudy.sessions.log.events import Event
from understudy.sessions.opening import open_session
from understudy.sessions.record import Record
from understudy.sessions.session import Session
from understudy.sessions.settings_changes import settings_event


def answer(session: Session, count: int, start: str, annotator: str = "ann") -> list[int]:
    """The items that were asked for, each answered with its number modulo 3."""
    items = []
    for turn in range(count):
        item = session.next(annotator).item
        assert item is not None
        items.append(item)
        session.label(item, item % 3, annotator, f"{start}{turn}")
        wait_until(lambda: not session.learning.is_busy)
    return items


@pytest.mark.parametrize("taught", [0, 2])
def test_a_raised_audit_share_adds_audit_items_of_what_nobody_labelled(tmp_path: Path, taught: int) -> None:
    with opened(copied(tmp_path / "one", taught=taught)) as session:
        answered = answer(session, 8, "a")
        before = list(session.record.audit_draws)
        reply = session.change_settings({"audit_share": 0.4}, "ann", "raise")
        record = session.record
        assert record.audit_draws[:-1] == before, "what was drawn stays"
        assert len(record.audit_rows) == 16, "of 40 items"
        added = set(record.audit_draws[-1])
        assert not added & {*answered, *record.effective, *record.leases}
        assert all(record.state_of(row) == ("audit", None) for row in added)
        assert reply.notes[0].startswith("12 more audit items, a random sample of those that nobody has labelled")
        assert next(each.value for each in reply.settings if each.name == "audit_share") == 0.4
        require_in_step(session)
        asked = answer(session, 12, "b")
        assert added & set(asked), "they are asked for from now on"
        assert not added & record.usable.keys(), "and never trained on"
        require_in_step(session)
        with after_a_kill(session, tmp_path / "two") as follower:
            assert follower.record.audit_draws == record.audit_draws
            assert follower.record.settings == record.settings == follower.project.settings
            require_alike(session.learning.chooser.surrogate, follower.learning.chooser.surrogate)
            assert answer(follower, 3, "c") == answer(session, 3, "c")


def test_models_of_before_are_scored_on_the_new_audit_items_too(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=2)) as session:
        session.change_settings({"audit_share": 0.5}, "ann", "raise")
        asked = answer(session, 16, "a")
        audited = session.record.audit_draws[-1]
        assert len(set(asked) & set(audited)) >= 6
        counted = session.status().audited
        assert counted == len([item for item in asked if session.record.is_audit(item)])
        assert session.progress().curve[0].audited == counted


def test_a_row_that_was_asked_for_and_handed_back_may_become_an_audit_item(tmp_path: Path) -> None:
    """Without a model a restart begins with all items: the moves before the draw must still be possible."""
    with opened(copied(tmp_path / "one")) as session:
        for turn in range(6):
            question = session.next("ann")
            assert question.item is not None
            if turn % 2:
                session.skip(question.item, "ann", f"s{turn}")
            else:
                session.release("ann")
        session.change_settings({"audit_share": 0.5}, "ann", "raise")
        require_in_step(session)
        session.undo("ann", "back")
        require_in_step(session)
        with after_a_kill(session, tmp_path / "two") as follower:
            require_in_step(follower)
            require_alike(session.learning.chooser.surrogate, follower.learning.chooser.surrogate)


def test_a_lower_share_keeps_what_was_drawn_and_asks_less_often(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", audit_share=0.5)) as session:
        drawn = session.record.audit_rows
        reply = session.change_settings({"audit_share": 0.0}, "ann", "lower")
        assert session.record.audit_rows == drawn
        assert "asked for less often" in reply.notes[0]
        assert not set(answer(session, 6, "a")) & set(drawn)


def test_a_change_that_is_sent_twice_is_one_and_its_key_is_used_up(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one")) as session:
        session.change_settings({"audit_share": 0.2}, "ann", "k1")
        session.change_settings({"audit_share": 0.2}, "ann", "k1")
        session.change_settings({"audit_share": 0.2}, "ann", "k2")  # nothing to change
        assert [event.kind for event in stored_events(session)].count("settings_changed") == 1
        with pytest.raises(Conflict, match="was used for something else"):
            session.change_settings({"audit_share": 0.3}, "ann", "k1")


def test_second_opinions_begin_when_their_share_is_raised(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=2, audit_share=0.0)) as session:
        answered = answer(session, 4, "a")
        session.change_settings({"agreement_share": 1.0}, "ann", "raise")
        question = session.next("bob")
        assert (question.ask, question.item in {*answered, *session.record.labels}) == ("second", True)


def test_a_training_starts_at_once_when_the_growth_asks_for_it_and_names_the_new_learner(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=2, audit_share=0.0)) as session:
        answer(session, 8, "a")
        assert len(session.record.trainings) == 1
        session.change_settings({"retrain_growth": 1.5, "learner": "logistic"}, "ann", "change")
        wait_until(lambda: not session.learning.is_busy)
        assert [event.data["learner"] for event in session.record.trainings] == ["quick", "logistic"]
        require_in_step(session)


def test_nobody_sees_suggestions_where_the_project_has_none(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=2, audit_share=0.0)) as session:
        assert session.next("ann").suggestion is not None
        session.change_settings({"suggestions": False}, "ann", "off")
        assert session.next("ann").suggestion is None


@pytest.mark.parametrize("name", sorted(FIXED))
def test_what_stays_says_why(name: str) -> None:
    value = {"classes": ["cat"], "method": "paper"}.get(name, 5)
    with pytest.raises(UsageError, match=f"{name} stays as it is: "):
        settings_event(Record(), {name: value})


def test_every_setting_has_a_meaning() -> None:
    assert set(MEANINGS) == set(NAMES)


def test_the_file_of_a_project_follows_its_log(tmp_path: Path) -> None:
    """A kill between the two leaves the log ahead; the next opening makes up for it."""
    folder = copied(tmp_path / "one")
    before = (folder / "project.json").read_text()
    with opened(folder) as session:
        session.change_settings({"lease_seconds": 60}, "ann", "k")
        assert read_info(folder).settings.lease_seconds == 60
    (folder / "project.json").write_text(before)
    with opened(folder) as session:
        assert session.record.settings.lease_seconds == session.project.settings.lease_seconds == 60
    assert read_info(folder).settings.lease_seconds == 60


def test_what_is_drawn_later_is_random_and_follows_from_the_seed() -> None:
    rows = range(100, 200)
    drawn = more_audit_rows(rows, 20, seed=1, drawn_before=1)
    assert drawn == more_audit_rows(rows, 20, seed=1, drawn_before=1)
    assert len(set(drawn)) == 20
    assert drawn != more_audit_rows(rows, 20, seed=1, drawn_before=2)
    assert sorted(more_audit_rows(rows, 1000, seed=1, drawn_before=1)) == list(rows)
    often = [row for seed in range(2000) for row in more_audit_rows(range(10), 3, seed, drawn_before=1)]
    assert all(500 <= often.count(row) <= 700 for row in range(10)), "each three times in ten"


def test_what_was_labelled_once_is_no_audit_item_even_if_it_was_undone(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=2)) as session:
        items = [session.next("ann").item]
        label_next(session, "ann", "k", 0)
        session.undo("ann", "u")
        session.release("ann")
        session.change_settings({"audit_share": 0.5}, "ann", "raise")
        assert not set(items) & set(session.record.audit_draws[-1])


def test_an_event_of_a_change_says_what_was_asked_for(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one")) as session:
        session.change_settings({"audit_share": 0.2}, "ann", "k")
        last: Event = stored_events(session)[-1]
        assert (last.kind, last.annotator, last.data["settings"]) == ("settings_changed", "ann", {"audit_share": 0.2})
        assert len(last.data["audit"]) == 4


# The command, while nobody serves the project


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
    assert "retrain_growth" not in printed  # what was not touched is not listed
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
        (["learner=resnet18"], "resnet18 takes images, and labelling projects train on features; choose one of"),
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
