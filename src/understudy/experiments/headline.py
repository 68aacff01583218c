"""The answer in a sentence, and how far it can be believed."""

from dataclasses import dataclass
from typing import Final

from understudy.experiments.curves import Curves
from understudy.experiments.statistics import SIGNIFICANT, TESTED_FROM, Comparison, Ranks, labels_to_reach, paired
from understudy.experiments.summary import Findings
from understudy.experiments.tables import p_text, points
from understudy.messages import count_of, list_some

RANDOM: Final = "random"
AS_MANY: Final = 1.05  # up to so many times as many labels is as many
NAMED: Final = 5


@dataclass(frozen=True)
class Headline:
    """One sentence, what must be said with it, and a few numbers to look at."""

    sentence: str
    verdicts: tuple[str, ...]
    numbers: tuple[tuple[str, str], ...]  # the number, and what it is


def headline(found: Findings) -> Headline:
    """Who did best over all budgets, and what random would have needed; claims only what repetitions support."""
    shown = found.contestants
    names = [name for name in found.best_first if name in shown.accuracy]
    best, last = names[0], shown.schedule[-1]
    accuracy = _percent(shown, best)
    numbers = [(accuracy, f"{best} with {last:,} labels")]
    sentence = f"{best} reached {accuracy} with {last:,} labels"
    if best == RANDOM and len(names) > 1:
        sentence = f"Nothing did better than random: {accuracy} with {last:,} labels"
    elif RANDOM in names and len(names) > 1:
        theirs, times = _percent(shown, RANDOM), _ratio(shown, best)
        if shown.repeats == 1:
            sentence += f", random {theirs}; a single repetition cannot tell them apart"
        elif not _leads(_lead_over_random(found, best)):
            sentence += f", random {theirs}; over the whole curve the lead is within the noise"
        elif times is None or times <= AS_MANY:
            sentence += f", random {theirs}"
        else:
            sentence += f"; to reach {theirs}, random needed {times:.1f} times as many as {best}"
            numbers.append((f"{times:.1f} ×", f"as many labels took random to {theirs}"))
    if found.ceiling is not None:
        numbers.append((f"{100 * found.ceiling.mean():.1f} %", "with all labels: the ceiling"))
    numbers.append((str(shown.repeats), "repetition" if shown.repeats == 1 else "repetitions"))
    return Headline(f"{sentence}.", tuple(_verdicts(found, names)), tuple(numbers))


def _lead_over_random(found: Findings, best: str) -> Comparison:
    """The best against random, which is the reference wherever it was run."""
    return next(one for one in found.comparisons if one.strategy == best)


def _leads(over_random: Comparison) -> bool:
    """Whether the interval of its lead is above zero and, where there are tests, the test agrees."""
    above = over_random.area.interval is not None and over_random.area.interval[0] > 0
    return above and (over_random.p_holm is None or over_random.p_holm < SIGNIFICANT)


def _percent(curves: Curves, name: str) -> str:
    return f"{100 * curves.of(name)[:, -1].mean():.1f} %"


def _ratio(curves: Curves, best: str) -> float | None:
    """How many times as many labels random needed for what it had in the end."""
    target = float(curves.of(RANDOM)[:, -1].mean())
    own, theirs = labels_to_reach(curves, best, target), labels_to_reach(curves, RANDOM, target)
    if own is None or theirs is None or not curves.schedule[0] < own:
        return None
    return theirs / own


def _verdicts(found: Findings, names: list[str]) -> list[str]:
    """What may and what may not be concluded, and where ours stands."""
    curves, best, said = found.contestants, names[0], []
    bracketed = ", 95 % intervals in brackets" if curves.repeats > 1 else ""
    if len(names) > 1:
        behind = points(paired(curves.area(best) - curves.area(names[1])))
        said.append(
            f"Of {len(names)} strategies {best} has the largest area under its curve, "
            f"{behind} points more than {names[1]}{bracketed}."
        )
    if RANDOM in names[2:]:
        lead, test = _lead_over_random(found, best), ""
        if lead.p_holm is not None:
            verdict = "significant" if lead.p_holm < SIGNIFICANT else "not significant"
            test = f": {verdict}, p = {p_text(lead.p_holm)} (signed ranks, Holm)"
        said.append(f"Its lead over random is {points(lead.area)} points{test}.")
    if curves.repeats < TESTED_FROM:
        repetitions = count_of(curves.repeats, "repetition")
        said.append(f"With {repetitions} no significance is claimed; that takes {TESTED_FROM} or more.")
    elif len(names) > 1:
        said.append(_told_apart(found.ranks, best, RANDOM in names[2:]))
    for name in ("understudy", "surrogate"):
        if name in names[1:]:
            place = _ordinal(names.index(name) + 1)
            said.append(f"{name} is {place}: {_percent(curves, name)} with {curves.schedule[-1]:,} labels.")
    return said


def _told_apart(found: Ranks, best: str, random_was_tested: bool) -> str:
    """Who is as good as the best, for all that tests of all pairs can tell; random may have had a test of its own."""
    alike = found.alike(best)
    test = "signed ranks of all pairs" if found.told_by == "signed ranks" else "Nemenyi's test of mean ranks"
    if not alike:
        return f"It differs significantly from {_others(len(found.names) - 1)} ({test})."
    if len(alike) == len(found.names) - 1 > 1:
        return f"Not told apart from any of the others by {test}."
    if random_was_tested and alike != [RANDOM]:
        alike = [name for name in alike if name != RANDOM]
    return f"Not told apart from it by {test}: {list_some(alike, NAMED)}."


def _others(n: int) -> str:
    return "the other" if n == 1 else f"all {n} others"


def _ordinal(place: int) -> str:
    ending = "th" if 10 <= place % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"
