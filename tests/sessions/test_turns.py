from itertools import pairwise

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.sessions.test_record import DEEDS, PEOPLE, Story, created, lived
from understudy.sessions.record import Record
from understudy.sessions.turns import Turns


def story_with(**given: object) -> Story:
    story = Story()
    story.events = [created(**given)]
    story.record = Record.from_events(story.events)
    return story


def test_one_question_in_ten_is_an_audit_item_and_never_two_in_a_row() -> None:
    story = story_with()
    story.say("items_added", None, None, count=100, audit=[])
    asked = []
    for turn in range(100):
        is_due = Turns(story.record).audit_is_due("ann")
        asked.append(is_due)
        story.say("asked", turn, lease="audit" if is_due else "choice", seconds=9.0)
        story.say("skipped", turn)
    assert sum(asked) == 10
    assert not any(a and b for a, b in pairwise(asked))


def test_an_audit_item_that_was_skipped_goes_to_others_at_the_end() -> None:
    story = story_with()
    story.say("items_added", None, None, count=3, audit=[7, 5])
    turns = Turns(story.record)
    assert turns.next_audit("ann") == 4
    story.say("asked", 4, lease="audit", seconds=9.0)
    assert turns.next_audit("bob") == 7, "the other is with ann"
    story.say("skipped", 4)
    for item in (7, 5):
        story.say("asked", item, lease="audit", seconds=9.0)
        story.label(item, 1)
    assert turns.next_audit("ann") is None
    assert turns.next_audit("bob") == 4
    assert turns.next_skipped("ann") == 4, "one's own comes when nothing else is left"
    story.say("put_back", None, "bob", what="skipped")
    assert turns.next_audit("ann") == 4, "put back, it is asked for again"
    story.say("dont_know", 4, "bob")
    assert turns.next_audit("ann") is None
    story.say("put_back", None, "bob", what="dont_know")
    assert turns.next_audit("bob") == 4


def test_a_label_by_the_way_does_not_move_the_lot() -> None:
    story = story_with()
    story.label(4, 1)
    assert Turns(story.record).next_audit("bob") == 4
    story.say("asked", 4, "bob", lease="audit", seconds=9.0)
    story.say("lease_expired", 4, "bob")
    assert Turns(story.record).next_audit("bob") == 4
    story.say("asked", 4, "bob", lease="audit", seconds=9.0)
    story.label(4, 1, "bob")
    assert Turns(story.record).next_audit("bob") is None
    story.undo("bob")
    assert Turns(story.record).next_audit("bob") is None, "ann's label is one"


def test_what_was_skipped_comes_again_in_turn_others_first() -> None:
    story = story_with()
    turns = Turns(story.record)
    for item, who in ((1, "ann"), (2, "bob"), (0, "ann")):
        story.say("skipped", item, who)
    assert turns.next_skipped("ann") == 2
    story.label(2, 0)
    assert turns.next_skipped("ann") == 1
    story.say("skipped", 1)
    assert turns.next_skipped("ann") == 0, "not the same one for ever"
    story.say("dont_know", 0)
    assert turns.next_skipped("ann") == 1
    assert turns.next_skipped("bob") in (0, 1)
    story.say("bad", 1, "bob")
    assert turns.next_skipped("ann") is None
    assert turns.next_skipped("bob") == 0


def test_two_people_are_asked_and_no_third() -> None:
    story = story_with(agreement_share=1.0)
    turns = Turns(story.record)

    def say(kind: str, item: int, who: str, **data: object) -> None:
        story.say(kind, item, who, **data)
        turns.update(item)

    say("labelled", 0, "ann", label=0)
    say("labelled", 1, "bob", label=0)
    say("labelled", 4, "bob", label=0)
    assert (turns.next_second("ann"), turns.next_second("bob"), turns.next_second("cy")) == (1, 0, 0), (
        "audit items are not"
    )
    say("asked", 0, "cy", lease="second", seconds=9.0)
    assert turns.next_second("bob") is None
    say("labelled", 0, "cy", label=1)
    assert [turns.next_second(who) for who in PEOPLE] == [1, None, 1]
    say("dont_know", 1, "ann")
    assert [turns.next_second(who) for who in PEOPLE] == [None, None, 1]
    say("undone", 0, "cy", undoes=story.record.last_decision("cy")[0].seq)
    assert turns.next_second("bob") == 0
    say("bad", 0, "bob")
    assert [turns.next_second(who) for who in PEOPLE] == [None, None, 1]


@examples(max_examples=100)
@given(DEEDS, st.sampled_from([0.5, 1.0]))
def test_turns_are_the_same_after_a_restart(deeds: list[tuple[str, int, str, int]], share: float) -> None:
    events = [created(agreement_share=share), *lived(deeds)[0].events[1:]]
    record = Record()
    record.apply(events[0])
    turns = Turns(record)
    for event in events[1:]:
        touched = record.items_of(event)
        record.apply(event)
        for item in touched:
            turns.update(item)
    again = Turns(Record.from_events(events))
    for who in PEOPLE:
        assert turns.next_second(who) == again.next_second(who)
        assert turns.next_skipped(who) == again.next_skipped(who)
        assert turns.next_audit(who) == again.next_audit(who)
    assert {place: queue for place, queue in turns.queues.items() if queue} == {
        place: queue for place, queue in again.queues.items() if queue
    }
