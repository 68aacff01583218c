"""From the kept results of `strategies.py` to sentences: on the strategies' own pages, and in the README here."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from understudy.strategies.listing import module_of
from understudy.strategies.registry import STRATEGIES

ROOT: Final = Path(__file__).parents[1]
KEPT: Final = ROOT / "benchmarks" / "results" / "strategies.json"
PAGES: Final = ROOT / "docs" / "strategies"
README: Final = ROOT / "benchmarks" / "README.md"
MARK: Final = "<!-- measured -->"
TABLE: Final = ("<!-- strategies -->", "<!-- end of strategies -->")
OURS: Final = "understudy"
WORDS: Final = {1: "one thread", 2: "two threads", 4: "four threads"}

Row = dict[str, Any]
Report = dict[str, Any]


def load(file: Path = KEPT) -> Report:
    report: Report = json.loads(file.read_text())
    return report


def names_of(page: str) -> list[str]:
    return [name for name in STRATEGIES if module_of(name) == page]


# -- a row of the results ---------------------------------------------------------------------------------------------


def rows_of(report: Report, name: str, who: str = OURS) -> list[Row]:
    """What was measured of a strategy, fewest classes first."""
    found = [row for row in report["results"] if row["name"] == name and row["who"] == who]
    return sorted(found, key=lambda row: int(row["classes"]))


def pick_ms(row: Row) -> float:
    """Milliseconds a pick in the largest batch that came to its end."""
    return 1e3 * row["seconds"][-1] / row["picks"][-1]


def further_ms(row: Row) -> float | None:
    """Milliseconds of each further pick, from two batches."""
    if len(row["picks"]) < 2:
        return None
    (few, many), (short, long) = row["picks"], row["seconds"]
    return 1e3 * max(0.0, long - short) / (many - few)


def fixed_s(row: Row) -> float | None:
    """Seconds that a call takes however few rows are picked."""
    further = further_ms(row)
    return None if further is None else max(0.0, row["seconds"][0] - row["picks"][0] * further / 1e3)


def times_ours(ours: Row, peer: Row) -> tuple[float, int] | None:
    """How many times as long the peer takes, in the largest batch that both have finished, and that batch."""
    both = [n for n in ours["picks"] if n in peer["picks"]]
    if not both:
        return None
    n = both[-1]
    return peer["seconds"][peer["picks"].index(n)] / ours["seconds"][ours["picks"].index(n)], n


def number(value: float) -> str:
    """Two digits or so: nobody's machine is more alike."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def memory(mebibytes: float) -> str:
    if mebibytes < 1:
        return "less than 1 MiB"
    return f"{number(mebibytes)} MiB" if mebibytes < 1000 else f"{mebibytes / 1024:.1f} GiB"


# -- sentences --------------------------------------------------------------------------------------------------------


def sentence(report: Report, name: str) -> str:
    """What a pick of this strategy costs, in one sentence."""
    rows = rows_of(report, name)
    if not rows:
        raise KeyError(f"{name} is not in the kept results; run `make bench-strategies`")
    first, *others = rows
    if not first["picks"]:
        return f"`{name}`: not measured, {first['failure']}."
    text = f"`{name}`: {number(pick_ms(first))} ms a pick, {first['picks'][-1]} at a time"
    further, fixed = further_ms(first), fixed_s(first)
    if further is not None and fixed is not None:
        text += f" ({number(fixed)} s at the start, {number(further)} ms for each)"
    if "setup_s" in first:
        text += f" after {number(first['setup_s'])} s to set up, once a pool"
    text += f", and {memory(first['peak_mib'])} at the peak"
    for row in others:
        text += f"; with {row['classes']} classes "
        text += f"{number(pick_ms(row))} ms and {memory(row['peak_mib'])}" if row["picks"] else row["failure"]
    if first["failure"]:
        text += f"; more at a time: {first['failure']}"
    if first["settings"]:
        text += f"; shortened: {first['settings']}"
    if first["note"]:  # how it was measured, if not like the others
        text += f"; {first['note']}"
    return text + "."


def line_for(report: Report, page: str) -> str:
    """The line that stands below the mark on a page."""
    about = report["about"]
    threads = WORDS.get(about["threads"], f"{about['threads']} threads")
    told = " ".join(sentence(report, name) for name in names_of(page))
    return (
        f"Measured on {about['rows']:,} rows of {about['columns']} columns with {about['labelled']} labelled, "
        f"{about['classes'][0]} classes, {threads}, the selection alone: {told}"
    )


def pages() -> dict[str, Path]:
    """The pages of all strategies there are."""
    return {page: PAGES / f"{page}.md" for page in sorted({module_of(name) for name in STRATEGIES})}


def below_mark(text: str) -> str:
    """The line that follows the mark; nothing where none was written yet."""
    if text.count(f"\n{MARK}\n") != 1:
        raise ValueError(f"a strategy's page has one line {MARK}")
    return text.split(f"\n{MARK}\n")[1].split("\n")[0]


def with_line(text: str, line: str) -> str:
    """The page with this line below the mark, in place of the one that is there."""
    old = below_mark(text)
    after = f"{old}\n" if old else ""
    return text.replace(f"\n{MARK}\n{after}", f"\n{MARK}\n{line}\n")


def write_pages(report: Report) -> Iterator[Path]:
    for page, file in pages().items():
        file.write_text(with_line(file.read_text(), line_for(report, page)))
        yield file
    README.write_text(with_table(README.read_text(), "\n".join(table(report))))
    yield README


# -- the README's table -----------------------------------------------------------------------------------------------


def table(report: Report) -> Iterable[str]:
    """A row a strategy and number of classes, with what its peers took beside."""
    yield "| strategy | classes | picks | start | a pick | peak | peers, ms a pick | best peer / ours |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in STRATEGIES:
        for row in rows_of(report, name):
            yield f"| `{name}` | {row['classes']} | {' | '.join(cells(report, row))} |"


def cells(report: Report, row: Row) -> list[str]:
    if not row["picks"]:
        return ["", "", row["failure"], "", "", ""]
    fixed = fixed_s(row)
    best = best_peer(report, row)
    return [
        str(row["picks"][-1]) + (f" ({row['settings']})" if row["settings"] else ""),
        f"{number(row['setup_s'])} s once" if "setup_s" in row else "" if fixed is None else f"{number(fixed)} s",
        f"{number(pick_ms(row))} ms",
        memory(row["peak_mib"]),
        "; ".join(peer_cell(row, peer) for peer in peers_of(report, row)),
        "" if best is None else number(best[0]) + ("" if best[1] == row["picks"][-1] else f" at {best[1]} picks"),
    ]


def peers_of(report: Report, ours: Row) -> list[Row]:
    same = (ours["name"], ours["classes"])
    return [row for row in report["results"] if (row["name"], row["classes"]) == same and row["who"] != OURS]


def best_peer(report: Report, ours: Row) -> tuple[float, int] | None:
    """The fastest peer's time over ours, at the largest batch that any of them has finished with us."""
    found = [ratio for peer in peers_of(report, ours) if (ratio := times_ours(ours, peer))]
    if not found:
        return None
    largest = max(n for _, n in found)
    return min(ratio for ratio in found if ratio[1] == largest)


def peer_cell(ours: Row, peer: Row) -> str:
    if not peer["picks"]:
        return f"{peer['who']} {peer['failure']}"
    at = "" if peer["picks"][-1] == ours["picks"][-1] else f" at {peer['picks'][-1]} picks"
    failed = f", then {peer['failure']}" if peer["failure"] else ""
    return f"{peer['who']} {number(pick_ms(peer))}{at}{failed}, {memory(peer['peak_mib'])}"


def with_table(text: str, lines: str) -> str:
    before, rest = text.split(TABLE[0])
    return f"{before}{TABLE[0]}\n{lines}\n{TABLE[1]}{rest.split(TABLE[1])[1]}"
