"""The same methods in other libraries, for `strategies.py`: each is given what it needs in the form it likes best.

Predictions and features are handed over ready made, as ours are; converting them is not timed. Where a library asks for
a model, it gets one that returns the predictions it was given. Left out: discriminative learning and expected error,
where these libraries take a classifier of the user's, whose trainings would be what is timed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Choose = Callable[[int], Any]  # so many rows, please


@dataclass(frozen=True, eq=False)
class Given:
    """A pool in arrays. `stochastic` is (n, passes, c); what a method has no use for is None."""

    labels: np.ndarray  # -1 where there is none
    n_classes: int
    features: np.ndarray
    probs: np.ndarray
    stochastic: np.ndarray | None = None

    @property
    def known(self) -> np.ndarray:
        return np.flatnonzero(self.labels >= 0)

    @property
    def open(self) -> np.ndarray:
        return np.flatnonzero(self.labels < 0)

    def few(self, n: int) -> "Given":
        """So many rows, half of them labelled if there are so many: for the call that warms up."""
        rows = np.sort(np.concatenate([self.known[: n // 2], self.open[: n - n // 2]]))
        stochastic = None if self.stochastic is None else self.stochastic[rows]
        return Given(self.labels[rows], self.n_classes, self.features[rows], self.probs[rows], stochastic)


# -- scikit-activeml --------------------------------------------------------------------------------------------------


def known_model(given: Given) -> Any:
    """A classifier that has been asked already."""
    from skactiveml.base import SkactivemlClassifier

    probs = given.probs[given.open]
    passes = None if given.stochastic is None else np.moveaxis(given.stochastic[given.open], 1, 0)

    class Known(SkactivemlClassifier):  # type: ignore[misc]
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            self.classes_ = np.arange(given.n_classes)
            return self

        def predict_proba(self, X: Any) -> Any:
            assert len(X) == len(probs)
            return probs

        def sample_proba(self, X: Any) -> Any:
            return passes

    return Known(classes=list(range(given.n_classes))).fit(None, None)


def scikit_activeml(name: str, model: str | None = None, **settings: Any) -> Callable[[Given], Choose]:
    """A strategy of `skactiveml.pool`; `model` is the argument by which it takes one."""

    def prepare(given: Given) -> Choose:
        import skactiveml.pool

        y = np.where(given.labels < 0, np.nan, given.labels).astype(np.float64)
        more = {model: known_model(given), f"fit_{model}": False} if model else {}

        def choose(n: int) -> Any:
            strategy = getattr(skactiveml.pool, name)(random_state=0, **settings)
            return strategy.query(given.features, y, batch_size=n, **more)

        return choose

    return prepare


def scikit_activeml_random(given: Given) -> Choose:
    from skactiveml.pool import RandomSampling

    y = np.where(given.labels < 0, np.nan, given.labels).astype(np.float64)
    return lambda n: RandomSampling(random_state=0).query(given.features, y, batch_size=n)


def scikit_activeml_drop_query(given: Given) -> Choose:
    """It asks the classifier anew with columns left out, so that it gets a real one, trained beforehand."""
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import DropQuery
    from sklearn.linear_model import LogisticRegression

    y = np.where(given.labels < 0, np.nan, given.labels).astype(np.float64)
    classes = list(range(given.n_classes))
    trained = SklearnClassifier(LogisticRegression(), classes=classes).fit(given.features, y)
    return lambda n: DropQuery(random_state=0).query(given.features, y, clf=trained, fit_clf=False, batch_size=n)


# -- small-text -------------------------------------------------------------------------------------------------------


class Asked:
    """A classifier of small-text's that has been asked already."""

    def __init__(self, given: Given) -> None:
        self.given = given

    def predict_proba(self, dataset: Any, dropout_sampling: int = 1) -> Any:
        return self.given.probs if dropout_sampling == 1 else self.given.stochastic


def small_text(name: str, **settings: Any) -> Callable[[Given], Choose]:
    def prepare(given: Given) -> Choose:
        import small_text.query_strategies

        y = given.labels[given.known]
        if name == "BALD" and given.stochastic is not None:
            settings["dropout_samples"] = given.stochastic.shape[1]
        strategy = getattr(small_text.query_strategies, name)(**settings)
        return lambda n: strategy.query(Asked(given), given.features, given.open, given.known, y, n=n)

    return prepare


def small_text_embeddings(name: str, **settings: Any) -> Callable[[Given], Choose]:
    """Strategies on embeddings, past the part that computes these: open rows first, as its `query` hands them on."""

    def prepare(given: Given) -> Choose:
        import small_text.integrations.pytorch.query_strategies
        import small_text.query_strategies

        badge = name == "BADGE"
        home = small_text.integrations.pytorch.query_strategies if badge else small_text.query_strategies
        strategy = getattr(home, name)(**({"num_classes": given.n_classes} if badge else settings))
        order = np.concatenate([given.open, given.known])
        features, probs, places = given.features[order], given.probs[order], np.arange(len(order))
        first, others, y = places[: len(given.open)], places[len(given.open) :], given.labels[given.known]
        return lambda n: order[strategy.sample(None, None, first, others, y, n, features, embeddings_proba=probs)]

    return prepare


# -- baal -------------------------------------------------------------------------------------------------------------


def baal(name: str, passes: bool = False, sized: str | None = None) -> Callable[[Given], Choose]:
    """A heuristic on (n, c) or (n, c, passes) predictions; `sized` is the argument that says how many are wanted."""

    def prepare(given: Given) -> Choose:
        import baal.active.heuristics
        import baal.active.heuristics.aliases

        module = baal.active.heuristics.aliases if name == "PowerBALD" else baal.active.heuristics
        predictions = given.probs[given.open]
        if passes:
            assert given.stochastic is not None
            predictions = np.ascontiguousarray(given.stochastic[given.open].swapaxes(1, 2))
        rows = given.open

        def choose(n: int) -> Any:
            heuristic = getattr(module, name)(**({sized: n} if sized else {}))
            return rows[heuristic.get_ranks(predictions)[0][:n]]

        return choose

    return prepare


# Our name -> library -> what is timed there, and where that is not quite the same.
PEERS: Final[dict[str, dict[str, tuple[Callable[[Given], Choose], str]]]] = {
    "random": {
        "scikit-activeml": (scikit_activeml_random, ""),
        "small-text": (small_text("RandomSampling"), ""),
    },
    "entropy": {
        "scikit-activeml": (scikit_activeml("UncertaintySampling", "clf", method="entropy"), ""),
        "small-text": (small_text("PredictionEntropy"), ""),
        "baal": (baal("Entropy"), ""),
    },
    "margin": {
        "scikit-activeml": (scikit_activeml("UncertaintySampling", "clf", method="margin_sampling"), ""),
        "small-text": (small_text("BreakingTies"), ""),
        "baal": (baal("Margin"), ""),
    },
    "least_confidence": {
        "scikit-activeml": (scikit_activeml("UncertaintySampling", "clf", method="least_confident"), ""),
        "small-text": (small_text("LeastConfidence"), ""),
        "baal": (baal("Certainty"), ""),
    },
    "bald": {
        "scikit-activeml": (
            scikit_activeml("GreedyBALD", "ensemble", sample_predictions_method_name="sample_proba"),
            "",
        ),
        "small-text": (small_text("BALD"), ""),
        "baal": (baal("BALD", passes=True), ""),
    },
    "power_bald": {"baal": (baal("PowerBALD", passes=True, sized="query_size"), "")},
    "batchbald": {
        "scikit-activeml": (
            scikit_activeml("BatchBALD", "ensemble", sample_predictions_method_name="sample_proba"),
            "as many Monte Carlo samples as passes",
        ),
        "baal": (baal("BatchBALD", passes=True, sized="num_samples"), "500 draws"),
    },
    "badge": {
        "scikit-activeml": (scikit_activeml("Badge", "clf"), "the origin counts as a centre"),
        "small-text": (small_text_embeddings("BADGE"), "its gradients lack the predicted class"),
    },
    "coreset": {
        "scikit-activeml": (scikit_activeml("CoreSet"), ""),
        "small-text": (small_text_embeddings("GreedyCoreset", normalize=False), ""),
    },
    "farthest_first": {"scikit-activeml": (scikit_activeml("CoreSet"), "")},
    "kmeans": {"small-text": (small_text_embeddings("EmbeddingKMeans", normalize=False), "")},
    "typiclust": {"scikit-activeml": (scikit_activeml("TypiClust"), "as many clusters as labels and picks")},
    "probcover": {"scikit-activeml": (scikit_activeml("ProbCover"), "")},
    "drop_query": {"scikit-activeml": (scikit_activeml_drop_query, "predictions included")},
    "max_herding": {"scikit-activeml": (scikit_activeml("MaxHerding"), "")},
}
