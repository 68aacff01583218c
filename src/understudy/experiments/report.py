"""The report of a comparison: one page that opens without a network, its figures, and its tables."""

import json
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jinja2

from understudy.data.files import write_atomically
from understudy.data.pool import Dataset
from understudy.data.sources import load
from understudy.errors import UnderstudyError
from understudy.experiments import picked, tables
from understudy.experiments.chance import never_left_chance
from understudy.experiments.curves import CEILING, CONTROLS, SELECTION_ONLY, Curves, standing
from understudy.experiments.headline import Headline, headline
from understudy.experiments.results import Results, file_name
from understudy.experiments.sections import SECTIONS, Material, Section
from understudy.experiments.styles import COLOURS, Look, series
from understudy.messages import count_of, install_command

PAGE: Final = "report.html"
SIGNS: Final = dict(zip("os^DvPX><*pdh1+|_", "●■▲◆▼✚✖▶◀★⬟♦⬢⅄+|–", strict=True))  # markers as letters
NO_FIGURES: Final = f"Figures need matplotlib: {install_command('plot')}, then run the report again."


def write_report(results: Results, dataset: Dataset | None = None) -> Path:
    """DIR/report.html, figures/ and tables/ of a comparison, finished or not; with the data set its items too."""
    for name in ("figures", "tables"):
        try:
            (results.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnderstudyError(f"cannot write to {results.folder}: {error.strerror}; make room there") from error
    said, chips = None, []
    sections: list[Section] = []
    missing: list[str] = []
    curves, notes = comparable(results)
    if curves is not None:
        pool, why = picked.pool_of(results, dataset)
        repeats = repeats_of(results, curves)
        ended = tuple(_ended_early(results, curves))
        material = Material(results, curves, repeats, results.ceiling(repeats), pool, can_draw(), ended)
        notes += [NO_FIGURES] * (not material.draws)
        said = headline(curves, material.ceiling)
        made = [make(material) for make in SECTIONS]
        sections = [one for one in made if isinstance(one, Section) and one]
        missing = list(dict.fromkeys([*[why] * bool(why), *(one for one in made if isinstance(one, str))]))
        chips = [_chip(name, look) for name, look in material.looks.items()]
        _write_tables(results.folder / "tables", sections)
    page = rendered(results, said, notes, sections, chips, missing)
    write_atomically(results.folder / PAGE, page.encode("utf-8", "replace"))
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
        settings=settings(results),
        commands=commands(results),
    )


def _chip(name: str, look: Look) -> dict[str, Any]:
    colour = f"colour-{COLOURS.index(look.colour)}" if look.colour in COLOURS else "faded"
    return {"name": name, "series": series(name), "colour": colour, "sign": SIGNS[look.marker], "strong": look.strong}


# What there is to compare


def comparable(results: Results) -> tuple[Curves | None, list[str]]:
    """The curves of the contestants that make the largest paired table, and what has to be said of the others.

    Context and systems that change training are shown beside them if they have all of that table.
    """
    there = results.strategies
    names = [name for name in there if standing(name, there) == 0]
    if not names:
        return None, ["There is nothing to compare yet: only the learner with all labels is finished."]
    ended = _finished(results, names)
    best: list[str] = []
    most = 0
    for least in sorted({len(runs) for runs in ended.values()} - {0}):
        kept = [name for name in names if len(ended[name]) >= least]
        size = len(kept) * len(set.intersection(*(ended[name] for name in kept)))
        if size > most:
            best, most = kept, size
    try:
        curves = results.curves(best or names)  # where nobody has come to the end yet: as far as all have come
    except UnderstudyError as error:
        return None, [*_missing_runs(results, ()), f"There is nothing to compare yet: {error}."]
    for name in there:
        system = standing(name, there) == 1 and name + SELECTION_ONLY in curves.accuracy
        if name != CEILING and (name in CONTROLS or system):
            curves = _with_beside(results, curves, name)
    order = [name for name in there if name in curves.accuracy]
    stuck = [line for line in [never_left_chance(results)] if line]
    return curves.only(order), [*stuck, *_missing_runs(results, order), *_unused(curves, ended)]


def _with_beside(results: Results, curves: Curves, name: str) -> Curves:
    """The curves and one more, unless that would leave fewer budgets or repetitions."""
    try:
        wider = results.curves([*curves.accuracy, name])
    except UnderstudyError:
        return curves
    same = wider.schedule == curves.schedule and wider.repeats == curves.repeats
    return wider if same else curves


def repeats_of(results: Results, curves: Curves) -> tuple[int, ...]:
    """Which repetitions the rows of the curves are."""
    columns = (results.table[name].to_pylist() for name in ("strategy", "repeat", "labels"))
    there = set(zip(*columns, strict=True))
    return tuple(
        repeat
        for repeat in sorted({repeat for _, repeat, _ in there})
        if all((name, repeat, at) in there for name in curves.accuracy for at in curves.schedule)
    )


def _ended_early(results: Results, curves: Curves) -> list[Curves]:
    """The curves of those who came to no end in any repetition, each as far as it came."""
    there = results.strategies
    out = [name for name in there if standing(name, there) == 0 and name not in curves.accuracy]
    found = [results.curves([name]) for name, runs in _finished(results, out).items() if not runs]
    return [one for one in found if len(one.schedule) > 1 and one.schedule[-1] < curves.schedule[-1]]


def _finished(results: Results, names: Iterable[str]) -> dict[str, set[int]]:
    """The repetitions of each strategy that came to the end of the schedule."""
    table = results.table.select(["strategy", "repeat", "labels"]).to_pylist()
    last = _last_budget(results)
    return {
        name: {one["repeat"] for one in table if one["strategy"] == name and one["labels"] == last} for name in names
    }


def _last_budget(results: Results) -> int:
    own = [_budgets_of(results, name)[-1] for name in results.strategies if name != CEILING]
    return int(results.settings.get("plan", {}).get("schedule", [max(own, default=0)])[-1])


def _budgets_of(results: Results, name: str) -> list[int]:
    columns = (results.table[column].to_pylist() for column in ("strategy", "labels"))
    return sorted({labels for strategy, labels in zip(*columns, strict=True) if strategy == name})


def _missing_runs(results: Results, compared: Collection[str]) -> list[str]:
    """Who failed, who has too few repetitions and is left out, and what is still to be done; a line each."""
    wanted, there = int(results.settings.get("repeats", 0)), results.strategies
    names = dict.fromkeys([*results.settings.get("strategies", ()), *there])
    ended = _finished(results, [name for name in names if name != CEILING])
    notes, left_out, waiting = [], [], []
    for name, runs in ended.items():
        spec = name.removesuffix(SELECTION_ONLY)
        out = bool(compared) and name in there and name not in compared and name not in CONTROLS
        if len(runs) >= wanted or standing(name, there) == 1:
            continue
        if traces := _traces_of(results.folder, spec, runs):
            notes.append(f"{spec} failed, with {len(runs)} of {wanted} repetitions done; why is in {traces[0]}.")
        elif out and runs:
            left_out.append(f"{spec} has {len(runs)} of {wanted} repetitions")
        elif out:
            furthest = (
                f"{spec} got no further than {_budgets_of(results, name)[-1]:,} of {_last_budget(results):,} labels"
            )
            notes.append(f"{furthest}, so it is not compared; its curve is drawn as far as it goes.")
        else:
            waiting.append(f"{spec} {len(runs)} of {wanted}")
    if left_out:
        whom = "it" if len(left_out) == 1 else "them"
        notes.append(f"Left out: {'; '.join(left_out)}; --repeats {wanted} to compare {whom}.")
    if waiting:
        notes.append(f"Unfinished, in repetitions: {'; '.join(waiting)}. The same command goes on.")
    return notes


def _unused(curves: Curves, ended: Mapping[str, Collection[int]]) -> list[str]:
    """That some repetitions are finished but not compared, since not all strategies have them."""
    more = [name for name in curves.accuracy if len(ended.get(name, ())) > curves.repeats]
    if not more:
        return []
    return [
        f"{count_of(curves.repeats, 'repetition')} compared, those that all strategies have; further ones of "
        f"{', '.join(more)} are finished and not used."
    ]


def _traces_of(folder: Path, name: str, done: Collection[int]) -> list[Path]:
    """The files that say why a strategy failed, of repetitions that have not been finished since."""
    start = f"{file_name(name)}-"
    found = sorted((folder / "errors").glob("*.txt"))
    return [
        path
        for path in found
        if path.name.startswith(start) and (number := path.stem[len(start) :]).isdecimal() and int(number) not in done
    ]


# Words about the experiment


def _facts(results: Results) -> list[str]:
    """What was compared on, a few words each."""
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


def settings(results: Results) -> list[tuple[str, str]]:
    """Every setting, and what the numbers were made with."""
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
