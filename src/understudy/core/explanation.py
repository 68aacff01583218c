"""Why a row is asked for, in a form that both people and programs can read."""

from dataclasses import dataclass

import numpy as np
import torch

from understudy.core.engine import Engine
from understudy.core.features import Features
from understudy.core.ledger import Ledger

NOTEWORTHY = 0.1  # share of a row's variance whose loss counts as being taught


@dataclass(frozen=True)
class Explanation:
    """Why `row` is worth a label. `str()` gives one plain line."""

    row: int
    utility: float
    influence: float
    uncertainty: float
    influence_share: float  # of the utility's two terms, how much is due to influence; NaN where both are zero
    uncertainty_share: float
    accuracy: float
    prediction: tuple[tuple[int, float], ...]  # the likeliest classes and the surrogate's mean for each
    teaches: tuple[tuple[int, float], ...]  # rows it would teach most, and the share of their variance it takes
    n_taught: int  # rows that would lose at least a tenth of their variance
    nearest: tuple[tuple[int, int | None, float], ...]  # nearest labelled rows: row, label if told, distance

    def __str__(self) -> str:
        means = [mean for _, mean in self.prediction]
        guesses = " or ".join(f"class {label}" for label, _ in self.prediction[:2])
        if len(means) > 1 and means[0] - means[-1] < 1e-6:
            guesses = "any class"
        if self.influence_share > 0.5:
            reason = f"it says most about others: {self.n_taught} rows would lose a tenth of their variance or more"
        elif self.uncertainty_share > 0.0:
            reason = "it is hard"
        else:
            reason = "nothing sets it apart"
        return f"row {self.row}: {reason} (now {guesses}; influence {self.influence_share:.0%})"


def explain(engine: Engine, ledger: Ledger, features: Features, row: int, n_rows: int) -> Explanation:
    """Explain a row of a settled engine. One pass over the rows, and the features of the labelled ones."""
    rows = engine.rows
    index = torch.tensor([row], device=rows.W.device)
    u, terms = engine.utility()
    seen = engine.look(index)
    d = seen.nu + seen.g
    shares = rows.covariances(seen.Rw)[0].double().square() / (d[0] * rows.variance())
    shares = torch.where(rows.is_open, shares, 0.0).index_fill(0, index, 0.0)
    top = shares.topk(min(n_rows, len(rows)))
    likely = seen.mean[0].topk(min(3, seen.mean.shape[1]))
    u1 = seen.mean.shape[1] * float(rows.influence(engine.settings.exclude_self)[row])
    by_influence, by_uncertainty = terms[:, row].tolist()
    whole = by_influence + by_uncertainty
    right, judged = ledger.accuracy()
    return Explanation(
        row=row,
        utility=float(u[row]),
        influence=u1,
        uncertainty=float(rows.means.uncertainty()[row]),
        influence_share=by_influence / whole if whole else float("nan"),
        uncertainty_share=by_uncertainty / whole if whole else float("nan"),
        accuracy=right / judged if judged else 0.0,
        prediction=tuple(zip(likely.indices.tolist(), likely.values.tolist(), strict=True)),
        teaches=tuple(
            (i, share) for i, share in zip(top.indices.tolist(), top.values.tolist(), strict=True) if share > 0
        ),
        n_taught=int((shares >= NOTEWORTHY).sum()),
        nearest=nearest_labelled(ledger, features, row, n_rows),
    )


def nearest_labelled(
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
