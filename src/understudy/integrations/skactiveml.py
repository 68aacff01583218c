"""A query strategy of scikit-activeml for every strategy of ours; the surrogate in it learns from single labels.

`UnderstudyQuery` has the library's interface: `query` is shown `X` and `y` and returns indices. What it takes from the
classifier, and what from a learner of ours, is in `skactiveml_supplies.py`.
"""

from collections.abc import Hashable
from copy import deepcopy
from dataclasses import dataclass, field
from pickle import PicklingError
from typing import Any, Final

import joblib
import numpy as np
from sklearn.utils import check_random_state

from understudy.checks import check_whole_number
from understudy.errors import UnderstudyError
from understudy.integrations.skactiveml_supplies import (
    Candidates,
    QueryArguments,
    check_sample_weight,
    encode_labels,
    find_candidates,
    predict,
    view_by_learner,
    view_of,
)
from understudy.loop import LARGEST_STEP
from understudy.messages import install_command
from understudy.strategies.cluster_margin import fingerprint
from understudy.strategies.protocol import Augments, Follows, LearnsWithinRound, Needs, Remembers, Strategy, check_picks
from understudy.strategies.random_rows import Random
from understudy.strategies.registry import make_strategy
from understudy.strategies.view import UNLABELLED, Picks, PoolView, as_tensor

try:
    from skactiveml.base import SingleAnnotatorPoolQueryStrategy, SkactivemlClassifier
    from skactiveml.utils import MISSING_LABEL, check_equal_missing_label, check_scalar, check_type
except ImportError as error:
    raise UnderstudyError(f"scikit-activeml is not installed; to use it: {install_command('skactiveml')}") from error

# What no classifier of scikit-activeml gives; a learner of ours does.
ONLY_A_LEARNER: Final = frozenset({"activations", "stochastic", "gradient_norms"})

MEMORY: Final = frozenset({"fitted_to", "labels", "said", "surrogate"})  # what a query may remember


class UnderstudyQuery(SingleAnnotatorPoolQueryStrategy):  # type: ignore[misc]
    """One of our strategies as a query strategy of scikit-activeml.

    `strategy` is a name of `understudy.STRATEGIES` or a strategy of your own, and `settings` those of the name. The
    surrogates (`understudy`, the default, and the `surrogate` family) learn the labels that are new in `y` since the
    last query. The classifier is fitted anew only when there are `refit_after` labels more than it was fitted to
    (by default half as many again, 200 at most), or when one of those was changed or removed. All other strategies
    see the classifier fitted to `y`, at every query.

    Strategies that need more than predictions and embeddings use `learner`, one of ours or its name, which is trained
    on the labelled rows at every query. `classes` are needed only without a classifier.
    """

    def __init__(
        self,
        strategy: Any = "understudy",
        settings: dict[str, Any] | None = None,
        refit_after: int | None = None,
        learner: Any = None,
        classes: Any = None,
        clf_embedding_flag_name: Any = None,
        device: str = "cpu",
        missing_label: Any = MISSING_LABEL,
        random_state: Any = None,
    ) -> None:
        super().__init__(missing_label=missing_label, random_state=random_state)
        self.strategy = strategy
        self.settings = settings
        self.refit_after = refit_after
        self.learner = learner
        self.classes = classes
        self.clf_embedding_flag_name = clf_embedding_flag_name
        self.device = device

    def query(
        self,
        X: Any,
        y: Any,
        clf: Any = None,
        fit_clf: bool = True,
        sample_weight: Any = None,
        candidates: Any = None,
        batch_size: int = 1,
        return_utilities: bool = False,
    ) -> Any:
        """The indices of the `batch_size` candidates to label next, and the utilities if `return_utilities`.

        `candidates` are indices of unlabelled rows, or rows of features; by default all unlabelled rows. Utilities
        have a line per pick: the scores before it; nan for rows that are not candidates, were picked before, or have no
        score.
        """
        X, y, candidates, batch_size, return_utilities = self._validate_data(
            X, y, candidates, batch_size, return_utilities, reset=True
        )
        self._check_settings(clf, fit_clf)
        sample_weight = check_sample_weight(sample_weight, y)
        found = find_candidates(X, y, candidates, self.missing_label_)
        if not batch_size:
            return (np.empty(0, int), np.empty((0, found.columns))) if return_utilities else np.empty(0, int)
        asked = QueryArguments(
            X,
            y,
            found,
            clf,
            fit_clf,
            sample_weight=sample_weight,
            flag=self.clf_embedding_flag_name,
            labels=encode_labels(y, clf, fit_clf, self.classes, self.missing_label_),
        )
        strategy, view = self._strategy_and_view(asked)
        rng = np.random.default_rng(self.random_state_.randint(2**31))
        picks = check_picks(strategy, strategy.select(view, batch_size, rng), view, batch_size)
        indices = found.names_of(picks.rows)
        return (indices, _fill_utilities(picks, found)) if return_utilities else indices

    # -- state ----------------------------------------------------------------------------------------------

    def memory(self) -> dict[str, Any]:
        """What a surrogate's state depends on besides the arguments of a query, as plain numbers and lists.

        These are the labels to which the classifier was last fitted, the seed of the basis, and how often the
        classifier had been right by then. Empty before the first query, and for all other strategies.
        """
        run: Run | None = getattr(self, "_run", None)
        return {} if run is None else run.memory()

    def recall(self, memory: Any) -> "UnderstudyQuery":
        """Continue, at the next query, where an object with the same settings stood when it had this memory."""
        if not isinstance(memory, dict) or set(memory) - MEMORY or _n(memory, "fitted_to") != _n(memory, "labels"):
            raise UnderstudyError("this is not a memory of a query; pass what memory() returned")
        self._run: Run | None = None
        self._recalled = dict(memory)
        return self

    # -- the strategy, and what it is shown -----------------------------------------------------------------

    def _strategy_and_view(self, asked: QueryArguments) -> tuple[Strategy, PoolView]:
        made = self._made_strategy()
        by_learner = _uses_learner(made)
        if not _is_ready(made.needs, asked.codes, by_learner):
            return Random(), view_of(asked, Needs(), {}, self.device)
        if by_learner:
            return view_by_learner(asked, made, self.learner, self._seed(), self.device)
        if isinstance(made, Follows) and isinstance(made, LearnsWithinRound) and isinstance(made, Remembers):
            return self._follow(asked, made)
        if isinstance(made, Remembers):
            made = deepcopy(made)  # what it keeps belongs to a pool and a run, and a query knows neither
        supplies = made.needs.supplies
        # Without a classifier the features stand for its last hidden layer.
        reads_it = "hidden" in supplies and asked.clf is not None
        said = predict(asked) if "probs" in supplies or reads_it or (made.needs.optional and asked.can_predict) else {}
        return made, view_of(asked, made.needs, said, self.device)

    def _follow(self, asked: QueryArguments, made: Any) -> tuple[Strategy, PoolView]:
        """The surrogate and its view: with the predictions of the last fit, and all labels of now."""
        pool = fingerprint(as_tensor("X", asked.features))
        key = (pool, tuple(asked.labels.classes.tolist()), self._made_key, str(self.device), self._seed())
        run: Run | None = getattr(self, "_run", None)
        recalls_itself = run is not None and run.key == key and run.must_relive(asked.codes)
        if run is None or run.key != key or recalls_itself:
            recalled = run.memory() if run is not None and recalls_itself else getattr(self, "_recalled", {})
            self._recalled = {}
            run = self._run = Run.start(key, made, {"seed": self._seed(), **recalled.get("surrogate", {})})
            run.relive(recalled, asked, self.device)
        if asked.can_predict or "probs" in made.needs.supplies:
            run.update(asked, self.refit_after)
        elif run.fitted_to is not None:  # all labels were taken back
            run = self._run = run.afresh(made)
        return run.strategy, run.view(asked, asked.codes, self.device)

    def _made_strategy(self) -> Strategy:
        """The strategy, made anew when its name or settings have changed."""
        key = (self.strategy if isinstance(self.strategy, str) else id(self.strategy), _hash_of(self.settings))
        if getattr(self, "_made_key", None) != key:
            self._made = (
                make_strategy(self.strategy, **(self.settings or {}))
                if isinstance(self.strategy, str)
                else deepcopy(self.strategy)
            )
            self._made_key: Hashable = key
        return self._made

    def _seed(self) -> int:
        """The seed of all that must be the same at every query; drawn once if there is no random state."""
        recalled = getattr(self, "_recalled", {}).get("surrogate", {})
        if self.random_state is None:
            if not hasattr(self, "_drawn_seed"):
                self._drawn_seed = int(np.random.default_rng().integers(2**31))
            return int(recalled.get("seed", self._drawn_seed))
        return int(check_random_state(deepcopy(self.random_state)).randint(2**31))

    # -- checks ---------------------------------------------------------------------------------------------

    def _check_settings(self, clf: Any, fit_clf: Any) -> None:
        check_scalar(fit_clf, "fit_clf", bool)
        if clf is not None:
            check_type(clf, "clf", SkactivemlClassifier)
            check_equal_missing_label(clf.missing_label, self.missing_label_)
        check_type(self.strategy, "strategy", str, Strategy)
        check_type(self.settings, "settings", dict, type(None))
        check_type(self.clf_embedding_flag_name, "clf_embedding_flag_name", dict, str, type(None))
        if self.refit_after is not None:
            check_whole_number("refit_after", self.refit_after, 1)
        if self.settings and not isinstance(self.strategy, str):
            raise UnderstudyError("settings belong to the name of a strategy; give your own strategy its settings")


@dataclass(eq=False)
class Run:
    """What is kept from query to query of a surrogate.

    Its state is a function of the pool, the seed, the labels that the classifier was last fitted to (with how often
    earlier classifiers had been right by then), and the labels of now: not of the order in which those arrived.
    """

    key: tuple[Any, ...]
    strategy: Any
    said: dict[str, np.ndarray] = field(default_factory=dict)  # predictions, and embeddings if the classifier has them
    fitted_to: np.ndarray | None = None  # codes of the labels at the last fit
    asked_of: str = ""  # the classifier and its weights, as a hash
    round: int = 0
    at_fit: dict[str, Any] = field(default_factory=dict)  # the strategy's own memory

    @classmethod
    def start(cls, key: tuple[Any, ...], made: Any, memory: dict[str, Any]) -> "Run":
        run = cls(key, deepcopy(made))
        run.strategy.recall(memory)
        return run

    def afresh(self, made: Any) -> "Run":
        """The same pool and seed, and nothing learnt."""
        return Run.start(self.key, made, {"seed": self.at_fit["seed"]})

    def update(self, asked: QueryArguments, refit_after: int | None) -> None:
        """Take up new predictions if it is time."""
        if asked.fit_clf:
            asked_of = _hash_of(asked.unfitted_clf(), asked.sample_weight)
            if asked_of == self.asked_of and not self._is_due(asked.codes, refit_after):
                return
            said = predict(asked)
        else:
            asked_of, said = "", predict(asked)
            if said.keys() == self.said.keys() and all(np.array_equal(said[name], self.said[name]) for name in said):
                # The classifier is the same. Labels that were changed since it was fitted it has not learnt.
                assert self.fitted_to is not None
                if self._is_outdated(asked.codes):
                    kept = np.where(self.fitted_to == asked.codes, self.fitted_to, UNLABELLED)
                    self._start_round(kept, said, asked_of)
                return
        self._start_round(asked.codes, said, asked_of)

    def _start_round(self, fitted_to: np.ndarray, said: dict[str, np.ndarray], asked_of: str) -> None:
        self.said, self.asked_of, self.fitted_to = said, asked_of, fitted_to.copy()
        self.round += 1
        self.at_fit = {}

    def _is_due(self, codes: np.ndarray, refit_after: int | None) -> bool:
        if self.fitted_to is None:
            return True
        known = self.fitted_to != UNLABELLED
        count = int(known.sum())
        step = min(LARGEST_STEP, max(1, count // 2)) if refit_after is None else refit_after
        return self._is_outdated(codes) or int((codes != UNLABELLED).sum()) - count >= step

    def _is_outdated(self, codes: np.ndarray) -> bool:
        """Whether a label that the classifier was fitted to has changed or gone."""
        return self.fitted_to is not None and bool(((self.fitted_to != UNLABELLED) & (self.fitted_to != codes)).any())

    def must_relive(self, codes: np.ndarray) -> bool:
        """Whether to go back to the last fit, so that what an outdated label once counted for is not forgotten.

        Only the paper's method uses how often the classifier was right.
        """
        return self.strategy.options.method == "paper" and self._is_outdated(codes)

    def view(self, asked: QueryArguments, codes: np.ndarray, device: str) -> PoolView:
        view = view_of(asked, self.strategy.needs, self.said, device, codes=codes, round=self.round)
        if self.fitted_to is not None:
            kept = (self.fitted_to != UNLABELLED) & (self.fitted_to == codes)
            view = view.after(codes, skipped=asked.skipped, trained_on=np.flatnonzero(kept))
        if not self.at_fit:
            self.strategy.follow(view, np.random.default_rng(0))  # all randomness comes from the recalled seed
            self.at_fit = self.strategy.memory()
        return view

    def relive(self, memory: dict[str, Any], asked: QueryArguments, device: str) -> None:
        """Bring the surrogate to where it stood at the fit that is remembered."""
        rows, labels = memory.get("fitted_to"), memory.get("labels")
        if rows is None or max(rows, default=0) >= len(asked.codes):
            return
        codes = np.full(len(asked.codes), UNLABELLED)
        codes[rows] = labels
        then = asked.with_codes(codes)
        said = predict(then)
        if not asked.fit_clf and memory.get("said") != _hash_of(said):
            return  # the classifier was fitted again since, so that this query starts a round of its own
        asked_of = _hash_of(asked.unfitted_clf(), asked.sample_weight) if asked.fit_clf else ""
        self._start_round(codes, said, asked_of)
        self.view(then, codes, device)

    def memory(self) -> dict[str, Any]:
        if self.fitted_to is None:
            return {"surrogate": self.at_fit} if self.at_fit else {}
        rows = np.flatnonzero(self.fitted_to != UNLABELLED)
        return {
            "fitted_to": rows.tolist(),
            "labels": self.fitted_to[rows].tolist(),
            "said": _hash_of(self.said),
            "surrogate": self.at_fit,
        }


def _n(memory: dict[str, Any], name: str) -> int:
    return len(memory.get(name, ()))


def _hash_of(*things: Any) -> str:
    """The same for the same contents; by their text for what cannot be pickled, such as a function without a name."""
    try:
        return str(joblib.hash(things))
    except (PicklingError, TypeError, AttributeError):
        return repr(things)


def _uses_learner(strategy: Strategy) -> bool:
    """Whether a strategy needs a learner of ours: for what it is shown, or because it changes the training."""
    needs = strategy.needs
    needs_more = bool(needs.supplies & ONLY_A_LEARNER) or needs.hook
    return needs_more or isinstance(strategy, Augments) or getattr(strategy, "proxy", None) is not None


def _is_ready(needs: Needs, codes: np.ndarray, by_learner: bool) -> bool:
    """Whether there are as many labels as the strategy needs. Before that, rows are picked at random."""
    known = codes[codes != UNLABELLED]
    return len(known) >= max(needs.labelled, int(by_learner)) and len(np.unique(known)) >= needs.classes


def _fill_utilities(picks: Picks, found: Candidates) -> np.ndarray:
    """(picks, columns): the scores before each pick; nan where there is none."""
    pool = np.full((len(picks), found.n_rows), np.nan)
    if picks.utilities is not None:
        scored = picks.utilities()
        pool[:, scored.rows] = np.where(np.isfinite(scored.values), scored.values, np.nan)
    for place, (row, score) in enumerate(zip(picks.rows.tolist(), picks.scores.tolist(), strict=True)):
        if np.isnan(pool[place, row]):
            pool[place, row] = score
        pool[place + 1 :, row] = np.nan
    utilities = np.full((len(picks), found.columns), np.nan)
    utilities[:, found.names] = pool[:, found.rows]
    return utilities
