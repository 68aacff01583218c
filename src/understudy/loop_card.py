"""A loop as a notebook shows it: labels by class, and how the learner has done from training to training."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from understudy.journal import TrainingScore
from understudy.messages import count_of
from understudy.notebook import (
    BLUE,
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


def draw_loop(
    facts: Sequence[str],
    labels: np.ndarray,
    classes: Sequence[Any],
    *,
    pending: int,
    skipped: int,
    history: Sequence[TrainingScore],
    since: TrainingScore,
    due: int | None,
) -> Markup:
    """The card of a loop. `since` are the labels that came after the last training."""
    known = labels[labels >= 0]
    counts = [int((known == place).sum()) for place in range(len(classes))]
    shares = [Share("labelled", len(known), BLUE), Share("pending", pending, ORANGE), Share("skipped", skipped, GREY)]
    judged = [score for score in [*history, since] if score.judged]
    curve = Line([score.labels for score in judged], [score.right / score.judged for score in judged])
    return draw_card(
        "ActiveLoop",
        facts,
        draw_shares(shares, len(labels)),
        draw_beside(
            draw_class_counts(counts, classes, "labels by class"),
            draw_curves({"model": curve}, "new labels that the model had right"),
        ),
        draw_note(_describe_trainings(history, judged, due)),
    )


def _describe_trainings(history: Sequence[TrainingScore], judged: Sequence[TrainingScore], due: int | None) -> str:
    said = "Not trained yet"
    if history:
        said = f"Trained {count_of(len(history), 'time')}, last at {count_of(history[-1].labels, 'label')}"
    said += "." if due is None else f"; due at {due:,}."
    if judged:
        right, total = sum(score.right for score in judged), sum(score.judged for score in judged)
        share = f"{100 * right / total:.0f} %"
        said += f" Of {total:,} labels that came after a training, its model had {right:,} right ({share})."
    return said
