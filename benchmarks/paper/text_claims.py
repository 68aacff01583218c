"""What the text of the paper says of its results: every statement as a paired comparison, by rules that are fixed here.

    python benchmarks/paper/text_claims.py DIR... [--out benchmarks/paper/results/text_claims.json]

Folders of `understudy compare`, kept ones too; those of the same data set and learner are taken together. A comparison
is the difference of two strategies in points, within a repetition, and its 95 % interval over repetitions:

- early: the mean of the budgets after the first, up to 1,000 labels. At the first nobody has chosen anything yet;
- late: the mean of the budgets from 3,000 on;
- whole: the area under the curve over its width;
- change: late minus early.

Who is said to be ahead must be: the interval lies above 0, and where there are several comparisons and ten repetitions
Wilcoxon's test with Holm's correction agrees. Who is said to be level must be within a margin, the whole interval. On
the other side (for a margin: all of it outside) the answer is no; else it is undecided, and with fewer than five
repetitions always. A statement about several rivals is confirmed if all its comparisons are, and is not if one is not.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from understudy.experiments.curves import area_over_width
from understudy.experiments.results import Results
from understudy.experiments.statistics import (
    EARLY_LABELS,
    MIN_REPEATS_TESTED,
    SIGNIFICANCE_LEVEL,
    holm_correction,
    paired_difference,
    round_off,
    signed_rank_p,
)

LATE: Final = 3000
LEAST: Final = 2000  # labels to which both curves must go before they count as whole
DECIDED_FROM: Final = 5  # repetitions; an interval from two may be narrow by luck
LEVEL, NEGLIGIBLE = 0.5, 0.3  # points
CONFIRMED, NOT, UNDECIDED, MISSING = "confirmed", "not", "undecided", "not measured"
OURS, U1, U2 = "surrogate", "surrogate_influence", "surrogate_uncertainty"
UNIFORM, BLIND = "surrogate_uniform", "surrogate_blind"
RIVALS: Final = ("coreset", "learning_loss", "uncertain_gcn", "core_gcn", "badge", "gradnorm", "weight_schedule")
MANY, ALL = ("cifar100", "tiny_imagenet"), ("fashion_mnist", "cifar10", "cifar100", "tiny_imagenet")
STAGES: Final = ("whole", "early", "late")
LAST: Final = 5000  # labels; curves that end before are told
IN_POINTS: Final = 100


@dataclass(frozen=True)
class Claim:
    """A statement: the first of each pair is ahead of the second, or they are level within a margin."""

    says: str
    sets: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    stages: tuple[str, ...] = ("whole",)
    within: float | None = None
    whose: str = "paper"  # or `ours`: asked beside it


def setting(**given: Any) -> str:
    return f"{OURS}({','.join(f'{name}={value!r}' for name, value in given.items())})"


def against(first: str, others: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((first, other) for other in others)


WIDTH, OUTPUT = 0.5, 10  # the paper's, for ten classes
FLOAT64: Final = {"dtype": "float64"}
CLAIMS: Final = (
    Claim("ours is better than every rival on many classes", MANY, against(OURS, RIVALS), STAGES),
    Claim("ours is better than random (appendix)", ALL, against(OURS, ["random"]), STAGES),
    Claim(
        "on FashionMNIST ours is on par with the best, WS and BADGE",
        ("fashion_mnist",), against(OURS, ["weight_schedule", "badge"]), STAGES, LEVEL,
    ),
    Claim("CoreSet is effective early", ALL, against("coreset", ["random"]), ("early",)),
    Claim("CoreSet declines later (beside random)", ALL, against("random", ["coreset"]), ("change",)),
    Claim("CoreSet declines later (beside WS)", ALL, against("weight_schedule", ["coreset"]), ("change",)),
    Claim(
        "diversity (CoreSet) is better than uncertainty (WS, LearningLoss) on many classes",
        MANY, against("coreset", ["weight_schedule", "learning_loss"]), STAGES,
    ),
    Claim(
        "WS and LearningLoss are strong on FashionMNIST: above CoreSet and random",
        ("fashion_mnist",),
        tuple((a, b) for a in ("weight_schedule", "learning_loss") for b in ("coreset", "random")), STAGES,
    ),
    Claim(
        "BADGE is the best rival early on FashionMNIST",
        ("fashion_mnist",), against("badge", [name for name in RIVALS if name != "badge"]), ("early",),
    ),
    Claim(
        "BADGE is better than pure diversity or uncertainty",
        ALL, against("badge", ["coreset", "weight_schedule", "learning_loss"]),
    ),
    Claim("u1 is better than u2 on CIFAR100", ("cifar100",), ((U1, U2),), STAGES),
    Claim("u1 is better than u2 early on FashionMNIST", ("fashion_mnist",), ((U1, U2),), ("early",)),
    Claim("u2 is better than u1 late on FashionMNIST", ("fashion_mnist",), ((U2, U1),), ("late",)),
    Claim("ours beats u1-only and u2-only", ALL, against(OURS, [U1, U2]), STAGES),
    Claim("a uniform combination is slightly worse", ALL, against(OURS, [UNIFORM])),
    Claim("more basis points than 500 gain next to nothing (0.06)", ("cifar10",),
          tuple((setting(basis_size=k), OURS) for k in (1000, 2000)), ("whole", "early"), NEGLIGIBLE),
    Claim("sigma_x times 0.3 to 8 is negligible", ("cifar10",),
          tuple((setting(width=value), OURS) for value in (0.15, 1, 2, 4)), STAGES, NEGLIGIBLE),
    Claim("sigma_x times less than 0.1 is harmful", ("cifar10",), ((OURS, setting(width=0.015)),), STAGES),
    Claim("sigma_f times 0.3 to 8 is negligible", ("cifar10",),
          tuple((setting(output_width=value), OURS) for value in (3, 20, 40, 80)), STAGES, NEGLIGIBLE),
    Claim("sigma_f times less than 0.1 is harmful", ("cifar10",), ((OURS, setting(output_width=0.3)),), STAGES),
    Claim("sigma^2 from 1e-8 to 1e-12 changes nothing", ("cifar10",),
          tuple((setting(noise=value, **FLOAT64), setting(**FLOAT64)) for value in (1e-8, 1e-9, 1e-11, 1e-12)),
          within=NEGLIGIBLE),
    Claim("fewer basis points than 500 are as good", ("cifar10",),
          tuple((setting(basis_size=k), OURS) for k in (100, 250)), within=NEGLIGIBLE, whose="ours"),
    Claim("sigma_x times 0.1 is harmful", ("cifar10",), ((OURS, setting(width=0.05)),), STAGES, whose="ours"),
    Claim("sigma_f^2 = C or 1 in place of C^2 is negligible", ("cifar10",),
          ((setting(output_width=10**0.5), OURS), (setting(output_width=1), OURS)), within=NEGLIGIBLE, whose="ours"),
    Claim("labels within a round help: ours is better than blind", ALL, against(OURS, [BLIND]), STAGES, whose="ours"),
    Claim("ours is better than margin", ALL, against(OURS, ["margin"]), STAGES, whose="ours"),
    Claim("ours is better than TypiClust", ALL, against(OURS, ["typiclust"]), STAGES, whose="ours"),
)  # fmt: skip
CANNOT: Final = (
    ("ours is better than every rival on Caltech256; WS and LearningLoss above CoreSet there later", "no files of it"),
    ("VAAL and TA-VAAL are behind ours", "they need images, and up to half an hour a round"),
    ("accuracies are higher than in earlier work, since the learner is stronger", "other learners, other images"),
    ("K = 4,000 is as good as 2,000", "too slow for the time on the GPU"),
)


# -- results ----------------------------------------------------------------------------------------------------------

Runs = dict[int, dict[int, float]]  # accuracies by repetition and labels


@dataclass(frozen=True)
class Body:
    """All accuracies of a data set with one learner, by strategy."""

    dataset: str
    learner: str
    runs: dict[str, Runs] = field(default_factory=dict)


def read(folders: Iterable[Path]) -> list[Body]:
    """What the folders hold, those of the same data set and learner together."""
    found: dict[tuple[str, str], Body] = {}
    for folder in folders:
        results = Results.open(folder)
        plan = results.settings["plan"]
        key = plan["dataset"], plan["learner"]
        body = found.setdefault(key, Body(*key))
        columns = (results.table[name].to_pylist() for name in ("strategy", "repeat", "labels", "accuracy"))
        for strategy, repeat, labels, accuracy in zip(*columns, strict=True):
            body.runs.setdefault(strategy, {}).setdefault(repeat, {})[labels] = accuracy
    return list(found.values())


def is_of(body: Body, name: str) -> bool:
    """Whether it is that data set, whatever the features are."""
    return body.dataset == name or body.dataset.startswith(f"{name}_")


def differences(body: Body, ahead: str, behind: str) -> tuple[np.ndarray, np.ndarray] | None:
    """The budgets that both have, and (repeats, budgets): points that the first is ahead. None if nothing is shared."""
    one, other = body.runs.get(ahead), body.runs.get(behind)
    if one is None or other is None:
        return None
    repeats = sorted(set(one) & set(other))
    if not repeats:
        return None
    budgets = sorted(set.intersection(*(set(runs[repeat]) for runs in (one, other) for repeat in repeats)))
    if not budgets:
        return None
    values = [[IN_POINTS * (one[repeat][at] - other[repeat][at]) for at in budgets] for repeat in repeats]
    return np.array(budgets), np.array(values)


def at_stage(stage: str, budgets: np.ndarray, values: np.ndarray) -> np.ndarray | None:
    """One number a repetition; None where the curves do not go so far."""
    chosen = {"early": (budgets > budgets[0]) & (budgets <= EARLY_LABELS), "late": budgets >= LATE}
    if stage == "whole":
        return area_over_width(values, budgets.astype(float)) if budgets[-1] >= LEAST else None
    if stage == "change":
        late, early = (at_stage(part, budgets, values) for part in ("late", "early"))
        return None if late is None or early is None else late - early
    return values[:, chosen[stage]].mean(1) if chosen[stage].any() else None


# -- verdicts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """A difference in points, and what it says of the statement."""

    ahead: str
    behind: str
    mean: float
    interval: tuple[float, float] | None
    repeats: int
    to: int  # labels
    p_holm: float | None
    verdict: str


@dataclass(frozen=True)
class Case:
    """A statement about one data set, learner and stage."""

    says: str
    whose: str
    dataset: str
    learner: str
    stage: str
    within: float | None
    verdict: str
    comparisons: tuple[Comparison, ...]
    missing: tuple[str, ...]


def verdict_on(interval: tuple[float, float] | None, within: float | None, p_holm: float | None) -> str:
    if interval is None:
        return UNDECIDED
    low, high = interval
    if within is not None:
        if -within <= low and high <= within:
            return CONFIRMED
        return NOT if low > within or high < -within else UNDECIDED
    if p_holm is not None and p_holm >= SIGNIFICANCE_LEVEL:
        return UNDECIDED
    return CONFIRMED if low > 0 else NOT if high < 0 else UNDECIDED


def verdict_on_all(verdicts: Sequence[str], missing: Sequence[str]) -> str:
    if not verdicts:
        return MISSING
    if NOT in verdicts:
        return NOT
    return CONFIRMED if set(verdicts) == {CONFIRMED} and not missing else UNDECIDED


def case(claim: Claim, body: Body, dataset: str, stage: str) -> Case:
    found, missing = [], []
    for ahead, behind in claim.pairs:
        shared = differences(body, ahead, behind)
        values = None if shared is None else at_stage(stage, *shared)
        if shared is None or values is None:
            missing.append(lacking(body, ahead, behind))
        else:
            found.append((ahead, behind, round_off(values), int(shared[0][-1])))
    tested = (
        claim.within is None and len(found) > 1 and all(len(values) >= MIN_REPEATS_TESTED for _, _, values, _ in found)
    )
    corrected = (
        holm_correction(np.array([signed_rank_p(values) for _, _, values, _ in found])).tolist() if tested else []
    )
    comparisons = []
    for i, (ahead, behind, values, to) in enumerate(found):
        difference, p = paired_difference(values), corrected[i] if tested else None
        enough = len(values) >= DECIDED_FROM
        verdict = verdict_on(difference.interval, claim.within, p) if enough else UNDECIDED
        comparisons.append(
            Comparison(
                ahead,
                behind,
                mean=difference.mean,
                interval=difference.interval,
                repeats=len(values),
                to=to,
                p_holm=p,
                verdict=verdict,
            )
        )
    whole = verdict_on_all([one.verdict for one in comparisons], missing)
    return Case(
        claim.says,
        claim.whose,
        dataset=dataset,
        learner=body.learner,
        stage=stage,
        within=claim.within,
        verdict=whole,
        comparisons=tuple(comparisons),
        missing=tuple(missing),
    )


def lacking(body: Body, *names: str) -> str:
    """Which of them was not run, or not so far."""
    absent = [name for name in names if name not in body.runs]
    if absent:
        return absent[0]
    return min(names, key=lambda name: max(at for run in body.runs[name].values() for at in run))


def cases(bodies: Sequence[Body], claims: Sequence[Claim] = CLAIMS) -> Iterator[Case]:
    """Every statement on every set that it is about. What was not measured is told for the paper's learner only."""
    ordered = sorted(bodies, key=lambda body: (body.learner != "paper", body.learner))
    for claim in claims:
        for dataset in claim.sets:
            for body in [one for one in ordered if is_of(one, dataset)]:
                for stage in claim.stages:
                    one = case(claim, body, dataset, stage)
                    if one.verdict != MISSING or body.learner == "paper":
                        yield one


# -- words ------------------------------------------------------------------------------------------------------------


def short(name: str) -> str:
    """A strategy in a word: ours without its name, widths as factors of the paper's."""
    if name == OURS:
        return "ours"
    if not name.startswith(f"{OURS}("):
        return name.removeprefix(f"{OURS}_")
    given = dict(part.split("=") for part in name[len(OURS) + 1 : -1].split(","))
    scales = {"width": ("σx", WIDTH), "output_width": ("σf", OUTPUT)}
    for key, (symbol, scale) in scales.items():
        if key in given:
            return f"{symbol} × {float(given[key]) / scale:.3g}"
    words = {"basis_size": "K = ", "noise": "σ² = "}
    return next((word + given[key] for key, word in words.items() if key in given), "float64")


def in_words(one: dict[str, Any]) -> str:
    interval = "" if one["interval"] is None else f" [{one['interval'][0]:+.2f}, {one['interval'][1]:+.2f}]"
    interval += f" to {one['to']:,} labels" if one["to"] < LAST else ""
    return f"{short(one['ahead'])} − {short(one['behind'])}: " + f"{one['mean']:+.2f}{interval}".replace("-", "−")


def cell(found: dict[str, Any], most: int = 2) -> str:
    """The comparisons of a case: the least favourable, and how the others are."""
    ones = found["comparisons"]
    hostile = sorted(ones, key=lambda one: -abs(one["mean"]) if found["within"] is not None else one["mean"])
    text = "; ".join(in_words(one) for one in hostile[:most])
    if len(ones) > most:
        counts = {verdict: sum(one["verdict"] == verdict for one in ones) for verdict in (CONFIRMED, NOT, UNDECIDED)}
        text += f"; of all {len(ones)}: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n)
    repeats = {one["repeats"] for one in ones}
    if repeats and min(repeats) < MIN_REPEATS_TESTED:
        text += f" ({' or '.join(map(str, sorted(repeats)))} repetitions)"
    if found["missing"]:
        text += f"{'; ' if text else ''}not run, or not so far: {', '.join(map(short, found['missing']))}"
    return text


def markdown(report: dict[str, Any], whose: str) -> str:
    lines = ["| statement | set | stage | difference in points, 95 % interval | verdict |", "|---|---|---|---|---|"]
    last = ""
    for one in report["claims"]:
        if one["whose"] != whose:
            continue
        says, last = ("" if one["says"] == last else one["says"]), one["says"]
        dataset = one["dataset"] + ("" if one["learner"] == "paper" else f", {one['learner']}")
        lines.append(f"| {says} | {dataset} | {one['stage']} | {cell(one)} | {one['verdict']} |")
    if whose == "paper":
        lines += [f"| {one['says']} | | | {one['why']} | {MISSING} |" for one in report["cannot"]]
    return "\n".join(lines)


def report_of(bodies: Sequence[Body], claims: Sequence[Claim] = CLAIMS) -> dict[str, Any]:
    rules = {"early_to": EARLY_LABELS, "late_from": LATE, "whole_to_at_least": LEAST, "tested_from": MIN_REPEATS_TESTED}
    cannot = [{"says": says, "why": why} for says, why in CANNOT]
    return {"rules": rules, "claims": [asdict(one) for one in cases(bodies, claims)], "cannot": cannot}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    report = report_of(read(given.folders))
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    print(markdown(report, "paper"))
    print()
    print(markdown(report, "ours"))


if __name__ == "__main__":
    main()
