"""Labels in: from tables, Label Studio and folders of classes to rows of the pool. Data is read, nothing is run."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from understudy.data.items import Items, printable
from understudy.errors import UnderstudyError, UsageError
from understudy.labels.class_folders import read_class_folders
from understudy.labels.found_labels import Entry, LabelsFrom, Trouble
from understudy.labels.label_studio import read_label_studio
from understudy.labels.label_tables import read_label_table
from understudy.labels.matching import Matcher

LARGEST_BODY: Final = 20 * 2**20  # bytes that may come over the network
LARGEST_FILE: Final = 2**30  # bytes of a file on the disk; labels of ten million items have room
READERS: Final[Mapping[str, Callable[[Path, Matcher, Mapping[str, str]], Iterator[Entry]]]] = {
    "csv": read_label_table,
    "jsonl": read_label_table,
    "parquet": read_label_table,
    "labelstudio": read_label_studio,
    "folders": read_class_folders,
}
SUFFIXES: Final = {
    ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet",
    ".json": "labelstudio", ".zip": "folders",
}  # fmt: skip
FILE_SUFFIX: Final = {
    "csv": ".csv",
    "jsonl": ".jsonl",
    "parquet": ".parquet",
    "labelstudio": ".json",
    "folders": ".zip",
}
SHOWN: Final = 10
USUAL_NEW: Final = 50  # new classes that raise no question
LABELS_A_CLASS: Final = 10  # more of them do not either where each has so many labels
MOST_CLASSES: Final = 10_000


@dataclass(frozen=True)
class ImportedLabel:
    """What a file says of an item. `at` is seconds since 1970."""

    row: int
    label_name: str
    annotator: str | None = None
    at: float | None = None


@dataclass(frozen=True)
class Tally:
    """How many there are of a kind, and the first of them by name."""

    count: int = 0
    first: tuple[str, ...] = ()


@dataclass(frozen=True)
class Imported:
    """The labels of a file, one for each item and annotator, in the order of the file; and what could not be used.

    `new_classes` are the labels that are no class yet, in order of appearance: whether they become classes is for
    the caller to decide.
    """

    labels: list[ImportedLabel]
    new_classes: tuple[str, ...]
    unlabelled: int  # entries that say nothing: no label, skipped, cancelled
    repeated: int  # an annotator's earlier labels of an item that the file labels again
    not_in_pool: Tally
    ambiguous: Tally  # entries that may mean several items
    broken: Tally  # lines that cannot be read
    no_text: Tally  # labels that are no name of one class
    column: str = ""  # where the labels come from: a column, or a question of Label Studio
    many_classes: bool = False  # whoever imports insists on the new classes, however many


def read_labels(
    source: Path | bytes,
    format: str | None,  # noqa: A002
    ids: Sequence[str],
    *,
    items: Items | None = None,
    classes: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
) -> Imported:
    """The labels in a file, a folder, or the bytes of a file. Without a `format` it is known by its name or its start.

    `items` lets texts be known by what they say, and files by what they hold. `columns` names the columns of a table
    for "id", "label", "annotator" and "time"; for Label Studio "label" is the name of the control.
    """
    matcher = Matcher(ids, items)
    if isinstance(source, bytes):
        if len(source) > LARGEST_BODY:
            raise UnderstudyError(
                f"{len(source) / 2**20:,.1f} MiB are more than {LARGEST_BODY // 2**20} MiB; stop the server and use: "
                "understudy import"
            )
        return _read_content(source, _checked_format(format) or format_of_content(source), matcher, columns, classes)
    if not source.exists():
        raise UsageError(f"{source}: no such file or folder")
    chosen = _checked_format(format) or _format_of(source)
    if source.is_file() and source.stat().st_size > LARGEST_FILE:
        raise UnderstudyError(f"{source} has more than {LARGEST_FILE // 2**20:,} MiB; cut it into smaller files")
    if source.is_dir() and chosen != "folders":
        raise UsageError(f"{source} is a folder; {chosen} is a file")
    if source.is_file() and SUFFIXES.get(source.suffix.lower()) != chosen:
        return _read_content(source.read_bytes(), chosen, matcher, columns, classes, str(source))
    return _gathered(READERS[chosen](source, matcher, columns or {}), classes)


def _read_content(
    content: bytes,
    form: str,
    matcher: Matcher,
    columns: Mapping[str, str] | None,
    classes: Sequence[str],
    name: str = "the file",
) -> Imported:
    """The labels in bytes, by way of a file of their own: that is what the readers of tables want."""
    if not content.strip():
        raise UnderstudyError(f"{name} is empty; there are no labels in it")
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
        path = Path(folder) / f"labels{FILE_SUFFIX[form]}"
        path.write_bytes(content)
        try:
            return _gathered(READERS[form](path, matcher, columns or {}), classes)
        except UnderstudyError as error:
            raise UnderstudyError(str(error).replace(str(path), name)) from error


def _gathered(found: Iterable[Entry], classes: Sequence[str]) -> Imported:
    """One label for each item and annotator, the last that the file gives."""
    labels: dict[tuple[int, str | None], ImportedLabel] = {}
    troubles: dict[str, list[str]] = {}
    repeated, column = 0, ""
    for entry in found:
        if isinstance(entry, LabelsFrom):
            column = entry.name
            continue
        if isinstance(entry, Trouble):
            troubles.setdefault(entry.kind, []).append(entry.name)
            continue
        key = entry.row, entry.annotator
        repeated += labels.pop(key, None) is not None
        labels[key] = ImportedLabel(entry.row, entry.label, entry.annotator, entry.at)
    names = dict.fromkeys(label.label_name for label in labels.values())
    known = frozenset(classes)

    def tally(kind: str) -> Tally:
        return Tally(len(troubles.get(kind, [])), tuple(troubles.get(kind, [])[:SHOWN]))

    return Imported(
        labels=list(labels.values()),
        new_classes=tuple(name for name in names if name not in known),
        unlabelled=len(troubles.get("unlabelled", [])),
        repeated=repeated,
        not_in_pool=tally("not in the pool"),
        ambiguous=tally("ambiguous"),
        broken=tally("broken"),
        no_text=tally("no text"),
        column=column,
    )


def checked_import(imported: Imported, classes: Sequence[str]) -> Imported:
    """The import, unless its labels look like something else than classes: a class is never taken away again."""
    new = len(set(imported.new_classes) - set(classes))
    total = len(set(classes)) + new
    is_usual = new <= max(USUAL_NEW, len(imported.labels) // LABELS_A_CLASS)
    if new == 0 or (total <= MOST_CLASSES and (is_usual or imported.many_classes)):
        return imported
    first = ", ".join(printable(name[:40]) for name in imported.new_classes[:3])
    used = f"the column {printable(imported.column)!r}" if imported.column else "the folders"
    remedy = "choose another column with: understudy import --columns label=NAME"
    remedy += ", or insist with --many-classes" if total <= MOST_CLASSES else f"; {MOST_CLASSES:,} are the most"
    raise UnderstudyError(
        f"{used} would make {new:,} new classes of {len(imported.labels):,} labels ({first}, ...); {remedy}"
    )


def _checked_format(name: str | None) -> str | None:
    if name is not None and name not in READERS:
        raise UsageError(f"labels can be imported from {', '.join(READERS)}; got {name!r}")
    return name


def _format_of(path: Path) -> str:
    """The format by the name of a file."""
    if path.is_dir():
        return "folders"
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path} has no known suffix; say what it is with --format and one of {', '.join(READERS)}")
    return SUFFIXES[path.suffix.lower()]


def format_of_content(content: bytes) -> str:
    """The format by how a file begins."""
    start = content[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    if content.startswith(b"PAR1"):
        return "parquet"
    if content.startswith(b"PK\x03\x04"):
        return "folders"
    if start.startswith(b"["):
        return "labelstudio"
    return "jsonl" if start.startswith(b"{") else "csv"
