"""Every strategy of ours keeps to the rules of scikit-activeml, and a surrogate is the same however it came about.

The rules are those that the library's own test template asks of its strategies. The template itself is not in the
library's wheel; `benchmarks/skactiveml_template.py` runs it.
"""

import importlib.util
import inspect
import json
import pickle
import sys
import warnings
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from tests.leaving_out import import_or_leave_out
from tests.strategies.quick import QUICK
from understudy.errors import UnderstudyError
from understudy.learners.heads import Head
from understudy.learners.network import Network
from understudy.learners.training import Recipe
from understudy.strategies.registry import STRATEGIES
from understudy.strategies.view import PoolView

import_or_leave_out("skactiveml.base")
from skactiveml.base import SkactivemlClassifier  # noqa: E402
from skactiveml.classifier import ParzenWindowClassifier, SklearnClassifier  # noqa: E402
from sklearn.base import clone  # noqa: E402

from understudy.integrations import skactiveml  # noqa: E402
from understudy.integrations.skactiveml import UnderstudyQuery  # noqa: E402

# `bgadl` trains a network of images, which takes as long as all others together: it has a test of its own.
NAMES = sorted(set(STRATEGIES) - {"bgadl"})
FOLLOWED = ["understudy", "surrogate", "surrogate_blind"]  # the others differ from these in the utility alone
N = 14
HEAD = Head(hidden=(8, 5), recipe=Recipe(epochs=2, batch_size=8))
NETWORK = Network(recipe=Recipe(epochs=1, batch_size=8))
pytestmark = pytest.mark.filterwarnings("ignore:.*could not be fitted")


class OfPixels(SklearnClassifier):  # type: ignore[misc]
    """A classifier of images, or of anything else, by their numbers."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        return super().fit(np.asarray(X).reshape(len(X), -1), y, sample_weight)

    def predict_proba(self, X: Any) -> Any:
        return super().predict_proba(np.asarray(X).reshape(len(X), -1))


class WithEmbeddings(ParzenWindowClassifier):  # type: ignore[misc]
    """A classifier that gives embeddings when it is asked for them."""

    def predict_proba(self, X: Any, return_embeddings: bool = False) -> Any:
        probs = super().predict_proba(X)
        return (probs, np.asarray(X)[:, :2]) if return_embeddings else probs


def pool(name: str = "", n: int = N, d: int = 3) -> np.ndarray:
    rng = np.random.default_rng(0)
    if name == "bgadl":
        return rng.integers(0, 255, (n, 16, 16)).astype(np.uint8)
    return rng.standard_normal((n, d))


def truth(X: np.ndarray) -> np.ndarray:
    values = X.reshape(len(X), -1).mean(1)
    return (values > np.median(values)).astype(float)


def labels(X: np.ndarray, known: Any = (0, 1, 2, 3)) -> np.ndarray:
    y = np.full(len(X), np.nan)
    y[list(known)] = truth(X)[list(known)]
    y[:2] = np.where(np.isnan(y[:2]), np.nan, [0, 1])  # both classes are among the first two
    return y


def classifier(**given: Any) -> Any:
    return OfPixels(LogisticRegression(), random_state=0, **({"classes": [0, 1]} | given))


def query(name: str, **more: Any) -> UnderstudyQuery:
    learner = NETWORK if name == "bgadl" else HEAD
    given = {"settings": QUICK.get(name), "learner": learner, "random_state": 42}
    return UnderstudyQuery(name, **(given | more))


def ask(strategy: UnderstudyQuery, X: np.ndarray, y: np.ndarray, **more: Any) -> tuple[np.ndarray, np.ndarray]:
    rows, utilities = strategy.query(X, y, return_utilities=True, **({"clf": classifier()} | more))
    return rows, utilities


def assert_same(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray], rtol: float = 1e-5) -> None:
    assert one[0].tolist() == other[0].tolist()
    np.testing.assert_allclose(one[1], other[1], rtol=rtol, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
class TestRulesOfTheLibrary:
    def test_all_that_is_left_comes_with_a_score_for_each_row_before_each_pick(self, name: str) -> None:
        X, n = pool(name), 7
        y = labels(X, range(N - n))
        with pytest.warns(UserWarning, match="larger than number of candidates"):
            rows, utilities = ask(query(name), X, y, batch_size=N)
        assert sorted(rows.tolist()) == list(range(N - n, N))
        assert utilities.shape == (n, N)
        for place, line in enumerate(utilities):
            assert np.flatnonzero(np.isnan(line)).tolist() == sorted([*range(N - n), *rows[:place].tolist()])

    def test_any_number_of_labels_is_enough(self, name: str) -> None:
        X = pool(name)
        for count in (0, 1, N - 1) if name in FOLLOWED else (0, N - 1):
            rows, utilities = ask(query(name), X, labels(X, range(count)))
            assert count <= rows[0] < N
            # `dal` looks at ten rows for each label.
            assert np.isfinite(utilities[0, rows[0] if name == "dal" else slice(count, None)]).all()

    def test_candidates_may_be_rows_or_features_or_a_part_of_them(self, name: str) -> None:
        X, strategy, clf = pool(name), query(name), classifier()
        y, left = labels(X), np.arange(4, N)
        before = pickle.dumps((clf, X, y))
        rows, utilities = ask(strategy, X, y, clf=clf)
        of_features, of_each = ask(strategy, X, y, clf=clf, candidates=X[left])
        assert_same((rows - 4, utilities[:, left]), (of_features, of_each))
        some, of_some = ask(strategy, X, y, clf=clf, candidates=left[3:6])
        assert some[0] in left[3:6]
        assert np.flatnonzero(~np.isnan(of_some[0])).tolist() == left[3:6].tolist()
        assert pickle.dumps((clf, X, y)) == before


@pytest.mark.parametrize("name", ["understudy", "badge", "bald", "random"])
def test_a_fitted_classifier_is_not_changed(name: str) -> None:
    X = pool(name)
    y = labels(X)
    clf = classifier().fit(X, y)
    before = pickle.dumps(clf)
    query(name).query(X, y, clf, fit_clf=False)
    assert pickle.dumps(clf) == before


def test_a_strategy_of_images_is_shown_bytes() -> None:
    X = pool("bgadl", n=8)
    rows, utilities = ask(query("bgadl"), X, labels(X, range(4)), batch_size=3)
    assert len(set(rows.tolist())) == 3
    assert np.isfinite(utilities[0, 4:]).all()
    with pytest.raises(UnderstudyError, match="needs images"):
        ask(query("bgadl"), pool(), labels(pool()))


# Those that keep something from query to query, and one for each way to be shown a pool.
@pytest.mark.parametrize(
    "name", ["cluster_margin", "emoc", "expected_error", "weight_schedule", "selection_via_proxy", "badge", "bald"]
)
def test_what_was_asked_before_does_not_matter(name: str) -> None:
    X, living, clf = pool(name), query(name), classifier()
    for known in ([0, 1, 5], [1, 4, 9, 6]):
        found = ask(living, X, labels(X, known), clf=clf)
    assert_same(found, ask(query(name), X, labels(X, known), clf=clf))
    assert living.memory() == {}


@pytest.mark.parametrize("name", FOLLOWED)
def test_an_object_that_saw_it_all_equals_one_made_now_from_its_memory(name: str) -> None:
    X, living, clf = pool(name), query(name, settings={"dtype": "float64"}), classifier()
    # Labels are added, taken back, and given again; others are changed before the classifier learnt them and after.
    for known, turned in (
        ([], []), ([0, 1], []), ([0, 1, 4, 9], []), ([0, 1, 4, 9, 6], []), ([0, 1, 4, 9, 6], [6]), ([0, 1, 4, 9], []),
        ([1, 4, 9, 6, 2], []), ([0, 1, 4, 9, 6, 2], []), ([0, 1, 4, 9, 6, 2, 7], [4]),
    ):  # fmt: skip
        y = labels(X, known)
        y[turned] = 1 - y[turned]
        earlier = json.loads(json.dumps(living.memory()))
        found = ask(living, X, y, clf=clf, batch_size=2)
        for memory in (earlier, living.memory()):
            again = query(name, settings={"dtype": "float64"}).recall(memory)
            assert_same(found, ask(again, X, y, clf=clf, batch_size=2), rtol=1e-8)


@pytest.mark.parametrize(
    ("argument", "value", "error"),
    [
        ("X", "string", (ValueError, TypeError)),
        ("X", np.zeros((3, 3)), ValueError),
        ("y", np.nan, TypeError),
        ("y", np.zeros((2, N)), ValueError),
        ("clf", np.nan, TypeError),
        ("clf", "state", TypeError),
        ("clf", GaussianNB(), TypeError),
        ("fit_clf", np.nan, TypeError),
        ("fit_clf", "state", TypeError),
        ("sample_weight", np.nan, (ValueError, TypeError)),
        ("sample_weight", np.ones(N + 1), ValueError),
        ("candidates", np.nan, ValueError),
        ("candidates", [0], ValueError),
        ("candidates", np.zeros((2, 5)), ValueError),
        ("batch_size", 0, ValueError),
        ("batch_size", 1.2, TypeError),
        ("return_utilities", "string", TypeError),
    ],
)
def test_a_wrong_argument_is_the_error_that_the_library_has_for_it(argument: str, value: Any, error: Any) -> None:
    X = pool()
    for name in ("understudy", "random"):
        with pytest.raises(error):
            query(name).query(**({"X": X, "y": labels(X), "clf": classifier()} | {argument: value}))


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [
        ("strategy", 1, TypeError),
        ("strategy", "nobody", ValueError),
        ("settings", 1, TypeError),
        ("settings", {"nothing": 1}, ValueError),
        ("refit_after", 0, ValueError),
        ("clf_embedding_flag_name", True, TypeError),
        ("missing_label", object, TypeError),
        ("random_state", "state", ValueError),
        ("random_state", np.nan, ValueError),
    ],
)
def test_a_wrong_setting_is_noticed_by_the_query(setting: str, value: Any, error: Any) -> None:
    strategy = query("badge").set_params(**{setting: value})
    with pytest.raises(error):
        strategy.query(pool(), labels(pool()), classifier())


@pytest.mark.parametrize(
    ("missing", "classes", "dtype"),
    [(np.nan, [1.0, 2.0], float), (0, [1, 2], int), (None, [1, 2], object), (None, ["A", "B"], object),
     ("", ["A", "B"], str)],
)  # fmt: skip
@pytest.mark.parametrize("name", ["understudy", "badge", "bald"])
def test_labels_may_be_missing_in_any_way(name: str, missing: Any, classes: Any, dtype: Any) -> None:
    X, strategy = pool(), query(name, missing_label=missing)
    y = np.full(N, missing, dtype=dtype)
    y[:4] = [classes[int(code)] for code in labels(X)[:4]]
    clf = ParzenWindowClassifier(missing_label=missing, classes=classes)
    usual = ask(query(name), X, labels(X), clf=ParzenWindowClassifier(classes=[0, 1]))
    assert_same(ask(strategy, X, y, clf=clf), usual)


def test_equal_weights_are_no_weights_and_others_count() -> None:
    X = pool()
    plain, equal, other = (
        ask(query("margin"), X, labels(X), sample_weight=weight) for weight in (None, np.ones(N), np.arange(1.0, N + 1))
    )
    assert_same(plain, equal)
    assert not np.allclose(plain[1][0, 4:], other[1][0, 4:])


def test_settings_are_only_stored_and_cloned() -> None:
    names = [name for name in inspect.signature(UnderstudyQuery.__init__).parameters if name != "self"]
    stored: dict[str, Any] = {name: object() for name in names}
    strategy = UnderstudyQuery(**stored)
    assert all(getattr(strategy, name) is value for name, value in stored.items())
    assert clone(query("badge")).get_params() == query("badge").get_params()


@pytest.mark.parametrize("name", FOLLOWED)
def test_labels_may_come_in_any_order_and_number(name: str) -> None:
    X, clf = pool(n=24), classifier()
    first, then = list(range(8)), [11, 15, 20]
    one_by_one, backwards, at_once = (query(name, settings={"dtype": "float64"}) for _ in range(3))
    for strategy, order in ((one_by_one, then), (backwards, then[::-1]), (at_once, [])):
        for count in range(len(order) + 1):
            ask(strategy, X, labels(X, first + order[:count]), clf=clf)
    y = labels(X, first + then)
    found = [ask(strategy, X, y, clf=clf, batch_size=3) for strategy in (one_by_one, backwards, at_once)]
    assert one_by_one.memory()["fitted_to"] == first  # the classifier was not fitted again
    assert_same(found[0], found[1], rtol=1e-8)
    assert_same(found[0], found[2], rtol=1e-8)


@pytest.mark.parametrize("memory", [{"a": 1}, "x", {"fitted_to": [1, 2], "labels": [0]}])
def test_what_is_no_memory_is_refused(memory: Any) -> None:
    with pytest.raises(UnderstudyError, match=r"this is not a memory of a query; pass what memory\(\) returned"):
        query("understudy").recall(memory)


def test_between_two_fits_the_labels_themselves_are_learnt() -> None:
    X, strategy, clf = pool(n=24), query("understudy"), classifier()
    _, before = ask(strategy, X, labels(X, range(8)), clf=clf)
    _, after = ask(strategy, X, labels(X, [*range(8), 11]), clf=clf)
    assert strategy.memory()["fitted_to"] == list(range(8))
    assert not np.allclose(before[0, 12:], after[0, 12:])


@pytest.mark.parametrize(("refit_after", "fits"), [(None, [2, 3, 4, 6, 9]), (1, [2, 3, 4, 5, 6, 7, 8, 9]), (4, [2, 6])])
def test_the_classifier_is_fitted_when_there_are_enough_new_labels(refit_after: int | None, fits: list[int]) -> None:
    X, strategy, clf, seen = pool(), query("understudy", refit_after=refit_after), classifier(), []
    for count in range(2, 10):
        strategy.query(X, labels(X, range(count)), clf)
        seen.append(len(strategy.memory()["fitted_to"]))
    assert sorted(set(seen)) == fits


def test_a_changed_label_or_another_classifier_is_fitted_at_once() -> None:
    X, strategy, clf = pool(), query("understudy", refit_after=5), classifier()
    y = labels(X)
    ask(strategy, X, y, clf=clf)
    changed = labels(X, range(5))
    changed[2] = 1 - changed[2]
    ask(strategy, X, changed, clf=clf)
    assert strategy.memory()["fitted_to"] == list(range(5))
    ask(strategy, X, labels(X, range(1, 4)), clf=clf)
    assert strategy.memory()["fitted_to"] == [1, 2, 3]
    ask(strategy, X, labels(X, range(1, 6)), clf=ParzenWindowClassifier(classes=[0, 1]))
    assert strategy.memory()["fitted_to"] == [1, 2, 3, 4, 5]


def test_a_classifier_that_is_fitted_by_its_owner_is_taken_up_when_it_says_something_else() -> None:
    X, strategy = pool(), query("understudy")
    clf = classifier().fit(X, labels(X))
    for count in (4, 5, 6):
        found = ask(strategy, X, labels(X, range(count)), clf=clf, fit_clf=False)
        assert strategy.memory()["fitted_to"] == [0, 1, 2, 3]
    y, memory = labels(X, range(6)), strategy.memory()
    assert_same(found, ask(query("understudy").recall(memory), X, y, clf=clf, fit_clf=False))
    ask(strategy, X, y, clf=deepcopy(clf).fit(X, y), fit_clf=False)
    assert strategy.memory()["fitted_to"] == list(range(6))


def test_a_classifier_that_cannot_be_pickled_is_known_by_its_text() -> None:
    class Local(ParzenWindowClassifier):  # type: ignore[misc]
        pass

    X, strategy = pool(), query("understudy", refit_after=5)
    for count, neighbours, fitted in ((4, 3, 4), (5, 3, 4), (6, 2, 6)):
        clf = Local(classes=[0, 1], n_neighbors=neighbours)
        ask(strategy, X, labels(X, range(count)), clf=clf)
        assert len(strategy.memory()["fitted_to"]) == fitted


def test_another_pool_starts_anew() -> None:
    X, strategy, clf = pool(), query("understudy"), classifier()
    ask(strategy, X, labels(X), clf=clf)
    other = X.copy()
    other[N - 1] *= 1.001
    assert_same(ask(strategy, other, labels(X), clf=clf), ask(query("understudy"), other, labels(X), clf=clf))
    ask(strategy, X, np.full(N, np.nan), clf=clf)  # all labels taken back
    assert_same(ask(strategy, X, labels(X), clf=clf), ask(query("understudy"), X, labels(X), clf=clf))


def test_without_a_random_state_an_object_keeps_its_basis() -> None:
    X, strategy = pool(n=30), query("understudy", settings={"basis_size": 5}, random_state=None)
    found = ask(strategy, X, labels(X))
    assert_same(found, ask(strategy, X, labels(X)))
    again = query("understudy", settings={"basis_size": 5}, random_state=None).recall(strategy.memory())
    assert_same(found, ask(again, X, labels(X)))
    assert_same(found, ask(pickle.loads(pickle.dumps(strategy)), X, labels(X)))


def test_candidates_that_are_not_rows_of_the_pool_join_it() -> None:
    X = pool()
    strangers = np.array([[9.0, 9, 9], X[6], [-9, 9, -9]])
    rows, utilities = ask(query("coreset"), X, labels(X), candidates=strangers, batch_size=2)
    assert sorted(rows.tolist()) == [0, 2]  # far from all that is labelled
    distances = np.sqrt(((strangers[:, None] - X[:4]) ** 2).sum(2)).min(1)
    np.testing.assert_allclose(utilities[0], distances)


def test_a_class_that_appears_later_is_taken_in() -> None:
    X, strategy, clf = pool(), query("understudy"), classifier(classes=None)
    ask(strategy, X, labels(X), clf=clf)
    y = labels(X, range(5))
    y[4] = 7
    assert_same(ask(strategy, X, y, clf=clf), ask(query("understudy"), X, y, clf=clf))


def test_embeddings_of_the_classifier_stand_for_the_features() -> None:
    X, clf = pool(), WithEmbeddings(classes=[0, 1])
    flags = ("return_embeddings", {"return_embeddings": True})
    (rows, utilities), again = (
        ask(query("coreset", clf_embedding_flag_name=flag), X, labels(X), clf=clf) for flag in flags
    )
    assert_same((rows, utilities), again)
    distances = np.sqrt(((X[4:, None, :2] - X[:4, :2]) ** 2).sum(2)).min(1)
    np.testing.assert_allclose(utilities[0, 4:], distances)
    with pytest.raises(UnderstudyError, match=r"what clf_embedding_flag_name says \(.*'nope'\); leave it out"):
        ask(query("coreset", clf_embedding_flag_name="nope"), X, labels(X), clf=clf)


def test_without_a_classifier_the_features_must_do() -> None:
    X = pool()
    for name in ("understudy", "typiclust", "coreset", "random"):
        assert ask(query(name, classes=[0, 1]), X, np.full(N, np.nan), clf=None)[0].shape == (1,)
    with pytest.raises(UnderstudyError, match="predictions of a classifier; pass clf"):
        query("margin").query(X, labels(X))
    with pytest.raises(UnderstudyError, match="pass `classes`"):
        query("random").query(X, np.full(N, np.nan))


def test_a_strategy_of_ones_own_is_taken_as_it_is() -> None:
    class First:
        needs = query("random")._made_strategy().needs

        def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Any:
            from understudy.strategies.view import Picks

            return Picks(view.candidates(n).cpu().numpy()[:n], np.arange(n, 0.0, -1))

    rows, utilities = ask(UnderstudyQuery(First()), pool(), labels(pool()), batch_size=2)
    assert rows.tolist() == [4, 5]
    assert utilities[0, 4] == 2
    assert np.isnan(np.delete(utilities[0], 4)).all()  # it has no score for single rows
    with pytest.raises(UnderstudyError, match="give your own strategy its settings"):
        UnderstudyQuery(First(), settings={"a": 1}).query(pool(), labels(pool()))


def test_nothing_left_to_label_is_an_empty_answer() -> None:
    X = pool()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows, utilities = ask(query("understudy"), X, truth(X))
    assert rows.shape == (0,)
    assert utilities.shape == (0, N)


def test_a_classifier_of_other_classes_is_an_error() -> None:
    class Odd(SkactivemlClassifier):  # type: ignore[misc]
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Odd":
            return self

        def predict_proba(self, X: Any) -> Any:
            return np.full((len(X), 3), 1 / 3)

    with pytest.raises(UnderstudyError, match="clf must predict 2 classes"):
        query("margin").query(pool(), labels(pool()), Odd(classes=[0, 1]))


def test_without_the_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skactiveml.base", None)
    spec = importlib.util.spec_from_file_location("without_library", str(skactiveml.__file__))
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(UnderstudyError, match=r"pip install 'understudy-al\[skactiveml\]'"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
