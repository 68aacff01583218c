"""People: who there is, what each may do, what each is called; and what follows from the log alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.sessions.small_projects import opened
from understudy.cli import app
from understudy.data.class_names import find_look_alike
from understudy.errors import Conflict, NotFound, UsageError
from understudy.labels.formats import format_named, read_labels
from understudy.labels.imported_labels import ImportedLabel, gather_entries
from understudy.projects.opening import create_or_open
from understudy.sessions.label_rows import collect_labels
from understudy.sessions.log.events import Event, Kind
from understudy.sessions.opening import open_session
from understudy.sessions.people import PeopleTable, check_person_name, may, require_free_name
from understudy.sessions.people_changes import enrol, people_as_rows, show_people
from understudy.sessions.record import Record, replay_events
from understudy.sessions.session import Session


def table_of(events: Sequence[Event]) -> PeopleTable:
    table = PeopleTable()
    for seq, event in enumerate(events, 1):
        table.apply(replace(event, seq=seq))
    return table


def roles_of(table: PeopleTable) -> dict[str, str]:
    return {person.name: person.role for person in table.by_id.values()}


def added(name: str, role: str = "annotator", **more: Any) -> Event:
    return Event("person_added", data={"name": name, "role": role}, **more)


def changed(person: str, **values: Any) -> Event:
    return Event("person_changed", data={"person": person, **values})


def asked(name: str) -> Event:
    return Event("asked", 0, name, data={"lease": "choice", "seconds": 1.0})


def imported(name: str) -> Event:
    return Event("labelled", 0, name, data={"label": 0, "source": "import"})


def change(session: Session, **data: Any) -> None:
    kind: Kind = "person_changed" if "person" in data else "person_added"
    session.change_people(Event(kind, None, "ann", f"key {session.record.seq}", data))


# -- what follows from the log ------------------------------------------------------------------------------


def test_in_a_log_of_before_the_first_to_do_something_is_owner_and_others_annotate() -> None:
    assert roles_of(table_of([asked("ann"), asked("bob"), asked("ann")])) == {"ann": "owner", "bob": "annotator"}


def test_whose_labels_came_with_the_data_or_were_imported_is_not_the_first() -> None:
    table = table_of([imported("source"), imported("eve"), asked("ann"), asked("eve")])
    assert roles_of(table) == {"eve": "annotator", "ann": "owner"}


def test_who_was_let_in_has_the_role_that_was_said_whoever_comes_first() -> None:
    table = table_of([added("ann", "owner"), added("bob", "reviewer"), asked("bob"), asked("ann")])
    assert roles_of(table) == {"ann": "owner", "bob": "reviewer"}


def test_a_person_keeps_their_id_and_all_their_names_mean_them() -> None:
    table = table_of([added("bob", "owner"), changed("bob", name="Robert"), changed("bob", name="Rob")])
    assert table.name_of("bob") == "Rob"
    assert [table.id_of(name) for name in ("bob", "Robert", "Rob", "eve")] == ["bob", "bob", "bob", None]
    assert table.by_id["bob"].former_names == ("bob", "Robert")


def test_what_else_events_say_of_a_person_is_kept() -> None:
    table = table_of([added("bob", "owner"), changed("bob", quota=50), changed("bob", share=0.5)])
    assert table.by_id["bob"].details == {"quota": 50, "share": 0.5}


def test_a_change_that_is_taken_back_never_happened_and_later_ones_stand() -> None:
    undo = Event("undone", None, "ann", "k", {"undoes": 3, "what": "person_changed"})
    table = table_of(
        [added("ann", "owner"), added("bob"), changed("bob", role="reviewer"), changed("bob", name="Rob"), undo]
    )
    assert roles_of(table) == {"ann": "owner", "Rob": "annotator"}


def test_people_stay_when_a_project_begins_anew() -> None:
    begin = {"settings": {}, "classes": [], "n_items": 3, "audit": []}
    events = [
        Event("created", data=begin),
        added("ann", "owner"),
        Event("restarted", data={**begin, "folder_labels": True}),
        asked("bob"),
    ]
    stored = [replace(event, seq=seq) for seq, event in enumerate(events, 1)]
    assert roles_of(replay_events(stored).record.people) == {"ann": "owner", "bob": "annotator"}


def test_classes_that_were_assigned_do_not_become_others_when_a_project_begins_anew() -> None:
    begin = {"settings": {}, "classes": ["cat", "dog"], "n_items": 3, "audit": []}
    events = [
        Event("created", data=begin),
        added("ann", "owner"),
        changed("ann", classes=[1], share=0.5, quota=9),
        Event("restarted", data={**begin, "classes": [], "folder_labels": False}),
        Event("class_added", None, "ann", "k", {"name": "owl"}),
    ]
    record = Record.from_events(replace(event, seq=seq) for seq, event in enumerate(events, 1))
    assert record.people.by_id["ann"].details == {"share": 0.5, "quota": 9}
    assert show_people(record, ()).changes[0].line == (
        "“ann” is asked for 50 % of the pool; classes that were there before; 9 labels."
    )
    assert people_as_rows(record)[0]["classes"] == []
    again = record.people.copy()
    again.apply(replace(changed("ann", classes=[0]), seq=6))
    assert again.by_id["ann"].details["classes"] == [0]


def test_a_role_may_do_what_those_before_it_may() -> None:
    assert [may("reviewer", needed) for needed in ("annotator", "reviewer", "owner")] == [True, True, False]


# -- names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "twin",
    ["Bob Ström", "bob strom", "bob stro\u0308m", "bobström", "ｂｏｂ ström", "bob\u3164ström", "bob\u2003str\u00f6m"],
)
def test_names_that_are_easily_taken_for_another_are_refused(twin: str) -> None:
    table = table_of([added("bob ström", "owner")])
    with pytest.raises(Conflict, match="easily taken"):
        require_free_name(table, twin)


@pytest.mark.parametrize(
    "bad", ["", "  ", "bob\u200b", "b\u2060ob", "bob\u202e", "bob\nb", "\ufeffbob", "x" * 65, "source"]
)
def test_names_with_what_cannot_be_seen_cannot_be_given(bad: str) -> None:
    with pytest.raises(UsageError):
        check_person_name(bad)


def test_signs_that_show_nothing_do_not_make_a_name_another() -> None:
    for sign in "\u115f\u1160\u2800\u3164\uffa0":
        assert find_look_alike(f"bo{sign}b", ["bob"]) == "bob"


def test_a_name_of_today_or_of_before_belongs_to_one_person_who_may_have_it_back() -> None:
    table = table_of([added("bob", "owner"), changed("bob", name="Rob")])
    with pytest.raises(Conflict, match="already is a person 'Rob'"):
        require_free_name(table, "Rob")
    with pytest.raises(Conflict, match="'bob' was the name of 'Rob'"):
        require_free_name(table, "bob")
    require_free_name(table, "bob", "bob")
    require_free_name(table, "BOB", "bob")


# -- who is let in when a project is served --------------------------------------------------------------------


def enrolled(table: PeopleTable, **wanted: Any) -> dict[str, str]:
    for event in enrol(table, wanted):
        table.apply(replace(event, seq=100 + len(table.events)))
    return {person.name: person.role for person in table.by_id.values() if table.may_enter(person.id)}


def test_in_a_new_project_the_first_name_without_a_role_is_owner() -> None:
    assert enrolled(PeopleTable(), ann=None, bob=None) == {"ann": "owner", "bob": "annotator"}
    assert enrolled(PeopleTable(), ann="reviewer", bob=None) == {"ann": "reviewer", "bob": "owner"}
    assert enrolled(PeopleTable(), ann=None, bob="owner") == {"ann": "annotator", "bob": "owner"}
    with pytest.raises(UsageError, match="ann:owner"):
        enrol(PeopleTable(), {"ann": "annotator"})


def test_in_a_project_of_before_its_first_person_is_owner_and_comes_in_too() -> None:
    assert enrolled(table_of([asked("me"), asked("bob")]), bob=None, eve=None) == {
        "me": "owner", "bob": "annotator", "eve": "annotator"
    }  # fmt: skip


def test_behind_a_password_somebody_is_owner_and_those_who_labelled_are_not_let_in_by_that() -> None:
    assert enrolled(PeopleTable()) == {"owner": "owner"}
    assert enrolled(table_of([asked("ann"), asked("bob")])) == {"ann": "owner"}


def test_roles_at_the_start_are_for_those_who_are_new() -> None:
    table = table_of([added("ann", "owner"), added("bob"), changed("bob", name="Rob")])
    assert enrolled(table, bob="reviewer", Rob="reviewer", eve="reviewer") == {
        "ann": "owner", "Rob": "annotator", "eve": "reviewer"
    }  # fmt: skip


# -- changes -------------------------------------------------------------------------------------------------


@pytest.fixture
def team(tmp_path: Path) -> Any:
    project = create_or_open("digits", project=tmp_path / "digits", folder_labels=False, basis_size=50)
    session = open_session(project, people={"ann": "owner", "bob": None})
    yield session
    session.close()


def test_changes_are_events_and_are_said_in_sentences(team: Session) -> None:
    change(team, name="eve", role="reviewer")
    change(team, person="eve", name="Eva")
    change(team, person="Eva", role="owner")
    change(team, person="eve", retired=True)
    change(team, person="eve", retired=True)  # nothing new
    change(team, person="eve", retired=False)
    lines = [each.line for each in team.people().changes]
    assert lines == [
        "“Eva” is back.", "“Eva” was retired.", "“Eva” is owner now.", "“eve” was renamed “Eva”.",
        "“Eva” was added as reviewer.", "“bob” was added as annotator.", "“ann” was added as owner.",
    ]  # fmt: skip


def test_who_retires_gives_back_what_they_held_and_keeps_their_labels(team: Session) -> None:
    item = team.next("bob").item
    assert item is not None
    team.label(item, 3, "bob", "l1")
    assert team.lease_of("bob") is not None
    change(team, person="bob", retired=True)
    assert team.lease_of("bob") is None
    assert team.record.label_of(item) == 3
    assert team.people().people[-1].retired


def test_an_owner_is_left_whatever_is_done(team: Session) -> None:
    for values in ({"role": "reviewer"}, {"retired": True}):
        with pytest.raises(Conflict, match="make somebody else owner first"):
            change(team, person="ann", **values)
    change(team, person="bob", role="owner")
    change(team, person="ann", retired=True)
    promoted = next(event for event in team.record.people.events.values() if event.data.get("role") == "owner"
                    and event.kind == "person_changed")  # fmt: skip
    with pytest.raises(Conflict, match="nobody would be owner"):
        team.change_people(Event("undone", None, "bob", "u", {"undoes": promoted.seq, "what": "person_changed"}))


def test_what_cannot_be_changed_says_why(team: Session) -> None:
    with pytest.raises(NotFound, match=r"no person 'zoe'; there are ann, bob"):
        change(team, person="zoe", role="owner")
    with pytest.raises(UsageError, match="roles are annotator, reviewer, owner"):
        change(team, person="bob", role="king")
    with pytest.raises(Conflict, match="easily taken for 'BOB'"):
        change(team, name="BOB", role="annotator")
    with pytest.raises(NotFound, match="not a change of people"):
        team.change_people(Event("undone", None, "ann", "u", {"undoes": 1, "what": "x"}))


def test_an_addition_is_taken_back_until_the_person_has_worked(team: Session) -> None:
    change(team, name="eve", role="annotator")
    seq = team.record.seq
    undo = Event("undone", None, "ann", "u1", {"undoes": seq, "what": "person_added"})
    team.change_people(undo)
    assert team.record.people.id_of("eve") is None
    with pytest.raises(Conflict, match="taken back already"):
        team.change_people(replace(undo, key="u2"))
    change(team, name="eve", role="annotator")
    team.next("eve")
    with pytest.raises(Conflict, match="'eve' has worked here since; retire them instead"):
        team.change_people(Event("undone", None, "ann", "u3", {"undoes": seq + 2, "what": "person_added"}))


def test_a_change_that_is_sent_twice_is_one(team: Session) -> None:
    event = Event("person_added", None, "ann", "same", {"name": "eve", "role": "reviewer"})
    team.change_people(event)
    before = team.record.seq
    team.change_people(event)
    assert team.record.seq == before
    with pytest.raises(Conflict, match="used for something else"):
        team.change_people(replace(event, data={"name": "eve", "role": "owner"}))
    out = Event("person_changed", None, "ann", "out", {"person": "eve", "retired": True})
    team.change_people(out)
    team.change_people(out)
    for other in ({"person": "bob", "retired": True}, {"person": "eve", "retired": False}):
        with pytest.raises(Conflict, match="used for something else"):
            team.change_people(replace(out, data=other))
    assert not team.record.people.is_retired("bob")


def test_a_change_that_is_sent_twice_is_one_by_whatever_name_and_blanks(team: Session) -> None:
    """What is stored is an id and a clean name; the call that comes again still has what was typed."""
    for key, kind, data in (
        ("k1", "person_added", {"name": " eve ", "role": "annotator"}),
        ("k2", "person_changed", {"person": "eve", "name": " Eva"}),
        ("k3", "person_changed", {"person": "Eva", "role": "reviewer"}),
    ):
        event = Event(kind, None, "ann", key, data)  # type: ignore[arg-type]
        team.change_people(event)
        before = team.record.seq
        team.change_people(event)
        assert team.record.seq == before
    assert roles_of(team.record.people)["Eva"] == "reviewer"


def test_people_are_the_same_after_a_restart(tmp_path: Path) -> None:
    project = create_or_open("digits", project=tmp_path / "digits", folder_labels=False, basis_size=50)
    session = open_session(project, people={"ann": "owner", "bob": None})
    change(session, person="bob", name="Rob")
    change(session, name="eve", role="reviewer")
    session.next("bob")
    before = session.record.people.by_id
    session.close()
    with opened(tmp_path / "digits") as again:
        assert again.record.people.by_id == before


def test_everywhere_people_read_a_person_has_the_name_of_today(team: Session) -> None:
    one, two = team.next("bob").item, team.next("ann").item
    assert one is not None
    assert two is not None
    team.label(one, 3, "bob", "b1")
    team.label(one, 4, "ann", "a1")
    team.add_class("eleven", "bob", "b2")
    team.arrive("bob")
    change(team, person="bob", name="Rob")
    assert team.status().online == ["Rob"]
    assert {person.name for person in team.progress().people} == {"ann", "Rob"}
    agreement = team.progress().agreement
    assert agreement is not None
    assert agreement.disagreements[0].labels == {"Rob": 3, "ann": 4}
    assert team.card(one).labels == {"Rob": 3, "ann": 4}
    assert team.classes().changes[0].by == "Rob"
    news = team.status().class_news
    assert news is not None
    assert news.by == "Rob"


def test_an_import_under_a_former_name_is_of_the_same_person(team: Session) -> None:
    change(team, person="bob", name="Rob")
    entries = [ImportedLabel(7, "3", "bob"), ImportedLabel(8, "3", "Rob"), ImportedLabel(9, "3", "zoe")]
    team.import_labels(gather_entries(entries, team.record.classes), "ann")
    assert [list(team.record.labels[row]) for row in (7, 8, 9)] == [["bob"], ["bob"], ["zoe"]]
    assert team.record.people.role_of("zoe") == "annotator"


@pytest.mark.parametrize("form", ["csv", "jsonl", "labelstudio"])
def test_exports_name_people_as_today_and_come_back_to_the_same_persons(team: Session, form: str) -> None:
    rows = [item for item in (team.next("bob").item, team.next("ann").item) if item is not None]
    for row, who in zip(rows, ("bob", "ann"), strict=True):
        team.label(row, 3, who, f"l{row}")
    before = b"".join(format_named(form).write(collect_labels(team.record, team.project.pool)))
    change(team, person="bob", name="Rob")
    after = b"".join(format_named(form).write(collect_labels(team.record, team.project.pool)))
    assert (b"Rob" in before, b"Rob" in after) == (False, True)
    pool = team.project.pool
    for exported in (before, after):
        found = read_labels(exported, form, pool.ids, items=pool.items, classes=team.record.classes)
        assert team.import_labels(found, "ann") == {"added": 0, "unchanged": 2}


def test_somebody_who_has_retired_is_asked_nothing(team: Session) -> None:
    item = team.next("bob").item
    assert item is not None
    change(team, person="bob", retired=True)
    assert team.label(item, 3, "bob", "late").next.item is None  # it was on its way
    assert team.record.label_of(item) == 3


# -- on the console --------------------------------------------------------------------------------------------


def test_people_are_changed_on_the_console_too(tmp_path: Path) -> None:
    project = create_or_open("digits", project=tmp_path / "digits", folder_labels=False, basis_size=50)
    open_session(project, people={"ann": "owner", "bob": None}).close()

    def run(*words: str, fails: bool = False) -> str:
        done = CliRunner().invoke(app, ["people", str(tmp_path / "digits"), *words])
        assert (done.exit_code != 0) == fails, done.output
        return done.output + (str(done.exception) if fails else "")

    assert "“eve” was added as reviewer." in run("add", "eve", "reviewer")
    assert "“bob” was renamed “Rob”." in run("rename", "bob", "Rob")
    assert "“Rob” is reviewer now." in run("role", "bob", "reviewer")
    assert "“Rob” was retired." in run("retire", "Rob")
    assert "Taken back: “Rob” was retired." in run("undo")
    assert "like that already" in run("return", "Rob")
    assert "formerly" in run()
    assert "write one of: add NAME [ROLE]; rename" in run("fire", "bob", fails=True)
    assert "write rename NAME NEW-NAME" in run("rename", "bob", fails=True)
    assert "make somebody else owner first" in run("retire", "ann", fails=True)
    assert '"former_names": [\n   "bob"' in run("--json")


def test_people_are_assigned_their_part_on_the_console(tmp_path: Path) -> None:
    project = create_or_open("digits", project=tmp_path / "digits", folder_labels=False, basis_size=50)
    open_session(project, people={"ann": "owner", "bob": None}).close()

    def run(*words: str, fails: bool = False) -> str:
        done = CliRunner().invoke(app, ["people", str(tmp_path / "digits"), *words])
        assert (done.exit_code != 0) == fails, done.output
        return done.output + (str(done.exception) if fails else "")

    said = run("assign", "bob", "share=0.4", "classes=3,5", "quota=200")
    assert "“bob” is asked for 40 % of the pool; the classes 3, 5; 200 labels." in said
    assert "“bob” is asked for any number of labels." in run("assign", "bob", "quota=none")
    assert '"share": 0.4,\n  "classes": [\n   "3",\n   "5"\n  ],\n  "quota": null' in run("--json")
    assert "Taken back: “bob” is asked for any number of labels." in run("undo")
    assert "200" in run()
    assert "add up to 1 at most; got ann 0.7, bob 0.4" in run("assign", "ann", "share=0.7", fails=True)
    assert "share must be a number; got 'half'" in run("assign", "bob", "share=half", fails=True)
    assert "there is no class 'wolf'; the classes are 0, 1, 2" in run("assign", "bob", "classes=wolf", fails=True)
    assert "write share=0.5, classes=cat,dog or quota=200" in run("assign", "bob", "speed=3", fails=True)
    assert "write assign NAME" in run("assign", "bob", fails=True)
    assert "a quota must be a whole number of labels from 1" in run("assign", "bob", "quota=0", fails=True)
