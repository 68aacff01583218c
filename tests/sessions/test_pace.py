import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.sessions.log.events import Event, Kind
from understudy.sessions.pace import Pace, active_seconds, pace_of, start_of_day

START = 1_700_000_000


def second_by_second(decisions: list[tuple[int, int]]) -> int:
    """The seconds of a day in which somebody was at it, looked at one by one."""
    times = sorted(at for at, _ in decisions)
    active = 0
    for second in range(max(times, default=0) + 1):
        after = [at for at in times if at > second]  # the decision that this second went by for
        if not after:
            continue
        next_at = after[0]
        earlier = [at for at in times if at <= second]
        if earlier and next_at - earlier[-1] <= 300:
            active += 1
        else:
            looked_at = min(seconds for at, seconds in decisions if at == next_at)
            active += next_at - min(looked_at, 300) <= second
    return active


@given(st.lists(st.tuples(st.integers(700, 4000), st.integers(0, 400)), max_size=8, unique_by=lambda each: each[0]))
def test_the_time_somebody_was_at_it_is_what_counting_seconds_gives(decisions: list[tuple[int, int]]) -> None:
    spread = [(at, seconds) for at, seconds in decisions if seconds <= at]
    assert active_seconds([(float(at), float(seconds)) for at, seconds in spread]) == second_by_second(spread)


def decided(at: float, kind: Kind = "labelled", **data: object) -> Event:
    decided.seq += 1  # type: ignore[attr-defined]
    return Event(kind, 0, "ann", None, data, at=START + at, seq=decided.seq)  # type: ignore[attr-defined]


decided.seq = 0  # type: ignore[attr-defined]


def test_pauses_of_more_than_five_minutes_do_not_count() -> None:
    events = [decided(10.0 * turn, seconds=4.0) for turn in range(31)]
    assert pace_of(events, ()) == Pace(31, 304.0)
    later = [decided(300.0 + 3600 + 10.0 * turn, seconds=4.0) for turn in range(31)]
    found = pace_of([*events, *later], ())
    assert found == Pace(62, 608.0)
    assert found.per_hour == pytest.approx(62 / 608 * 3600)


def test_a_pause_of_five_minutes_counts_and_a_longer_look_only_so_far() -> None:
    assert active_seconds([(0.0, 900.0), (300.0, 5.0), (600.5, 5.0)]) == 300 + 300 + 5


def test_today_counts_from_its_beginning() -> None:
    events = [decided(0.0, seconds=5.0), decided(60.0, seconds=5.0), decided(120.0, seconds=7.0), decided(200.0)]
    assert pace_of(events, (), since=START + 100.0) == Pace(2, 87.0)
    assert pace_of(events, (), since=START + 1000.0) == Pace(0, 0.0)


def test_what_was_undone_took_its_time_and_gave_no_label_and_imports_took_none() -> None:
    undone = decided(50.0)
    events = [decided(0.0), undone, decided(90.0, "skipped"), decided(100.0), decided(30_000.0, source="import")]
    assert pace_of(events, [undone.seq]) == Pace(2, 100.0)


def test_the_time_a_decision_was_made_counts_and_not_when_it_arrived() -> None:
    waited = decided(5000.0, given_at=START + 30.0)
    assert pace_of([decided(0.0), waited, decided(60.0)], ()) == Pace(3, 60.0)


def test_a_few_labels_in_less_than_a_minute_give_no_pace() -> None:
    assert pace_of([decided(0.0), decided(20.0)], ()).per_hour is None
    assert pace_of([], ()).per_hour is None
    assert pace_of([decided(0.0), decided(60.0)], ()).per_hour == 120


@given(st.integers(0, 2 * 10**9))
def test_a_day_begins_at_midnight_of_the_same_date(now: int) -> None:
    began = time.localtime(start_of_day(now))
    assert began[:3] == time.localtime(now)[:3]
    assert began[3:6] == (0, 0, 0)
