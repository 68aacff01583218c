"""Tables of what a result costs: the labels needed for a target, and seconds beside them."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table

from understudy.experiments.curves import CEILING, Curves, Role, role_of
from understudy.experiments.labels_needed import LabelsNeeded, labels_needed
from understudy.experiments.results import Results
from understudy.experiments.statistics import MIN_REPEATS_TESTED, by_area, reference_of
from understudy.experiments.tables import NAME_WIDTHS, NOT_REACHED, Grid, as_rich, width_of
from understudy.messages import count_of

SECONDS: Final = {"choose_seconds": "choose (s)", "predict_seconds": "predict (s)", "train_seconds": "train (s)"}


def needed_grid(curves: Curves, rows: Sequence[Sequence[LabelsNeeded]] | None = None) -> Grid:
    """The labels that each strategy needed for some targets, and the ratio to the reference, with 95 % intervals.

    `rows` is the output of `labels_needed`, if it was computed already or for other targets than the usual ones.
    """
    rows = labels_needed(curves) if rows is None else rows
    reference, measure = reference_of(curves), curves.measure
    levels = [one.target for one in rows[0]]
    missed = [any(row[i].missed for row in rows) for i in range(len(levels))]
    headings: list[str] = ["strategy"]
    for level, some in zip(levels, missed, strict=True):
        headings += [measure.text(level), *["not reached"] * some, *[f"of {reference}"] * (len(rows) > 1)]

    def cells(one: LabelsNeeded, some: bool) -> list[str]:
        share = f"{100 * one.missed:.0f} %" if one.missed in (0, 1) else f"{100 * one.missed:.1f} %"
        ratio = "reference" if one.strategy == reference else _ratio_text(one)
        return [_labels_text(one, curves.schedule), *[share] * some, *[ratio] * (len(rows) > 1)]

    return Grid(
        f"{curves.dataset}: labels needed for a test {measure.title}",
        tuple(headings),
        tuple(
            (row[0].strategy, *(cell for one, some in zip(row, missed, strict=True) for cell in cells(one, some)))
            for row in rows
            if row
        ),
        notes=tuple(_notes_on_labels(curves, reference, rows)) if levels else ("No value is shared by all.",),
    )


def _notes_on_labels(curves: Curves, reference: str, rows: Sequence[Sequence[LabelsNeeded]]) -> list[str]:
    first, last = curves.schedule[0], curves.schedule[-1]
    notes = [f"By interpolation of mean curves of {count_of(curves.repeats, 'repetition')}."]
    if curves.repeats > 1:
        notes.append(
            f"In brackets: 95 % intervals by resampling repetitions, the same for {reference} and the others"
            + ("; with fewer than ten they are too narrow." if curves.repeats < MIN_REPEATS_TESTED else ".")
        )
    if len(rows) > 1:
        notes.append(f"Of {reference}: the labels as a multiple of those that {reference} needed; below 1 is better.")
    if any(one.missed for row in rows for one in row):
        notes.append(
            f"Not reached: in this share of resamples not by {last:,} labels, the last budget, so the number is only "
            "known to be larger."
        )
    if any(0 in (one.labels[0], *(one.interval or ())) for row in rows for one in row):
        notes.append(f"≤{first:,}: reached at the first budget already.")
    return notes


def _labels_text(one: LabelsNeeded, schedule: Sequence[int]) -> str:
    """Labels with their interval, as 812 [780, 850]; >3,000 where the last budget was not enough."""

    def end(value: float) -> str:
        if value <= schedule[0]:
            return f"≤{schedule[0]:,}"
        return f">{schedule[-1]:,}" if math.isinf(value) else f"{value:,.0f}"

    number = end(one.labels[1])
    if one.interval is None or one.interval in ((schedule[-1], math.inf), (0, schedule[0])):
        return number  # nothing else is known
    return f"{number} [{end(one.interval[0])}, {end(one.interval[1])}]"


def _ratio_text(one: LabelsNeeded) -> str:
    """The ratio to the reference with its interval, as 0.62 [0.58, 0.66]; ≥ or ≤ where one side is not known."""
    if one.ratio is None:
        return ""
    low, high = one.ratio
    number = f"{low:.2f}" if low == high else _open_text(low, high)
    if one.ratio_interval is None:
        return number
    low, high = one.ratio_interval
    interval = _open_text(low, high)
    if number == interval == NOT_REACHED:
        return NOT_REACHED
    closed = low > 0 and not math.isinf(high)
    return f"{number} [{low:.2f}, {high:.2f}]" if closed else f"{number} [{interval}]"


def _open_text(low: float, high: float) -> str:
    if low > 0 and not math.isinf(high):
        return f"{low:.2f} to {high:.2f}"
    if low > 0:
        return f"≥{low:.2f}"
    return NOT_REACHED if math.isinf(high) else f"≤{high:.2f}"


def cost_grid(
    results: Results, curves: Curves, repeats: Collection[int], rows: Sequence[Sequence[LabelsNeeded]] | None = None
) -> Grid:
    """Labels to the hardest target that all reach, beside the seconds of a whole run, for each strategy.

    `rows` is the output of `labels_needed`, if it was computed already.
    """
    rows = labels_needed(curves) if rows is None else rows
    by_target = [{one.strategy: one for one in column} for column in zip(*rows, strict=True)]
    reached = [column for column in by_target if not any(math.isinf(one.labels[1]) for one in column.values())]
    needed: dict[str, LabelsNeeded] = next(reversed(reached or by_target), {})
    target = next((one.target for one in needed.values()), None)
    seconds = seconds_of_runs(results, curves, repeats)
    reference = reference_of(curves)
    labels = () if target is None else (f"labels to {curves.measure.text(target)}", f"of {reference}")

    def row(name: str) -> tuple[str, ...]:
        one = needed.get(name)
        found = () if one is None else (_labels_text(one, curves.schedule), _ratio_text(one) or "reference")
        return (name, *(found or ("",) * len(labels)), *map(_seconds_text, seconds[name]))

    ordered = [name for name in by_area(curves) if name != CEILING and name in seconds]
    contestants = [name for name in ordered if role_of(name, curves.values) is Role.CONTESTANT]
    return Grid(
        f"{curves.dataset}: what it costs",
        ("strategy", *labels, *SECONDS.values(), "all (s)"),
        tuple(map(row, contestants)),
        apart=tuple(row(name) for name in ordered if name not in contestants),
        notes=tuple(_notes_on_seconds(results, curves)),
    )


def _notes_on_seconds(results: Results, curves: Curves) -> list[str]:
    devices = ", ".join(sorted({name for name in results.timings["device"].to_pylist() if name}))
    together = max((n or 1 for n in results.timings["together"].to_pylist()), default=1)
    at_once = (
        f"{count_of(together, 'model was', 'models were')} trained at once"
        + (", and their time was divided evenly. " if together > 1 else ". ")
    )  # fmt: skip
    return [
        f"Seconds of one run to {curves.schedule[-1]:,} labels, the mean of {count_of(curves.repeats, 'repetition')}"
        + (f", on {devices}." if devices else "."),
        f"{at_once}On a machine shared with other work seconds are unfair: compare them only where nothing else ran.",
    ]


def seconds_of_runs(results: Results, curves: Curves, repeats: Collection[int]) -> dict[str, tuple[float, ...]]:
    """The seconds of a run for choosing, predicting, training and all three: means over repetitions."""
    table = results.timings
    kept = pc.and_(
        pc.is_in(table["repeat"], pa.array(sorted(repeats), table["repeat"].type)),
        pc.is_in(table["labels"], pa.array(curves.schedule, table["labels"].type)),
    )
    sums = table.filter(kept).group_by("strategy").aggregate([(column, "sum") for column in SECONDS]).to_pylist()
    found = {}
    for one in sums:
        parts = [(one[f"{column}_sum"] or 0.0) / max(1, len(repeats)) for column in SECONDS]
        if one["strategy"] in curves.values:
            found[one["strategy"]] = (*parts, sum(parts))
    return found


def _seconds_text(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.3g}"


def needed_tables(curves: Curves, rows: Sequence[Sequence[LabelsNeeded]], width: int = 100) -> list[Table]:
    """Labels needed, for a terminal this wide: one table, or one for each target; the notes are below the last."""
    whole = needed_grid(curves, rows)
    if width_of(whole, NAME_WIDTHS[-1]) <= width or len(rows[0]) < 2:
        return [as_rich(whole, NAME_WIDTHS[-1])]
    parts = [needed_grid(curves, [[row[i]] for row in rows]) for i in range(len(rows[0]))]
    parts = [*(replace(part, notes=()) for part in parts[:-1]), replace(parts[-1], notes=whole.notes)]
    return [as_rich(part, NAME_WIDTHS[-1]) for part in parts]
