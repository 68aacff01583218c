"""Whether to go on labelling: a hint from the audit scores and from what the next labels promise.

The rules, all of them (docs/accuracy-and-stopping.md says how often they err):

- untrained: the last two trainings failed; or from 40 labels on the model gives all items one class, or is not better
  than guessing on 30 audit items though the labels can be told from the features.
- weak: from 40 labels on, neither the audit items nor the labels cross-checked show that it is better than guessing.
- start: there is no model yet.
- enough: for the last two models, half as many labels again brought no gain that could be told from none, and a
  gain of 4 points or more is ruled out; the best next label promises a quarter or less of what the first did; and
  every class has 5 labels or more. Or nothing is left to label.
- slowing: at least 30 audit items have an answer, and the last half as many labels again brought no gain that
  could be told from none.
- go on: otherwise.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import ceil, inf, sqrt
from typing import Final

from scipy.special import ndtri

from understudy.errors import UnderstudyError
from understudy.messages import count_of
from understudy.sessions.audit import MAX_SHARE, ROUNDING, Change, change_of, wilson
from understudy.sessions.replies import AuditPlan, Hint

GROWTH_COMPARED: Final = 1.5  # models are compared across so much growth of the labels: single trainings hardly differ
FEWEST_AUDITED: Final = 30
RULED_OUT_GAIN: Final = 0.04  # gain that must be ruled out: 3 points would take twice the audit items, and 2 four times
SMALL_PROMISE: Final = 0.25
FEWEST_OF_A_CLASS: Final = 5
FEWEST_ASKED: Final = 20  # answers from which the share that the model had right is worth a word
PREDICTED_LABELS: Final = "labels, each predicted from the others,"
FEWEST_LABELS_TO_DOUBT: Final = 40
FEWEST_FAILURES: Final = 2  # in a row
CHANCE_CONFIDENCE: Final = 0.95  # one-sided: so often a guess is recognised as one
CROSS_CHECK_CONFIDENCE: Final = 0.99  # each label moved the choice of later ones, which flatters guesses a little
SUPPOSED_ACCURACY: Final = 0.9  # of the model at the end, for the width of its interval
SUPPOSED_DIFFERING: Final = 0.05  # share of the items on which the last two models differ
SHARE_STEP: Final = 0.05
NEARLY_USUAL: Final = 2 / 3  # of the usual number: so few are missing that nobody is bothered with an offer
MOST_AUDITED: Final = 2_000  # far more than any of these questions needs


# Whether predictions say more than guessing would. Guessing means: the same predictions, dealt out to the items at
# random. So a model that always names the commonest class is a guess however often it is right, and one that finds half
# of a rare class is not.


@dataclass(frozen=True)
class Guesswork:
    """How many predictions are right, of how many, and how many would be if they were dealt out at random."""

    right: int
    n: int
    expected: float
    spread: float  # the standard deviation of that number

    def is_above_chance(self, confidence: float = CHANCE_CONFIDENCE) -> bool:
        """Whether guessing would hardly have so many right. Never for a prediction that is always the same."""
        return self.spread > 0 and self.right - self.expected > float(ndtri(confidence)) * self.spread


def against_guessing(predicted: Sequence[int], labels: Sequence[int]) -> Guesswork:
    """Right answers beside those of the same predictions in random order.

    The mean and the variance over all orders are exact: Hoeffding's for sums over a random order, where an item and a
    prediction count 1 if they are alike. With a_k predictions and b_k labels of class k the mean is Σ a_k b_k / n.
    """
    n = len(labels)
    if len(predicted) != n:
        raise UnderstudyError(f"{len(predicted)} predictions for {n} labels; give one for each")
    right = sum(guess == label for guess, label in zip(predicted, labels, strict=True))
    a, b = Counter(predicted), Counter(labels)
    both = [(a[k], b[k]) for k in a.keys() & b.keys()]
    expected = sum(x * y for x, y in both) / n if n else 0.0
    if n < 2:
        return Guesswork(right, n, expected, 0.0)
    # Over all pairs (i, j): Σ (c_ij - mean of row i - mean of column j + mean of all)², with c_ij = 1 where alike.
    ones = sum(x * y for x, y in both)
    rows = sum(x * y**2 for x, y in both) / n
    columns = sum(x**2 * y for x, y in both) / n
    squares = ones - rows - columns + ones**2 / n**2
    return Guesswork(right, n, expected, sqrt(max(squares, 0.0) / (n - 1)))


# The hint


@dataclass(frozen=True)
class Weakness:
    """Why more labels would not help: "weak" features or an "untrained" model, in sentences for people."""

    advice: str
    line: str


@dataclass(frozen=True)
class ScoredModel:
    """A model on the audit items, and its gain over the one that `compared_with` names, on the same items."""

    labels: int
    right: int
    audited: int
    since: int | None = None  # labels of the model it is compared with
    change: Change | None = None


def compared_with(labels: Sequence[int]) -> int | None:
    """Which model the last one is compared with: the latest with at most two thirds of its labels. None: none yet.

    `labels` are those of all models in their order.
    """
    if any(later < earlier for earlier, later in pairwise(labels)):
        raise UnderstudyError(f"label counts must be in the order of training, growing; got {list(labels)}")
    fitting = [i for i, count in enumerate(labels[:-1]) if GROWTH_COMPARED * count <= labels[-1]]
    return fitting[-1] if fitting else None


def promise(best_now: float, best_first: float | None) -> float | None:
    """What the best next label explains of what is undecided, as a share of what the best one did at first.

    Both are the highest influence of an item. At first: while nothing was labelled and all was undecided; with the
    paper's method, after the first training. None before that.
    """
    if best_first is None or not 0 < best_first < inf or not 0 <= best_now < inf:
        return None
    return best_now / best_first


def hint(
    models: Sequence[ScoredModel],
    *,
    class_counts: Mapping[str, int],
    left: int,
    promised: float | None = None,
    asked: tuple[int, int] = (0, 0),
    until_training: int | None = None,
    is_training: bool = False,
    weakness: Weakness | None = None,
) -> Hint:
    """The advice and a line for people.

    `left`: items that could still be asked for. `promised`: what `promise` gave. `asked`: how many of the last items
    that the strategy chose the model had right beforehand, of how many. `until_training`: labels to the next
    one; `is_training`: one is being made. `weakness`: what `find_weakness` found.
    """
    if left == 0:
        return Hint("enough", f"{_accuracy(models)}Every item has an answer.".strip(), promised)
    if weakness is not None:
        return Hint(weakness.advice, weakness.line, promised)
    if not models:
        return Hint("start", f"No model yet; {_first(until_training, is_training)}.", promised)
    rare = [name for name, count in class_counts.items() if count < FEWEST_OF_A_CLASS]
    last = models[-1]
    if last.audited < FEWEST_AUDITED:
        few = f"Only {count_of(last.audited, 'audit item')}" if last.audited else "No audit item"
        few += f" {'has' if last.audited <= 1 else 'have'} an answer yet, too few to say how good the model is. "
        return Hint("go on", f"{few}{_of_asked(asked)}{_next(until_training, is_training)}", promised)
    known = _accuracy(models) + _gain(last)
    if last.change is None or last.change.low > 0:
        return Hint("go on", f"{known}{_next(until_training, is_training)}", promised)
    small = promised is not None and promised <= SMALL_PROMISE
    flat = len(models) > 1 and all(_is_flat(model) for model in models[-2:])
    if flat and small and not rare:
        return Hint("enough", f"{known}More labels like the last ones will hardly help.", promised)
    if rare:
        why = f"{_names(rare)} {'has' if len(rare) == 1 else 'have'} fewer than {FEWEST_OF_A_CLASS} labels."
    elif _is_flat(last) and not flat:
        why = "One more model must say the same."
    elif not flat:
        why = f"A gain of {100 * RULED_OUT_GAIN:.0f} points is not ruled out yet."
    elif promised is None:
        why = "What the next labels promise is not known."
    else:
        why = f"But the best next label still promises {_percent(promised)} of what the first one did."
    return Hint("slowing", f"{known}{why}", promised)


def find_weakness(
    *,
    labels: int,
    audit: Guesswork | None = None,
    cross_check: Guesswork | None = None,
    is_constant: bool = False,
    failures: Sequence[str] = (),
) -> Weakness | None:
    """What stands in the way of a model, if anything does.

    `labels`: those it learns from. `audit`: the last model on the audit items; None without a model. `cross_check`:
    what the other labels expect of each labelled item; None where it was not computed. `is_constant`: the model gives
    all items one class although it has seen several of two. `failures`: reasons of the trainings that failed since the
    last that did not.
    """
    if len(failures) >= FEWEST_FAILURES:
        return Weakness(
            "untrained",
            f"The last {len(failures)} trainings failed: {failures[-1].rstrip('.')}. Labels are kept and items are "
            "still chosen, but no model learns from them. Mend the reason, or choose another learner in the settings.",
        )
    if audit is None or labels < FEWEST_LABELS_TO_DOUBT:
        return None
    if is_constant:
        return Weakness(
            "untrained",
            "The model gives every item the same class, although it has seen several of two: the learner does not "
            "train. Choose another one in the settings, or look in the review whether the labels are right.",
        )
    if audit.is_above_chance() or cross_check is None:
        return None
    tells = cross_check.is_above_chance(CROSS_CHECK_CONFIDENCE)
    if tells and audit.n < FEWEST_AUDITED:
        return None
    if tells:
        return Weakness(
            "untrained",
            f"The model is not better than guessing: {_beside_guesses(audit, 'audit items')}. The labels can be told "
            f"from the features all the same ({_beside_guesses(cross_check, PREDICTED_LABELS)}), so it is the learner "
            "that does not train. Choose another one in the settings.",
        )
    found = [_beside_guesses(audit, "audit items")] if audit.n else []
    found.append(_beside_guesses(cross_check, PREDICTED_LABELS))
    return Weakness(
        "weak",
        f"After {labels} labels the model is not shown to be better than guessing: {'; '.join(found)}. More labels "
        "will hardly mend that. Use an encoder made for such items, and look whether labels are wrong.",
    )


def unseen(change: Change) -> float:
    """The smallest gain that so many audit items can show: half the width of the change's interval."""
    return (change.high - change.low) / 2


def _is_flat(model: ScoredModel) -> bool:
    change = model.change
    return model.audited >= FEWEST_AUDITED and change is not None and change.low <= 0 and change.high < RULED_OUT_GAIN


# What the audit items of a pool can show, said before anybody labels


def half_width(n: int, accuracy: float = SUPPOSED_ACCURACY) -> float:
    """Half the width of Wilson's interval where a model is right so often on n audit items."""
    low, high = wilson(round(accuracy * n), n)
    return (high - low) / 2


@cache
def needed_for_enough(differing: float) -> int:
    """The fewest audit items with which a gain can be ruled out, as "enough" asks for.

    The two models are equally good and differ on a share of the items: half of these right only before, half only now.
    """
    too_few = FEWEST_AUDITED - 1
    for n in range(FEWEST_AUDITED, MOST_AUDITED):
        moved = ceil(differing * n / 2 - ROUNDING)
        if change_of(moved, moved, n).high >= RULED_OUT_GAIN:
            too_few = n
    return too_few + 1


def audit_plan(audit_items: int, n_items: int, share: float, free: int | None = None) -> AuditPlan:
    """What so many audit items of a pool can show, and the share that would make "enough" possible.

    `free`: items that could still become audit items, since nobody labelled them; None for all others.
    """
    least, usual = needed_for_enough(0.0), needed_for_enough(SUPPOSED_DIFFERING)
    free = n_items - audit_items if free is None else free
    raise_to = None if audit_items >= NEARLY_USUAL * usual else _better_share(audit_items, n_items, share, free)
    points = half_width(audit_items) if audit_items else None
    return AuditPlan(
        items=audit_items,
        share=share,
        half_width=points,
        least=least,
        usual=usual,
        raise_to=raise_to,
        line=_plan_line(audit_items, points, least, usual),
    )


def _better_share(audit_items: int, n_items: int, share: float, free: int) -> float | None:
    """The lowest share, in steps, that gives as many audit items as "enough" needs as a rule, or else at least."""
    steps = [round(SHARE_STEP * i, 2) for i in range(1, round(MAX_SHARE / SHARE_STEP) + 1)]
    counts = {step: ceil(step * n_items - ROUNDING) for step in steps if step > share}
    possible = {step: count for step, count in counts.items() if count - audit_items <= free}
    for wanted in (needed_for_enough(SUPPOSED_DIFFERING), max(needed_for_enough(0.0), audit_items + 1)):
        fitting = [step for step, count in possible.items() if count >= wanted]
        if fitting:
            return fitting[0] if wanted == needed_for_enough(SUPPOSED_DIFFERING) else fitting[-1]
    return None


def _plan_line(audit_items: int, points: float | None, least: int, usual: int) -> str:
    if points is None:
        return "No audit items: neither how good the model is will be known, nor when you have labelled enough."
    measure = "1 random audit item measures" if audit_items == 1 else f"{audit_items:,} random audit items measure"
    known = f"{measure} the model: its accuracy will be known to about ±{max(1, round(100 * points))} points"
    if audit_items >= usual:
        return f"{known}, and the page can say when you have labelled enough."
    if audit_items >= least:
        return f"{known}. To say when you have labelled enough it takes about {usual} as a rule."
    return (
        f"{known}. They are too few to say when you have labelled enough: that takes at least {least}, and about "
        f"{usual} as a rule."
    )


# Sentences


def _accuracy(models: Sequence[ScoredModel]) -> str:
    if not models or not models[-1].audited:
        return ""
    right, n = models[-1].right, models[-1].audited
    low, high = wilson(right, n)
    return (
        f"The model is right on {_percent(right / n)} of a random sample "
        f"({100 * low:.0f} to {_percent(high)}, {_items(n)}). "
    )


def _gain(model: ScoredModel) -> str:
    change = model.change
    if change is None or model.since is None:
        return ""
    points = round(100 * change.difference, 1) + 0.0  # no minus before a zero
    gain = f"Going from {model.since} to {model.labels} labels changed that by {points:+.1f} points"
    if change.low > 0:
        return f"{gain}. "
    return f"{gain}; less than {ceil(100 * unseen(change))} points cannot be measured with so few items. "


def _beside_guesses(found: Guesswork, what: str) -> str:
    return f"{found.right} of {found.n} {what} are right (guessing: {found.expected:.0f})"


def _of_asked(asked: tuple[int, int]) -> str:
    right, n = asked
    if n < FEWEST_ASKED:
        return ""
    return f"Of the last {n} items it chose it had {right} right, but those are the hard ones. "


def _next(labels: int | None, is_training: bool) -> str:
    if is_training:
        return "Go on: a model is being trained now."
    return f"Go on: the next model comes after {_more(labels)}." if labels else "Go on."


def _first(labels: int | None, is_training: bool) -> str:
    if is_training:
        return "the first is being trained now"
    return f"the first comes after {_more(labels)}" if labels else "the first needs two labels in two classes"


def _more(labels: int) -> str:
    return "one more label" if labels == 1 else f"{labels} more labels"


def _items(n: int) -> str:
    return "one item" if n == 1 else f"{n} items"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _names(names: Sequence[str]) -> str:
    if len(names) > 3:
        return f"{len(names)} classes"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
