"""Calls that only read: status, items, why one is asked for, labels to review."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from understudy.sessions.browsing import Filter, parse_lasso
from understudy.sessions.replies import (
    BrowsePage,
    ClassList,
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
from understudy.web.dependencies import By, Holding, Ready, class_number, own_name
from understudy.web.error_responses import READS, describe_statuses
from understudy.web.live_status import LiveStatus
from understudy.web.requests import Annotator, BrowseQuery, ClassName, HowMany, ItemInPath

router = APIRouter(prefix="/api", responses=describe_statuses(*READS), tags=["views"])
NO_ITEM = describe_statuses(404)
ClassInQuery = Annotated[ClassName, Query(description="The number of a class, or its name.")]


@router.get("/status")
def status(holder: Holding) -> Status:
    """The numbers that are always on the page; also while the project is being prepared."""
    return holder.status()


@router.get("/settings")
def settings(session: Ready) -> ProjectSettings:
    """The project's settings: what each means, what it may be, and why it stays if it does."""
    return session.settings()


@router.get("/classes")
def classes(session: Ready) -> ClassList:
    """All classes in the order they are shown in, then those that are gone; and the last changes."""
    return session.classes()


@router.get("/ahead")
def ahead(annotator: Annotator, session: Ready, by: By, n: HowMany = 4) -> list[Shown]:
    """The items that are likely to come next, to be fetched ahead. Nothing is leased."""
    return session.preview(own_name(by, annotator), n)


@router.get("/items", responses=NO_ITEM)
def browse(
    session: Ready,
    by: By,
    wanted: Annotated[BrowseQuery, Query()],
) -> BrowsePage:
    """Items by class, person, state, confidence, words or likeness, in an order, page by page; and how many match.

    What is given more than once (`label`, `suggested`, `state`) is alternatives; all else must apply together.
    """
    only = None if wanted.only is None else own_name(by, wanted.only)
    chosen = Filter(
        labels=tuple(_class_in_query(session, label) for label in wanted.label),
        suggested=tuple(_class_in_query(session, label) for label in wanted.suggested),
        person=wanted.person,
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
def card(item: ItemInPath, session: Ready) -> ItemCard:
    """All that is known of an item."""
    return session.card(item)


@router.get("/items/{item}/why", responses=NO_ITEM)
def why(item: ItemInPath, session: Ready) -> Why:
    """Why an item is, or would be, asked for."""
    return session.why(item)


@router.get("/review")
def review(session: Ready, n: HowMany = 50) -> list[Doubt]:
    """Labels that the surrogate finds surprising, worst first."""
    return session.review(n)


@router.get("/likely", responses=NO_ITEM)
def likely(label: ClassInQuery, session: Ready, n: HowMany = 20) -> list[Likely]:
    """Unlabelled items that are likely of one class, the surest first, with calibrated probabilities."""
    return session.likely(_class_in_query(session, label), n)


@router.get("/grid", responses=NO_ITEM)
def grid(label: ClassInQuery, session: Ready, n: HowMany = 20) -> GridOffer:
    """Likely items of one class to confirm at once, at most `n` of them, what is promised, and why not more."""
    return session.grid(_class_in_query(session, label), n)


def _class_in_query(session: Session, label: str) -> int:
    is_number = (
        label.isascii() and label.isdigit() and len(label) < 5 and session.record.class_table.number_of(label) is None
    )
    return class_number(session, int(label) if is_number else label)


@router.get("/progress")
def progress(session: Ready) -> Progress:
    """How good the models are, whether to go on, who did what, and how far people agree."""
    return session.progress()


@router.get("/history")
def history(annotator: Annotator, session: Ready, by: By, n: HowMany = 50) -> list[Entry]:
    """What an annotator did, latest first."""
    return session.history(own_name(by, annotator), n)


# Not in the description for programs: a stream has no end, and tools that try every call out would wait for it.
@router.get("/live", include_in_schema=False)
async def live(request: Request, by: By, annotator: Annotator | None = None) -> StreamingResponse:
    """Server-sent events: `status` whenever something changed, `lease` for an annotator's new item, and a heartbeat."""
    name = by.name if annotator is None else own_name(by, annotator)
    streams: LiveStatus = request.app.state.live
    return StreamingResponse(streams.events(name), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
