"""Every format that labels come in or go out in, by name; and `read_labels`, which reads a file in any of them.

A format is a module with a function that writes it, one that reads it, or both, and an entry in FORMATS. Files are
only parsed: nothing in them is run or unpickled.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from understudy.data.items import Items
from understudy.errors import UnderstudyError, UsageError
from understudy.labels import class_folders, hf_datasets, label_studio, model_archive, predictions, prodigy, tables
from understudy.labels.export_data import ExportData
from understudy.labels.imported_labels import Imported, ImportEntry, gather_entries
from understudy.labels.matching import Matcher

MAX_UPLOAD_BYTES: Final = 20 * 2**20  # that may come over the network
MAX_FILE_BYTES: Final = 2**30  # of a file on the disk; labels of ten million items have room
BYTES_TO_SNIFF: Final = 4096
EXCEL_SUFFIX: Final = ".xlsx"  # of tables that are read as CSV is
CSV: Final = "text/csv; charset=utf-8"
JSONL: Final = "application/x-ndjson"
PARQUET: Final = "application/vnd.apache.parquet"
ZIP: Final = "application/zip"

ReadLabels = Callable[[Path, Matcher, Mapping[str, str]], Iterator[ImportEntry]]


@dataclass(frozen=True)
class Format:
    """How labels, predictions or models are written, and how labels are read.

    `title` and `holds` are what people read before they choose one. `write` makes the bytes of an export, `file_name`
    and `media_type` (a text's with its charset) are what a download is called. `read` yields the entries of a file,
    given a matcher for its items and the columns that the caller named; None where the format only goes out.

    A file that comes in is known by its suffix. Where several formats have that suffix, or there is no file name, it is
    the first whose `recognise` says yes to the first bytes. A format that is read needs at least one of `suffixes`.
    """

    title: str
    holds: str
    file_name: str
    media_type: str
    write: Callable[[ExportData], Iterator[bytes]]
    read: ReadLabels | None = None
    suffixes: tuple[str, ...] = ()
    recognise: Callable[[bytes], bool] | None = None
    has_folders: bool = False  # whether it may also be a folder on the disk
    has_addresses: bool = False  # whether it refers to images by an address that may have a prefix
    is_of_items: bool = False  # whether an item is there once, with the label that counts
    is_of_model: bool = False  # whether it holds the last model or its predictions, not labels


def starts_with(mark: bytes) -> Callable[[bytes], bool]:
    """Whether text begins with these bytes, blanks and a byte order mark left aside."""
    return lambda head: head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(mark)


FORMATS: Final[Mapping[str, Format]] = {
    "csv": Format(
        "CSV",
        "One line a label: item, class, who, when, why asked, who agrees or settled it. Opens in any spreadsheet.",
        file_name="labels.csv",
        media_type=CSV,
        write=tables.write_csv,
        read=tables.read_label_table,
        suffixes=(".csv", ".tsv", EXCEL_SUFFIX),
        recognise=tables.is_excel,
    ),
    "jsonl": Format(
        "JSONL",
        "The same, one JSON object a line, for programs.",
        file_name="labels.jsonl",
        media_type=JSONL,
        write=tables.write_jsonl,
        read=tables.read_label_table,
        suffixes=(".jsonl", ".ndjson"),
        recognise=starts_with(b"{"),
    ),
    "parquet": Format(
        "Parquet",
        "The same with types, for data frames.",
        file_name="labels.parquet",
        media_type=PARQUET,
        write=tables.write_parquet,
        read=tables.read_label_table,
        suffixes=(".parquet",),
        recognise=starts_with(b"PAR1"),
    ),
    "labelstudio": Format(
        "Label Studio",
        "The labels as Label Studio imports them.",
        file_name="labels.json",
        media_type="application/json",
        write=label_studio.write_label_studio,
        read=label_studio.read_label_studio,
        has_addresses=True,
        suffixes=(".json",),
        recognise=starts_with(b"["),
    ),
    "prodigy": Format(  # read as jsonl
        "Prodigy",
        "The labels as Prodigy’s choice recipe writes them.",
        file_name="labels-prodigy.jsonl",
        media_type=JSONL,
        write=prodigy.write_prodigy,
    ),
    "folders": Format(
        "Class folders",
        "A zip with a folder for each class, the items inside.",
        file_name="labels.zip",
        media_type=ZIP,
        write=class_folders.write_zip,
        read=class_folders.read_class_folders,
        suffixes=(".zip",),
        recognise=lambda head: head.startswith(b"PK\x03\x04") and not tables.is_excel(head),
        has_folders=True,
        is_of_items=True,
    ),
    "datasets": Format(  # read as parquet
        "Hugging Face datasets",
        "The labelled items themselves with the label that counts, typed for datasets: one Parquet file to train on.",
        file_name="labelled.parquet",
        media_type=PARQUET,
        write=hf_datasets.write_datasets,
        is_of_items=True,
    ),
    "predictions-csv": Format(
        "Predictions, CSV",
        "The model’s probabilities for every item of the pool.",
        file_name="predictions.csv",
        media_type=CSV,
        write=predictions.write_csv,
        is_of_model=True,
    ),
    "predictions-jsonl": Format(
        "Predictions, JSONL",
        "The same, one JSON object a line.",
        file_name="predictions.jsonl",
        media_type=JSONL,
        write=predictions.write_jsonl,
        is_of_model=True,
    ),
    "predictions-parquet": Format(
        "Predictions, Parquet",
        "The same with types.",
        file_name="predictions.parquet",
        media_type=PARQUET,
        write=predictions.write_parquet,
        is_of_model=True,
    ),
    "model": Format(
        "Model",
        "A zip with the trained weights (safetensors) and a small loader.",
        file_name="model.zip",
        media_type=ZIP,
        write=model_archive.write_model,
        is_of_model=True,
    ),
}
READERS: Final[Mapping[str, ReadLabels]] = {name: form.read for name, form in FORMATS.items() if form.read}
UNKNOWN_START: Final = "csv"  # what bytes are taken for that start like no other format


def format_named(name: str) -> Format:
    if name not in FORMATS:
        raise UsageError(f"there is no format {name!r}; choose one of {', '.join(FORMATS)}")
    return FORMATS[name]


def check_prefix(form: Format, prefix: str | None) -> None:
    """An error where a prefix of addresses is given that is not one, or for a format that has no addresses."""
    if prefix is not None:
        if not form.has_addresses:
            having = ", ".join(name for name, each in FORMATS.items() if each.has_addresses)
            raise UsageError(f"a prefix is for addresses of images, which only {having} has; leave it out")
        label_studio.check_address(prefix)


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
        suffixes = FORMATS[format_name].suffixes
        is_excel = EXCEL_SUFFIX in suffixes and tables.is_excel(content[:BYTES_TO_SNIFF])
        path = Path(folder) / f"labels{EXCEL_SUFFIX if is_excel else suffixes[0]}"
        path.write_bytes(content)
        try:
            yield from READERS[format_name](path, matcher, columns)
        except UnderstudyError as error:
            kind = UsageError if isinstance(error, UsageError) else UnderstudyError
            raise kind(str(error).replace(str(path), name)) from error


def _format_of_path(path: Path) -> str:
    if path.is_dir():
        return next(name for name, form in FORMATS.items() if form.has_folders)
    fitting = [name for name in READERS if path.suffix.lower() in FORMATS[name].suffixes]
    if not fitting:
        raise UsageError(f"{path} has no known suffix; say what it is with --format and one of {', '.join(READERS)}")
    if len(fitting) == 1:
        return fitting[0]
    with path.open("rb") as file:
        return format_of_content(file.read(BYTES_TO_SNIFF), fitting)


def format_of_content(content: bytes, among: Iterable[str] = READERS) -> str:
    """The format that a file's first bytes tell, among these."""
    names = list(among)
    known = ((name, FORMATS[name].recognise) for name in names)
    head = content[:BYTES_TO_SNIFF]
    usual = UNKNOWN_START if UNKNOWN_START in names else names[0]
    return next((name for name, recognise in known if recognise is not None and recognise(head)), usual)
