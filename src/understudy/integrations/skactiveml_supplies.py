"""What a query of scikit-activeml gives our strategies: candidates as rows, labels as numbers, predictions, a view."""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_array

from understudy.data.items import ArrayImages
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError
from understudy.learners.registry import make_learner
from understudy.loop import ActiveLoop
from understudy.messages import reason_of
from understudy.strategies.protocol import Augments, Needs, Strategy
from understudy.strategies.view import UNLABELLED, PoolView

LEARNER: Final = "modern"
IMAGE_LEARNER: Final = "resnet18"


@dataclass(frozen=True, eq=False)
class Candidates:
    """The rows that may be picked: their place in the pool, and what they are called in the answer."""

    added: np.ndarray  # candidates that are not rows of X; they stand at the end of the pool
    rows: np.ndarray  # of the pool, one a candidate
    names: np.ndarray  # indices into X, or into the candidates if those are rows of features
    columns: int  # of the utilities
    n_rows: int  # of the pool

    def names_of(self, rows: np.ndarray) -> np.ndarray:
        name = np.full(self.n_rows, -1)
        name[self.rows] = self.names
        return name[rows]


@dataclass(frozen=True, eq=False)
class EncodedLabels:
    """EncodedLabels as numbers: places in `classes`, and -1 where there is none."""

    encoder: Any
    codes: np.ndarray

    @property
    def classes(self) -> np.ndarray:
        return np.asarray(self.encoder.classes_)


@dataclass(frozen=True, eq=False)
class QueryArguments:
    """The checked arguments of a query."""

    X: np.ndarray
    y: np.ndarray
    found: Candidates
    clf: Any
    fit_clf: bool
    sample_weight: np.ndarray | None
    flag: Any
    labels: EncodedLabels

    @property
    def pool(self) -> np.ndarray:
        return np.concatenate([self.X, self.found.added]) if len(self.found.added) else self.X

    @property
    def features(self) -> np.ndarray:
        return self.pool.reshape(self.found.n_rows, -1)

    @property
    def images(self) -> np.ndarray | None:
        return self.pool if self.X.dtype == np.uint8 and self.X.ndim in (3, 4) else None

    @property
    def codes(self) -> np.ndarray:
        """(n,): the labels of the pool as numbers."""
        return np.append(self.labels.codes, np.full(len(self.found.added), UNLABELLED))

    @property
    def skipped(self) -> np.ndarray:
        """Rows without a label that are not candidates. They are part of the pool, but are not picked."""
        is_skipped = self.codes == UNLABELLED
        is_skipped[self.found.rows] = False
        return np.flatnonzero(is_skipped)

    @property
    def can_predict(self) -> bool:
        """Whether there is a classifier that can know anything."""
        return self.clf is not None and (not self.fit_clf or bool((self.codes != UNLABELLED).any()))

    def unfitted_clf(self) -> Any:
        return None if self.clf is None else clone(self.clf)

    def with_codes(self, codes: np.ndarray) -> "QueryArguments":
        """The same arguments with other labels."""
        own = codes[: len(self.X)]
        y = np.asarray(self.labels.encoder.inverse_transform(own)).astype(self.y.dtype)
        return replace(self, y=y, labels=replace(self.labels, codes=own))


def find_candidates(X: np.ndarray, y: np.ndarray, candidates: np.ndarray | None, missing_label: Any) -> Candidates:
    """Where the candidates are in the pool.

    Rows of features are looked up among the unlabelled rows of X; those that are not there join the pool.
    """
    from skactiveml.utils import is_unlabeled

    is_open = is_unlabeled(y, missing_label)
    none = X[:0]
    if candidates is None or candidates.ndim == 1:
        rows = np.flatnonzero(is_open) if candidates is None else np.asarray(candidates, dtype=np.int64)
        if not is_open[rows].all():
            row = int(rows[~is_open[rows]][0])
            raise UnderstudyError(f"candidate {row} has a label already; leave it out, or take its label back in y")
        return Candidates(none, rows, rows, columns=len(X), n_rows=len(X))
    if candidates.shape[1:] != X.shape[1:]:
        raise UnderstudyError(f"candidates must have the shape of rows of X, {X.shape[1:]}; got {candidates.shape[1:]}")
    places: dict[bytes, list[int]] = defaultdict(list)
    for row in np.flatnonzero(is_open)[::-1].tolist():
        places[X[row].tobytes()].append(row)
    given = candidates.astype(X.dtype, copy=False)
    found = [places[item.tobytes()].pop() if places.get(item.tobytes()) else -1 for item in given]
    rows = np.array(found, dtype=np.int64)
    is_new = rows < 0
    rows[is_new] = len(X) + np.arange(is_new.sum())
    names = np.arange(len(rows))
    return Candidates(given[is_new], rows, names, columns=len(rows), n_rows=len(X) + int(is_new.sum()))


def encode_labels(y: np.ndarray, clf: Any, fit_clf: bool, classes: Any, missing_label: Any) -> EncodedLabels:
    """The labels as numbers, in the order of the classifier's own classes."""
    from skactiveml.utils import ExtLabelEncoder

    known = classes
    if clf is not None:
        known = clf.classes if fit_clf or not hasattr(clf, "classes_") else clf.classes_
        known = classes if known is None else known
    encoder = ExtLabelEncoder(classes=known, missing_label=missing_label)
    codes = np.asarray(encoder.fit_transform(y)).astype(np.int64)
    if not len(encoder.classes_):
        raise UnderstudyError(
            "no classes are known, as y has no labels; pass `classes`, to the classifier if there is one"
        )
    return EncodedLabels(encoder, codes)


def check_sample_weight(weight: Any, y: np.ndarray) -> np.ndarray | None:
    if weight is None:
        return None
    checked = np.asarray(check_array(weight, ensure_2d=False))
    if checked.shape != y.shape:
        raise UnderstudyError(f"sample_weight must have one weight per row, shape {y.shape}; got {checked.shape}")
    return checked


def predict(asked: QueryArguments) -> dict[str, np.ndarray]:
    """The classifier's predictions for the pool, and its embeddings if it has them. The classifier is not changed."""
    clf = asked.clf
    if clf is None:
        raise UnderstudyError("this strategy needs the predictions of a classifier; pass clf")
    if asked.fit_clf:
        weights = () if asked.sample_weight is None else (asked.sample_weight,)
        clf = clone(clf).fit(asked.X, asked.y, *weights)
    flag = asked.flag
    given = {} if flag is None else {flag: True} if isinstance(flag, str) else flag
    try:
        said = clf.predict_proba(asked.pool, **given)
    except TypeError as error:
        if not given:
            raise
        raise UnderstudyError(
            f"clf does not take what clf_embedding_flag_name says ({reason_of(error)}); leave it out, or pass a "
            "classifier whose predict_proba has it"
        ) from error
    probs, *embeddings = said if isinstance(said, tuple) else (said,)
    if np.ndim(probs) != 2 or np.shape(probs)[1] != len(asked.labels.classes):
        raise UnderstudyError(
            f"clf must predict {len(asked.labels.classes)} classes, those of its `classes`; got shape {np.shape(probs)}"
        )
    if not embeddings:
        return {"probs": np.asarray(probs)}
    return {"probs": np.asarray(probs), "hidden": np.asarray(embeddings[0]).reshape(asked.found.n_rows, -1)}


def view_of(
    asked: QueryArguments,
    needs: Needs,
    said: dict[str, np.ndarray],
    device: str,
    *,
    codes: np.ndarray | None = None,
    round: int | None = None,  # noqa: A002
) -> PoolView:
    """A view with what the strategy needs. Without embeddings the features stand for them, as in the library's own."""
    wanted = needs.supplies | needs.optional
    given: dict[str, Any] = {name: said[name] for name in ("probs", "hidden") if name in wanted and name in said}
    if "hidden" in wanted and "hidden" not in given:
        given["hidden"] = asked.features
    images = asked.images
    if "features" in wanted or (needs.images_or_features and images is None):
        given["features"] = asked.features
    elif needs.images_or_features and images is not None:
        given["images"] = ArrayImages(images).pixels
    known = asked.codes if codes is None else codes
    return PoolView(known, len(asked.labels.classes), skipped=asked.skipped, round=round, device=device, **given)


def view_by_learner(
    asked: QueryArguments, strategy: Strategy, learner: Any, seed: int, device: str
) -> tuple[Strategy, PoolView]:
    """The strategy after a training of our learner on all labels, and the view of what came out."""
    images = asked.images
    if learner is None:
        learner = IMAGE_LEARNER if isinstance(strategy, Augments) else LEARNER
    pool = Pool(
        ids=tuple(str(row) for row in range(asked.found.n_rows)),
        items=None if images is None else ArrayImages(images),
        features=asked.features,
    )
    loop = ActiveLoop(
        pool,
        make_learner(learner, device) if isinstance(learner, str) else learner,
        strategy,
        schedule=[],
        random_state=seed,
        n_classes=len(asked.labels.classes),
        device=device,
    )
    known = np.flatnonzero(asked.codes != UNLABELLED)
    loop.tell(known, asked.codes[known])
    loop.skip(asked.skipped)
    loop.train()
    return loop.strategy, loop.view
