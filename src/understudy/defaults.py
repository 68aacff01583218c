"""Values that hold where nobody gives another, for those who use them and for the help texts that name them.

They stand apart so that the command line can name them without importing what uses them, which takes seconds.
"""

from typing import Final

SEED: Final = 0
LEARNER: Final = "modern"
DEVICE: Final = "cpu"

# Comparisons
STRATEGIES: Final = (
    "understudy", "surrogate", "random", "margin", "entropy", "coreset", "badge", "typiclust", "uherding",
)  # fmt: skip
REPEATS: Final = 10
METRIC: Final = "accuracy"
DEMO_FOLDER: Final = "demo"

# Features
ITEMS_PER_BATCH: Final = 64

# Projects
AUDIT_SHARE: Final = 0.1
AGREEMENT_SHARE: Final = 0.0
LEASE_SECONDS: Final = 600.0
RETRAIN_GROWTH: Final = 1.5
RETRAIN_AT_MOST: Final = 200

# The labelling page
HOST: Final = "127.0.0.1"
FIRST_PORT: Final = 8000
