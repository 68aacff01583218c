"""The rules as they are stated, the words for people, and how often simulated projects are told to stop too early."""

from collections.abc import Callable
from itertools import permutations
from math import ceil, inf, log2, nan, sqrt

import numpy as np
import pytest
from scipy.special import ndtr

from understudy import UnderstudyError
from understudy.sessions.audit import change_of
from understudy.sessions.replies import Hint
from understudy.sessions.stopping import (
    RULED_OUT_GAIN,
    Guesswork,
    ScoredModel,
    Weakness,
    against_guessing,
    audit_plan,
    compared_with,
    find_weakness,
    half_width,
    hint,
    needed_for_enough,
    promise,
    unseen,
)

BALANCED = {"cat": 40, "dog": 50, "fox": 60}


def flat(labels: int = 2000, audited: int = 200) -> ScoredModel:
    return ScoredModel(labels, round(0.9 * audited), audited, labels * 2 // 3, change_of(2, 2, audited))


def say(models: list[ScoredModel], promised: float | None = 0.1, **given: object) -> Hint:
    values: dict[str, object] = {"class_counts": BALANCED, "left": 500, "promised": promised, "until_training": 60}
    return hint(models, **{**values, **given})  # type: ignore[arg-type]


# Rules


def test_before_the_first_model_it_says_start() -> None:
    assert say([], promised=None).advice == "start"
    assert say([], until_training=2).line == "No model yet; the first comes after 2 more labels."
    assert say([], until_training=None).line == "No model yet; the first needs two labels in two classes."


def test_with_few_audit_items_it_goes_on_whatever_the_scores() -> None:
    found = say([flat(audited=29), flat(audited=29)], asked=(31, 40))
    assert found.advice == "go on"
    assert found.line == (
        "Only 29 audit items have an answer yet, too few to say how good the model is. Of the last 40 items it "
        "chose it had 31 right, but those are the hard ones. Go on: the next model comes after 60 more labels."
    )


def test_without_audit_items_nothing_is_known() -> None:
    assert say([ScoredModel(50, 0, 0)]).line.startswith("No audit item has an answer yet")


def test_a_gain_that_can_be_measured_says_go_on() -> None:
    rising = ScoredModel(600, 160, 200, 400, change_of(25, 5, 200))
    found = say([flat(), rising])
    assert found.advice == "go on"
    assert "changed that by +10.0 points. Go on" in found.line


def test_two_flat_models_and_little_promise_are_enough() -> None:
    found = say([flat(1800), flat(2000)])
    assert found == Hint(
        "enough",
        "The model is right on 90 % of a random sample (85 to 93 %, 200 items). Going from 1333 to 2000 labels "
        "changed that by +0.0 points; less than 3 points cannot be measured with so few items. "
        "More labels like the last ones will hardly help.",
        0.1,
    )


@pytest.mark.parametrize(
    ("models", "given", "words"),
    [
        ([flat()], {}, "One more model must say the same."),
        ([flat(audited=60), flat(audited=60)], {}, "A gain of 4 points is not ruled out yet."),
        ([flat(), flat()], {"promised": 0.3}, "But the best next label still promises 30 % of what the first one did."),
        ([flat(), flat()], {"promised": None}, "What the next labels promise is not known."),
        ([flat(), flat()], {"class_counts": {"cat": 9, "fox": 4}}, "fox has fewer than 5 labels."),
        ([flat(), flat()], {"class_counts": {"cat": 0, "fox": 4}}, "cat and fox have fewer than 5 labels."),
        ([flat(), flat()], {"class_counts": dict.fromkeys("abcd", 0)}, "4 classes have fewer than 5 labels."),
    ],
)
def test_each_condition_for_enough_is_needed(models: list[ScoredModel], given: dict[str, object], words: str) -> None:
    found = say(models, **given)  # type: ignore[arg-type]
    assert found.advice == "slowing"
    assert found.line.endswith(words)


def test_a_model_without_one_to_compare_it_with_goes_on() -> None:
    assert say([ScoredModel(90, 30, 40)]).advice == "go on"


def test_when_nothing_is_left_it_is_enough() -> None:
    assert say([], left=0).line == "Every item has an answer."
    assert say([flat()], left=0).line.startswith("The model is right on 90 %")
    assert say([ScoredModel(10, 0, 0)], left=0) == Hint("enough", "Every item has an answer.", 0.1)


GOOD, POOR = Guesswork(right=30, n=40, expected=20, spread=3), Guesswork(right=21, n=40, expected=20, spread=3)
FEW_POOR = Guesswork(right=2, n=4, expected=2, spread=1)


@pytest.mark.parametrize(
    ("given", "advice", "words"),
    [
        ({"labels": 39, "audit": POOR, "cross_check": POOR}, None, ""),
        ({"labels": 40, "audit": POOR, "cross_check": POOR}, "weak", "21 of 40 audit items are right (guessing: 20)"),
        ({"labels": 40, "audit": FEW_POOR, "cross_check": POOR}, "weak", "21 of 40 labels, each predicted"),
        ({"labels": 40, "audit": Guesswork(0, 0, 0.0, 0.0), "cross_check": POOR}, "weak", "guessing: 21 of 40 labels"),
        ({"labels": 40, "audit": GOOD, "cross_check": None}, None, ""),
        ({"labels": 40, "audit": FEW_POOR, "cross_check": GOOD}, None, ""),  # too few audit items to blame the learner
        ({"labels": 400, "audit": POOR, "cross_check": GOOD}, "untrained", "it is the learner that does not train"),
        ({"labels": 40, "audit": FEW_POOR, "is_constant": True}, "untrained", "every item the same class"),
        ({"labels": 39, "audit": FEW_POOR, "is_constant": True}, None, ""),
        ({"labels": 5, "audit": None, "failures": ["no memory."]}, None, ""),
        ({"labels": 5, "audit": None, "failures": ["x", "no memory."]}, "untrained", "trainings failed: no memory. L"),
    ],
)
def test_each_weakness_is_found_where_its_rule_says(given: dict[str, object], advice: str | None, words: str) -> None:
    found = find_weakness(**given)  # type: ignore[arg-type]
    assert (found.advice if found else None) == advice
    assert words in (found.line if found else "")


def test_a_weakness_is_said_instead_of_go_on_but_not_when_all_is_done() -> None:
    weak = Weakness("weak", "The features hardly tell the classes apart.")
    assert say([flat()], weakness=weak).advice == "weak"
    assert say([flat()], weakness=weak).line == weak.line
    assert say([], weakness=Weakness("untrained", "Failed.")).advice == "untrained"
    assert say([flat()], left=0, weakness=weak).advice == "enough"


def test_models_are_compared_across_half_as_many_labels_again() -> None:
    assert compared_with([]) is None
    assert compared_with([2]) is None
    assert compared_with([2, 3]) == 0
    assert compared_with([2, 3, 4]) == 0
    assert compared_with([100, 200, 300, 400, 500, 600]) == 3
    with pytest.raises(UnderstudyError, match="order"):
        compared_with([3, 2])


def test_the_promise_is_a_share_of_the_first_and_unknown_where_either_is() -> None:
    assert promise(3.0, 12.0) == 0.25
    for now, first in [(1.0, None), (1.0, 0.0), (nan, 1.0), (1.0, nan), (inf, 1.0), (-inf, 1.0)]:
        assert promise(now, first) is None


def test_what_cannot_be_measured_shrinks_with_the_root_of_the_audit_items() -> None:
    few, many = unseen(change_of(5, 5, 100)), unseen(change_of(20, 20, 400))
    assert few / many == pytest.approx(2, rel=0.05)
    assert unseen(change_of(5, 5, 100)) == pytest.approx(1.96 * sqrt(11) / 102, rel=1e-3)


# Simulated projects: the learner is trained as labels grow by half, at most every 200, and one question in ten audits


def said_enough(curve: Callable[[int], float], seed: int, last: int = 5000, alike: float = 0.95) -> int | None:
    """The labels at which it is first said. The promise is taken to be none, so it never holds the hint back."""
    rng = np.random.default_rng(seed)
    labels = [2]
    while labels[-1] < last:
        labels.append(min(max(labels[-1] + 1, labels[-1] * 3 // 2), labels[-1] + 200))
    items = rng.normal(size=last // 9 + 50)  # how hard each is; models differ by chance besides
    right = [ndtr(alike * items + sqrt(1 - alike**2) * rng.normal(size=len(items))) < curve(count) for count in labels]
    models: list[ScoredModel] = []
    for j, count in enumerate(labels):
        audited, now = count // 9, right[j]
        i = compared_with(labels[: j + 1])
        since, difference = None, None
        if i is not None:
            gained, lost = (now & ~right[i])[:audited].sum(), (right[i] & ~now)[:audited].sum()
            since, difference = labels[i], change_of(int(gained), int(lost), audited)
        models.append(ScoredModel(count, int(now[:audited].sum()), audited, since, difference))
        if hint(models, class_counts=BALANCED, left=1, promised=0.0).advice == "enough":
            return count
    return None


def test_a_curve_that_keeps_rising_is_rarely_told_to_stop() -> None:
    """Five points for half as many labels again, to the end: whoever stops, stops too early."""
    said = [said_enough(lambda x: 0.1 + 0.05 * log2(x) / log2(1.5), seed, last=1500) for seed in range(100)]
    assert sum(count is not None for count in said) <= 3


def test_a_curve_that_saturates_is_told_to_stop_and_only_when_the_gain_is_small() -> None:
    def curve(x: int) -> float:
        return 0.96 - 0.9 * (x + 2) ** -0.7

    said = [said_enough(curve, seed) for seed in range(50)]
    assert all(count is not None and curve(count * 3 // 2) - curve(count) < RULED_OUT_GAIN / 2 for count in said)
    assert np.median([count for count in said if count is not None]) < 2000


def test_models_that_differ_by_chance_are_judged_later_and_not_worse() -> None:
    def curve(x: int) -> float:
        return 0.75 - 0.5 * (x + 2) ** -0.5

    steady, noisy = ([said_enough(curve, seed, alike=alike) for seed in range(30)] for alike in (0.98, 0.8))
    assert all(count is None or curve(count * 3 // 2) - curve(count) < RULED_OUT_GAIN for count in steady + noisy)
    assert np.median([count or inf for count in steady]) < np.median([count or inf for count in noisy])


# Guessing: the moments are those over all orders, and guesses are recognised


@pytest.mark.parametrize("seed", range(8))
def test_mean_and_spread_are_those_over_all_orders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    predicted, labels = rng.integers(3, size=6).tolist(), rng.integers(4, size=6).tolist()
    right = [sum(predicted[i] == labels[j] for i, j in enumerate(order)) for order in permutations(range(6))]
    found = against_guessing(predicted, labels)
    assert found.right == right[0]
    assert np.isclose(found.expected, np.mean(right))
    assert np.isclose(found.spread, np.std(right))


def test_always_the_commonest_class_is_a_guess_and_half_of_a_rare_class_is_not() -> None:
    labels = [0] * 45 + [1] * 5
    assert not against_guessing([0] * 50, labels).is_above_chance()
    assert against_guessing([0] * 47 + [1] * 3, labels).is_above_chance()


@pytest.mark.parametrize("n_classes", [2, 10])
def test_guesses_are_taken_for_better_about_as_often_as_is_said(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    drawn = rng.integers(n_classes, size=(1000, 2, 60)).tolist()
    mistaken = sum(against_guessing(predicted, labels).is_above_chance() for predicted, labels in drawn)
    assert 20 <= mistaken <= 90  # one in twenty is 50


def test_nothing_and_one_item_show_nothing() -> None:
    assert not against_guessing([], []).is_above_chance()
    assert not against_guessing([1], [1]).is_above_chance()
    with pytest.raises(UnderstudyError, match="2 predictions for 1 labels"):
        against_guessing([0, 1], [0])


# What audit items can show, against the formulas computed literally


Z = 1.959963984540054


@pytest.mark.parametrize(("n", "points"), [(10, 19), (40, 10), (100, 6), (400, 3)])
def test_the_accuracy_is_known_to_half_of_wilsons_interval(n: int, points: int) -> None:
    right = round(0.9 * n) / n
    literal = Z / (1 + Z**2 / n) * sqrt(right * (1 - right) / n + Z**2 / (4 * n**2))
    assert half_width(n) == pytest.approx(literal)
    assert round(100 * literal) == points


@pytest.mark.parametrize("differing", [0.0, 0.02, 0.05, 0.1])
def test_enough_needs_as_many_as_rule_out_four_points(differing: float) -> None:
    def rules_out(n: int) -> bool:
        moved = ceil(differing * n / 2 - 1e-9)
        return Z * sqrt(2 * moved + 1) / (n + 2) < 0.04

    needed = needed_for_enough(differing)
    assert all(rules_out(n) for n in range(needed, 2000))
    assert not rules_out(needed - 1)


def test_models_that_never_differ_need_at_least_47_and_usual_ones_about_150() -> None:
    assert needed_for_enough(0.0) == 47
    assert needed_for_enough(0.05) == 145


def test_a_tenth_of_four_hundred_cannot_be_enough_and_the_offer_can() -> None:
    plan = audit_plan(40, 400, 0.1)
    assert (plan.least, plan.usual, plan.raise_to) == (47, 145, 0.4)
    assert plan.line == (
        "40 random audit items measure the model: its accuracy will be known to about ±10 points. "
        "They are too few to say when you have labelled enough: that takes at least 47, and about 145 as a rule."
    )
    raised = audit_plan(160, 400, 0.4)
    assert raised.raise_to is None
    assert raised.line.endswith("known to about ±5 points, and the page can say when you have labelled enough.")


def test_the_highest_share_is_offered_where_only_the_least_can_be_had() -> None:
    assert audit_plan(20, 200, 0.1).raise_to == 0.5
    assert audit_plan(100, 200, 0.5).raise_to is None
    assert "about 145 as a rule" in audit_plan(100, 200, 0.5).line
    assert "at least" not in audit_plan(100, 200, 0.5).line


def test_nothing_is_offered_that_cannot_be_had() -> None:
    assert audit_plan(6, 60, 0.1).raise_to is None  # not even half of the pool would do
    assert audit_plan(40, 400, 0.1, free=5).raise_to is None  # most are labelled
    assert audit_plan(1000, 10_000, 0.1).raise_to is None  # it is enough
    assert audit_plan(130, 1300, 0.1).raise_to is None  # nearly
    assert audit_plan(90, 900, 0.1).raise_to == 0.2


def test_without_audit_items_nothing_will_be_known() -> None:
    plan = audit_plan(0, 4000, 0.0)
    assert plan.half_width is None
    assert plan.line.startswith("No audit items")
    assert plan.raise_to == 0.05
