"""Projects to label in tests: set up once, then copied, so that a test begins at once."""

import atexit
import csv
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.sessions.label_data import images
from tests.waiting import wait_until
from understudy.core.surrogate import Surrogate
from understudy.projects.opening import create_or_open
from understudy.sessions.log.events import Event
from understudy.sessions.log.log import EventLog
from understudy.sessions.opening import open_session
from understudy.sessions.replies import Question
from understudy.sessions.session import Session

SMALL = "pixels?size=4"
CALM = {"retrain_growth": 100.0, "retrain_at_most": 1_000_000, "basis_size": 30, "learner": "quick"}  # trained once


@cache
def templates() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="small-projects-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def template(kind: str, n: int, taught: int, settings: tuple[tuple[str, Any], ...]) -> Path:
    """A closed project: "digits", n images, or n texts of one word each, which say nothing of a class ("noise").

    It has a model made of so many labels, or is untouched.
    """
    folder = templates() / f"{len(list(templates().iterdir()))}"
    given: dict[str, Any] = {"demo": True}
    if kind == "images":
        images(folder / "photos", [f"{row:04}.png" for row in range(n)])
        given = {"source": folder / "photos", "classes": ["cat", "dog", "fox"], "encoder": SMALL}
    if kind == "noise":
        folder.mkdir()
        with (folder / "texts.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["text"], *([f"word{row * 7919}"] for row in range(n))])
        given = {"source": folder / "texts.csv", "classes": ["good", "bad"], "encoder": "words"}
    project = create_or_open(project=folder / "project", device="cpu", **{**given, **CALM, **dict(settings)})
    session = open_session(project)
    try:
        for turn in range(taught):
            label_next(session, "teacher", f"t{turn}", turn % 2)
        if taught:
            wait_until(lambda: session.record.trainings)
            wait_until(lambda: not session.learning.is_busy)
            session.release("teacher")
    finally:
        session.close()
    return folder


def copied(to: Path, kind: str = "images", n: int = 40, taught: int = 0, **settings: Any) -> Path:
    """The folder of a project of one's own."""
    made = template(kind, n, taught, tuple(sorted(settings.items())))
    shutil.copytree(made, to, dirs_exist_ok=True)
    return to / "project"


@contextmanager
def opened(folder: Path, **given: Any) -> Iterator[Session]:
    """The session of a project's folder, closed at the end."""
    session = open_session(create_or_open(project=folder, device="cpu"), **given)
    try:
        yield session
    finally:
        session.close()


@contextmanager
def after_a_kill(session: Session, to: Path, without: tuple[str, ...] = ()) -> Iterator[Session]:
    """The session that follows when this one is killed now: opened on a copy of its files, as they lie there."""
    shutil.copytree(session.project.folder.parent, to, ignore=shutil.ignore_patterns("server.lock", ".*.part"))
    for name in without:
        shutil.rmtree(to / "project" / name)
    with opened(to / "project") as follower:
        yield follower


@contextmanager
def a_full_disk(session: Session) -> Iterator[None]:
    """As long as it lasts, the log's file cannot grow."""
    connection = session._log._connect()

    def at_most(pages: int) -> None:
        with connection.begin():
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    with connection.begin():
        used = int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())
    at_most(used)
    try:
        yield
    finally:
        at_most(1_000_000)


def stored_events(session: Session, after: int = 0) -> list[Event]:
    """What the log of a session holds, as any other program reads it."""
    with closing(EventLog.open(session.project.store_url, session.project.identity, read_only=True)) as log:
        return list(log.read(after))


def label_next(session: Session, annotator: str, key: str, label: int) -> Question:
    """Answer what is asked; the next question."""
    question = session.next(annotator)
    assert question.item is not None, question.reason
    return session.label(question.item, label, annotator, key).next


def require_in_step(session: Session) -> None:
    """The surrogate, one that follows the same moves anew, and one made of the record alone must be the same."""
    with session.lock:  # a new model may be about to take over
        _require_in_step(session)


def _require_in_step(session: Session) -> None:
    learning, record = session.learning, session.record
    chooser = learning.chooser.surrogate
    ledger = chooser.parts.ledger
    for item in range(record.n_items):
        is_now, label = record.state_of(item)
        found = {
            "open": ledger.is_askable(item),
            "pending": item in ledger.pending,
            "told": item in ledger.answers and ledger.answers[item].label == label,
            "skipped": bool(ledger.is_skipped[item]) and item not in ledger.pending,
            "dropped": bool(ledger.is_dropped[item]),
            "audit": bool(ledger.is_skipped[item]) and item not in ledger.pending,
        }
        assert found[is_now], (item, is_now, label)
        assert (item in ledger.answers) == (is_now == "told"), item
        assert bool(ledger.is_dropped[item]) == (is_now == "dropped"), item
        assert bool(ledger.is_skipped[item]) == (is_now in ("skipped", "audit") or record.is_audit(item)), item
    fresh = learning.make_chooser().surrogate
    require_alike(chooser, fresh)
    whole = session.models.surrogate().state_dict()
    state = {**whole, **record.to_ledger().to_arrays(), "is_trained": ledger.is_trained}
    if "probs" not in whole or not record.trainings:
        return
    remade = Surrogate.restore(session.project.features[: len(state["probs"])], whole, check=False)
    if len(remade) < record.n_items or remade.n_classes < len(record.classes):
        return
    remade = Surrogate.restore(session.project.features, {**state}, check=False)
    remade.rebuild()
    remade.parts.ledger.credit = ledger.credit
    assert set(remade.parts.ledger.answers) == set(ledger.answers)
    if remade.tally == chooser.tally:  # the record judges by the model of the time, the surrogate by the one in use
        require_alike(chooser, remade)


def require_alike(first: Surrogate, second: Surrogate) -> None:
    np.testing.assert_array_equal(first.askable, second.askable)
    assert set(first.pending.tolist()) == set(second.pending.tolist())
    rows = first.askable  # of the others utilities are differences of rounding
    one, other = first.utility[rows], second.utility[rows]
    # Doubt is a difference of float32 means: where it is small beside 1, so is what is left of their digits.
    sizes = first.influence[rows] if first.options.mode == "product" else one
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * float(np.abs(sizes).max(initial=0.0)))
    leading = first.leaders(1).tolist()
    assert leading == second.leaders(1).tolist()
