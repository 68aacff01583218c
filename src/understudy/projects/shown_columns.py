"""The columns of the table that people see beside an item, and `columns.parquet`, where the project keeps them.

They are read from the table once and kept, so that they are there when the table is not. Only columns that are shown
are kept: what else a table holds is nobody's business. A project that was made before reads them from its table too.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.data.extra_columns import ExtraColumns, has_columns, read_extra_columns, stamp_of
from understudy.data.files import atomic_file
from understudy.data.items import Stamp
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import list_some
from understudy.projects.project_file import SourceLocation

FILE: Final = "columns.parquet"
ABOUT: Final = b"understudy.columns"

FindIdentities = Callable[[], Sequence[str | None]]  # of each item in the table now; None: it is not there


class ShownColumns:
    """Columns of a project's table, for its n items. `table` is the file; without one `why_nothing` says why.

    Threads may share it: what is read replaces what was there, whole.
    """

    def __init__(
        self,
        folder: Path,
        n: int,
        table: Path | None,
        named: Mapping[str, str] | None,
        identities: FindIdentities,
        why_nothing: str,
    ) -> None:
        self._folder, self._n, self._table = folder, n, table
        self._named, self._identities, self._why_nothing = dict(named or {}), identities, why_nothing
        self._values, self._there, self._stamp = _read_kept(folder, n)
        self._stamp_of_names = self._stamp

    def of(self, item: int, names: Sequence[str]) -> list[tuple[str, str]]:
        """The values of an item, by the names of their columns; columns of which nothing is known are left out."""
        values = self._values
        return [(name, values[name][item]) for name in names if name in values]

    def read(self, names: Sequence[str]) -> None:
        """Have these columns at hand; an error names the ones there are."""
        if not names or self._is_at_hand(names):
            return
        if self._table is None:
            missing = [name for name in names if name not in self._values]
            if missing:
                raise UsageError(f"column {missing[0]!r} cannot be shown: {self._why_nothing}")
            return
        stamp, found = self._read_table(self._table, names)
        identities = self._identities()
        # Of an item that is not in the table any more, what was kept stays.
        before = self._values
        values = {
            name: [
                found.values[name].get(identity, "") if identity is not None else _value(before.get(name), row)
                for row, identity in enumerate(identities)
            ]
            for name in names
        }
        _write_kept(self._folder, values, found.there, stamp)
        self._values, self._there, self._stamp = {**before, **values}, found.there, stamp
        self._stamp_of_names = stamp

    def _read_table(self, table: Path, names: Sequence[str]) -> tuple[Stamp, ExtraColumns]:
        """Columns and the table's stamp. Whoever labels may read an error, so it names the file and not its path."""
        try:
            return stamp_of(table), read_extra_columns(table, self._named, names)
        except OSError as error:
            raise UnderstudyError(f"{table.name} cannot be read ({error.strerror}); put it back") from error
        except UnderstudyError as error:
            raise type(error)(str(error).replace(str(table), table.name)) from error

    def read_or_note(self, names: Sequence[str]) -> list[str]:
        """Have these columns at hand as far as they can be had; a note where one cannot, so that labelling goes on."""
        try:
            self.read(names)
        except UnderstudyError as error:
            return [f"columns beside the items ({list_some(names)}): {' '.join(str(error).split())}"]
        return []

    def there(self) -> tuple[str, ...]:
        """The columns that can be shown; those that are kept where the table cannot be read."""
        if self._table is not None:
            with suppress(UnderstudyError, OSError):
                if stamp_of(self._table) != self._stamp_of_names:
                    self._stamp_of_names, found = self._read_table(self._table, ())
                    self._there = found.there
        return self._there or tuple(self._values)

    def _is_at_hand(self, names: Sequence[str]) -> bool:
        if self._table is None or not all(name in self._values for name in names):
            return False
        try:
            return self._stamp == stamp_of(self._table)
        except OSError:
            return True  # it has gone since, and what is kept stays


def why_no_columns(origin: SourceLocation, folder: Path) -> str:
    """Why nothing can be shown beside the items of a source that is not a table, or is not there."""
    if origin.name is None and origin.find(folder) is None:
        return f"{origin.title} is not there; put it back"
    return f"{origin.title} is not a table; columns are those of a CSV, JSONL, Parquet or Excel file"


def check_columns(origin: SourceLocation, folder: Path, names: Sequence[str]) -> None:
    """Refuse columns that cannot be shown, before anything is written."""
    if not names:
        return
    path = origin.find(folder)
    if path is None or not path.is_file() or not has_columns(path):
        raise UsageError(f"column {names[0]!r} cannot be shown: {why_no_columns(origin, folder)}")
    read_extra_columns(path, origin.columns or {}, names)


def _value(column: Sequence[str] | None, row: int) -> str:
    return "" if column is None or row >= len(column) else column[row]


def _read_kept(folder: Path, n: int) -> tuple[dict[str, list[str]], tuple[str, ...], tuple[int, int] | None]:
    """The columns that are kept, the names of those there were, and the stamp of the table they are from.

    Nothing where they cannot be read: the table has them. A pool that grew since has its stamp taken away.
    """
    try:
        table: Any = pq.read_table(folder / FILE)
        about = json.loads(table.schema.metadata[ABOUT])
        values = {name: table[name].to_pylist() for name in table.column_names}
        stamp = int(about["stamp"][0]), int(about["stamp"][1])
        there = tuple(str(name) for name in about["there"])
    except (OSError, ValueError, TypeError, KeyError, IndexError, pa.ArrowException):
        return {}, (), None
    if len(table) == n:
        return values, there, stamp
    missing = [""] * max(0, n - len(table))
    return {name: [*column[:n], *missing] for name, column in values.items()}, there, None


def _write_kept(
    folder: Path, values: Mapping[str, Sequence[str]], there: Sequence[str], stamp: tuple[int, int]
) -> None:
    about = json.dumps({"there": list(there), "stamp": list(stamp)})
    table = pa.table({name: pa.array(column, pa.string()) for name, column in values.items()})
    with atomic_file(folder / FILE) as file:
        pq.write_table(table.replace_schema_metadata({ABOUT: about.encode()}), file)
