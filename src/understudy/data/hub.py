"""Pools from Hugging Face `datasets` (the extra `hub`): an object, a folder it saved, or a name on the hub."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from understudy.data import columns as column_names
from understudy.data import splits
from understudy.data.faults import Fault
from understudy.data.items import make_printable
from understudy.data.manifests import from_table
from understudy.data.pool import Dataset
from understudy.data.tables import Cells, Table
from understudy.errors import UnderstudyError
from understudy.messages import install_command, reason_of

PREFIX: Final = "hf:"
MARKS: Final = ("dataset_dict.json", "dataset_info.json")  # what save_to_disk leaves in a folder


def load_hub(name: str, classes: Sequence[str] | None = None, columns: Mapping[str, str] | None = None) -> Dataset:
    """A data set from the hub by `hf:NAME`, or `hf:NAME:CONFIGURATION`. Only data is fetched, never code."""
    library = _datasets_library()
    repository, _, configuration = name.removeprefix(PREFIX).partition(":")
    try:
        # From version 4 on, which the extra asks for, the library runs no code that comes with a data set.
        found = library.load_dataset(repository, configuration or None)
    except Exception as error:  # the library, its HTTP client and its builders each raise their own
        reason = reason_of(error)
        raise UnderstudyError(
            f"{name} could not be had from the Hugging Face hub ({reason}); check the name and the connection, "
            "or save it elsewhere with save_to_disk and give that folder"
        ) from error
    return from_datasets(found, repository, classes, columns)


def load_saved(folder: Path, classes: Sequence[str] | None = None, columns: Mapping[str, str] | None = None) -> Dataset:
    """A data set from a folder that `save_to_disk` wrote; it is mapped, not read."""
    library = _datasets_library()
    try:
        found = library.load_from_disk(str(folder))
    except Exception as error:
        reason = reason_of(error)
        raise UnderstudyError(f"{folder} is not a complete Hugging Face data set ({reason}); save it again") from error
    return from_datasets(found, folder.resolve().name, classes, columns)


def is_of_datasets(source: Any) -> bool:
    """Whether this is an object of that library, which need not be installed to know."""
    return type(source).__module__.partition(".")[0] == "datasets"


def is_saved(folder: Path) -> bool:
    return any((folder / mark).is_file() for mark in MARKS)


def from_datasets(
    source: Any, name: str = "hub", classes: Sequence[str] | None = None, columns: Mapping[str, str] | None = None
) -> Dataset:
    """The pool in a `datasets.Dataset`, or pool and test set in a `DatasetDict`."""
    library = _datasets_library()
    if isinstance(source, library.Dataset):
        return from_table(_table_of(source, columns or {}, name, "row "), name, Path(), classes)
    if not isinstance(source, library.DatasetDict) or not source:
        raise UnderstudyError(
            f"a pool needs a datasets.Dataset or a DatasetDict that is not empty, got {type(source).__name__}; "
            "load it without streaming"
        )
    if len(source) == 1:
        ((split, only),) = source.items()
        return from_table(_table_of(only, columns or {}, name, f"{split}/"), name, Path(), classes)
    tables, notes = {}, []
    for split, part in source.items():
        if splits.part_of(split) is None:
            notes.append(Fault(split, f"a split of {len(part):,} rows that is not known", "not used", used=True))
        else:
            tables[split] = _table_of(part, columns or {}, name, f"{split}/")
    if not tables:
        raise UnderstudyError(f"{name} has the splits {', '.join(source)}; give one of them, as in source['{split}']")
    return from_table(_join_tables(tables, tuple(notes), name), name, Path(), classes)


def _table_of(data: Any, named: Mapping[str, str], source: str, prefix: str) -> Table:
    """A data set as a table; its images are left as the bytes they are stored in."""
    library = _datasets_library()
    plain = data.with_format(None)
    pictures = [name for name, kind in data.features.items() if isinstance(kind, library.Image)]
    numbered = [name for name, kind in data.features.items() if isinstance(kind, library.ClassLabel)]
    named = {
        **_guess_column("path", pictures, named, source),
        **_guess_column("label", numbered, named, source),
        **named,
    }
    chosen = column_names.choose_columns(data.column_names, named, source)
    values: dict[str, Sequence[Any]] = {}
    for role, column in chosen.items():
        if role == "path" and column in pictures:
            values[role] = Cells(plain.cast_column(column, library.Image(decode=False))[column])
        else:
            values[role] = plain[column][:]
    if "id" in values and prefix.endswith("/"):  # every split may count its own from 0
        values["id"] = [None if value is None else f"{prefix}{value}" for value in values["id"]]
    kind = data.features[chosen["label"]] if "label" in chosen else None
    classes = tuple(map(make_printable, kind.names)) if isinstance(kind, library.ClassLabel) else None
    return Table(values, [f"{prefix}{row}" for row in range(len(data))], classes=classes)


def _guess_column(role: str, found: Sequence[str], named: Mapping[str, str], source: str) -> dict[str, str]:
    """The only column whose type says what it holds. Of several one has to be named."""
    if role in named or (role == "path" and "text" in named) or not found:
        return {}
    usual = column_names.usual_column(role, found)
    if usual is None and len(found) > 1:
        raise UnderstudyError(
            f"{source} has several columns for the {role}: {column_names.quote_names(found)}; "
            f"name one, as in {column_names.column_example(role, found[0])}"
        )
    return {role: usual or found[0]}


def _join_tables(tables: Mapping[str, Table], notes: tuple[Fault, ...], source: str) -> Table:
    """The tables of several splits as one, with the split as a column."""
    first, *others = tables.values()
    for split, table in tables.items():
        if table.classes != first.classes or table.values.keys() != first.values.keys():
            raise UnderstudyError(
                f"the split {split} of {source} has other columns or classes than the first; load one"
            )
    values: dict[str, Sequence[Any]] = {}
    for role, column in first.values.items():
        parts = [column, *(table.values[role] for table in others)]
        values[role] = Cells(*parts) if isinstance(column, Cells) else [value for part in parts for value in part]
    values["split"] = [split for split, table in tables.items() for _ in table.names]
    names = [name for table in tables.values() for name in table.names]
    return Table(values, names, notes, first.classes)


def _datasets_library() -> ModuleType:
    try:
        import datasets
    except ImportError as error:
        raise UnderstudyError(
            f"Hugging Face data sets need an extra; install it with: {install_command('hub')}"
        ) from error
    return datasets
