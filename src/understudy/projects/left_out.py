"""`faults.jsonl` of a project: items that could not be used and why, so that they are not tried again in vain."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from understudy.data.faults import Fault
from understudy.data.files import write_atomically
from understudy.data.items import Stamp
from understudy.projects.origins import Source

FILE: Final = "faults.jsonl"


@dataclass(frozen=True)
class LeftOut:
    """A fault, and what its item looked like then; a file that has changed since deserves another try."""

    fault: Fault
    stamp: Stamp | None = None


def read(folder: Path) -> list[LeftOut]:
    """What was written; a file that cannot be read counts for nothing, since all can be tried again."""
    try:
        lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
        return [_from_line(line) for line in lines]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def _from_line(line: str) -> LeftOut:
    values = json.loads(line)
    stamp = values.pop("stamp")
    return LeftOut(Fault(**values), None if stamp is None else (int(stamp[0]), int(stamp[1])))


def write(folder: Path, faults: Iterable[LeftOut]) -> None:
    lines = [json.dumps({**asdict(each.fault), "stamp": each.stamp}) for each in faults]
    write_atomically(folder / FILE, "".join(f"{line}\n" for line in lines).encode())


def merged(before: Sequence[LeftOut], found: Sequence[Fault], source: Source) -> list[LeftOut]:
    """All faults that are known: of an item that was tried again, the last."""
    places = {name: row for row, name in enumerate(source.pool.ids)}
    now = [LeftOut(fault, source.stamp(places[fault.item]) if fault.item in places else None) for fault in found]
    again = {each.fault.item for each in now}
    return [*(each for each in before if each.fault.item not in again), *now]


def stamps(faults: Iterable[LeftOut]) -> dict[str, Stamp | None]:
    """The items that were no use, by name."""
    return {each.fault.item: each.stamp for each in faults if not each.fault.used}
