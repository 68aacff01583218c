"""Saving a surrogate as plain arrays and loading it: all later picks are the same as without the interruption.

The features are not saved, only a digest of them. Whitened rows and means are recomputed, both
here and where the state is loaded, by the same operations on the same numbers.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.core.engine import Engine
from understudy.core.features import Features
from understudy.core.kernels import Kernel
from understudy.core.ledger import LEDGER_KEYS, Ledger
from understudy.core.options import OWN_BASIS_JITTER, Options
from understudy.core.posterior import Posterior
from understudy.core.protocol import PoolRows, RowStorage
from understudy.errors import UnderstudyError

FORMAT = 2
READABLE = ("1", "2")  # the first had the paper's method only
KEYS = {
    "format", "pool", "n_classes", "seed", "is_anchored", "has_own_basis", "U", "origin",
    "n_classes_drawn", "bandwidths", *(LEDGER_KEYS - {"credit"}),
}  # fmt: skip
ENGINE_KEYS = {"probs", "R", "M", "B", "var", "h", "drift", "wear", "expected", "least", "total", "turn"}
WHOLE_KEYS = {"W", "stats"}  # could be recomputed; saved where there is no time for that
ROW_KEYS = ENGINE_KEYS | WHOLE_KEYS | {"of_features", "omega"}  # one entry per row, or computed from all rows


@dataclass(frozen=True, eq=False)
class Parts:
    """What a surrogate is made of."""

    options: Options
    features: Features
    n_classes: int
    seed: int
    is_anchored: bool
    has_own_basis: bool
    ledger: Ledger
    kernel: Kernel
    rows: PoolRows
    engine: Engine | None  # None: not built yet


def save(parts: Parts, whole: bool) -> dict[str, np.ndarray]:
    """The parts as plain arrays; `whole`: including those that could be recomputed."""
    kernel, engine, rows = parts.kernel, parts.engine, parts.rows
    saved: dict[str, Any] = {
        "format": FORMAT,
        "pool": parts.features.digest(),
        "n_classes": parts.n_classes,
        "seed": np.uint64(parts.seed),
        "is_anchored": parts.is_anchored,
        "has_own_basis": parts.has_own_basis,
        **parts.options.save(),
        "U": kernel.U, "origin": kernel.origin, "n_classes_drawn": kernel.n_classes_drawn,
        "bandwidths": [kernel.input_bandwidth, kernel.output_bandwidth],
        **parts.ledger.to_arrays(),
    }  # fmt: skip
    if kernel.V is not None:
        saved["V"] = kernel.V
    if engine is not None:
        engine.settle(exact_means=True)
        posterior = engine.posterior
        rows.reset_means(posterior.B)
        of_rows = rows.state(whole)
        omega = of_rows.pop("omega")
        saved |= {
            "R": posterior.R, "M": posterior.M, "B": posterior.B, "drift": engine.drift, "wear": engine.wear,
            "expected": np.array(sorted(engine.expected), dtype=np.int64),
            "least": engine.least, "total": engine.total, "turn": rows.turn(), **of_rows,
        }  # fmt: skip
        if posterior.R_told is not None:
            saved["R_told"] = posterior.R_told
        if parts.options.weighting is not None:
            saved["omega"] = omega
        if parts.options.bias is not None:
            saved["middle"] = engine.middle
    return {
        name: value.detach().cpu().numpy().copy() if isinstance(value, Tensor) else np.array(value)
        for name, value in saved.items()
    }


def arguments(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for the constructor, from a saved state; they include the basis, so that k-means is not run again."""
    options = Options.load(saved)
    U = np.asarray(saved["U"])
    if not options.sees_predictions:
        return options.given() | {"n_classes": int(saved["n_classes"]), "basis": U}
    V = np.asarray(saved["V"])
    return options.given() | {"n_classes": V.shape[1], "basis": (U, V)}


def load(
    saved: Mapping[str, Any], options: Options, features: Features, device: torch.device, storage: RowStorage
) -> Parts:
    """The parts that were saved, for a surrogate of these options."""
    n, found = len(features), Options.load(saved)
    # The number of basis points may be explicit or follow from the default rule.
    theirs = asdict(found) | {"basis_size": found.basis_points(n)}
    for name, value in (asdict(options) | {"basis_size": options.basis_points(n)}).items():
        if theirs[name] != value:
            raise UnderstudyError(
                f"this state was saved with {name}={theirs[name]!r}, but the surrogate has {value!r}; "
                "create it with the same options, or use Surrogate.restore"
            )

    def tensor(name: str) -> Tensor:
        # Arrays memory-mapped for this surrogate alone are used in place.
        value = saved[name]
        mapped = isinstance(value, np.memmap) and value.flags.writeable and value.ndim > 0
        return torch.from_numpy(np.asarray(value) if mapped else np.array(value)).to(device)

    ledger = Ledger.from_arrays(saved)
    input_bandwidth, output_bandwidth = np.asarray(saved["bandwidths"]).tolist()
    drawn = int(saved["n_classes_drawn"])
    jitter = 0.0 if options.sees_predictions else OWN_BASIS_JITTER
    V = tensor("V")[:, :drawn] if "V" in saved else None
    kernel = Kernel.over(tensor("U"), V, tensor("origin"), input_bandwidth, output_bandwidth, jitter)
    while kernel.V is not None and kernel.V.shape[1] < int(saved["n_classes"]):
        kernel = kernel.with_class()
    storage.require_room(n, len(kernel.U), int(saved["n_classes"]), options, device)
    is_whole = set(saved) >= WHOLE_KEYS
    if is_whole:
        stats = tensor("stats")
        if stats.shape[1] == 3:  # from the previous version, which weighted all rows equally
            stats = torch.cat([stats, torch.ones_like(stats[:, :1])], 1)
        of_features = tensor("of_features") if "of_features" in saved else None
        rows = storage.load(options, of_features, tensor("W"), stats)
    else:
        rows = storage.make(kernel, options, features.on(device))
    expected = set(np.asarray(saved["expected"]).tolist()) if "probs" in saved else set(ledger.pending)
    rows.set_masks(*(torch.from_numpy(mask) for mask in ledger.masks(expected)))
    engine = None
    if "probs" in saved:
        probs, has_learner = tensor("probs").to(options.torch_dtype), bool(saved["is_anchored"])
        if is_whole:
            rows.adopt(probs, has_learner)
        else:
            rows.anchor(kernel, probs, has_learner)
        B = tensor("B")
        rows.restore({name: tensor(name) for name in ("omega", "var", "h") if name in saved}, B)
        engine = Engine(rows, options, has_learner)
        R_told = tensor("R_told") if "R_told" in saved else None
        engine.posterior = Posterior(tensor("R"), tensor("M"), B, R_told)
        engine.drift, engine.wear = tensor("drift"), float(saved["wear"])
        engine.least, engine.total = tensor("least"), float(saved["total"])
        rows.set_turn(int(saved["turn"]))
        if "middle" in saved:
            engine.middle = tensor("middle")
        engine.expected = expected
    return Parts(
        options=options,
        features=features,
        n_classes=int(saved["n_classes"]),
        seed=int(saved["seed"]),
        is_anchored=bool(saved["is_anchored"]),
        has_own_basis=bool(saved["has_own_basis"]),
        ledger=ledger,
        kernel=kernel,
        rows=rows,
        engine=engine,
    )


def count_rows(saved: Mapping[str, np.ndarray]) -> int:
    """The number of rows in the pool of a saved state."""
    return len(saved["is_trained"])


def drop_engine(saved: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The state without its engine, which is then rebuilt, for example for a different ledger."""
    return {name: value for name, value in saved.items() if name not in ENGINE_KEYS}


def drop_rows(saved: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The state without everything computed for its rows, except the ledger: for other rows on the same basis."""
    return {name: value for name, value in saved.items() if name not in ROW_KEYS}


def mean_distance_of(saved: Mapping[str, np.ndarray]) -> float:
    """The mean distance between two rows, from the kernel width; only states of the paper's method have it."""
    return float(np.sqrt(np.asarray(saved["bandwidths"])[0]) / np.asarray(saved["option_width"]).item())


def best_influence_of(saved: Mapping[str, np.ndarray]) -> float:
    """The largest influence of any row, without the paper's factor c (the number of classes)."""
    return float(np.max(np.asarray(saved["h"]) / np.asarray(saved["var"])))


def require_pool(saved: Any, features: Features) -> None:
    """Refuse a state that is not a surrogate's, is incomplete, or belongs to another pool."""
    if not isinstance(saved, Mapping) or "format" not in saved or "pool" not in saved:
        raise UnderstudyError("this is not the state of a surrogate; pass what state_dict() returned")
    if str(saved["format"]) not in READABLE:
        raise UnderstudyError(
            f"this state has format {saved['format']}, but this version reads only {', '.join(READABLE)}; "
            "load it with the version that saved it"
        )
    wanted = KEYS | (ENGINE_KEYS if "probs" in saved else set())
    if str(saved["format"]) == "1":
        wanted |= {"basis_size", "V"}
    elif "option_method" not in saved:
        wanted |= {"option_method"}
    else:
        options = Options.load(saved)
        wanted |= set(options.save())
        if "probs" in saved:
            wanted |= {"omega"} if options.weighting is not None else set()
            wanted |= {"middle"} if options.bias is not None else set()
    missing = sorted(wanted - set(saved))
    if missing:
        raise UnderstudyError(f"this state is incomplete: {', '.join(missing)} missing; the file may be truncated")
    if str(saved["pool"]) != features.digest():
        raise UnderstudyError(
            f"this state belongs to another pool (saved {saved['pool']}, here {features.digest()}); pass the features "
            "it was saved with: those last passed to anchor(), if any"
        )
