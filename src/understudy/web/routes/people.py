"""Calls for logging in and out, and about the people of a project."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from understudy.data.class_names import find_look_alike
from understudy.errors import Conflict, NotFound, NotStored, UnderstudyError
from understudy.sessions.log.events import Event
from understudy.sessions.people import check_person_name, require_free_name
from understudy.sessions.people_changes import require_person
from understudy.sessions.replies import ChangeShown, PeopleList, PersonShown
from understudy.sessions.session import Session
from understudy.web.access import Access, Tries, token_in
from understudy.web.dependencies import Anybody, Me, Owning, Ready, class_number, own_name, who_is
from understudy.web.error_responses import READS, WRITES, describe_statuses, error_response
from understudy.web.live_status import LiveStatus
from understudy.web.login_links import give_cookie
from understudy.web.requests import (
    Annotator,
    Login,
    NewLink,
    NewPerson,
    Nothing,
    PeopleUndo,
    PersonAssignment,
    PersonChange,
)

router = APIRouter(prefix="/api", tags=["people"])


class LoggedIn(BaseModel):
    annotator: str


class LoggedOut(BaseModel):
    pass


@router.get("/me", responses=describe_statuses(401, 403, 422))
def me(by: Anybody, request: Request, annotator: Annotator | None = None) -> Me:
    """Who this is, what they may do, and whether a password is wanted.

    Where everybody may choose a name, `annotator` is the one that is to be used: the answer says what it is called now,
    or why it cannot be.
    """
    found = who_is(by, None if by is None or annotator is None else own_name(by, annotator))
    return replace(found, several="project" if request.app.state.is_listed else None)


@router.post(
    "/login", response_model=LoggedIn, responses=describe_statuses(401, 403, 404, 408, 413, 415, 422, 429, 507)
)
def login(body: Login, by: Anybody, request: Request, response: Response) -> object:
    """Give the password and choose a name. The cookie that comes back belongs to that name."""
    access: Access = request.app.state.access
    if access.tokens is None or not access.password:
        raise NotFound("no password is wanted here")
    given = try_password(request, access.tries, [access], body)
    if isinstance(given, Response):
        return given
    ((_, token),) = given
    give_cookie(response, request, access, token)
    return LoggedIn(annotator=access.people.name_of(access.people.id_or_name(body.annotator)))


def try_password(
    request: Request, tries: Tries, projects: Sequence[Access], body: Login
) -> list[tuple[Access, str]] | Response:
    """A new token for each of these projects, which have one password, that lets the name in; or what to answer."""
    address = request.client.host if request.client is not None else ""
    wait = tries.begin(address)
    if wait > 0:
        return error_response(429, "too many wrong passwords; wait a little", {"Retry-After": str(math.ceil(wait))})
    given: list[tuple[Access, str]] = []
    unusable: list[str] = []
    try:
        for access in projects:
            if access.tokens is None:
                continue
            person, check = access.people.id_or_name(body.annotator), partial(_require_usable, access, body.annotator)
            try:
                token = access.tokens.login(person, body.password, check=check)
            except UnusableName as error:  # the password was right
                unusable.append(str(error))
                continue
            if token is None:
                return error_response(401, "that is not the password", {"WWW-Authenticate": "Bearer"})
            given.append((access, token))
    except NotStored:  # the password was right
        tries.record_success(address)
        raise
    tries.record_success(address)
    return given or error_response(403, unusable[0])


class UnusableName(Exception):
    """A name that nobody can take by giving the password."""


def _require_usable(access: Access, name: str) -> None:
    """Raise where a name that is new is easily taken for another's, or belongs to somebody who comes in otherwise."""
    people = access.people
    person = people.id_of(name)
    if person is not None:
        reason = access.reason_against_login(person)
        if reason is not None:
            raise UnusableName(reason)
        return
    try:
        check_person_name(name)
        require_free_name(people, name)
    except UnderstudyError as error:
        raise UnusableName(str(error)) from None
    others = [other for other in access.logins if other != name and people.id_of(other) is None]
    if (twin := find_look_alike(name, others)) is not None:
        raise UnusableName(f"somebody here is called {twin}, which is easily taken for {name}; give another name")


@router.post("/logout", responses=describe_statuses(401, 403, 408, 413, 415, 422, 507))
def logout(body: Nothing, by: Anybody, request: Request, response: Response) -> LoggedOut:
    """End this login, to come back under another name. A personal link goes on working."""
    access: Access = request.app.state.access
    if access.tokens is not None:
        token = token_in(request.headers, access.tokens.cookie)
        if token is not None:
            access.tokens.logout(token)
        response.delete_cookie(access.tokens.cookie, path=access.home, httponly=True, samesite="strict")
    return LoggedOut()


@dataclass(frozen=True)
class Issued:
    """A new personal link, which is told once: the project keeps its hash only.

    It is the address of the page with `?token=` and the token.
    """

    person: str
    name: str
    token: str


@dataclass(frozen=True)
class Team:
    """The people of a project, how they come in, and whose link works."""

    people: list[PersonShown]
    changes: list[ChangeShown]
    entry: Literal["open", "links", "password"]  # open: everybody who reaches the server is owner
    linked: list[str]  # `person` of those who have a personal link
    issued: Issued | None = None


@router.get("/people", summary="See the list of people", responses=describe_statuses(*READS))
def people(session: Ready, by: Owning, request: Request) -> Team:
    """All people with their roles, those who retired last; and the last changes."""
    return _team(request, session.people())


@router.post("/people/add", summary="Add people", responses=describe_statuses(*WRITES))
def add_person(body: NewPerson, session: Ready, by: Owning, request: Request) -> Team:
    """Let somebody in, by a personal link that is told in the answer only. Names must differ by more than case."""
    event = Event("person_added", None, own_name(by, body.annotator), body.key, {"name": body.name, "role": body.role})
    found = session.change_people(event)
    access: Access = request.app.state.access
    if access.is_open or (access.password and body.role == "annotator"):
        return _team(request, found)
    return _team(request, found, _issue(request, session, body.name))


@router.post("/people/change", summary="Change people", responses=describe_statuses(*WRITES))
def change_person(body: PersonChange, session: Ready, by: Owning, request: Request) -> Team:
    """Rename somebody, give them another role, or let them retire or come back: only what is given."""
    values = body.model_dump(include={"name", "role", "retired"}, exclude_none=True)
    data = {"person": require_person(session.record.people, body.person), **values}
    found = session.change_people(Event("person_changed", None, own_name(by, body.annotator), body.key, data))
    _wake_pages(request)
    return _team(request, found)


@router.post("/people/assign", summary="Assign people their part", responses=describe_statuses(*WRITES))
def assign_person(body: PersonAssignment, session: Ready, by: Owning, request: Request) -> Team:
    """Assign somebody a share of the pool, classes, or a number of labels: only what is given; null takes it away."""
    values = body.model_dump(include={"share", "classes", "quota"}, exclude_unset=True)
    if values.get("classes"):
        values["classes"] = [class_number(session, each) for each in values["classes"]]
    person = require_person(session.record.people, body.person)
    return _team(request, session.assign(person, values, own_name(by, body.annotator), body.key))


@router.post("/people/link", summary="Make links", responses=describe_statuses(*WRITES))
def new_link(body: NewLink, session: Ready, by: Owning, request: Request) -> Team:
    """Issue a new personal link, told in the answer only. The one of before stops working at once."""
    own_name(by, body.annotator)
    access: Access = request.app.state.access
    if access.is_open:
        raise Conflict(
            "this server is open to everybody who reaches it, so there are no links; start it with --annotators NAMES"
        )
    issued = _issue(request, session, body.person)
    return _team(request, session.people(), issued)


@router.post("/people/undo", summary="Take changes of people back", responses=describe_statuses(*WRITES))
def undo_people_change(body: PeopleUndo, session: Ready, by: Owning, request: Request) -> Team:
    """Take one change of people back, whoever made it."""
    changed = session.record.people.events.get(body.change)
    data = {"undoes": body.change, "what": "" if changed is None else changed.kind}
    found = session.change_people(Event("undone", None, own_name(by, body.annotator), body.key, data))
    _wake_pages(request)
    return _team(request, found)


def _issue(request: Request, session: Session, name: str) -> Issued:
    """A new link for somebody; whoever has the former one open is out."""
    access: Access = request.app.state.access
    table = session.record.people
    person = require_person(table, name)
    if not table.may_enter(person):
        why = "has retired; bring them back first" if table.is_retired(person) else "was never let in; add them first"
        raise Conflict(f"{table.name_of(person)} {why}")
    assert access.tokens is not None
    token = access.tokens.links_for([person], anew=True)[person]
    _wake_pages(request)
    return Issued(person, table.name_of(person), str(token))


def _wake_pages(request: Request) -> None:
    """Let every open page find out at once whether its person may still be there."""
    live: LiveStatus = request.app.state.live
    live.wake_soon()


def _team(request: Request, found: PeopleList, issued: Issued | None = None) -> Team:
    access: Access = request.app.state.access
    linked = [] if access.tokens is None else [who.person for who in found.people if who.person in access.tokens.links]
    entry: Literal["open", "links", "password"] = "links"
    if access.is_open:
        entry = "open"
    elif access.password:
        entry = "password"
    return Team(found.people, found.changes, entry, linked, issued)
