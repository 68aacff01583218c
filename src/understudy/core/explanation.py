"""Why a row is asked for, in a form that both people and programs can read."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from understudy.core.engine import RESOLUTION, Engine
from understudy.core.features import Features
from understudy.core.ledger import Ledger
from understudy.core.options import Options
from understudy.core.protocol import SMALLEST_FACTOR, Usual

NOTEWORTHY = 0.1  # a row that loses at least this share of its variance counts as taught
UNKNOWN = (math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Explanation:
    """Why `row` is worth a label. `str()` gives one plain line.

    The shares say how much of the utility is due to each of its two terms, in [0, 1]; both are NaN where nothing sets
    the row apart, and in mode "variance", which has neither. With look-ahead the second is the share of u³. A product
    has no terms: there they are shares of the logarithm of its utility relative to a typical row. `influence` and
    `uncertainty` come with their quartiles over the askable rows.
    """

    row: int
    utility: float
    influence: float
    uncertainty: float
    influence_share: float
    uncertainty_share: float
    accuracy: float
    prediction: tuple[tuple[int, float], ...]  # the most likely classes and the surrogate's mean for each
    teaches: tuple[tuple[int, float], ...]  # rows it would teach most, and the share of variance each would lose
    n_taught: int  # rows that would lose at least a tenth of their variance
    nearest: tuple[tuple[int, int | None, float], ...]  # nearest labelled rows: row, label if told, distance
    reason: str
    influence_quartiles: tuple[float, float, float] = UNKNOWN
    uncertainty_quartiles: tuple[float, float, float] = UNKNOWN

    def __str__(self) -> str:
        means = [mean for _, mean in self.prediction]
        guesses = " or ".join(f"class {label}" for label, _ in self.prediction[:2])
        if len(means) > 1 and means[0] - means[-1] < 1e-6:
            guesses = "any class"
        share = "" if math.isnan(self.influence_share) else f"; influence {self.influence_share:.0%}"
        return f"row {self.row}: {self.reason} (now {guesses}{share})"


def explain(engine: Engine, ledger: Ledger, features: Features, row: int, n_rows: int) -> Explanation:
    """Explain a row of a settled engine. Takes one pass over the rows, and reads the features of the labelled ones."""
    rows, index = engine.rows, engine.index([row])
    u, terms = engine.utility(also=index)
    seen = engine.look(index)
    found = rows.most_taught(seen.Rw[0], (seen.nu + seen.g)[0], row, n_rows, NOTEWORTHY)
    likely = seen.mean[0].topk(min(3, seen.mean.shape[1]))
    taught = zip(found.rows.tolist(), found.shares.tolist(), strict=True)
    first, second = terms[:, row].tolist()
    if engine.options.mode == "product":
        first, second = relative_terms(rows.usual(), first, second)
    shares = shares_of(first, second, engine.options)
    if engine.options.mode == "variance":
        shares, reason = (math.nan, math.nan), "the surrogate knows least about it"
    elif math.isnan(shares[0]):
        reason = "nothing sets it apart"
    else:
        settles = "its label should settle the most" if engine.options.mode == "lookahead" else "it is hard"
        reason = _describe_influence(found.count) if shares[0] > shares[1] else settles
    right, judged = ledger.accuracy()
    influence, doubt = engine.influence_scale * rows.influence(), rows.doubt()
    askable = torch.from_numpy(ledger.askable_mask()).to(engine.device)
    return Explanation(
        row=row,
        utility=float(u[row]),
        influence=float(influence[row]),
        uncertainty=float(doubt[row]),
        influence_quartiles=_quartiles(influence[askable]),
        uncertainty_quartiles=_quartiles(doubt[askable]),
        influence_share=shares[0],
        uncertainty_share=shares[1],
        accuracy=right / judged if judged else 0.0,
        prediction=tuple(zip(likely.indices.tolist(), likely.values.tolist(), strict=True)),
        teaches=tuple((other, share) for other, share in taught if share > 0),
        n_taught=found.count,
        nearest=_nearest_labelled(ledger, features, row, n_rows),
        reason=reason,
    )


def relative_terms(usual: Usual, first: float, second: float) -> tuple[float, float]:
    """Logarithms of the two factors of a row, each relative to the geometric mean over the askable rows.

    Large pools are subsampled: the figure is only shown to people, and it is computed after every pick.
    """
    logs = usual.logs.tolist()
    return math.log(max(first, SMALLEST_FACTOR)) - logs[0], math.log(max(second, SMALLEST_FACTOR)) - logs[1]


def shares_of(first: float, second: float, options: Options) -> tuple[float, float]:
    """How much each of the two terms sets a row apart, together 1; NaN where neither does.

    The terms of a product are logarithms relative to a typical row: a negative one speaks against the row, so it has no
    share in why the row was chosen.
    """
    is_product = options.mode == "product"
    rounding = RESOLUTION[options.torch_dtype] if is_product else 0.0
    first, second = (max(term, 0.0) if is_product else abs(term) for term in (first, second))
    total = first + second
    return (first / total, second / total) if total > rounding else (math.nan, math.nan)


def _quartiles(values: Tensor) -> tuple[float, float, float]:
    askable = values.sort().values
    if not len(askable):
        return UNKNOWN
    low, middle, high = (float(askable[round(share * (len(askable) - 1))]) for share in (0.25, 0.5, 0.75))
    return low, middle, high


def _describe_influence(n_taught: int) -> str:
    if n_taught == 0:
        return "it is the most informative about other items, a little about each"
    others = "one other would lose" if n_taught == 1 else f"{n_taught} others would lose"
    return f"it is the most informative about other items: {others} a tenth or more of their variance"


def _nearest_labelled(
    ledger: Ledger, features: Features, row: int, n_rows: int
) -> tuple[tuple[int, int | None, float], ...]:
    """The labelled rows closest to one in feature space: row, label if it was told, Euclidean distance."""
    mask = ledger.labelled_mask()
    mask[row] = False
    labelled = np.flatnonzero(mask)
    if not len(labelled):
        return ()
    device = torch.device("cpu")
    here = features.take(np.array([row]), torch.float64, device)
    distances = (features.take(labelled, torch.float64, device) - here).norm(dim=1).numpy()
    order = np.argsort(distances, kind="stable")[:n_rows]
    answers = ledger.answers
    return tuple(
        (
            int(labelled[i]),
            answers[int(labelled[i])].label if int(labelled[i]) in answers else None,
            float(distances[i]),
        )
        for i in order
    )
