import re
import threading
import unicodedata
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.sessions.test_record import DEEDS, ITEMS, PEOPLE, Story, lived
from understudy.data.items import Texts
from understudy.data.pool import Pool
from understudy.errors import NotFound, UnderstudyError
from understudy.learners.calibration import Calibration
from understudy.projects.project import Project
from understudy.projects.settings import Settings
from understudy.sessions.browsing import (
    ITEMS_PER_UPDATE,
    MAX_CORNERS,
    SORTS,
    Browser,
    Filter,
    Sort,
    distances_from,
    fold,
    name_key,
    parse_lasso,
)
from understudy.sessions.calibrations import Audits
from understudy.sessions.item_columns import STATES, ItemColumns, State
from understudy.sessions.models import Models
from understudy.sessions.record import Decisions, Record
from understudy.sessions.replies import BrowsedItem

TEXTS = ("A café in Łódź", "the CAFE again", "Straße 10", "strasse 9", "x2")
IDS = ("b/10.png", "b/9.png", "a.png", "C.png", "b/10 (1).png")
CLASSES = 3


def browser_of(
    record: Record, *, probs: np.ndarray | None = None, calibration: Calibration | None = None, n: int = ITEMS
) -> Browser:
    rng = np.random.default_rng(3)
    if calibration is None:
        calibration = Calibration(1.7, audited=50)
    ids = IDS if n == ITEMS else tuple(f"{row}.png" for row in range(n))
    texts = TEXTS if n == ITEMS else tuple(f"text {row}" for row in range(n))
    features = rng.normal(size=(n, 4)).astype(np.float32)
    pool = Pool(ids, items=Texts(texts, ids), features=features)
    project = Mock(spec=Project, pool=pool, features=features, kind="text")
    project.columns_of.return_value = []
    audits = Mock(spec=Audits)
    audits.calibration.return_value = calibration
    return Browser(project, record, Mock(spec=Models, probs=probs), audits, threading.RLock())


def some_probs(n: int = ITEMS, c: int = CLASSES) -> np.ndarray:
    return np.random.default_rng(5).dirichlet(np.full(c, 0.7), size=n).astype(np.float32)


# -- the same by looking at every item ----------------------------------------------------------------------


def slow_states(record: Record, item: int, only: str | None) -> set[State]:
    found = record.decisions(item)

    def said(by: Any) -> bool:
        return len(by) > 0 if only is None else only in by

    has_label = record.label_of(item) is not None if only is None else only in found.marks
    states: set[State] = set()
    if has_label:
        states.add("labelled")
    elif not said(found.bad):
        states.add("unlabelled")
    if said(found.skipped) and not has_label:
        states.add("skipped")
    if said(found.unknown) and not has_label:
        states.add("unknown")
    if said(found.bad):
        states.add("bad")
    if said(found.flags):
        states.add("flagged")
    if only is not None:
        return states
    differ = any(mark.label != other.label for mark in found.marks.values() for other in found.marks.values())
    marks = sorted(found.marks.values(), key=lambda mark: mark.seq)
    reviews = [place for place, mark in enumerate(marks) if mark.source == "review"]
    since = {mark.label for mark in (marks[reviews[-1] :] if reviews else marks)}
    if differ and len(since) > 1 and found.settled is None and not found.bad:
        states.add("disputed")
    if item in record.audit_rows:
        states.add("audit")
    if item in record.leases:
        states.add("leased")
    return states


def slow_suggestion(record: Record, browser: Browser, item: int) -> tuple[int | None, float | None, np.ndarray | None]:
    probs = browser.models.probs
    if probs is None or not record.settings.suggestions or item in record.audit_rows or item >= len(probs):
        return None, None, None
    powers = probs[item].astype(np.float64) ** (1 / browser.audits.calibration(probs).temperature)
    shares = powers / powers.sum()
    best = int(probs[item].argmax())
    if record.class_table.classes[best].hidden:
        return None, None, None
    return best, float(shares[best]), shares


def slow_page(
    record: Record, browser: Browser, wanted: Filter, sort: Sort, only: str | None = None
) -> tuple[list[int], dict[str, int]]:
    """What a list is, by looking at every item."""
    pool = browser.project.pool
    keys: dict[int, Any] = {}
    counts: dict[str, int] = dict.fromkeys(STATES, 0)
    for item in range(record.n_items):
        found = record.decisions(item)
        who = {each for said in said_by(found) for each in said}
        own = [event for event in found.events if event.item is not None and only in (None, event.annotator)]
        mark = found.marks.get(only or "")
        label = record.label_of(item) if only is None else (None if mark is None else mark.label)
        best, confidence, shares = slow_suggestion(record, browser, item)
        text, name = fold(TEXTS[item]), fold(IDS[item])
        is_wanted = (
            (only is None or bool(own))
            and (not wanted.labels or label in wanted.labels)
            and (not wanted.suggested or best in wanted.suggested)
            and (wanted.person is None or (wanted.person in who and only in (None, wanted.person)))
            and (
                (wanted.confidence_from, wanted.confidence_to) == (0, 1)
                or (confidence is not None and wanted.confidence_from <= confidence <= wanted.confidence_to)
            )
            and fold(wanted.text) in text
            and fold(wanted.name) in name
            and (fold(wanted.search) in text or fold(wanted.search) in name)
            and wanted.id in (None, pool.ids[item])
            and wanted.item in (None, item)
        )
        if not is_wanted:
            continue
        states = slow_states(record, item, only)
        for state in states:
            counts[state] += 1
        if wanted.states and not states & set(wanted.states):
            continue
        surprise = None if label is None or shares is None else 1 - shares[label]
        features = browser.project.features.astype(np.float64)
        keys[item] = {
            "pool": item,
            "confidence-up": confidence,
            "confidence-down": None if confidence is None else -confidence,
            "surprise": None if surprise is None else -surprise,
            "latest": -own[-1].given_at if own else None,
            "earliest": own[-1].given_at if own else None,
            "name": sorted(range(ITEMS), key=lambda row: name_key(IDS[row])).index(item),
            "similarity": None if wanted.similar is None else np.linalg.norm(features[item] - features[wanted.similar]),
        }[sort]
    return sorted(
        keys, key=lambda item: (keys[item] is None, keys[item] if keys[item] is not None else 0, item)
    ), counts


FILTERS = st.fixed_dictionaries(
    {
        "labels": st.one_of(st.just(()), st.tuples(st.integers(0, 2)), st.just((0, 2))),
        "suggested": st.one_of(st.just(()), st.tuples(st.integers(0, 2))),
        "person": st.one_of(st.none(), st.sampled_from(PEOPLE)),
        "states": st.lists(st.sampled_from(STATES), max_size=3, unique=True).map(tuple),
        "confidence_from": st.sampled_from([0.0, 0.0, 0.3, 0.6]),
        "confidence_to": st.sampled_from([1.0, 1.0, 0.8]),
        "text": st.sampled_from(["", "", "Cafe", "STRASSE", "zzz"]),
        "name": st.sampled_from(["", "", "B/", "png"]),
        "search": st.sampled_from(["", "", "1", "lodz"]),
        "id": st.sampled_from([None, None, None, "a.png", "nothing"]),
        "item": st.sampled_from([None, None, None, 2]),
        "similar": st.sampled_from([None, 0, 3]),
    }
)


@examples(max_examples=250, deadline=None)
@given(DEEDS, FILTERS, st.sampled_from(SORTS), st.sampled_from([None, None, "ann"]), st.booleans())
def test_every_filter_and_order_is_what_one_finds_by_looking_at_every_item(
    deeds: list[tuple[str, int, str, int]], fields: dict[str, Any], sort: Sort, only: str | None, is_modelled: bool
) -> None:
    wanted = Filter(**fields)
    story = lived(deeds)[0]
    story.say("asked", 1, "bob", lease="choice", seconds=9.0)
    for name in PEOPLE:
        story.record.annotators.setdefault(name)
    browser = browser_of(story.record, probs=some_probs() if is_modelled else None)
    if sort == "similarity" and wanted.similar is None:
        with pytest.raises(UnderstudyError, match="similar=ITEM"):
            browser.page(wanted, sort, only=only)
        return
    page = browser.page(wanted, sort, only=only, with_rows=True)
    expected, counts = slow_page(story.record, browser, wanted, sort, only)
    assert [shown.item for shown in page.items] == expected == page.rows
    assert page.total == len(expected)
    assert page.counts == counts
    assert page.people == sorted(who for who in PEOPLE if decided_anything(story.record, who) and only in (None, who))
    for shown in page.items:
        require_shown(story.record, browser, shown, only)


def decided_anything(record: Record, who: str) -> bool:
    found = [record.decisions(item) for item in range(ITEMS)]
    return any(who in said for each in found for said in said_by(each))


def said_by(found: Decisions) -> tuple[Any, ...]:
    """Who said what of an item, kind by kind."""
    settled = () if found.settled is None else (found.settled.by,)
    return found.marks, found.skipped, found.unknown, found.bad, found.flags, settled


def require_shown(record: Record, browser: Browser, shown: BrowsedItem, only: str | None) -> None:
    found = record.decisions(shown.item)
    mine = (only,) if only is not None else PEOPLE
    best, confidence, shares = slow_suggestion(record, browser, shown.item)
    assert (shown.id, shown.text) == (IDS[shown.item], TEXTS[shown.item])
    assert set(shown.states) == slow_states(record, shown.item, only)
    assert {each.by: each.label for each in shown.labels} == {
        who: mark.label for who, mark in found.marks.items() if who in mine
    }
    assert [each.at for each in shown.labels] == sorted(each.at for each in shown.labels)
    assert {each.by: each.note for each in shown.flags} == {
        who: note for who, note in found.flags.items() if who in mine
    }
    assert set(shown.skipped_by) == set(found.skipped) & set(mine)
    assert set(shown.unknown_to) == set(found.unknown) & set(mine)
    assert set(shown.bad_by) == set(found.bad) & set(mine)
    assert shown.suggestion == best
    assert shown.confidence == (None if confidence is None else pytest.approx(confidence, rel=1e-5))
    if only is None:
        assert shown.label == record.label_of(shown.item)
        expected = None if shares is None or shown.label is None else 1 - shares[shown.label]
        assert shown.surprise == (None if expected is None else pytest.approx(expected, abs=1e-5))


@examples(max_examples=100, deadline=None)
@given(DEEDS, st.data())
def test_a_list_that_follows_event_by_event_is_the_one_that_is_made_anew(
    deeds: list[tuple[str, int, str, int]], data: st.DataObject
) -> None:
    story = lived(deeds)[0]
    record = Record.from_events(story.events[:1])
    browser = browser_of(record, probs=some_probs())
    for event in story.events[1:]:
        items = record.items_of(event)
        record.apply(event)
        browser.note(items)
        if data.draw(st.integers(0, 3)) == 0:
            browser.page(Filter())
    fresh = browser_of(record, probs=some_probs())
    for only in (None, "ann"):
        assert browser.page(Filter(), only=only) == fresh.page(Filter(), only=only)


# -- one by one -------------------------------------------------------------------------------------------


def labelled_story() -> Story:
    story = Story()
    story.label(0, 1)
    story.label(1, 2, "bob")
    story.label(1, 0, "ann")
    story.label(4, 1)
    return story


def test_pages_follow_each_other_and_say_how_many_there_are() -> None:
    browser = browser_of(labelled_story().record)
    pages = [browser.page(Filter(), "name", offset=offset, limit=2) for offset in (0, 2, 4, 6)]
    assert [len(page.items) for page in pages] == [2, 2, 1, 0]
    assert {page.total for page in pages} == {ITEMS}
    names = [shown.id for page in pages for shown in page.items]
    assert names == ["a.png", "b/9.png", "b/10 (1).png", "b/10.png", "C.png"]


def test_nothing_is_suggested_for_audit_items_nor_where_suggestions_are_switched_off() -> None:
    story = labelled_story()
    browser = browser_of(story.record, probs=some_probs())
    shown = {each.item: each for each in browser.page(Filter()).items}
    assert (shown[4].suggestion, shown[4].confidence, shown[4].surprise) == (None, None, None)
    assert shown[4].label == 1
    assert shown[0].suggestion is not None
    story.record.settings = Settings.from_json({**story.record.settings.to_json(), "suggestions": False})
    story.say("asked", 2, lease="choice", seconds=1.0)
    page = browser.page(Filter(), "confidence-down")
    assert {each.suggestion for each in page.items} == {None}
    assert [each.item for each in page.items] == list(range(ITEMS))


def test_a_confidence_that_nobody_could_check_is_not_shown() -> None:
    browser = browser_of(labelled_story().record, probs=some_probs(), calibration=Calibration())
    shown = browser.page(Filter()).items[0]
    assert shown.suggestion is not None
    assert (shown.confidence, shown.surprise) == (None, None)


def about(number: int, **values: Any) -> dict[str, Any]:
    """The data of an event about a class."""
    return {"class": number, **values}


def test_a_hidden_class_is_not_suggested_and_a_merged_one_is_looked_for_as_what_it_became() -> None:
    story = labelled_story()
    browser = browser_of(story.record, probs=np.eye(3, dtype=np.float32)[[1, 1, 2, 0, 1]])
    event = story.say("class_changed", None, **about(1, hidden=True))
    browser.note(story.record.items_of(event))
    assert [each.suggestion for each in browser.page(Filter()).items] == [None, None, 2, 0, None]
    merged = [*story.record.labels]
    story.say("class_merged", None, **about(1, into=2))
    browser.note(merged)
    assert [each.item for each in browser.page(Filter(labels=(1,))).items] == [0, 1, 4]
    assert browser.page(Filter(labels=(1,))) == browser.page(Filter(labels=(2,)))
    story.say("class_removed", None, **about(0))
    browser.note(merged)
    assert browser.page(Filter(labels=(0,))).total == 0


def test_items_that_came_after_the_model_have_no_suggestion_yet() -> None:
    story = Story()
    browser = browser_of(story.record, probs=some_probs(3))
    assert [each.suggestion is None for each in browser.page(Filter()).items] == [False, False, False, True, True]


def test_the_states_that_can_be_chosen_are_counted_without_that_choice() -> None:
    browser = browser_of(labelled_story().record)
    all_states = browser.page(Filter()).counts
    assert browser.page(Filter(states=("disputed",))).counts == all_states
    assert all_states["disputed"] == 1
    assert browser.page(Filter(labels=(1,), states=("disputed",))).counts["disputed"] == 0


def test_a_review_or_a_settlement_ends_a_dispute_until_somebody_differs_again() -> None:
    story = labelled_story()
    browser = browser_of(story.record)
    assert [each.item for each in browser.page(Filter(states=("disputed",))).items] == [1]
    story.say("settled", 1, "cy", label=2, note="")
    browser.note([1])
    assert browser.page(Filter(states=("disputed",))).total == 0
    story.undo("cy")
    story.label(1, 0, "cy", source="review")
    browser.note([1])
    assert browser.page(Filter(states=("disputed",))).total == 0
    story.label(1, 2, "bob")
    browser.note([1])
    assert browser.page(Filter(states=("disputed",))).total == 1


def test_one_annotator_alone_sees_nothing_of_what_others_decided() -> None:
    story = labelled_story()
    story.say("flagged", 1, "bob", on=True, note="not ann's")
    story.say("asked", 1, "bob", lease="choice", seconds=9.0)
    page = browser_of(story.record).page(Filter(), only="ann")
    assert [shown.item for shown in page.items] == [0, 1, 4]
    one = page.items[1]
    assert (one.label, one.states, one.flags, one.held_by) == (0, ["labelled"], [], None)
    assert [each.by for each in one.labels] == ["ann"]
    assert page.counts["disputed"] == page.counts["flagged"] == page.counts["audit"] == 0


def test_what_is_inside_a_lasso_is_asked_of_the_map() -> None:
    browser = browser_of(Story().record)
    corners = parse_lasso("0,0;1,0;1,1")
    with pytest.raises(NotFound, match="no map"):
        browser.page(Filter(lasso=corners))
    asked = []

    def rows_inside(polygon: Any) -> np.ndarray:
        asked.append(polygon)
        return np.array([4, 2])

    browser.rows_inside = rows_inside
    assert [shown.item for shown in browser.page(Filter(lasso=corners)).items] == [2, 4]
    assert asked == [((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))]


def test_many_items_that_changed_are_looked_at_in_turn_so_that_nobody_waits_long() -> None:
    story = Story()
    n = 2_000
    story.events[0] = type(story.events[0])("created", data={**story.events[0].data, "n_items": n, "audit": []}, seq=1)
    story.record = Record.from_events(story.events)
    for item in range(n):
        story.label(item, item % 3)
    browser = browser_of(story.record, n=n)
    held: list[int] = []
    columns = browser._columns[None]

    def update(at_most: int) -> bool:
        held.append(at_most)
        return ItemColumns.update(columns, at_most)

    columns.update = update  # type: ignore[method-assign]
    assert browser.page(Filter(labels=(2,))).total == len(range(2, n, 3))
    assert len(held) == n // ITEMS_PER_UPDATE
    browser.page(Filter())
    assert len(held) == n // ITEMS_PER_UPDATE + 1


# -- what cannot be listed ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Filter(item=5), "there is no item 5; there are 5"),
        (Filter(similar=99), "there is no item 99"),
        (Filter(labels=(3,)), "there is no class 3"),
        (Filter(suggested=(7,)), "there is no class 7"),
        (Filter(person="nobody"), "there is no annotator 'nobody'"),
        (Filter(confidence_from=0.9, confidence_to=0.1), "got 0.9 to 0.1"),
        (Filter(confidence_to=1.5), "got 0 to 1.5"),
    ],
)
def test_a_filter_that_means_nothing_is_refused_with_its_value(wanted: Filter, said: str) -> None:
    with pytest.raises(UnderstudyError, match=re.escape(said)):
        browser_of(Story().record).page(wanted)


@pytest.mark.parametrize(("offset", "limit"), [(-1, 5), (0, 0), (0, 201)])
def test_a_page_has_a_beginning_and_a_size(offset: int, limit: int) -> None:
    with pytest.raises(UnderstudyError, match=f"got {offset}, {limit}"):
        browser_of(Story().record).page(Filter(), offset=offset, limit=limit)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,2", "got 1"),
        ("1,2;3,4", "got 2"),
        ("1,2;3,4;five,6", "got 'five,6'"),
        ("1,2;3,4;5", "got '5'"),
        ("1,2;3,4;nan,6", "got 'nan,6'"),
        (";".join(["0,0"] * (MAX_CORNERS + 1)), f"got {MAX_CORNERS + 1}"),
    ],
)
def test_a_lasso_that_is_not_a_polygon_is_refused_with_its_value(text: str, said: str) -> None:
    with pytest.raises(UnderstudyError, match=said):
        parse_lasso(text)


def test_no_lasso_is_no_polygon() -> None:
    assert parse_lasso("") == ()


# -- words and distances ------------------------------------------------------------------------------------


def test_words_are_found_whatever_the_case_the_accents_and_the_way_letters_are_composed() -> None:
    assert fold("CAFÉ") == fold("cafe\u0301") == fold("Cafe") == "cafe"
    assert fold("Straße") == fold("STRASSE")
    assert fold("Łódź") == "lodz"
    assert fold("İstanbul") == fold("istanbul")


@given(st.text())
def test_folding_a_text_again_or_composing_it_first_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert fold(unicodedata.normalize("NFC", text)) == fold(text)


def test_numbers_in_names_are_sorted_by_their_size() -> None:
    names = ["img10.png", "img9.png", "IMG2.png", "img", "10", "9"]
    assert sorted(names, key=name_key) == ["9", "10", "img", "IMG2.png", "img9.png", "img10.png"]


def test_distances_are_those_of_subtraction_and_near_copies_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    features = (100 + rng.normal(size=(3_000, 6))).astype(np.float32)
    features[1] = features[0]
    features[2] = np.nextafter(features[0], np.float32(200), dtype=np.float32)
    found = distances_from(features, 0)
    exact = np.linalg.norm(features.astype(np.float64) - features[0].astype(np.float64), axis=1)
    assert found[1] == 0
    np.testing.assert_array_equal(np.argsort(found)[:500], np.argsort(exact)[:500])
    np.testing.assert_allclose(found, exact, atol=0.02)
