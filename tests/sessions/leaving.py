"""A small project whose labels leave it, made of real events: two annotators, every kind of decision."""

from pathlib import Path

import numpy as np
from PIL import Image

from understudy.data.items import ArrayImages, ImageFiles, Items, Texts
from understudy.data.pool import Pool
from understudy.labels.export_data import ExportData
from understudy.projects.settings import Settings
from understudy.sessions.label_rows import collect_labels
from understudy.sessions.log.events import Event
from understudy.sessions.record import Record

CLASSES = ("cat", "=cmd|' /C calc'!A0", "../up", "con", "Cat", "-1")
IDS = ("a.png", "sub/b.png", "=1+1.png", "ä ö.png", "a/c.png", "d.png", "e.png", "f.png")
TEXTS = (
    "plain words", "two\nlines, and a comma", "=HYPERLINK(\"http://x\")", "'=quoted already", "\ttabbed", "ünïcode 🦊",
    'says "no"', "carriage\rreturn",
)  # fmt: skip
AT = 1_760_000_000.25


def made(settings: Settings, n_items: int, audit: list[int]) -> Event:
    data = {"settings": settings.to_json(), "classes": list(settings.classes), "n_items": n_items, "audit": audit}
    return Event("created", data=data, at=AT, seq=1)


def asked(item: int, who: str, how: str, why: str = "It is hard to tell.") -> Event:
    reason = {"line": why, "influence_share": 0.75}
    return Event("asked", item, who, data={"lease": how, "seconds": 600.0, "why": reason, "model": "m1"})


def labelled(item: int, who: str, label: int, source: str = "person") -> Event:
    data = {"label": label, "source": source, "seconds": 1.5, "guess": 0, "model": "m1"}
    return Event("labelled", item, who, data=data)


def numbered(*events: Event) -> list[Event]:
    """The events as a log would give them back, a second apart."""
    return [
        Event(event.kind, event.item, event.annotator, event.key, event.data, AT + seq, seq)
        for seq, event in enumerate(events, 1)
    ]


def record_of_decisions() -> Record:
    """Each item one thing: see the lines."""
    return Record.from_events(
        numbered(
            made(Settings(classes=CLASSES), len(IDS), [1]),
            asked(0, "ann", "choice"), labelled(0, "ann", 0),
            asked(1, "ann", "audit", "A random audit item."), labelled(1, "ann", 1),
            asked(0, "bob", "second", "A second opinion."), labelled(0, "bob", 2),
            labelled(2, "bob", 3, "grid"),
            labelled(3, "=eve", 4, "import"),
            asked(4, "ann", "choice"), Event("dont_know", 4, "ann"),
            asked(5, "ann", "choice"), Event("bad", 5, "ann"),
            asked(6, "ann", "choice"), Event("skipped", 6, "ann"),
            Event("flagged", 6, "bob", data={"on": True, "note": "@look"}),
            labelled(7, "ann", 5),
        )
    )  # fmt: skip


def images(folder: Path) -> ImageFiles:
    """A picture for each identity, no two alike."""
    paths = [folder / name for name in IDS]
    for shade, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), 20 * shade).save(path)
    return ImageFiles(paths, IDS)


def arrays() -> ArrayImages:
    return ArrayImages(np.arange(len(IDS) * 16, dtype=np.uint8).reshape(len(IDS), 4, 4))


def leaving(items: Items | None = None) -> ExportData:
    """What leaves the small project."""
    return collect_labels(record_of_decisions(), Pool(IDS, items=items))


def text_project() -> ExportData:
    return leaving(Texts(TEXTS))
