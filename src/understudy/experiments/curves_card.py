"""A comparison as a notebook shows it: its learning curves, and what they come to."""

from typing import Final

from markupsafe import Markup

from understudy.experiments.curves import Curves
from understudy.experiments.metrics import ACCURACY
from understudy.experiments.statistics import by_area
from understudy.messages import count_of
from understudy.notebook import LINE_COLOURS, Line, draw_beside, draw_card, draw_curves, draw_note, draw_table

MAX_LINES: Final = len(LINE_COLOURS)


def draw_comparison(curves: Curves, *notes: str) -> Markup:
    """The card of learning curves: the best strategies by the area under them, controls last."""
    measure = curves.measure
    ranked = by_area(curves)
    shown = ranked[:MAX_LINES]
    lines = {name: Line(curves.schedule, curves.values[name].mean(0).tolist()) for name in shown}
    rows = [
        [
            name,
            *(measure.text(values.mean()).removesuffix(" %") for values in (curves.area(name), curves.of(name)[:, -1])),
        ]
        for name in shown
    ]
    heading = "strategy, % right" if measure.name == ACCURACY else f"strategy, {measure.heading}"
    if left_out := len(ranked) - len(shown):
        notes = (*notes, f"{left_out:,} more; `understudy report` shows all.")
    return draw_card(
        "Comparison",
        [curves.dataset, count_of(ranked, "strategy", "strategies"), count_of(curves.repeats, "repetition")],
        draw_beside(
            draw_curves(lines, f"mean test {measure.title}"),
            draw_table([heading, "area", f"at {curves.schedule[-1]:,}"], rows),
        ),
        *(draw_note(line) for line in notes),
    )
