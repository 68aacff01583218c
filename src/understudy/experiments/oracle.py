"""A choice that looks at labels: rows whose answers help most on held-out rows of the pool. What is left to win.

This cannot be a strategy, which never sees a label that was not told. Ridge regression from features to classes is the
judge, since there the effect of one more row has a closed form. Of rows drawn at random those that it gets most wrong
are the candidates, and the one that lowers the squared error on the held-out rows most is taken.

With rows Φ, penalty λ, A = (ΦᵀΦ + λI)⁻¹, weights W, and on the held-out rows Φ' the errors E = Y' - Φ'W: one more row φ
with the answer y gives

    r = y - Wᵀφ,  s = 1 + φᵀAφ,  e = Φ'Aφ / s,  E⁺ = E - e rᵀ,  ||E||² - ||E⁺||² = 2 eᵀEr - ||e||² ||r||²
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from understudy.data.pool import Pool
from understudy.errors import UsageError
from understudy.experiments.plan import STREAM_ORACLE, Plan
from understudy.messages import HOW_TO_EMBED
from understudy.strategies.view import Picks

CANDIDATES: Final = 64  # for a step: those of the drawn rows that the ridge regression gets most wrong
LEAST_DRAWN: Final = 4_000  # random open rows in a round, or four times as many as are taken
MAX_STEPS: Final = 250  # in a round; if more rows are taken than that, several at once
MAX_HELD_OUT: Final = 2_000
LEAST_HELD_OUT: Final = 10
RANDOM_FEATURES: Final = 512
WIDTH: Final = 0.5  # of the Gaussian kernel, in mean lengths of a centred row
SAMPLE_ROWS: Final = 1_000  # to scale by
PENALTIES: Final = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # the best on the held-out rows is taken, anew in each round
DRAW_HELD_OUT, DRAW_FEATURES, DRAW_CANDIDATES = range(3)  # streams


def held_out_count(plan: Plan) -> int:
    """How many rows are held out: half of what the schedule leaves at most."""
    return min(MAX_HELD_OUT, (plan.pool_rows - plan.schedule[-1]) // 2)


def check_oracle(plan: Plan, pool: Pool) -> None:
    """Raise if the oracle cannot be run on this pool."""
    if pool.features is None:
        raise UsageError(f"the oracle judges candidates by features, but there are none; {HOW_TO_EMBED}")
    if held_out_count(plan) < LEAST_HELD_OUT:
        most = plan.pool_rows - 2 * LEAST_HELD_OUT
        raise UsageError(
            f"the oracle holds rows of the pool out, but the schedule ends at {plan.schedule[-1]:,} labels of "
            f"{plan.pool_rows:,} rows; end it at {most:,} or fewer, or leave the oracle out"
        )


@dataclass(frozen=True, eq=False)
class Oracle:
    """The choice of one repetition; it keeps nothing between rounds, so that it goes on from any of them."""

    features: Shaped[np.ndarray, "n d"]
    truth: Int[np.ndarray, "n"]  # of the held-out rows it is the right classes that count
    answers: Int[np.ndarray, "n"]  # what would be told, right or wrong
    n_classes: int
    n_held_out: int
    seeds: tuple[int, ...]  # of the repetition

    @classmethod
    def of(
        cls,
        plan: Plan,
        repeat: int,
        pool: Pool,
        truth: Int[np.ndarray, "n"],
        answers: Int[np.ndarray, "n"],
    ) -> "Oracle":
        check_oracle(plan, pool)
        assert pool.features is not None
        seeds = (plan.seed, STREAM_ORACLE, repeat)
        return cls(pool.features, truth, answers, len(plan.classes), held_out_count(plan), seeds)

    def choose(self, labelled: Int[np.ndarray, "m"], n: int) -> Picks:
        """The next n rows, one step after another; the scores are by how much each lowers the squared error."""
        is_open = np.ones(len(self.features), bool)
        is_open[labelled] = False
        held_out = self.held_out(is_open)
        is_open[held_out] = False
        ridge = Ridge.fit(
            self.encode(labelled), self.one_hot(self.answers[labelled]),
            self.encode(held_out), self.one_hot(self.truth[held_out]),
        )  # fmt: skip
        there, rng = np.flatnonzero(is_open), self._stream(DRAW_CANDIDATES, len(labelled))
        drawn = np.sort(rng.permutation(there)[: max(LEAST_DRAWN, 4 * n)])
        points, answers = self.encode(drawn), self.one_hot(self.answers[drawn])
        is_left = np.ones(len(drawn), bool)
        rows: list[int] = []
        scores: list[float] = []
        for part in np.array_split(np.arange(n), min(n, MAX_STEPS)):
            worst = np.argsort(ridge.margins(points, answers) + np.where(is_left, 0, np.inf), kind="stable")
            candidates = worst[: min(CANDIDATES * len(part), int(is_left.sum()))]
            gains = ridge.gains(points[candidates], answers[candidates])
            best = np.argsort(-gains, kind="stable")[: len(part)]
            ridge.add(points[candidates[best]], answers[candidates[best]])
            is_left[candidates[best]] = False
            rows += drawn[candidates[best]].tolist()
            scores += gains[best].tolist()
        return Picks(np.array(rows, dtype=np.int64), np.array(scores))

    def held_out(self, is_open: Bool[np.ndarray, "n"]) -> Int[np.ndarray, "h"]:
        """The held-out rows: the first of a random order that have no label. As none of them gets one, they stay."""
        order = self._stream(DRAW_HELD_OUT).permutation(len(is_open))
        return np.sort(order[is_open[order]][: self.n_held_out])

    def one_hot(self, classes: Int[np.ndarray, "m"]) -> Float[np.ndarray, "m c"]:
        return np.eye(self.n_classes)[classes]

    def encode(self, rows: Int[np.ndarray, "m"]) -> Float[np.ndarray, "m q"]:
        """A constant, the scaled features, and random Fourier features of a Gaussian kernel."""
        centre, scale, frequencies, phases = self._encoder
        points = (self.features[rows].astype(np.float64) - centre) / scale
        waves = np.cos(points @ frequencies + phases) * np.sqrt(2 / RANDOM_FEATURES)
        return np.hstack([np.ones((len(points), 1)), points, waves])

    @cached_property
    def _encoder(self) -> tuple[Float[np.ndarray, "d"], float, Float[np.ndarray, "d q"], Float[np.ndarray, "q"]]:
        """Centre, scale, frequencies and phases; centred and scaled, rows have length one in the quadratic mean."""
        rng = self._stream(DRAW_FEATURES)
        n, d = self.features.shape
        sample = self.features[np.sort(rng.permutation(n)[:SAMPLE_ROWS])].astype(np.float64)
        centre = sample.mean(0)
        scale = float(np.sqrt(((sample - centre) ** 2).sum(1).mean())) or 1.0
        frequencies = rng.standard_normal((d, RANDOM_FEATURES)) / WIDTH
        return centre, scale, frequencies, rng.uniform(0, 2 * np.pi, RANDOM_FEATURES)

    def _stream(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([*self.seeds, *purpose])


class Ridge:
    """Ridge regression to which rows are added, and its errors on held-out rows."""

    def __init__(
        self,
        inverse: Float[np.ndarray, "q q"],
        weights: Float[np.ndarray, "q c"],
        held_out: Float[np.ndarray, "h q"],
        wanted: Float[np.ndarray, "h c"],
    ) -> None:
        self.inverse, self.weights, self.held_out = inverse, weights, held_out
        self.reach = held_out @ inverse  # Φ'A
        self.errors = wanted - held_out @ weights

    @classmethod
    def fit(
        cls,
        points: Float[np.ndarray, "m q"],
        answers: Float[np.ndarray, "m c"],
        held_out: Float[np.ndarray, "h q"],
        wanted: Float[np.ndarray, "h c"],
    ) -> "Ridge":
        """Fitted to the labelled rows, with the penalty that is best on the held-out ones."""
        values, vectors = np.linalg.eigh(points.T @ points)
        inverses = ((vectors / (values.clip(0) + penalty)) @ vectors.T for penalty in PENALTIES)
        found = (cls(inverse, inverse @ (points.T @ answers), held_out, wanted) for inverse in inverses)
        return min(found, key=lambda one: one.loss)

    @property
    def loss(self) -> float:
        return float((self.errors**2).sum())

    def margins(self, points: Float[np.ndarray, "p q"], answers: Float[np.ndarray, "p c"]) -> Float[np.ndarray, "p"]:
        """By how much the prediction for the answer of each row exceeds the largest other one."""
        found = points @ self.weights
        others = np.where(answers > 0, -np.inf, found).max(1)
        return (found * answers).sum(1) - others

    def gains(self, points: Float[np.ndarray, "p q"], answers: Float[np.ndarray, "p c"]) -> Float[np.ndarray, "p"]:
        """By how much each of these rows alone would lower the loss."""
        left = answers - points @ self.weights
        spread = 1 + ((points @ self.inverse) * points).sum(1)
        effects = self.reach @ points.T / spread  # (h, p)
        agreed = ((effects.T @ self.errors) * left).sum(1)
        return 2 * agreed - (effects**2).sum(0) * (left**2).sum(1)

    def add(self, points: Float[np.ndarray, "p q"], answers: Float[np.ndarray, "p c"]) -> None:
        """Add rows with their answers: the formula of one row, for some at once."""
        directions = points @ self.inverse
        steps = np.linalg.solve(np.eye(len(points)) + directions @ points.T, directions)
        left = answers - points @ self.weights
        self.errors -= self.held_out @ (steps.T @ left)
        self.weights += steps.T @ left
        self.reach -= (self.reach @ points.T) @ steps
        self.inverse -= directions.T @ steps
