"""The application: the calls, the page, and the guard before both."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI, Request
from starlette.responses import Response

from understudy.sessions.session import Session
from understudy.version import __version__
from understudy.web.access import Access
from understudy.web.content import Contents
from understudy.web.dependencies import declare_roles, require_roles
from understudy.web.error_responses import answer_errors
from understudy.web.guard import Guard
from understudy.web.live_status import LiveStatus
from understudy.web.login_links import enter_by_link
from understudy.web.page_files import page_files, serve_file
from understudy.web.routes import decisions, files, people, pool_map, views
from understudy.web.session_holder import SessionHolder

ABOUT: Final = """What `understudy label` serves. An item is a row of the pool; a class is a number or a name.

Every call needs a token where the server has people: send it as `Authorization: Bearer TOKEN`. Errors are
`{"detail": "one line"}`. `GET /api/live` is a stream of server-sent events: `status`, with what `GET /api/status`
answers, whenever something changed.

`x-role` says what each call needs: `annotator` is anybody who may come in, `reviewer` and `owner` may do more. Where
everybody may come in, everybody is owner. A call that a role does not allow answers 403."""


def create_app(session: Session | SessionHolder, access: Access | None = None) -> FastAPI:
    """The application that serves a session, which may also arrive later in a holder."""
    holder = session if isinstance(session, SessionHolder) else SessionHolder(session)
    rule = Access() if access is None else access
    rule.people_now = holder.people
    live = LiveStatus(holder)

    @asynccontextmanager
    async def watched(_: FastAPI) -> AsyncIterator[None]:
        live.start()
        yield
        live.end()

    app = FastAPI(
        title="Understudy",
        version=__version__,
        description=ABOUT,
        docs_url=None,  # its scripts would come from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=watched,
    )
    app.state.holder, app.state.access, app.state.live, app.state.contents = holder, rule, live, Contents()
    app.state.is_listed = False  # whether it is one of several, which have a list
    for module in (decisions, views, pool_map, files, people):
        declare_roles(module.router)
        app.include_router(module.router)
    require_roles(app)
    _add_page(app, rule)
    answer_errors(app)
    return app


def _add_page(app: FastAPI, access: Access) -> None:
    """The page's files by their addresses, and the guard, which must know them."""
    page = app.state.page = page_files()

    def show(request: Request) -> Response:
        token = request.query_params.get("token")
        path = request.scope["path"]  # without the prefix of a proxy
        if path == "/" and token is not None:
            return enter_by_link(request, access, token)
        return serve_file(page[path])

    for address in page:
        app.add_route(address, show, methods=["GET"], include_in_schema=False)
    app.add_middleware(Guard, access=access, page=frozenset(page))
