"""Items and labels into a project, and labels out of it: what the commands `add`, `import` and `export` do."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from understudy.data.faults import MAX_LISTED
from understudy.data.files import write_atomically
from understudy.errors import Conflict, UsageError
from understudy.labels.class_folders import write_class_folders
from understudy.labels.formats import check_prefix, format_named, read_labels
from understudy.labels.imported_labels import Imported, Tally
from understudy.messages import list_some
from understudy.projects.opening import create_or_open
from understudy.projects.project import Project
from understudy.projects.project_file import existing_folder
from understudy.sessions.label_rows import collect_labels
from understudy.sessions.log.log import EventLog
from understudy.sessions.opening import open_session, require_log
from understudy.sessions.record import Record
from understudy.sessions.training.artifacts import Artifacts
from understudy.sessions.views import items_news


def _project_at(source: str, store: str | None = None) -> Project:
    """The project that is there: its own folder, or the one beside this data."""
    return create_or_open(project=existing_folder(source), store=store)


def export_labels(
    source: str,
    form: str,
    out: Path | None = None,
    *,
    copy: bool = False,
    raw: bool = False,
    prefix: str | None = None,
    store: str | None = None,
) -> Iterator[str]:
    """Write what a project knows to a file or a folder, also while people label; lines that say what became of it.

    Probabilities are calibrated, unless they are to be `raw`. `prefix` is what addresses of images begin with, for
    Label Studio.
    """
    chosen = format_named(form)
    check_prefix(chosen, prefix)
    project = _project_at(source, store)
    if not project.is_begun:
        raise UsageError(f"{project.folder} was never labelled; begin with: understudy label {project.folder}")
    require_log(project.folder, project.store_url, project.identity)
    log = EventLog.open(project.store_url, project.identity, read_only=True)
    try:
        record = Record.from_events(log.read())
    finally:
        log.close()
    collected = collect_labels(record, project.pool, Artifacts(project.artifacts), is_raw=raw)
    base = None if project.source is None else project.source.base
    exported = replace(collected, base=base, prefix=prefix)
    if chosen.has_folders and (out is None or out.suffix.lower() != ".zip"):
        folder = Path(f"{project.name}-labels") if out is None else out
        count, left_out = write_class_folders(exported, folder, copy=copy)
        yield f"{count:,} items in {folder}"
        yield from _list_tally("left out", Tally(len(left_out), tuple(left_out[:MAX_LISTED])))
        return
    if copy:
        raise UsageError("--copy is for folders on the disk; leave it out")
    path = Path(chosen.file_name) if out is None else out
    if out is None and path.exists():
        raise UsageError(f"{path} is there already; give a name with --out (--out {path} replaces it)")
    size = write_atomically(path, chosen.write(exported), parents=True)
    if chosen.is_of_model:
        yield f"{path}: {size:,} bytes, of the model {(exported.model or '')[:12]}"
        if not raw:
            yield exported.calibration.describe()
        return
    yield f"{path}: {size:,} bytes, {len(exported.effective):,} labelled items of {len(exported.ids):,}"


def add_items(source: str, *, store: str | None = None) -> Iterator[str]:
    """Let what is new in the data join a project that nobody serves; lines that say what became of it."""
    project = _project_at(source, store)
    try:
        session = open_session(project, quiet=False)
    except Conflict as error:
        raise Conflict(f"{error}. New files join there by themselves") from error
    try:
        yield from project.notes
        news = items_news(session.record)
        if news is None or news.line not in project.notes:
            yield f"no new items; there are {session.record.n_items:,}"
    finally:
        session.close()


def import_labels(
    source: str,
    file: Path,
    form: str | None = None,
    *,
    annotator: str = "import",
    columns: Mapping[str, str] | None = None,
    add_classes: bool = True,
    many_classes: bool = False,
    alike: bool = False,
    store: str | None = None,
) -> Iterator[str]:
    """Store the labels of a file in a project that nobody serves; lines that say what became of them."""
    project = _project_at(source, store)
    try:
        session = open_session(project)
    except Conflict as error:
        raise Conflict(f"{error}. Its page imports labels too") from error
    try:
        pool, classes = project.pool, session.record.class_table.names_that_count()
        found = read_labels(file, form, pool.ids, items=pool.items, classes=classes, columns=columns)
        left_out = found.new_classes
        if not add_classes:
            found = _known_only(found)
        found = replace(found, many_classes=many_classes, alike=alike)
        stored = session.import_labels(found, annotator)
    finally:
        session.close()
    yield f"{stored['added']:,} labels stored, {stored['unchanged']:,} were there already"
    if left_out:
        what = "new classes" if add_classes else "left out, not being classes"
        yield from _list_tally(what, Tally(len(left_out), left_out[:MAX_LISTED]))
    yield from _report(found)


def _known_only(found: Imported) -> Imported:
    """The labels of classes that are there."""
    labels = [label for label in found.labels if label.label_name not in found.new_classes]
    return replace(found, labels=labels, new_classes=())


def _report(found: Imported) -> Iterator[str]:
    """What could not be used, a line a kind."""
    if found.unlabelled:
        yield f"without a label: {found.unlabelled:,}"
    if found.repeated:
        yield f"labelled again further down, which counts: {found.repeated:,}"
    yield from _list_tally("not in the pool", found.not_in_pool)
    yield from _list_tally("may mean several items", found.ambiguous)
    yield from _list_tally("broken", found.broken)
    yield from _list_tally("labels that are not the name of one class", found.no_text)


def _list_tally(what: str, tally: Tally) -> Iterator[str]:
    if tally.count:
        yield f"{what}: {tally.count:,} ({list_some(tally.first, len(tally.first), total=tally.count)})"
