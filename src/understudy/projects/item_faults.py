"""What is wrong with a project's items: those that were left out (`faults.jsonl`), and those that changed since.

Rows and features stay as they are, whatever became of an item.
"""

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from understudy.data.faults import Fault
from understudy.data.features import STATTERS, digest_of, find_changes
from understudy.data.files import write_atomically
from understudy.data.items import Stamp, Texts
from understudy.data.pinned_images import PinnedImageFiles
from understudy.data.pool import Pool
from understudy.messages import count_of
from understudy.projects.source_data import SourceData

FILE: Final = "faults.jsonl"
FILES_PER_TASK: Final = 500  # that a thread looks up at a time
MAX_COMPARED_FILES: Final = 2000  # files with other dates that are read: in a copied folder all dates are new


# -- left out --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeftOutItem:
    """An item's fault and its stamp at the time: it is tried again only once it has changed."""

    fault: Fault
    stamp: Stamp | None = None


def read_left_out(folder: Path) -> list[LeftOutItem]:
    """The items in `faults.jsonl`; none where it cannot be read, since all of them can be tried again."""
    try:
        lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
        return [_parse_line(line) for line in lines]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def _parse_line(line: str) -> LeftOutItem:
    values = json.loads(line)
    stamp = values.pop("stamp")
    return LeftOutItem(Fault(**values), None if stamp is None else (int(stamp[0]), int(stamp[1])))


def write_left_out(folder: Path, items: Iterable[LeftOutItem]) -> None:
    lines = [json.dumps({**asdict(item.fault), "stamp": item.stamp}) for item in items]
    write_atomically(folder / FILE, "".join(f"{line}\n" for line in lines).encode())


def add_faults(known: Sequence[LeftOutItem], found: Sequence[Fault], source: SourceData) -> list[LeftOutItem]:
    """All faults; of an item that was tried again, the last."""
    rows = {name: row for row, name in enumerate(source.pool.ids)}
    new = [LeftOutItem(fault, source.stamp(rows[fault.item]) if fault.item in rows else None) for fault in found]
    again = {item.fault.item for item in new}
    return [*(item for item in known if item.fault.item not in again), *new]


def stamps_of_unusable(items: Iterable[LeftOutItem]) -> dict[str, Stamp | None]:
    """The stamps of the items that could not be used, by name."""
    return {item.fault.item: item.stamp for item in items if not item.fault.used}


def describe_unusable(left_out: Iterable[LeftOutItem], source: Pool) -> list[str]:
    """A note on what cannot be used of the data as it is now."""
    there = set(source.ids)
    faults = [item.fault for item in left_out if item.fault.item in there] + [*source.faults]
    unused = [fault for fault in faults if not fault.used]
    return [f"{count_of(unused, 'item')} cannot be used; the first: {unused[0]}"] if unused else []


# -- changed ---------------------------------------------------------------------------------------------------


def changed_files(pool: Pool, table: Any) -> list[Fault]:
    """Image files that are gone or are not what they were."""
    items = pool.items
    if not isinstance(items, PinnedImageFiles):
        return []
    sizes, times = table["size"].to_pylist(), table["mtime_ns"].to_pylist()

    def stale_from(first: int) -> list[int]:
        rows = range(first, min(first + FILES_PER_TASK, len(items)))
        return [row for row in rows if sizes[row] is not None and items.stamp(row) != (sizes[row], times[row])]

    with ThreadPoolExecutor(STATTERS) as threads:
        tasks = threads.map(stale_from, range(0, len(items), FILES_PER_TASK))
        stale = [row for found in tasks for row in found][:MAX_COMPARED_FILES]
    columns = {name: [table[name][row].as_py() for row in stale] for name in ("id", "size", "mtime_ns", "digest")}
    return find_changes(items.files.take(stale), columns)


def changed_texts(pool: Pool, table: Any, source: Pool, known: dict[int, int]) -> list[Fault]:
    """Texts that read differently in the source now; the project keeps those that were embedded."""
    if not isinstance(pool.items, Texts) or not isinstance(source.items, Texts):
        return []
    digests = table["digest"].to_pylist()
    return [
        Fault(pool.ids[row], "reads differently in the source now", "the project keeps the text it had", used=True)
        for row, source_row in sorted(known.items())
        if digests[row] is not None and digest_of(source.items.read(source_row)).hex() != digests[row]
    ]


def describe_changes(changed: Sequence[Fault], gone: int, source: str) -> list[str]:
    """Notes on items that changed, and on how many are gone."""
    notes = []
    if gone:
        verb = "is" if gone == 1 else "are"
        notes.append(f"{count_of(gone, 'item')} {verb} not in {source} any more; their rows stay")
    if changed:
        first = changed[0]
        notes.append(
            f"{count_of(changed, 'item')} changed since the features were made, which stay; the first: "
            f"{first.item} ({first.problem})"
        )
    return notes
