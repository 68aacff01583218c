"""How redundant a batch is: distances within it, near copies planted in the pool, and what chance would give."""

from dataclasses import dataclass
from math import lgamma
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

NOBODY: Final = -1  # the group of rows without copies
PAIRS: Final = 20_000  # for the mean distance of a pool
LOW: Final = 0.05


@dataclass(frozen=True, eq=False)
class Planted:
    """A pool in which some rows have near copies: the rows that follow the first n."""

    X: Float[np.ndarray, "n d"]
    y: Int[np.ndarray, "n"]
    group: Int[np.ndarray, "n"]  # rows of one origin have the same; NOBODY elsewhere
    noise: float  # the length of the difference between a row and its copy


def plant(
    X: Float[np.ndarray, "n d"],
    y: Int[np.ndarray, "n"],
    origins: int,
    copies: int,
    share: float,
    rng: np.random.Generator,
) -> Planted:
    """`copies` of each of so many random rows, at `share` of the pool's mean distance from them, with their labels."""
    chosen = np.sort(rng.choice(len(X), origins, replace=False))
    noise = share * mean_distance(X, rng)
    away = rng.standard_normal((origins * copies, X.shape[1]))
    away *= noise / np.linalg.norm(away, axis=1, keepdims=True)
    group = np.full(len(X) + len(away), NOBODY)
    group[chosen] = np.arange(origins)
    group[len(X) :] = np.repeat(np.arange(origins), copies)
    near = (np.repeat(X[chosen], copies, axis=0) + away).astype(np.float32)
    return Planted(np.concatenate([X, near]), np.concatenate([y, np.repeat(y[chosen], copies)]), group, noise)


def mean_distance(X: Float[np.ndarray, "n d"], rng: np.random.Generator) -> float:
    """Between two random rows."""
    a, b = rng.integers(len(X), size=(2, PAIRS))
    return float(np.linalg.norm(X[a].astype(np.float64) - X[b], axis=1)[a != b].mean())


def copies_picked(group: Int[np.ndarray, "q"]) -> dict[str, int]:
    """Of the picks, given by their groups: how many are of groups, how many have a fellow, how many repeat one.

    `with_fellow`: another member of the group is among the picks. `repeats`: one was before it, so that these labels
    are wasted.
    """
    sizes = np.unique(group[group != NOBODY], return_counts=True)[1]
    return {
        "in_groups": int(sizes.sum()),
        "with_fellow": int(sizes[sizes > 1].sum()),
        "repeats": int((sizes - 1).sum()),
    }


def copies_by_chance(open_rows: int, groups: int, members: int, picks: int) -> dict[str, float]:
    """What `copies_picked` is on average for so many random rows, where all groups are open.

    The picks of one group are hypergeometric: E[k] = members picks / rows, of which those with k = 1 have no fellow,
    and one of each group with k > 0 repeats nobody.
    """
    mean = members * picks / open_rows
    none = chance_of_none(open_rows, members, picks)
    # One certain member, and none of the others among the rest: members times the chance of that.
    single = mean * chance_of_none(open_rows - 1, members - 1, picks - 1) if picks else 0.0
    return {
        "in_groups": groups * mean,
        "with_fellow": groups * (mean - single),
        "repeats": groups * (mean - (1 - none)),
    }


def chance_of_none(rows: int, members: int, picks: int) -> float:
    """That none of the members is among the picks: C(rows - members, picks) / C(rows, picks)."""
    if rows - members < picks:
        return 0.0
    logs = lgamma(rows - members + 1) - lgamma(rows - members - picks + 1) - lgamma(rows + 1) + lgamma(rows - picks + 1)
    return float(np.exp(logs))


def nearest(
    to: Float[Tensor, "q d"], among: Float[Tensor, "m d"], itself: bool = False, distinct: bool = False
) -> Float[Tensor, "q"]:
    """The distance of each row to the nearest of the others.

    With `itself` the others are the same rows, and row i is not compared with row i. With `distinct` what is at no
    distance at all is taken for the same row. Differences are taken, and not products: near copies would be lost in
    their rounding.
    """
    distances = torch.cdist(to, among, compute_mode="donot_use_mm_for_euclid_dist")
    if itself:
        distances.fill_diagonal_(torch.inf)
    if distinct:
        distances[distances == 0] = torch.inf
    return distances.amin(1)


def in_figures(distances: Float[Tensor, "q"]) -> dict[str, float]:
    values = distances.double()
    return {
        "mean": float(values.mean()),
        "median": float(values.median()),
        "low": float(values.quantile(LOW)),
    }


def distances_of(
    picks: Float[Tensor, "q d"], labelled: Float[Tensor, "l d"], random: list[Float[Tensor, "q d"]]
) -> dict[str, Any]:
    """Distances within a batch and to what was labelled before, beside those of random rows.

    `crowding` is the median over the picks of the distance to the nearest other pick over that to the nearest of as
    many random rows. Who picks from sparse regions has large distances however much his picks are alike; this takes the
    regions out: 1 is a batch that is no denser than the pool where it lies, and below 1 it is.
    """
    within, before = nearest(picks, picks, itself=True), nearest(picks, labelled)
    by_chance = torch.cat([nearest(rows, rows, itself=True) for rows in random])
    before_by_chance = torch.cat([nearest(rows, labelled) for rows in random])
    # One random row fewer, since a pick has one fellow less than there are picks.
    crowding = [float((within / nearest(picks, rows[:-1], distinct=True)).median()) for rows in random]
    found: dict[str, Any] = {"within": in_figures(within), "to_labelled": in_figures(before)}
    found["within_over_random"] = over(found["within"], in_figures(by_chance))
    found["to_labelled_over_random"] = over(found["to_labelled"], in_figures(before_by_chance))
    found["crowding"] = float(np.mean(crowding))
    return found


def over(values: dict[str, float], reference: dict[str, float]) -> dict[str, float]:
    return {name: value / reference[name] if reference[name] else float("nan") for name, value in values.items()}


def balance(labels: Int[np.ndarray, "q"], n_classes: int) -> float:
    """Entropy of the classes over that of equally many of each: 1 is balanced, 0 one class only."""
    shares = np.bincount(labels, minlength=n_classes) / len(labels)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum() / np.log(n_classes)) if n_classes > 1 else 1.0
