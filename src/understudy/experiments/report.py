"""The report of a comparison: a self-contained page that opens offline, its figures, and its tables."""

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup
from rich.table import Table

from understudy.data.pool import Dataset
from understudy.data.sources import load
from understudy.errors import UnderstudyError
from understudy.experiments import cost_tables, picks, tables
from understudy.experiments.charts import chart_data, chart_set
from understudy.experiments.conditions import PICKS_OF
from understudy.experiments.curves import CONTROLS, ORACLE
from understudy.experiments.figure_files import NO_FIGURES, has_matplotlib, make_folders, write_tables
from understudy.experiments.headline import headline
from understudy.experiments.labels_needed import labels_needed
from understudy.experiments.metrics import ACCURACY
from understudy.experiments.pages import DRAWS, SORTS, chips_of, write_page
from understudy.experiments.plan import regime_of
from understudy.experiments.report_sections import SECTIONS, Material, Section, by_another_metric
from understudy.experiments.results import Results
from understudy.experiments.summary import Summary, summarise
from understudy.messages import count_of

PAGE: Final = "report.html"


def publish(
    results: Results,
    data: str | None = None,
    width: int = 100,
    metrics: Sequence[str] = (ACCURACY,),
    targets: Sequence[float] | None = None,
) -> Iterator[Table | str]:
    """Write the report of a comparison; yield what a terminal of this width shows: table, notes, and the page's path.

    The tables come first, since figures take a while: one for each of `metrics`. `data` is where the data set is, if it
    has moved. With `targets`, values of the first metric, there is also a table of the labels needed for them.
    """
    summaries = [summarise(results, metric) for metric in metrics]
    for one in summaries:
        if (found := one.findings) is not None:
            yield tables.comparison_table(
                found.curves, ceiling=found.ceiling, comparisons=found.comparisons, width=width, failed=found.failed
            )
    if targets is not None and (found := summaries[0].findings) is not None:
        yield from cost_tables.needed_tables(found.curves, labels_needed(found.curves, targets), width)
    yield from summaries[0].notes
    dataset = find_dataset(results, data)
    yield f"report: {write_report(results, dataset, summary=summaries[0], targets=targets, others=summaries[1:])}"


def write_report(
    results: Results,
    dataset: Dataset | None = None,
    *,
    summary: Summary | None = None,
    with_figures: bool | None = None,
    targets: Sequence[float] | None = None,
    others: Sequence[Summary] = (),
) -> Path:
    """Write DIR/report.html, figures/ and tables/ of a comparison, finished or not; with the data set, its items too.

    `summary` is the output of `summarise`, if it was computed already or is by another metric than accuracy; `others`
    are summaries by further metrics, whose tables are added. `targets` are values of the metric for which the labels
    needed are given. Figures are drawn if matplotlib
    is installed, unless `with_figures` says otherwise.
    """
    summary = summarise(results) if summary is None else summary
    make_folders(results.folder)
    said, chips, notes, charts = None, [], list(summary.notes), Markup()
    sections: list[Section] = []
    missing: list[str] = []
    if summary.findings is not None:
        pool, why = picks.pool_of(results, dataset)
        draws = has_matplotlib() if with_figures is None else with_figures
        material = Material(results, summary.findings, pool, draws, targets)
        notes += [NO_FIGURES] * (not draws)
        said = headline(summary.findings)
        made = [make(material) for make in SECTIONS]
        made += [by_another_metric(one.findings) for one in others if one.findings is not None]
        sections = [one for one in made if isinstance(one, Section) and one]
        missing = list(dict.fromkeys([*[why] * bool(why), *(one for one in made if isinstance(one, str))]))
        chips = chips_of(material.styles)
        charts = chart_data(
            [chart_set(results, summary.findings, summary.findings.curves.dataset)],
            material.styles,
            summary.findings.reference,
            summary.findings.curves.metric,
        )
        write_tables(results.folder / "tables", [(one.key, one.grids) for one in sections])
    return write_page(
        results.folder / PAGE,
        "report.html.jinja",
        DRAWS if charts else SORTS,
        title=f"{results.table['dataset'][0].as_py()}: what to label next",
        dataset=results.table["dataset"][0].as_py(),
        headline=said,
        facts=_facts(results),
        notes=notes,
        sections=sections,
        metric_title="" if summary.findings is None else summary.findings.curves.measure.title,
        chips=chips,
        missing=missing,
        settings=_settings_rows(results),
        commands=commands_to_repeat(results, _shown_as(summary, others, targets)),
        chart_data=charts,
    )


def find_dataset(results: Results, data: str | None = None) -> Dataset | None:
    """The data set of a comparison: from `data`, else from its original source; None if it is no longer there."""
    if data is not None:
        return load(data)
    try:
        return load(results.settings["source"])
    except (KeyError, UnderstudyError, OSError):
        return None


# The settings in words


def _facts(results: Results) -> list[str]:
    """What the comparison was run on, in short phrases."""
    plan = results.settings.get("plan", {})
    out = [results.table["dataset"][0].as_py()]
    for key, what in (("pool_rows", "rows to choose from"), ("test_rows", "to test on")):
        if key in plan:
            out.append(f"{plan[key]:,} {what}")
    if plan.get("classes"):
        out.append(count_of(plan["classes"], "class", "classes"))
    if "learner" in plan:
        out.append(f"learner {plan['learner']}")
    if "protocol" in results.settings:
        out.append(str(results.settings["protocol"]))
    out += regime_of(plan).describe()
    if plan.get("start") == 0:
        out.append("first rows not shared")
    if plan.get("predictions"):
        out.append(f"from the predictions of {results.settings.get('predictions_from', plan['predictions'])}")
    return out


def _settings_rows(results: Results) -> list[tuple[str, str]]:
    """Every setting, and the versions and devices that the results were made with."""
    given = {**results.settings.get("plan", {}), **{k: v for k, v in results.settings.items() if k != "plan"}}
    rows = [(name.replace("_", " "), _in_words(value)) for name, value in given.items()]
    for name in sorted({name for text in set(results.timings["versions"].to_pylist()) for name in _versions(text)}):
        seen = {_versions(text).get(name, "?") for text in set(results.timings["versions"].to_pylist())}
        rows.append((f"version of {name}", ", ".join(sorted(seen))))
    rows.append(("computed on", ", ".join(sorted(set(results.timings["device"].to_pylist())))))
    ends = results.timings["finished"].to_pylist()
    rows.append(("first and last round", f"{min(ends)} to {max(ends)}"))
    return [(name, value) for name, value in rows if value]


def _versions(text: str | None) -> dict[str, str]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _in_words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_in_words(one)}" for name, one in value.items())
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and value > 9999 else str(value)


def _shown_as(summary: Summary, others: Sequence[Summary], targets: Sequence[float] | None) -> list[str]:
    """The options of `understudy report` that give this page; none for the page by accuracy."""
    metrics = [one.findings.curves.metric for one in (summary, *others) if one.findings is not None]
    options = ["--metric", ",".join(metrics)] if metrics not in ([], [ACCURACY]) else []
    return [*options, "--reach", ",".join(f"{one:g}" for one in targets)] if targets else options


def commands_to_repeat(results: Results, shown: Sequence[str] = ()) -> list[str]:
    """The commands that reproduce the same numbers and the same page, with these options of `understudy report`."""
    given, plan, folder = results.settings, results.settings.get("plan", {}), str(results.folder)
    parts = ["--learner", str(plan.get("learner", "modern"))]
    if given.get("device") not in (None, "cpu"):
        parts += ["--device", str(given["device"])]
    if given.get("together", 1) > 1:
        parts += ["--together", str(given["together"])]
    parts += ["--out", folder]
    page = shlex.join(["understudy", "report", folder, *shown])
    if str(given.get("protocol", "")).startswith(PICKS_OF):
        parts += ["--picks", str(given["picks_from"])] if "picks_from" in given else []
        from_where = str(results.folder.parent) if results.folder.name.startswith("replay-") else "DIR"
        return [shlex.join(["understudy", "replay", from_where, *parts]), page]
    head = ["understudy", "compare", str(given.get("source", plan.get("dataset", "")))]
    head += ["--strategies", ",".join(given.get("strategies", results.strategies))]
    head += ["--repeats", str(given.get("repeats", 1)), "--schedule", ",".join(map(str, plan.get("schedule", ())))]
    head += ["--seed", str(plan.get("seed", 0))]
    if plan.get("predictions"):
        head += ["--predictions", str(given.get("predictions_from", plan["predictions"]))]
    else:
        head += ["--start", "0"] if plan.get("start") == 0 else []
    head += [part for name, value in regime_of(plan).texts.items() for part in (f"--{name}", value)]
    head += ["--oracle"] if ORACLE in results.strategies else []
    head += [] if ({*CONTROLS} - {ORACLE}) & {*results.strategies} else ["--no-controls"]
    return [shlex.join([*head, *parts]), page]
