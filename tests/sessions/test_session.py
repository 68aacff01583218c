import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.sessions.small_projects import (
    a_full_disk,
    after_a_kill,
    copied,
    label_next,
    opened,
    require_alike,
    require_in_step,
    stored_events,
)
from tests.waiting import wait_until
from understudy.errors import Conflict, NotStored
from understudy.labels.imported_labels import Imported, ImportedLabel, Tally
from understudy.messages import DISK_IS_FULL
from understudy.sessions import learning
from understudy.sessions.label_rows import iso_utc, label_rows
from understudy.sessions.log.events import Event
from understudy.sessions.log.log import EventLog
from understudy.sessions.record import Record
from understudy.sessions.session import Session

PEOPLE = ("ann", "bob", "cy")


class Clock:
    """A steady clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def session(tmp_path: Path, clock: Clock) -> Iterator[Session]:
    with opened(copied(tmp_path / "one", taught=2), clock=clock) as session:
        yield session


def numbers(session: Session) -> dict[str, object]:
    found = vars(session.status())
    return {name: found[name] for name in found if name not in ("version", "online", "suspicious", "training")}


def imported(labels: list[ImportedLabel], new_classes: tuple[str, ...]) -> Imported:
    return Imported(
        labels, new_classes, unlabelled=0, repeated=0,
        not_in_pool=Tally(), ambiguous=Tally(), broken=Tally(), no_text=Tally(),
    )  # fmt: skip


# -- keys -------------------------------------------------------------------------------------------------


def test_a_decision_sent_twice_is_one(session: Session) -> None:
    item = session.next("ann").item
    assert item is not None
    first = session.label(item, 1, "ann", "k1", seconds=2.0)
    again = session.label(item, 1, "ann", "k1", seconds=2.0)
    assert (again.stored, again.repeated, first.repeated) == (first.stored, True, False)
    assert again.next.item == first.next.item
    assert again.labelled == first.labelled
    with pytest.raises(Conflict, match="used for something else"):
        session.label(item, 2, "ann", "k1")
    with pytest.raises(Conflict, match="used for something else"):
        session.skip(item, "ann", "k1")
    with pytest.raises(Conflict, match="used for something else"):
        session.undo("ann", "k1")
    other = session.label(item, 2, "bob", "k1")
    assert not other.repeated
    assert [event.kind for event in stored_events(session)].count("labelled") == 4
    require_in_step(session)


def test_every_call_may_be_sent_twice(session: Session) -> None:
    before = session.record.seq
    item = session.next("ann").item
    assert item is not None
    for _ in range(2):
        session.flag(item, "ann", "f", note="look")
        session.label_many([30, 31], 2, "ann", "m")
        session.keep(30, "ann", "keep")
        session.add_class("owl", "ann", "c")
        session.put_back("skipped", "ann", "p")
        session.skip(item, "ann", "s")
    kinds = Counter(event.kind for event in stored_events(session, before))
    assert kinds.pop("asked") <= 2
    assert kinds == {"flagged": 1, "labelled": 2, "kept": 1, "class_added": 1, "put_back": 1, "skipped": 1}
    undone = [session.undo("ann", "u") for _ in range(2)]
    assert [one.repeated for one in undone] == [False, True]
    assert undone[0].undone == undone[1].undone
    assert (undone[0].what, undone[0].next.item) == ("skipped", item)
    session.undo("ann", "u2")
    session.label(30, 1, "bob", "b")
    session.label(30, 1, "cy", "b")
    assert session.keep(30, "ann", "keep").repeated, "it was about another label, and still the same call"
    others: list[Callable[[], object]] = [
        lambda: session.flag(item, "ann", "f", on=False),
        lambda: session.label_many([30, 32], 2, "ann", "m"),
        lambda: session.add_class("cow", "ann", "c"),
        lambda: session.put_back("dont_know", "ann", "p"),
        lambda: session.keep(31, "ann", "keep"),
    ]
    for call in others:
        with pytest.raises(Conflict, match="used for something else"):
            call()


# -- undo -------------------------------------------------------------------------------------------------


def test_undo_goes_back_item_by_item_and_each_is_asked_again(session: Session) -> None:
    asked = []
    for turn in range(8):
        question = session.next("ann")
        assert question.item is not None
        asked.append(question.item)
        session.label(question.item, turn % 3, "ann", f"k{turn}")
    before = numbers(session)
    for turn in range(8):
        undone = session.undo("ann", f"u{turn}")
        assert undone.next.item == asked[-1 - turn]
    with pytest.raises(Conflict, match="nothing to undo"):
        session.undo("ann", "more")
    assert session.status().labelled == 2
    require_in_step(session)
    for turn, item in enumerate(asked):
        assert label_next(session, "ann", f"again{turn}", turn % 3) is not None
        assert session.record.label_of(item) == turn % 3
    assert numbers(session) == before
    require_in_step(session)


def test_one_undo_takes_back_a_whole_grid(session: Session) -> None:
    open_items = [item for item in range(40) if session.record.state_of(item)[0] == "open"][:5]
    assert session.label_many(open_items, 1, "ann", "grid").labelled == 7
    undone = session.undo("ann", "u")
    assert session.status().labelled == 2
    assert undone.what == "labelled"
    assert undone.next.item not in session.record.effective
    require_in_step(session)


# -- what cannot be stored --------------------------------------------------------------------------------


def test_a_full_disk_loses_nothing(session: Session) -> None:
    asked = session.next("ann").item
    assert asked is not None
    with a_full_disk(session):
        stored, refused = 0, None
        for turn in range(300):
            before = numbers(session), session.record.seq
            item = session.next("ann").item
            if item is None:
                break
            try:
                session.label(item, 0, "ann", f"k{turn}", seconds=1.0)
                stored += 1
            except NotStored as error:
                refused = str(error)
                assert (numbers(session), session.record.seq) == before
                assert session.next("ann").item == item
                with suppress(NotStored):  # what takes less room than a label may still be stored: let none be left
                    for small in range(100):
                        session.flag(item, "ann", f"{small}", on=small % 2 == 0)
                before = numbers(session), session.record.seq
                with pytest.raises(NotStored):
                    session.undo("ann", "u" * 64)
                with pytest.raises(NotStored):
                    session.skip(item, "ann", "s" * 64)
                assert (numbers(session), session.record.seq) == before
                break
        require_in_step(session)
        reason = session.next("bob").reason
        assert refused is not None or reason is not None
        assert reason is None or "make room" in reason
        require_in_step(session)
    assert session.next("bob").item is not None
    label_next(session, "ann", "later", 0)
    assert len(session.record.effective) == stored + 3
    require_in_step(session)


def test_a_label_is_stored_though_nobody_can_be_asked_then(
    session: Session, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = session.next("ann").item
    assert item is not None
    append = EventLog.append

    def full_after_labels(log: EventLog, *events: Event) -> list[Event]:
        if events[0].kind in ("asked", "lease_expired"):
            raise NotStored("the disk of /path is full", DISK_IS_FULL)
        return append(log, *events)

    monkeypatch.setattr(EventLog, "append", full_after_labels)
    stored = session.label(item, 1, "ann", "k")
    assert (stored.repeated, stored.next.item, stored.labelled) == (False, None, 3)
    assert stored.next.reason is not None
    assert "make room" in stored.next.reason
    undone = session.undo("ann", "u")
    assert undone.next.item is None
    session.label(item, 1, "ann", "k2")
    require_in_step(session)
    clock.now += 601
    assert session.next("bob").item is None
    monkeypatch.undo()
    assert session.next("ann").item is not None
    require_in_step(session)


def test_a_label_of_which_no_answer_came_is_found_in_the_log(
    session: Session, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = session.next("ann").item
    assert item is not None
    append = EventLog.append

    def lost_on_the_way_back(log: EventLog, *events: Event) -> list[Event]:
        append(log, *events)
        raise NotStored("the database cannot be reached; whether it was stored will be seen then")

    with monkeypatch.context() as patch:
        patch.setattr(EventLog, "append", lost_on_the_way_back)
        with pytest.raises(NotStored):
            session.label(item, 1, "ann", "k")
        assert session.next("bob").item is None
    assert session.label(item, 1, "ann", "k").repeated
    assert session.record.label_of(item) == 1
    (bobs,) = session.record.held_by("bob")
    assert session.next("bob").item == bobs.item
    require_in_step(session)
    clock.now += 601
    assert session.next("cleo").item is not None
    assert [lease.annotator for lease in session.record.leases.values()] == ["cleo"]  # the others' came to an end
    require_in_step(session)


# -- leases -----------------------------------------------------------------------------------------------


def test_leases_end_by_the_steady_clock_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    with opened(copied(tmp_path / "one", taught=2), clock=clock) as session:
        mine = session.next("ann")
        assert mine.item is not None
        assert mine.lease_seconds == 600
        for wall in (0.0, 9e9):
            monkeypatch.setattr(time, "time", lambda wall=wall: wall)
            assert session.next("bob").item != mine.item
            assert session.next("ann").item == mine.item
        clock.now += 599
        session.release("bob")
        assert session.next("cy").item != mine.item
        clock.now += 2
        assert session.next("bob").item == mine.item, "it is free again, and still the best"
        late = session.label(mine.item, 2, "ann", "late")
        assert late.next.item != mine.item
        session.label(mine.item, 1, "bob", "k")
        marks = session.record.decisions(mine.item).marks
        assert {who: mark.label for who, mark in marks.items()} == {"ann": 2, "bob": 1}
        assert session.record.label_of(mine.item) == 2
        require_in_step(session)


def test_asking_again_keeps_the_lease(tmp_path: Path) -> None:
    clock = Clock()
    with opened(copied(tmp_path / "one", taught=2), clock=clock) as session:
        item = session.next("ann").item
        for _ in range(3):
            clock.now += 500
            assert session.next("ann").item == item
        clock.now += 601
        assert session.next("bob").item == item


def test_what_is_released_goes_to_the_next(session: Session) -> None:
    item = session.next("ann").item
    session.release("ann")
    session.release("ann")
    assert not session.record.leases
    assert session.next("bob").item == item
    require_in_step(session)


@examples(max_examples=10, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.sampled_from(PEOPLE), st.sampled_from(["next", "label", "skip", "undo", "late", "release"])),
             max_size=60)
)  # fmt: skip
def test_nobody_gets_what_is_with_another(calls: list[tuple[str, str]]) -> None:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, opened(copied(Path(folder) / "one"), clock=clock) as session:
        for place, (who, call) in enumerate(calls):
            item = session.next(who).item
            assert item is not None
            assert session.record.leases[item].annotator == who
            if call == "label":
                session.label(item, 0, who, f"k{place}")
            elif call == "skip":
                session.skip(item, who, f"k{place}")
            elif call == "undo" and session.record.last_decision(who):
                session.undo(who, f"k{place}")
            elif call == "late":
                clock.now += 400
            elif call == "release":
                session.release(who)
            pending = {
                lease.item for lease in session.record.leases.values() if not session.record.is_audit(lease.item)
            }
            told = {item for item in pending if item in session.record.effective}
            assert set(session.learning.chooser.surrogate.pending.tolist()) == pending - told


# -- several people ---------------------------------------------------------------------------------------


def test_with_a_full_agreement_share_each_item_goes_to_two_people(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one", n=14, agreement_share=1.0, audit_share=0.0)
    with opened(folder) as session:
        seen: dict[int, list[str]] = {}
        for turn in range(28):
            who = ("ann", "bob")[turn % 2]
            question = session.next(who)
            assert question.item is not None, turn
            seen.setdefault(question.item, []).append(who)
            assert question.suggestion is None
            session.label(question.item, 0, who, f"k{turn}")
        assert all(sorted(who) == ["ann", "bob"] for who in seen.values())
        assert len(seen) == 14
        for who in PEOPLE:
            assert session.next(who).reason == "Every item has an answer."
        agreement = session.progress().agreement
        assert agreement is not None
        assert (agreement.items, agreement.share) == (14, 1.0)
        item = next(iter(seen))
        first = next(iter(session.record.decisions(item).marks))
        second = {"ann": "bob", "bob": "ann"}[first]
        session.label(item, 1, second, "other")
        assert session.record.training_rows()[item] == 0, "the earlier counts"
        session.label(item, 1, "cy", "third")
        assert session.record.training_rows()[item] == 1, "the majority counts"
        require_in_step(session)


def test_imported_labels_are_stored_once_and_by_whom_they_are(session: Session) -> None:
    found = imported([ImportedLabel(30, "cat"), ImportedLabel(31, "owl", annotator="eve", at=5.0)], ("owl",))
    assert session.import_labels(found, "ann") == {"added": 2, "unchanged": 0}
    assert session.import_labels(found, "ann") == {"added": 0, "unchanged": 2}
    assert session.record.classes[-1] == "owl"
    assert session.record.decisions(31).marks["eve"].at == 5.0
    assert session.record.decisions(30).marks["ann"].source == "import"
    require_in_step(session)


def test_thirty_threads_at_once_leave_a_log_that_says_it_all(tmp_path: Path) -> None:
    faults: list[BaseException] = []

    def work(session: Session, number: int) -> None:
        lottery, who = random.Random(number), f"p{number % 10}"
        try:
            for turn in range(12):
                key, item = f"{number}.{turn}", session.next(who).item
                call = lottery.choice(
                    ["label", "label", "skip", "undo", "ahead", "why", "status", "progress", "review"]
                )
                if item is not None and call in ("label", "skip"):
                    if call == "label":
                        session.label(item, 0, who, key)
                    else:
                        session.skip(item, who, key)
                elif call == "undo":
                    with suppress(Conflict):
                        session.undo(who, key)
                elif call == "ahead":
                    session.preview(who)
                elif call == "why" and item is not None:
                    session.why(item)
                elif call in ("status", "progress", "review"):
                    getattr(session, call)()
        except BaseException as error:
            faults.append(error)

    with opened(copied(tmp_path / "one", "digits", taught=2)) as session:
        threads = [threading.Thread(target=work, args=(session, number), daemon=True) for number in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not faults
        events = stored_events(session)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert Record.from_events(events).effective == session.record.effective
        holders = Counter(lease.item for lease in session.record.leases.values())
        assert max(holders.values()) == 1
        require_in_step(session)
        with after_a_kill(session, tmp_path / "two") as again:
            require_same_future(session, again)


# -- after a kill -----------------------------------------------------------------------------------------


def require_same_future(session: Session, again: Session) -> None:
    assert numbers(again) == numbers(session)
    assert again.record.leases == session.record.leases
    for who in (*PEOPLE, "new", "newer", "newest"):
        one, other = session.next(who), again.next(who)
        assert (one.item, one.ask, one.suggestion) == (other.item, other.ask, other.suggestion), who


@pytest.mark.parametrize("without", [(), ("work/anchors",), ("work",)], ids=["all", "no anchors", "no work"])
def test_after_a_kill_everybody_is_asked_the_same(tmp_path: Path, without: tuple[str, ...]) -> None:
    lottery = random.Random(len(without) + len("".join(without)))
    with opened(copied(tmp_path / "one", taught=2, agreement_share=0.3)) as session:
        for turn in range(24):
            who = PEOPLE[turn % 3]
            item = session.next(who).item
            assert item is not None
            call = lottery.choice(["label", "label", "label", "skip", "dont_know", "bad", "undo", "next", "other"])
            if call == "label":
                session.label(item, turn % 3, who, f"k{turn}")
            elif call in ("skip", "dont_know", "bad"):
                getattr(session, call)(item, who, f"k{turn}")
            elif call == "undo" and session.record.last_decision(who):
                session.undo(who, f"k{turn}")
            elif call == "other":
                session.label(lottery.randrange(40), 1, who, f"k{turn}")
            session.why(item)
            if turn == 20 or (not without and turn % 6 == 5):
                with after_a_kill(session, tmp_path / f"killed {turn}", without) as again:
                    require_same_future(session, again)


def test_a_closed_session_stores_nothing_and_says_so(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=2)) as session:
        item = session.next("ann").item
        assert item is not None
        version = session.version
    with pytest.raises(NotStored, match="closed"):
        session.label(item, 0, "ann", "k")
    assert session.wait_for_change(version, 5.0) > version
    session.close()


# -- to the end -------------------------------------------------------------------------------------------


def test_everything_can_be_labelled_and_undone_from_there(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", n=6, taught=2)) as session:
        skipped = session.next("ann").item
        assert skipped is not None
        session.skip(skipped, "ann", "s")
        seen = []
        for turn in range(3):
            question = session.next("ann")
            assert question.item is not None
            seen.append(question.item)
            session.label(question.item, 0, "ann", f"k{turn}")
        assert skipped not in seen
        held = session.next("ann")
        assert (held.item, held.ask) == (skipped, "again")
        nothing = session.next("bob")
        assert nothing.item is None
        assert (
            nothing.reason
            == "The last items are with ann. One comes to you when it is handed back, or its time is over."
        )
        end = session.dont_know(skipped, "ann", "dk").next
        assert end.reason == "Every other item has an answer; 1 is left that you did not know."
        assert session.next("bob").item == skipped, "somebody else may know"
        session.label(skipped, 1, "bob", "b")
        for who in ("ann", "bob"):
            assert session.next(who).reason == "Every item has an answer."
        assert session.preview("ann") == []
        assert session.progress().hint.advice == "enough"
        undone = session.undo("bob", "u")
        assert undone.next.item == skipped
        require_in_step(session)
        session.undo("ann", "u")
        assert session.put_back("dont_know", "ann", "p").labelled == 5
        require_in_step(session)


def test_a_label_that_the_model_knows_does_not_judge_it_when_it_is_given_again(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=2)) as session:
        tally = session.record.tally()
        session.undo("teacher", "u")
        question = session.next("teacher")
        assert question.item is not None
        session.label(question.item, 1, "teacher", "again")
        assert session.record.tally() == tally
        assert session.learning.chooser.surrogate.tally == tally


def test_many_imported_labels_are_taken_in_at_one_go_and_the_same_as_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = [ImportedLabel(row, ("cat", "owl")[row % 2]) for row in range(36)]
    with opened(copied(tmp_path / "one")) as session:
        with monkeypatch.context() as patch:
            patch.setattr(learning, "MAX_MOVES", 5)
            assert session.import_labels(imported(labels, ("owl",)), "ann") == {"added": 36, "unchanged": 0}
            assert session.import_labels(imported(labels, ("owl",)), "ann") == {"added": 0, "unchanged": 36}
            at_once = session.learning.chooser.surrogate
        one_by_one = session.learning.make_chooser().surrogate
        with session.lock:
            require_alike(at_once, one_by_one)


def test_when_every_item_has_an_answer_a_last_model_learns_all_of_them(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", n=8, taught=2)) as session:
        assert len(session.record.trainings) == 1
        turn = 0
        while session.next("ann").item is not None:
            label_next(session, "ann", f"k{turn}", turn % 2)
            turn += 1
        wait_until(lambda: len(session.record.trainings) == 2)
        assert session.record.trainings[1].data["labels"] == len(session.record.usable)


def test_a_decision_that_waited_for_the_server_keeps_its_time(session: Session) -> None:
    before = time.time()
    items = [number for number in range(12) if not session.record.decisions(number).marks]
    session.label(items[0], 0, "ann", "a", ago=3600.0)
    session.label(items[0], 0, "ann", "a", ago=7200.0)  # sent again, later
    session.label_many(items[1:3], 1, "ann", "b", ago=60.0)
    session.skip(items[3], "ann", "c", ago=60.0)
    session.label(items[4], 0, "ann", "d", ago=1e12)
    session.label(items[5], 0, "ann", "e", ago=-3600.0)
    session.label(items[6], 0, "ann", "f")
    session.undo("ann", "g")
    after = time.time()
    stored = {event.key: event for event in stored_events(session) if event.annotator == "ann" and event.key}
    assert all(before <= event.at <= after for event in stored.values()), "when it arrived is kept, too"
    for key, ago in (("a", 3600.0), ("b", 60.0), ("c", 60.0), ("d", 366 * 86400.0), ("e", 0.0), ("f", 0.0)):
        assert before - ago <= stored[key].given_at <= after - ago, key
    assert "given_at" not in stored["f"].data, "nothing more is written where nothing waited"
    assert "given_at" not in stored["e"].data
    assert {entry.at for entry in session.history("ann") if entry.item == items[0]} == {stored["a"].given_at}
    rows = {row.item: row.labelled_at for row in label_rows(session.record, session.project.pool.ids)}
    for item, key in ((items[0], "a"), (items[1], "b"), (items[2], "b"), (items[3], "c"), (items[5], "e")):
        assert rows[item][:23] == iso_utc(stored[key].given_at)[:23], key
