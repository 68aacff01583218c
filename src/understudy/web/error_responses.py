"""Error responses: for each of our errors a status, and one line that says what to do."""

import logging
from typing import Any, Final

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException as BareHTTPException
from starlette.responses import JSONResponse

from understudy.errors import Conflict, NotFound, NotStored, UnderstudyError

LOG: Final = logging.getLogger("understudy.web")
MAX_FAULTS: Final = 3  # faults of one request named in its answer


class Preparing(UnderstudyError):
    """The project is not ready yet: its features are still being made."""


class Trouble(BaseModel):
    """What is wrong and what to do, in one line."""

    detail: str


MEANINGS: Final = {
    401: "No token or password was given, or not one of this project.",
    403: "Another site or another host asks, or another's name was given.",
    404: "There is no such item, class or file.",
    408: "The body did not arrive in time.",
    409: "This does not go with what happened before, or with what another is doing.",
    413: "The body is too large.",
    415: "The body is not of the type that is wanted.",
    422: "A value is not what is wanted.",
    429: "Too many wrong passwords; wait.",
    503: "The project is still being prepared, or too many are at it.",
    507: "The disk is full or the database is gone: nothing was stored.",
}
READS: Final = (401, 403, 422, 503, 507)
WRITES: Final = (401, 403, 404, 408, 409, 413, 415, 422, 503, 507)


def describe_statuses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These statuses for the description of a call."""
    return {status: {"model": Trouble, "description": MEANINGS[status]} for status in statuses}


def error_response(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"detail": _in_one_line(detail)}, status, headers)


def _in_one_line(text: str) -> str:
    """One line that can be sent, whatever came in."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def answer_errors(app: FastAPI) -> None:
    """Give each of our errors its status, and each of FastAPI's a line like ours."""
    app.add_exception_handler(RequestValidationError, _answer_bad_request)
    app.add_exception_handler(BareHTTPException, _answer_http_error)
    app.add_exception_handler(UnderstudyError, _answer_our_error)


def _answer_our_error(request: Request, error: Exception) -> JSONResponse:
    text = _without_folder(request, str(error))
    match error:
        case Preparing():
            return error_response(503, text, {"Retry-After": "1"})
        case NotFound():
            return error_response(404, text)
        case Conflict():
            return error_response(409, text)
        case NotStored():
            _say_on_terminal(request, _in_one_line(str(error)))
            return error_response(507, error.public, {"Retry-After": "2"})
        case _:
            return error_response(422, text)


def _say_on_terminal(request: Request, text: str) -> None:
    """What is kept from annotators goes to the server's output; not again for every page that tries again."""
    state = request.app.state
    if getattr(state, "last_trouble", "") != text:
        state.last_trouble = text
        LOG.warning("%s", text)


def _without_folder(request: Request, text: str) -> str:
    """A message without the path of the project: that is for whoever runs the server."""
    session = request.app.state.holder.session
    if session is None:
        return text
    folder = str(session.project.folder)
    return text.replace(f"{folder}/", "").replace(folder, session.project.name)


def _answer_bad_request(_: Request, error: Exception) -> JSONResponse:
    """What is wrong with the values, without the values: they may be long, hostile, or no text at all."""
    assert isinstance(error, RequestValidationError)
    found = [
        f"{_place(fault['loc'])}: {fault['msg'].removeprefix('Value error, ')}" for fault in error.errors()[:MAX_FAULTS]
    ]
    return error_response(422, "; ".join(found)[:500])


def _place(path: tuple[int | str, ...]) -> str:
    return ".".join(str(step)[:40] for step in path[1:]) or "body"


def _answer_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BareHTTPException)
    if error.status_code == 400:  # FastAPI's word for a body that Python cannot read as JSON
        return error_response(422, "the body is not JSON that can be read")
    if error.status_code == 405:
        path = _in_one_line(request.url.path)[:100]
        headers = dict(error.headers or {})
        described = request.app.openapi()["paths"].get(request.scope["path"], {})
        if described:  # the router knows the methods of the first call at this address only
            headers["Allow"] = ", ".join(sorted(method.upper() for method in described))
        return error_response(405, f"{path} cannot be called like this; see /openapi.json", headers)
    if error.status_code == 404 and not isinstance(error, HTTPException):
        return error_response(404, "there is nothing at this address")
    return error_response(error.status_code, str(error.detail), dict(error.headers or {}))
