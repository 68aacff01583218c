"""The people of a project, as its events leave them: who there is, what each may do, and what each is called.

A person is an id for ever, the name they first had: the log, leases and labels refer to it. The name that is shown may
change; former names stay theirs, so that what was sent or exported under one still means the same person.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from understudy.data.class_names import FILLERS, find_look_alike
from understudy.data.items import make_printable
from understudy.errors import Conflict, UsageError
from understudy.messages import list_some
from understudy.sessions.log.events import PEOPLE_KINDS, SOURCE_ANNOTATOR, Event

Role = Literal["annotator", "reviewer", "owner"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)  # each may do what those before it may
MAX_PERSON_NAME_LENGTH: Final = 64
JOINERS: Final = frozenset("\u200c\u200d")
OWN_FIELDS: Final = frozenset({"person", "name", "before", "role", "retired"})  # others are kept as details


@dataclass(frozen=True)
class ProjectPerson:
    """Somebody who labels, now or formerly. `is_added`: somebody let them in; others are known by what they did."""

    id: str
    name: str
    role: Role = "annotator"
    retired: bool = False
    former_names: tuple[str, ...] = ()
    is_added: bool = False
    has_acted: bool = False  # themselves: labels of theirs that somebody imported do not count
    details: Mapping[str, Any] = field(default_factory=dict)  # what else events say of them


class PeopleTable:
    """All people by id, brought up to date by `apply`, one event at a time.

    Whoever reads it may do so while another thread applies an event: what is there is replaced, never changed.
    """

    def __init__(self) -> None:
        self.by_id: Mapping[str, ProjectPerson] = {}
        self.events: dict[int, Event] = {}  # what was done to people, by number of the event; also undone ones
        self.undone: set[int] = set()
        self.restarted_at = 0  # the event by which the project began anew; classes of before have other numbers
        self._ids: Mapping[str, str] = {}  # by every name that somebody has or had
        self._steps: list[Event] = []  # the events that the table follows from

    def copy(self) -> "PeopleTable":
        table = PeopleTable()
        table.by_id, table._ids = self.by_id, self._ids
        table.events, table.undone, table._steps = dict(self.events), set(self.undone), list(self._steps)
        table.restarted_at = self.restarted_at
        return table

    def apply(self, event: Event) -> None:
        """Take an event into account. Every event may be the first of the person who caused it."""
        if event.kind == "undone" and event.data["undoes"] in self.events:
            self.undone.add(event.data["undoes"])
            self._fold_again()
        who = event.annotator
        is_first = who is not None and who != SOURCE_ANNOTATOR and not self._knows(who, is_deed=_is_deed(event))
        if event.kind in PEOPLE_KINDS:
            self.events[event.seq] = event
        elif event.kind == "restarted":
            self.restarted_at = event.seq
        elif not is_first:
            return
        self._steps.append(event)
        self._take(event)

    def without(self, seq: int) -> "PeopleTable":
        """The people as they were if this event had not happened."""
        table = self.copy()
        table.undone.add(seq)
        table._fold_again()
        return table

    def _knows(self, person: str, *, is_deed: bool) -> bool:
        known = self.by_id.get(person)
        return known is not None and (known.has_acted or not is_deed)

    def _fold_again(self) -> None:
        self.by_id, self._ids = {}, {}
        for event in self._steps:
            self._take(event, is_undone=event.seq in self.undone)

    def _take(self, event: Event, *, is_undone: bool = False) -> None:
        if event.annotator is not None and event.annotator != SOURCE_ANNOTATOR:
            self._meet(event.annotator, is_deed=_is_deed(event))
        if event.kind == "restarted":
            self.by_id = {person: _without_classes(known) for person, known in self.by_id.items()}
        if is_undone or event.kind not in PEOPLE_KINDS:
            return
        data = event.data
        if event.kind == "person_added":
            added = self.by_id.get(data["name"], ProjectPerson(data["name"], data["name"]))
            self._put(replace(added, role=data["role"], is_added=True, retired=False))
        elif (known := self.by_id.get(data["person"])) is not None:
            self._put(_change_person(known, data))

    def _meet(self, person: str, *, is_deed: bool) -> None:
        """Know of somebody by what they did. Whoever is the first to do something in a project is its owner."""
        known = self.by_id.get(person, ProjectPerson(person, person))
        if is_deed and not known.has_acted:
            known = replace(known, has_acted=True)
            if not known.is_added and not any(other.role == "owner" for other in self.by_id.values()):
                known = replace(known, role="owner")
        if known != self.by_id.get(person):
            self._put(known)

    def _put(self, person: ProjectPerson) -> None:
        self.by_id = {**self.by_id, person.id: person}
        names = (person.id, *person.former_names, person.name)
        self._ids = {**dict.fromkeys(names, person.id), **self._ids}

    # -- what is known ------------------------------------------------------------------------------------

    def name_of(self, person: str) -> str:
        """What a person is called now; whoever is not known is called by their id."""
        known = self.by_id.get(person)
        return person if known is None else known.name

    def names_of(self, people: Iterable[str]) -> list[str]:
        return [self.name_of(person) for person in people]

    def id_of(self, name: str) -> str | None:
        """The person who has this name, or had it."""
        return self._ids.get(name)

    def id_or_name(self, name: str) -> str:
        """The person who has or had this name; nobody yet: the id that such a person would have."""
        return self._ids.get(name, name)

    def role_of(self, person: str) -> Role:
        known = self.by_id.get(person)
        return "annotator" if known is None else known.role

    def may_enter(self, person: str) -> bool:
        """Whether somebody let this person in, and they did not retire."""
        known = self.by_id.get(person)
        return known is not None and known.is_added and not known.retired

    def is_retired(self, person: str) -> bool:
        known = self.by_id.get(person)
        return known is not None and known.retired

    @property
    def owners(self) -> list[ProjectPerson]:
        """Those who may do everything."""
        return [person for person in self.by_id.values() if person.role == "owner" and not person.retired]

    def whom_to_ask(self) -> str:
        """The names of the owners, for a sentence."""
        return list_some((person.name for person in self.owners), 3) or "whoever runs the server"


def _is_deed(event: Event) -> bool:
    """Whether a person did this themselves: what is imported in their name has no key."""
    return event.key is not None or event.kind == "asked"


def _change_person(person: ProjectPerson, data: Mapping[str, Any]) -> ProjectPerson:
    values: dict[str, Any] = {name: data[name] for name in ("name", "role", "retired") if name in data}
    if "name" in values:
        values["former_names"] = tuple(dict.fromkeys((*person.former_names, person.name)))
    if may(data.get("role", "annotator"), "reviewer"):
        values["is_added"] = True  # who may do more than annotators is let in by that
    details = {name: value for name, value in data.items() if name not in OWN_FIELDS}
    return replace(person, **values, details={**person.details, **details})


def _without_classes(person: ProjectPerson) -> ProjectPerson:
    """A person with no class assigned: when a project begins anew, its numbers of classes mean others."""
    return replace(person, details={name: value for name, value in person.details.items() if name != "classes"})


def may(role: Role, needed: Role) -> bool:
    """Whether who has the one role may do what needs the other."""
    return ROLES.index(role) >= ROLES.index(needed)


def check_role(role: str) -> Role:
    for known in ROLES:
        if role == known:
            return known
    raise UsageError(f"{make_printable(role)!r} is not a role; the roles are {', '.join(ROLES)}")


def check_person_name(name: str) -> str:
    """The name of a person, without spaces around it; an error if it cannot be one."""
    cleaned = name.strip()
    is_seen = make_printable(cleaned) == cleaned and not any(_is_unseen(sign) for sign in cleaned)
    if not 1 <= len(cleaned) <= MAX_PERSON_NAME_LENGTH or not is_seen:
        raise UsageError(
            f"a person's name must have 1 to {MAX_PERSON_NAME_LENGTH} characters, all of which can be seen; "
            f"got {name[:100]!a}"
        )
    if cleaned == SOURCE_ANNOTATOR:
        raise UsageError(f"{SOURCE_ANNOTATOR!r} stands for labels that came with the data; choose another name")
    return cleaned


def _is_unseen(sign: str) -> bool:
    """Whether a sign has no width, or shows nothing. Those that join letters are part of some scripts."""
    return sign in FILLERS or (unicodedata.category(sign) == "Cf" and sign not in JOINERS)


def require_free_name(table: PeopleTable, name: str, person: str | None = None) -> None:
    """An error where somebody else has or had this name, or one that is easily taken for it."""
    other = table.id_of(name)
    if other is not None and other != person:
        now = table.name_of(other)
        if now == name:
            raise Conflict(f"there already is a person {name!r}; give another name")
        raise Conflict(f"{name!r} was the name of {now!r}, and labels by it are theirs; give another name")
    names = [known for known, owner in table._ids.items() if owner != person]
    if other is None and (twin := find_look_alike(name, names)) is not None:
        raise Conflict(
            f"there is a person {twin!r}, who is easily taken for {make_printable(name)!r}; give another name"
        )
