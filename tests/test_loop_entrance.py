"""What a scikit-learn user brings goes in at the loop's door: estimators, frames, names of classes."""

import json
import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from tests.learners.test_classifiers import net
from tests.leaving_out import import_or_leave_out
from tests.strategies.pools import make_arrays
from understudy import ActiveLoop, UnderstudyError, frames
from understudy.data.pool import Pool
from understudy.strategies.badge import Badge
from understudy.strategies.registry import make_strategy
from understudy.strategies.selection_via_proxy import SelectionViaProxy

pd, pl = import_or_leave_out("pandas"), import_or_leave_out("polars")

ARRAYS = make_arrays(80)
X, NAMES = ARRAYS.features, ("cat", "dog", "owl")
TRUTH = np.array(NAMES)[ARRAYS.truth]
COLUMNS = {f"column {place}": X[:, place] for place in range(X.shape[1])}


def test_names_go_in_and_names_come_out() -> None:
    loop = ActiveLoop(X, LogisticRegression(), "margin", schedule=[12], classes=NAMES)
    while not loop.round:
        rows = loop.ask(3)
        loop.tell(rows, TRUTH[rows].tolist())
    assert loop.classes == NAMES
    assert loop.answers.tolist() == TRUTH[loop.labelled].tolist()
    assert loop.labels[loop.labelled].tolist() == ARRAYS.truth[loop.labelled].tolist()
    by_hand = LogisticRegression().fit(X[loop.labelled], loop.answers)
    assert loop.predict(X).tolist() == by_hand.predict(X).tolist()
    np.testing.assert_array_equal(loop.predict_proba(X), by_hand.predict_proba(X))
    assert loop.score(X, TRUTH) == loop.score(X, ARRAYS.truth) == by_hand.score(X, TRUTH)


@pytest.mark.parametrize(
    "truth",
    [TRUTH, ARRAYS.truth, pd.Series(TRUTH), pd.Series(TRUTH, dtype="category"), pl.Series(TRUTH), TRUTH.tolist()],
    ids=["names", "places", "pandas", "category", "polars", "list"],
)
def test_a_simulation_takes_the_truth_in_any_kind(truth: Any) -> None:
    loop = ActiveLoop(X, GaussianNB(), "margin", schedule=[10], classes=NAMES)
    loop.rehearse(14, truth)
    assert loop.answers.tolist() == TRUTH[loop.labelled].tolist()


def test_classes_may_be_numbers() -> None:
    signs = np.where(ARRAYS.truth == 0, -1, 1)
    loop = ActiveLoop(X, LogisticRegression(), classes=[-1, 1])
    loop.rehearse(20, signs)
    assert loop.answers.tolist() == signs[loop.labelled].tolist()
    assert set(loop.predict(X).tolist()) == {-1, 1}
    assert (loop.predict(X) == signs).mean() > 0.8


@pytest.mark.parametrize(
    ("source", "learner"),
    [
        (X.tolist(), LogisticRegression()),
        (torch.from_numpy(X).requires_grad_(), "quick"),
        (pd.DataFrame(COLUMNS), "quick"),
        (pd.DataFrame(COLUMNS), LogisticRegression()),
        (pl.DataFrame(COLUMNS), LogisticRegression()),
    ],
    ids=["list", "tensor", "pandas for a head", "pandas", "polars"],
)
def test_the_same_rows_are_asked_for_whatever_holds_the_features(source: Any, learner: Any) -> None:
    loops = [ActiveLoop(given, learner, schedule=[10], classes=NAMES) for given in (X, source)]
    picks = [loop.rehearse(14, TRUTH).rows.tolist() for loop in loops]
    assert picks[0] == picks[1]
    assert loops[0].predict(X).tolist() == loops[1].predict(source).tolist()


def test_a_frame_with_names_and_gaps_works_through_its_pipeline() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": np.where(np.arange(80) % 7 == 0, np.nan, X[:, 0]),
            "weight": X[:, 1],
            "colour": np.array(["red", "green", "blue"])[ARRAYS.truth],
            "noise": pd.Categorical(rng.choice(["a", "b"], 80)),
        },
        index=[f"animal {row}" for row in range(80)],
    )
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer((numbers, ["size", "weight"]), (OneHotEncoder(), ["colour", "noise"]))
    pipeline = make_pipeline(columns, LogisticRegression())
    loop = ActiveLoop(frame, pipeline, schedule=[12], classes=NAMES)
    loop.rehearse(16, TRUTH)
    assert loop.pool.ids[3] == "animal 3"
    np.testing.assert_allclose(np.asarray(loop.pool.features), columns.fit_transform(frame))
    assert loop.score(frame, TRUTH) > 0.9
    assert not hasattr(pipeline[-1], "classes_")
    alone = ActiveLoop(frame, pipeline, "margin", schedule=[12], classes=NAMES)  # needs no features
    assert alone.pool.features is None
    alone.rehearse(16, TRUTH)
    own = ActiveLoop(frame, pipeline, schedule=[12], classes=NAMES, features=X)
    own.rehearse(16, TRUTH)
    np.testing.assert_array_equal(own.pool.features, X)


GAPS = np.where(np.arange(80)[:, None] % 9 == 8, np.nan, X)


@pytest.mark.parametrize(
    ("source", "learner"),
    [
        (GAPS, make_pipeline(SimpleImputer(), LogisticRegression())),
        (
            np.column_stack([TRUTH, TRUTH]).astype(object),
            make_pipeline(OneHotEncoder(sparse_output=False), GaussianNB()),
        ),
    ],
    ids=["gaps", "objects"],
)
def test_what_is_not_all_finite_numbers_is_for_the_pipeline(source: Any, learner: Any) -> None:
    loop = ActiveLoop(source, learner, schedule=[12], classes=NAMES)
    loop.rehearse(14, TRUTH)
    np.testing.assert_allclose(np.asarray(loop.pool.features), learner[:-1].fit_transform(source))
    assert loop.pool.inputs is not None


def test_an_estimator_that_takes_gaps_gets_them() -> None:
    loop = ActiveLoop(GAPS, HistGradientBoostingClassifier(max_iter=3), "margin", schedule=[12], classes=NAMES)
    loop.rehearse(14, TRUTH)
    assert loop.pool.features is None
    with pytest.raises(UnderstudyError, match="row 8 is not finite in float32: column 0 is nan; fill it in") as error:
        ActiveLoop(GAPS, "quick", "margin", schedule=[12], classes=NAMES)
    assert "\n" not in str(error.value)


def test_the_learner_may_see_other_numbers_than_strategies_do() -> None:
    ones = np.ones((80, 2))
    for learner in ("quick", LogisticRegression()):
        loop = ActiveLoop(X, learner, schedule=[12], classes=NAMES, features=ones)
        assert loop.view.features.tolist() == ones.tolist()
        loop.rehearse(12, TRUTH)
        assert loop.score(X, TRUTH) > 0.6


def test_a_sparse_matrix_is_for_the_estimator_and_written_out_for_strategies(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"a {name} and its {name} number {row % 3}" for row, name in enumerate(TRUTH)]
    matrix = TfidfVectorizer().fit_transform(texts)
    loop = ActiveLoop(matrix, LogisticRegression(), schedule=[10], classes=NAMES)
    loop.rehearse(12, TRUTH)
    assert scipy.sparse.issparse(loop.pool.inputs)
    assert loop.score(matrix, TRUTH) > 0.9
    monkeypatch.setattr(frames, "MAX_DENSE_BYTES", 100)
    ActiveLoop(matrix, LogisticRegression(), "margin", schedule=[10], classes=NAMES).rehearse(12, TRUTH)
    with pytest.raises(
        UnderstudyError, match=r"TruncatedSVD\(100\)\.fit_transform.*; or pass features=, numbers"
    ) as error:
        ActiveLoop(matrix, LogisticRegression(), schedule=[10], classes=NAMES)
    assert "\n" not in str(error.value)
    ActiveLoop(matrix, LogisticRegression(), schedule=[10], classes=NAMES, features=X).rehearse(12, TRUTH)


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pl.Series])
def test_texts_go_in_as_they_are_where_a_pipeline_makes_numbers_of_them(kind: Any) -> None:
    texts = kind([f"a {name} and its {name} number {row % 3}" for row, name in enumerate(TRUTH)])
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
    loop = ActiveLoop(texts, pipeline, schedule=[10], classes=NAMES)
    loop.rehearse(12, TRUTH)
    assert loop.pool.item(3) == texts[3]
    assert loop.score(texts, TRUTH) > 0.9
    np.testing.assert_allclose(np.asarray(loop.pool.features), pipeline[:-1].fit_transform(texts).toarray(), atol=1e-6)
    with pytest.raises(UnderstudyError, match="this model takes a flat list of texts; got shape"):
        loop.predict(X)
    with pytest.raises(UnderstudyError, match=r"a list of texts, also of a single one: \[text\]"):
        loop.predict(texts[0])
    with pytest.raises(UnderstudyError, match=r"these are texts; put TfidfVectorizer\(\) before the classifier"):
        ActiveLoop(texts, "quick", classes=NAMES)


def test_a_network_of_skorch_learns_from_few_labels_and_keeps_all_its_outputs() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 6
    pool = 3 * rng.normal(size=(6, 5))[truth] + rng.normal(size=(60, 5))
    loop = ActiveLoop(pool, net(), schedule=[4, 30], n_classes=6)
    loop.tell([0, 1, 6, 7], truth[[0, 1, 6, 7]])
    assert (loop.predict_proba(pool) > 0).all()  # two of six classes have labels
    loop.rehearse(26, truth)
    assert loop.score(pool, truth) > 0.8


def test_an_estimator_may_be_the_proxy_too() -> None:
    loop = ActiveLoop(X, "quick", SelectionViaProxy(make_strategy("margin"), LogisticRegression()), [10], classes=NAMES)
    loop.rehearse(14, TRUTH)
    assert loop.predict(X).shape == (80,)


def test_a_pool_of_images_goes_in_as_bytes() -> None:
    loop = ActiveLoop(ARRAYS.images, "resnet18", "random", schedule=[70], n_classes=3)
    assert len(loop.ask(3)) == 3


TEXT = pd.Series(["a"]).dtype  # of columns of text: str, and object before pandas 3
MIXED = pd.DataFrame({"size": X[:, 0], "city": TRUTH})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"learner": LinearSVC()},
            "LinearSVC has no predict_proba; use an estimator that has it, such as Logistic",
        ),
        ({"learner": LinearRegression()}, "LinearRegression predicts numbers, not classes; pass a classifier"),
        ({"learner": LogisticRegression}, "pass an instance, not the class: LogisticRegression()"),
        ({"learner": 3}, "a learner must be a name (paper, paper_slow, "),
        (
            {"learner": torch.nn.Linear(5, 3)},
            "Linear is a torch module; pass TorchLearner(make_model), with a function",
        ),
        ({"learner": torch.nn.Linear}, "Linear is a torch module; pass TorchLearner(make_model), with a function"),
        (
            {"learner": lambda texts: texts},
            "<lambda> is not a function that trains: it must take items and their labels",
        ),
        ({"learner": {"a": [1, 2]}}, "have takes, offers and fit; got {'a': [1, 2]}"),
        (
            {"strategy": "margin(k=1)"},
            "no strategy 'margin(k=1)'; in Python its settings are arguments: make_strategy('mar",
        ),
        (
            {"tracker": "mlflow"},
            "tracker must be a Tracker; got a str. make_tracker('mlflow', ...) of understudy.integr",
        ),
        ({"learner": StandardScaler()}, "StandardScaler does not predict classes; pass a classifier such as Logistic"),
        ({"learner": KMeans()}, "KMeans does not predict classes; pass a classifier such as LogisticRegression()"),
        ({"learner": RidgeClassifier()}, "RidgeClassifier has no predict_proba; use an estimator that has it"),
        ({"learner": "logistik"}, "there is no learner 'logistik'; did you mean 'logistic'?"),
        ({"strategy": ARRAYS.truth}, "strategy must be the name of one (`understudy strategies` lists them) or have"),
        ({"strategy": None}, "or have `needs` and `select`; got NoneType"),
        ({"strategy": Badge}, "pass a strategy, not its class: Badge()"),
        ({"schedule": 20}, "schedule must be a list of numbers of labels, [20, 40, 80] for instance; got 20"),
        ({"schedule": "20,40"}, "schedule must be a list of numbers of labels, [20, 40, 80] for instance; got '20,40'"),
        ({"device": "cude"}, "'cude' is not a device; use 'cpu' or 'cuda'"),
        ({"predictions": GaussianNB()}, "predictions must be numbers, not a model; pass predict_proba(X) of this Gaus"),
        ({"classes": None}, "this pool does not say which classes there are; pass classes=[...], or pass n_classes"),
        ({"n_classes": 2}, "classes has 3, but n_classes is 2; leave out n_classes"),
        (
            {"pool": MIXED},
            f"1 column of the frame is not: 'city' ({TEXT}); encode them (OneHotEncoder",
        ),
        ({"pool": MIXED, "learner": "quick", "strategy": "margin"}, f"'city' ({TEXT}); encode them"),
        (
            {"pool": MIXED, "learner": make_pipeline(SelectKBest(k=1), LogisticRegression())},
            "the steps of the pipeline before logisticregression could not prepare features without labels",
        ),
        ({"pool": pd.DataFrame({"a": [1.0, None]})}, "column 'a' has 1 value missing or infinite, the first in row 1"),
        ({"pool": pd.DataFrame({"a": []})}, "the pool has no rows; pass one with an item in each row"),
        ({"pool": X[:0]}, "the pool has no rows; pass one with an item in each row"),
        ({"pool": []}, "the pool has no rows; pass one with an item in each row"),
        (
            {"pool": torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.from_numpy(X)))},
            "a DataLoader gives batches, and no item by its number; pass its data set, loader.dataset",
        ),
        ({"pool": X[:, 0]}, "got shape (80,); reshape(len(X), -1) makes a row of each"),
        ({"pool": ["a", None]}, "got texts, of which the one at place 1 is None; leave it out, or pass ''"),
        (
            {
                "pool": pd.DataFrame({"word": ["one"] * 9}),
                "learner": make_pipeline(TfidfVectorizer(), LogisticRegression()),
            },
            "the steps of the pipeline before logisticregression make 1 rows of 9; a vectorizer of texts takes one",
        ),
        ({"pool": "digits"}, "a loop takes what is in memory; pass load('digits')"),
        ({"pool": {"a": [1]}}, "a pool cannot be made of a dict; pass a Pool, an array or a frame"),
        ({"pool": [[1, 2], [3]]}, "pool cannot be converted to an array"),
        ({"pool": TRUTH[:, None]}, "features must be numbers, got an array of type <U3; encode the items first"),
        ({"features": X[:5]}, "80 identities but 5 rows of features"),
        ({"pool": Pool(("a",), classes=("x", "y"), features=X[:1])}, "the pool has 2 classes of its own, which stay"),
    ],
)
def test_what_cannot_go_in_is_one_line_with_the_way_out(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=re.escape(message)) as error:
        ActiveLoop(**{"pool": X, "learner": LogisticRegression(), "classes": NAMES, **arguments})
    assert "\n" not in str(error.value)


def test_an_unknown_name_is_refused_and_nothing_changes() -> None:
    loop = ActiveLoop(X, LogisticRegression(), "random", classes=NAMES)
    with pytest.raises(UnderstudyError, match=r"'dgo' is not a class; did you mean 'dog'\? The classes are 'cat', "):
        loop.tell([1, 2], ["cat", "dgo"])
    with pytest.raises(UnderstudyError, match="labels: 1 value of 2 missing"):
        loop.tell([1, 2], pd.Series(["cat", None]))
    assert len(loop.labelled) == 0


def test_a_training_that_fails_loses_no_label() -> None:
    loop = ActiveLoop(X, LogisticRegression(C=-1.0), "random", schedule=[6], classes=NAMES)
    rows = loop.ask(6)
    with pytest.raises(UnderstudyError, match="LogisticRegression could not be fitted to 6 labels"):
        loop.tell(rows, TRUTH[rows])
    assert loop.answers.tolist() == TRUTH[np.sort(rows)].tolist()


def test_a_training_that_fails_leaves_the_model_and_what_is_known_of_it() -> None:
    class Fails(LogisticRegression):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            if len(y) == 12:
                raise ValueError("not today")
            return super().fit(X, y)

    loop = ActiveLoop(X, Fails(), "margin", schedule=[8, 12, 14], classes=NAMES)
    loop.rehearse(11, TRUTH)
    known = loop.view.is_trained
    (row,) = loop.ask(1)
    with pytest.raises(UnderstudyError, match="not today"):
        loop.tell(row, TRUTH[row])
    assert loop.view.is_trained.tolist() == known.tolist()
    loop.rehearse(2, TRUTH)
    assert [(score.labels, score.judged) for score in loop.history] == [
        (8, 0),
        (13, 5),
        (14, 1),
    ]  # tried again with the next label


def test_numbers_of_a_torch_data_set_may_be_named() -> None:
    stored = torch.utils.data.TensorDataset(torch.tensor(X), torch.zeros(80, dtype=torch.long))
    loop = ActiveLoop(stored, LogisticRegression(), "margin", classes=NAMES)
    loop.rehearse(20, TRUTH)
    assert loop.score(X, TRUTH) > 0.8


def test_a_loop_with_names_is_saved_and_resumed() -> None:
    loop, again = (ActiveLoop(X, LogisticRegression(), schedule=[10], classes=NAMES) for _ in range(2))
    loop.rehearse(15, TRUTH)
    again.resume(json.loads(json.dumps(loop.state_dict())))
    assert again.answers.tolist() == loop.answers.tolist()
    assert again.ask(3).tolist() == loop.ask(3).tolist()
    with pytest.raises(UnderstudyError, match="this state belongs to another loop"):
        ActiveLoop(X, LogisticRegression(), schedule=[10], classes=NAMES[::-1]).resume(loop.state_dict())
