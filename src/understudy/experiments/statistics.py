"""Statistics of learning curves: areas, labels saved, paired differences, penalties, ranks.

Each figure is explained in docs/statistics.md. Accuracies are fractions. Everything holds for other metrics too:
differences are turned so that positive is better, whichever way the metric goes. Repetitions are paired, so
differences are taken within a repetition first. All budgets count: nothing here picks the best of several rounds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import isotonic_regression
from scipy.stats import friedmanchisquare, rankdata, studentized_range, t

from understudy.errors import UnderstudyError
from understudy.experiments.curves import Curves, Role, area_over_width, role_of

CONFIDENCE: Final = 0.95
SIGNIFICANCE_LEVEL: Final = 0.05
MIN_REPEATS_RANKED: Final = 5  # over several comparisons; fewer repetitions decide nothing there
MIN_REPEATS_TESTED: Final = 10  # with fewer repetitions there are intervals but no p-values
RESAMPLES: Final = 10_000
EARLY_LABELS: Final = 1_000
# Sums of the same accuracies may differ by rounding. To this many decimals they are equal.
DECIMALS: Final = 12

Key = TypeVar("Key")
Values = TypeVar("Values", float, np.ndarray)


# What is compared with what


def contestants(curves: Curves) -> Curves:
    """The curves without controls; for a system that changes training, only those of its selection."""
    return curves.only(name for name in curves.values if role_of(name, curves.values) is Role.CONTESTANT)


def reference_of(curves: Curves, wanted: str | None = None) -> str:
    """The strategy that the others are compared with: `wanted`, else random, else the first."""
    names = list(contestants(curves).values)
    if not names:
        raise UnderstudyError(f"no strategy of {curves.dataset} can be compared; run at least one, e.g. random")
    if wanted is None:
        return "random" if "random" in names else names[0]
    if wanted not in names:
        raise UnderstudyError(f"the reference {wanted!r} is not among the strategies: {', '.join(names)}")
    return wanted


# Single strategies


def by_area(curves: Curves) -> list[str]:
    """Strategies by area, best first: all contestants, then systems that change training, then controls."""
    goodness = {name: float(curves.upwards(curves.area(name)).mean()) for name in curves.values}
    return sorted(curves.values, key=lambda name: (role_of(name, curves.values), -goodness[name]))


def log_area(curves: Curves, strategy: str) -> Float[np.ndarray, "r"]:
    """The mean over the logarithm of the labels, so that every doubling of the labels has the same weight."""
    if curves.schedule[0] < 1:
        raise UnderstudyError(f"the first budget is {curves.schedule[0]}; areas over the logarithm need one label")
    return area_over_width(curves.of(strategy), np.log(curves.schedule))


def early_part(curves: Curves) -> Curves:
    """The budgets of up to 1,000 labels; the first third if these are none or all."""
    n = sum(budget <= EARLY_LABELS for budget in curves.schedule)
    if n in (0, len(curves.schedule)):
        n = -(-len(curves.schedule) // 3)
    return curves.first(n)


# Labels saved


def rising_curve(curves: Curves, strategy: str) -> Float[np.ndarray, "t"]:
    """The curve that never gets worse nearest to the mean curve, by least squares (isotonic regression).

    It never falls, or never rises if lower is better. A running maximum would keep every lucky peak, and favour noisy
    strategies.
    """
    return curves.upwards(_never_worse(curves.upwards(curves.of(strategy)).mean(0)))


def _never_worse(upwards: Float[np.ndarray, "t"]) -> Float[np.ndarray, "t"]:
    """The nearest non-decreasing curve."""
    never_falls: np.ndarray = isotonic_regression(upwards).x
    return never_falls


def labels_to_reach(curves: Curves, strategy: str, accuracy: float) -> float | None:
    """How many labels it took, interpolated between budgets; None if it was never reached.

    The first budget if the curve starts at that accuracy or better.
    """
    return _reached_at(curves, rising_curve(curves, strategy), accuracy)


def _reached_at(curves: Curves, curve: Float[np.ndarray, "t"], level: float) -> float | None:
    """Where a curve that never gets worse first reaches a level of the metric."""
    sign = curves.measure.sign
    return _crossing(sign * curve, curves.schedule, sign * level)


def _crossing(curve: Float[np.ndarray, "t"], schedule: tuple[int, ...], accuracy: float) -> float | None:
    """Where a non-decreasing curve first reaches an accuracy; the first budget if it starts there, None if never."""
    if accuracy > curve[-1]:
        return None
    i = int(np.searchsorted(curve, accuracy))
    if i == 0:
        return float(schedule[0])
    return float(np.interp(accuracy, curve[i - 1 : i + 1], schedule[i - 1 : i + 1]))


def shared_range(curves: Curves, strategy: str, reference: str | None = None) -> tuple[float, float] | None:
    """The accuracies at which both curves can be read, from the better start to the worse end; None if none."""
    one, other = (curves.upwards(rising_curve(curves, name)) for name in (strategy, reference_of(curves, reference)))
    low, high = max(one[0], other[0]), min(one[-1], other[-1])
    sign = curves.measure.sign
    return (float(sign * low), float(sign * high)) if low <= high else None


def labelling_efficiency(curves: Curves, strategy: str, accuracy: float, reference: str | None = None) -> float | None:
    """How many labels of the reference one label of the strategy is worth; None outside the shared range."""
    shared = shared_range(curves, strategy, reference)
    if shared is None or not min(shared) <= accuracy <= max(shared):
        return None
    theirs = labels_to_reach(curves, reference_of(curves, reference), accuracy)
    ours = labels_to_reach(curves, strategy, accuracy)
    return None if theirs is None or ours is None else theirs / ours


@dataclass(frozen=True)
class LabelCost:
    """The labels that a strategy and the reference needed for an accuracy; None if one never reached it."""

    accuracy: float
    labels: float | None
    of_reference: float | None

    @property
    def saved(self) -> float | None:
        return None if self.labels is None or self.of_reference is None else self.of_reference - self.labels

    @property
    def share_saved(self) -> float | None:
        return None if self.saved is None or self.of_reference is None else self.saved / self.of_reference


def labels_saved(
    curves: Curves, strategy: str, reference: str | None = None, accuracies: Sequence[float] | None = None
) -> tuple[LabelCost, ...]:
    """The labels needed for each accuracy; by default, those of the reference at each budget but the first.

    With another metric accuracy stands for its values; those that are easier to reach come first.
    """
    ours, theirs = rising_curve(curves, strategy), rising_curve(curves, reference_of(curves, reference))
    if accuracies is None:
        accuracies = curves.upwards(np.unique(curves.upwards(theirs[1:]))).tolist()
    return tuple(
        LabelCost(level, _reached_at(curves, ours, level), _reached_at(curves, theirs, level)) for level in accuracies
    )


# Paired differences


@dataclass(frozen=True)
class Difference:
    """A mean over repetitions and its 95 % confidence interval; a single repetition has no interval."""

    mean: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class PairedComparison:
    """How a strategy differs from a reference. Positive: the strategy is better."""

    strategy: str
    reference: str
    area: Difference
    log_area: Difference
    early_area: Difference
    budgets: tuple[Difference, ...]
    bootstrap: tuple[float, float] | None  # bootstrap interval of the area
    wins: int  # repetitions with the better area
    ties: int
    losses: int
    p: float | None  # of the area, by Wilcoxon's signed ranks
    p_holm: float | None  # the same, corrected for the number of strategies


def compare(curves: Curves, reference: str | None = None, seed: int = 0) -> tuple[PairedComparison, ...]:
    """Every strategy against the reference, in the order of the curves."""
    reference, curves = reference_of(curves, reference), contestants(curves)
    start = early_part(curves)
    others = [name for name in curves.values if name != reference]
    areas = {name: round_off(curves.upwards(curves.area(name) - curves.area(reference))) for name in others}
    tested = curves.repeats >= MIN_REPEATS_TESTED
    p = [signed_rank_p(areas[name]) for name in others] if tested else []
    corrected = holm_correction(np.array(p, dtype=float)).tolist()
    return tuple(
        PairedComparison(
            name,
            reference,
            area=paired_difference(areas[name]),
            log_area=paired_difference(curves.upwards(log_area(curves, name) - log_area(curves, reference))),
            early_area=paired_difference(curves.upwards(start.area(name) - start.area(reference))),
            budgets=tuple(
                paired_difference(column) for column in curves.upwards(curves.of(name) - curves.of(reference)).T
            ),
            bootstrap=bootstrap_interval(areas[name], seed),
            wins=int((areas[name] > 0).sum()),
            ties=int((areas[name] == 0).sum()),
            losses=int((areas[name] < 0).sum()),
            p=p[i] if tested else None,
            p_holm=corrected[i] if tested else None,
        )
        for i, name in enumerate(others)
    )


def round_off(values: np.ndarray) -> np.ndarray:
    return np.round(values, DECIMALS)


def paired_difference(differences: Float[np.ndarray, "r"]) -> Difference:
    """Mean and t-interval of differences within repetitions."""
    mean = float(differences.mean())
    if len(differences) == 1:
        return Difference(mean, None)
    half = half_width(float(differences.std(ddof=1)), len(differences))
    return Difference(mean, (mean - half, mean + half))


def half_width(deviation: Values, n: int, freedom: int | None = None) -> Values:
    """The half-width of the 95 % t-interval of a mean of n values; NaN without a degree of freedom.

    The standard deviation may come from more values than these, as a pooled one does; then `freedom` is its number of
    degrees of freedom, otherwise n - 1.
    """
    freedom = n - 1 if freedom is None else freedom
    critical = _critical_t(freedom, CONFIDENCE) if freedom else float("nan")
    return critical * deviation / n**0.5


def _critical_t(freedom: int, confidence: float) -> float:
    """The two-sided critical value of |t| at this confidence level."""
    return float(t.ppf((1 + confidence) / 2, freedom))


def paired_differences(one: Mapping[Key, float], other: Mapping[Key, float]) -> dict[Key, float]:
    """One minus the other, in each repetition that both have; in the order of the first."""
    return {key: value - other[key] for key, value in one.items() if key in other}


def pooled_deviation(samples: Iterable[Sequence[float]]) -> tuple[float, int]:
    """The pooled standard deviation of samples, and its degrees of freedom; NaN and 0 if there are none.

    Single values and samples without any variation are left out.
    """
    many = [np.array(sample) for sample in samples if len(sample) > 1 and np.ptp(sample) > 0]
    squares = sum(float(((sample - sample.mean()) ** 2).sum()) for sample in many)
    freedom = sum(len(sample) - 1 for sample in many)
    return ((squares / freedom) ** 0.5, freedom) if freedom else (float("nan"), 0)


def bootstrap_interval(
    differences: Float[np.ndarray, "r"], seed: int = 0, resamples: int = RESAMPLES
) -> tuple[float, float] | None:
    """The percentile bootstrap interval (95 %) of the mean over repetitions; None for a single one."""
    n = len(differences)
    if n == 1:
        return None
    means = differences[np.random.default_rng(seed).integers(n, size=(resamples, n))].mean(1)
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def signed_rank_p(differences: Float[np.ndarray, "r"]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test, exact with ties and zeros too. Costs O(r³).

    Zeros are ranked and then left out (Pratt); the signs of the rest are permuted. Twice a rank is whole, so all sums
    of ranks are counted by adding one rank after the other.
    """
    ranks = np.rint(2 * rankdata(abs(differences))).astype(int)[differences != 0]
    chance = np.zeros(ranks.sum() + 1)  # probability of each sum of positive ranks
    chance[0] = 1
    for rank in ranks:
        chance[rank:] = (chance[rank:] + chance[: len(chance) - rank]) / 2
        chance[:rank] /= 2
    seen = ranks[differences[differences != 0] > 0].sum()
    tail = min(chance[: seen + 1].sum(), chance[seen:].sum())
    return float(min(1.0, 2 * tail))


def holm_correction(p: Float[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
    """p-values after Holm's correction, which controls the family-wise error rate."""
    order = np.argsort(p, kind="stable")
    out = np.empty_like(p)
    out[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1)
    return out


def smallest_p(repeats: int, comparisons: int) -> float:
    """The smallest possible corrected p: that of a strategy that is better in every repetition."""
    return min(1.0, comparisons * 2.0 ** (1 - repeats))


# All pairs


@dataclass(frozen=True)
class Penalties:
    """In `matrix[i, j]` the share of budgets at which i was significantly better than j, summed over data sets."""

    names: tuple[str, ...]
    matrix: Float[np.ndarray, "s s"]
    datasets: tuple[str, ...]

    @property
    def penalty(self) -> Float[np.ndarray, "s"]:
        """(s,): the mean of each column: how often a strategy is beaten. Lower is better."""
        return self.matrix.mean(0)

    @property
    def wins(self) -> Float[np.ndarray, "s"]:
        """(s,): the sum of each row: how often it beats others."""
        return self.matrix.sum(1)


def penalty_matrix(*curves: Curves) -> Penalties:
    """How often each strategy is better than each other (Ash et al. 2020), for strategies that all data sets have."""
    names = _in_all(curves)
    matrix = np.zeros((len(names), len(names)))
    for one in curves:
        if one.repeats < MIN_REPEATS_TESTED:
            raise UnderstudyError(
                f"{one.dataset} has {one.repeats} repetitions; a penalty matrix needs at least {MIN_REPEATS_TESTED}"
            )
        matrix += _significantly_better(np.stack([one.upwards(one.of(name)) for name in names])).mean(-1)
    return Penalties(names, matrix, tuple(one.dataset for one in curves))


def _in_all(curves: Sequence[Curves]) -> tuple[str, ...]:
    """The contestants that all data sets have, in the order of the first."""
    if not curves:
        raise UnderstudyError("there are no curves to compare; pass those of at least one data set")
    if len(metrics := sorted({one.metric for one in curves})) > 1:
        raise UnderstudyError(f"curves of {' and '.join(metrics)} cannot be compared; pass those of one metric")
    first, *others = (contestants(one).values for one in curves)
    names = tuple(name for name in first if all(name in other for other in others))
    if len(names) < 2:
        raise UnderstudyError(f"all data sets share {len(names)} strategies; a comparison of all pairs needs two")
    return names


def _significantly_better(values: Float[np.ndarray, "s r t"]) -> Bool[np.ndarray, "s s t"]:
    """Whether the first strategy beats the second at a budget, by the paired t-test (two-sided, 0.05)."""
    differences = round_off(values[:, None] - values[None])  # (s, s, r, t)
    repeats = values.shape[1]
    limit = _critical_t(repeats - 1, 1 - SIGNIFICANCE_LEVEL) * differences.std(2, ddof=1)
    # Multiplied out, so that equal non-zero differences count as significant.
    better: np.ndarray = differences.mean(2) * repeats**0.5 > limit
    return better


@dataclass(frozen=True)
class Ranks:
    """Strategies by their average rank in area (1 is best) over blocks: the repetitions of all data sets."""

    names: tuple[str, ...]  # best first
    average: Float[np.ndarray, "s"]
    blocks: int
    friedman_p: float | None  # of all strategies being equal; None below ten blocks or three strategies
    critical_difference: float | None  # of average ranks, by Nemenyi's test; None below ten blocks
    p_holm: Float[np.ndarray, "s s"] | None  # of all pairs by signed ranks; None below ten blocks
    told_by: Literal["signed ranks", "Nemenyi"] | None  # the test of the pairs
    different: Bool[np.ndarray, "s s"]  # which pairs differ significantly; none below ten blocks
    groups: tuple[tuple[str, ...], ...]  # neighbours in rank, no two of which differ significantly by that test

    @property
    def pairs(self) -> int:
        return len(self.names) * (len(self.names) - 1) // 2

    def alike(self, name: str) -> list[str]:
        """The strategies that do not differ significantly from this one."""
        own = self.different[self.names.index(name)]
        return [other for other, differs in zip(self.names, own, strict=True) if other != name and not differs]


def rank_strategies(*curves: Curves) -> Ranks:
    """Average ranks, and which differ significantly; of strategies that all data sets have.

    Pairs are tested by signed ranks. If there are so many pairs that a corrected p can never be small, Nemenyi's test
    is used instead, provided that Friedman's rejects that all are the same.
    """
    names = _in_all(curves)
    areas = round_off(  # (s, blocks), higher is better
        np.concatenate([[one.upwards(one.area(name)) for name in names] for one in curves], axis=1)
    )
    average = rankdata(-areas, axis=0).mean(1)
    order = np.argsort(average, kind="stable")
    areas, blocks, tested = areas[order], areas.shape[1], areas.shape[1] >= MIN_REPEATS_TESTED
    best_first, average = tuple(names[i] for i in order), average[order]
    different = np.zeros((len(names), len(names)), dtype=bool)
    if not tested:
        return Ranks(
            best_first,
            average,
            blocks=blocks,
            friedman_p=None,
            critical_difference=None,
            p_holm=None,
            told_by=None,
            different=different,
            groups=(),
        )
    p, overall, distance = _p_of_pairs(areas), friedman_p(areas), nemenyi_distance(len(names), blocks)
    by_nemenyi = smallest_p(blocks, len(names) * (len(names) - 1) // 2) >= SIGNIFICANCE_LEVEL
    if not by_nemenyi:
        different = p < SIGNIFICANCE_LEVEL
    elif overall is not None and overall < SIGNIFICANCE_LEVEL:
        different = abs(average[:, None] - average) >= distance
    groups = tuple(best_first[start:end] for start, end in runs_without_difference(different))
    told_by: Literal["signed ranks", "Nemenyi"] = "Nemenyi" if by_nemenyi else "signed ranks"
    return Ranks(
        best_first,
        average,
        blocks=blocks,
        friedman_p=overall,
        critical_difference=distance,
        p_holm=p,
        told_by=told_by,
        different=different,
        groups=groups,
    )


def _p_of_pairs(areas: Float[np.ndarray, "s b"]) -> Float[np.ndarray, "s s"]:
    """Signed ranks of each pair, corrected for the number of pairs; 1 on the diagonal."""
    pairs = np.triu_indices(len(areas), 1)
    p = np.eye(len(areas))
    p[pairs] = holm_correction(
        np.array([signed_rank_p(round_off(areas[i] - areas[j])) for i, j in zip(*pairs, strict=True)])
    )
    return np.maximum(p, p.T)


def friedman_p(areas: Float[np.ndarray, "s b"]) -> float | None:
    if len(areas) < 3:
        return None
    if (areas == areas[0]).all():
        return 1.0
    return float(friedmanchisquare(*areas).pvalue)


def nemenyi_distance(strategies: int, blocks: int) -> float:
    """How far apart two average ranks must be to differ significantly (Demšar 2006)."""
    q = studentized_range.ppf(1 - SIGNIFICANCE_LEVEL, strategies, np.inf) / 2**0.5
    return float(q * (strategies * (strategies + 1) / (6 * blocks)) ** 0.5)


def runs_without_difference(different: Bool[np.ndarray, "s s"]) -> list[tuple[int, int]]:
    """Start and end of each maximal run of at least two neighbours without a significant difference."""
    runs: list[tuple[int, int]] = []
    for start in range(len(different)):
        end = start + 1
        while end < len(different) and not different[start:end, end].any():
            end += 1
        if end - start > 1 and (not runs or end > runs[-1][1]):
            runs.append((start, end))
    return runs
