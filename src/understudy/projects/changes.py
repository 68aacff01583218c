"""What became of a project's items since they were embedded. Their rows and features stay whatever it is."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from understudy.data.faults import Fault
from understudy.data.features import STATTERS, changes, digest_of
from understudy.data.items import Texts
from understudy.data.pool import Pool
from understudy.data.shown_items import PinnedImages
from understudy.messages import count_of

CHUNK: Final = 500  # files that a thread asks after at a time
LOOKED_AT: Final = 2000  # files with other dates that are read and compared; a copied folder has all of them anew


def changed_files(pool: Pool, table: Any) -> list[Fault]:
    """Image files that are gone or are not what they were."""
    items = pool.items
    if not isinstance(items, PinnedImages):
        return []
    sizes, times = table["size"].to_pylist(), table["mtime_ns"].to_pylist()

    def stale_from(first: int) -> list[int]:
        rows = range(first, min(first + CHUNK, len(items)))
        return [row for row in rows if sizes[row] is not None and items.stamp(row) != (sizes[row], times[row])]

    with ThreadPoolExecutor(STATTERS) as threads:
        stale = [row for found in threads.map(stale_from, range(0, len(items), CHUNK)) for row in found][:LOOKED_AT]
    columns = {name: [table[name][row].as_py() for row in stale] for name in ("id", "size", "mtime_ns", "digest")}
    return changes(items.files.take(stale), columns)


def changed_texts(pool: Pool, table: Any, source: Pool, known: dict[int, int]) -> list[Fault]:
    """Texts that read otherwise in the source now; the project keeps those that were embedded."""
    if not isinstance(pool.items, Texts) or not isinstance(source.items, Texts):
        return []
    digests = table["digest"].to_pylist()
    return [
        Fault(pool.ids[row], "reads otherwise in the source now", "the project keeps the text it had", used=True)
        for row, place in sorted(known.items())
        if digests[row] is not None and digest_of(source.items.read(place)).hex() != digests[row]
    ]


def noted(changed: Sequence[Fault], gone: int, name: str) -> list[str]:
    """The same in a line or two."""
    notes = []
    if gone:
        notes.append(f"{gone:,} {'item is' if gone == 1 else 'items are'} not in {name} any more; their rows stay")
    if changed:
        first = changed[0]
        notes.append(
            f"{count_of(changed, 'item')} changed since the features were made, which stay; the first: "
            f"{first.item} ({first.problem})"
        )
    return notes
