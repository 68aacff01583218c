"""Changing the people of a project: which changes are possible, each in a sentence, and the command `people`."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, Final

from rich.table import Table

from understudy.data.items import make_printable
from understudy.errors import Conflict, NotFound, UsageError
from understudy.messages import list_some
from understudy.projects.project import Project
from understudy.projects.project_file import existing_folder, read_info, store_url_of
from understudy.sessions.assignments import (
    Assignment,
    check_assignment,
    describe_assignment,
    read_assignment,
    require_possible,
)
from understudy.sessions.log.events import Event
from understudy.sessions.log.log import EventLog
from understudy.sessions.people import (
    PeopleTable,
    Role,
    check_person_name,
    check_role,
    require_free_name,
)
from understudy.sessions.record import Record
from understudy.sessions.replies import ChangeShown, PeopleList, PersonShown

MAX_CHANGES: Final = 30  # shown with what there is to take back
FIRST_OWNER: Final = "owner"  # what the first person is called where a password is all that is given


def possible_changes(record: Record, event: Event) -> list[Event]:
    """The events as they are to be stored, with what follows; nothing where all is as it should be already.

    An error where it cannot be done.
    """
    change: Event | None = event
    if event.kind == "undone":
        after = _people_without(record, event.data["undoes"])
    else:
        change = _possible_addition(record, event) if event.kind == "person_added" else _possible_values(record, event)
        after = record.people.copy()
        if change is not None:
            after.apply(replace(change, seq=record.seq + 1))
    if change is None:
        return []
    require_possible(record, after, event.data)
    if record.people.owners and not after.owners:
        raise Conflict("a project needs an owner, who may change people; make somebody else owner first")
    retired = [who for who in after.by_id if after.is_retired(who) and not record.people.is_retired(who)]
    held = [lease for who in retired for lease in record.held_by(who)]
    return [change, *(Event("released", lease.item, lease.annotator) for lease in held)]


def by_id(table: PeopleTable, event: Event) -> Event:
    """A change that was stored before as it is in the log: whom it is about by their id, names without blanks."""
    data = {name: value.strip() if name == "name" else value for name, value in event.data.items()}
    whom = "name" if event.kind == "person_added" else "person"
    return replace(event, data={**data, **({whom: table.id_or_name(data[whom])} if whom in data else {})})


def _possible_addition(record: Record, event: Event) -> Event:
    table, name = record.people, check_person_name(event.data["name"])
    role = check_role(event.data["role"])
    known = table.by_id.get(table.id_of(name) or "")
    if known is None or known.is_added or known.name != name:
        require_free_name(table, name)
        return replace(event, data={"name": name, "role": role})
    return replace(event, data={"name": known.id, "role": role})  # known by labels of theirs, and let in only now


def _possible_values(record: Record, event: Event) -> Event | None:
    table, data = record.people, dict(event.data)
    person = require_person(table, data["person"])
    known = table.by_id[person]
    values = {name: value for name, value in data.items() if name != "person"}
    if "name" in values:
        values["name"] = check_person_name(values["name"])
        require_free_name(table, values["name"], person)
    if "role" in values:
        check_role(values["role"])
    now = {**known.details, "name": known.name, "role": known.role, "retired": known.retired}
    if all(now.get(name) == value for name, value in values.items()):
        return None
    before = {"before": known.name} if "name" in values else {}
    return replace(event, data={"person": person, **values, **before})


def _people_without(record: Record, seq: int) -> PeopleTable:
    """The people as they are once this change is taken back; an error where it cannot be."""
    reason = reason_to_keep(record, _require_change(record, seq))
    if reason is not None:
        raise Conflict(reason)
    return record.people.without(seq)


def _require_change(record: Record, seq: int) -> Event:
    found = record.people.events.get(seq)
    if found is None:
        raise NotFound(f"event {seq} is not a change of people; see GET /api/people")
    if seq in record.people.undone:
        raise Conflict("this was taken back already")
    return found


def reason_to_keep(record: Record, event: Event) -> str | None:
    """Why a change of people cannot be taken back; None where it can."""
    table = record.people
    after = table.without(event.seq)
    if event.kind == "person_added" and (known := table.by_id.get(event.data["name"])) is not None:
        if known.has_acted:
            return f"{known.name!r} has worked here since; retire them instead"
        if any(other.data.get("person") == known.id and seq not in table.undone for seq, other in table.events.items()):
            return f"{known.name!r} was changed since; take that back first"
    if not after.owners:
        return "nobody would be owner any more; make somebody else owner first"
    return None


def require_person(table: PeopleTable, name: str) -> str:
    """The id of the person who has this name, or had it."""
    person = table.id_of(name)
    if person is None:
        names = [known.name for known in table.by_id.values()]
        raise NotFound(f"there is no person {make_printable(name)!r}; there are {list_some(names, 10) or 'none yet'}")
    return person


def _describe_change(table: PeopleTable, event: Event, classes: Sequence[str]) -> str:
    """A change of people in a sentence, with the names of today."""
    data = event.data
    if event.kind == "undone":
        return f"Taken back: {_describe_change(table, table.events[data['undoes']], classes)}"
    if event.kind == "person_added":
        return f"{_quote_name(table, data['name'])} was added as {data['role']}."
    who = _quote_name(table, data["person"])
    if "name" in data:
        return f"“{data['before']}” was renamed “{data['name']}”."
    if "role" in data:
        return f"{who} is {data['role']} now."
    if "retired" in data:
        return f"{who} was retired." if data["retired"] else f"{who} is back."
    known = classes if event.seq > table.restarted_at else ()  # the numbers of before a restart meant other classes
    return f"{who} is asked for {describe_assignment(data, known)}."


def _quote_name(table: PeopleTable, person: str) -> str:
    return f"“{table.name_of(person)}”"


def show_people(record: Record, online: Collection[str]) -> PeopleList:
    """All people, those who retired last, and what was done to them lately."""
    table = record.people
    people = sorted(table.by_id.values(), key=lambda person: person.retired)
    changes = [event for seq, event in table.events.items() if seq not in table.undone]
    return PeopleList(
        [
            PersonShown(
                person=each.id,
                name=each.name,
                role=each.role,
                retired=each.retired,
                former_names=list(each.former_names),
                added=each.is_added,
                online=each.id in online,
                labels=_count_labels(record, each.id),
            )
            for each in people
        ],
        [
            ChangeShown(
                event.seq,
                event.at,
                None if event.annotator is None else table.name_of(event.annotator),
                _describe_change(table, event, record.classes),
                reason_to_keep(record, event),
            )
            for event in changes[::-1][:MAX_CHANGES]
        ],
    )


def _count_labels(record: Record, person: str) -> int:
    """How many items somebody labelled, as far as that stands."""
    events = record.events_by_annotator.get(person, [])
    return sum(event.kind == "labelled" and event.seq not in record.undone for event in events)


# -- when a project is served --------------------------------------------------------------------------------


def enrol(table: PeopleTable, wanted: Mapping[str, Role | None]) -> list[Event]:
    """The events by which these people, and all owners, may come in to a project that is not open to everybody.

    Roles are for those who are new; others keep theirs. There is an owner then: if need be the first of those who are
    wanted without a role, and where nobody is wanted somebody of that name.
    """
    after, events = table.copy(), list[Event]()

    def add(person: str, role: Role) -> None:
        event = Event("person_added", data={"name": person, "role": role})
        after.apply(replace(event, seq=-1 - len(events)))  # a number that no event of the log has
        events.append(event)

    names = wanted or ({} if table.owners else {_name_of_first_owner(table): None})
    promoted = None if table.owners or "owner" in names.values() else _first_without_role(names)
    for name, role in names.items():
        person = after.id_of(name)
        if person is None:
            person = check_person_name(name)
            require_free_name(after, person)
        if (known := after.by_id.get(person)) is None or not known.is_added:
            add(person, "owner" if name == promoted else role or after.role_of(person))
    for owner in after.owners:
        if not owner.is_added:
            add(owner.id, "owner")
    if not after.owners:
        raise UsageError(
            f"this project has no owner, who may change people, classes and settings; write {next(iter(names))}:owner"
        )
    return events


def _first_without_role(names: Mapping[str, Role | None]) -> str | None:
    return next((name for name, role in names.items() if role is None), None)


def _name_of_first_owner(table: PeopleTable) -> str:
    return FIRST_OWNER if table.id_of(FIRST_OWNER) is None else f"{FIRST_OWNER} of the project"


def read_people(project: Project) -> PeopleTable:
    """The people of a project, also while it is opened; nobody where it was never labelled."""
    try:
        with closing(EventLog.open(project.store_url, project.identity, read_only=True)) as log:
            table = PeopleTable()
            for event in log.read():
                table.apply(event)
            return table
    except NotFound:
        return PeopleTable()


# -- of a project that nobody serves -------------------------------------------------------------------------

FORMS: Final = {  # how each change is written on the command line
    "add": "add NAME [ROLE]",
    "rename": "rename NAME NEW-NAME",
    "role": "role NAME ROLE",
    "retire": "retire NAME",
    "return": "return NAME",
    "assign": "assign NAME [share=0.5] [classes=cat,dog] [quota=200]",
    "undo": "undo",
}


def list_people(source: str, *, store: str | None = None) -> Record:
    """The record of a project, also while people label."""
    with _log_of(source, store, read_only=True) as log:
        return Record.from_events(log.read())


def change_people(source: str, words: Sequence[str], *, store: str | None = None) -> tuple[Record, str]:
    """Make one change of people, written as in `FORMS`; the record then, and the change in a sentence."""
    with _log_of(source, store) as log:
        try:
            log.lock()
        except Conflict as error:
            raise Conflict(f"{error}. Its page changes people too") from error
        record = Record.from_events(log.read())
        if not record.seq:
            raise UsageError(f"{source} was never labelled; give its people with: understudy label --annotators")
        events = possible_changes(record, _read_change(record, words))
        if not events:
            return record, "Nothing to change: people are like that already."
        stored = log.append(*events)
        for event in stored:
            record.apply(event)
    return record, _describe_change(record.people, stored[0], record.classes)


@contextmanager
def _log_of(source: str, store: str | None, *, read_only: bool = False) -> Iterator[EventLog]:
    folder = existing_folder(source)
    info = read_info(folder)
    url = store_url_of(folder, info.store, store)
    with closing(EventLog.open(url, info.identity, read_only=read_only)) as log:
        yield log


def _read_change(record: Record, words: Sequence[str]) -> Event:
    """The event that these words mean."""
    verb, *rest = words
    if verb not in FORMS:
        raise UsageError(f"write one of: {'; '.join(FORMS.values())}")
    if verb == "assign" and len(rest) > 1:
        values = check_assignment(read_assignment(rest[1:], record))
        return Event("person_changed", data={"person": rest[0], **values})
    wanted = len(FORMS[verb].split()) - 1
    if len(rest) != wanted and not (verb == "add" and len(rest) == 1):
        raise UsageError(f"write {FORMS[verb]}")
    if verb == "add":
        return Event("person_added", data={"name": rest[0], "role": check_role(rest[1] if rest[1:] else "annotator")})
    if verb == "undo":
        return _undo_last(record)
    changes: dict[str, dict[str, Any]] = {
        "rename": {"name": rest[-1]},
        "role": {"role": rest[-1]},
        "retire": {"retired": True},
        "return": {"retired": False},
    }
    values = changes[verb]
    return Event("person_changed", data={"person": rest[0], **values})


def _undo_last(record: Record) -> Event:
    """The event that takes back the last change that can be."""
    changes = [event for seq, event in record.people.events.items() if seq not in record.people.undone]
    last = next((event for event in reversed(changes) if reason_to_keep(record, event) is None), None)
    if last is None:
        raise Conflict("there is no change of people to take back")
    return Event("undone", data={"undoes": last.seq, "what": last.kind})


def people_as_rows(record: Record) -> list[dict[str, Any]]:
    """The people as plain values."""
    return [
        {
            "name": each.name,
            "role": each.role,
            "retired": each.retired,
            "labels": each.labels,
            **_assignment_as_row(record, each.person),
            "former_names": each.former_names,
        }
        for each in show_people(record, ()).people
    ]


def _assignment_as_row(record: Record, person: str) -> dict[str, Any]:
    found = Assignment.from_details(record.people.by_id[person].details)
    classes = [record.classes[number] for number in sorted(found.classes)]
    return {"share": found.share, "classes": classes, "quota": found.quota}


def people_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A line for each person."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("person", "role", "labels", "quota", "share", "classes", "", "formerly"):
        shown.add_column(title, justify="right" if title in ("labels", "quota", "share") else "left")
    for row in rows:
        retired = "retired" if row["retired"] else ""
        cells = (
            row["name"],
            row["role"],
            f"{row['labels']:,}",
            "" if row["quota"] is None else f"{row['quota']:,}",
            "" if row["share"] is None else f"{100 * row['share']:.4g} %",
            ", ".join(row["classes"]),
            retired,
            ", ".join(row["former_names"]),
        )
        shown.add_row(*cells)
    return shown
