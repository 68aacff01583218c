"""Tables and figures of what `decline.py` found.

    python benchmarks/paper/decline_report.py FILE.json ... --out FOLDER     # FOLDER/decline.md and figures

Files of several processes are put together; those of another pool or learner get tables of their own.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from understudy.experiments.curves import standard_deviation
from understudy.experiments.statistics import paired_differences

Record = dict[str, Any]
Values = dict[str, dict[Any, float]]  # by variant and repetition
REFERENCE: Final = "margin"
# Colours of Okabe and Ito; others are grey.
COLOURS: Final = {
    "literal": "#D55E00",
    "margin": "#0072B2",
    "badge": "#009E73",
    "entropy": "#CC79A7",
    "random": "#555555",
    "influence": "#E69F00",
    "uncertainty": "#56B4E9",
    "u2=margin": "#F0E442",
}
OF_PICKS: Final = (
    "neighbours", "to labelled", "apart", "margin rank", "entropy rank", "right", "learnable", "mendable", "evenness",
)  # fmt: skip
OF_SURROGATE: Final = (
    "P", "u1 share", "u1 lead", "u~u1", "u~u2", "u1 reach", "u2 reach", "u1 cv", "u1 max/median", "explained", "g left",
    "variance left", "trace R", "rank R", "lam of chosen", "g of chosen",
)  # fmt: skip


def read(files: Iterable[Path]) -> dict[tuple[str, str, str], list[Record]]:
    """Records by pool, learner and kind. A record that two files have is taken once.

    Those of a CPU are a kind of their own: the last bits differ from a GPU's, and so do the labels after some rounds.
    """
    found: dict[tuple[str, str, str], dict[tuple[Any, ...], Record]] = defaultdict(dict)
    for file in files:
        report = json.loads(file.read_text())
        about = report["about"]
        kind = about["kind"] + (" on the CPU" if about.get("device", "").startswith("CPU") else "")
        for record in report["records"]:
            key = tuple(record.get(name) for name in ("state", "labels", "picked", "repeat", "variant"))
            found[about["data"], about["learner"], kind].setdefault(key, record)
    return {group: list(records.values()) for group, records in found.items()}


def paired(values: Values, name: str, reference: str = REFERENCE) -> tuple[float, float, int]:
    """Mean difference from the reference over the repetitions that both have, its standard error, and their number."""
    found = differences(values, name, reference)
    if not found:
        return float("nan"), float("nan"), 0
    sample = np.array(list(found.values()))
    return float(sample.mean()), standard_deviation(sample) / len(sample) ** 0.5, len(sample)


def differences(values: Values, name: str, reference: str) -> dict[Any, float]:
    """By repetition, where both have it, in the order of the repetitions."""
    own, other = values.get(name, {}), values.get(reference, {})
    return paired_differences({key: own[key] for key in sorted(own)}, other)


def by_variant(records: Iterable[Record], value: Callable[[Record], float]) -> Values:
    """A number of every record, by variant and repetition."""
    found: dict[str, dict[Any, float]] = defaultdict(dict)
    for record in records:
        found[record["variant"]][record["repeat"]] = value(record)
    return dict(found)


def gain(record: Record) -> float:
    """Points of test accuracy that a round brought, mean over its heads."""
    return 100 * float(np.mean(record["after"]) - np.mean(record["before"]))


def points(mean: float, error: float) -> str:
    """A difference in points, with its standard error where it has one."""
    if np.isnan(mean):
        return ""
    return f"{mean:+.2f}" if np.isnan(error) else f"{mean:+.2f} ± {error:.2f}"


def states_of(records: Iterable[Record]) -> list[tuple[str, int, int]]:
    return list(dict.fromkeys((record["state"], record["labels"], record["picked"]) for record in records))


def variants_of(records: Iterable[Record]) -> list[str]:
    return list(dict.fromkeys(record["variant"] for record in records))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def gains_table(records: list[Record]) -> str:
    """One round from one state: what it brings, and how much more than the reference's."""
    states = states_of(records)
    heads = ["variant", *(f"{n:,} after {labels:,} {kind}" for kind, labels, n in states)]
    values = {
        state: by_variant([r for r in records if (r["state"], r["labels"], r["picked"]) == state], gain)
        for state in states
    }

    def cell(name: str, state: tuple[str, int, int]) -> str:
        own = values[state].get(name)
        if own is None:
            return ""
        shown = f"{np.mean(list(own.values())):.2f}"
        return shown if name == REFERENCE else f"{shown} ({points(*paired(values[state], name)[:2])})"

    def worth(name: str) -> float:
        return -float(np.nanmean([paired(values[state], name)[0] for state in states] or [0.0]))

    rows = [[name, *(cell(name, state) for state in states)] for name in sorted(variants_of(records), key=worth)]
    return table(heads, rows)


def picks_table(records: list[Record], state: tuple[str, int, int]) -> str:
    """Where each variant's picks lie, from one state."""
    here = [r for r in records if (r["state"], r["labels"], r["picked"]) == state]
    others = list(dict.fromkeys(name for record in here for name in record["overlap"]))
    rows = []
    for name in variants_of(here):
        own = [record for record in here if record["variant"] == name]
        numbers = [np.mean([record["picks"][key] for record in own]) for key in OF_PICKS]
        numbers += [np.mean([record["overlap"].get(other, np.nan) for record in own]) for other in others]
        rows.append([name, *(f"{number:.2f}" for number in numbers)])
    rows.append(["*open rows*", "1", "1", "1", "0.5", "0.5", *pool_cells(here), "", *("" for _ in others)])
    return table(["variant", *OF_PICKS, *(f"= {other}" for other in others)], rows)


def pool_cells(records: list[Record]) -> list[str]:
    keys = ("right, pool", "learnable, pool", "mendable, pool")
    return [f"{np.mean([record['picks'][key] for record in records]):.2f}" for key in keys]


def paths_table(records: list[Record]) -> str:
    """Test accuracy along each path in per cent, and the difference from the reference."""
    budgets = sorted({record["labels"] for record in records})
    values = {b: by_variant([r for r in records if r["labels"] == b], lambda r: 100 * r["accuracy"]) for b in budgets}

    def cell(name: str, budget: int) -> str:
        own = values[budget].get(name)
        if own is None:
            return ""
        shown = f"{np.mean(list(own.values())):.1f}"
        return shown if name == REFERENCE else f"{shown} ({points(*paired(values[budget], name)[:2])})"

    rows = [[name, *(cell(name, budget) for budget in budgets)] for name in variants_of(records)]
    return table(["variant", *(f"{budget:,}" for budget in budgets)], rows)


def gauges_table(records: list[Record], name: str) -> str:
    """What the surrogate of one variant weighs and resolves, at each look along its path, mean over repetitions."""
    looks: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for record in records:
        if record["variant"] == name:
            for gauge in record.get("gauges", ()):
                looks[record["labels"], int(gauge["asked"])].append(gauge | {"pool": record["pool accuracy"]})
    rows = []
    for (labels, asked), found in sorted(looks.items()):
        means = [np.mean([gauge[key] for gauge in found]) for key in ("pool", *OF_SURROGATE)]
        rows.append([f"{labels + asked:,}", *(f"{mean:.3g}" for mean in means)])
    return table(["labels", "pool accuracy", *OF_SURROGATE], rows) if rows else ""


def write(groups: dict[tuple[str, str, str], list[Record]], out: Path) -> list[Path]:
    """decline.md and the figures."""
    out.mkdir(parents=True, exist_ok=True)
    page: list[str] = []
    files = [out / "decline.md"]
    for (data, learner, kind), records in sorted(groups.items()):
        repeats = len({record["repeat"] for record in records})
        page.append(f"## {data}, {learner}: {kind}\n\n{repeats} repetitions. In brackets: minus {REFERENCE}, paired.\n")
        figure = out / f"{data}-{learner}-{kind.replace(' ', '-')}.svg"
        if kind.startswith("one round"):
            page.append(gains_table(records))
            for state in states_of(records):
                title = f"{state[2]:,} rows after {state[1]:,} {state[0]} ones"
                page += [f"### {title}: where they lie\n", picks_table(records, state)]
            draw_gains(records, figure)
        else:
            page.append(paths_table(records))
            for name in variants_of(records):
                if gauges := gauges_table(records, name):
                    page += [f"### Inside: {name}\n", gauges]
            draw_paths(records, figure)
        files.append(figure)
    files[0].write_text("\n".join(page))
    return files


# -- figures ----------------------------------------------------------------------------------------------------------


def draw_gains(records: list[Record], out: Path) -> None:
    """Each variant's round minus the reference's: a panel a state."""
    from matplotlib.figure import Figure

    states, names = states_of(records), variants_of(records)
    figure = Figure(figsize=(3.2 * len(states) + 1.6, 0.24 * len(names) + 1.2), layout="constrained")
    panels = figure.subplots(1, len(states), sharey=True, squeeze=False)[0]
    for panel, state in zip(panels, states, strict=True):
        here = by_variant([r for r in records if (r["state"], r["labels"], r["picked"]) == state], gain)
        for place, name in enumerate(reversed(names)):
            mean, error, _ = paired(here, name)
            panel.errorbar(
                mean, place, xerr=np.nan_to_num(error), fmt="o", markersize=4, color=COLOURS.get(name, "#888888")
            )
        panel.axvline(0, color=COLOURS[REFERENCE], linewidth=0.8)
        panel.set_title(f"{state[2]:,} after {state[1]:,} {state[0]}", loc="left", fontsize=9)
        panel.set_xlabel(f"points, minus {REFERENCE}", fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="x", color="#dddddd", linewidth=0.6)
    panels[0].set_yticks(range(len(names)), list(reversed(names)), fontsize=8)
    figure.savefig(out)


def draw_paths(records: list[Record], out: Path) -> None:
    """Left: accuracy minus the reference's along the paths. Right: what the literal method weighs and can resolve."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    budgets = sorted({record["labels"] for record in records})
    for name in variants_of(records):
        curve = []
        for budget in budgets:
            here = by_variant([r for r in records if r["labels"] == budget], lambda r: 100 * r["accuracy"])
            curve.append(paired(here, name)[0])
        known = name in COLOURS
        left.plot(budgets, curve, color=COLOURS.get(name, "#bbbbbb"), linewidth=1.8 if known else 0.9, marker="o",
                  markersize=3.5 if known else 0, label=name, zorder=2 + known)  # fmt: skip
        if not known:
            left.annotate(name, (budgets[-1], curve[-1]), fontsize=5.5, color="#888888")
    left.set_title(f"test accuracy minus {REFERENCE}'s, points", loc="left", fontsize=9)
    left.legend(fontsize=7, frameon=False, ncols=2)
    looks: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record["variant"] == "literal":
            for gauge in record.get("gauges", ()):
                labels = record["labels"] + int(gauge["asked"])
                for key in ("P", "u1 lead", "g left", "trace R", "u~u1", "u~u2"):
                    looks[key][labels].append(gauge[key])
                looks["pool accuracy"][labels].append(record["pool accuracy"])
    for key, found in looks.items():
        right.plot(list(found), [np.mean(values) for values in found.values()], marker=".", linewidth=1.2, label=key)
    right.set_title("inside the literal method", loc="left", fontsize=9)
    if looks:
        right.legend(fontsize=7, frameon=False)
    for panel in (left, right):
        panel.set_xlabel("labels")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="#dddddd", linewidth=0.6)
    figure.savefig(out)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    for file in write(read(options.files), options.out):
        print(file)


if __name__ == "__main__":
    main()
