"""Ways of choosing for `decline.py`: the paper's to the letter, the same with one thing changed, and its rivals.

What the surrogate's settings do not offer is set after anchoring: P is credited, and a very long history holds it
fast; u² is a factor of each row times the surrogate's entropy, so that another factor gives another score with the
same calibration. Picks go through the engine's quick path in every case but `blind`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np
import torch
from decline_instruments import Reading
from jaxtyping import Float, Int
from torch import Tensor

from understudy.core import basis as bases
from understudy.core import links
from understudy.core.engine import Engine
from understudy.core.features import Features
from understudy.core.kernels import squared_distances
from understudy.core.links import Link
from understudy.core.means import Entropies
from understudy.core.rows import Rows as RowBlock
from understudy.core.surrogate import Surrogate
from understudy.core.utilities import Mode
from understudy.errors import UnderstudyError
from understudy.strategies.registry import make_strategy
from understudy.strategies.uncertainty import entropy, least_confidence, margin
from understudy.strategies.view import PoolView

Rows = Int[np.ndarray, "q"]
Basis = tuple[Tensor, Tensor]
LONG: Final = 10**12  # answers: a tally of so many does not move within a round
RIVALS: Final = ("random", "entropy", "margin", "least_confidence", "badge", "coreset", "typiclust")


@dataclass(frozen=True)
class Variant:
    """A way of choosing. As it stands: the paper's."""

    rival: str = ""  # a strategy of the registry, and nothing below counts
    mode: Mode = "combined"
    link: Link = "softmax"
    width: float = 0.5
    output_width: Literal["classes", "root", "one"] = "classes"
    basis_size: int = 500
    weight: float | Literal["asked", "pool"] = "asked"  # P: of the rows asked for, the pool's true one, or fixed
    score: Literal["entropy", "margin", "least_confidence", "entropy_rank", "margin_rank"] = "entropy"
    on: Literal["features", "hidden"] = "features"
    renew: frozenset[str] = frozenset()  # at each training: "inputs" from open rows, "outputs" from predictions
    exclude_self: bool = False
    blind: bool = False


LITERAL: Final = Variant()
VARIANTS: Final[dict[str, Variant]] = {
    "literal": LITERAL,
    **{name: Variant(rival=name) for name in RIVALS},
    "influence": replace(LITERAL, mode="influence"),
    "influence, others only": replace(LITERAL, mode="influence", exclude_self=True),
    "variance": replace(LITERAL, mode="variance"),
    "uncertainty": replace(LITERAL, mode="uncertainty"),
    "uniform": replace(LITERAL, mode="uniform"),
    "P=0.25": replace(LITERAL, weight=0.25),
    "P=0.75": replace(LITERAL, weight=0.75),
    "P=0.9": replace(LITERAL, weight=0.9),
    "P=pool": replace(LITERAL, weight="pool"),
    "link=simplex": replace(LITERAL, link="simplex"),
    "link=logit": replace(LITERAL, link="logit"),
    "sigma_f=sqrt(C)": replace(LITERAL, output_width="root"),
    "sigma_f=1": replace(LITERAL, output_width="one"),
    "sigma_f=1, V of learner": replace(LITERAL, output_width="one", renew=frozenset({"outputs"})),
    "width=0.25": replace(LITERAL, width=0.25),
    "width=1": replace(LITERAL, width=1.0),
    "width=2": replace(LITERAL, width=2.0),
    "width=1, influence": replace(LITERAL, width=1.0, mode="influence"),
    "width=1, u2=margin": replace(LITERAL, width=1.0, score="margin"),
    **{f"K={k}": replace(LITERAL, basis_size=k) for k in (1000, 2000, 4000)},
    "K=2000, influence": replace(LITERAL, basis_size=2000, mode="influence"),
    "on=hidden": replace(LITERAL, on="hidden"),
    "on=hidden, influence": replace(LITERAL, on="hidden", mode="influence"),
    "renewed": replace(LITERAL, renew=frozenset({"inputs", "outputs"})),
    "u2=margin": replace(LITERAL, score="margin"),
    "u2=margin, P=0": replace(LITERAL, score="margin", weight=0.0),
    "u2=margin, P=0.5": replace(LITERAL, score="margin", weight=0.5),
    "u2=margin, P=0.9": replace(LITERAL, score="margin", weight=0.9),
    "u2=margin, P=1": replace(LITERAL, score="margin", weight=1.0),
    "u2=margin, P=pool": replace(LITERAL, score="margin", weight="pool"),
    "u2=margin, on=hidden": replace(LITERAL, score="margin", on="hidden"),
    "u2=margin, K=2000": replace(LITERAL, score="margin", basis_size=2000),
    "u2=least_confidence": replace(LITERAL, score="least_confidence"),
    "u2=entropy_rank": replace(LITERAL, score="entropy_rank"),
    "u2=margin_rank": replace(LITERAL, score="margin_rank"),
    "blind": replace(LITERAL, blind=True),
}


def variant(name: str) -> Variant:
    if name not in VARIANTS:
        raise UnderstudyError(f"there is no variant {name!r}; choose from: {'; '.join(VARIANTS)}")
    return VARIANTS[name]


@dataclass(frozen=True, eq=False)
class Situation:
    """A pool, a trained learner, and what is labelled: all that a choice may depend on."""

    features: Float[Tensor, "n d"]
    labels: Int[np.ndarray, "n"]
    n_classes: int
    labelled: Rows
    probs: Float[np.ndarray, "n c"]
    hidden: Callable[[], Float[np.ndarray, "n h"]]
    tally: tuple[int, int]  # of the rows asked for so far: predicted rightly, and all
    basis: Callable[[int], Basis]  # of the repetition, by its size
    seed: int
    device: str

    @cached_property
    def open(self) -> Rows:
        is_open = np.ones(len(self.labels), dtype=bool)
        is_open[self.labelled] = False
        return np.flatnonzero(is_open)

    @cached_property
    def is_right(self) -> np.ndarray:
        return self.probs.argmax(1) == self.labels

    def accuracy_of_pool(self) -> float:
        """The learner's accuracy on what is not labelled, which nobody knows but we."""
        return float(self.is_right[self.open].mean())


@dataclass(frozen=True, eq=False)
class Chosen:
    rows: Rows
    tally: tuple[int, int]
    gauges: list[dict[str, float]] = field(default_factory=list)


def choose(how: Variant, now: Situation, n: int, snapshots: int = 0) -> Chosen:
    """n rows, and the tally with them; the surrogate is looked into so many times, evenly over the picks."""
    if how.rival:
        rows = rival_rows(how.rival, now, n)
        return Chosen(rows, tally_after(now, rows))
    surrogate = surrogate_for(how, now)
    gauges: list[dict[str, float]] = []
    if how.blind:
        rows = surrogate.ask(n)
    elif not snapshots:
        rows = surrogate.rehearse(now.labels, n)
    else:
        portions: list[Rows] = []
        for portion in np.array_split(np.arange(n), min(n, snapshots)):
            reading = Reading.of(surrogate)
            portions.append(surrogate.rehearse(now.labels, len(portion)))
            gauges.append({"asked": float(portion[0]), **reading.gauges(portions[-1])})
        rows = np.concatenate(portions)
    return Chosen(rows, tally_after(now, rows), gauges)


def tally_after(now: Situation, rows: Rows) -> tuple[int, int]:
    right, judged = now.tally
    return right + int(now.is_right[rows].sum()), judged + len(rows)


def rival_rows(name: str, now: Situation, n: int) -> Rows:
    """Rows that a strategy of the registry chooses."""
    labels = np.full(len(now.labels), -1, dtype=np.int64)
    labels[now.labelled] = now.labels[now.labelled]
    strategy = make_strategy(name)
    supplies: dict[str, object] = {"probs": now.probs}
    if "hidden" in strategy.needs.supplies:
        supplies["hidden"] = now.hidden()
    if "features" in strategy.needs.supplies:
        supplies["features"] = now.features
    view = PoolView(labels, now.n_classes, round=1, device=now.device, **supplies)  # type: ignore[arg-type]
    return strategy.select(view, n, np.random.default_rng([now.seed, len(now.labelled)])).rows


# -- our own ----------------------------------------------------------------------------------------------------------


def surrogate_for(how: Variant, now: Situation) -> Surrogate:
    """A surrogate of this kind, anchored where the learner is.

    It is made anew at every training. That gives the picks of one that is kept, since old answers count as zero
    residuals of rows the learner was trained on, and P is carried over as a tally.
    """
    width = {"classes": float(now.n_classes), "root": now.n_classes**0.5, "one": 1.0}[how.output_width]
    surrogate = Surrogate(
        now.features if how.on == "features" else now.hidden(),
        now.n_classes,
        how.basis_size,
        now.seed,
        now.device,
        method="paper",
        width=how.width,
        output_width=width,
        basis=basis_for(how, now),
        mode=how.mode,
        link=how.link,
        exclude_self=how.exclude_self,
    )
    engine = surrogate.anchor(now.probs, now.labelled).credit(*tally_for(how, now))._ready()
    if how.score != "entropy":
        set_score(engine, how.score)
    return surrogate


def tally_for(how: Variant, now: Situation) -> tuple[int, int]:
    """What makes P as the variant has it."""
    if how.weight == "asked":
        return now.tally
    share = now.accuracy_of_pool() if how.weight == "pool" else float(how.weight)
    return round(share * LONG), LONG


def score_of(name: str, probs: Float[Tensor, "n c"]) -> Float[Tensor, "n"]:
    """Another measure of the learner's doubt, in place of its entropy."""
    kind, rank, _ = name.partition("_rank")
    score = {"entropy": entropy, "margin": margin, "least_confidence": least_confidence}[kind](probs.double())
    return score.argsort().argsort().double() / len(score) if rank else score


def set_score(engine: Engine, name: str) -> None:
    """u² = score times the surrogate's entropy over that at the anchor."""
    assert isinstance(engine.rows, RowBlock)
    means = engine.rows.means
    assert isinstance(means, Entropies)
    means.scale = score_of(name, means.probs) / links.entropy(means.A, means.D).clamp_min(1e-300)
    engine.rows.stats[:, 2] = means.scale


def basis_for(how: Variant, now: Situation) -> Basis | None:
    """Basis points: the repetition's own, with new halves where they are renewed. None: the surrogate finds them."""
    if how.on == "hidden":
        return None
    U, V = (
        make_basis(now.features[now.open], how.basis_size, now) if "inputs" in how.renew else now.basis(how.basis_size)
    )
    if "outputs" in how.renew:
        V = predictions_near(U, now)
    return U, V


def make_basis(features: Float[Tensor, "m d"], k: int, now: "Situation | Seeded") -> Basis:
    """Centres of these rows, and draws from the simplex."""
    given = Features(features)
    origin, spread = bases.centre_and_spread(given, features.device)
    seeding = None if k <= 500 else 5 * k  # rows: a good start for thousands of centres takes minutes on all
    U = bases.find_centres(given, k, origin, spread, np.random.default_rng([now.seed, 0]), seeding_rows=seeding).centres
    V = bases.draw_simplex(len(U), now.n_classes, np.random.default_rng([now.seed, 1]))
    return U, torch.from_numpy(V).to(features.device)


@dataclass(frozen=True)
class Seeded:
    """What a basis needs to know beside the features."""

    seed: int
    n_classes: int


def predictions_near(U: Float[Tensor, "k d"], now: Situation) -> Float[Tensor, "k c"]:
    """What the learner says of the row that is nearest to each centre."""
    nearest = [squared_distances(some, now.features.double()).argmin(1) for some in torch.split(U.double(), 50)]
    return torch.from_numpy(now.probs).to(U.device)[torch.cat(nearest)].double()
