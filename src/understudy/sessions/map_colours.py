"""What the map of the pool is coloured by, as it travels: class, confidence and state of every item in a few bytes."""

from typing import Final

import numpy as np

from understudy.sessions.browsing import Overview
from understudy.sessions.item_columns import BIT, NO_LABEL, State
from understudy.sessions.pool_map import tag_of

NO_CLASS: Final = 0xFF  # for up to 255 classes; twice as wide beyond
NO_CONFIDENCE: Final = 0xFF
STATES_TOLD: Final[tuple[State, ...]] = ("labelled", "skipped", "unknown", "bad", "flagged", "disputed")  # bit by bit


def map_colours(seen: Overview) -> tuple[str, bytes]:
    """What the map is coloured by, and a name for it: another where it changed.

    An item has the class of its label, or else the one that is suggested for it.
    """
    labels = seen.columns.labels
    classes = np.where(labels == NO_LABEL, seen.suggested, labels)
    states = np.zeros(len(labels), np.uint8)
    for place, state in enumerate(STATES_TOLD):
        states |= np.where(seen.columns.states & BIT[state], np.uint8(1 << place), np.uint8(0))
    body = encode_colours(classes, seen.confidence, states, seen.n_classes)
    return tag_of(body), body


def encode_colours(classes: np.ndarray, confidence: np.ndarray, states: np.ndarray, n_classes: int) -> bytes:
    """What the map is coloured by: for all items the class, then for all the confidence, then for all the state.

    A class is one byte, or two with the low one first where there are more than 255; all bits set: none, as -1 is. A
    confidence is a byte, in hundredths rounded down; 255: none, as nan is. A state is a byte.
    """
    wide = n_classes > NO_CLASS
    shares = np.full(len(confidence), NO_CONFIDENCE, np.uint8)
    is_known = ~np.isnan(confidence)
    shares[is_known] = np.floor(100 * confidence[is_known] + 1e-9).astype(np.uint8)
    return b"".join(
        (classes.astype("<u2" if wide else "u1").tobytes(), shares.tobytes(), states.astype(np.uint8).tobytes())
    )
