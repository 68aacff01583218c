"""Projects of an older commit, opened by this one: is the next item the same, and what differs in the exports?

    git worktree add --detach /tmp/before COMMIT
    PYTHONPATH=/tmp/before/src python benchmarks/version_before.py make /tmp/projects
    python benchmarks/version_before.py compare /tmp/projects --out benchmarks/results/version-before.json

`make` labels sixty items of photos, texts and digits by two people, with skips, flags, undone labels and trainings;
`compare` works on a copy. Both use what the two commits have in common only.
"""

import argparse
import csv
import io
import json
import shutil
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pyarrow import parquet

from understudy.sessions.opening import open_session
from understudy.sessions.session import Session
from understudy.sessions.transfer import export_labels

try:
    from understudy.projects.opening import create_or_open
except ImportError:  # where older commits have it
    from understudy.projects.project import create_or_open  # type: ignore[attr-defined,no-redef]

TABLES = ("csv", "jsonl", "parquet", "labelstudio", "prodigy", "folders")
OF_MODEL = ("predictions-csv", "predictions-jsonl", "predictions-parquet", "model")
PROJECTS = ("photos", "texts", "digits")
FACTS = ("accuracy", "labelled", "classes", "class_counts", "model", "skipped", "unknown", "bad", "flagged", "audited")


def make_data(folder: Path) -> None:
    """160 small images, nine of them in class folders, and 150 short texts."""
    rng = np.random.default_rng(0)
    for row in range(160):
        path = folder / "images" / (("cat", "dog", "fox")[row % 3] if row < 9 else "") / f"{row:03} ü#.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.random((8, 8, 3)) * 80 + [60 * (row % 3), 120 - 50 * (row % 3), 90]
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)
    words = (["good", "great", "fine", "lovely"], ["bad", "awful", "poor", "dull"])
    lines = [f"r{row},{' '.join(rng.choice(words[row % 2], 6))} number {row}" for row in range(150)]
    (folder / "reviews.csv").write_text("\n".join(["id,text", *lines]))


def make(folder: Path) -> None:
    """Label, train, export, and say what would be asked next."""
    make_data(folder)
    settings: dict[str, dict[str, Any]] = {
        "photos": {"source": folder / "images", "encoder": "pixels?size=4", "learner": "quick", "basis_size": 40},
        "texts": {
            "source": folder / "reviews.csv", "classes": ["pos", "neg"], "encoder": "words", "learner": "quick",
            "agreement_share": 0.2,
        },
        "digits": {"demo": True},
    }  # fmt: skip
    for name, options in settings.items():
        session = open_session(create_or_open(project=folder / name, device="cpu", **options))
        try:
            label_sixty(session, name)
        finally:
            session.close()
        export(folder / name, folder / "exports" / name, {})
    found = {name: look(folder / name) for name in PROJECTS}  # in a copy: what is asked is stored
    (folder / "found.json").write_text(json.dumps(found, indent=1))


def label_sixty(session: Session, name: str) -> None:
    for turn in range(60):
        who = ("ann", "bob")[turn % 2]
        question = session.next(who)
        item, key = question.item, f"k{turn}"
        assert item is not None
        if turn % 13 == 5:
            session.skip(item, who, key)
        elif turn % 17 == 7:
            session.dont_know(item, who, key)
        elif turn % 29 == 9:
            session.bad(item, who, key)
        else:
            label = {"photos": item % 3, "texts": item % 2, "digits": 7 * item % 10}[name]
            session.label(item, label, who, key, seconds=1.5, suggestion=question.suggestion)
        if turn % 11 == 3:
            session.flag(item, who, f"f{turn}", note="look, ä")
        if turn % 19 == 6:
            session.undo(who, f"u{turn}")
        while session.learning.is_busy:  # so that trainings do not depend on the machine
            time.sleep(0.02)


def export(project: Path, to: Path, options: dict[str, Any]) -> None:
    for form in (*TABLES, *OF_MODEL):
        list(export_labels(str(project), form, to / f"{form}.zip", **options))


def look(project: Path) -> dict[str, Any]:
    """What is asked next and what the page says, in a copy of the project."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(project.parent, place, dirs_exist_ok=True)
        session = open_session(create_or_open(project=Path(place) / project.name, device="cpu"))
        try:
            asked = {who: session.next(who).item for who in ("ann", "bob", "somebody new")}
            status = session.status()
            facts = {fact: getattr(status, fact) for fact in FACTS}
            return {"next": asked, "trainings": len(session.record.trainings), **facts}
        finally:
            session.close()


def differences(before: bytes, after: bytes, form: str) -> list[str]:
    """The fields, or the files in a zip, in which two exports differ."""
    if before == after:
        return []
    if form in ("folders", "model"):
        parts = [_files_in(content) for content in (before, after)]
    elif form.endswith("parquet"):
        parts = [parquet.read_table(io.BytesIO(content)).to_pydict() for content in (before, after)]
    elif form.endswith("csv"):
        texts = [io.StringIO(content.decode("utf-8-sig"), newline="") for content in (before, after)]
        parts = [_columns(list(csv.DictReader(text))) for text in texts]
    else:
        parts = [_columns(_objects(content, form)) for content in (before, after)]
    return [str(name) for name in _unequal(*parts)]


def _files_in(content: bytes) -> dict[Any, Any]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _objects(content: bytes, form: str) -> list[dict[Any, Any]]:
    if form == "labelstudio":
        return [_flat(task) for task in json.loads(content)]
    return [json.loads(line) for line in content.decode().splitlines()]


def _flat(value: Any, name: str = "") -> dict[Any, Any]:
    """Nested JSON as one dict of its leaves, places in lists left out of their names."""
    if isinstance(value, dict):
        return {key: held for inner, each in value.items() for key, held in _flat(each, f"{name}.{inner}").items()}
    if isinstance(value, list):
        found: dict[Any, Any] = {}
        for each in value:
            for key, held in _flat(each, name).items():
                found.setdefault(key, []).append(held)
        return found
    return {name.lstrip("."): value}


def _columns(rows: list[dict[Any, Any]]) -> dict[Any, Any]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _unequal(before: dict[Any, Any], after: dict[Any, Any]) -> list[Any]:
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def compare(folder: Path) -> dict[str, Any]:
    """What this commit makes of the projects of another: differences only."""
    before = json.loads((folder / "found.json").read_text())
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "projects"
        shutil.copytree(folder, copy)
        for name in PROJECTS:
            now = look(copy / name)
            facts = {fact: [before[name][fact], now[fact]] for fact in now if before[name][fact] != now[fact]}
            found: dict[str, Any] = {"next": now["next"], "facts_that_differ": facts}
            for kind, options in (("exports_that_differ", {}), ("raw_exports_that_differ", {"raw": True})):
                to = Path(place) / kind / name
                export(copy / name, to, options)
                each = {}
                for form in (*TABLES, *OF_MODEL):
                    then, here = (at / f"{form}.zip" for at in (folder / "exports" / name, to))
                    each[form] = differences(then.read_bytes(), here.read_bytes(), form)
                found[kind] = {form: names for form, names in each.items() if names}
            report[name] = found
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.what == "make":
        make(given.folder)
        return
    report = compare(given.folder)
    text = json.dumps(report, indent=1) + "\n"
    print(text, end="")
    if given.out is not None:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
