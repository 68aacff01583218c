"""A surrogate as a notebook shows it: what was told and asked for, and how often the learner had been right."""

from typing import Final

import numpy as np
from markupsafe import Markup

from understudy.core.ledger import Ledger
from understudy.notebook import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    Line,
    Share,
    draw_beside,
    draw_card,
    draw_class_counts,
    draw_curves,
    draw_note,
    draw_shares,
)

MAX_JUMPY: Final = 9  # labels at the start of a curve that are left out
MAX_POINTS: Final = 120  # of a curve


def draw_surrogate(ledger: Ledger, n_classes: int, basis_points: int, method: str) -> Markup:
    """The card of a surrogate, from its ledger alone: nothing is computed for the pool."""
    told = [answer.label for answer in ledger.answers.values()]
    trained = int((ledger.is_trained & ~ledger.is_dropped).sum())
    known_before = sum(bool(ledger.is_trained[row]) for row in ledger.answers)
    shares = [
        Share("told", len(told), BLUE),
        Share("trained on, not told", trained - known_before, GREEN),
        Share("pending", len(ledger.pending), ORANGE),
        Share("skipped", int((ledger.is_skipped & ~ledger.is_dropped).sum()), GREY),
    ]
    counts = [told.count(label) for label in range(n_classes)]
    right, judged = ledger.accuracy()
    score = f"The learner had {right:,} of {judged:,} labels right before they were told."
    return draw_card(
        "Surrogate",
        [f"{len(ledger):,} rows", f"{n_classes:,} classes", f"{basis_points:,} basis points", f"method {method}"],
        draw_shares(shares, len(ledger)),
        draw_beside(
            draw_class_counts(counts, range(n_classes), "labels told, by class"),
            draw_curves({"learner": _accuracy_so_far(ledger)}, "share the learner had right"),
        ),
        draw_note(score if judged else "No label tests the learner yet." if told or trained else "No labels yet."),
    )


def _accuracy_so_far(ledger: Ledger) -> Line:
    """The share of labels so far that the learner had predicted, after each of them."""
    rights = [answer.was_right for answer in ledger.answers.values() if answer.was_right is not None]
    places = np.arange(1, len(rights) + 1)
    step = max(1, len(rights) // MAX_POINTS)
    kept = slice(min(MAX_JUMPY, len(rights) // 2), None)  # the first few would take up the whole height
    places, shares = places[kept][::-step][::-1], (np.cumsum(rights) / places)[kept][::-step][::-1]
    return Line(places.tolist(), shares.tolist())
