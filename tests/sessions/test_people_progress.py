"""The rows of people on the progress page, beside counts made one by one."""

from collections.abc import Mapping
from itertools import permutations
from statistics import median

import pytest
from hypothesis import given
from hypothesis import settings as examples
from sklearn.metrics import cohen_kappa_score

from tests.sessions.test_assignments import Team
from tests.sessions.test_record import DEEDS, PEOPLE, lived
from understudy.sessions.assignments import Assignments
from understudy.sessions.people_progress import people_progress, review_counts
from understudy.sessions.record import Record
from understudy.sessions.replies import Person


def rows_of(record: Record, now: Assignments, only: str | None = None) -> Mapping[str, Person]:
    found = people_progress(record, now, online=["bob"], today=0.0, only=only)
    return {person.name: person for person in found}


@examples(max_examples=100)
@given(deeds=DEEDS)
def test_counts_and_shares_are_those_of_counting_one_by_one(deeds: list[tuple[str, int, str, int]]) -> None:
    story, gone = lived(deeds)
    record = story.record
    for who, person in rows_of(record, Assignments(record)).items():
        own = [event for event in story.events if event.annotator == who and event.seq not in gone]
        labels = sum(who in record.decisions(item).given for item in range(record.n_items))
        skipped = sum(event.kind == "skipped" for event in own)
        unknown = sum(event.kind == "dont_know" for event in own)
        assert (person.labels, person.skipped, person.unknown) == (labels, skipped, unknown)
        total = labels + skipped + unknown
        assert person.skipped_share == (skipped / total if total else None)
        assert person.unknown_share == (unknown / total if total else None)
        both = [
            (marks[first].label, marks[second].label)
            for marks in record.labels.values()
            for first, second in permutations(marks, 2)
            if first == who
        ]
        assert person.agreement == (sum(a == b for a, b in both) / len(both) if both else None)
        if person.kappa is not None:
            ours, theirs = zip(*both, strict=True)
            assert person.kappa == pytest.approx(cohen_kappa_score(ours, theirs))


def test_everybody_who_may_label_has_a_row_most_labels_first() -> None:
    team = Team()
    team.label(5, 0, "cy"), team.label(6, 0, "cy"), team.label(7, 0, "bob", seconds=3.0), team.label(8, 0, "bob")
    team.label(9, 0, "bob", seconds=9.0)
    team.assign("ann", quota=20, classes=[2, 0])
    found = rows_of(team.record, team.now)
    assert list(found) == ["bob", "cy", "ann"]
    assert [person.labels for person in found.values()] == [3, 2, 0]
    assert [person.online for person in found.values()] == [True, False, False]
    assert found["bob"].median_seconds == median([3.0, 9.0])
    ann = found["ann"]
    assert (ann.quota, ann.remaining, ann.classes, ann.share, ann.part) == (20, 20, [0, 2], None, 0)
    assert ann.skipped_share is ann.unknown_share is ann.pace is ann.agreement is ann.review_agreement is None
    assert list(rows_of(team.record, team.now, only="cy")) == ["cy"]


def test_how_far_somebody_is_with_part_and_quota() -> None:
    team = Team()
    team.assign("ann", share=0.5, quota=3)
    mine = [row for row in (team.rows("ann")[0] or []) if row > 3]
    team.label(mine[0], 0), team.label(mine[1], 1, "bob")
    ann = rows_of(team.record, team.now)["ann"]
    assert (ann.share, ann.part, ann.part_done, ann.quota, ann.remaining) == (0.5, len(mine), 2, 3, 2)
    team.assign("ann", retired=True)
    team.assign("ann", quota=0)
    gone = rows_of(team.record, team.now)["ann"]
    assert (gone.retired, gone.share, gone.quota, gone.part) == (True, None, None, 0)


def test_agreement_with_reviews_counts_labels_that_somebody_else_reviewed() -> None:
    team = Team()
    for item in (5, 6, 7, 8):
        team.label(item, 0, "ann")
    team.label(5, 0, "bob", source="review")
    team.label(6, 1, "bob", source="review")
    team.say("kept", 7, "bob", label=0)
    team.say("kept", 8, "ann", label=0)  # of one's own label: that is no agreement
    assert review_counts(team.record) == {"ann": (2, 3)}
    team.label(6, 0, "ann", source="review")
    assert review_counts(team.record) == {"ann": (2, 2), "bob": (0, 1)}
    person = rows_of(team.record, team.now)["ann"]
    assert (person.reviewed, person.review_agreement) == (2, 1.0)
    assert set(rows_of(team.record, team.now)) == set(PEOPLE)
