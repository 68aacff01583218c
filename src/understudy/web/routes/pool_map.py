"""Calls for the map of the pool: what is shown, where the items lie, and what they are coloured by."""

from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from understudy.sessions.replies import MapShown
from understudy.web.dependencies import Ready, Reviewing
from understudy.web.error_responses import READS, describe_statuses
from understudy.web.guard import OCTET_STREAM

router = APIRouter(prefix="/api/map", tags=["views"])
BYTES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {OCTET_STREAM: {"schema": {"type": "string", "format": "binary"}}}, "description": "The bytes."},
    304: {"description": "Still the same as what is cached."},
    **describe_statuses(*READS),
}


@router.get("", summary="See the map", responses=describe_statuses(*READS))
def describe_map(session: Ready, by: Reviewing) -> MapShown:
    """Which map is shown, whether a better one follows, and names of places and colours that change when they do."""
    return session.map.describe(session.map_colours()[0])


@router.get("/points", summary="See the map", response_class=Response, responses=BYTES)
def points(request: Request, session: Ready, by: Reviewing) -> Response:
    """Where the items lie: x and y of each as 16-bit numbers, the low byte first; 65535 is the right or lower edge."""
    return _respond(*session.map.tagged_points(), request)


@router.get("/colours", summary="See the map", response_class=Response, responses=BYTES)
def colours(request: Request, session: Ready, by: Reviewing) -> Response:
    """What the items are coloured by: three planes of bytes, one after the other, each with a byte for every item.

    First the number of its label, or else of the class that is suggested; 255 for none. With more than 255 classes this
    plane has two bytes an item, the low one first, and 65535 for none. Then the confidence of a suggestion in
    hundredths, rounded down; 255 for none. Then the state: the sum of 1 labelled, 2 skipped, 4 don't know, 8 bad,
    16 flagged, 32 people differ. Audit items have no suggestion and no confidence.
    """
    return _respond(*session.map_colours(), request)


def _respond(tag: str, body: bytes, request: Request) -> Response:
    headers = {"ETag": f'"{tag}"', "Cache-Control": "private, no-cache"}
    if tag in request.headers.get("if-none-match", "")[:1000]:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=OCTET_STREAM, headers=headers)
