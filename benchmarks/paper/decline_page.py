"""The tables and figures of `docs/paper-late-decline.md`, from the kept files.

    python benchmarks/paper/decline_page.py                    # fills in the tables, draws docs/images/decline-*.png

A table stands between `<!-- table NAME -->` and `<!-- end -->`. Half-widths are those of 95 % intervals. With ten
repetitions they are Student's. With fewer, the deviation is pooled over all variants at that state or budget, since
two or three numbers do not tell their own.
"""

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from claims import declared
from decline_report import Record, Values, by_variant, differences, gain, read, table
from text_claims import CONFIRMED, UNDECIDED, p_of, verdict_on

from understudy.experiments.results import Results
from understudy.experiments.statistics import (
    half_width,
    holm_correction,
    paired_difference,
    pooled_deviation,
    round_off,
)

sys.path.append(str(Path(__file__).parents[1]))  # what pages share lives there
from page_tables import signed

RULES: Final = declared().rules
ROOT: Final = Path(__file__).parents[2]
KEPT: Final = Path(__file__).parent / "results" / "decline"
WIDTHS: Final = ROOT / "benchmarks" / "default" / "results" / "decline-cifar100-modern"
PAGE: Final = ROOT / "docs" / "paper-late-decline.md"
POOL: Final = "cifar100_resnet50_pca256"
DECIDED_FROM: Final = RULES.decided_from  # repetitions; fewer decide nothing
STATES: Final = (("random", 600), ("literal", 1000), ("random", 2000), ("literal", 2000), ("literal", 4000))
SETS: Final = {
    "cifar100-modern": "CIFAR-100, modern head",
    "cifar100-paper": "CIFAR-100, paper's head",
    "tiny_imagenet-paper": "Tiny-ImageNet, paper's head",
    "cifar10-paper": "CIFAR-10, paper's head",
    "fashion_mnist-paper": "FashionMNIST, paper's head",
}
LEVERS: Final = {
    "Rivals": ("margin", "badge", "random", "typiclust", "entropy"),
    "One part alone": ("influence", "influence, others only", "uncertainty"),
    "P": ("P=pool", "uniform", "P=0.75", "P=0.9"),
    "u²": ("u2=least_confidence", "u2=margin", "u2=margin_rank"),
    "Both": ("u2=margin, P=0.5", "u2=margin, P=0.9", "u2=margin, P=1"),
    "Basis": ("K=1000", "K=2000", "K=4000", "K=2000, influence", "u2=margin, K=2000", "renewed"),
    "Input kernel": (
        "width=0.25", "width=1", "width=2", "width=1, influence", "width=1, u2=margin", "on=hidden",
        "on=hidden, influence", "u2=margin, on=hidden",
    ),
    "Output kernel": ("sigma_f=sqrt(C)", "sigma_f=1", "sigma_f=1, V of learner"),
    "Link, labels": ("link=simplex", "link=logit", "blind"),
}  # fmt: skip
SWITCHES: Final = (
    "literal", "literal>margin@2000", "literal>random@2000", "margin>literal@2000", "random", "badge", "entropy",
    "influence", "P=pool", "u2=margin", "u2=margin, P=0.9",
)  # fmt: skip


# -- differences ------------------------------------------------------------------------------------------------------


def pooled(values: Values, reference: str) -> tuple[float, int]:
    """The deviation of paired differences over all variants of enough repetitions, and its degrees of freedom."""
    return pooled_deviation(list(differences(values, name, reference).values()) for name in values if name != reference)


def pooled_half_width(values: Values, reference: str, n: int) -> float:
    """That of the interval of a mean of n differences, by the deviation of all variants."""
    deviation, freedom = pooled(values, reference)
    return half_width(deviation, n, freedom)


def cell(found: Sequence[float], half: float) -> str:
    """A mean with its half-width; in bold where 0 lies outside and there are enough repetitions; with n where not."""
    if not len(found):
        return ""
    mean = float(np.mean(found))
    shown = f"{signed(mean)} ± {half:.2f}"
    if np.isnan(half):
        shown = signed(mean)
    elif abs(mean) > half and len(found) >= DECIDED_FROM:
        shown = f"**{shown}**"
    return shown + (f" ({len(found)})" if len(found) < DECIDED_FROM else "")


# -- tables -----------------------------------------------------------------------------------------------------------


class Kept:
    """All the kept files."""

    def __init__(self, folder: Path = KEPT) -> None:
        groups = read(sorted(file for file in folder.glob("*.json") if file.name != "curves.json"))
        self.one_round = groups[POOL, "modern", "one round"]
        self.one_round_cpu = groups.get((POOL, "modern", "one round on the CPU"), [])
        self.paths = groups[POOL, "modern", "paths"]
        self.slow_paths = groups[POOL, "paper_slow", "paths"]
        self.curves: dict[str, Any] = json.loads((folder / "curves.json").read_text())

    def gains(self, state: tuple[str, int], cpu: bool = False) -> Values:
        return by_variant(at_state(self.one_round_cpu if cpu else self.one_round, state), gain)

    def lever(self, name: str, state: tuple[str, int], reference: str = "literal") -> tuple[list[float], float]:
        """How much more a round by this variant brings than one by the reference, by repetition; and the half-width.

        Repetitions that the GPU did not reach come from the CPU, where reference and variant were played too.
        """
        here = self.gains(state)
        found = differences(self.gains(state, cpu=True), name, reference) | differences(here, name, reference)
        return list(found.values()), pooled_half_width(here, reference, len(found)) if found else float("nan")

    def curve(self, experiment: str, name: str, reference: str) -> tuple[np.ndarray, np.ndarray]:
        """Mean difference at each budget in points, and its half-width."""
        accuracy = self.curves[experiment]["accuracy"]
        found = 100 * (np.array(accuracy[name]) - np.array(accuracy[reference]))
        return found.mean(0), half_width(found.std(0, ddof=1), len(found))


def at_state(records: list[Record], state: tuple[str, int]) -> list[Record]:
    return [record for record in records if (record["state"], record["labels"]) == state]


def curves_table(kept: Kept) -> str:
    """The paper's method and others, ten repetitions, as differences."""
    schedule = kept.curves["cifar100-modern"]["schedule"][1:]
    wanted = [(key, "surrogate", "margin") for key in SETS]
    wanted += [("cifar100-modern", *pair) for pair in (
        ("surrogate", "badge"), ("surrogate", "random"), ("surrogate_influence", "random"),
        ("surrogate_uncertainty", "random"), ("surrogate_uniform", "surrogate"), ("surrogate_blind", "surrogate"),
    )]  # fmt: skip
    wanted.append(("tiny_imagenet-paper", "surrogate", "random"))
    wanted += [("cifar100-paper", "typiclust", "margin"), ("tiny_imagenet-paper", "typiclust", "margin")]
    wanted += [("cifar10-paper", f"surrogate_{part}", "margin") for part in ("influence", "uncertainty")]
    rows = []
    for key, name, reference in wanted:
        means, halves = kept.curve(key, name, reference)
        numbers = [cell([mean] * 10, half) for mean, half in zip(means[1:], halves[1:], strict=True)]
        rows.append([SETS[key], f"`{name}` − `{reference}`", *numbers])
    return table(["data", "difference", *(f"{budget:,}" for budget in schedule)], rows)


def levers_table(kept: Kept) -> str:
    """What a round brings beyond the literal method's, from each state."""
    rows = []
    for group, names in LEVERS.items():
        for i, name in enumerate(names):
            rows.append([group if not i else "", f"`{name}`", *(cell(*kept.lever(name, state)) for state in STATES)])
    heads = [f"{labels:,} labels, {kind}" for kind, labels in STATES]
    return table(["", "one round by", *heads], rows)


def paths_table(records: list[Record], names: Sequence[str], reference: str = "margin") -> str:
    """Accuracy along whole paths minus the reference's."""
    budgets = sorted({record["labels"] for record in records})[1:]
    at = {b: by_variant([r for r in records if r["labels"] == b], lambda r: 100 * r["accuracy"]) for b in budgets}

    def shown(name: str, budget: int) -> str:
        found = list(differences(at[budget], name, reference).values())
        if not np.any(found):
            return "0"
        return cell(found, pooled_half_width(at[budget], reference, len(found)))

    most = [max(len(found) for found in at[budget].values()) for budget in budgets]
    heads = [f"{budget:,} (n = {n})" for budget, n in zip(budgets, most, strict=True)]
    return table(["path", *heads], [[f"`{name}`", *(shown(name, budget) for budget in budgets)] for name in names])


def inside_table(kept: Kept, name: str = "literal") -> str:
    """What the surrogate weighs and can resolve at the start of each round, and where that round's picks lie."""
    gauges = {"P": "P", "u1 lead": "lead of u¹", "explained": "explained", "g left": "of it left"}
    picks = {"right": "right", "mendable": "mendable", "to labelled": "to labelled"}
    rows = []
    for labels in sorted({record["labels"] for record in kept.paths}):
        own = [r for r in kept.paths if (r["variant"], r["labels"]) == (name, labels) and r.get("gauges")]
        if own:
            means = [np.mean([record["pool accuracy"] for record in own])]
            means += [np.mean([record["gauges"][-1][key] for record in own]) for key in gauges]
            means += [np.mean([record["picks"][key] for record in own]) for key in picks]
            rows.append([f"{labels:,}", *(f"{mean:.2f}" for mean in means)])
    return table(["labels", "pool accuracy", *gauges.values(), *picks.values()], rows)


def picks_table(kept: Kept) -> str:
    """Where a round's picks lie, early and late."""
    names = ("literal", "influence", "entropy", "margin", "badge", "random", "K=2000", "width=2", "u2=margin, P=0.9")
    keys = ("neighbours", "to labelled", "apart", "right", "mendable")
    states = (("random", 600), ("literal", 2000), ("literal", 4000))
    rows = []
    for name in names:
        row = [f"`{name}`"]
        for state in states:
            own = [record["picks"] for record in at_state(kept.one_round, state) if record["variant"] == name]
            row.append(" / ".join(f"{np.mean([picks[key] for picks in own]):.2f}" for key in keys) if own else "")
        rows.append(row)
    return table([" / ".join(keys), *(f"{labels:,} labels, {kind}" for kind, labels in states)], rows)


def resolution_table(kept: Kept) -> str:
    """What the basis explains and how the choice fares: 2,000 labels of the literal method, 1,000 picks."""
    state = ("literal", 2000)
    rows = []
    for name in ("literal", "K=1000", "K=2000", "K=4000", "width=0.25", "width=1", "width=2", "on=hidden", "renewed"):
        own = [r for r in at_state(kept.one_round, state) if r["variant"] == name and r["repeat"] == 0]
        means = [np.mean([r["gauges"][0][key] for r in own]) for key in ("explained", "g left", "u1 lead")]
        means += [np.mean([r["picks"][key] for r in own]) for key in ("neighbours", "to labelled")]
        found, half = kept.lever(name, state)
        rows.append([f"`{name}`", *(f"{mean:.2f}" for mean in means), "0" if name == "literal" else cell(found, half)])
    return table(["", "explained", "of it left", "lead of u¹", "neighbours", "to labelled", "gain − literal's"], rows)


# -- verdicts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Suspect:
    """What might be the cause, the comparison that speaks for or against it, and what it is then called."""

    what: str
    compared: str
    at: str
    values: Sequence[float]  # points, one a repetition
    named: str  # where the difference is decided
    level: bool = False  # the claim is that there is none


LEVEL: Final = 0.5  # points, as in claims.json


def suspects(kept: Kept) -> list[Suspect]:
    """All of them, those that were run as whole curves in ten repetitions by these."""

    def whole(name: str, reference: str, experiment: str = "cifar100-modern") -> list[float]:
        accuracy = kept.curves[experiment]["accuracy"]
        return [100 * (one[-1] - other[-1]) for one, other in zip(accuracy[name], accuracy[reference], strict=True)]

    def width(value: str) -> list[float]:
        found = Results.open(WIDTHS).curves(["surrogate", f"surrogate(width={value})"])
        return list(100 * (found.of(f"surrogate(width={value})") - found.of("surrogate"))[:, -1])

    def path(name: str, reference: str, labels: int = 3000) -> list[float]:
        at = by_variant([r for r in kept.paths if r["labels"] == labels], lambda r: 100 * r["accuracy"])
        return list(differences(at, name, reference).values())

    def late_round(name: str, reference: str = "literal") -> list[float]:
        return kept.lever(name, ("literal", 2000), reference)[0]

    end, three, late = "whole curves to 5,000 labels", "whole paths to 3,000 labels", "a round from 2,000 labels"
    return [
        Suspect("early labels", "`literal>margin@2000` − `margin`", three, path("literal>margin@2000", "margin"),
                "not a cause", level=True),
        Suspect("late choice, after its own labels", "`literal` − `literal>margin@2000`", three,
                path("literal", "literal>margin@2000"), "where it happens"),
        Suspect("late choice, after margin's labels", "`margin>literal@2000` − `margin`", three,
                path("margin>literal@2000", "margin"), "where it happens"),
        Suspect("width 0.5 of the input kernel", "width 1.0 − 0.5", end, width("1.0"), "a cause"),
        Suspect("", "width 1.3 − 0.5", end, width("1.3"), "a cause"),
        Suspect("K = 500", "`K=1000` − `literal`", late, late_round("K=1000"), "a cause"),
        Suspect("", "`K=2000` − `literal`", late, late_round("K=2000"), "a cause"),
        Suspect("P stands still", "`surrogate_uniform` − `surrogate`", end, whole("surrogate_uniform", "surrogate"),
                "contributes"),
        Suspect("", "the same with the paper's head", end, whole("surrogate_uniform", "surrogate", "cifar100-paper"),
                "contributes"),
        Suspect("", "`P=pool` − `literal`", three, path("P=pool", "literal"), "contributes"),
        Suspect("entropy as u²", "`u2=margin` − `literal`", three, path("u2=margin", "literal"), "contributes"),
        Suspect("", "`u2=margin, P=0.9` − `literal`", three, path("u2=margin, P=0.9", "literal"), "contributes"),
        Suspect("`link`", "`link=simplex` − `literal`", late, late_round("link=simplex"), "not a cause", level=True),
        Suspect("", "`link=logit` − `literal`", late, late_round("link=logit"), "not a cause", level=True),
        Suspect("labels within the round", "`surrogate_blind` − `surrogate`", end,
                whole("surrogate_blind", "surrogate"), "not a cause", level=True),
        Suspect("sigma_f", "`sigma_f=sqrt(C)` − `literal`", late, late_round("sigma_f=sqrt(C)"), "not a cause",
                level=True),
        Suspect("u¹ of the row itself", "`influence, others only` − `influence`", late,
                late_round("influence, others only", "influence"), "not a cause", level=True),
        Suspect("kernel on the learner's features", "`on=hidden` − `literal`", late, late_round("on=hidden"),
                "a cause"),
        Suspect("basis renewed at each training", "`renewed` − `literal`", late, late_round("renewed"), "a cause"),
        Suspect("the modern head", "`surrogate` − `margin` with the paper's head", end,
                whole("surrogate", "margin", "cifar100-paper"), "not a cause: behind with the other too"),
    ]  # fmt: skip


def verdicts_table(kept: Kept) -> str:
    """Every suspect by the rules of the claims: an interval of its own, signed ranks, Holm over this table."""
    found = suspects(kept)
    samples = [round_off(np.array(one.values)) for one in found]
    enough = [i for i, values in enumerate(samples) if len(values) >= DECIDED_FROM]
    p = [p_of(samples[i], LEVEL if found[i].level else None) for i in enough]
    corrected = dict(zip(enough, holm_correction(np.array(p)).tolist(), strict=True))
    rows = []
    for i, (one, values) in enumerate(zip(found, samples, strict=True)):
        difference = paired_difference(values)
        interval = "" if difference.interval is None else " [{}, {}]".format(*map(signed, difference.interval))
        verdict = verdict_on(difference.interval, LEVEL if one.level else None, corrected.get(i))
        if verdict != UNDECIDED:
            words = f"**{one.named}**" if verdict == CONFIRMED or not one.level else "**a cause**"
        else:
            apart = difference.interval is not None and not difference.interval[0] < 0 < difference.interval[1]
            few = f", n = {len(values)}" if i not in corrected else ""
            words = UNDECIDED + few + (", though the interval leaves out 0" if apart and not few else "")
        shown = f"{corrected[i]:.3f}" if i in corrected else ""
        rows.append(
            [one.what, one.compared, one.at, f"{signed(difference.mean)}{interval}", str(len(values)), shown, words]
        )
    return table(["suspect", "compared", "on", "difference", "n", "p (Holm)", "verdict"], rows)


TABLES: Final[dict[str, Callable[[Kept], str]]] = {
    "curves": curves_table,
    "levers": levers_table,
    "switches": lambda kept: paths_table(kept.paths, SWITCHES),
    "early": lambda kept: paths_table(
        [record for record in kept.paths if record["labels"] <= 1000],
        ("margin", "K=2000", "width=1", "on=hidden", "renewed", "link=simplex", "sigma_f=1", "blind", "uniform"),
        "literal",
    ),
    "slow": lambda kept: paths_table(
        kept.slow_paths, ("literal", "badge", "random", "entropy", "influence", "u2=margin")
    ),
    "inside": inside_table,
    "picks": picks_table,
    "resolution": resolution_table,
    "verdicts": verdicts_table,
}


def filled(page: str, kept: Kept) -> str:
    """The page with its tables made anew."""

    def made(found: re.Match[str]) -> str:
        return f"<!-- table {found[1]} -->\n{TABLES[found[1]](kept)}<!-- end -->"

    return re.sub(r"<!-- table (\w+) -->\n.*?<!-- end -->", made, page, flags=re.DOTALL)


def main() -> None:
    from decline_figures import draw_levers, draw_paths

    kept = Kept()
    if PAGE.exists():
        PAGE.write_text(filled(PAGE.read_text(), kept))
    draw_paths(kept, ROOT / "docs" / "images" / "decline-paths.png")
    draw_levers(kept, ROOT / "docs" / "images" / "decline-levers.png")


if __name__ == "__main__":
    main()
