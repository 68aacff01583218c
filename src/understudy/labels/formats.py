"""Every format that labels come in or go out in, by name; and `read_labels`, which reads a file in any of them.

A format is a module with a function that writes it, one that reads it, or both, and an entry in FORMATS. Files are
only parsed: nothing in them is run or unpickled.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from understudy.data.items import Items
from understudy.errors import UnderstudyError, UsageError
from understudy.labels import class_folders, label_studio, model_archive, predictions, prodigy, tables
from understudy.labels.export_data import ExportData
from understudy.labels.imported_labels import Imported, ImportEntry, gather_entries
from understudy.labels.matching import Matcher

MAX_UPLOAD_BYTES: Final = 20 * 2**20  # that may come over the network
MAX_FILE_BYTES: Final = 2**30  # of a file on the disk; labels of ten million items have room
BYTES_TO_SNIFF: Final = 4096
CSV: Final = "text/csv; charset=utf-8"
JSONL: Final = "application/x-ndjson"
PARQUET: Final = "application/vnd.apache.parquet"
ZIP: Final = "application/zip"

ReadLabels = Callable[[Path, Matcher, Mapping[str, str]], Iterator[ImportEntry]]


@dataclass(frozen=True)
class Format:
    """How labels, predictions or models are written, and how labels are read.

    `write` makes the bytes of an export, `file_name` and `media_type` are what a download is called. `read` yields the
    entries of a file, given a matcher for its items and the columns that the caller named; None where the format only
    goes out. A file that comes in is known by one of its `suffixes`, or by what its text `starts` with.
    """

    file_name: str
    media_type: str
    write: Callable[[ExportData], Iterator[bytes]]
    read: ReadLabels | None = None
    suffixes: tuple[str, ...] = ()
    starts: bytes | None = None
    has_folders: bool = False  # whether it may also be a folder on the disk
    is_of_model: bool = False  # whether it holds the last model or its predictions, not labels


FORMATS: Final[Mapping[str, Format]] = {
    "csv": Format("labels.csv", CSV, tables.write_csv, tables.read_label_table, (".csv", ".tsv")),
    "jsonl": Format(
        "labels.jsonl", JSONL, tables.write_jsonl, tables.read_label_table, (".jsonl", ".ndjson"), starts=b"{"
    ),
    "parquet": Format(
        "labels.parquet", PARQUET, tables.write_parquet, tables.read_label_table, (".parquet",), starts=b"PAR1"
    ),
    "labelstudio": Format(
        "labels.json",
        "application/json",
        label_studio.write_label_studio,
        label_studio.read_label_studio,
        (".json",),
        starts=b"[",
    ),
    "prodigy": Format("labels-prodigy.jsonl", JSONL, prodigy.write_prodigy),  # read as jsonl
    "folders": Format(
        "labels.zip",
        ZIP,
        class_folders.write_zip,
        class_folders.read_class_folders,
        (".zip",),
        starts=b"PK\x03\x04",
        has_folders=True,
    ),
    "predictions-csv": Format("predictions.csv", CSV, predictions.write_csv, is_of_model=True),
    "predictions-jsonl": Format("predictions.jsonl", JSONL, predictions.write_jsonl, is_of_model=True),
    "predictions-parquet": Format("predictions.parquet", PARQUET, predictions.write_parquet, is_of_model=True),
    "model": Format("model.zip", ZIP, model_archive.write_model, is_of_model=True),
}
READERS: Final[Mapping[str, ReadLabels]] = {name: form.read for name, form in FORMATS.items() if form.read}
UNKNOWN_START: Final = "csv"  # what bytes are taken for that start like no other format


def format_named(name: str) -> Format:
    if name not in FORMATS:
        raise UsageError(f"there is no format {name!r}; choose one of {', '.join(FORMATS)}")
    return FORMATS[name]


def read_labels(
    source: Path | bytes,
    format: str | None,  # noqa: A002
    ids: Sequence[str],
    *,
    items: Items | None = None,
    classes: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
) -> Imported:
    """The labels in a file, a folder, or the bytes of a file. Without a `format`, its name or its first bytes tell it.

    With `items`, texts are also known by what they say, and files by what they hold. `columns` names the columns of a
    table for "id", "label", "annotator" and "time"; for Label Studio "label" is the name of the control.
    """
    if format is not None and format not in READERS:
        raise UsageError(f"labels can be imported from {', '.join(READERS)}; got {format!r}")
    matcher = Matcher(ids, items)
    if isinstance(source, bytes):
        if len(source) > MAX_UPLOAD_BYTES:
            raise UnderstudyError(
                f"{len(source) / 2**20:,.1f} MiB are more than {MAX_UPLOAD_BYTES // 2**20} MiB; stop the server and "
                "use: understudy import"
            )
        name = format or format_of_content(source)
        return gather_entries(_read_bytes(source, name, matcher, columns or {}), classes)
    if not source.exists():
        raise UsageError(f"{source}: no such file or folder")
    name = format or _format_of_path(source)
    if source.is_file() and source.stat().st_size > MAX_FILE_BYTES:
        raise UnderstudyError(f"{source} has more than {MAX_FILE_BYTES // 2**20:,} MiB; cut it into smaller files")
    if source.is_dir() and not FORMATS[name].has_folders:
        raise UsageError(f"{source} is a folder; {name} is a file")
    if source.is_file() and source.suffix.lower() not in FORMATS[name].suffixes:
        entries = _read_bytes(source.read_bytes(), name, matcher, columns or {}, str(source))
    else:
        entries = READERS[name](source, matcher, columns or {})
    return gather_entries(entries, classes)


def _read_bytes(
    content: bytes, format_name: str, matcher: Matcher, columns: Mapping[str, str], name: str = "the file"
) -> Iterator[ImportEntry]:
    """The entries in bytes, by way of a temporary file with the usual suffix, which the readers need."""
    if not content.strip():
        raise UnderstudyError(f"{name} is empty; there are no labels in it")
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
        path = Path(folder) / f"labels{FORMATS[format_name].suffixes[0]}"
        path.write_bytes(content)
        try:
            yield from READERS[format_name](path, matcher, columns)
        except UnderstudyError as error:
            kind = UsageError if isinstance(error, UsageError) else UnderstudyError
            raise kind(str(error).replace(str(path), name)) from error


def _format_of_path(path: Path) -> str:
    for name, form in FORMATS.items():
        if form.has_folders if path.is_dir() else path.suffix.lower() in form.suffixes:
            return name
    raise UsageError(f"{path} has no known suffix; say what it is with --format and one of {', '.join(READERS)}")


def format_of_content(content: bytes) -> str:
    """The format that a file's first bytes tell."""
    start = content[:BYTES_TO_SNIFF].removeprefix(b"\xef\xbb\xbf").lstrip()
    starts = ((name, form.starts) for name, form in FORMATS.items())
    return next((name for name, mark in starts if mark is not None and start.startswith(mark)), UNKNOWN_START)
