"""Settings that make slow strategies quick enough for the contract, and which strategies draw random numbers."""

from typing import Any

QUICK: dict[str, dict[str, Any]] = {
    "active_ft": {"iterations": 20},
    "vaal": {"iterations": 2, "batch_size": 8, "latent": 4},
    "ta_vaal": {"iterations": 2, "batch_size": 8, "latent": 4},
    "sraal": {"iterations": 2, "batch_size": 8, "latent": 4},
    "bgadl": {"passes": 8, "iterations": 1, "batch_size": 4, "latent": 4},
    "uncertain_gcn": {"epochs": 5},
    "core_gcn": {"epochs": 5},
    "dal": {"max_epochs": 3, "sub_batches": 3},
}

# Strategies whose picks depend on the generator. All others must give the same rows whatever the seed, and rows that
# move with the pool when it is permuted.
DRAWS: set[str] = {
    "understudy", "surrogate", "surrogate_influence", "surrogate_uncertainty", "surrogate_uniform",
    "surrogate_lookahead", "surrogate_variance", "surrogate_blind", "random", "coreset_robust", "uncertain_gcn",
    "core_gcn", "learning_loss", "badge", "vaal", "ta_vaal", "sraal", "bgadl", "power_bald", "batchbald", "dal", "emoc",
    "expected_error", "kmeans", "preclustering", "typiclust", "probcover", "drop_query", "cluster_margin",
    "dcom", "tcm", "active_ft",
}  # fmt: skip

# Rounding decides between near ties in these, so that float32 and float64 need not choose alike.
SENSITIVE: set[str] = set()

# Networks are trained in these, in single precision: another device rounds otherwise, and another row may come out.
TRAINED: set[str] = {
    "active_ft",
    "dal",
    "drop_query",
    "learning_loss",
    "uncertain_gcn",
    "core_gcn",
    "vaal",
    "ta_vaal",
    "sraal",
}

# These keep what they drew when they were first shown a pool.
LEARNS: set[str] = {name for name in DRAWS if name.startswith(("understudy", "surrogate", "dcom"))}
