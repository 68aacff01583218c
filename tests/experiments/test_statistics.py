"""Each figure against a slow literal computation, numbers worked out by hand, or scipy."""

from itertools import product
from math import log, sqrt

import numpy as np
import pytest
from scipy import stats

from understudy import UnderstudyError
from understudy.experiments.curves import Curves
from understudy.experiments.statistics import (
    bootstrap_interval,
    compare,
    contestants,
    early_part,
    friedman_p,
    half_width,
    holm_correction,
    labelling_efficiency,
    labels_saved,
    labels_to_reach,
    log_area,
    nemenyi_distance,
    paired_difference,
    paired_differences,
    penalty_matrix,
    pooled_deviation,
    rank_strategies,
    reference_of,
    rising_curve,
    runs_without_difference,
    shared_range,
    signed_rank_p,
    smallest_p,
)

SCHEDULE = (600, 800, 1000, 2000, 4000)


def toy(schedule: tuple[int, ...] = (10, 20, 40), dataset: str = "toy", **accuracy: object) -> Curves:
    return Curves(dataset, schedule, {name: np.array(values, dtype=float) for name, values in accuracy.items()})


def noisy(repeats: int, names: str = "random margin badge", seed: int = 0, step: float = 0.01) -> Curves:
    """Strategies that start alike in each repetition, each a step better than the one before."""
    rng = np.random.default_rng(seed)
    start = rng.normal(0.6, 0.02, (repeats, 1))
    accuracy = {}
    for i, name in enumerate(names.split()):
        later = start + 0.08 * np.arange(1, 5) + step * i + rng.normal(0, 0.01, (repeats, 4))
        accuracy[name] = np.hstack([start, later])
    return Curves("noisy", SCHEDULE, accuracy)


# Single strategies


def test_areas_are_sums_of_trapezoids() -> None:
    curves = noisy(3)
    for j, values in enumerate(curves.accuracy["margin"]):
        steps = list(zip(SCHEDULE, SCHEDULE[1:], values, values[1:], strict=False))
        plain = sum((b - a) * (x + y) / 2 for a, b, x, y in steps) / (4000 - 600)
        over_log = sum((log(b) - log(a)) * (x + y) / 2 for a, b, x, y in steps) / (log(4000) - log(600))
        first = (200 * (values[0] + values[1]) / 2 + 200 * (values[1] + values[2]) / 2) / 400
        assert curves.area("margin")[j] == pytest.approx(plain)
        assert log_area(curves, "margin")[j] == pytest.approx(over_log)
        assert early_part(curves).area("margin")[j] == pytest.approx(first)


def test_the_areas_of_a_constant_curve_are_the_constant() -> None:
    curves = toy(SCHEDULE, flat=np.full((2, 5), 0.37))
    for areas in (curves.area("flat"), log_area(curves, "flat"), early_part(curves).area("flat")):
        np.testing.assert_allclose(areas, 0.37, rtol=1e-14)


def test_one_budget_is_its_own_area() -> None:
    curves = toy((5,), random=[[0.4], [0.6]])
    assert log_area(curves, "random").tolist() == [0.4, 0.6]
    assert early_part(curves).schedule == (5,)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ((600, 800, 1000, 2000), (600, 800, 1000)),
        ((1000, 2000, 3000), (1000,)),
        ((2000, 3000, 4000, 5000), (2000, 3000)),  # none of up to 1,000: a third, rounded up
        ((20, 40, 60, 80, 100, 120), (20, 40)),  # all of them: else early would be the whole
    ],
)
def test_early_is_up_to_a_thousand_labels_or_the_first_third(
    schedule: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert early_part(toy(schedule, random=np.zeros((2, len(schedule))))).schedule == expected


def test_no_logarithm_of_no_labels() -> None:
    with pytest.raises(UnderstudyError, match="the first budget is 0"):
        log_area(toy((0, 10), random=[[0.1, 0.5]]), "random")


# What is compared with what


def test_the_reference_is_random_or_the_first_that_is_no_context() -> None:
    assert reference_of(noisy(2, "margin random")) == "random"
    assert reference_of(noisy(2, "margin_x10 margin badge")) == "margin"
    assert reference_of(noisy(2), "badge") == "badge"


@pytest.mark.parametrize("wrong", ["margn", "margin_x10"])
def test_a_reference_that_is_not_compared_is_refused(wrong: str) -> None:
    with pytest.raises(UnderstudyError, match=f"{wrong}.*random, margin"):
        reference_of(noisy(2, "random margin margin_x10"), wrong)


def test_context_alone_cannot_be_compared() -> None:
    with pytest.raises(UnderstudyError, match="run at least one"):
        compare(noisy(2, "margin_x10"))


def test_context_enters_no_test_and_no_rank() -> None:
    plain, more = noisy(10), noisy(10, "random margin badge margin_x10 ceiling")
    assert list(contestants(more).accuracy) == list(plain.accuracy)
    assert compare(more) == compare(plain)
    np.testing.assert_array_equal(penalty_matrix(more).matrix, penalty_matrix(plain).matrix)
    assert rank_strategies(more).names == rank_strategies(plain).names


def test_of_a_system_that_changes_training_its_selection_is_the_contestant() -> None:
    system, selection = "vaal", "vaal (selection only)"
    values = noisy(10, "random margin badge").accuracy
    curves = Curves("toy", SCHEDULE, {"random": values["random"], system: values["badge"], selection: values["margin"]})
    assert list(contestants(curves).accuracy) == ["random", selection]
    assert [found.strategy for found in compare(curves)] == [selection]
    assert compare(curves)[0].p == compare(curves)[0].p_holm  # one comparison, not two
    assert set(rank_strategies(curves).names) == set(penalty_matrix(curves).names) == {"random", selection}
    alone = curves.only(["random", system])
    assert list(contestants(alone).accuracy) == ["random", system]


# Labels saved


CROSSING = toy(
    (100, 200, 400),
    random=[[0.5, 0.6, 0.7]],
    fast=[[0.5, 0.7, 0.8]],
    slow=[[0.5, 0.55, 0.6]],
)


def test_labels_to_reach_are_interpolated_between_budgets() -> None:
    assert labels_to_reach(CROSSING, "random", 0.65) == pytest.approx(300)
    assert labels_to_reach(CROSSING, "fast", 0.65) == pytest.approx(175)
    assert labels_to_reach(CROSSING, "slow", 0.65) is None
    assert labels_to_reach(CROSSING, "slow", 0.6) == 400
    assert labels_to_reach(CROSSING, "fast", 0.3) == 100


def test_efficiency_is_the_ratio_of_labels_where_both_curves_are() -> None:
    assert shared_range(CROSSING, "fast") == (0.5, 0.7)
    assert shared_range(CROSSING, "slow") == (0.5, 0.6)
    assert labelling_efficiency(CROSSING, "fast", 0.65) == pytest.approx(300 / 175)
    assert labelling_efficiency(CROSSING, "slow", 0.55) == pytest.approx(150 / 200)
    assert labelling_efficiency(CROSSING, "fast", 0.75) is None  # random never came so far
    assert labelling_efficiency(CROSSING, "fast", 0.45) is None  # nobody was ever so bad
    assert labelling_efficiency(CROSSING, "random", 0.65) == 1


def test_curves_without_a_common_accuracy_have_no_efficiency() -> None:
    apart = toy(random=[[0.1, 0.2, 0.3]], hook=[[0.4, 0.5, 0.6]])
    assert shared_range(apart, "hook") is None
    assert labelling_efficiency(apart, "hook", 0.3) is None


def test_labels_saved_at_the_accuracies_of_the_reference() -> None:
    at_200, at_400 = labels_saved(CROSSING, "fast")
    assert [at_200.accuracy, at_200.of_reference, at_200.labels] == pytest.approx([0.6, 200, 150])
    assert [at_200.saved, at_200.share_saved] == pytest.approx([50, 0.25])
    assert [at_400.of_reference, at_400.labels, at_400.share_saved] == pytest.approx([400, 200, 0.5])


def test_what_was_never_reached_saves_nothing_that_could_be_counted() -> None:
    by_slow, by_nobody = labels_saved(CROSSING, "slow", accuracies=[0.55, 0.9])
    assert by_slow.share_saved == pytest.approx(-50 / 150)
    assert (by_nobody.labels, by_nobody.of_reference, by_nobody.saved, by_nobody.share_saved) == (None,) * 4


def test_a_rise_that_is_taken_back_does_not_count() -> None:
    up_and_down = toy((10, 20, 30, 40), random=[[0.5, 0.8, 0.6, 0.75]])
    np.testing.assert_allclose(rising_curve(up_and_down, "random"), [0.5, 0.7, 0.7, 0.75])
    assert labels_to_reach(up_and_down, "random", 0.8) is None
    assert labels_to_reach(up_and_down, "random", 0.6) == pytest.approx(15)


def test_a_rising_curve_is_read_as_it_is_and_a_falling_one_is_flat() -> None:
    np.testing.assert_array_equal(rising_curve(CROSSING, "fast"), [0.5, 0.7, 0.8])
    falling = toy(random=[[0.7, 0.6, 0.5]])
    np.testing.assert_allclose(rising_curve(falling, "random"), 0.6)


# Paired differences


def test_differences_have_the_interval_of_the_paired_t_test() -> None:
    curves = noisy(6)
    margin, badge = compare(curves)
    for found in (margin, badge):
        name = found.strategy
        pairs = [
            (found.area, curves.area(name), curves.area("random")),
            (found.log_area, log_area(curves, name), log_area(curves, "random")),
            (found.early_area, early_part(curves).area(name), early_part(curves).area("random")),
        ]
        for i in range(1, len(SCHEDULE)):
            pairs.append((found.budgets[i], curves.accuracy[name][:, i], curves.accuracy["random"][:, i]))
        for difference, ours, theirs in pairs:
            expected = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
            assert difference.mean == pytest.approx((ours - theirs).mean())
            assert difference.interval == pytest.approx((expected.low, expected.high))


def test_equal_repetitions_have_an_interval_of_no_width() -> None:
    assert paired_difference(np.full(3, 0.25)).interval == (0.25, 0.25)
    assert compare(noisy(4))[0].budgets[0].interval == (0, 0)  # all strategies start alike


def test_the_bootstrap_is_the_middle_of_resampled_means() -> None:
    differences = np.array([0.01, 0.03, -0.02, 0.05, 0.02])
    rng, means = np.random.default_rng(7), []
    for drawn in rng.integers(5, size=(10_000, 5)):
        means.append(sum(differences[i] for i in drawn) / 5)
    means.sort()
    low, high = bootstrap_interval(differences, seed=7) or (0, 0)
    assert low == pytest.approx(means[250], abs=1e-4)
    assert high == pytest.approx(means[9749], abs=1e-4)
    assert bootstrap_interval(differences, seed=7) == (low, high)


def test_the_bootstrap_agrees_with_scipy() -> None:
    differences = np.random.default_rng(0).normal(0.02, 0.01, 12)
    theirs = stats.bootstrap((differences,), np.mean, method="percentile", rng=np.random.default_rng(1))
    expected = theirs.confidence_interval
    assert bootstrap_interval(differences) == pytest.approx((expected.low, expected.high), abs=5e-4)


def test_wins_ties_and_losses_are_counted_by_area() -> None:
    ours = [[0.5, 0.7, 0.9], [0.5, 0.6, 0.7], [0.5, 0.5, 0.6], [0.5, 0.9, 0.9]]
    (found,) = compare(toy(random=[[0.5, 0.6, 0.7]] * 4, margin=ours))
    assert (found.wins, found.ties, found.losses) == (2, 1, 1)


def test_ties_survive_rounding() -> None:
    # The same sum in another order: 0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1 to the last digit.
    values = np.array([[0.1, 0.2, 0.3]] * 10)
    nearly = toy((10, 20, 30), random=values, margin=values + np.array([1e-16, -1e-16, 1e-16]))
    (found,) = compare(nearly)
    assert (found.wins, found.ties, found.losses, found.p) == (0, 10, 0, 1)


def test_one_repetition_has_differences_and_nothing_else() -> None:
    margin, _ = compare(noisy(1))
    assert margin.area.mean > 0
    assert (margin.area.interval, margin.bootstrap, margin.p, margin.p_holm) == (None,) * 4
    assert all(budget.interval is None for budget in margin.budgets)


def test_p_values_come_with_the_tenth_repetition() -> None:
    assert all(found.p is found.p_holm is None and found.bootstrap for found in compare(noisy(9)))
    assert all(found.p is not None and found.p_holm is not None for found in compare(noisy(10)))


def test_p_values_are_those_of_scipy_corrected_for_the_number_of_strategies() -> None:
    curves = noisy(11, "margin random badge entropy coreset", step=0.003)
    found = compare(curves)
    expected = [
        stats.wilcoxon(curves.area(one.strategy), curves.area("random"), method="exact").pvalue for one in found
    ]
    assert [one.strategy for one in found] == ["margin", "badge", "entropy", "coreset"]
    assert [one.p for one in found] == pytest.approx(expected)
    assert [one.p_holm for one in found] == pytest.approx(holm_correction(np.array(expected)).tolist())
    assert len(set(expected)) > 1


@pytest.mark.parametrize("n", [10, 17, 50])
def test_signed_ranks_agree_with_scipy_where_there_are_no_ties(n: int) -> None:
    for seed in range(5):
        differences = np.random.default_rng(seed).normal(0.3, 1, n)
        assert signed_rank_p(differences) == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue)


@pytest.mark.parametrize(
    "differences",
    [[1, 1, 2, -2, 3, 3, 3], [0, 0, 1, 2, -3, 4, 4], [0, 5], [-1, -1, -1, -1], [2, -1, 0, 0, 0, 3, 3, -3, 6, 7]],
)
def test_signed_ranks_with_ties_and_zeros_count_all_signs(differences: list[float]) -> None:
    values = np.array(differences, dtype=float)
    ranks = [rank for rank, value in zip(stats.rankdata(abs(values)), values, strict=True) if value != 0]
    seen = sum(rank for rank, value in zip(ranks, values[values != 0], strict=True) if value > 0)
    sums = [sum(rank for rank, up in zip(ranks, ups, strict=True) if up) for ups in product([0, 1], repeat=len(ranks))]
    lower, upper = np.mean([total <= seen for total in sums]), np.mean([total >= seen for total in sums])
    assert signed_rank_p(values) == pytest.approx(min(1, 2 * min(lower, upper)))
    assert signed_rank_p(-values) == pytest.approx(signed_rank_p(values))


def test_no_differences_say_nothing() -> None:
    assert signed_rank_p(np.zeros(12)) == 1


def test_holm_by_hand() -> None:
    # Sorted: 0.01 * 4, 0.02 * 3, 0.03 * 2 (not below the one before), 0.5 * 1.
    assert holm_correction(np.array([0.02, 0.5, 0.01, 0.03])).tolist() == pytest.approx([0.06, 0.5, 0.04, 0.06])
    assert holm_correction(np.array([0.4, 0.6])).tolist() == pytest.approx([0.8, 0.8])
    assert holm_correction(np.array([0.9, 0.8])).tolist() == [1, 1]
    assert holm_correction(np.array([])).tolist() == []


def test_the_smallest_p_is_that_of_one_who_always_wins() -> None:
    assert smallest_p(10, 1) == signed_rank_p(np.arange(1.0, 11))
    assert smallest_p(10, 25) < 0.05 < smallest_p(10, 26)
    assert smallest_p(2, 5) == 1


# All pairs


def test_penalties_are_counted_by_one_t_test_at_a_time() -> None:
    curves = noisy(10, "random margin badge entropy", step=0.006)
    found = penalty_matrix(curves)
    expected = np.zeros((4, 4))
    for i, ours in enumerate(curves.accuracy.values()):
        for j, theirs in enumerate(curves.accuracy.values()):
            for budget in range(1, 5):  # at the first all are alike
                differences = ours[:, budget] - theirs[:, budget]
                if i != j and sqrt(10) * differences.mean() / differences.std(ddof=1) > 2.262:
                    expected[i, j] += 1 / 5
    np.testing.assert_allclose(found.matrix, expected)
    assert 0 < expected.sum() < 0.8 * 6  # some pairs differ, some do not
    np.testing.assert_allclose(found.penalty, [expected[:, j].sum() / 4 for j in range(4)])
    np.testing.assert_allclose(found.wins, [expected[i].sum() for i in range(4)])
    assert (found.matrix + found.matrix.T <= 1).all()  # at no budget do both win


def test_differences_that_are_all_the_same_count_unless_they_are_none() -> None:
    values = np.array([[0.5, 0.6, 0.7], [0.4, 0.5, 0.8]] * 5)
    found = penalty_matrix(toy(random=values, better=values + np.array([0, 0.1, 0.1]), same=values))
    assert found.names == ("random", "better", "same")
    assert found.matrix.tolist() == [[0, 0, 0], [pytest.approx(2 / 3), 0, pytest.approx(2 / 3)], [0, 0, 0]]


def test_the_largest_penalty_is_the_number_of_data_sets() -> None:
    ones = [
        toy(dataset="a", random=[[0.1] * 3] * 10, margin=[[0.2] * 3] * 10, badge=[[0.2] * 3] * 10),
        toy((5, 6), dataset="b", margin=[[0.4] * 2] * 11, random=[[0.3] * 2] * 11),  # in another order, one missing
    ]
    found = penalty_matrix(*ones)
    assert (found.names, found.datasets) == (("random", "margin"), ("a", "b"))
    np.testing.assert_allclose(found.matrix, [[0, 0], [2, 0]])


def test_below_ten_repetitions_nobody_is_called_significantly_better() -> None:
    with pytest.raises(UnderstudyError, match="noisy has 9 repetitions; a penalty matrix needs at least 10"):
        penalty_matrix(noisy(10), noisy(9))


def test_pairs_need_two_strategies_in_all_data_sets() -> None:
    with pytest.raises(UnderstudyError, match="all data sets share 1 strategies"):
        penalty_matrix(noisy(10), noisy(10, "badge entropy"))
    with pytest.raises(UnderstudyError, match="at least one data set"):
        rank_strategies()


def test_ranks_are_averaged_over_the_repetitions_of_all_data_sets() -> None:
    one = toy((1,), a=[[0.9], [0.9]], b=[[0.5], [0.8]], c=[[0.5], [0.7]])
    other = toy((1,), c=[[0.9]], b=[[0.5]], a=[[0.6]])
    found = rank_strategies(one, other)
    assert (found.names, found.blocks) == (("a", "c", "b"), 3)
    np.testing.assert_allclose(found.average, [4 / 3, 6.5 / 3, 7.5 / 3])  # a 1 1 2; c 2.5 3 1; b 2.5 2 3


def test_ranks_are_tested_from_ten_blocks_on() -> None:
    few, enough = rank_strategies(noisy(9)), rank_strategies(noisy(5), noisy(5, seed=1))
    assert (few.friedman_p, few.p_holm, few.critical_difference) == (None,) * 3
    assert few.groups == ()
    assert enough.blocks == 10
    assert enough.friedman_p is not None
    assert enough.p_holm is not None
    assert enough.critical_difference == pytest.approx(2.343 * sqrt(3 * 4 / 60), abs=1e-3)


def test_friedman_is_the_sum_of_squared_ranks() -> None:
    curves = noisy(12, "random margin badge entropy", step=0.002)
    found = rank_strategies(curves)
    statistic = 12 * 12 / (4 * 5) * (sum(rank**2 for rank in found.average) - 4 * 5**2 / 4)
    assert found.friedman_p == pytest.approx(stats.chi2.sf(statistic, 3))
    assert friedman_p(np.ones((3, 12))) == 1
    assert friedman_p(np.random.default_rng(0).random((2, 12))) is None  # two are a pair


# The table of Demšar (2006), page 16.
@pytest.mark.parametrize(("strategies", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_is_that_of_the_table(strategies: int, q: float) -> None:
    expected = q * sqrt(strategies * (strategies + 1) / (6 * 14))
    assert nemenyi_distance(strategies, 14) == pytest.approx(expected, abs=1e-3)


def test_pairs_are_told_apart_by_corrected_signed_ranks() -> None:
    curves = noisy(12, "random margin badge", step=0.004)
    found = rank_strategies(curves)
    pairs = [(0, 1), (0, 2), (1, 2)]
    raw = [signed_rank_p(curves.area(found.names[i]) - curves.area(found.names[j])) for i, j in pairs]
    assert found.p_holm is not None
    assert [found.p_holm[i, j] for i, j in pairs] == pytest.approx(holm_correction(np.array(raw)).tolist())
    assert [found.p_holm[j, i] for i, j in pairs] == [found.p_holm[i, j] for i, j in pairs]
    assert np.diag(found.p_holm).tolist() == [1, 1, 1]


def test_those_who_cannot_be_told_apart_are_grouped() -> None:
    far, near = noisy(12, step=0.1), noisy(12, step=0)
    assert rank_strategies(far).groups == ()
    assert rank_strategies(near).groups == (rank_strategies(near).names,)


EIGHT = "a b c d e f g h"


def test_where_no_corrected_p_can_be_small_nemenyi_tells_apart() -> None:
    found = rank_strategies(noisy(10, EIGHT, step=0.05))  # each better than the one before in every repetition
    assert smallest_p(10, found.pairs) > 0.05
    assert found.p_holm is not None
    assert (found.p_holm > 0.05).all()
    assert found.told_by == "Nemenyi"
    assert found.average.tolist() == list(range(1, 9))
    # The critical difference is 3.32: four neighbours differ by less, five do not.
    assert found.critical_difference == pytest.approx(3.031 * sqrt(8 * 9 / 60), abs=2e-3)
    assert found.groups == tuple(tuple(found.names[i : i + 4]) for i in range(5))
    assert found.alike("h") == ["g", "f", "e"]
    assert rank_strategies(noisy(11, EIGHT, step=0.05)).told_by == "signed ranks"


def test_nemenyi_tells_nobody_apart_where_friedman_finds_no_difference() -> None:
    found = rank_strategies(noisy(10, EIGHT, step=0))
    assert found.told_by == "Nemenyi"
    assert found.friedman_p is not None
    assert found.friedman_p > 0.05
    assert found.groups == (found.names,)


def test_runs_are_the_longest_without_a_pair_that_differs() -> None:
    different = np.zeros((5, 5), dtype=bool)
    for i, j in [(0, 2), (0, 3), (0, 4), (1, 4)]:
        different[i, j] = different[j, i] = True
    assert runs_without_difference(different) == [(0, 2), (1, 4), (2, 5)]
    assert runs_without_difference(~np.eye(3, dtype=bool)) == []
    assert runs_without_difference(np.zeros((3, 3), dtype=bool)) == [(0, 3)]
    first_and_second = np.zeros((3, 3), dtype=bool)
    first_and_second[0, 1] = first_and_second[1, 0] = True
    assert runs_without_difference(first_and_second) == [(1, 3)]  # 0 and 2 are not neighbours


def test_a_half_width_is_that_of_the_paired_interval_and_may_have_more_freedom() -> None:
    values = np.array([0.1, 0.4, 0.2, 0.7])
    found = paired_difference(values)
    assert found.interval is not None
    assert half_width(float(values.std(ddof=1)), 4) == pytest.approx((found.interval[1] - found.interval[0]) / 2)
    each = half_width(np.stack([values, 2 * values], 1).std(0, ddof=1), 4)
    assert each[1] == pytest.approx(2 * each[0])
    assert half_width(1.0, 4, freedom=30) < half_width(1.0, 4)
    assert np.isnan(half_width(1.0, 1))


def test_differences_are_of_the_repetitions_that_both_have() -> None:
    assert paired_differences({2: 0.5, 0: 0.75, 1: 0.5}, {0: 0.25, 2: 0.25, 9: 1.0}) == {2: 0.25, 0: 0.5}


def test_a_pooled_deviation_counts_the_samples_that_vary() -> None:
    deviation, freedom = pooled_deviation([[0.0, 2.0], [1.0, 5.0], [3.0], [4.0, 4.0]])
    assert freedom == 2
    assert deviation == pytest.approx(((2 + 8) / 2) ** 0.5)
    assert pooled_deviation([[3.0]])[1] == 0
