"""What there is to see: the numbers, the items, why one is asked for, what to look at again."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from understudy.sessions.replies import Doubt, Entry, ItemCard, Likely, Progress, Shown, Status, Why
from understudy.web.dependencies import By, Holding, Ready, class_number, own_name
from understudy.web.error_responses import READS, describe_statuses
from understudy.web.live_status import LiveStatus
from understudy.web.requests import Annotator, ClassName, HowMany, ItemInPath

router = APIRouter(prefix="/api", responses=describe_statuses(*READS), tags=["views"])
NO_ITEM = describe_statuses(404)


@router.get("/status")
def status(holder: Holding) -> Status:
    """The numbers that are always on the page; also while the project is being prepared."""
    return holder.status()


@router.get("/ahead")
def ahead(annotator: Annotator, session: Ready, by: By, n: HowMany = 4) -> list[Shown]:
    """The items that are likely to come next, to be fetched ahead. Nothing is leased."""
    return session.preview(own_name(by, annotator), n)


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
def likely(
    label: Annotated[ClassName, Query(description="The number of a class, or its name.")],
    session: Ready,
    n: HowMany = 20,
) -> list[Likely]:
    """Unlabelled items that are likely of one class, to be confirmed at once."""
    is_number = label.isascii() and label.isdigit() and len(label) < 5 and label not in session.record.classes
    return session.likely(class_number(session, int(label) if is_number else label), n)


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
    """Server-sent events: `status` whenever something changed, at most five a second, and a heartbeat."""
    name = by.name if annotator is None else own_name(by, annotator)
    streams: LiveStatus = request.app.state.live
    return StreamingResponse(streams.events(name), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
