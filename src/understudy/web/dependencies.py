"""Dependencies of nearly every call: the session, who calls, and the role that the call needs.

Every call declares one role, by the type of its visitor: `by: Owning`. A call that declares none is not served at all.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts

from understudy.errors import NotFound, UnderstudyError
from understudy.sessions.people import ROLES, Role, check_person_name, may, require_free_name
from understudy.sessions.session import Session
from understudy.web.access import Visitor
from understudy.web.session_holder import SessionHolder

Needed = Literal["anybody", Role]  # "anybody": also a stranger, to find out how to come in
ROLE_FIELD: Final = "x-role"  # of a call's description


async def _the_holder(request: Request) -> SessionHolder:
    holder: SessionHolder = request.app.state.holder
    return holder


async def _the_session(request: Request) -> Session:
    holder: SessionHolder = request.app.state.holder
    return holder.require_session()


class RoleNeeded:
    """A dependency: the visitor, if their role allows the call."""

    def __init__(self, role: Needed) -> None:
        self.role = role

    async def __call__(self, request: Request) -> Visitor | None:
        visitor: Visitor | None = request.state.visitor
        if self.role == "anybody":
            return visitor
        if visitor is None:  # the guard lets strangers through to log in, and nowhere else
            raise HTTPException(401, "log in first")
        require_role(visitor, self.role, _what_it_does(request))
        return visitor


Holding = Annotated[SessionHolder, Depends(_the_holder)]
Ready = Annotated[Session, Depends(_the_session)]
Anybody = Annotated[Visitor | None, Depends(RoleNeeded("anybody"))]
Annotating = Annotated[Visitor, Depends(RoleNeeded("annotator"))]
Reviewing = Annotated[Visitor, Depends(RoleNeeded("reviewer"))]
Owning = Annotated[Visitor, Depends(RoleNeeded("owner"))]


def require_role(visitor: Visitor, needed: Role, what: str) -> None:
    """A refusal, in a sentence, where the visitor's role does not allow something."""
    if not may(visitor.role, needed):
        who = " and ".join(f"{role}s" for role in ROLES if may(role, needed))
        raise HTTPException(403, f"only {who} can {what}; ask {visitor.people.whom_to_ask()}")


def _what_it_does(request: Request) -> str:
    """A call in words, for a sentence: its summary, or the name of its function."""
    route = request.scope.get("route")
    name = getattr(route, "summary", None) or str(getattr(route, "name", "do this")).replace("_", " ")
    return f"{name[0].lower()}{name[1:]}"


def declare_roles(router: APIRouter) -> None:
    """Put the role that each call needs into its description. An error where a call declares none, or two."""
    for call in router.routes:
        roles = set(_roles_of(call.dependant)) if isinstance(call, APIRoute) else set()
        if not isinstance(call, APIRoute) or len(roles) != 1:
            raise UnderstudyError(
                f"the call {getattr(call, 'path', call)} must declare the one role that it needs, by a visitor that is "
                f"Annotating, Reviewing, Owning or Anybody; it declares {', '.join(sorted(roles)) or 'none'}"
            )
        call.openapi_extra = {**(call.openapi_extra or {}), ROLE_FIELD: roles.pop()}


def require_roles(app: FastAPI) -> None:
    """An error where something below /api is served that declares no role."""
    for call in iter_route_contexts(app.routes):
        if str(call.path).startswith("/api") and ROLE_FIELD not in (getattr(call, "openapi_extra", None) or {}):
            raise UnderstudyError(f"the call {call.path} declares no role; put it into a router of web/routes")


def _roles_of(dependant: Dependant) -> Iterable[Needed]:
    for each in dependant.dependencies:
        call: Any = each.call
        if isinstance(call, RoleNeeded):
            yield call.role
        yield from _roles_of(each)


@dataclass(frozen=True)
class Me:
    """Who the server takes a visitor for."""

    annotator: str | None  # what they are called; null: not known, choose a name
    person: str | None  # by what name the project knows them for ever
    role: Role | None  # null: a password is wanted first
    login: bool  # a password is wanted first
    fixed: bool  # the name belongs to the token: no other can be used
    several: str | None = None  # where a server has several projects: "project", or "list" for the list of them


def who_is(visitor: Visitor | None, person: str | None = None) -> Me:
    """What a visitor is called and may do; `person` is whom they act as where everybody may choose."""
    if visitor is None:
        return Me(annotator=None, person=None, role=None, login=True, fixed=False)
    who = visitor.name if visitor.name is not None else person
    name = None if who is None else visitor.people.name_of(who)
    return Me(annotator=name, person=who, role=visitor.role, login=False, fixed=visitor.name is not None)


def own_name(visitor: Visitor, annotator: str) -> str:
    """The person who is meant by a name, if the visitor may act as them.

    Here, and nowhere else, names become the ids that the log has. A name that somebody had formerly means the same
    person still: a page that has not heard of the change goes on.
    """
    people = visitor.people
    person = people.id_of(annotator)
    if visitor.name is not None:
        if annotator != visitor.name and person != visitor.name:
            own = people.name_of(visitor.name)
            raise HTTPException(403, f"your token is {own}'s; you cannot act as {annotator}")
        return visitor.name
    if person is None:
        _require_usable(visitor, annotator)
    elif people.is_retired(person):
        raise HTTPException(403, f"{annotator} has retired from this project; ask {people.whom_to_ask()}")
    return annotator if person is None else person


def _require_usable(visitor: Visitor, name: str) -> None:
    """A refusal where a new name cannot be one, or is easily taken for that of somebody else."""
    try:
        check_person_name(name)
        require_free_name(visitor.people, name)
    except UnderstudyError as error:
        raise HTTPException(403, str(error)) from None


def anybodys_name(visitor: Visitor, annotator: str) -> str:
    """The person who is meant by a name: anybody where the visitor may see what others did, else only themselves."""
    return visitor.people.id_or_name(annotator) if may(visitor.role, "reviewer") else own_name(visitor, annotator)


def only_own(visitor: Visitor) -> str | None:
    """Whose decisions alone the visitor may see; None where they may see everybody's."""
    return None if may(visitor.role, "reviewer") else visitor.name


def class_number(session: Session, label: int | str) -> int:
    """The number of a class that is given by number or by name. The session checks that there is such a number."""
    if isinstance(label, int):
        return label
    table = session.record.class_table
    number = table.number_of(label)
    if number is None:
        became = table.counts_as(label)
        remedy = "add it first" if became is None else f"it is called {table.classes[became].name!r} now"
        raise NotFound(f"there is no class {label!r}; {remedy}")
    return number
