"""Which item of the pool an entry of a file means: by id, path, URL, text or content. Nothing is guessed."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from understudy.data.faults import ItemFault
from understudy.data.items import Items, make_printable
from understudy.labels.item_files import item_file, item_names

UPLOAD_PREFIX: Final = re.compile(r"^[0-9a-f]{8}-(?=.)")  # Label Studio puts it before the name of an uploaded file
MAX_NAME_CHARACTERS: Final = 4096  # of a path or a URL; longer texts are neither
MAX_PATH_PARTS: Final = 64
LINE_NUMBER: Final = re.compile(r"(line|row) \d+( \(\d+\))?")  # the id of a text in a table that has no column of ids
NO_ROWS: Final[frozenset[int]] = frozenset()


class Matcher:
    """The rows of a pool that a name, a text or a content may mean: one, none, or several that cannot be told apart."""

    def __init__(self, ids: Sequence[str], items: Items | None = None) -> None:
        self.ids, self.items = ids, items
        self.row_of = {name: row for row, name in enumerate(ids)}
        self._known_ends: dict[str, dict[tuple[str, ...], frozenset[int]]] = {}
        self._known_digests: dict[int | None, dict[bytes, list[int]]] = {}

    def by_name(self, name: str) -> frozenset[int]:
        """The items with this id; or whose id this path or URL ends in; or whose id ends in it, such as a file name."""
        for written in (name, make_printable(name), make_printable(name.strip())):
            if written in self.row_of:
                return frozenset({self.row_of[written]})
        found: set[int] = set()
        for parts in _paths_in(name):
            tails = ("/".join(parts[start:]) for start in range(max(0, len(parts) - self.depth), len(parts)))
            found |= {self.row_of[tail] for tail in tails if tail in self.row_of}
        return frozenset(found) or self.by_end(name)

    def by_end(self, name: str) -> frozenset[int]:
        """The items whose id, as a path, ends in this one."""
        found = [self._ends_of(parts[-1]).get(tuple(parts), NO_ROWS) for parts in _paths_in(name)]
        return NO_ROWS.union(*found) if len(found) != 1 else found[0]

    def by_text(self, text: str) -> frozenset[int]:
        """The items with exactly this text."""
        return self._rows_by_text.get(text, NO_ROWS)

    def is_contradicted(self, row: int, text: str) -> bool:
        """Whether this id only numbers a line, and the item there has another text: the number is of another table."""
        if self.items is None or self.items.kind != "text" or not LINE_NUMBER.fullmatch(self.ids[row]):
            return False
        there = self.items.read(row).decode("utf-8", "replace")
        return there.split() != text.split()  # spreadsheets change blanks and line ends

    def by_content(self, content: bytes) -> frozenset[int]:
        """The items whose file would hold exactly this. Only items of the same size are read, where sizes are known."""
        if self.items is None:
            return NO_ROWS
        digest = hashlib.sha256(content).digest()
        return NO_ROWS.union(*(self._digests_of(size).get(digest, ()) for size in (len(content), None)))

    def by_file_name(self, name: str) -> frozenset[int]:
        """The items that our class folders would hold under this name, with or without one more suffix."""
        found = self._rows_by_file_name.get(name)
        if found is None:
            found = self._rows_by_file_name.get(str(PurePosixPath(name).with_suffix("")) if name else name)
        return NO_ROWS if found is None else frozenset({found})

    @cached_property
    def _rows_by_last_part(self) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(self.ids):
            parts = _path_parts(name)
            if len(parts) > 1:
                rows.setdefault(parts[-1], []).append(row)
        return rows

    def _ends_of(self, last: str) -> dict[tuple[str, ...], frozenset[int]]:
        """The rows for every end of the paths with this last part: frame.png may lie in a thousand folders."""
        if last in self._rows_by_last_part and last not in self._known_ends:
            ends: dict[tuple[str, ...], set[int]] = {}
            for row in self._rows_by_last_part[last]:
                parts = tuple(_path_parts(self.ids[row]))
                for start in range(len(parts)):
                    ends.setdefault(parts[start:], set()).add(row)
            self._known_ends[last] = {end: frozenset(rows) for end, rows in ends.items()}
        return self._known_ends.get(last, {})

    @cached_property
    def depth(self) -> int:
        """How many parts the longest id has, as a path: longer ends need not be looked up."""
        return max((len(_path_parts(name)) for name in self.ids), default=0)

    @cached_property
    def _rows_by_text(self) -> dict[str, frozenset[int]]:
        if self.items is None or self.items.kind != "text":
            return {}
        rows: dict[str, frozenset[int]] = {}
        for row in range(len(self.ids)):
            text = self.items.read(row).decode("utf-8", "replace")
            rows[text] = rows.get(text, NO_ROWS) | {row}
        return rows

    @cached_property
    def _rows_by_file_name(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(item_names(self.ids, self.items))}

    @cached_property
    def _rows_by_size(self) -> dict[int | None, list[int]]:
        """Rows by the size of their file; None for those whose size is not known without reading them."""
        rows: dict[int | None, list[int]] = {}
        for row in range(len(self.ids)):
            stamp = None if self.items is None else self.items.stamp(row)
            rows.setdefault(None if stamp is None else stamp[0], []).append(row)
        return rows

    def _digests_of(self, size: int | None) -> dict[bytes, list[int]]:
        """The rows of this size by the digest of their file. Each is read once, however many files are compared."""
        if size in self._rows_by_size and size not in self._known_digests:
            rows: dict[bytes, list[int]] = {}
            for row in self._rows_by_size[size]:
                with suppress(ItemFault):
                    rows.setdefault(self._digest_of(row), []).append(row)
            self._known_digests[size] = rows
        return self._known_digests.get(size, {})

    def _digest_of(self, row: int) -> bytes:
        assert self.items is not None
        return hashlib.sha256(item_file(self.items, row)[0]).digest()


def combine_clues(found: Iterable[frozenset[int]]) -> frozenset[int]:
    """The rows that all clues with any rows have in common; where they contradict each other, all of their rows."""
    clues = [rows for rows in found if rows]
    if not clues:
        return NO_ROWS
    common = frozenset.intersection(*clues)
    return common or frozenset.union(*clues)


def _paths_in(name: str) -> list[list[str]]:
    """The paths that a name may stand for, split into parts: as it is, and decoded as a URL."""
    if len(name) > MAX_NAME_CHARACTERS:
        return []
    paths = [_path_parts(name)]
    if name.startswith("/") or "://" in name:
        try:
            url = urlsplit(name)
        except ValueError:
            return _usable_paths(paths)
        inside = parse_qs(url.query).get("d", [])  # Label Studio's local files: /data/local-files/?d=...
        paths += [_path_parts(path) for path in (inside or [unquote(url.path)])]
    paths += [[UPLOAD_PREFIX.sub("", parts[-1], count=1)] for parts in paths if "upload" in parts]
    return _usable_paths(paths)


def _usable_paths(paths: list[list[str]]) -> list[list[str]]:
    return [parts for parts in paths if 0 < len(parts) <= MAX_PATH_PARTS]


def _path_parts(name: str) -> list[str]:
    return [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
