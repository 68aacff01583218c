"""The lot is fair, comes evenly, and the score made of it is unbiased, by enumeration wherever that is possible."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, permutations, product
from math import ceil, comb, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from understudy import UnderstudyError
from understudy.sessions.audit import (
    Score,
    audit_is_due,
    audit_rows,
    audit_rows_among_new,
    change,
    change_of,
    counted_rows,
    next_in_turn,
    score,
    wilson,
)

# Which items


def test_a_tenth_of_the_pool_is_drawn_without_repetition() -> None:
    rows = audit_rows(1000, 0.1, seed=3)
    assert len(rows) == len(set(rows)) == 100
    assert set(rows) <= set(range(1000))


@pytest.mark.parametrize(("n", "share", "count"), [(70, 0.1, 7), (71, 0.1, 8), (1, 0.1, 1), (0, 0.1, 0), (9, 0.0, 0)])
def test_the_share_is_rounded_up_and_only_by_what_is_more_than_rounding(n: int, share: float, count: int) -> None:
    assert len(audit_rows(n, share, seed=0)) == count


def test_the_draw_follows_from_the_seed_alone() -> None:
    assert audit_rows(500, 0.1, seed=1) == audit_rows(500, 0.1, seed=1)
    assert audit_rows(500, 0.1, seed=1) != audit_rows(500, 0.1, seed=2)


def test_a_larger_share_goes_on_where_a_smaller_one_ended() -> None:
    assert audit_rows(500, 0.3, seed=1)[:50] == audit_rows(500, 0.1, seed=1)


def test_rows_with_a_label_are_left_out_and_the_share_is_one_of_the_others() -> None:
    excluded = frozenset(range(0, 100, 2))
    rows = audit_rows(100, 0.1, seed=0, excluded=excluded)
    assert len(rows) == 5
    assert not set(rows) & excluded


def test_each_row_is_as_likely_as_another_at_every_place() -> None:
    draws = [audit_rows(5, 0.4, seed) for seed in range(4000)]
    for place in range(2):
        counts = np.bincount([draw[place] for draw in draws], minlength=5)
        assert stats.chisquare(counts).pvalue > 1e-3
    pairs = {pair: draws.count(pair) for pair in permutations(range(5), 2)}
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-3


def test_new_rows_are_audit_items_one_by_one_and_have_turns_in_order() -> None:
    rows, turns = audit_rows_among_new(5_100, 0.1, seed=7, first_row=100)
    assert (rows, turns) == audit_rows_among_new(5_100, 0.1, seed=7, first_row=100)
    assert all(100 <= row < 5_100 for row in rows)
    assert len(set(rows)) == len(rows)
    assert list(turns) == sorted(turns)
    assert all(0 <= turn < 1 for turn in turns)
    assert stats.binomtest(len(rows), 5_000, 0.1).pvalue > 1e-3
    assert stats.kstest(turns, "uniform").pvalue > 1e-3
    excluded = set(range(100, 200))
    left = audit_rows_among_new(5_100, 0.1, seed=7, excluded=excluded, first_row=100)[0]
    assert list(left) == [row for row in rows if row not in excluded], "what had a label takes no other row's place"
    assert audit_rows_among_new(5_100, 0.0, seed=7, first_row=100) == ((), ())


def test_however_few_rows_come_at_a_time_each_is_as_likely() -> None:
    """A share of each handful, rounded up, would be all of them."""
    for batch in (1, 3, 50):
        counts = np.zeros(150)
        for seed in range(200):
            for first in range(1000, 1150, batch):
                rows, _ = audit_rows_among_new(first + batch, 0.2, seed, first_row=first)
                counts[np.array(rows, int) - 1000] += 1
        assert stats.chisquare(counts).pvalue > 1e-3
        assert stats.binomtest(int(counts.sum()), 200 * 150, 0.2).pvalue > 1e-3


def test_where_the_share_was_lowered_new_rows_keep_pace_with_those_drawn_before() -> None:
    """Of both parts the same share is asked: a fifth of the old ones was drawn, of the new ones a tenth."""
    rows, turns = audit_rows_among_new(11_000, 0.1, seed=1, first_row=1_000, largest_share=0.2)
    assert 0.45 < turns[-1] < 0.5
    draws, asked, own = [range(10**6, 10**6 + 200), rows], set[int](), [None, turns]
    for _ in range(500):
        asked.add(next_in_turn(draws, asked, turns=own))  # type: ignore[arg-type]
    new = len(asked & set(rows))
    assert new / 10_000 == pytest.approx((500 - new) / 1_000, rel=0.1)


@pytest.mark.parametrize("batch", [2, 40])
def test_the_score_of_a_pool_that_grows_by_a_few_items_at_a_time_is_unbiased(batch: int) -> None:
    """What joins is harder than what was there; audit items are asked all the time, and not all are by the end.

    The mean over many seeds is the accuracy on the pool as it is in the end. Were a share of each few items drawn,
    rounded up, and asked to its end, the score would be mostly that of the new ones.
    """
    rng = np.random.default_rng(0)
    n, joined, share = 300, 280, 0.2
    is_right = np.concatenate([rng.random(n) < 0.9, rng.random(joined) < 0.4])
    scores, simple = list[float](), list[float]()
    for seed in range(100):
        for found, is_simple in ((scores, False), (simple, True)):
            draws: list[Sequence[int]] = [audit_rows(n, share, seed)]
            turns: list[Sequence[float] | None] = [None]
            asked: dict[int, None] = {}
            for first in range(n, n + joined, batch):
                rows, own = audit_rows_among_new(first + batch, share, seed, first_row=first)
                draws.append(range(first, first + ceil(share * batch)) if is_simple else rows)
                turns.append(None if is_simple else own)
                if first % 4 == 0:
                    asked[int(next_in_turn(draws, asked, turns=turns))] = None  # type: ignore[arg-type]
            while len(asked) < 90:
                asked[int(next_in_turn(draws, asked, turns=turns))] = None  # type: ignore[arg-type]
            found.append(is_right[list(asked)].mean())
    truth, error = is_right.mean(), np.std(scores) / np.sqrt(len(scores))
    assert abs(np.mean(scores) - truth) < 3 * error + 0.01, "up to rounding: of few rows a share is a whole number"
    if batch == 2:
        assert abs(np.mean(simple) - truth) > 0.1


@pytest.mark.parametrize(("n", "share", "first"), [(10, -0.1, 0), (10, 0.6, 0), (10, float("nan"), 0), (10, 0.1, 11)])
def test_shares_and_rows_that_make_no_sense_are_refused(n: int, share: float, first: int) -> None:
    with pytest.raises(UnderstudyError, match="must be from 0 to"):
        audit_rows_among_new(n, share, seed=0, first_row=first)
    if first == 0:
        with pytest.raises(UnderstudyError, match="must be from 0 to"):
            audit_rows(n, share, seed=0)


def test_audit_rows_are_asked_in_the_order_of_the_draw() -> None:
    assert next_in_turn([[5, 2, 9]], set()) == 5
    assert next_in_turn([[5, 2, 9]], {5, 9}) == 2
    assert next_in_turn([[5, 2, 9]], {5, 2, 9}) is None
    assert next_in_turn([], set()) is None
    assert next_in_turn([[], [3]], set()) == 3


def test_after_a_pool_grew_its_new_part_catches_up_and_then_both_go_on_in_proportion() -> None:
    draws = [list(range(20)), list(range(100, 110))]
    done = set(range(10))
    order = []
    while (row := next_in_turn(draws, done)) is not None:
        order.append(row)
        done.add(row)
    assert order[:5] == [100, 101, 102, 103, 104]
    for i in range(5, len(order)):
        new = sum(row >= 100 for row in order[:i])
        assert abs(new / 10 - (10 + i - new) / 20) <= 1 / 10


def test_only_rows_that_the_lot_asked_for_count() -> None:
    draws = [[4, 8, 1, 6, 3], [20, 21]]
    assert counted_rows(draws, asked={4, 8, 20}, answered={4, 8, 20}) == [4, 8, 20]
    assert counted_rows(draws, asked={4, 8, 1}, answered={4, 1}) == [4, 1]  # 8 was skipped, or is with somebody
    assert counted_rows(draws, asked={4}, answered={4, 3, 99}) == [4]  # 3 was picked by somebody, 99 by the strategy


def test_skipped_rows_are_at_the_back_of_the_queue_and_never_vanish() -> None:
    assert next_in_turn([[4, 8, 1]], asked={4, 8}, skipped=[8, 4]) == 1
    assert next_in_turn([[4, 8, 1]], asked={4, 8, 1}, skipped=[8, 4]) == 8
    assert next_in_turn([[4, 8, 1]], asked={4, 8, 1}, skipped=[4]) == 4


def test_a_row_labelled_out_of_turn_is_asked_in_its_turn_all_the_same() -> None:
    assert next_in_turn([[4, 8, 1]], asked={4}) == 8


@pytest.mark.parametrize("questions", [1, 2, 3])
def test_labelling_audit_rows_out_of_turn_does_not_move_the_score(questions: int) -> None:
    """Over all orders of a draw, when somebody picks all rows on which the model is right and labels them."""
    right = {0: 1, 1: 0, 2: 1, 3: 0, 4: 1}
    picked = {row for row in right if right[row]}
    in_turn, all_answers = [], []
    for order in permutations(right):
        asked: set[int] = set()
        while len(asked) < questions:
            row = next_in_turn([order], asked)
            assert row is not None
            asked.add(row)
        counted = counted_rows([order], asked, asked | picked)
        in_turn.append(Fraction(sum(right[row] for row in counted), len(counted)))
        all_answers.append(Fraction(sum(right[row] for row in asked | picked), len(asked | picked)))
    assert sum(in_turn) / len(in_turn) == Fraction(3, 5)
    assert sum(all_answers) / len(all_answers) > Fraction(3, 5)


# When


@pytest.mark.parametrize("share", [0.1, 0.05, 0.25, 1 / 3, 0.5])
def test_audit_questions_come_evenly_and_never_two_in_a_row(share: float) -> None:
    audits, places = 0, []
    for question in range(1000):
        if audit_is_due(question - audits, audits, share):
            audits += 1
            places.append(question)
        assert abs(audits - share * (question + 1)) <= 0.5 + 1e-6
    gaps = np.diff(places)
    assert gaps.min() >= 2
    assert gaps.max() - gaps.min() <= 1


def test_one_in_ten_is_the_fifth_the_fifteenth_and_so_on() -> None:
    audits, places = 0, []
    for question in range(1, 41):
        if audit_is_due(question - 1 - audits, audits, 0.1):
            audits += 1
            places.append(question)
    assert places == [5, 15, 25, 35]


def test_none_is_due_right_after_another_or_without_a_share() -> None:
    assert audit_is_due(100, 2, 0.1)
    assert not audit_is_due(100, 2, 0.1, after_audit=True)
    assert not audit_is_due(100, 0, 0.0)


# Wilson


@given(some.integers(1, 500), some.floats(0, 1), some.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_the_ends_of_wilsons_interval_solve_its_equation(n: int, share: float, confidence: float) -> None:
    right = round(share * n)
    z = stats.norm.ppf((1 + confidence) / 2)
    low, high = wilson(right, n, confidence)
    assert 0 <= low <= right / n <= high <= 1
    for p in (low, high):
        assert (p - right / n) ** 2 == pytest.approx(z**2 * p * (1 - p) / n, abs=1e-12)


def test_wilsons_interval_is_that_of_scipy() -> None:
    for right, n in [(0, 5), (5, 5), (81, 90), (1, 2), (700, 1000)]:
        theirs = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
        assert wilson(right, n) == pytest.approx((theirs.low, theirs.high))


def test_without_answers_nothing_is_known() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("right", "n"), [(-1, 5), (6, 5)])
def test_more_right_than_there_are_is_refused(right: int, n: int) -> None:
    with pytest.raises(UnderstudyError, match="right must be from 0 to n"):
        wilson(right, n)


def coverage(n: int, p: float) -> float:
    """How likely the interval holds p, over all outcomes of n independent items."""
    holds = [low <= p <= high for low, high in (wilson(right, n) for right in range(n + 1))]
    return float(sum(stats.binom.pmf(right, n, p) for right in range(n + 1) if holds[right]))


@pytest.mark.parametrize("n", [10, 30, 100, 300])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(n: int) -> None:
    over = [coverage(n, p) for p in np.linspace(0.01, 0.99, 99)]
    assert np.mean(over) == pytest.approx(0.95, abs=0.012)
    assert min(over) > 0.83  # close to 0 or 1, where one outcome more or less decides
    assert min(coverage(n, p) for p in np.linspace(0.2, 0.8, 25)) > 0.91


@pytest.mark.parametrize(("pool", "n"), [(60, 20), (200, 50), (200, 150)])
def test_in_a_finite_pool_the_interval_holds_the_truth_more_often(pool: int, n: int) -> None:
    finite, infinite = [], []
    for right_in_pool in range(pool // 4, pool):
        p = right_in_pool / pool
        draw = stats.hypergeom(pool, right_in_pool, n)
        bounds = [wilson(right, n) for right in range(n + 1)]
        finite.append(sum(draw.pmf(right) for right, (low, high) in enumerate(bounds) if low <= p <= high))
        infinite.append(coverage(n, p))
    assert np.mean(finite) > np.mean(infinite) + 0.005
    assert np.mean(finite) > 0.95


# The score


def test_a_score_counts_the_rows_where_the_likeliest_class_is_the_label() -> None:
    predictions = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.5, 0.5]])
    assert score(predictions, {0: 0, 1: 1, 2: 1}) == Score(2, 3, 2 / 3, *wilson(2, 3))


def test_a_class_that_the_model_does_not_know_is_wrong_and_a_row_without_a_prediction_is_left_out() -> None:
    predictions = np.array([[0.9, 0.1], [0.2, 0.8]])
    scored = score(predictions, {0: 2, 1: 1, 5: 0})
    assert (scored.right, scored.n) == (1, 2)


def test_without_answers_there_is_no_accuracy() -> None:
    assert score(np.eye(2), {}) == Score(0, 0, None, 0.0, 1.0)


def test_leaving_out_bad_items_leaves_an_unbiased_score_of_the_others() -> None:
    right, bad = [1, 0, 1, 1, 0, 1], {1, 5}
    found = []
    for rows in combinations(range(6), 4):
        good = [row for row in rows if row not in bad]
        found.append(np.mean([right[row] for row in good]))
    # Samples of one size would be weighed alike; here each size is unbiased by itself, and so is their mean.
    assert np.mean(found) == pytest.approx(np.mean([right[row] for row in range(6) if row not in bad]))


def test_over_all_samples_the_mean_score_is_the_accuracy_on_the_pool() -> None:
    predictions = np.eye(2)[[0, 1, 1, 0, 1, 0, 1]]
    truth = [0, 1, 0, 0, 1, 1, 1]
    for m in range(1, 8):
        scores = [score(predictions, {row: truth[row] for row in rows}) for rows in combinations(range(7), m)]
        assert len(scores) == comb(7, m)
        assert np.mean([one.accuracy for one in scores]) == pytest.approx(5 / 7)


TYPES = 3  # kinds of items, each with a label of its own
LABEL_OF = (0, 1, 1)
WEIGHTS = (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6))  # how common they are


def fit(kinds: list[int]) -> list[int]:
    """A model: what was seen it knows, of the rest it says what was most frequent, else 0."""
    labels = [LABEL_OF[kind] for kind in kinds]
    usual = int(2 * sum(labels) > len(labels))
    return [LABEL_OF[kind] if kind in kinds else usual for kind in range(TYPES)]


def picky(kinds: list[int]) -> list[int]:
    """A strategy that looks at all it may label, and takes the two rarest kinds it sees."""
    return sorted(kinds, key=lambda kind: (kinds.count(kind), -kind))[:2]


@pytest.mark.parametrize("strategy", [picky, lambda kinds: kinds[:2], lambda kinds: sorted(kinds)[-1:]])
def test_the_score_is_unbiased_whatever_the_strategy_labels(strategy: object) -> None:
    """Over every pool of five items from a population and every draw of two: the mean score is the mean accuracy on
    a fresh item, though the items that the strategy chose are no sample of anything."""
    assert callable(strategy)
    on_audit = on_fresh = on_labelled = Fraction(0)
    for kinds in product(range(TYPES), repeat=5):
        chance = Fraction(1)
        for kind in kinds:
            chance *= WEIGHTS[kind]
        for audit in combinations(range(5), 2):
            rest = [kinds[row] for row in range(5) if row not in audit]
            chosen = strategy(rest)
            model = fit(chosen)
            right = [model[kind] == LABEL_OF[kind] for kind in range(TYPES)]
            on_audit += chance / 10 * Fraction(sum(right[kinds[row]] for row in audit), 2)
            on_fresh += chance / 10 * sum(WEIGHTS[kind] for kind in range(TYPES) if right[kind])
            on_labelled += chance / 10 * Fraction(sum(right[kind] for kind in chosen), len(chosen))
    assert on_audit == on_fresh
    assert on_labelled > on_fresh


# Two models


def test_a_change_counts_what_was_gained_and_lost_on_the_same_items() -> None:
    before, after = np.eye(2)[[0, 0, 1, 1, 0]], np.eye(3)[[0, 1, 1, 0, 2]]
    found = change(before, after, {0: 0, 1: 1, 2: 1, 3: 1, 4: 2, 9: 0})
    assert (found.gained, found.lost, found.n) == (2, 1, 5)
    assert found.difference == pytest.approx(1 / 5)
    assert found == change_of(2, 1, 5)


def test_the_interval_of_a_change_is_walds_with_half_an_item_in_each_cell() -> None:
    cells = np.array([80.5, 7.5, 3.5, 12.5])  # right twice, gained, lost, wrong twice
    n = cells.sum()
    p = cells / n
    deviation = sqrt((p[1] + p[2] - (p[1] - p[2]) ** 2) / n)
    found = change_of(7, 3, 102)
    assert (found.low, found.high) == pytest.approx(
        (p[1] - p[2] - 1.959964 * deviation, p[1] - p[2] + 1.959964 * deviation)
    )


@pytest.mark.parametrize(("n", "gain", "loss"), [(30, 0.05, 0.05), (60, 0.1, 0.02), (60, 0.02, 0.02), (100, 0.15, 0.1)])
def test_the_interval_of_a_change_holds_the_truth_as_often_as_it_says(n: int, gain: float, loss: float) -> None:
    held = 0.0
    for gained in range(n + 1):
        for lost in range(n + 1 - gained):
            found = change_of(gained, lost, n)
            if found.low <= gain - loss <= found.high:
                held += stats.multinomial.pmf([gained, lost, n - gained - lost], n, [gain, loss, 1 - gain - loss])
    assert 0.94 < held <= 1


def test_counts_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(UnderstudyError, match="do not add up"):
        change_of(3, 3, 5)
