"""How fast somebody labels: labels an hour while they are at it, pauses left out."""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from understudy.sessions.log.events import Event

LONGEST_PAUSE_SECONDS: Final = 300.0  # between two decisions; after a longer one somebody begins anew
LEAST_ACTIVE_SECONDS: Final = 60.0  # from which labels an hour say something


@dataclass(frozen=True)
class Pace:
    """Labels, the time that somebody was at it, and labels an hour of that; None after less than a minute."""

    labels: int
    seconds: float

    @property
    def per_hour(self) -> float | None:
        return None if self.seconds < LEAST_ACTIVE_SECONDS else self.labels / self.seconds * 3600


def pace_of(events: Iterable[Event], undone: Iterable[int], since: float | None = None) -> Pace:
    """The pace of one person's decisions since a time, or in all.

    Decisions that were undone took their time too, but gave no label. Labels that were imported, or that a model gave,
    took none here.
    """
    gone = set(undone)
    own = [event for event in events if event.data.get("source") not in ("import", "model")]
    own = [event for event in own if since is None or event.given_at >= since]
    labels = sum(event.kind == "labelled" and event.seq not in gone for event in own)
    return Pace(labels, active_seconds([(event.given_at, event.data.get("seconds") or 0.0) for event in own]))


def active_seconds(decisions: Sequence[tuple[float, float]]) -> float:
    """How long somebody was at it, by when each decision was made and for how long its item had been looked at.

    The time since the decision before counts, if it is five minutes at most. After a longer pause, and for the first
    decision, only the time that the item was looked at counts, five minutes of it at most.
    """
    total, before = 0.0, -math.inf
    for at, seconds in sorted(decisions):
        gap = at - before
        total += gap if gap <= LONGEST_PAUSE_SECONDS else min(seconds, LONGEST_PAUSE_SECONDS)
        before = at
    return total


def start_of_day(now: float) -> float:
    """When the day of this moment began, by the clock and the time zone of the server."""
    year, month, day, *_ = time.localtime(now)
    return time.mktime((year, month, day, 0, 0, 0, 0, 0, -1))
