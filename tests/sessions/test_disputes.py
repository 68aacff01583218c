"""Items on which people differ, from two labels to a settlement that stands: listed, settled, undone and exported."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from tests.sessions.small_projects import after_a_kill, copied, opened, require_in_step, stored_events
from understudy.errors import Conflict, NotFound
from understudy.labels.formats import format_named, read_labels
from understudy.sessions.disputes import Wanted
from understudy.sessions.label_rows import collect_labels
from understudy.sessions.replies import Opinion
from understudy.sessions.review import LabelsToReview
from understudy.sessions.session import Session

CAT, DOG, FOX = range(3)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(copied(tmp_path / "one", taught=2)) as session:
        yield session


def say(session: Session, item: int, **labels: int) -> None:
    """Labels of an item, by person."""
    for who, label in labels.items():
        session.label(item, label, who, f"{item}-{session.record.seq}")


def listed(session: Session, **wanted: Any) -> list[int]:
    return [dispute.item for dispute in session.disputes(Wanted(**wanted)).disputes]


def free(session: Session) -> list[int]:
    """Rows that are neither labelled nor audit items."""
    record = session.record
    return [row for row in range(record.n_items) if row not in record.effective and not record.is_audit(row)]


def exported(session: Session, form: str) -> bytes:
    return b"".join(format_named(form).write(collect_labels(session.record, session.project.pool)))


def test_the_most_disputed_come_first_and_what_is_settled_last(session: Session) -> None:
    one, two, three, agreed, settled = free(session)[:5]
    say(session, one, ann=CAT, bob=CAT, cy=DOG)
    say(session, two, ann=CAT, bob=DOG)
    say(session, three, ann=CAT, bob=DOG, cy=FOX)
    say(session, agreed, ann=CAT, bob=CAT)
    say(session, settled, ann=CAT, bob=DOG)
    session.settle(settled, FOX, "rev", "s")
    assert listed(session) == [three, two, one, settled]
    found = session.disputes(Wanted(n=1))
    assert (found.found, found.disputed, found.review, found.settled) == (4, 3, 0, 1)
    assert session.status().disputed == 3
    assert listed(session, first=1, n=2) == [two, one]
    assert listed(session, state="settled") == [settled]
    assert listed(session, state="disputed") == [three, two, one]


def test_disputes_are_found_by_the_classes_and_the_people_they_are_about(session: Session) -> None:
    one, two, three = free(session)[:3]
    say(session, one, ann=CAT, bob=DOG)
    say(session, two, ann=CAT, cy=FOX)
    say(session, three, bob=CAT, cy=DOG)
    session.settle(three, CAT, "rev", "s")
    assert listed(session, label=DOG) == [one, three]
    assert listed(session, label=FOX, other=CAT) == [two]
    assert listed(session, label=FOX, other=DOG) == []
    assert listed(session, person="cy") == [two, three]
    assert listed(session, person="rev") == [three]
    assert listed(session, person="nobody") == []
    assert session.disputes(Wanted(person="ann", n=1)).found == 2
    session.merge_class(FOX, DOG, "ann", "m")
    assert listed(session, label=FOX) == listed(session, label=DOG) == [one, two, three]
    with pytest.raises(NotFound, match="no class 7"):
        session.disputes(Wanted(label=7))


def test_a_dispute_says_who_said_what_and_what_counts_meanwhile(session: Session) -> None:
    item, other = free(session)[:2]
    say(session, item, ann=CAT, bob=DOG)
    session.flag(item, "bob", "f", note="is it a wolf?")
    session.flag(item, "dan", "f", note="look")
    session.dont_know(item, "eve", "d")
    (dispute,) = session.disputes(Wanted()).disputes
    assert (dispute.state, dispute.label, dispute.resolution) == ("disputed", CAT, "majority")
    assert (dispute.majority, dispute.is_tie, dispute.settlement) == (CAT, True, None)
    marks = session.record.decisions(item).marks
    assert dispute.opinions == [
        Opinion("ann", CAT, marks["ann"].at, "person", None, unknown=False, is_later=False),
        Opinion("bob", DOG, marks["bob"].at, "person", "is it a wolf?", unknown=False, is_later=False),
        Opinion("dan", None, None, None, "look", unknown=False, is_later=False),
        Opinion("eve", None, None, None, None, unknown=True, is_later=False),
    ]
    say(session, item, cy=DOG)
    assert not session.disputes(Wanted()).disputes[0].is_tie
    session.label(other, CAT, "ann", "o")
    session.label(other, DOG, "bob", "o", source="review")
    changed = session.disputes(Wanted(state="review")).disputes[0]
    assert (changed.item, changed.label, changed.resolution) == (other, DOG, "review")


def test_what_is_settled_stands_and_says_who_has_differed_since(session: Session) -> None:
    item, quiet = free(session)[:2]
    say(session, item, ann=CAT, bob=DOG)
    say(session, quiet, ann=CAT, bob=DOG)
    session.settle(item, DOG, "rev", "s", note="the tail")
    session.settle(quiet, DOG, "rev", "q")
    assert session.record.state_of(item) == ("told", DOG)
    assert "rev" not in session.record.labels[item]
    require_in_step(session)
    say(session, item, ann=FOX, cy=DOG)
    found = session.disputes(Wanted(state="settled")).disputes
    assert [each.item for each in found] == [item, quiet], "contradicted ones first"
    settlement = found[0].settlement
    assert settlement is not None
    assert (settlement.label, settlement.by, settlement.note) == (DOG, "rev", "the tail")
    assert settlement.contradicted_by == ["ann"]
    assert {each.annotator: each.is_later for each in found[0].opinions} == {"ann": True, "bob": False, "cy": True}
    assert found[0].label == DOG
    agreement = session.progress().agreement
    assert agreement is not None
    assert {each.first for each in agreement.pairs} | {each.second for each in agreement.pairs} == {"ann", "bob", "cy"}


def test_a_settlement_is_undone_sent_twice_and_found_after_a_kill(session: Session, tmp_path: Path) -> None:
    item = free(session)[0]
    say(session, item, ann=CAT, bob=DOG)
    first = session.settle(item, DOG, "rev", "s", note="so", ago=60.0)
    again = session.settle(item, DOG, "rev", "s", note="so", ago=60.0)
    assert (again.stored, again.repeated) == (first.stored, True)
    (event,) = (event for event in stored_events(session) if event.kind == "settled")
    assert event.at - event.given_at == pytest.approx(60.0, abs=10.0)
    others: list[Callable[[], object]] = [
        lambda: session.settle(item, CAT, "rev", "s", note="so"),
        lambda: session.settle(item, DOG, "rev", "s", note="no"),
        lambda: session.label(item, DOG, "rev", "s"),
    ]
    for call in others:
        with pytest.raises(Conflict, match="used for something else"):
            call()
    with after_a_kill(session, tmp_path / "copy") as follower:
        assert follower.record.effective == session.record.effective
        assert follower.disputes(Wanted()) == session.disputes(Wanted())
        assert follower.undo("rev", "u").what == "settled"
        assert follower.record.state_of(item) == ("told", CAT)
        require_in_step(follower)
        assert follower.disputes(Wanted()).disputed == 1


def test_a_settlement_asks_nobody_for_an_item_and_takes_none_from_anybody(session: Session) -> None:
    item = free(session)[0]
    say(session, item, ann=CAT, bob=DOG)
    mine = session.next("rev").item
    theirs = session.next("cy").item
    assert session.settle(item, DOG, "rev", "s").next.item == mine
    assert session.undo("rev", "u").next.item == mine
    assert session.next("cy").item == theirs


def test_only_what_two_people_labelled_or_a_review_changed_can_be_settled(session: Session) -> None:
    none, one, two, changed = free(session)[:4]
    say(session, one, ann=CAT)
    say(session, two, ann=CAT, bob=CAT)
    session.label(changed, CAT, "ann", "c")
    session.label(changed, DOG, "ann", "d", source="review")
    with pytest.raises(Conflict, match="has no label, so there is nothing to settle"):
        session.settle(none, CAT, "rev", "a")
    with pytest.raises(Conflict, match="of one person only, and no review has changed it"):
        session.settle(one, CAT, "rev", "b")
    session.settle(two, DOG, "rev", "e")
    session.settle(changed, CAT, "rev", "f")
    assert (session.record.label_of(two), session.record.label_of(changed)) == (DOG, CAT)
    with pytest.raises(NotFound, match="no item 4000"):
        session.settle(4000, CAT, "rev", "g")
    with pytest.raises(NotFound, match="no class 9"):
        session.settle(two, 9, "rev", "h")
    session.remove_class(FOX, "ann", "r")
    with pytest.raises(Conflict, match="choose another"):
        session.settle(two, FOX, "rev", "i")


def test_a_settled_label_does_not_surprise_again_and_wants_no_second_opinion(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "two", agreement_share=1.0)) as session:
        item = free(session)[0]
        say(session, item, ann=CAT, bob=DOG)
        session.settle(item, DOG, "rev", "s")
        assert LabelsToReview.of(session.record).kept[item] == DOG
        session.undo("bob", "u")
        assert session.turns.places == {}
        session.undo("rev", "u")
        assert item in session.turns.places


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "labelstudio", "prodigy"])
def test_every_format_says_how_a_label_came_about_and_is_read_again_without_it(
    session: Session, form: str, tmp_path: Path
) -> None:
    settled, disputed, alone = free(session)[:3]
    say(session, settled, ann=CAT, bob=DOG)
    say(session, disputed, ann=CAT, bob=DOG)
    say(session, alone, ann=FOX)
    session.settle(settled, DOG, "rev", "s", note="the tail")
    content, ids = exported(session, form), session.project.pool.ids
    found = {name: about for name, about in abouts(content, form, tmp_path) if name in (ids[settled], ids[disputed])}
    assert found == {
        ids[settled]: ("dog", "settled", False, "rev", "the tail"),
        ids[disputed]: ("cat", "majority", True, None, None),
    }
    read = read_labels(content, "jsonl" if form == "prodigy" else form, ids, items=session.project.pool.items)
    mine = {(each.row, each.annotator): each.label_name for each in read.labels if each.row in (settled, disputed)}
    assert mine == {
        (settled, "ann"): "cat", (settled, "bob"): "dog", (disputed, "ann"): "cat", (disputed, "bob"): "dog",
    }  # fmt: skip
    assert set(read.new_classes) <= {"cat", "dog", "fox"}
    assert read.broken.count == read.no_text.count == 0


def abouts(content: bytes, form: str, folder: Path) -> list[tuple[str, tuple[object, ...]]]:
    """What a file says of each item's label: class, how it came about, whether disputed, who settled it and why."""
    names = ("effective", "resolution", "disputed", "settled_by", "settled_note")
    if form == "csv":
        rows: list[dict[str, Any]] = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
        rows = [{name: cell or None for name, cell in row.items()} for row in rows]
        rows = [row | {"disputed": row["disputed"] == "true"} for row in rows]
    elif form == "parquet":
        (folder / "labels.parquet").write_bytes(content)
        rows = parquet.read_table(folder / "labels.parquet").to_pylist()
    elif form == "labelstudio":
        rows = [
            {"id": task["data"]["id"], **annotation["result"][0]["meta"]}
            for task in json.loads(content)
            for annotation in task["annotations"]
        ]
    else:
        rows = [json.loads(line) for line in content.splitlines()]
        rows = [{"id": row["id"], **row["meta"]} for row in rows] if form == "prodigy" else rows
    return [(row["id"], tuple(row.get(name) for name in names)) for row in rows]
