"""The report of a comparison: a self-contained page that opens offline, its figures, and its tables."""

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import jinja2
from rich.table import Table

from understudy.data.files import write_atomically
from understudy.data.pool import Dataset
from understudy.data.sources import load
from understudy.errors import UnderstudyError
from understudy.experiments import picks, tables
from understudy.experiments.curves import CONTROLS
from understudy.experiments.headline import Headline, headline
from understudy.experiments.report_sections import SECTIONS, Material, Section
from understudy.experiments.results import Results
from understudy.experiments.styles import COLOURS, Style, series_class
from understudy.experiments.summary import Summary, summarise
from understudy.messages import count_of, install_command

PAGE: Final = "report.html"
SIGNS: Final = dict(zip("os^DvPX><*pdh1+|_", "●■▲◆▼✚✖▶◀★⬟♦⬢⅄+|–", strict=True))  # markers as characters
NO_FIGURES: Final = f"Figures need matplotlib: {install_command('plot')}, then run the report again."


def publish(results: Results, data: str | None = None, width: int = 100) -> Iterator[Table | str]:
    """Write the report of a comparison; yield what a terminal of this width shows: table, notes, and the page's path.

    The table comes first, since figures take a while. `data` is where the data set is, if it has moved.
    """
    summary = summarise(results)
    if (found := summary.findings) is not None:
        yield tables.comparison_table(found.curves, ceiling=found.ceiling, comparisons=found.comparisons, width=width)
    yield from summary.notes
    yield f"report: {write_report(results, find_dataset(results, data), summary=summary)}"


def write_report(
    results: Results,
    dataset: Dataset | None = None,
    *,
    summary: Summary | None = None,
    with_figures: bool | None = None,
) -> Path:
    """Write DIR/report.html, figures/ and tables/ of a comparison, finished or not; with the data set, its items too.

    `summary` is the output of `summarise`, if it was computed already. Figures are drawn if matplotlib
    is installed, unless `with_figures` says otherwise.
    """
    summary = summarise(results) if summary is None else summary
    for name in ("figures", "tables"):
        try:
            (results.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnderstudyError(f"cannot write to {results.folder}: {error.strerror}; free some space") from error
    said, chips, notes = None, [], list(summary.notes)
    sections: list[Section] = []
    missing: list[str] = []
    if summary.findings is not None:
        pool, why = picks.pool_of(results, dataset)
        draws = _has_matplotlib() if with_figures is None else with_figures
        material = Material(results, summary.findings, pool, draws)
        notes += [NO_FIGURES] * (not draws)
        said = headline(summary.findings)
        made = [make(material) for make in SECTIONS]
        sections = [one for one in made if isinstance(one, Section) and one]
        missing = list(dict.fromkeys([*[why] * bool(why), *(one for one in made if isinstance(one, str))]))
        chips = [_chip(name, style) for name, style in material.styles.items()]
        _write_tables(results.folder / "tables", sections)
    page = _render(results, said, notes, sections, chips, missing)
    write_atomically(results.folder / PAGE, page.encode("utf-8", "replace"))
    return results.folder / PAGE


def find_dataset(results: Results, data: str | None = None) -> Dataset | None:
    """The data set of a comparison: from `data`, else from its original source; None if it is no longer there."""
    if data is not None:
        return load(data)
    try:
        return load(results.settings["source"])
    except (KeyError, UnderstudyError, OSError):
        return None


def _has_matplotlib() -> bool:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def _render(
    results: Results,
    said: Headline | None,
    notes: Sequence[str],
    sections: Sequence[Section],
    chips: Sequence[Any],
    missing: Sequence[str],
) -> str:
    loader = jinja2.PackageLoader("understudy", "experiments")
    page = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return page.get_template("report.html.jinja").render(
        dataset=results.table["dataset"][0].as_py(),
        headline=said,
        facts=_facts(results),
        notes=notes,
        sections=sections,
        chips=chips,
        missing=missing,
        settings=_settings_rows(results),
        commands=commands_to_repeat(results),
    )


def _chip(name: str, style: Style) -> dict[str, Any]:
    colour = f"colour-{COLOURS.index(style.colour)}" if style.colour in COLOURS else "faded"
    return {
        "name": name,
        "series": series_class(name),
        "colour": colour,
        "sign": SIGNS[style.marker],
        "strong": style.strong,
    }


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
    if plan.get("start") == 0:
        out.append("first rows not shared")
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
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and value > 9999 else str(value)


def commands_to_repeat(results: Results) -> list[str]:
    """The commands that reproduce the same numbers and the same page."""
    given, plan, folder = results.settings, results.settings.get("plan", {}), str(results.folder)
    parts = ["--learner", str(plan.get("learner", "modern"))]
    if given.get("device") not in (None, "cpu"):
        parts += ["--device", str(given["device"])]
    if given.get("together", 1) > 1:
        parts += ["--together", str(given["together"])]
    parts += ["--out", folder]
    if str(given.get("protocol", "")).startswith("picks of "):
        from_where = str(results.folder.parent) if results.folder.name.startswith("replay-") else "DIR"
        return [shlex.join(["understudy", "replay", from_where, *parts]), shlex.join(["understudy", "report", folder])]
    head = ["understudy", "compare", str(given.get("source", plan.get("dataset", "")))]
    head += ["--strategies", ",".join(given.get("strategies", results.strategies))]
    head += ["--repeats", str(given.get("repeats", 1)), "--schedule", ",".join(map(str, plan.get("schedule", ())))]
    head += ["--seed", str(plan.get("seed", 0))]
    head += ["--start", "0"] if plan.get("start") == 0 else []
    head += [] if set(CONTROLS) & set(results.strategies) else ["--no-controls"]
    return [shlex.join([*head, *parts]), shlex.join(["understudy", "report", folder])]


# Tables as files


def _write_tables(folder: Path, sections: Iterable[Section]) -> None:
    """Every table of the page in Markdown and LaTeX."""
    for section in sections:
        for number, grid in enumerate(section.grids):
            stem = section.key if number == 0 else f"{section.key}-{number + 1}"
            write_atomically(folder / f"{stem}.md", tables.as_markdown(grid).encode())
            write_atomically(folder / f"{stem}.tex", tables.as_latex(grid).encode())
