"""The headline of a report: the result in a sentence, and how reliable it is."""

from dataclasses import dataclass
from typing import Final

from understudy.experiments.curves import Curves
from understudy.experiments.metrics import ACCURACY
from understudy.experiments.statistics import (
    MIN_REPEATS_TESTED,
    SIGNIFICANCE_LEVEL,
    PairedComparison,
    Ranks,
    labels_to_reach,
    paired_difference,
)
from understudy.experiments.summary import Findings
from understudy.experiments.tables import p_text, points_text
from understudy.messages import count_of, list_some

RANDOM: Final = "random"
EQUAL_LABEL_RATIO: Final = 1.05  # two label counts closer than this ratio count as equal
MAX_NAMES: Final = 5


@dataclass(frozen=True)
class Headline:
    """One sentence, its qualifications, and a few key numbers."""

    sentence: str
    verdicts: tuple[str, ...]
    numbers: tuple[tuple[str, str], ...]  # each number and its description


def headline(found: Findings) -> Headline:
    """Which strategy did best over all budgets, and what random needed; claims only what the repetitions support."""
    shown = found.contestants
    names = [name for name in found.best_first if name in shown.values]
    best, last = names[0], shown.schedule[-1]
    accuracy, measure = _last_value(shown, best), shown.measure
    what = "" if measure.name == ACCURACY else f"a {measure.title} of "
    numbers = [(accuracy, f"{best} with {last:,} labels")]
    sentence = f"{best} reached {what}{accuracy} with {last:,} labels"
    if best == RANDOM and len(names) > 1:
        sentence = f"Nothing did better than random: {what}{accuracy} with {last:,} labels"
    elif RANDOM in names and len(names) > 1:
        theirs, times = _last_value(shown, RANDOM), _ratio(shown, best)
        if shown.repeats == 1:
            sentence += f", random {theirs}; a single repetition is too few to compare them"
        elif not _leads(_lead_over_random(found, best)):
            sentence += f", random {theirs}; over the whole curve the lead is within the noise"
        elif times is None or times <= EQUAL_LABEL_RATIO:
            sentence += f", random {theirs}"
        else:
            sentence += f"; to reach {theirs}, random needed {times:.1f} times as many as {best}"
            numbers.append((f"{times:.1f} ×", f"as many labels for random to reach {theirs}"))
    if found.ceiling is not None:
        numbers.append((measure.text(found.ceiling.mean()), "with all labels: the ceiling"))
    numbers.append((str(shown.repeats), "repetition" if shown.repeats == 1 else "repetitions"))
    return Headline(f"{sentence}.", tuple(_verdicts(found, names)), tuple(numbers))


def _lead_over_random(found: Findings, best: str) -> PairedComparison:
    """The best against random, which is the reference whenever it was run."""
    return next(one for one in found.comparisons if one.strategy == best)


def _leads(over_random: PairedComparison) -> bool:
    """Whether the interval of its lead is above zero and the test, if there is one, agrees."""
    above = over_random.area.interval is not None and over_random.area.interval[0] > 0
    return above and (over_random.p_holm is None or over_random.p_holm < SIGNIFICANCE_LEVEL)


def _last_value(curves: Curves, name: str) -> str:
    return curves.measure.text(curves.of(name)[:, -1].mean())


def _ratio(curves: Curves, best: str) -> float | None:
    """How many times as many labels random needed to reach its final value."""
    target = float(curves.of(RANDOM)[:, -1].mean())
    own, theirs = labels_to_reach(curves, best, target), labels_to_reach(curves, RANDOM, target)
    if own is None or theirs is None or not curves.schedule[0] < own:
        return None
    return theirs / own


def _verdicts(found: Findings, names: list[str]) -> list[str]:
    """What can and cannot be concluded, and the rank of our own strategies."""
    curves, best, said = found.contestants, names[0], []
    measure = curves.measure
    unit = f" {measure.unit}" if measure.unit else ""
    most, more = ("smallest", "less") if measure.lower_is_better else ("largest", "more")
    bracketed = ", 95 % intervals in brackets" if curves.repeats > 1 else ""
    if len(names) > 1:
        ahead = paired_difference(curves.upwards(curves.area(best) - curves.area(names[1])))
        said.append(
            f"Of {len(names)} strategies {best} has the {most} area under its curve, "
            f"{points_text(ahead, measure)}{unit} {more} than {names[1]}{bracketed}."
        )
    if RANDOM in names[2:]:
        lead, test = _lead_over_random(found, best), ""
        if lead.p_holm is not None:
            verdict = "significant" if lead.p_holm < SIGNIFICANCE_LEVEL else "not significant"
            test = f": {verdict}, p = {p_text(lead.p_holm)} (signed ranks, Holm)"
        said.append(f"Its lead over random is {points_text(lead.area, measure)}{unit}{test}.")
    if curves.repeats < MIN_REPEATS_TESTED:
        repetitions = count_of(curves.repeats, "repetition")
        said.append(f"With {repetitions} no significance is claimed; that takes {MIN_REPEATS_TESTED} or more.")
    elif len(names) > 1:
        said.append(_told_apart(found.ranks, best, RANDOM in names[2:]))
    for name in ("understudy", "surrogate"):
        if name in names[1:]:
            place = _ordinal(names.index(name) + 1)
            said.append(f"{name} is {place}: {_last_value(curves, name)} with {curves.schedule[-1]:,} labels.")
    return said


def _told_apart(found: Ranks, best: str, random_was_tested: bool) -> str:
    """Which strategies do not differ significantly from the best, by tests of all pairs."""
    alike = found.alike(best)
    test = "signed ranks of all pairs" if found.told_by == "signed ranks" else "Nemenyi's test of mean ranks"
    if not alike:
        return f"It differs significantly from {_name_others(len(found.names) - 1)} ({test})."
    if len(alike) == len(found.names) - 1 > 1:
        return f"It does not differ significantly from any other ({test})."
    if random_was_tested and alike != [RANDOM]:
        alike = [name for name in alike if name != RANDOM]
    return f"Not significantly different from it ({test}): {list_some(alike, MAX_NAMES)}."


def _name_others(n: int) -> str:
    return "the other" if n == 1 else f"all {n} others"


def _ordinal(place: int) -> str:
    ending = "th" if 10 <= place % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"
