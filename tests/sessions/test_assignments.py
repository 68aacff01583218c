from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sessions.test_record import Story, created
from understudy.errors import UnderstudyError
from understudy.sessions.assignments import (
    UNITS,
    Assignment,
    Assignments,
    Division,
    Spans,
    check_quota,
    check_share,
    divide,
    place_rows,
    require_room,
)
from understudy.sessions.log.events import Event
from understudy.sessions.record import Record
from understudy.sessions.replies import OwnWork
from understudy.sessions.turns import Turns

PEOPLE = ("ann", "bob", "cy")
CHANGES = st.lists(st.tuples(st.sampled_from(PEOPLE), st.sampled_from([None, 0.1, 0.25, 1 / 3])), max_size=12)


def units_of(spans: Spans) -> set[int]:
    """In hundreds of units: slow but plain."""
    return {unit for start, end in spans for unit in range(start, end, 100)}


# -- parts of the pool --------------------------------------------------------------------------------------------


@given(changes=CHANGES)
def test_parts_are_disjoint_and_as_large_as_the_shares(changes: list[tuple[str, float | None]]) -> None:
    now = dict(changes)
    parts = divide(changes, now)
    for person in PEOPLE:
        length = sum(end - start for start, end in parts.get(person, ()))
        assert length == round((now.get(person) or 0) * UNITS)
    spans = sorted(span for spans in parts.values() for span in spans)
    assert all(0 <= start < end <= UNITS for start, end in spans)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))


@given(changes=CHANGES, more=st.sampled_from([None, 0.05, 0.3, 1 / 3]))
def test_nobodys_part_moves_when_the_share_of_another_changes(
    changes: list[tuple[str, float | None]], more: float | None
) -> None:
    before = divide(changes, dict(changes))
    changes = [*changes, ("ann", more)]
    after = divide(changes, dict(changes))
    for person in ("bob", "cy"):
        assert after.get(person) == before.get(person)
    mine, since = units_of(before.get("ann", ())), units_of(after.get("ann", ()))
    assert mine <= since or since <= mine, "a part grows or shrinks, and does not move either"


def test_a_change_that_was_undone_leaves_the_parts_of_others_where_they_are() -> None:
    changes = [("ann", 0.5), ("bob", 0.3)]
    assert divide(changes, {"ann": None, "bob": 0.3}) == {"bob": ((500_000, 800_000),)}
    assert divide([*changes, ("cy", 0.7)], {"ann": None, "bob": 0.3, "cy": 0.7}) == {
        "bob": ((500_000, 800_000),),
        "cy": ((800_000, 1_000_000), (0, 500_000)),
    }


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    share=st.sampled_from([0.1, 0.25, 0.5, 1.0]),
    seed=st.integers(0, 2**40),
)
def test_a_share_gets_that_share_of_every_batch_up_to_an_item(sizes: list[int], share: float, seed: int) -> None:
    batches = np.cumsum([0, *sizes[:-1]]).tolist()
    places = place_rows(batches, sum(sizes), seed)
    for first, size in zip(batches, sizes, strict=True):
        here = int((places[first : first + size] < share * UNITS).sum())
        assert abs(here - Fraction(share) * size) <= 1


def test_rows_that_come_later_move_no_others_and_another_seed_moves_all() -> None:
    before = place_rows([0], 100, seed=3)
    assert place_rows([0, 100], 103, seed=3)[:100].tolist() == before.tolist()
    assert place_rows([0], 100, seed=3).tolist() == before.tolist()
    assert (place_rows([0], 100, seed=4) != before).mean() > 0.9
    single = place_rows(list(range(200)), 200, seed=3)  # one at a time: not all to the same person
    assert 60 < (single < UNITS // 2).sum() < 140


# -- who is asked for which item ----------------------------------------------------------------------------------


@st.composite
def assignments(draw: st.DrawFn) -> dict[str, Assignment]:
    return {
        person: Assignment(
            draw(st.sampled_from([None, 0.2, 0.3])), frozenset(draw(st.sets(st.integers(0, 2), max_size=2)))
        )
        for person in PEOPLE
        if draw(st.booleans())
    }


def people_for(
    row: int,
    assigned: dict[str, Assignment],
    parts: dict[str, Spans],
    places: np.ndarray,
    predicted: np.ndarray | None,
) -> set[str]:
    """The rule as it is written, for one row."""
    label = predicted[row] if predicted is not None and row < len(predicted) else None
    of_class = {person for person, found in assigned.items() if label in found.classes}
    holders = {person for person, spans in parts.items() if any(start <= places[row] < end for start, end in spans)}
    if of_class:
        return holders & of_class or of_class
    return holders or {*PEOPLE, "anybody"}


@given(
    assigned=assignments(),
    seed=st.integers(0, 9),
    labels=st.none() | st.lists(st.integers(0, 3), min_size=25, max_size=25),
)
def test_every_item_is_for_whom_the_rule_says_and_none_for_nobody(
    assigned: dict[str, Assignment], seed: int, labels: list[int] | None
) -> None:
    shares = {person: found.share for person, found in assigned.items()}
    predicted = None if labels is None else np.array(labels)
    made = (assigned, divide(shares.items(), shares), place_rows([0], 30, seed), predicted)
    division = Division.of(*made)
    everybody = division.everybodys()
    assert division.is_open == all("anybody" in people_for(row, *made) for row in range(30))
    for row in range(30):
        expected = people_for(row, *made)
        found = division.people_for(row)
        assert (found is None) == bool(everybody[row]) == ("anybody" in expected)
        for person in (*PEOPLE, "anybody"):
            assert bool(division.own(person)[row] or everybody[row]) == (person in expected), (row, person)
        assert expected, "every item is for somebody"


def test_two_people_with_parts_share_no_item() -> None:
    shares = dict.fromkeys(PEOPLE, 1 / 3)
    assigned = {person: Assignment(share) for person, share in shares.items()}
    division = Division.of(assigned, divide(shares.items(), shares), place_rows([0], 600, 0), None)
    for first, second in combinations(PEOPLE, 2):
        assert not (division.own(first) & division.own(second)).any()
    assert [int(division.own(person).sum()) for person in PEOPLE] == pytest.approx([200] * 3, abs=1)


def test_before_there_is_a_model_classes_assign_nothing() -> None:
    division = Division.of({"ann": Assignment(classes=frozenset({0}))}, {}, place_rows([0], 10, 0), None)
    assert division.everybodys().all()
    assert [division.people_for(row) for row in range(10)] == [None] * 10


def test_an_assigned_class_that_was_merged_is_the_one_it_counts_for_and_a_removed_one_is_none() -> None:
    assert Assignment(0.5, frozenset({0, 1, 2, 9}), 7).counting_as([2, None, 2]) == Assignment(0.5, frozenset({2}), 7)


# -- what owners may assign ---------------------------------------------------------------------------------------


def test_what_cannot_be_assigned_is_refused_with_the_value_and_the_way_out() -> None:
    assert [check_share(value) for value in (None, 0, 0.25, 1)] == [None, None, 0.25, 1.0]
    assert [check_quota(value) for value in (None, 1, 200)] == [None, 1, 200]
    for share in (-0.1, 1.1, float("nan"), True, "half"):
        with pytest.raises(UnderstudyError, match=r"number from 0 to 1, 0\.5 for half of it; got"):
            check_share(share)
    for quota in (0, -3, 1.5, True, 10**10, "many"):
        with pytest.raises(UnderstudyError, match="whole number of labels from 1 to 1,000,000,000"):
            check_quota(quota)


def test_shares_may_be_the_whole_pool_and_not_more() -> None:
    require_room({"ann": 1 / 3, "bob": 2 / 3, "cy": None})
    with pytest.raises(UnderstudyError, match=r"add up to 1 at most; got ann 0\.5, bob 0\.6: lower one"):
        require_room({"ann": 0.5, "bob": 0.6, "cy": None})


# -- as people label ----------------------------------------------------------------------------------------------


class Team(Story):
    """Ann, Bob and Cy of a project of 40 items, 4 of them audit items, whose model may be given."""

    def __init__(self) -> None:
        super().__init__()
        first = created()
        self.events = [replace(first, data={**first.data, "n_items": 40, "audit": [0, 1, 2, 3]})]
        self.record = Record.from_events(self.events)
        self.probs: np.ndarray | None = None
        for name in PEOPLE:
            self.say("person_added", None, None, name=name, role="annotator")
        self.now = Assignments(self.record, lambda: self.probs)

    def say(self, kind: Any, item: int | None = None, who: str | None = "ann", **data: Any) -> Event:
        event = super().say(kind, item, who, **data)
        for each in [item] if item is not None and hasattr(self, "now") else []:
            self.now.update(each)
        return event

    def assign(self, person: str, **values: Any) -> None:
        self.say("person_changed", None, None, person=person, **values)

    def predict(self, labels: Sequence[int]) -> None:
        self.probs = np.eye(3)[list(labels)]

    def rows(self, person: str) -> list[list[int] | None]:
        return [None if rows is None else np.flatnonzero(rows).tolist() for rows in self.now.rows_for(person)]


def test_without_any_assignment_everybody_is_asked_for_everything() -> None:
    team = Team()
    assert team.rows("ann") == [None]
    team.assign("ann", quota=10)
    assert team.rows("ann") == team.rows("bob") == team.rows("stranger") == [None]
    assert team.now.own_work("bob") is None
    assert team.now.own_work("ann") == OwnWork(labels=0, quota=10, done=0, part=0)


def test_whoever_has_a_part_is_asked_for_it_first_and_others_never() -> None:
    team = Team()
    team.assign("ann", share=0.5)
    mine, everybodys = team.rows("ann")
    assert mine is not None
    assert everybodys is not None
    assert len(mine) == 20
    assert sorted([*mine, *everybodys]) == list(range(40))
    assert team.rows("bob") == team.rows("stranger") == [everybodys]
    team.assign("bob", share=0.5)
    assert team.rows("ann") == [mine]
    assert team.rows("bob") == [everybodys]
    assert team.rows("cy") == []


def test_a_quota_counts_labels_that_stand_and_undo_makes_room_again() -> None:
    team = Team()
    team.assign("ann", quota=2)
    team.label(10, 0), team.label(11, 1), team.label(11, 2)
    assert team.now.is_full("ann")
    assert team.rows("ann") == []
    assert team.now.reason_for_nothing("ann") == (
        "You have given 2 labels, as many as you were asked for. Thank you! To go on, ask an owner for a larger quota."
    )
    team.undo()
    assert team.now.is_full("ann"), "the label before is there again"
    team.undo()
    assert not team.now.is_full("ann")
    assert team.now.own_work("ann") == OwnWork(labels=1, quota=2, done=0, part=0)
    team.label(11, 1)
    team.assign("ann", quota=3)
    assert not team.now.is_full("ann")
    team.assign("ann", quota=1)
    assert "2 labels, you were asked for 1." in (team.now.reason_for_nothing("ann") or "")
    team.assign("ann", quota=None)
    assert team.rows("ann") == [None]


def test_the_part_of_who_reached_the_quota_or_retired_goes_to_everybody() -> None:
    team = Team()
    team.assign("ann", share=1.0, quota=1)
    assert team.rows("bob") == []
    team.label(10, 0)
    assert team.rows("bob") == [None]
    assert team.now.notes() == ["ann has reached the quota: what is left of their part goes to everybody."]
    team.undo()
    assert team.rows("bob") == []
    team.assign("ann", retired=True)
    assert team.rows("bob") == [None]
    assert team.now.notes() == ["ann retired: what was assigned to them goes to everybody."]
    team.assign("ann", retired=False)
    assert team.rows("bob") == []
    assert team.now.notes() == []


def test_when_all_have_reached_their_quotas_the_notes_say_that_items_are_left() -> None:
    team = Team()
    for place, person in enumerate(PEOPLE):
        team.assign(person, quota=1)
        team.label(10 + place, 0, person)
    assert team.now.notes() == ["All have reached their quotas, and 37 items are left: raise a quota or add people."]


def test_items_of_an_assigned_class_are_asked_of_its_people_only() -> None:
    team = Team()
    team.assign("ann", classes=[0])
    team.assign("bob", classes=[0, 1])
    assert team.rows("cy") == [None], "there is no model yet"
    team.predict([row % 3 for row in range(36)])  # the last items came after the model
    foxes = [*range(2, 36, 3), 36, 37, 38, 39]
    assert team.rows("ann") == [list(range(0, 36, 3)), foxes]
    assert team.rows("bob") == [sorted([*range(0, 36, 3), *range(1, 36, 3)]), foxes]
    assert team.rows("cy") == [foxes]
    team.assign("bob", retired=True)
    assert team.rows("cy") == [sorted([*foxes, *range(1, 36, 3)])]
    team.predict([2] * 40)
    assert team.rows("cy") == [None]


def test_classes_that_are_merged_or_removed_take_their_people_with_them() -> None:
    team = Team()
    team.predict([row % 3 for row in range(40)])
    team.assign("ann", classes=[0])
    team.say("class_merged", None, None, **{"class": 0, "into": 1})
    assert team.now.of("ann").classes == {1}
    team.say("class_removed", None, None, **{"class": 1})
    assert team.now.of("ann").classes == frozenset()
    assert team.rows("cy") == [None]


def test_skipped_items_are_asked_of_whom_they_are_for_and_what_these_do_not_know_of_everybody() -> None:
    team = Team()
    team.assign("ann", share=0.5)
    item = next(row for row in (team.rows("ann")[0] or []) if row > 3)
    turns = Turns(team.record, team.now)
    team.say("skipped", item, "bob")
    assert turns.next_skipped("cy") is None
    assert turns.next_skipped("ann") == item
    team.say("dont_know", item, "ann")
    assert turns.next_skipped("cy") == item


def test_second_opinions_go_to_anybody_who_may_whatever_the_parts() -> None:
    team = Team()
    team.record.settings = replace(team.record.settings, agreement_share=1.0)
    for person, share in (("ann", 0.5), ("bob", 0.5)):
        team.assign(person, share=share)
    item = next(row for row in (team.rows("ann")[0] or []) if row > 3)
    team.label(item, 0, "ann")
    assert [Turns(team.record, team.now).next_second(who) for who in PEOPLE] == [None, item, item]
    team.predict([0] * 40)
    team.assign("cy", classes=[0])
    assert [Turns(team.record, team.now).next_second(who) for who in PEOPLE] == [None, None, item]
    team.assign("cy", retired=True)
    assert Turns(team.record, team.now).next_second("bob") == item


def test_who_is_done_with_a_part_is_told_so_and_who_has_the_rest() -> None:
    team = Team()
    team.assign("ann", share=0.25)
    team.assign("bob", share=0.75)
    mine = [row for row in (team.rows("ann")[0] or []) if row > 3]
    assert team.now.part_of("ann") == (0, len(mine))
    for item in mine[1:]:
        team.label(item, 0)
    team.say("bad", mine[0])
    assert team.now.part_of("ann") == (len(mine), len(mine))
    left = 36 - len(mine)
    assert team.now.reason_for_nothing("ann") == (
        f"Your part is done: {len(mine)} of {len(mine)} items. The rest is with bob ({left} items); an owner can "
        "assign you more."
    )
    assert team.now.reason_for_nothing("cy") == (
        f"Nothing is left for you. The rest is with bob ({left} items); an owner can assign you more."
    )
    assert team.now.reason_for_nothing("bob") is None


@given(
    deeds=st.lists(
        st.tuples(
            st.sampled_from(["share", "classes", "quota", "retired", "label", "dont_know", "undo", "model", "grow"]),
            st.sampled_from(PEOPLE),
            st.integers(0, 39),
        ),
        max_size=25,
    )
)
def test_what_is_kept_is_what_a_fresh_start_finds_and_every_item_is_for_somebody(
    deeds: list[tuple[str, str, int]],
) -> None:
    team = Team()
    for kind, person, item in deeds:
        if kind == "share":
            shares = {each: team.now.of(each).share or 0 for each in PEOPLE} | {person: item / 100}
            if sum(shares.values()) <= 1:
                team.assign(person, share=item / 100)
        elif kind == "classes":
            team.assign(person, classes=[item % 3])
        elif kind == "quota":
            team.assign(person, quota=1 + item % 4)
        elif kind == "retired":
            team.assign(person, retired=bool(item % 2))
        elif kind == "model":
            team.predict([(row * item) % 3 for row in range(40)])
        elif kind == "grow":
            team.say("items_added", None, None, count=3, audit=[team.record.n_items])
        elif kind == "undo":
            for event in team.undo(person):
                team.now.update(event.item or 0)
        elif kind == "label":
            team.label(item, item % 3, person)
        else:
            team.say("dont_know", item, person)
    fresh = Assignments(Record.from_events(team.events), lambda: team.probs)
    for person in (*PEOPLE, "stranger"):
        mine, theirs = team.now.rows_for(person), fresh.rows_for(person)
        assert [None if rows is None else rows.tolist() for rows in mine] == [
            None if rows is None else rows.tolist() for rows in theirs
        ]
        assert team.now.own_work(person) == fresh.own_work(person)
        assert team.now.labels[person] == sum(
            person in team.record.decisions(item).given for item in range(team.record.n_items)
        )
    reach = np.zeros(team.record.n_items, bool)
    for rows in (rows for person in (*PEOPLE, "stranger") for rows in team.now.rows_for(person)):
        reach |= True if rows is None else rows
    assert reach.all()
