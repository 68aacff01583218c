"""Several projects under one server: each whole under `/p/NAME/`, and a list of those that a visitor may see at `/`.

Every project keeps its own application with its own guard. The list has a guard too, which lets in whoever has a valid
cookie of at least one project, and shows them no other.
"""

import hashlib
import re
import unicodedata
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from understudy.errors import NotFound
from understudy.sessions.replies import Status
from understudy.version import __version__
from understudy.web.access import Access, Visitor
from understudy.web.app import create_app
from understudy.web.behind_proxy import strip_prefix
from understudy.web.dependencies import Annotating, Anybody, Me, declare_roles, require_roles, who_is
from understudy.web.error_responses import answer_errors, describe_statuses
from understudy.web.guard import Guard
from understudy.web.login_links import give_cookie
from understudy.web.page_files import page_files, serve_file
from understudy.web.requests import Login
from understudy.web.routes.people import LoggedIn, try_password
from understudy.web.session_holder import SessionHolder

FOLDER: Final = "p"
OF_A_PROJECT: Final = re.compile(rf"/{FOLDER}/([^/]+)(?=/|$)")
NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9_-]+")
MAX_NAME_LENGTH: Final = 64
DIGITS_OF_IDENTITY: Final = 4  # where two projects are called the same
ABOUT: Final = f"""The list of projects where `understudy label` serves several. Each has an interface of its own under
`/{FOLDER}/NAME/`, described by its own `openapi.json`."""


@dataclass(eq=False)
class Place:
    """A project under a server of several. Without an application it could not even be looked at."""

    name: str  # in its address
    title: str
    kind: str
    access: Access
    holder: SessionHolder = field(default_factory=SessionHolder)
    app: FastAPI | None = None
    failure: str | None = None  # why it is not served, as visitors may read it

    @property
    def address(self) -> str:
        return f"{FOLDER}/{self.name}/"

    def serve(self) -> None:
        """Make its application, which answers at once, also while the project is being prepared."""
        self.app = create_app(self.holder, self.access)
        self.app.state.is_listed = True

    def fail(self, reason: str) -> None:
        """Serve it no more; the list says why."""
        self.failure = reason
        if self.app is not None:
            self.app.state.live.ended.set()  # streams end with their next sign of life


@dataclass(frozen=True)
class ListedProject:
    """A project as the list shows it."""

    name: str
    address: str  # relative to the list
    kind: str
    phase: str  # "waiting" for its turn to be prepared, "preparing", "ready", "failed"
    done: int  # items prepared so far
    labelled: int
    total: int
    accuracy: float | None
    interval: tuple[float, float] | None
    online: list[str]
    to_do: list[str]  # what is to be done, in words
    reason: str | None  # why it could not be opened


@dataclass(frozen=True)
class ProjectList:
    """The projects that a visitor may see."""

    projects: list[ListedProject]
    more: bool  # there are others, for which the password is wanted


@dataclass
class AccessToAny(Access):
    """The rule for the list: whoever may see one of the projects may come in."""

    places: Sequence[Place] = ()

    @property
    def is_open(self) -> bool:
        return all(place.access.is_open for place in self.places)

    def visitor(self, headers: Mapping[str, str]) -> Visitor | None:
        found = [place.access.visitor(headers) for place in self.places]
        return next((visitor for visitor in found if visitor is not None), None)


class Several:
    """An application of several: it hands each call to the project that its path names, or else to the list."""

    def __init__(self, places: Sequence[Place], rule: Access) -> None:
        self.by_name = {place.name: place for place in places}
        self.lister = _create_list(places, rule)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app: ASGIApp = self.lister
        if scope["type"] == "http" and (found := OF_A_PROJECT.match(scope["path"])) is not None:
            place = self.by_name.get(found[1])
            if place is not None and place.app is not None and place.failure is None:
                app, scope = place.app, dict(scope)
                strip_prefix(scope, f"/{FOLDER}/{place.name}")
        await app(scope, receive, send)


def _create_list(places: Sequence[Place], rule: Access) -> FastAPI:
    """The application of the list. It also starts and ends what the projects' applications need."""

    @asynccontextmanager
    async def all_of_them(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for place in places:
                if place.app is not None:
                    await stack.enter_async_context(place.app.router.lifespan_context(place.app))
            yield

    app = FastAPI(
        title="Understudy",
        version=__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=all_of_them,
    )
    access = AccessToAny(
        rule.hosts, rule.by_address, password=rule.password, tries=rule.tries, origin=rule.origin, home=rule.home,
        places=places,
    )  # fmt: skip
    app.state.places, app.state.access, app.state.holder = places, access, SessionHolder(name="projects")
    declare_roles(router)
    app.include_router(router)
    page = page_files()

    def show(request: Request) -> Response:
        path, token = request.scope["path"], request.query_params.get("token")
        if path == "/" and token is not None:
            return _lead_to_project(request, places, token)
        return serve_file(page[path])

    for address in page:
        app.add_route(address, show, methods=["GET"], include_in_schema=False)
    app.add_middleware(Guard, access=access, page=frozenset(page))
    answer_errors(app)
    require_roles(app)
    return app


router = APIRouter(responses=describe_statuses(401, 403))


@router.get("/api/projects", tags=["projects"])
def list_projects(request: Request, by: Annotating) -> ProjectList:  # noqa: ARG001
    """The projects that this visitor may see, and what is to be done in each."""
    places: Sequence[Place] = request.app.state.places
    seen = [place for place in places if place.access.visitor(request.headers) is not None]
    access: Access = request.app.state.access
    return ProjectList(
        projects=[_describe_place(place) for place in seen],
        more=access.password and len(seen) < sum(place.failure is None for place in places),
    )


@router.get("/api/me", tags=["people"])
def me(by: Anybody) -> Me:
    """Who this is, and whether a password is wanted."""
    return replace(who_is(by), several="list")


@router.post(
    "/api/login",
    response_model=LoggedIn,
    tags=["people"],
    responses=describe_statuses(404, 408, 413, 415, 422, 429, 507),
)
def login(body: Login, by: Anybody, request: Request, response: Response) -> object:  # noqa: ARG001
    """Give the password and choose a name, for all projects at once: each gives a cookie of its own."""
    places: Sequence[Place] = request.app.state.places
    access: Access = request.app.state.access
    if not access.password:
        raise NotFound("no password is wanted here")
    served = [place.access for place in places if place.failure is None]
    given = try_password(request, access.tries, served, body)
    if isinstance(given, Response):
        return given
    for rule, token in given:
        give_cookie(response, request, rule, token)
    return LoggedIn(annotator=body.annotator)


@router.get(f"/{FOLDER}/{{name}}/", include_in_schema=False)
def to_list(request: Request, name: str, by: Anybody) -> Response:  # noqa: ARG001
    """A project that is not served is asked for: the list says why."""
    return RedirectResponse(f"{request.scope.get('root_path', '')}/", 303)


def _lead_to_project(request: Request, places: Sequence[Place], token: str) -> Response:
    """A personal link from when its project was served alone leads to where the project is now."""
    for place in places:
        if place.access.owner_of_link(token) is not None:
            query = request.scope["query_string"].decode("latin-1")
            return RedirectResponse(f"{request.scope.get('root_path', '')}/{place.address}?{query}", 303)
    return PlainTextResponse("This link is not valid here. Ask for a new one.\n", 401)


def _describe_place(place: Place) -> ListedProject:
    """How a project stands."""
    status = place.holder.status()
    phase = status.phase
    if place.failure is not None:
        phase = "failed"
    elif phase == "preparing" and status.total == 0:
        phase = "waiting"
    return ListedProject(
        name=place.title, address=place.address, kind=place.kind, phase=phase, done=status.done,
        labelled=status.labelled, total=status.total, accuracy=status.accuracy, interval=status.interval,
        online=list(status.online), to_do=list(_what_to_do(status)) if phase == "ready" else [], reason=place.failure,
    )  # fmt: skip


def _what_to_do(status: Status) -> Iterator[str]:
    """What waits for people in a project, what is in the way of labelling first."""
    if status.folders is not None:
        yield "say whether its folders are classes"
    elif not status.class_order:
        yield "add its classes"
    left = status.total - status.labelled - status.bad
    if left > 0:
        yield f"label {left:,} more {'item' if left == 1 else 'items'}"
    if status.suspicious:
        yield f"review {status.suspicious:,} {'label' if status.suspicious == 1 else 'labels'}"
    if status.training.state == "failed":
        yield "see why the last training failed"
    if left <= 0:
        yield "all items are labelled"


def name_places(projects: Sequence[tuple[str, str]]) -> list[str]:
    """Names for addresses, of titles with identities. Of projects that are called the same each gets some more digits.

    They do not depend on the order in which the projects are given: an address stays that of its project.
    """
    plain = [_address_name(title) for title, _ in projects]
    named = [
        name if plain.count(name) == 1 else f"{name}-{_digest(identity)[:DIGITS_OF_IDENTITY]}"
        for name, (_, identity) in zip(plain, projects, strict=True)
    ]
    if len(set(named)) < len(named):  # the same project twice, or one in ten thousand
        named = [f"{name}-{number}" if named.count(name) > 1 else name for number, name in enumerate(named, 1)]
    return named


def _address_name(title: str) -> str:
    text = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return NOT_IN_NAMES.sub("-", text).strip("-")[:MAX_NAME_LENGTH] or "project"


def _digest(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()
