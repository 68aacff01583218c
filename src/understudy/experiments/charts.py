"""Curves as a page draws them itself: their numbers, how each strategy looks, and the scripts that draw them.

Observable Plot draws (`static/plot.js`, bundled by `page/plot`); `static/charts.js` tells it what.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from understudy.errors import UnderstudyError
from understudy.experiments.curves import Curves
from understudy.experiments.metrics import ACCURACY, LEAST_DIFFERENCE, METRICS, Metric
from understudy.experiments.results import Results
from understudy.experiments.statistics import (
    MIN_REPEATS_TESTED,
    contestants,
    half_width,
    holm_correction,
    round_off,
    signed_rank_p,
)
from understudy.experiments.styles import COLOURS, Style, grows_by_ratios, series_class
from understudy.experiments.summary import Findings

DECIMALS: Final = 9  # of the numbers in a page


@dataclass(frozen=True, eq=False)
class ChartSet:
    """The curves of one comparison, by metric, all with the same strategies, budgets and repetitions."""

    title: str
    curves: Mapping[str, Curves]
    ceilings: Mapping[str, np.ndarray] = field(default_factory=dict)
    ended: Mapping[str, Sequence[Curves]] = field(default_factory=dict)  # curves that end before the others


def chart_set(results: Results, found: Findings, title: str) -> ChartSet:
    """The curves of a comparison by every metric that all its rounds have."""
    curves: dict[str, Curves] = {}
    ceilings: dict[str, np.ndarray] = {}
    ended: dict[str, Sequence[Curves]] = {}
    for metric in METRICS:
        try:
            own = found.curves if metric == found.curves.metric else results.curves(list(found.curves.values), metric)
            if any(np.isnan(values).any() for values in own.values.values()):
                continue
            curves[metric] = own
            top = results.ceiling(found.repeats, metric)
            ended[metric] = [results.curves(list(one.values), metric) for one in found.ended_early]
        except UnderstudyError:
            continue
        if top is not None and not np.isnan(top).any():
            ceilings[metric] = top
    return ChartSet(title, curves, ceilings, ended)


def chart_data(sets: Sequence[ChartSet], styles: Mapping[str, Style], reference: str, metric: str = ACCURACY) -> Markup:
    """Everything that the page draws, as JSON that can stand in a script element."""
    shared = [name for name in METRICS if all(name in one.curves for one in sets)]
    shared.sort(key=lambda name: name != metric)  # the one that the page is about first
    known = {
        "metrics": [_metric_as_json(METRICS[name]) for name in shared],
        "styles": {name: {**style_on_page(name, style), **_line_on_page(style)} for name, style in styles.items()},
        "sets": [_set_as_json(one, shared) for one in sets],
        "reference": reference,
        "least": LEAST_DIFFERENCE,
        "critical": {n: half_width(1.0, n) * n**0.5 for one in sets for n in range(2, _repeats(one) + 1)},
    }
    return safe_json(known)


def safe_json(known: Any) -> Markup:
    """As JSON that can stand in a script element, whatever names are in it."""
    text = json.dumps(known, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # no sign is left that HTML knows


def read_script(name: str) -> Markup:
    """A script of the package, to be put into a page."""
    return Markup((files("understudy.experiments") / "static" / name).read_text(encoding="utf-8"))


def style_on_page(name: str, style: Style) -> dict[str, Any]:
    """The class of everything that is drawn for a strategy, and the name of its colour."""
    colour = f"colour-{COLOURS.index(style.colour)}" if style.colour in COLOURS else "faded"
    return {"series": series_class(name), "colour": f"var(--{colour})"}


def _line_on_page(style: Style) -> dict[str, Any]:
    return {"marker": style.marker, "hollow": style.hollow, "dashed": style.dashed, "strong": style.strong}


def _metric_as_json(metric: Metric) -> dict[str, Any]:
    return {
        "name": metric.name,
        "title": metric.title,
        "heading": metric.heading,
        "scale": metric.scale,
        "decimals": metric.decimals,
        "share": metric.is_share,
        "lower": metric.lower_is_better,
        "sign": metric.sign,
    }


def _set_as_json(one: ChartSet, metrics: Iterable[str]) -> dict[str, Any]:
    any_curves = next(iter(one.curves.values()))
    return {
        "title": one.title,
        "schedule": list(any_curves.schedule),
        "log": grows_by_ratios(any_curves.schedule),
        "contestants": list(contestants(any_curves).values),
        "values": {
            metric: {name: _round_values(rows) for name, rows in one.curves[metric].values.items()}
            for metric in metrics
        },
        "ended": {
            metric: {
                name: {"schedule": list(part.schedule), "rows": _round_values(rows)}
                for part in one.ended.get(metric, ())
                for name, rows in part.values.items()
            }
            for metric in metrics
        },
        "ceiling": {metric: _round_values(one.ceilings[metric]) for metric in metrics if metric in one.ceilings},
        "p": {metric: _tests(one.curves[metric]) for metric in metrics} if _repeats(one) >= MIN_REPEATS_TESTED else {},
    }


def _repeats(one: ChartSet) -> int:
    return next(iter(one.curves.values())).repeats


def _tests(curves: Curves) -> dict[str, dict[str, float]]:
    """For each reference the corrected p of every other strategy, as `statistics.compare` has it."""
    areas = {name: curves.area(name) for name in contestants(curves).values}
    found = {}
    for reference in areas:
        others = [name for name in areas if name != reference]
        p = [signed_rank_p(round_off(areas[name] - areas[reference])) for name in others]
        corrected = holm_correction(np.array(p, dtype=float)).tolist()
        found[reference] = dict(zip(others, corrected, strict=True))
    return found


def _round_values(values: np.ndarray) -> Any:
    return np.round(values, DECIMALS).tolist()
