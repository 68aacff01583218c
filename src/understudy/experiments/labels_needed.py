"""How many labels each strategy needed for a target, with bootstrap intervals over repetitions.

What is not seen is bounded, not guessed: a curve that ends below the target needed more than the last budget, one that
starts above it at most the first. Explained in docs/statistics.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Bool, Float

from understudy.errors import UsageError
from understudy.experiments.curves import Curves
from understudy.experiments.metrics import Metric
from understudy.experiments.statistics import (
    CONFIDENCE,
    DECIMALS,
    RESAMPLES,
    by_area,
    contestants,
    reference_of,
    rising_curve,
    round_off,
)

N_TARGETS: Final = 3  # by default
VALUES_AT_ONCE: Final = 4_000_000  # of partial means, so that many budgets do not fill the memory


@dataclass(frozen=True)
class LabelsNeeded:
    """The labels that a strategy needed for a target, and how many times those of the reference that is.

    Bounds are pairs: (800, 800) was seen; (3000, inf) is more than the last budget, (0, 600) at most the first.
    Intervals (95 %) go from the lower to the upper bounds of resampled repetitions; None for a single repetition.
    """

    strategy: str
    target: float
    labels: tuple[float, float]
    interval: tuple[float, float] | None
    missed: float  # share of resamples in which the mean curve did not reach the target
    ratio: tuple[float, float] | None  # None: of the reference itself, or nothing is known
    ratio_interval: tuple[float, float] | None


def labels_needed(
    curves: Curves,
    targets: Sequence[float] | None = None,
    reference: str | None = None,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> tuple[tuple[LabelsNeeded, ...], ...]:
    """For each contestant, best area first, the labels needed for each target; `default_targets` if none are named.

    The same repetitions are drawn for all strategies in a resample, so that ratios are paired.
    """
    reference, curves = reference_of(curves, reference), contestants(curves)
    targets = default_targets(curves) if targets is None else targets
    drawn = _draw(curves.repeats, seed, resamples)
    found: dict[str, list[np.ndarray]] = {}
    for name, values in curves.values.items():
        rising = round_off(_rising(round_off(drawn @ curves.upwards(values))))
        levels = [round(curves.measure.sign * target, DECIMALS) for target in targets]
        found[name] = [_bounds(rising, np.array(curves.schedule, dtype=float), level) for level in levels]
    return tuple(
        tuple(
            _combine(name, target, own, None if name == reference else theirs)
            for target, own, theirs in zip(targets, found[name], found[reference], strict=True)
        )
        for name in by_area(curves)
    )


def default_targets(curves: Curves, n: int = N_TARGETS) -> tuple[float, ...]:
    """A few round values between the best start and the worst end of all contestants, the hardest last.

    If there are none, because one strategy ends below the start of another, those between the start and the end of the
    reference.
    """
    curves = contestants(curves)
    rising = {name: curves.upwards(rising_curve(curves, name)) for name in curves.values}
    low, high = max(one[0] for one in rising.values()), min(one[-1] for one in rising.values())
    if not low < high:
        low, high = rising[reference_of(curves)][[0, -1]]
    if not low < high:
        return ()
    step = 10.0 ** math.floor(math.log10((high - low) / n))
    # Rounded to what is easier to reach, so that whoever reached the value reaches the target.
    levels = [math.floor((low + (high - low) * (i + 1) / n) / step + 1e-9) * step for i in range(n)]
    return tuple(dict.fromkeys(float(curves.measure.sign * round(level, 12)) for level in levels if level > low))


def parse_targets(text: str, measure: Metric) -> tuple[float, ...]:
    """Targets from the command line: `0.8,0.85`, the easiest first."""
    try:
        found = {float(part) for part in text.split(",")}
    except ValueError:
        found = set()
    if not found or not all(math.isfinite(value) for value in found):
        raise UsageError(f"targets must be numbers separated by commas, e.g. 0.8,0.85; got {text!r}")
    if measure.is_share and (outside := [value for value in found if not 0 <= value <= 1]):
        raise UsageError(f"a target of {measure.title} must be between 0 and 1, e.g. 0.85; got {outside[0]:g}")
    return tuple(sorted(found, reverse=measure.lower_is_better))


def _draw(repeats: int, seed: int, resamples: int) -> Float[np.ndarray, "b r"]:
    """How much each repetition weighs: evenly in the first row, as resampled in the others."""
    even = np.full((1, repeats), 1 / repeats)
    if repeats == 1:
        return even
    picked = np.random.default_rng(seed).integers(repeats, size=(resamples, repeats))
    counts = np.zeros((resamples, repeats))
    np.add.at(counts, (np.arange(resamples)[:, None], picked), 1)
    return np.concatenate([even, counts / repeats])


def _bounds(
    rising: Float[np.ndarray, "b t"], budgets: Float[np.ndarray, "t"], level: float
) -> Float[np.ndarray, "b 2"]:
    """The bounds of the labels at which each curve reaches a level."""
    below: Bool[np.ndarray, "b t"] = rising < level
    first = below.sum(1)  # the first budget at which it is reached
    after = np.clip(first, 1, max(1, len(budgets) - 1)) if len(budgets) > 1 else np.zeros_like(first)
    before = np.maximum(after - 1, 0)
    rows = np.arange(len(rising))
    rise = rising[rows, after] - rising[rows, before]
    way = np.divide(level - rising[rows, before], rise, out=np.zeros_like(rise), where=rise > 0)
    at = budgets[before] + way * (budgets[after] - budgets[before])
    lower = np.where(first == 0, 0.0, np.where(first == len(budgets), budgets[-1], at))
    upper = np.where(first == 0, budgets[0], np.where(first == len(budgets), np.inf, at))
    return np.stack([lower, upper], 1)


def _rising(means: Float[np.ndarray, "b t"]) -> Float[np.ndarray, "b t"]:
    """The nearest non-decreasing curve to each row: the largest of the smallest means of stretches around a budget."""
    n = means.shape[1]
    out = means.copy()
    falls = np.flatnonzero((np.diff(means, axis=1) < 0).any(1))  # the others rise already
    size = max(1, VALUES_AT_ONCE // n**2)
    lengths = np.maximum(np.arange(n) + 1 - np.arange(n)[:, None], 1)
    upper = np.triu(np.ones((n, n), dtype=bool))
    for start in range(0, len(falls), size):
        rows = falls[start : start + size]
        block = means[rows]
        sums = np.concatenate([np.zeros((len(block), 1)), block.cumsum(1)], 1)
        # [b, i, j]: the mean from budget i to budget j, where i <= j
        stretch = np.where(upper, (sums[:, None, 1:] - sums[:, :-1, None]) / lengths, np.inf)
        least = np.minimum.accumulate(stretch[:, :, ::-1], axis=2)[:, :, ::-1]  # over ends from j on
        most = np.maximum.accumulate(np.where(upper, least, -np.inf), axis=1)  # over starts up to i
        out[rows] = most[:, np.arange(n), np.arange(n)]
    return out


def _combine(
    strategy: str, target: float, own: Float[np.ndarray, "b 2"], theirs: Float[np.ndarray, "b 2"] | None
) -> LabelsNeeded:
    resampled = own[1:]
    ratio = (
        None if theirs is None else np.stack([_divide(own[:, 0], theirs[:, 1]), _divide(own[:, 1], theirs[:, 0])], 1)
    )
    return LabelsNeeded(
        strategy,
        target,
        labels=(float(own[0, 0]), float(own[0, 1])),
        interval=_interval(resampled),
        missed=float(np.isinf(resampled[:, 1]).mean()) if len(resampled) else float(np.isinf(own[0, 1])),
        ratio=None if ratio is None else (float(ratio[0, 0]), float(ratio[0, 1])),
        ratio_interval=None if ratio is None else _interval(ratio[1:]),
    )


def _divide(ours: Float[np.ndarray, "b"], theirs: Float[np.ndarray, "b"]) -> Float[np.ndarray, "b"]:
    """A bound of a ratio; nothing above is unlimited, and nothing below is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: np.ndarray = ours / theirs
    return np.where(np.isnan(found), np.where(np.isinf(ours), np.inf, 0.0), found)


def _interval(bounds: Float[np.ndarray, "b 2"]) -> tuple[float, float] | None:
    """The middle 95 % of resamples: outwards to the next one, since between bounds nothing is interpolated."""
    if not len(bounds):
        return None
    tail = (1 - CONFIDENCE) / 2 * (len(bounds) - 1)
    low, high = np.sort(bounds[:, 0])[math.floor(tail)], np.sort(bounds[:, 1])[math.ceil(len(bounds) - 1 - tail)]
    return float(low), float(high)
