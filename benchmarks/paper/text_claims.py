"""What the text of the paper says of its results: every statement as a paired comparison, judged by claims.json.

    python benchmarks/paper/text_claims.py [DIR...] [--out benchmarks/paper/results/text_claims.json] [--new-claims]

claims.json has each statement with its pairs, range, stages, test, family and rule, and claims.sha256 its digest, which
was written before the runs that it judges; the file also names the runs that are older. A file that was changed since
is refused, and so is a report that was judged by another one, unless `--new-claims` says that this is meant.

Folders are those of `understudy compare`, by default all that are kept here; those of the same data set and learner
are taken together. A pair is taken from one folder that has both, unless runs of two folders go further together.

Every verdict says to which number of labels it holds. The statement of the paper goes to 11,000.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from claims import CLAIMS_FILE, OURS, ChangedClaimsError, Claim, Declared, declared, name

from understudy.experiments.curves import area_over_width
from understudy.experiments.results import Results
from understudy.experiments.statistics import holm_correction, paired_difference, round_off, signed_rank_p

sys.path.append(str(Path(__file__).parents[1]))  # what pages share lives there
from page_tables import signed

CONFIRMED, NOT, UNDECIDED, MISSING = "confirmed", "not", "undecided", "not measured"
U1, U2 = "surrogate_influence", "surrogate_uncertainty"
UNIFORM, BLIND = "surrogate_uniform", "surrogate_blind"
MANY, ALL = ("cifar100", "tiny_imagenet"), ("fashion_mnist", "cifar10", "cifar100", "tiny_imagenet")
STAGES: Final = ("whole", "early", "late")
IN_POINTS: Final = 100
WIDTH, OUTPUT = 0.5, 10  # the paper's, for ten classes
USUAL: Final = 10  # repetitions; fewer are told
OLDER: Final = "†"  # marks verdicts on runs that are older than the claims file


DECLARED: Final = declared()
CLAIMS: Final = DECLARED.claims
RULES: Final = DECLARED.rules


def claim_of(which: str) -> Claim:
    (found,) = [one for one in CLAIMS if one.id == which]
    return found


# -- results ----------------------------------------------------------------------------------------------------------

Runs = dict[int, dict[int, float]]  # accuracies by repetition and labels


@dataclass(frozen=True)
class Body:
    """All accuracies of a data set with one learner, by strategy, and by folder."""

    dataset: str
    learner: str
    runs: dict[str, Runs] = field(default_factory=dict)  # of each strategy those that go furthest
    folders: dict[str, dict[str, Runs]] = field(default_factory=dict)
    source: dict[str, str] = field(default_factory=dict)  # the folder of what stands in `runs`


def read(folders: Iterable[Path]) -> list[Body]:
    """What the folders hold, those of the same data set and learner together."""
    found: dict[tuple[str, str], Body] = {}
    for folder in folders:
        results = Results.open(folder)
        plan = results.settings["plan"]
        key = plan["dataset"], plan["learner"]
        body = found.setdefault(key, Body(*key))
        here = body.folders.setdefault(folder.name, {})
        columns = (results.table[name].to_pylist() for name in ("strategy", "repeat", "labels", "accuracy"))
        for strategy, repeat, labels, accuracy in zip(*columns, strict=True):
            here.setdefault(name(strategy), {}).setdefault(repeat, {})[labels] = accuracy
    for body in found.values():
        for folder_name, strategies in body.folders.items():
            for strategy, runs in strategies.items():
                if strategy not in body.runs or reach(runs) > reach(body.runs[strategy]):
                    body.runs[strategy], body.source[strategy] = runs, folder_name
    return list(found.values())


def reach(runs: Runs) -> tuple[int, int]:
    """The last labels, and how many repetitions."""
    return max(at for run in runs.values() for at in run), len(runs)


def kept_folders() -> list[Path]:
    """All comparisons that are kept here."""
    return sorted(file.parent for file in CLAIMS_FILE.parent.glob("*/experiment.json"))


def is_of(body: Body, name: str) -> bool:
    """Whether it is that data set, whatever the features are."""
    return body.dataset == name or body.dataset.startswith(f"{name}_")


def differences(body: Body, ahead: str, behind: str) -> tuple[np.ndarray, np.ndarray] | None:
    """The budgets that both have, and (repeats, budgets): points that the first is ahead. None if nothing is shared."""
    found, _ = paired(body, ahead, behind)
    return found


def paired(body: Body, ahead: str, behind: str) -> tuple[tuple[np.ndarray, np.ndarray] | None, tuple[str, ...]]:
    """The same with the folders it comes from: one that has both, unless one of each goes further."""
    best, where = None, ""
    for folder, strategies in body.folders.items():
        found = difference_of(strategies.get(ahead), strategies.get(behind))
        if found is not None and (best is None or (found[0][-1], len(found[1])) > (best[0][-1], len(best[1]))):
            best, where = found, folder
    across = difference_of(body.runs.get(ahead), body.runs.get(behind))
    if best is not None and (across is None or across[0][-1] <= best[0][-1]):
        return best, (where,)
    return across, tuple(dict.fromkeys(body.source[one] for one in (ahead, behind) if one in body.source))


def difference_of(one: Runs | None, other: Runs | None) -> tuple[np.ndarray, np.ndarray] | None:
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
    chosen = {"early": (budgets > budgets[0]) & (budgets <= RULES.early_to), "late": budgets >= RULES.late_from}
    if stage == "whole":
        return area_over_width(values, budgets.astype(float)) if budgets[-1] >= RULES.whole_to_at_least else None
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
    to: int  # labels, the last that count at this stage
    end: float  # the difference at the last budget that both have
    folders: tuple[str, ...]
    p: float | None  # by signed ranks; None where too few repetitions decide nothing
    p_holm: float | None
    family: int  # how many p it was corrected for
    verdict: str


@dataclass(frozen=True)
class Case:
    """A statement about one data set, learner and stage."""

    id: str
    says: str
    whose: str
    dataset: str
    learner: str
    stage: str
    within: float | None
    claimed_to: int
    verdict: str
    comparisons: tuple[Comparison, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Sample:
    """The differences of one pair at one stage, one a repetition."""

    ahead: str
    behind: str
    values: np.ndarray
    to: int
    end: float
    folders: tuple[str, ...]


def p_of(values: np.ndarray, within: float | None) -> float:
    """By signed ranks, two-sided: of a lead against 0, of a level pair against the ends of the margin."""
    if within is None:
        return signed_rank_p(values)
    upper, lower = signed_rank_p(round_off(values - within)), signed_rank_p(round_off(values + within))
    if abs(values.mean()) <= within:
        return max(upper, lower)
    return upper if values.mean() > 0 else lower


def verdict_on(interval: tuple[float, float] | None, within: float | None, p_holm: float | None) -> str:
    if interval is None or p_holm is None or p_holm >= RULES.significance:
        return UNDECIDED
    low, high = interval
    if within is not None:
        if -within <= low and high <= within:
            return CONFIRMED
        return NOT if low > within or high < -within else UNDECIDED
    return CONFIRMED if low > 0 else NOT if high < 0 else UNDECIDED


def verdict_on_all(verdicts: Sequence[str], missing: Sequence[str]) -> str:
    if not verdicts:
        return MISSING
    if NOT in verdicts:
        return NOT
    return CONFIRMED if set(verdicts) == {CONFIRMED} and not missing else UNDECIDED


def samples_of(claim: Claim, body: Body, stage: str) -> tuple[list[Sample], list[str]]:
    """What was measured of a statement, and which strategies were not run, or not so far."""
    found, missing = [], []
    for ahead, behind in claim.pairs:
        shared, folders = paired(body, ahead, behind)
        values = None if shared is None else at_stage(stage, *shared)
        if shared is None or values is None:
            missing.append(lacking(body, ahead, behind))
            continue
        budgets, points = shared
        to = budgets[budgets <= RULES.early_to][-1] if stage == "early" else budgets[-1]
        found.append(Sample(ahead, behind, round_off(values), int(to), float(points[:, -1].mean()), folders))
    return found, missing


def judged(families: Sequence[Sequence[Sample]], within: float | None) -> Iterator[Comparison]:
    """All samples with their verdicts; Holm corrects for all of a family that has enough repetitions."""
    for family in families:
        enough = [one for one in family if len(one.values) >= RULES.decided_from]
        p = [p_of(one.values, within) for one in enough]
        tested = {id(one): pair for one, *pair in zip(enough, p, holm_correction(np.array(p)).tolist(), strict=True)}
        for one in family:
            difference = paired_difference(one.values)
            own, corrected = tested.get(id(one), (None, None))
            yield Comparison(
                one.ahead,
                one.behind,
                mean=difference.mean,
                interval=difference.interval,
                repeats=len(one.values),
                to=one.to,
                end=one.end,
                folders=one.folders,
                p=own,
                p_holm=corrected,
                family=len(enough),
                verdict=verdict_on(difference.interval, within, corrected),
            )


def cases_of(claim: Claim, where: Sequence[tuple[str, Body]]) -> Iterator[Case]:
    """A statement on all its sets, at all its stages."""
    places = [(dataset, body, stage) for dataset, body in where for stage in claim.stages]
    measured = [samples_of(claim, body, stage) for _, body, stage in places]
    samples = [found for found, _ in measured]
    families = [[one for found in samples for one in found]] if claim.family == "statement" else samples
    comparisons = judged(families, claim.within)
    for (dataset, body, stage), (found, missing) in zip(places, measured, strict=True):
        own = tuple(next(comparisons) for _ in found)
        yield Case(
            claim.id,
            claim.says,
            claim.whose,
            dataset=dataset,
            learner=body.learner,
            stage=stage,
            within=claim.within,
            claimed_to=RULES.early_to if stage == "early" else claim.range[1],
            verdict=verdict_on_all([one.verdict for one in own], missing),
            comparisons=own,
            missing=tuple(dict.fromkeys(missing)),
        )


def lacking(body: Body, *names: str) -> str:
    """Which of them was not run, or not so far."""
    absent = [name for name in names if name not in body.runs]
    if absent:
        return absent[0]
    return min(names, key=lambda name: reach(body.runs[name])[0])


def cases(bodies: Sequence[Body], claims: Sequence[Claim] = CLAIMS) -> Iterator[Case]:
    """Every statement on every set that it is about. What was not measured is told for the paper's learner only."""
    ordered = sorted(bodies, key=lambda body: (body.learner != "paper", body.learner))
    for claim in claims:
        where = [(dataset, body) for dataset in claim.sets for body in ordered if is_of(body, dataset)]
        for one in cases_of(claim, where):
            if one.verdict != MISSING or one.learner == "paper":
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


def with_interval(one: Mapping[str, Any]) -> str:
    interval = "" if one["interval"] is None else " [{}, {}]".format(*map(signed, one["interval"]))
    return signed(one["mean"]) + interval


def p_in_words(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def in_words(one: Mapping[str, Any], ranges: bool) -> str:
    """A comparison: what is meant, by how much, how sure, and to where if not all go as far."""
    p = "" if one["p_holm"] is None else f", {p_in_words(one['p_holm'])}"
    to = f" to {one['to']:,} labels" if ranges else ""
    return f"{short(one['ahead'])} − {short(one['behind'])}: {with_interval(one)}{to}{p}"


def cell(found: Mapping[str, Any], most: int = 2) -> str:
    """The comparisons of a case: the least favourable, and how the others are."""
    ones = found["comparisons"]
    hostile = sorted(ones, key=lambda one: -abs(one["mean"]) if found["within"] is not None else one["mean"])
    ranges = len({one["to"] for one in ones}) > 1
    text = "; ".join(in_words(one, ranges) for one in hostile[:most])
    if len(ones) > most:
        counts = {verdict: sum(one["verdict"] == verdict for one in ones) for verdict in (CONFIRMED, NOT, UNDECIDED)}
        text += f"; of all {len(ones)}: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n)
    repeats = {one["repeats"] for one in ones}
    if repeats and min(repeats) < USUAL:
        text += f" ({' or '.join(map(str, sorted(repeats)))} repetitions)"
    if found["missing"]:
        text += f"{'; ' if text else ''}not run, or not so far: {', '.join(map(short, found['missing']))}"
    return text


def _rival(found: Mapping[str, Any], one: Mapping[str, Any]) -> str:
    """Which of a case's pairs this is: the one of its two that is not in all of them."""
    everywhere = set.intersection(*({each["ahead"], each["behind"]} for each in found["comparisons"]))
    return short(next((name for name in (one["behind"], one["ahead"]) if name not in everywhere), one["behind"]))


def in_full(found: Mapping[str, Any]) -> str:
    """The verdict with its range: to which labels it holds, and what the end is like where the statement goes on."""
    verdict = str(found["verdict"])
    if verdict == MISSING:
        return verdict
    # What refutes is what a refutation rests on.
    ones = [one for one in found["comparisons"] if verdict != NOT or one["verdict"] == NOT]
    ends = sorted({one["to"] for one in ones})
    first = [_rival(found, one) for one in ones if one["to"] == ends[0]]
    labels = f"{ends[0]:,}" + (f" ({', '.join(first)}) or {ends[-1]:,}" if len(ends) > 1 else "")
    text = f"{verdict}{',' if verdict == NOT else ''} to {labels} labels"
    if found["stage"] == "whole" and ends[0] >= found["claimed_to"]:
        text += ", the whole range"
    elif found["stage"] == "whole":
        level = found["within"] is not None
        worst = min(found["comparisons"], key=lambda one: -abs(one["end"]) if level else one["end"])
        rival = f" ({_rival(found, worst)})" if len(found["comparisons"]) > 1 else ""
        text += f"; {signed(worst['end'])} at the end{rival}"
    return text + (OLDER if found["older"] else "")


def markdown(report: Mapping[str, Any], whose: str) -> str:
    lines = ["| statement | set | stage | difference in points, 95 % interval | verdict |", "|---|---|---|---|---|"]
    last = ""
    absent = {one["id"] for one in report["claims"]} - {
        one["id"] for one in report["claims"] if one["verdict"] != MISSING
    }
    for one in report["claims"]:
        if one["whose"] != whose:
            continue
        says, last = ("" if one["says"] == last else one["says"]), one["says"]
        if one["id"] in absent:
            if says:
                lines.append(f"| {says} | | | {one['until_run'] or cell(one)} | {MISSING} |")
            continue
        dataset = one["dataset"] + ("" if one["learner"] == "paper" else f", {one['learner']}")
        lines.append(f"| {says} | {dataset} | {one['stage']} | {cell(one)} | {in_full(one)} |")
    if whose == "paper":
        lines += [f"| {one['says']} | | | {one['why']} | {MISSING} |" for one in report["cannot"]]
    return "\n".join(lines)


def report_of(bodies: Sequence[Body], told: Declared = DECLARED) -> dict[str, Any]:
    why = {one.id: one.until_run for one in told.claims}
    found = []
    for one in cases(bodies, told.claims):
        older = {folder for each in one.comparisons for folder in each.folders} & set(told.older)
        found.append({**asdict(one), "until_run": why[one.id], "older": bool(older)})
    return {
        "judged_by": {"file": CLAIMS_FILE.name, "sha256": told.digest, "written": told.written},
        "runs_before_the_claims": list(told.older),
        "rules": asdict(told.rules),
        "claims": found,
        "cannot": [{"says": says, "why": why} for says, why in told.cannot],
    }


def refuse_other_claims(kept: Path, told: Declared = DECLARED) -> None:
    """An error where a kept report was judged by other claims than these."""
    before = json.loads(kept.read_text()).get("judged_by", {}).get("sha256", "none")
    if before != told.digest:
        raise ChangedClaimsError(
            f"{kept.name} was judged by claims of digest {before[:12]}…, these have {told.digest[:12]}…; pass "
            f"--new-claims to judge again by these"
        )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", metavar="DIR")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--new-claims", action="store_true", help="judge again what other claims have judged")
    given = parser.parse_args(arguments)
    if given.out is not None and given.out.exists() and not given.new_claims:
        refuse_other_claims(given.out)
    report = report_of(read(given.folders or kept_folders()))
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    print(markdown(report, "paper"))
    print()
    print(markdown(report, "ours"))


if __name__ == "__main__":
    main()
