"""Calls for logging in and out."""

import math

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from understudy.errors import NotFound, NotStored
from understudy.web.access import Access, Visitor, token_in
from understudy.web.error_responses import describe_statuses, error_response
from understudy.web.login_links import give_cookie
from understudy.web.requests import Login, Nothing

router = APIRouter(prefix="/api", tags=["people"])


class Me(BaseModel):
    """Who the server takes this visitor for."""

    annotator: str | None  # null: not known, choose a name
    login: bool  # a password is wanted first
    fixed: bool  # the name belongs to the token: no other can be used


class LoggedIn(BaseModel):
    annotator: str


class LoggedOut(BaseModel):
    pass


@router.get("/me", responses=describe_statuses(401, 403))
def me(request: Request) -> Me:
    """Who this is, and whether a password is wanted."""
    visitor: Visitor | None = request.state.visitor
    if visitor is None:
        return Me(annotator=None, login=True, fixed=False)
    return Me(annotator=visitor.name, login=False, fixed=visitor.name is not None)


@router.post(
    "/login", response_model=LoggedIn, responses=describe_statuses(401, 403, 404, 408, 413, 415, 422, 429, 507)
)
def login(body: Login, request: Request, response: Response) -> object:
    """Give the password and choose a name. The cookie that comes back belongs to that name."""
    access: Access = request.app.state.access
    if access.tokens is None or not access.password:
        raise NotFound("no password is wanted here")
    address = request.client.host if request.client is not None else ""
    wait = access.tries.begin(address)
    if wait > 0:
        return error_response(429, "too many wrong passwords; wait a little", {"Retry-After": str(math.ceil(wait))})
    try:
        token = access.tokens.login(body.annotator, body.password)
    except NotStored:  # the password was right
        access.tries.record_success(address)
        raise
    if token is None:
        return error_response(401, "that is not the password", {"WWW-Authenticate": "Bearer"})
    access.tries.record_success(address)
    give_cookie(response, request, access.tokens.cookie, token)
    return LoggedIn(annotator=body.annotator)


@router.post("/logout", responses=describe_statuses(401, 403, 408, 413, 415, 422, 507))
def logout(body: Nothing, request: Request, response: Response) -> LoggedOut:  # noqa: ARG001
    """End this login, to come back under another name. A personal link goes on working."""
    access: Access = request.app.state.access
    if access.tokens is not None:
        token = token_in(request.headers, access.tokens.cookie)
        if token is not None:
            access.tokens.logout(token)
        response.delete_cookie(access.tokens.cookie, path="/", httponly=True, samesite="strict")
    return LoggedOut()
