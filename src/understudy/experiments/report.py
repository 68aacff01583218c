"""The report of a comparison: one page that opens without a network, its figures, and its tables."""

import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import jinja2

from understudy.data.pool import Dataset
from understudy.data.sources import load
from understudy.errors import UnderstudyError
from understudy.experiments import picked, tables
from understudy.experiments.curves import Curves
from understudy.experiments.headline import Headline, headline
from understudy.experiments.looks import COLOURS, Look, looks, series
from understudy.experiments.results import CEILING, CONTROLS, OFTEN, Results, write_whole
from understudy.experiments.sections import SECTIONS, Material, Section
from understudy.experiments.tables import plural

PAGE: Final = "report.html"
SIGNS: Final = dict(zip("os^DvPX><*pdh1+", "●■▲◆▼✚✖▶◀★⬟♦⬢⅄+", strict=True))  # markers as letters
NO_FIGURES: Final = "Figures need matplotlib: pip install 'understudy[plot]', then run the report again."


def write_report(results: Results, dataset: Dataset | None = None) -> Path:
    """DIR/report.html, figures/ and tables/ of a comparison, finished or not; with the data set its items too."""
    for name in ("figures", "tables"):
        try:
            (results.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnderstudyError(f"cannot write to {results.folder}: {error.strerror}; make room there") from error
    notes = unfinished(results)
    said, sections, chips = None, [], []
    curves, left_out = comparable(results)
    notes += left_out
    if curves is not None:
        pool, why = picked.pool_of(results, dataset)
        material = Material(results, curves, results.ceiling(), pool, can_draw())
        notes += [why] * bool(why)
        notes += [NO_FIGURES] * (not material.draws)
        said = headline(curves, material.ceiling)
        sections = [section for make in SECTIONS if (section := make(material))]
        chips = [chip(name, look) for name, look in looks(material.ranked).items()]
        write_tables(results.folder / "tables", sections)
    page = rendered(results, said, notes, sections, chips)
    write_whole(results.folder / PAGE, page.encode("utf-8", "replace"))
    return results.folder / PAGE


def source_of(results: Results, data: str | None = None) -> Dataset | None:
    """The data set of a comparison: what is given, else where it came from; None if it is no longer there."""
    if data is not None:
        return load(data)
    try:
        return load(results.settings["source"])
    except (KeyError, UnderstudyError, OSError):
        return None


def can_draw() -> bool:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def rendered(
    results: Results, said: Headline | None, notes: Sequence[str], sections: Sequence[Section], chips: Sequence[Any]
) -> str:
    loader = jinja2.PackageLoader("understudy", "experiments")
    page = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return page.get_template("report.html.jinja").render(
        dataset=results.table["dataset"][0].as_py(),
        headline=said,
        facts=facts(results),
        notes=notes,
        sections=sections,
        chips=chips,
        settings=settings(results),
        commands=commands(results),
    )


def chip(name: str, look: Look) -> dict[str, Any]:
    colour = f"colour-{COLOURS.index(look.colour)}" if look.colour in COLOURS else "faded"
    return {"name": name, "series": series(name), "colour": colour, "sign": SIGNS[look.marker], "strong": look.strong}


# What there is to compare


def comparable(results: Results) -> tuple[Curves | None, list[str]]:
    """The curves of the strategies that make the largest paired table, and who had to be left out."""
    names = [name for name in results.strategies if name != CEILING]
    if not names:
        return None, ["There is nothing to compare yet: only the learner with all labels is finished."]
    ended = finished(results, names)
    best: list[str] = []
    most = 0
    for least in sorted({len(runs) for runs in ended.values()} - {0}):
        kept = [name for name in names if len(ended[name]) >= least]
        size = len(kept) * len(set.intersection(*(ended[name] for name in kept)))
        if size > most and contestants_in(kept):
            best, most = kept, size
    try:
        if not best:  # nobody has come to the end yet: as far as all have come
            return results.curves(names), []
        out = [name for name in names if name not in best]
        notes = [f"Left out of all comparisons, since unfinished: {', '.join(out)}."] if out else []
        return results.curves(best), notes
    except UnderstudyError as error:
        return None, [f"There is nothing to compare yet: {error}."]


def contestants_in(names: Iterable[str]) -> bool:
    return any(name not in (OFTEN, CEILING) for name in names)


def finished(results: Results, names: Iterable[str]) -> dict[str, set[int]]:
    """The repetitions of each strategy that came to the end of the schedule."""
    table = results.table.select(["strategy", "repeat", "labels"]).to_pylist()
    own = {one["labels"] for one in table if one["strategy"] != CEILING}
    last = results.settings.get("plan", {}).get("schedule", [max(own, default=0)])[-1]
    return {
        name: {one["repeat"] for one in table if one["strategy"] == name and one["labels"] == last} for name in names
    }


def unfinished(results: Results) -> list[str]:
    """What is still to be done, a line."""
    wanted = int(results.settings.get("repeats", 0))
    names = dict.fromkeys([*results.settings.get("strategies", ()), *results.strategies])
    ended = finished(results, [name for name in names if name != CEILING])
    missing = [f"{name} {len(runs)} of {wanted}" for name, runs in ended.items() if len(runs) < wanted]
    return [f"Unfinished, in repetitions: {'; '.join(missing)}. The same command goes on."] if missing else []


# Words about the experiment


def facts(results: Results) -> list[str]:
    """What was compared on, a few words each."""
    plan = results.settings.get("plan", {})
    out = [results.table["dataset"][0].as_py()]
    for key, what in (("pool_rows", "rows to choose from"), ("test_rows", "to test on")):
        if key in plan:
            out.append(f"{plan[key]:,} {what}")
    if plan.get("classes"):
        out.append(
            plural(len(plan["classes"]), "class") if len(plan["classes"]) == 1 else f"{len(plan['classes'])} classes"
        )
    if "learner" in plan:
        out.append(f"learner {plan['learner']}")
    if "protocol" in results.settings:
        out.append(str(results.settings["protocol"]))
    return out


def settings(results: Results) -> list[tuple[str, str]]:
    """Every setting, and what the numbers were made with."""
    given = {**results.settings.get("plan", {}), **{k: v for k, v in results.settings.items() if k != "plan"}}
    rows = [(name.replace("_", " "), in_words(value)) for name, value in given.items()]
    for name in sorted({name for text in set(results.timings["versions"].to_pylist()) for name in versions(text)}):
        seen = {versions(text).get(name, "?") for text in set(results.timings["versions"].to_pylist())}
        rows.append((f"version of {name}", ", ".join(sorted(seen))))
    rows.append(("computed on", ", ".join(sorted(set(results.timings["device"].to_pylist())))))
    ends = results.timings["finished"].to_pylist()
    rows.append(("first and last round", f"{min(ends)} to {max(ends)}"))
    return [(name, value) for name, value in rows if value]


def versions(text: str | None) -> dict[str, str]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def in_words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and value > 9999 else str(value)


def commands(results: Results) -> list[str]:
    """What to type for the same numbers and the same page."""
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
    head += [] if set(CONTROLS) & set(results.strategies) else ["--no-controls"]
    return [shlex.join([*head, *parts]), shlex.join(["understudy", "report", folder])]


# Tables as files


def write_tables(folder: Path, sections: Iterable[Section]) -> None:
    """Every table of the page in Markdown and LaTeX."""
    for section in sections:
        for number, grid in enumerate(section.grids):
            stem = section.key if number == 0 else f"{section.key}-{number + 1}"
            write_whole(folder / f"{stem}.md", tables.as_markdown(grid).encode())
            write_whole(folder / f"{stem}.tex", tables.as_latex(grid).encode())
