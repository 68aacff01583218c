"""Dependencies of nearly every call: the session, and the name of the caller."""

from typing import Annotated

from fastapi import Depends, HTTPException, Request

from understudy.errors import NotFound
from understudy.sessions.session import Session
from understudy.web.access import Visitor
from understudy.web.session_holder import SessionHolder


async def _the_holder(request: Request) -> SessionHolder:
    holder: SessionHolder = request.app.state.holder
    return holder


async def _the_session(request: Request) -> Session:
    holder: SessionHolder = request.app.state.holder
    return holder.require_session()


async def _the_visitor(request: Request) -> Visitor:
    visitor: Visitor | None = request.state.visitor
    if visitor is None:  # the guard lets strangers through to log in, and nowhere else
        raise HTTPException(401, "log in first")
    return visitor


Holding = Annotated[SessionHolder, Depends(_the_holder)]
Ready = Annotated[Session, Depends(_the_session)]
By = Annotated[Visitor, Depends(_the_visitor)]


def own_name(visitor: Visitor, annotator: str) -> str:
    """The name given, if it is the visitor's to give."""
    if visitor.name is not None and visitor.name != annotator:
        raise HTTPException(403, f"your token is {visitor.name}'s; you cannot act as {annotator}")
    return annotator


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
