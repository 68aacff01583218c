"""A surrogate as plain arrays, and back: the next pick is the same, and so are all that follow.

The features are not kept, only a digest of them. Whitened rows are computed again, and so are the means, both
here and where the state is loaded, by the same operations on the same numbers.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from understudy.core.engine import Engine
from understudy.core.features import Features
from understudy.core.kernels import ProductKernel
from understudy.core.ledger import Answer, Ledger
from understudy.core.posterior import Posterior
from understudy.core.rows import Rows
from understudy.errors import UnderstudyError

if TYPE_CHECKING:
    from understudy.core.surrogate import Surrogate

FORMAT = 1
KEYS = {
    "format", "pool", "n_classes", "basis_size", "seed", "is_anchored", "has_own_basis", "U", "V", "origin",
    "n_classes_drawn", "bandwidths", "answered_rows", "answered_labels", "answered_right", "answered_asked", "pending",
    "is_trained", "is_skipped", "is_dropped", "option_width", "option_output_width", "option_noise", "option_mode",
    "option_link", "option_old_targets", "option_exclude_self", "option_accuracy_of", "option_dtype",
    "option_mean_tolerance", "option_lookahead_candidates",
}  # fmt: skip
ENGINE_KEYS = {"probs", "R", "M", "B", "var", "h", "drift", "wear", "expected", "least", "total", "turn"}
WHOLE_KEYS = {"of_features", "W", "stats"}  # what could be computed again, kept where there is no time for it
UNJUDGED = -1


def _options(surrogate: "Surrogate") -> dict[str, Any]:
    """Keyword arguments that make a surrogate like this one."""
    settings = surrogate._settings
    return {
        "width": surrogate.width, "output_width": surrogate.output_width, "noise": surrogate.noise,
        "mode": settings.mode, "link": settings.link, "old_targets": surrogate.old_targets,
        "exclude_self": settings.exclude_self, "accuracy_of": "surrogate" if settings.by_surrogate else "learner",
        "dtype": surrogate.dtype, "mean_tolerance": settings.mean_tolerance,
        "lookahead_candidates": settings.lookahead_candidates,
    }  # fmt: skip


def save(surrogate: "Surrogate", whole: bool) -> dict[str, np.ndarray]:
    ledger, kernel, engine = surrogate._ledger, surrogate._kernel, surrogate._engine
    answers = list(ledger.answers.items())
    saved: dict[str, Any] = {
        "format": FORMAT,
        "pool": surrogate._features.digest(),
        "n_classes": surrogate.n_classes,
        "basis_size": surrogate.basis_size,
        "seed": np.uint64(surrogate._seed),
        "is_anchored": surrogate._is_anchored,
        "has_own_basis": surrogate._has_own_basis,
        **{f"option_{name}": "" if value is None else value for name, value in _options(surrogate).items()},
        "U": kernel.U, "V": kernel.V, "origin": kernel.origin, "n_classes_drawn": kernel.n_classes_drawn,
        "bandwidths": [kernel.input_bandwidth, kernel.output_bandwidth],
        "answered_rows": np.array([row for row, _ in answers], dtype=np.int64),
        "answered_labels": np.array([answer.label for _, answer in answers], dtype=np.int64),
        "answered_right": np.array(
            [UNJUDGED if a.was_right is None else int(a.was_right) for _, a in answers], dtype=np.int8
        ),
        "answered_asked": np.array([answer.was_asked for _, answer in answers], dtype=bool),
        "pending": np.array(list(ledger.pending), dtype=np.int64),
        "credit": np.array(ledger.credit, dtype=np.int64),
        "is_trained": ledger.is_trained, "is_skipped": ledger.is_skipped, "is_dropped": ledger.is_dropped,
    }  # fmt: skip
    if engine is not None:
        engine.settle(exact_means=True)
        rows, posterior = surrogate._rows, engine.posterior
        rows.means.reset(rows.W, posterior.B)
        saved |= {
            "probs": rows.means.probs, "R": posterior.R, "M": posterior.M, "B": posterior.B,
            "var": rows.var, "h": rows.h, "drift": engine.drift, "wear": engine.wear,
            "expected": np.array(sorted(engine.expected), dtype=np.int64),
            "least": engine.least, "total": engine.total, "turn": rows.means.turn,
        }  # fmt: skip
        if posterior.R_told is not None:
            saved["R_told"] = posterior.R_told
        if whole:
            saved |= {"of_features": rows.of_features, "W": rows.W, "stats": rows.stats}
    return {
        name: value.detach().cpu().numpy().copy() if isinstance(value, Tensor) else np.array(value)
        for name, value in saved.items()
    }


def options(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for the constructor, from a saved state; the basis is among them, so none is searched for."""
    found: dict[str, Any] = {
        name.removeprefix("option_"): None if (value := np.asarray(saved[name]).item()) == "" else value
        for name in saved
        if name.startswith("option_")
    }
    U, V = np.asarray(saved["U"]), np.asarray(saved["V"])
    return found | {
        "n_classes": V.shape[1], "basis_size": int(saved["basis_size"]), "basis": (U, V),
    }  # fmt: skip


def load(surrogate: "Surrogate", saved: Any, check: bool = True) -> None:
    """Give a surrogate this state. Nothing of it changes before everything is known to fit."""
    if check:
        require_pool(saved, surrogate._features)
    here = {f"option_{name}": "" if value is None else value for name, value in _options(surrogate).items()}
    for name, value in here.items():
        if np.asarray(saved[name]).item() != value:
            raise UnderstudyError(
                f"this state was saved with {name.removeprefix('option_')}={np.asarray(saved[name]).item()!r}, "
                f"the surrogate has {value!r}; make it with the same options, or use Surrogate.restore"
            )
    n, device, dtype = len(surrogate._features), surrogate.device, surrogate._torch_dtype

    def tensor(name: str) -> Tensor:
        # What is mapped from a file for this surrogate alone is used where it lies.
        value = saved[name]
        mapped = isinstance(value, np.memmap) and value.flags.writeable and value.ndim > 0
        return torch.from_numpy(np.asarray(value) if mapped else np.array(value)).to(device)

    ledger = Ledger(n)
    for row, label, right, asked in zip(
        *(np.asarray(saved[f"answered_{part}"]).tolist() for part in ("rows", "labels", "right", "asked")),
        strict=True,
    ):
        ledger.answers[row] = Answer(label, None if right == UNJUDGED else bool(right), asked)
    ledger.pending = dict.fromkeys(np.asarray(saved["pending"]).tolist())
    right, judged = np.asarray(saved["credit"]).tolist() if "credit" in saved else (0, 0)
    ledger.credit = right, judged
    ledger.is_trained, ledger.is_skipped, ledger.is_dropped = (
        np.array(saved[name]) for name in ("is_trained", "is_skipped", "is_dropped")
    )
    input_bandwidth, output_bandwidth = np.asarray(saved["bandwidths"]).tolist()
    drawn = int(saved["n_classes_drawn"])
    kernel = ProductKernel.over(
        tensor("U"), tensor("V")[:, :drawn], tensor("origin"), input_bandwidth, output_bandwidth
    )
    while kernel.V.shape[1] < int(saved["n_classes"]):
        kernel = kernel.with_class()
    is_whole = set(saved) >= WHOLE_KEYS
    of_features = tensor("of_features") if is_whole else surrogate._of_features(kernel, surrogate._features.on(device))
    rows = Rows(of_features, surrogate.noise)
    rows.set_masks(*(torch.from_numpy(mask) for mask in ledger.masks()))
    engine = None
    if "probs" in saved:
        probs, link, tolerance = tensor("probs").to(dtype), surrogate._settings.link, surrogate._settings.mean_tolerance
        if is_whole:
            rows.adopt(tensor("W"), tensor("stats"), probs, link, tolerance)
        else:
            rows.anchor(kernel, probs, link, tolerance)
        rows.var, rows.h = tensor("var"), tensor("h")
        engine = Engine(rows, surrogate._settings)
        R_told = tensor("R_told") if "R_told" in saved else None
        engine.posterior = Posterior(tensor("R"), tensor("M"), tensor("B"), R_told)
        rows.means.reset(rows.W, engine.posterior.B)
        engine.drift, engine.wear = tensor("drift"), float(saved["wear"])
        engine.least, engine.total, rows.means.turn = tensor("least"), float(saved["total"]), int(saved["turn"])
        engine.expected = set(np.asarray(saved["expected"]).tolist())
        for row in ledger.pending:
            if row not in engine.expected:  # handed out, not yet counted as explained
                rows.is_open[row] = True
    surrogate.n_classes, surrogate.basis_size = int(saved["n_classes"]), int(saved["basis_size"])
    surrogate._seed, surrogate._is_anchored = int(saved["seed"]), bool(saved["is_anchored"])
    surrogate._has_own_basis = bool(saved["has_own_basis"])
    surrogate._ledger, surrogate._kernel, surrogate._rows, surrogate._engine = ledger, kernel, rows, engine
    surrogate._count()


def require_pool(saved: Any, features: Features) -> None:
    """The state must be one of ours, whole, and of this pool."""
    if not isinstance(saved, Mapping) or "format" not in saved or "pool" not in saved:
        raise UnderstudyError("this is no state of a surrogate; pass what state_dict() returned")
    if str(saved["format"]) != str(FORMAT):
        raise UnderstudyError(
            f"this state has format {saved['format']}, this version reads {FORMAT}; load it where it was saved"
        )
    wanted = KEYS | (ENGINE_KEYS if "probs" in saved else set())
    missing = sorted(wanted - set(saved))
    if missing:
        raise UnderstudyError(f"this state is not whole: {', '.join(missing)} missing; was it cut short?")
    if str(saved["pool"]) != features.digest():
        raise UnderstudyError(
            f"this state is of another pool (saved {saved['pool']}, here {features.digest()}); pass the features "
            "it was saved with: those given to anchor() last, if any were"
        )
