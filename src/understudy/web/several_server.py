"""The server of several projects: opens what can be opened, prepares one after another, and closes all at the end."""

import logging
import socket
import threading
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import torch

from understudy.core.protocol import RowStorage
from understudy.data.items import make_printable
from understudy.errors import UnderstudyError, UsageError
from understudy.projects.project import Project
from understudy.projects.project_file import folder_for, name_of
from understudy.sessions.opening import check_free, open_session
from understudy.sessions.people import Role
from understudy.sessions.session import Session
from understudy.web.access import Access, Tries
from understudy.web.server import (
    Address,
    Links,
    Preparation,
    Stopped,
    about_the_way,
    build_server,
    first_lines,
    listen,
    opens_here,
    public_url,
)
from understudy.web.session_holder import SessionHolder
from understudy.web.several import Place, Several, name_places
from understudy.web.tokens import Tokens

log = logging.getLogger("understudy.web")

LOG_FILE: Final = "log.sqlite3"  # as messages name it; visitors know no files
MAX_PROJECTS: Final = 100


@dataclass(eq=False)
class _Candidate:
    """A project that is to be served, or why it cannot be."""

    source: str
    folder: Path
    project: Project | None = None
    error: UnderstudyError | None = None

    @property
    def name(self) -> str:
        return make_printable(name_of(self.folder)) if self.project is None else self.project.name

    @property
    def kind(self) -> str:
        return "image" if self.project is None else self.project.kind

    def new_holder(self) -> SessionHolder:
        return SessionHolder(name=self.name, kind=self.kind)

    @property
    def identity(self) -> str:
        return str(self.folder.absolute()) if self.project is None else self.project.identity


def serve_several(
    sources: Sequence[str],
    *,
    open_project: Callable[[str], Project],
    enter: Callable[[Project], tuple[Access, Links]],
    people: Mapping[str, Role | None] | None = None,
    storage: RowStorage | None = None,
    address: Address | None = None,
    browser: bool = True,
    polls: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve several projects until Ctrl-C. One that cannot be opened is said, and the others are served.

    `open_project` makes or finds the project of a source; `enter` says who may come into it, `people` whom to let
    in with which roles. `storage` is where the rows of their surrogates are kept. With `polls` new items of all
    projects are looked for all the time.
    """
    way = Address() if address is None else address
    candidates = _open_all(sources, open_project)
    listening = listen(way)
    try:
        _serve(
            candidates,
            listening=listening,
            way=way,
            enter=enter,
            people=people,
            storage=storage,
            browser=browser,
            polls=polls,
            say=say,
        )
    finally:
        listening.close()


def _open_all(sources: Sequence[str], open_project: Callable[[str], Project]) -> list[_Candidate]:
    """The projects of these sources. An error where none of them can be opened."""
    if len(sources) > MAX_PROJECTS:
        raise UsageError(f"one server has at most {MAX_PROJECTS} projects; got {len(sources)}")
    found = [_Candidate(source, folder_for(source)) for source in sources]
    places = [each.folder.resolve() for each in found]
    for each, place in zip(found, places, strict=True):
        if places.count(place) > 1:
            raise UsageError(f"{each.source} is given twice; every project is served once")
    for each in found:
        try:
            each.project = open_project(each.source)
            check_free(each.project)
        except UnderstudyError as error:
            each.error = error
    if all(each.error is not None for each in found):
        assert found[0].error is not None
        raise found[0].error
    return found


def _serve(
    candidates: Sequence[_Candidate],
    *,
    listening: socket.socket,
    way: Address,
    enter: Callable[[Project], tuple[Access, Links]],
    people: Mapping[str, Role | None] | None,
    storage: RowStorage | None,
    browser: bool,
    polls: bool,
    say: Callable[[str], None],
) -> None:
    url = public_url(listening, way)
    say(f"label at {url}   (Ctrl-C stops; nothing is lost)")
    places = _find_places(candidates, url, enter, say)
    begin = partial(open_session, turn=threading.Semaphore(), storage=storage)
    in_turn = threading.Thread(target=lambda: _prepare_in_turn(preparations), daemon=True)
    preparations = [
        _prepare(each.project, place, f"{url}{place.address}", begin, people=people, polls=polls, say=say)
        for each, place in places
        if each.project is not None and place.app is not None
    ]
    for preparation in preparations:
        preparation.thread = in_turn
    rule = next(place.access for _, place in places if place.app is not None)
    apps = [place.app for _, place in places if place.app is not None]
    server = build_server(Several([place for _, place in places], rule), [app.state.live for app in apps], way)
    try:
        in_turn.start()
        for line in about_the_way(listening, way):
            say(line)
        if browser and opens_here(way) and rule.is_open:
            webbrowser.open(url)
        server.run([listening])
    finally:
        for preparation in preparations:
            preparation.stopping.set()
        for preparation in preparations:
            preparation.end()
    say("stopped; every answer is stored, and the same command goes on")


def _find_places(
    candidates: Sequence[_Candidate],
    url: str,
    enter: Callable[[Project], tuple[Access, Links]],
    say: Callable[[str], None],
) -> list[tuple[_Candidate, Place]]:
    """Where each project is served, with an application where it can be; the links of each are said."""
    entered: dict[str, tuple[Access, Links]] = {}
    for each in candidates:
        try:
            if each.error is None and each.project is not None:
                entered[each.source] = enter(each.project)
        except UnderstudyError as error:
            each.error = error
    if not entered:
        raise next(each.error for each in candidates if each.error is not None)
    tries, names = Tries(), name_places([(each.name, each.identity) for each in candidates])
    anyone = replace(next(iter(entered.values()))[0], tries=tries)
    places = []
    for each, name in zip(candidates, names, strict=True):
        title = each.name
        if [other.name for other in candidates].count(title) > 1:
            title = f"{title} ({make_printable(each.folder.absolute().parent.name)})"
        if each.source in entered:
            access, links = entered[each.source]
            place = Place(name, title, each.kind, replace(access, tries=tries), each.new_holder())
            place.serve()
            lines = [f"  {title}: {url}{place.address}", *_link_lines(f"{url}{place.address}", links)]
        else:
            place = Place(name, title, each.kind, _access_without_entering(each.folder, anyone), each.new_holder())
            place.fail(public_reason(str(each.error), each.folder, each.name))
            lines = [f"  {title} is not served: {each.error}"]
        places.append((each, place))
        for line in lines:
            say(line)
    return places


def _access_without_entering(folder: Path, rule: Access) -> Access:
    """Who may know of a project that is not served. Its tokens are only read: another server may have it."""
    if rule.tokens is None:
        return rule
    try:
        return replace(rule, tokens=Tokens(folder))
    except UnderstudyError:
        return replace(rule, annotators=(), password=False)  # nobody


def _link_lines(url: str, links: Links) -> list[str]:
    return [
        f"    {name}: {url}?token={token}"
        if token
        else f"    {name}: the link issued before (--new-links issues new ones)"
        for name, token in links.items()
    ]


def _prepare(
    project: Project,
    place: Place,
    url: str,
    begin: Callable[..., Session],
    *,
    people: Mapping[str, Role | None] | None,
    polls: bool,
    say: Callable[[str], None],
) -> Preparation:
    """The preparation of a project, to be run when its turn comes. Where it fails, the list says why."""

    def watch(session: Session) -> Session:
        session.announce(url)
        session.growth.start(polls=polls, say=lambda line: say(f"{project.name}: {line}"))
        return session

    def open_it(preparation: Preparation) -> Session:
        session = begin(
            project, people=people, progress=preparation.report_progress, setup_progress=preparation.report_setup
        )
        for line in (*project.notes, *first_lines(session)):
            say(f"{project.name}: {line}")
        return watch(session)

    def open_again(opened: Project) -> Session:
        return watch(begin(opened))

    place.holder.open_again = open_again
    preparation = Preparation(open_it, place.holder)

    def failed() -> None:
        error = preparation.error
        if isinstance(error, Stopped):
            return
        if not isinstance(error, UnderstudyError):
            log.error("%s failed", project.name, exc_info=error)
        say(f"{project.name} is not served any more: {error}")
        place.fail(public_reason(str(error), project.folder, project.name))

    preparation.failed = failed
    return preparation


def _prepare_in_turn(preparations: Sequence[Preparation]) -> None:
    """Prepare one project after another: each may want the whole machine."""
    threads = torch.get_num_threads()
    for preparation in preparations:
        if not preparation.stopping.is_set():
            torch.set_num_threads(threads)  # making features has them all; each session then goes back to one
            preparation.run()


def public_reason(text: str, folder: Path, name: str) -> str:
    """A message for visitors: the project by its name, and of other places on this machine the last part only."""
    for place in {str(folder), str(folder.absolute()), str(folder.resolve())}:
        text = text.replace(f"{place}/", "").replace(place, name)
    words = (word.rpartition("/")[2] if word.startswith(("/", "(/")) else word for word in text.split())
    return " ".join(words).replace(LOG_FILE, "its log")
