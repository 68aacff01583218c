"""DCoM: ProbCover whose labelled balls have radii of their own, mixed with the margin as coverage grows."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.checks import check_number, check_whole_number
from understudy.core.blocks import block_slices, rows_that_fit
from understudy.core.kernels import squared_distances
from understudy.strategies.kcenter import nearest_distances
from understudy.strategies.neighbours import Uncovered
from understudy.strategies.points import as_points
from understudy.strategies.probcover import MAX_PAIRS, ProbCover, estimate_delta
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, utilities
from understudy.strategies.uncertainty import margin
from understudy.strategies.view import Picks, PoolView, Utilities

ALPHA: Final = 0.95  # the starting radius is estimated as in ProbCover
PURITY_ROWS: Final = 2_000
LEAST_PURITY: Final = 0.4  # of a new ball where nothing is covered
PURITY_GAIN: Final = 0.2  # added to it where all is covered
ROUNDING: Final = 1e-9
NUMBERS_PER_BLOCK: Final = {"cpu": 2**22, "cuda": 2**26}  # distances in memory at a time
ROWS_AT_ONCE: Final = 8192  # converted to float64


@dataclass
class DCoM:
    """The row with the largest mix of margin and uncovered neighbours; the better the coverage, the more of the former.

    Not frozen: it remembers the radius of each labelled row, which is measured once, by the first model trained
    on it.
    """

    delta: float | None = None
    max_delta: float = 1.1
    resolution: float = 0.05
    centre: float = 0.8
    steepness: float = 50.0
    normalise: bool = True
    max_distances: int | None = None  # as of ProbCover
    _start: float | None = field(default=None, init=False, repr=False)
    # For each labelled row, its label when the radius was measured, and the radius.
    _measured: dict[int, tuple[int, float]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("max_delta", "resolution", "steepness"):
            check_number(name, getattr(self, name), above=0)
        if self.delta is not None:
            check_number("delta", self.delta, above=0)
        check_number("centre", self.centre, least=0, most=1)
        if self.max_distances is not None:
            check_whole_number("max_distances", self.max_distances, 1)

    @property
    def needs(self) -> Needs:
        # Without predictions it is probcover.
        return Needs(frozenset({"features"}), optional=frozenset({"probs"}))

    def memory(self) -> dict[str, Any]:
        labels, radii = zip(*self._measured.values(), strict=True) if self._measured else ((), ())
        return {"delta": self._start, "rows": list(self._measured), "labels": list(labels), "radii": list(radii)}

    def recall(self, memory: dict[str, Any]) -> None:
        self._start = memory["delta"]
        measured = zip(memory["labels"], memory["radii"], strict=True)
        self._measured = dict(zip(memory["rows"], measured, strict=True))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        points = as_points(view.features, self.normalise)
        start = self._starting_radius(points, view.n_classes, rng)
        if not view.has("probs"):
            plain = ProbCover(delta=start, normalise=self.normalise, max_distances=self.max_distances)
            return plain.select(view, n, rng)
        radii, is_covered = self._measure_radii(points, view, start)
        competence = competence_at(float(is_covered.double().mean()), self.centre, self.steepness)
        radius = float(radii.mean()) if len(radii) else start
        pending = view.pending
        if len(pending):
            everything = torch.arange(len(view), device=view.device)
            is_covered |= nearest_distances(points, pending, everything) < radius
            is_covered[pending] = True
        mix = _Mix(points, view, radius, is_covered, competence, self.max_distances)
        chosen, scores = mix.choose(n)

        def all_scores() -> Utilities:
            lines: list[Tensor] = []
            mix.choose(n, lines)
            return utilities(rows, torch.stack(lines)[:, rows])

        return picks(chosen, scores, all_scores)

    def _starting_radius(self, points: Float[Tensor, "n d"], n_classes: int, rng: np.random.Generator) -> float:
        if self.delta is not None:
            return self.delta
        if self._start is None:
            self._start = min(estimate_delta(points, n_classes, rng, ALPHA, PURITY_ROWS), self.max_delta)
        return self._start

    def _measure_radii(
        self, points: Float[Tensor, "n d"], view: PoolView, start: float
    ) -> tuple[Float[Tensor, "l"], Bool[Tensor, "n"]]:
        """The radius of each labelled row, measured where it is new; and which rows are within one of these balls."""
        labelled, labels = view.labelled, view.labels[view.labelled].tolist()
        kept = [self._measured.get(row) for row in labelled.tolist()]
        known = [None if it is None or it[0] != label else it[1] for it, label in zip(kept, labels, strict=True)]
        is_new = torch.tensor([radius is None for radius in known], dtype=torch.bool, device=view.device)
        radii = torch.tensor([start if radius is None else radius for radius in known], dtype=torch.float64)
        radii = radii.to(view.device)
        old, new = labelled[~is_new], labelled[is_new]
        is_covered = _covered_by(points, old, radii[~is_new])
        if len(new):
            before = is_covered | _covered_by(points, new, radii[is_new])
            purity = LEAST_PURITY + PURITY_GAIN * float(before.double().mean())
            radii[is_new] = bisect_radii(
                points, view.probs.argmax(1), new, view.labels[new], purity, self.max_delta, self.resolution
            )
            is_covered |= _covered_by(points, new, radii[is_new])
        self._measured = dict(zip(labelled.tolist(), zip(labels, radii.tolist(), strict=True), strict=True))
        return radii, is_covered


def competence_at(coverage: float, centre: float, steepness: float) -> float:
    """(1 + e^(-k (1 - a))) / (1 + e^(-k (coverage - a))): close to 0 below the centre a, 1 if all is covered."""
    return (1 + math.exp(-steepness * (1 - centre))) / (1 + math.exp(min(700.0, -steepness * (coverage - centre))))


def _covered_by(
    points: Float[Tensor, "n d"], centres: Int[Tensor, "l"], radii: Float[Tensor, "l"]
) -> Bool[Tensor, "n"]:
    """Which points are nearer to one of the centres than its radius. A centre covers itself."""
    is_covered = torch.zeros(len(points), dtype=torch.bool, device=points.device)
    is_covered[centres] = True
    for part, squares in _squared_distances(points, centres):
        is_covered |= (squares < radii[part, None].square()).any(0)
    return is_covered


def bisect_radii(
    points: Float[Tensor, "n d"],
    predicted: Int[Tensor, "n"],
    centres: Int[Tensor, "l"],
    labels: Int[Tensor, "l"],
    purity: float,
    most: float,
    resolution: float,
) -> Float[Tensor, "l"]:
    """For each centre, by bisection of 0 to `most`, a radius up to which a share `purity` of its ball has its label.

    The ball's classes are the predicted ones, that of the centre its label. The middle of the last interval, which is
    at most `resolution` wide.
    """
    radii = torch.empty(len(centres), dtype=torch.float64, device=points.device)
    for part, squares in _squared_distances(points, centres):
        is_same = predicted == labels[part, None]
        low, high, width = torch.zeros_like(radii[part]), torch.full_like(radii[part], most), most
        while width > resolution:
            middle = (low + high) / 2
            is_near = squares < middle[:, None].square()
            # A share of exactly the purity counts, whatever the rounding.
            is_pure = (is_near & is_same).sum(1) >= (purity - ROUNDING) * is_near.sum(1)
            low, high = torch.where(is_pure, middle, low), torch.where(is_pure, high, middle)
            width /= 2
        radii[part] = (low + high) / 2
    return radii


class _Mix:
    """c * margin + (1 - c) * degree, both scaled to 0 to 1 before each pick; c is the competence.

    Rows that are taken or chosen have neither: 0. Skipped rows do not count in the scales.
    """

    def __init__(
        self,
        points: Float[Tensor, "n d"],
        view: PoolView,
        radius: float,
        is_covered: Bool[Tensor, "n"],
        competence: float,
        max_distances: int | None,
    ) -> None:
        self._graph = partial(
            Uncovered, points, radius, is_covered, view.is_open, MAX_PAIRS, max_distances=max_distances
        )
        self._competence = competence
        self._is_open, self._is_skipped = view.is_open, view.is_skipped & ~view.is_taken
        self._margins = self._scale(margin(view.probs.double()))
        self._margins[view.is_taken] = 0.0

    def choose(self, n: int, lines: list[Tensor] | None = None) -> tuple[Int[Tensor, "n"], Float[Tensor, "n"]]:
        """n rows and their scores; `lines` takes the scores of all rows before each pick."""
        uncovered, margins, is_open = self._graph(), self._margins.clone(), self._is_open.clone()
        chosen: list[int] = []
        scores: list[Tensor] = []
        while len(chosen) < n:
            found = self._competence * self._scale(margins)
            found += (1 - self._competence) * self._scale(uncovered.degrees.double())
            found[~is_open] = -torch.inf
            row = int(found.argmax())
            members = uncovered.around(row)
            if len(members) < int(uncovered.degrees[row]):
                # Rounding may make a pair asymmetric. What the row would cover counts, as in probcover.
                uncovered.degrees[row] = len(members)
                continue
            if lines is not None:
                lines.append(found)
            chosen.append(row)
            scores.append(found[row])
            uncovered.cover(row, members)
            margins[row] = 0.0
            is_open[row] = False
        return torch.tensor(chosen, dtype=torch.int64, device=is_open.device), torch.stack(scores)

    def _scale(self, values: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        """From 0 at the lowest to 1 at the highest; 0 if all are the same."""
        low = values.masked_fill(self._is_skipped, torch.inf).min()
        high = values.masked_fill(self._is_skipped, -torch.inf).max()
        return torch.where(high > low, (values - low) / (high - low), 0.0)


def _squared_distances(
    points: Float[Tensor, "n d"], centres: Int[Tensor, "l"]
) -> Iterator[tuple[slice, Float[Tensor, "b n"]]]:
    """Some centres at a time, and their squared distances to all points, in float64."""
    n = len(points)
    for part in block_slices(len(centres), rows_that_fit(NUMBERS_PER_BLOCK[points.device.type], n)):
        X = points[centres[part]].double()
        squares = X.new_empty((len(X), n))
        for others in block_slices(n, ROWS_AT_ONCE):
            squares[:, others] = squared_distances(X, points[others].double())
        yield part, squares
