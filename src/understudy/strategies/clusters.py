"""What strategies that cluster share: k-means, k-medoids, and the member nearest to each centre."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.checks import check_choice
from understudy.core.lloyd import (
    MAX_ITERATIONS,
    TOLERANCE,
    assign_block,
    divisors,
    mean_and_spread,
    restart_empty,
    run_lloyd,
    sum_by_cluster,
)
from understudy.strategies.kcenter import Metric, kcenter_greedy
from understudy.strategies.points import Points
from understudy.strategies.view import PoolView

Space = Literal["hidden", "features"]
SEEDING_ROWS: Final = 2_000  # at least, and per centre:
SEEDING_ROWS_PER_CENTRE: Final = 5
LLOYD_UP_TO: Final = 500  # clusters; mini-batches above
BATCH_SIZE: Final = 5_000
MAX_EPOCHS: Final = 10  # over the mini-batches
EPOCH_TOLERANCE: Final = 2e-2  # an epoch's inertia includes its initial centres, so it falls by more
MEDOID_SAMPLES: Final = 3
MEDOID_SAMPLE_SIZE: Final = 2_000
MEDOID_ITERATIONS: Final = 30


def table_of(view: PoolView, on: Space) -> Float[Tensor, "n _"]:
    """What to cluster: the learner's last hidden layer, or the pool's features."""
    return view.hidden if on == "hidden" else view.features


def check_space(on: str) -> None:
    check_choice("on", on, get_args(Space))


@dataclass(frozen=True, eq=False)
class Clusters:
    """Some clusters may be empty, where points coincide."""

    centres: Float[Tensor, "k d"]
    assignment: Int[Tensor, "m"]  # the nearest centre of each point
    distances: Float[Tensor, "m"]  # squared, to that centre

    def __len__(self) -> int:
        return len(self.centres)

    @property
    def sizes(self) -> Int[Tensor, "k"]:
        return torch.bincount(self.assignment, minlength=len(self))


def k_means(
    points: Points | Float[Tensor, "m d"],
    k: int,
    rng: np.random.Generator,
    *,
    weights: Float[Tensor, "m"] | None = None,
    lloyd_up_to: int = LLOYD_UP_TO,
    batch_size: int = BATCH_SIZE,
    max_iterations: int = MAX_ITERATIONS,
    tolerance: float = TOLERANCE,
) -> Clusters:
    """k centres (m if there are fewer points) and each point's nearest; the assignment is to these final centres.

    Seeded by k-means++ on a sample. Up to `lloyd_up_to` clusters, Lloyd's iterations over all points until the inertia
    falls by less than `tolerance` of itself; above, mini-batches if there are more points than one batch. A centre
    that loses all its points restarts at the point farthest from its own centre. O(mkd) per iteration or epoch.

    The surrogate's basis uses the same iterations from other seeds; this adds weights, mini-batches and members.
    """
    given = points if isinstance(points, Points) else Points(points)
    m = len(given)
    if k >= m:
        places = torch.arange(m, device=given.device)
        return Clusters(given.take(places), places, given.table.new_zeros(m))
    scaled = _Scaled.of(given)
    mass = _mass(weights, scaled)
    centres = _seeds(scaled, k, mass, rng)
    if k <= lloyd_up_to or m <= batch_size:
        centres = run_lloyd(scaled, centres, mass=mass, max_iterations=max_iterations, tolerance=tolerance).centres
    else:
        centres = _mini_batches(scaled, centres, mass, batch_size, rng)
    assignment, distances = _assign(scaled, centres)
    return Clusters(centres * scaled.spread + scaled.origin, assignment, distances * scaled.spread**2)


def nearest_members(
    points: Points, clusters: Clusters, n: int, is_held: Bool[Tensor, "m"] | None = None
) -> Int[Tensor, "n"]:
    """n distinct positions: the member nearest to each centre, largest clusters first.

    Clusters that contain a held point, which counts as chosen, are left out. Where clusters are empty or
    too few, the rest are chosen farthest first from all chosen and held points.
    """
    by_distance = torch.sort(clusters.distances, stable=True).indices
    order = by_distance[torch.sort(clusters.assignment[by_distance], stable=True).indices]
    owners = clusters.assignment[order]
    is_first = torch.ones_like(owners, dtype=torch.bool)
    is_first[1:] = owners[1:] != owners[:-1]
    nearest, owners = order[is_first], owners[is_first]  # one for each non-empty cluster
    if is_held is not None:
        is_free = torch.bincount(clusters.assignment[is_held], minlength=len(clusters))[owners] == 0
        nearest, owners = nearest[is_free], owners[is_free]
    chosen = nearest[torch.sort(clusters.sizes[owners], descending=True, stable=True).indices][:n]
    return refill(points, chosen, n, is_held)


def refill(
    points: Points, chosen: Int[Tensor, "c"], n: int, is_held: Bool[Tensor, "m"] | None = None
) -> Int[Tensor, "n"]:
    """The chosen positions, filled up to n: farthest first from them and from held ones, ties to the lowest.

    Duplicates of chosen points come last.
    """
    if len(chosen) == n:
        return chosen
    rows = torch.arange(len(points.table), device=points.device) if points.rows is None else points.rows
    is_left = torch.ones(len(points), dtype=torch.bool, device=points.device)
    is_left[chosen] = False
    centres = rows[chosen]
    if is_held is not None:
        is_left &= ~is_held
        centres = torch.cat([centres, rows[is_held]])
    metric: Metric = "cosine" if points.unit else "euclidean"  # for unit-norm points the order is the same
    unused = np.random.default_rng(0)  # only a traversal without centres uses it
    more, _ = kcenter_greedy(points.table, centres, rows[is_left], n - len(chosen), unused, metric)
    place = torch.empty(len(points.table), dtype=torch.int64, device=points.device)
    place[rows] = torch.arange(len(rows), device=points.device)
    return torch.cat([chosen, place[more]])


def nearest_centres(
    points: Points, centres: Float[Tensor, "k d"]
) -> tuple[Int[Tensor, "m"], Float[Tensor, "m"]]:  # fmt: skip
    """The nearest centre of each point, and the squared distance to it."""
    scaled = _Scaled.of(points)
    nearest, distances = _assign(scaled, (centres - scaled.origin) / scaled.spread)
    return nearest, distances * scaled.spread**2


def k_medoids(
    points: Points,
    k: int,
    rng: np.random.Generator,
    *,
    samples: int = MEDOID_SAMPLES,
    sample_size: int = MEDOID_SAMPLE_SIZE,
) -> Int[Tensor, "q"]:
    """Positions of up to k medoids: the best of those found on several random samples.

    Pairwise distances are computed within a sample only, as in CLARA. O(s² + mkd) per sample of s.
    """
    m = len(points)
    k, size = min(k, m), min(m, max(sample_size, 2 * k + 40))
    best, cost = torch.arange(k, device=points.device), float("inf")
    for _ in range(samples):
        places = torch.from_numpy(np.sort(rng.choice(m, size, replace=False))).to(points.device)
        drawn = Points(points.take(places))
        seeds = nearest_members(drawn, k_means(drawn, k, rng), k)
        medoids = places[alternate_medoids(drawn.table.double(), seeds)]
        found = float(nearest_centres(points, points.take(medoids))[1].double().sqrt().sum())
        if found < cost:
            best, cost = medoids, found
    return best


def alternate_medoids(points: Float[Tensor, "s d"], medoids: Int[Tensor, "k"]) -> Int[Tensor, "k"]:
    """Assign points to the nearest medoid, move each medoid to the member with the least total distance; repeat."""
    distances = torch.cdist(points - points.mean(0), points - points.mean(0))
    for _ in range(MEDOID_ITERATIONS):
        owner = distances[:, medoids].argmin(1)
        owner[medoids] = torch.arange(len(medoids), device=owner.device)  # of two coinciding medoids, each keeps itself
        totals = torch.where(owner[:, None] == owner, distances, 0.0).sum(1)
        by_total = torch.sort(totals, stable=True).indices
        order = by_total[torch.sort(owner[by_total], stable=True).indices]
        sizes = torch.bincount(owner, minlength=len(medoids))
        moved = order[sizes.cumsum(0) - sizes]
        # Equal totals must not make it cycle.
        moved = torch.where(totals[moved] < totals[medoids], moved, medoids)
        if bool((moved == medoids).all()):
            break
        medoids = moved
    return medoids


def turn_numbers(clusters: Int[np.ndarray, "m"]) -> Int[np.ndarray, "m"]:
    """For each point, how many of its cluster come before it: sorting by this takes clusters in turn."""
    _, sizes = np.unique(clusters, return_counts=True)
    found = np.empty(len(clusters), dtype=np.int64)
    found[np.argsort(clusters, kind="stable")] = np.arange(len(clusters)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return found


# -- private --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Scaled:
    """Points, centred and scaled, so that neither offset nor scale costs precision where squares are subtracted."""

    points: Points
    origin: Float[Tensor, "d"]
    spread: float

    @classmethod
    def of(cls, points: Points) -> "_Scaled":
        return cls(points, *mean_and_spread(points.blocks, len(points)))

    def __len__(self) -> int:
        return len(self.points)

    def take(self, places: Int[Tensor, "b"]) -> Float[Tensor, "b d"]:
        return (self.points.take(places) - self.origin).div_(self.spread)

    def blocks(self) -> Iterator[tuple[int, Float[Tensor, "b d"]]]:
        for first, block in self.points.blocks():
            yield first, (block - self.origin).div_(self.spread)


def _mass(weights: Float[Tensor, "m"] | None, scaled: _Scaled) -> Float[Tensor, "m"]:
    """Weights scaled to a maximum of 1. If all are 0, all points count the same."""
    like = scaled.points.table
    if weights is None or float(weights.max()) <= 0:
        return torch.ones(len(scaled), dtype=like.dtype, device=like.device)
    return (weights.clamp_min(0) / weights.max()).to(like.dtype)  # rounding may make a margin slightly negative


def _seeds(scaled: _Scaled, k: int, mass: Float[Tensor, "m"], rng: np.random.Generator) -> Float[Tensor, "k d"]:
    """Greedy k-means++ on a sample: of several points drawn by squared distance, the one that reduces inertia most."""
    m, trials = len(scaled), 2 + int(math.log(k))
    size = min(m, max(SEEDING_ROWS, SEEDING_ROWS_PER_CENTRE * k))
    places = torch.from_numpy(np.sort(rng.choice(m, size, replace=False))).to(mass.device)
    sample, odds = scaled.take(places), mass[places].double()
    squares = sample.square().sum(1)
    rounding = (sample.shape[1] + 8) * torch.finfo(sample.dtype).eps
    gaps = torch.full_like(odds, torch.inf)  # squared distances to the nearest seed
    chosen: list[int] = []
    while len(chosen) < k:
        odds_now = odds * gaps if chosen else odds
        sums = np.cumsum(odds_now.cpu().numpy())  # a GPU sums in no fixed order
        if not sums[-1] > 0:  # the rest are duplicates, or have zero weight
            chosen += np.setdiff1d(np.arange(size), chosen)[: k - len(chosen)].tolist()
            break
        # Rounding may lead past the last point with any mass.
        drawn = np.searchsorted(sums, rng.random(trials if chosen else 1) * sums[-1], "right")
        tried = torch.from_numpy(np.minimum(drawn, np.flatnonzero(np.diff(sums, prepend=0.0))[-1])).to(mass.device)
        sums_of_squares = squares[:, None] + squares[tried]  # (size, trials)
        near = torch.addmm(sums_of_squares, sample, sample[tried].T, alpha=-2.0).clamp_min_(0.0).double()
        # Subtracted directly: duplicates of a seed must not be drawn because rounding leaves them some distance.
        at, of = (near < sums_of_squares * rounding).nonzero(as_tuple=True)
        for part in torch.split(torch.arange(len(at), device=at.device), SEEDING_ROWS):
            apart = sample[at[part]].double() - sample[tried[of[part]]]
            near[at[part], of[part]] = apart.square_().sum(1)
        near = torch.minimum(near, gaps[:, None])
        best = int((odds @ near).argmin())
        gaps = near[:, best]
        chosen.append(int(tried[best]))
        gaps[chosen[-1]] = 0.0
    return sample[torch.tensor(chosen, device=mass.device)]


def _mini_batches(
    scaled: _Scaled, centres: Float[Tensor, "k d"], mass: Float[Tensor, "m"], size: int, rng: np.random.Generator
) -> Float[Tensor, "k d"]:
    """Each centre is the mean of all points ever assigned to it. Epochs go over all points in random order."""
    k, before = len(centres), float("inf")
    total = centres.new_zeros(k)
    for _ in range(MAX_EPOCHS):
        order = rng.permutation(len(scaled))
        met, inertia = centres.new_zeros(k), 0.0
        gaps = centres.new_zeros(len(scaled))
        for first in range(0, len(order), size):
            places = torch.from_numpy(np.sort(order[first : first + size])).to(mass.device)
            batch, part = scaled.take(places), mass[places]
            nearest, gaps[places] = assign_block(batch, centres)
            counts = sum_by_cluster(part[:, None], nearest, k)[:, 0]
            total += counts
            met += counts
            moves = sum_by_cluster(batch.mul_(part[:, None]), nearest, k) - counts[:, None] * centres
            centres = centres + moves / divisors(total)
            inertia += float((gaps[places] * part).sum(dtype=torch.float64))
        total[restart_empty(centres, met, gaps * mass, scaled)] = 0
        if before - inertia <= EPOCH_TOLERANCE * inertia:
            break
        before = inertia
    return centres


def _assign(scaled: _Scaled, centres: Float[Tensor, "k d"]) -> tuple[Int[Tensor, "m"], Float[Tensor, "m"]]:
    """As `assign_block`, for all points; distances are sums of squares rather than a difference, for precision."""
    assignment = torch.empty(len(scaled), dtype=torch.int64, device=centres.device)
    distances = centres.new_empty(len(scaled))
    for first, block in scaled.blocks():
        nearest, _ = assign_block(block, centres)
        assignment[first : first + len(block)] = nearest
        distances[first : first + len(block)] = block.sub_(centres[nearest]).square_().sum(1)
    return assignment, distances
