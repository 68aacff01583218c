"""Which item of the pool a file of labels means: by identity, path, address, text or content. Nothing is guessed."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from understudy.data.faults import ItemFault
from understudy.data.items import Items, printable
from understudy.labels.item_files import item_file, item_names

UPLOADED: Final = re.compile(r"^[0-9a-f]{8}-(?=.)")  # what Label Studio puts before the name of an uploaded file
LONGEST_NAME: Final = 4096  # characters of a path or an address; what is longer is none
MOST_PARTS: Final = 64  # of a path
NOTHING: Final[frozenset[int]] = frozenset()


class Matcher:
    """The rows of a pool that a name, a text or a content may mean: one, none, or several that cannot be told apart."""

    def __init__(self, ids: Sequence[str], items: Items | None = None) -> None:
        self.ids, self.items = ids, items
        self.row_of = {name: row for row, name in enumerate(ids)}
        self.known_ends: dict[str, dict[tuple[str, ...], frozenset[int]]] = {}
        self.known_digests: dict[int | None, dict[bytes, list[int]]] = {}

    def by_name(self, name: str) -> frozenset[int]:
        """An identity; or a path or address that ends in one; or the end of one, such as a bare file name."""
        for written in (name, printable(name), printable(name.strip())):
            if written in self.row_of:
                return frozenset({self.row_of[written]})
        found: set[int] = set()
        for parts in _paths_in(name):
            tails = ("/".join(parts[start:]) for start in range(max(0, len(parts) - self.depth), len(parts)))
            found |= {self.row_of[tail] for tail in tails if tail in self.row_of}
        return frozenset(found) or self.by_end(name)

    def by_end(self, name: str) -> frozenset[int]:
        """The items whose own path ends in this one."""
        found = [self.ends_of(parts[-1]).get(tuple(parts), NOTHING) for parts in _paths_in(name)]
        return NOTHING.union(*found) if len(found) != 1 else found[0]

    def by_text(self, text: str) -> frozenset[int]:
        """The items with exactly this text."""
        return self.rows_by_text.get(text, NOTHING)

    def by_content(self, content: bytes) -> frozenset[int]:
        """The items whose file would hold exactly this. Only items of this size are read, where sizes are known."""
        if self.items is None:
            return NOTHING
        digest = hashlib.sha256(content).digest()
        return NOTHING.union(*(self.digests_of(size).get(digest, ()) for size in (len(content), None)))

    def by_file_name(self, name: str) -> frozenset[int]:
        """The items that a folder of classes would hold under this name, with or without a suffix after it."""
        found = self.rows_by_file_name.get(name)
        if found is None:
            found = self.rows_by_file_name.get(str(PurePosixPath(name).with_suffix("")) if name else name)
        return NOTHING if found is None else frozenset({found})

    @cached_property
    def rows_by_last(self) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(self.ids):
            parts = _path_parts(name)
            if len(parts) > 1:
                rows.setdefault(parts[-1], []).append(row)
        return rows

    def ends_of(self, last: str) -> dict[tuple[str, ...], frozenset[int]]:
        """The ends of all paths with this last part, and whose they are: frame.png may be in a thousand folders."""
        if last in self.rows_by_last and last not in self.known_ends:
            ends: dict[tuple[str, ...], set[int]] = {}
            for row in self.rows_by_last[last]:
                parts = tuple(_path_parts(self.ids[row]))
                for start in range(len(parts)):
                    ends.setdefault(parts[start:], set()).add(row)
            self.known_ends[last] = {end: frozenset(rows) for end, rows in ends.items()}
        return self.known_ends.get(last, {})

    @cached_property
    def depth(self) -> int:
        """Parts of the deepest identity: no longer end of a path can be one."""
        return max((len(_path_parts(name)) for name in self.ids), default=0)

    @cached_property
    def rows_by_text(self) -> dict[str, frozenset[int]]:
        if self.items is None or self.items.kind != "text":
            return {}
        rows: dict[str, frozenset[int]] = {}
        for row in range(len(self.ids)):
            text = self.items.read(row).decode("utf-8", "replace")
            rows[text] = rows.get(text, NOTHING) | {row}
        return rows

    @cached_property
    def rows_by_file_name(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(item_names(self.ids, self.items))}

    @cached_property
    def sizes(self) -> dict[int | None, list[int]]:
        """Rows by the size of their file; None for those whose size is not known without reading them."""
        rows: dict[int | None, list[int]] = {}
        for row in range(len(self.ids)):
            stamp = None if self.items is None else self.items.stamp(row)
            rows.setdefault(None if stamp is None else stamp[0], []).append(row)
        return rows

    def digests_of(self, size: int | None) -> dict[bytes, list[int]]:
        """The rows of this size by the digest of their file. Each is read once, however many files are compared."""
        if size in self.sizes and size not in self.known_digests:
            rows: dict[bytes, list[int]] = {}
            for row in self.sizes[size]:
                with suppress(ItemFault):
                    rows.setdefault(self.digest_of(row), []).append(row)
            self.known_digests[size] = rows
        return self.known_digests.get(size, {})

    def digest_of(self, row: int) -> bytes:
        assert self.items is not None
        return hashlib.sha256(item_file(self.items, row)[0]).digest()


def agreed(found: Iterable[frozenset[int]]) -> frozenset[int]:
    """The rows that all clues point to, of those that point anywhere; all of them where the clues contradict."""
    clues = [rows for rows in found if rows]
    if not clues:
        return NOTHING
    common = frozenset.intersection(*clues)
    return common or frozenset.union(*clues)


def _paths_in(name: str) -> list[list[str]]:
    """The paths that a name may stand for, cut into parts: as it is, and as an address with what is encoded in it."""
    if len(name) > LONGEST_NAME:
        return []
    found = [_path_parts(name)]
    if name.startswith("/") or "://" in name:
        try:
            address = urlsplit(name)
        except ValueError:
            return _usable(found)
        inside = parse_qs(address.query).get("d", [])  # Label Studio's local files: /data/local-files/?d=...
        found += [_path_parts(path) for path in (inside or [unquote(address.path)])]
    found += [[UPLOADED.sub("", parts[-1], count=1)] for parts in found if "upload" in parts]
    return _usable(found)


def _usable(paths: list[list[str]]) -> list[list[str]]:
    return [parts for parts in paths if 0 < len(parts) <= MOST_PARTS]


def _path_parts(name: str) -> list[str]:
    return [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
