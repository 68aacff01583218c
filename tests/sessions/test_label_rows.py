"""The table of decisions: who, what, when, and why it was asked."""

from tests.sessions.leaving import AT, CLASSES, IDS, asked, labelled, made, numbered, record_of_decisions
from understudy.labels.export_data import COLUMNS, FIRST_COLUMNS, LabelRow
from understudy.projects.settings import Settings
from understudy.sessions.label_rows import iso_utc, label_rows
from understudy.sessions.log.events import Event
from understudy.sessions.record import Record


def rows() -> list[LabelRow]:
    return list(label_rows(record_of_decisions(), IDS))


def test_every_decision_has_a_row_in_the_order_of_the_pool() -> None:
    assert [(row.item, row.annotator, row.decision, row.label) for row in rows()] == [
        (0, "ann", "label", CLASSES[0]),
        (0, "bob", "label", CLASSES[2]),
        (1, "ann", "label", CLASSES[1]),
        (2, "bob", "label", CLASSES[3]),
        (3, "=eve", "label", CLASSES[4]),
        (4, "ann", "dont_know", None),
        (5, "ann", "bad", None),
        (6, "ann", "skipped", None),
        (6, "bob", "flagged", None),
        (7, "ann", "label", CLASSES[5]),
    ]


def test_a_row_says_how_and_why_the_item_was_asked() -> None:
    found = {(row.item, row.annotator): row for row in rows()}
    assert found[0, "bob"].asked == "second"
    assert found[0, "bob"].why == "A second opinion."
    assert found[0, "bob"].influence_share == 0.75
    assert found[0, "ann"].asked == "choice"
    assert found[0, "ann"].why is None
    assert found[1, "ann"].asked == "audit"
    assert [found[item, who].asked for item, who in ((2, "bob"), (3, "=eve"), (7, "ann"))] == ["unasked"] * 3
    assert found[4, "ann"].asked == "choice"


def test_a_row_holds_the_label_that_counts_beside_the_annotators_own() -> None:
    first, second, *_ = rows()
    assert (second.label, second.effective) == (CLASSES[2], first.label)


def test_a_row_says_when_by_which_model_and_how_long() -> None:
    first = rows()[0]
    assert first.labelled_at == "2025-10-09T08:53:23.250000Z" == iso_utc(AT + 3)
    assert (first.model, first.guess, first.seconds, first.source) == ("m1", CLASSES[0], 1.5, "person")
    assert first.id == "a.png"
    assert len(COLUMNS) == 20
    assert FIRST_COLUMNS[-1] == "note"


def test_flags_and_notes_are_with_the_item() -> None:
    skipped, flagged = (row for row in rows() if row.item == 6)
    assert skipped.flagged
    assert skipped.note is None
    assert flagged.note == "@look"
    assert flagged.labelled_at == iso_utc(AT + 16)


def settled(item: int, who: str, label: int, note: str = "") -> Event:
    return Event("settled", item, who, data={"label": label, "note": note})


def test_a_row_says_how_the_label_that_counts_came_about() -> None:
    events = numbered(
        made(Settings(classes=CLASSES), 6, []),
        labelled(0, "ann", 0),
        labelled(1, "ann", 0), labelled(1, "bob", 0),
        labelled(2, "ann", 0), labelled(2, "bob", 1),
        labelled(3, "ann", 0), labelled(3, "bob", 1, "review"),
        labelled(4, "ann", 0), labelled(4, "bob", 1), settled(4, "cy", 1, "the tail"),
        Event("skipped", 5, "ann"),
    )  # fmt: skip
    rows = {row.item: row for row in label_rows(Record.from_events(events), IDS)}
    found = [(row.effective, row.resolution, row.disputed, row.settled_by, row.settled_note) for row in rows.values()]
    assert found == [
        (CLASSES[0], "single", False, None, None),
        (CLASSES[0], "agreed", False, None, None),
        (CLASSES[0], "majority", True, None, None),
        (CLASSES[1], "review", False, None, None),
        (CLASSES[1], "settled", False, "cy", "the tail"),
        (None, None, False, None, None),
    ]


def test_a_settlement_has_a_row_beside_those_of_the_labels_and_where_these_are_taken_back() -> None:
    given = numbered(
        made(Settings(classes=CLASSES), 2, []),
        asked(0, "cy", "choice"),
        labelled(0, "ann", 0), labelled(0, "bob", 1), settled(0, "cy", 1),
        labelled(1, "ann", 0), labelled(1, "bob", 1), settled(1, "cy", 2),
        Event("undone", 1, "ann", data={"undoes": 6}), Event("undone", 1, "bob", data={"undoes": 7}),
    )  # fmt: skip
    rows = list(label_rows(Record.from_events(given), IDS))
    assert [(row.item, row.decision, row.annotator, row.label, row.asked, row.source) for row in rows] == [
        (0, "label", "ann", CLASSES[0], "choice", "person"),
        (0, "label", "bob", CLASSES[1], "choice", "person"),
        (0, "settled", "cy", CLASSES[1], "unasked", None),
        (1, "settled", "cy", CLASSES[2], "unasked", None),
    ]
    assert rows[2].labelled_at == iso_utc(AT + 5)


def test_what_was_undone_has_no_row() -> None:
    events = numbered(
        made(Settings(classes=CLASSES), 3, []),
        asked(0, "ann", "choice"),
        labelled(0, "ann", 0),
        Event("undone", 0, "ann", data={"undoes": 3, "what": "labelled"}),
    )
    assert list(label_rows(Record.from_events(events), IDS)) == []
