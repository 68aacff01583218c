"""Calls that only read: status, items, why one is asked for, labels to review."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from understudy.sessions.browsing import Filter, parse_lasso
from understudy.sessions.disputes import Wanted
from understudy.sessions.replies import (
    BrowsePage,
    ClassList,
    Copies,
    DisputeList,
    Doubt,
    Entry,
    GridOffer,
    ItemCard,
    Likely,
    Progress,
    ProjectSettings,
    Shown,
    Status,
    Why,
)
from understudy.sessions.session import Session
from understudy.web.access import Access
from understudy.web.dependencies import (
    Annotating,
    Holding,
    Ready,
    Reviewing,
    anybodys_name,
    class_number,
    only_own,
    own_name,
    who_is,
)
from understudy.web.error_responses import READS, describe_statuses
from understudy.web.live_status import LiveStatus, shown_to
from understudy.web.requests import Annotator, BrowseQuery, ClassName, FromPlace, HowMany, ItemInPath

router = APIRouter(prefix="/api", responses=describe_statuses(*READS), tags=["views"])
NO_ITEM = describe_statuses(404)
ClassInQuery = Annotated[ClassName, Query(description="The number of a class, or its name.")]


@router.get("/status")
def status(holder: Holding, by: Annotating) -> Status:
    """The numbers that are always on the page; also while the project is being prepared."""
    return shown_to(holder.status(), is_owner=by.role == "owner")


@router.get("/settings")
def settings(session: Ready, by: Annotating) -> ProjectSettings:
    """The project's settings: what each means, what it may be, and why it stays if it does."""
    return session.settings()


@router.get("/classes")
def classes(session: Ready, by: Annotating) -> ClassList:
    """All classes in the order they are shown in, then those that are gone; and the last changes."""
    return session.classes()


@router.get("/ahead")
def ahead(annotator: Annotator, session: Ready, by: Annotating, n: HowMany = 4) -> list[Shown]:
    """The items that are likely to come next, to be fetched ahead. Nothing is leased."""
    return session.preview(own_name(by, annotator), n)


@router.get("/items", responses=NO_ITEM)
def browse(session: Ready, by: Annotating, wanted: Annotated[BrowseQuery, Query()]) -> BrowsePage:
    """Items by class, person, state, confidence, words or likeness, in an order, page by page; and how many match.

    What is given more than once (`label`, `suggested`, `state`) is alternatives; all else must apply together. An
    annotator is shown what they decided themselves, and nothing of anybody else.
    """
    only = only_own(by) if wanted.only is None else own_name(by, wanted.only)
    chosen = Filter(
        labels=tuple(_class_in_query(session, label) for label in wanted.label),
        suggested=tuple(_class_in_query(session, label) for label in wanted.suggested),
        person=None if wanted.person is None else by.people.id_or_name(wanted.person),
        states=tuple(wanted.state),
        confidence_from=wanted.confidence_from,
        confidence_to=wanted.confidence_to,
        text=wanted.text,
        name=wanted.name,
        search=wanted.search,
        id=wanted.id,
        item=wanted.item,
        similar=wanted.similar,
        lasso=parse_lasso(wanted.lasso),
    )
    return session.browser.page(
        chosen, wanted.sort, offset=wanted.offset, limit=wanted.limit, only=only, with_rows=wanted.rows
    )


@router.get("/items/{item}", responses=NO_ITEM)
def card(item: ItemInPath, session: Ready, by: Annotating) -> ItemCard:
    """All that is known of an item; an annotator is shown what they said themselves, so that each decides alone."""
    return session.card(item, only_own(by))


@router.get("/items/{item}/why", responses=NO_ITEM)
def why(item: ItemInPath, session: Ready, by: Annotating) -> Why:
    """Why an item is, or would be, asked for. Of items nearby an annotator is shown the labels they gave themselves."""
    return session.why(item, only_own(by))


@router.get("/items/{item}/copies", responses=NO_ITEM)
def copies(item: ItemInPath, session: Ready, by: Annotating) -> Copies:
    """Near-copies of an item, which can be given its label with it: see POST /api/labels/many."""
    return session.copies(item)


@router.get("/review", summary="Review labels")
def review(session: Ready, by: Reviewing, n: HowMany = 50) -> list[Doubt]:
    """Labels that the surrogate finds surprising, worst first."""
    return session.review(n)


@router.get("/disputes", summary="See disputes", responses=NO_ITEM)
def disputes(
    session: Ready,
    by: Reviewing,
    state: Annotated[
        Literal["disputed", "review", "settled"] | None,
        Query(description="Nobody has decided; a review did; a reviewer settled it. Without it all, in this order."),
    ] = None,
    label: Annotated[ClassName | None, Query(description="Somebody says this class: its number, or its name.")] = None,
    other: Annotated[ClassName | None, Query(description="And somebody this one.")] = None,
    person: Annotated[Annotator | None, Query(description="Who labelled it, or settled it.")] = None,
    first: FromPlace = 0,
    n: HowMany = 50,
) -> DisputeList:
    """Items on which people differ, the most disputed first, with what everybody said; then those that were settled."""
    one, two = (None if name is None else _class_in_query(session, name) for name in (label, other))
    return session.disputes(Wanted(state, one, two, None if person is None else anybodys_name(by, person), first, n))


@router.get("/likely", responses=NO_ITEM)
def likely(label: ClassInQuery, session: Ready, by: Annotating, n: HowMany = 20) -> list[Likely]:
    """Unlabelled items that are likely of one class, the surest first, with calibrated probabilities."""
    return session.likely(_class_in_query(session, label), n)


@router.get("/grid", responses=NO_ITEM)
def grid(
    label: ClassInQuery, session: Ready, by: Annotating, n: HowMany = 20, annotator: Annotator | None = None
) -> GridOffer:
    """Likely items of one class to confirm at once, at most `n` of them, what is promised, and why not more."""
    who = by.name if annotator is None else own_name(by, annotator)
    return session.grid(_class_in_query(session, label), n, who)


def _class_in_query(session: Session, label: str) -> int:
    is_number = (
        label.isascii() and label.isdigit() and len(label) < 5 and session.record.class_table.number_of(label) is None
    )
    return class_number(session, int(label) if is_number else label)


@router.get("/progress")
def progress(session: Ready, by: Annotating) -> Progress:
    """How good the models are, whether to go on, who did what, and how far people agree.

    An annotator is shown their own row of what people did, and not on what people differ.
    """
    return session.progress(only_own(by))


@router.get("/history")
def history(annotator: Annotator, session: Ready, by: Annotating, n: HowMany = 50) -> list[Entry]:
    """What an annotator did, latest first. What others did, reviewers may see."""
    return session.history(anybodys_name(by, annotator), n)


# Not in the description for programs: a stream has no end, and tools that try every call out would wait for it.
@router.get("/live", include_in_schema=False)
async def live(request: Request, by: Annotating, annotator: Annotator | None = None) -> StreamingResponse:
    """Server-sent events: `status` whenever something changed, `lease` for an annotator's new item, `me` when what they
    are called or may do has changed, and a heartbeat."""
    name = by.name if annotator is None else own_name(by, annotator)
    streams: LiveStatus = request.app.state.live
    access: Access = request.app.state.access

    def who() -> dict[str, Any] | None:
        visitor = access.visitor(request.headers)
        return None if visitor is None else asdict(who_is(visitor, name))

    return StreamingResponse(
        streams.events(name, who), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )
