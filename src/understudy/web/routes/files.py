"""Calls that move files: contents of items, exports, imports."""

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from anyio import to_thread
from fastapi import APIRouter, Body, Query, Request
from starlette.responses import Response, StreamingResponse

from understudy.labels.formats import FORMATS, READERS, check_prefix, format_named, read_labels
from understudy.labels.imported_labels import Tally
from understudy.sessions.label_rows import collect_labels
from understudy.sessions.training.artifacts import Artifacts
from understudy.web.content import TEXT, Content, Contents
from understudy.web.dependencies import Annotating, Owning, Ready, own_name
from understudy.web.error_responses import READS, WRITES, describe_statuses
from understudy.web.guard import OCTET_STREAM
from understudy.web.requests import Annotator, ItemInPath

router = APIRouter(prefix="/api", tags=["files"])
BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
UNCHANGED: Final[dict[int | str, dict[str, Any]]] = {304: {"description": "Still the same as the one that is cached."}}
IMAGES: Final = dict.fromkeys(("image/jpeg", "image/png", "image/gif", "image/webp"), BINARY)
FILES: Final = {form.media_type.partition(";")[0]: BINARY for form in FORMATS.values()} | {
    "application/json": {"schema": {}}  # any JSON document
}
# Even if it were opened in a tab of its own, and even if a browser took it for a page, nothing in it would run.
HARMLESS: Final = "default-src 'none'; sandbox; frame-ancestors 'none'"


def _describe_bytes(content: dict[str, Any], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """A call that answers with bytes of these types, for its description."""
    return {200: {"content": content, "description": "The bytes."}, **describe_statuses(*statuses)}


@router.get(
    "/items/{item}/content",
    response_class=Response,
    responses=_describe_bytes(IMAGES | {"text/plain": {"schema": {"type": "string"}}}, *READS, 404) | UNCHANGED,
)
async def content(item: ItemInPath, request: Request, session: Ready, by: Annotating) -> Response:
    """The picture or the text itself. A picture is JPEG, PNG, GIF or WebP, whatever its file is."""
    contents: Contents = request.app.state.contents
    pool = session.project.pool
    return _respond(await to_thread.run_sync(contents.content, pool, item, limiter=contents.threads), request)


@router.get(
    "/items/{item}/thumbnail", response_class=Response, responses=_describe_bytes(IMAGES, *READS, 404) | UNCHANGED
)
async def thumbnail(item: ItemInPath, request: Request, session: Ready, by: Annotating) -> Response:
    """The picture, at most 160 pixels wide and high."""
    contents: Contents = request.app.state.contents
    pool = session.project.pool
    return _respond(await to_thread.run_sync(contents.thumbnail, pool, item, limiter=contents.threads), request)


def _respond(found: Content, request: Request) -> Response:
    """The bytes, or 304 if they have not changed. The browser may keep them, but asks again each time."""
    headers = {"ETag": found.tag, "Cache-Control": "private, no-cache", "Content-Security-Policy": HARMLESS}
    if found.tag in request.headers.get("if-none-match", "")[:1000]:
        return Response(status_code=304, headers=headers)
    if found.media_type == TEXT:
        headers["Content-Disposition"] = "inline"
    return Response(found.body, media_type=found.media_type, headers=headers)


@dataclass(frozen=True)
class FormatCard:
    """A format as people choose it: what it is called and holds, and by which file names it is known on its way in."""

    format: str
    title: str
    holds: str
    is_of_model: bool  # it holds the last model or its predictions: to be had after the first training
    suffixes: list[str]  # of files that can be imported; empty where the format only goes out


@router.get("/formats", summary="List formats", responses=describe_statuses(*READS))
def formats(by: Owning) -> list[FormatCard]:
    """Every format in which labels, predictions and the model can be exported, and from which labels are imported."""
    return [
        FormatCard(name, form.title, form.holds, form.is_of_model, list(form.suffixes))
        for name, form in FORMATS.items()
    ]


if TYPE_CHECKING:
    ExportFormat: TypeAlias = str
    ImportFormat: TypeAlias = str
else:  # a new format is in the description without a line here
    ExportFormat, ImportFormat = Literal[tuple(FORMATS)], Literal[tuple(READERS)]


@router.get(
    "/export", summary="Export labels", response_class=StreamingResponse, responses=_describe_bytes(FILES, *READS, 404)
)
def export(
    session: Ready,
    by: Owning,
    format: ExportFormat = "csv",  # noqa: A002
    raw: bool = False,
    prefix: Annotated[
        str | None, Query(max_length=2000, description="What addresses of images begin with, for Label Studio.")
    ] = None,
) -> Response:
    """Labels with who, when and why; or class folders, predictions for all items, or the model. A download.

    Probabilities are calibrated, unless `raw` asks for them as the model gives them.
    """
    chosen = format_named(format)
    check_prefix(chosen, prefix)
    with session.lock:
        artifacts = Artifacts(session.project.artifacts)
        still = collect_labels(session.record, session.project.pool, artifacts, is_raw=raw)
    source = session.project.source
    pieces = chosen.write(replace(still, base=None if source is None else source.base, prefix=prefix))
    first = next(pieces, b"")  # what cannot be had is said before the download begins
    name = f'attachment; filename="{chosen.file_name}"'
    headers = {"Content-Disposition": name, "Content-Security-Policy": HARMLESS}
    return StreamingResponse(chain([first], pieces), media_type=chosen.media_type, headers=headers)


@dataclass(frozen=True)
class ImportReport:
    """What became of a file of labels. Each tally has a count and the first few names."""

    added: int
    unchanged: int
    repeated: int
    unlabelled: int
    new_classes: list[str]
    unknown: Tally  # not in the pool
    ambiguous: Tally
    broken: Tally
    no_text: Tally


@router.post(
    "/import",
    summary="Import labels",
    responses=describe_statuses(*WRITES),
    openapi_extra={"requestBody": {"required": True, "content": {OCTET_STREAM: BINARY}}},
)
def import_labels(
    annotator: Annotator,
    body: Annotated[bytes, Body(media_type=OCTET_STREAM)],
    session: Ready,
    by: Owning,
    format: ImportFormat | None = None,  # noqa: A002
    alike: Annotated[
        bool, Query(description="Whether new classes may be easily taken for others: Cat for cat.")
    ] = False,
) -> ImportReport:
    """Bring labels in: the bytes of a file. Without a format it is known by how it begins."""
    name = own_name(by, annotator)
    pool = session.project.pool
    found = read_labels(body, format, pool.ids, items=pool.items, classes=session.record.class_table.names_that_count())
    stored = session.import_labels(replace(found, alike=alike), name)
    return ImportReport(
        added=stored["added"],
        unchanged=stored["unchanged"],
        repeated=found.repeated,
        unlabelled=found.unlabelled,
        new_classes=list(found.new_classes),
        unknown=found.not_in_pool,
        ambiguous=found.ambiguous,
        broken=found.broken,
        no_text=found.no_text,
    )
