"""How long a page of a list takes at 60,000 items, alone and right after a label changed something.

    python benchmarks/browse_speed.py --out benchmarks/results/browse-speed.json

The list is asked for in this process, without HTTP: a synthetic record with labels and flags by four people, the
predictions of a model over ten classes, and features in memory. Each kind of list is timed in turn, over and over,
each time after one more label, which is what a page meets while people work. Beside it stands a plain pass: one loop
over the items that reads each one's label, the least that a list without arrays would do. The ratio of the two says
more than the milliseconds, which depend on the machine.
"""

import argparse
import json
import os
import platform
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np

from understudy.data.items import Texts
from understudy.data.pool import Pool
from understudy.learners.calibration import Calibration
from understudy.projects.project import Project
from understudy.projects.settings import Settings
from understudy.sessions.browsing import ITEMS_PER_UPDATE, Browser, Filter, Sort
from understudy.sessions.calibrations import Audits
from understudy.sessions.log.events import Event
from understudy.sessions.models import Models
from understudy.sessions.record import Record

CLASSES = 10
PEOPLE = ("ann", "bob", "cy", "dee")
LISTS: dict[str, tuple[Filter, Sort]] = {
    "everything": (Filter(), "pool"),
    "one class": (Filter(labels=(3,)), "pool"),
    "a suggestion, least sure first": (Filter(suggested=(3,)), "confidence-up"),
    "one person": (Filter(person="bob"), "latest"),
    "flagged": (Filter(states=("flagged",)), "pool"),
    "disputed, latest first": (Filter(states=("disputed",)), "latest"),
    "by confidence": (Filter(confidence_from=0.3, confidence_to=0.6), "confidence-down"),
    "by surprise": (Filter(states=("labelled",)), "surprise"),
    "words in the text": (Filter(search="quick brown 4"), "pool"),
    "name": (Filter(name="/12"), "name"),
    "similar to one": (Filter(similar=17), "similarity"),
    "similar to another each time": (Filter(similar=0), "similarity"),
}


def make_record(n: int, labelled: int) -> Record:
    rng = np.random.default_rng(0)
    settings = Settings(classes=tuple(f"class {number}" for number in range(CLASSES)))
    audit = rng.choice(n, n // 20, replace=False).tolist()
    data = {"settings": settings.to_json(), "classes": list(settings.classes), "n_items": n, "audit": audit}
    record = Record()
    record.apply(Event("created", data=data, seq=1))
    for item in rng.choice(n, labelled, replace=False).tolist():
        who = PEOPLE[item % 4]
        say(record, "labelled", item, who, label=int(rng.integers(CLASSES)))
        if item % 10 == 0:
            say(record, "labelled", item, PEOPLE[(item + 1) % 4], label=int(rng.integers(CLASSES)))
        if item % 50 == 0:
            say(record, "flagged", item, who, on=True, note="look at this")
    return record


def say(record: Record, kind: Any, item: int, who: str, **data: Any) -> list[int]:
    event = Event(kind, item, who, data=data, seq=record.seq + 1, at=float(record.seq))
    items = record.items_of(event)
    record.apply(event)
    return items


def make_browser(record: Record, d: int) -> Browser:
    n, rng = record.n_items, np.random.default_rng(1)
    ids = tuple(f"folder/{row}.txt" for row in range(n))
    texts = [f"{row}: the quick brown {row % 977} fox, " + "and so on, " * 15 for row in range(n)]
    features = rng.normal(size=(n, d)).astype(np.float32)
    probs = rng.dirichlet(np.full(CLASSES, 0.5), size=n).astype(np.float32)
    pool = Pool(ids, items=Texts(texts, ids), features=features)
    audits = Mock(spec=Audits)
    audits.calibration.return_value = Calibration(1.4, audited=100)
    project = Mock(spec=Project, pool=pool, features=features, kind="text")
    project.columns_of.return_value = []
    return Browser(project, record, Mock(spec=Models, probs=probs), audits, threading.RLock())


def plain_pass(record: Record) -> float:
    """Milliseconds of reading the label of every item, one by one."""
    start = time.perf_counter()
    found = [record.label_of(item) for item in range(record.n_items)]
    assert len(found) == record.n_items
    return 1e3 * (time.perf_counter() - start)


def figures(taken: list[float], plain: float) -> dict[str, float]:
    low, high = np.percentile(taken, [50, 99])
    return {"median_ms": round(low, 1), "p99_ms": round(high, 1), "worst_ms": round(max(taken), 1),
            "median_over_plain_pass": round(low / plain, 2)}  # fmt: skip


def measure(n: int, labelled: int, d: int, times: int) -> dict[str, Any]:
    record = make_record(n, labelled)
    browser = make_browser(record, d)
    start = time.perf_counter()
    browser.page(Filter())
    first = 1e3 * (time.perf_counter() - start)
    for wanted, sort in LISTS.values():  # the first search folds the texts, the first sort by name sorts the names
        browser.page(wanted, sort)
    taken: dict[str, list[float]] = {name: [] for name in LISTS}
    locked: list[float] = []
    passes: list[float] = []
    for turn in range(times):
        passes.append(plain_pass(record))
        for name, (wanted, sort) in LISTS.items():
            browser.note(say(record, "labelled", (turn * 7919) % n, PEOPLE[turn % 4], label=turn % CLASSES))
            asked = Filter(similar=(turn * 104_729) % n) if name.endswith("each time") else wanted
            start = time.perf_counter()
            browser.page(asked, sort, limit=60)
            taken[name].append(1e3 * (time.perf_counter() - start))
        browser.note(range(0, n, n // ITEMS_PER_UPDATE))
        start = time.perf_counter()
        browser._columns[None].update(ITEMS_PER_UPDATE)
        locked.append(1e3 * (time.perf_counter() - start))
    plain = float(np.median(passes))
    return {
        "items": n, "labelled": labelled, "features": d, "first_page_ms": round(first, 1),
        "plain_pass_ms": round(plain, 1), "longest_hold_of_the_lock": figures(locked, plain),
        "pages": {name: figures(found, plain) for name, found in taken.items()},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=60_000)
    parser.add_argument("--labelled", type=int, default=30_000)
    parser.add_argument("--features", type=int, default=384)
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = {
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()},
        **measure(given.items, given.labelled, given.features, given.times),
    }
    text = json.dumps(found, indent=2)
    print(text)
    if given.out is not None:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
