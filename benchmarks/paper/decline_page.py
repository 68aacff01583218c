"""The tables and figures of `docs/paper-late-decline.md`, from the kept files.

    python benchmarks/paper/decline_page.py                    # fills in the tables, draws docs/images/decline-*.png

A table stands between `<!-- table NAME -->` and `<!-- end -->`. Half-widths are those of 95 % intervals. With ten
repetitions they are Student's. With fewer, the deviation is pooled over all variants at that state or budget, since
two or three numbers do not tell their own.
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from decline_report import Record, Values, by_variant, differences, gain, read, table

from understudy.experiments.statistics import half_width, pooled_deviation

ROOT: Final = Path(__file__).parents[2]
KEPT: Final = Path(__file__).parent / "results" / "decline"
PAGE: Final = ROOT / "docs" / "paper-late-decline.md"
POOL: Final = "cifar100_resnet50_pca256"
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
    """A mean with its half-width; in bold where 0 lies outside; with n where there is one only."""
    if not len(found):
        return ""
    mean = float(np.mean(found))
    shown = f"{mean:+.2f} ± {half:.2f}"
    if np.isnan(half):
        shown = f"{mean:+.2f}"
    elif abs(mean) > half:
        shown = f"**{shown}**"
    return shown + (f" ({len(found)})" if len(found) < 3 else "")


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
