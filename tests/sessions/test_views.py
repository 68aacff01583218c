from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.sessions.small_projects import copied, label_next, opened
from understudy.sessions.calibrations import shares_to_show
from understudy.sessions.session import Session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(copied(tmp_path / "one", taught=2)) as session:
        yield session


def test_an_audit_item_measures_and_nothing_else(session: Session) -> None:
    record = session.record
    asked: list[tuple[int, str | None]] = []
    for turn in range(27):
        question = session.next("ann")
        assert question.item is not None
        asked.append((question.item, question.ask))
        is_audit = question.ask == "audit"
        assert is_audit == record.is_audit(question.item)
        assert (question.suggestion is None) == is_audit
        if is_audit:
            why = session.why(question.item)
            assert why.line.startswith("A random audit item")
            assert (why.teaches, why.nearest) == ([], [])
        session.label(question.item, turn % 3, "ann", f"k{turn}")
        assert not any(record.is_audit(found.item) for label in range(3) for found in session.likely(label))
    drawn = [item for item, ask in asked if ask == "audit"]
    assert len(drawn) == 3
    assert not set(drawn) & set(record.training_rows())
    assert not set(drawn) & {doubt.item for doubt in session.review()}
    assert record.tally()[1] == len(asked) - len(drawn)
    status = session.status()
    assert status.audited == 3
    assert status.labelled == 29
    right = sum(session.models.guess(item) == record.label_of(item) for item in drawn)
    assert status.accuracy == pytest.approx(right / 3)
    assert status.interval is not None
    picked = next(item for item in record.audit_rows if item not in drawn)
    session.label(picked, 0, "bob", "picked")
    assert session.status().audited == 3, "picked by a person, not at random"
    session.bad(drawn[0], "bob", "bad")
    assert session.status().audited == 2


def test_an_audit_item_that_is_asked_again_comes_without_a_hint(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", n=6, taught=2)) as session:
        (drawn,) = session.record.audit_rows
        for turn in range(6):
            question = session.next("ann")
            assert question.item is not None
            if question.ask == "again":
                break
            if question.item == drawn:
                session.skip(drawn, "ann", "s")
            else:
                session.label(question.item, 0, "ann", f"k{turn}")
        assert (question.item, question.ask, question.suggestion) == (drawn, "again", None)
        session.label(drawn, 0, "ann", "last")
        assert session.status().audited == 1
        assert session.why(drawn).ask == "audit"


def test_the_surest_items_of_a_class_are_open_ones(session: Session) -> None:
    found = session.likely(0, 40)
    assert found
    surrogate, rows = session.learning.chooser.surrogate, [one.item for one in found]
    shares = shares_to_show(surrogate.predict(rows), surrogate.anchor_probs(rows))
    assert (shares.argmax(1) == 0).all()
    assert (np.diff(shares[:, 0]) <= 1e-6).all()
    assert all(session.record.state_of(one.item)[0] == "open" for one in found)
    session.skip(found[0].item, "ann", "s")
    leased = session.next("ann").item
    assert not {found[0].item, leased} & {one.item for one in session.likely(0, 40)}


def test_numbers_of_what_is_passed_over_are_of_what_is_left(session: Session) -> None:
    items = [item for item in range(40) if session.record.state_of(item)[0] == "open"][:4]
    session.skip(items[0], "ann", "1")
    session.dont_know(items[1], "ann", "2")
    session.bad(items[2], "ann", "3")
    session.flag(items[3], "ann", "4", note="odd")
    status = session.status()
    assert (status.skipped, status.unknown, status.bad, status.flagged) == (1, 1, 1, 1)
    for item in items[:2]:
        session.label(item, 0, "bob", f"{item}")
    assert (session.status().skipped, session.status().unknown) == (0, 0)
    card = session.card(items[0])
    assert (card.label, card.labels, card.skipped_by) == (0, {"bob": 0}, ["ann"])
    assert session.card(items[3]).note == "odd"
    assert session.why(items[2]).line == "It is a bad item."
    history = session.history("ann", 2)
    assert [entry.what for entry in history] == ["flagged", "bad"]
    session.undo("ann", "u")
    assert session.history("ann", 1)[0].undone
    people = {person.name: person for person in session.progress().people}
    assert (people["ann"].skipped, people["ann"].unknown, people["bob"].labels) == (1, 1, 2)


def test_what_may_come_next_is_shown_and_nothing_changes(session: Session) -> None:
    held = session.next("ann").item
    seq = session.record.seq
    ahead = session.preview("ann", 4)
    assert len(ahead) == 4
    assert held not in {shown.item for shown in ahead}
    assert session.record.seq == seq
    following = label_next(session, "ann", "k", 1).item
    session.release("ann")
    assert following is not None
    assert session.preview("ann", 1)[0].item == session.next("ann").item


def test_a_wrong_label_stands_out_until_it_is_kept(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", "digits", taught=2)) as session:
        pool = session.project.source
        assert pool is not None
        truth = np.asarray(pool.pool.labels)
        rows = [item for item in range(150) if not session.record.is_audit(item)]
        for label in range(10):
            of_class = [item for item in rows if truth[item] == label]
            session.label_many(of_class, label, "ann", f"k{label}")
        wrong = rows[7]
        session.label(wrong, int(truth[wrong] + 1) % 10, "ann", "wrong")
        doubts = session.review()
        assert wrong in {doubt.item for doubt in doubts[:5]}
        doubt = next(doubt for doubt in doubts if doubt.item == wrong)
        assert (doubt.by, doubt.expected) == ("ann", truth[wrong])
        assert session.status().suspicious == len(doubts)
        session.keep(wrong, "bob", "keep")
        assert wrong not in {doubt.item for doubt in session.review()}


def test_why_shows_each_factor_beside_those_of_the_pool(session: Session) -> None:
    question = session.next("ann")
    while question.ask == "audit":
        question = label_next(session, "ann", "audit", 0)
    assert question.item is not None
    found = session.why(question.item)
    assert found.influence_share is not None
    assert found.uncertainty_share is not None
    assert found.influence_share + found.uncertainty_share == pytest.approx(1)
    for factor in (found.influence, found.uncertainty):
        assert factor is not None
        assert 0 <= factor.low <= factor.middle <= factor.high
    assert found.influence is not None
    assert found.uncertainty is not None
    product = found.influence.value * found.uncertainty.value
    assert product > found.influence.middle * found.uncertainty.middle
    (drawn, *_) = session.record.audit_rows
    assert session.why(drawn).influence is session.why(drawn).uncertainty is None


def test_from_the_first_item_on_the_surrogate_chooses_and_says_so(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one")) as session:
        alone = session.models.surrogate()
        for turn in range(6):
            question = session.next("ann")
            assert question.item is not None
            if question.ask == "choice":
                assert [question.item] == alone.ask().tolist()
                assert session.why(question.item).line.startswith("There is no model yet")
                alone.tell([question.item], [0])
            session.label(question.item, 0, "ann", f"k{turn}")  # one class: no model comes
        lines = {event.data["why"]["line"] for event in session.record.asks.values() if event.data["lease"] == "choice"}
        (line,) = lines
        assert line == "There is no model yet: its answer says most about the other items."
