"""The tables of docs/default-method.md, from the kept results: figures on the page are those of the files.

    python benchmarks/default/default_page.py    # writes the tables into the page

The area of a curve is that over the labels, in `nothing` that over their logarithm, so that the first doublings count.
Intervals are of paired differences (95 %, t); p is Wilcoxon's, corrected by Holm for the number of rivals.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from understudy.experiments.curves import Curves
from understudy.experiments.results import Results
from understudy.experiments.statistics import (
    MIN_REPEATS_TESTED,
    SIGNIFICANCE_LEVEL,
    holm_correction,
    log_area,
    paired_difference,
    round_off,
    signed_rank_p,
)

sys.path.append(str(Path(__file__).parents[1]))  # what pages share lives there
from page_tables import fill_tables, markdown_table, signed

HERE: Final = Path(__file__).parent
KEPT: Final = HERE / "results"
PAGE: Final = HERE.parents[1] / "docs" / "default-method.md"
OURS: Final = "understudy"
SETS: Final = {
    "fashion_mnist": "FashionMNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "tiny_imagenet": "Tiny-ImageNet",
}
CONDITIONS: Final = {
    "cifar100-imbalanced": "CIFAR-100, classes 20:1, balanced accuracy",
    "fashion_mnist-imbalanced": "FashionMNIST, classes 20:1, balanced accuracy",
    "cifar100-wrong": "CIFAR-100, 10 % wrong answers",
    "fashion_mnist-wrong": "FashionMNIST, 10 % wrong answers",
    "reviews": "movie reviews (texts), 2 classes",
    "fashion_pixels": "FashionMNIST, pixels as features",
    "cifar100-rows1000": "CIFAR-100, a pool of 1,000",
    "fashion_mnist-rows1000": "FashionMNIST, a pool of 1,000",
}


def curves_of(experiment: str) -> Curves | None:
    """The curves of all strategies that were played to the end; None where the experiment was not played."""
    folder = KEPT / experiment
    if not (folder / "experiment.json").exists():
        return None
    results = Results.open(folder)
    rounds: dict[str, set[int]] = {}
    for strategy, labels in zip(*(results.table[name].to_pylist() for name in ("strategy", "labels")), strict=True):
        rounds.setdefault(strategy, set()).add(labels)
    last = max(max(labels) for labels in rounds.values())
    return results.curves([name for name, labels in rounds.items() if last in labels])


def areas_of(curves: Curves, log: bool) -> dict[str, np.ndarray]:
    return {name: log_area(curves, name) if log else curves.area(name) for name in curves.accuracy}


def points(differences: np.ndarray) -> str:
    found = paired_difference(100 * differences)
    low, high = found.interval or (np.nan, np.nan)
    return f"{signed(found.mean)} [{signed(low)}, {signed(high)}]"


def verdict_beside(areas: Mapping[str, np.ndarray], rivals: Sequence[str], p: np.ndarray, to: int) -> str:
    """Whether ours is ahead of all: an interval above 0 and a small p, of each rival; and to how many labels."""
    n = len(areas[OURS])
    if signed_rank_p(np.arange(1.0, n + 1)) >= SIGNIFICANCE_LEVEL:  # the smallest that so many can have
        return f"undecided to {to:,} labels: n = {n}"
    sure = dict(zip(rivals, p < SIGNIFICANCE_LEVEL, strict=True))
    found = {name: paired_difference(areas[OURS] - areas[name]).interval or (np.nan, np.nan) for name in rivals}
    behind = [f"`{name}`" for name, (_, high) in found.items() if sure[name] and high < 0]
    ahead = [name for name, (low, _) in found.items() if sure[name] and low > 0]
    if behind:
        return f"behind {', '.join(behind)} to {to:,} labels"
    if len(ahead) == len(rivals):
        return f"ahead of all to {to:,} labels"
    return f"ahead of {len(ahead)} of {len(rivals)} to {to:,} labels"


def leading(experiments: Mapping[str, str], log: bool = False) -> str:
    """Ours beside the best rival of each experiment: areas, the difference, and the budget where it is least ahead."""
    rows = []
    for experiment, title in experiments.items():
        curves = curves_of(experiment)
        if curves is None:
            continue
        areas = areas_of(curves, log)
        rivals = [name for name in areas if name != OURS]
        best = max(rivals, key=lambda name: float(areas[name].mean()))
        p = holm_correction(np.array([signed_rank_p(round_off(areas[OURS] - areas[name])) for name in rivals]))
        tested = f"{p.max():.3f}" if curves.repeats >= MIN_REPEATS_TESTED else "-"
        # All share the first budget, unless each chose its own rows.
        first = 0 if log else 1
        gaps = {
            at: (name := max(rivals, key=lambda one: float(curves.of(one)[:, i].mean())),
                 100 * float((curves.of(OURS)[:, i] - curves.of(name)[:, i]).mean()))
            for i, at in enumerate(curves.schedule)
            if i >= first
        }  # fmt: skip
        least = min(gaps, key=lambda at: gaps[at][1])
        rows.append([
            title, f"{100 * areas[OURS].mean():.2f}", f"`{best}` {100 * areas[best].mean():.2f}",
            points(areas[OURS] - areas[best]), tested,
            f"{signed(gaps[least][1])} at {least:,} (`{gaps[least][0]}`)", str(curves.repeats),
            verdict_beside(areas, rivals, p, curves.schedule[-1]),
        ])  # fmt: skip
    heads = ["", "area", "best rival", "difference", "largest p", "least ahead of the best there", "n", "verdict"]
    return markdown_table(heads, rows)


def of_study(study: str) -> dict[str, str]:
    heads = {"modern": "modern head", "paper": "paper's head"}
    return {f"{study}-{name}-{head}": f"{SETS[name]}, {heads[head]}" for head in heads for name in SETS}


def curves() -> str:
    return leading(of_study("curves"))


def nothing() -> str:
    return leading(of_study("nothing"), log=True)


def long() -> str:
    return leading(of_study("long"))


def conditions() -> str:
    trainings = {
        f"conditions-{name}-rows{rows}-modern-every{labels}": f"{SETS[name]}, a training {wording}"
        for labels, rows, wording in (
            (1, 5000, "after every label"),
            (10, 20000, "every 10"),
            (100, 20000, "every 100"),
            (1000, 20000, "every 1,000"),
        )
        for name in ("cifar100", "fashion_mnist")
    }
    networks = {"network-fashion_pixels-images-resnet18": "FashionMNIST images, ResNet18 end to end"}
    return leading({f"conditions-{name}-modern": title for name, title in CONDITIONS.items()} | trainings | networks)


def budgets(experiments: Mapping[str, str], shown: Sequence[str]) -> str:
    """Mean accuracies at every budget."""
    parts = []
    for experiment, title in experiments.items():
        found = curves_of(experiment)
        if found is None:
            continue
        ordered = sorted(found.accuracy, key=lambda name: -float(areas_of(found, True)[name].mean()))
        best = {at: max(float(found.of(name)[:, i].mean()) for name in ordered) for i, at in enumerate(found.schedule)}
        rows = []
        for name in ordered:
            if name not in shown:
                continue
            means = [float(value) for value in found.of(name).mean(0)]
            cells = [f"**{100 * m:.1f}**" if np.isclose(m, best[at]) else f"{100 * m:.1f}"
                     for at, m in zip(found.schedule, means, strict=True)]  # fmt: skip
            rows.append([f"`{name}`", *cells])
        parts.append(f"**{title}**\n\n" + markdown_table(["", *(f"{at:,}" for at in found.schedule)], rows))
    return "\n\n".join(parts)


SHOWN: Final = (
    OURS, "uherding", "max_herding", "typiclust", "drop_query", "badge", "margin", "entropy", "coreset", "surrogate",
    "random", "bait_binary(subset_size=5000)",
)  # fmt: skip


def first_labels() -> str:
    return budgets({name: title for name, title in of_study("nothing").items() if name.endswith("modern")}, SHOWN)


def all_budgets() -> str:
    return budgets(of_study("curves"), SHOWN)


def longest_budgets() -> str:
    return budgets(of_study("long"), SHOWN)


def ablations() -> str:
    """Each option changed alone: the difference of areas to the default."""
    found = {
        "CIFAR-100": curves_of("ablations-cifar100-held_out-modern"),
        "FashionMNIST": curves_of("ablations-fashion_mnist-held_out20000-modern"),
    }
    names = list(dict.fromkeys(name for one in found.values() if one is not None for name in one.accuracy))
    rows = []
    for name in names:
        cells = []
        for one in found.values():
            if one is None or name not in one.accuracy:
                cells.append("not played to the end")
            elif name == OURS:
                cells.append(f"{100 * one.area(name).mean():.2f}")
            else:
                cells.append(points(one.area(name) - one.area(OURS)))
        rows.append([f"`{name}`", *cells])
    rows[1:] = sorted(rows[1:])
    return markdown_table(["", *found], rows)


def decline() -> str:
    """The paper's method as whole paths with other widths, beside it and ours."""
    paths, ours = curves_of("decline-cifar100-modern"), curves_of("curves-cifar100-modern")
    assert paths is not None
    assert ours is not None
    accuracy = {**paths.accuracy, **{name: ours.of(name) for name in ("margin", "badge", OURS)}}
    rows = []
    for name, values in accuracy.items():
        cells = [f"{100 * value:.1f}" for value in values.mean(0)]
        against = "" if name == "margin" else points(values[:, -1] - accuracy["margin"][:, -1])
        rows.append([f"`{name}`", *cells, against])
    return markdown_table(["", *(f"{at:,}" for at in paths.schedule), "minus `margin` at the end"], rows)


TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "curves": curves,
    "nothing": nothing,
    "first labels": first_labels,
    "long": long,
    "conditions": conditions,
    "ablations": ablations,
    "decline": decline,
    "all budgets": all_budgets,
    "longest budgets": longest_budgets,
}


if __name__ == "__main__":
    PAGE.write_text(fill_tables(PAGE.read_text(), TABLES))
    print(PAGE)
