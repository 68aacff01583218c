"""Calls for logging in and out."""

import math
from collections.abc import Sequence

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from understudy.errors import NotFound, NotStored
from understudy.web.access import Access, Tries, Visitor, token_in
from understudy.web.error_responses import describe_statuses, error_response
from understudy.web.login_links import give_cookie
from understudy.web.requests import Login, Nothing
from understudy.web.tokens import Tokens

router = APIRouter(prefix="/api", tags=["people"])


class Me(BaseModel):
    """Who the server takes this visitor for."""

    annotator: str | None  # null: not known, choose a name
    login: bool  # a password is wanted first
    fixed: bool  # the name belongs to the token: no other can be used
    several: str | None = None  # only where a server has several projects: "project", or "list" for the list of them


def describe_visitor(visitor: Visitor | None, several: str | None = None) -> Me:
    """What a visitor is told of themselves; a stranger is asked for the password."""
    name = None if visitor is None else visitor.name
    found = Me(annotator=name, login=visitor is None, fixed=name is not None)
    return found if several is None else found.model_copy(update={"several": several})


class LoggedIn(BaseModel):
    annotator: str


class LoggedOut(BaseModel):
    pass


@router.get("/me", response_model_exclude_unset=True, responses=describe_statuses(401, 403))
def me(request: Request) -> Me:
    """Who this is, and whether a password is wanted."""
    visitor: Visitor | None = request.state.visitor
    return describe_visitor(visitor, "project" if request.app.state.is_listed else None)


@router.post(
    "/login", response_model=LoggedIn, responses=describe_statuses(401, 403, 404, 408, 413, 415, 422, 429, 507)
)
def login(body: Login, request: Request, response: Response) -> object:
    """Give the password and choose a name. The cookie that comes back belongs to that name."""
    access: Access = request.app.state.access
    if access.tokens is None or not access.password:
        raise NotFound("no password is wanted here")
    given = try_password(request, access.tries, [access.tokens], body)
    if isinstance(given, Response):
        return given
    give_cookie(response, request, access, given[0])
    return LoggedIn(annotator=body.annotator)


def try_password(request: Request, tries: Tries, projects: Sequence[Tokens], body: Login) -> list[str] | Response:
    """A new token of each of these projects, which have one password; or the answer to a wrong one."""
    address = request.client.host if request.client is not None else ""
    wait = tries.begin(address)
    if wait > 0:
        return error_response(429, "too many wrong passwords; wait a little", {"Retry-After": str(math.ceil(wait))})
    given: list[str] = []
    try:
        for tokens in projects:
            token = tokens.login(body.annotator, body.password)
            if token is None:
                return error_response(401, "that is not the password", {"WWW-Authenticate": "Bearer"})
            given.append(token)
    except NotStored:  # the password was right
        tries.record_success(address)
        raise
    tries.record_success(address)
    return given


@router.post("/logout", responses=describe_statuses(401, 403, 408, 413, 415, 422, 507))
def logout(body: Nothing, request: Request, response: Response) -> LoggedOut:  # noqa: ARG001
    """End this login, to come back under another name. A personal link goes on working."""
    access: Access = request.app.state.access
    if access.tokens is not None:
        token = token_in(request.headers, access.tokens.cookie)
        if token is not None:
            access.tokens.logout(token)
        response.delete_cookie(access.tokens.cookie, path=access.home, httponly=True, samesite="strict")
    return LoggedOut()
