import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from tests.learners.tasks import blobs
from tests.leaving_out import import_or_leave_out
from understudy import UnderstudyError
from understudy.learners.classifiers import Classifier
from understudy.learners.protocol import Learner, Model

FOREST = Classifier(make_pipeline(StandardScaler(), RandomForestClassifier(n_estimators=5)))


def test_classifiers_meet_the_protocols() -> None:
    assert isinstance(FOREST, Learner)
    assert isinstance(FOREST.fit(*blobs(9), 3), Model)


@pytest.mark.parametrize("estimator", [LogisticRegression(), GaussianNB(), FOREST.estimator])
def test_probabilities_are_the_estimators_in_their_columns(estimator: object) -> None:
    inputs, labels = blobs(40)
    model = Classifier(estimator).fit(inputs, labels * 2, 6, seed=3)  # classes 0, 2 and 4 of six
    probs = model.predict_proba(inputs)
    assert probs.shape == (40, 6)
    assert not probs[:, 1::2].any()
    np.testing.assert_array_equal(probs[:, ::2], model.estimator.predict_proba(inputs))
    assert (probs.argmax(1) == labels * 2).mean() > 0.9


def test_the_seed_reaches_an_estimator_inside_a_pipeline() -> None:
    inputs, labels = blobs(40)
    once, again, other = (FOREST.fit(inputs, labels, 3, seed=seed).predict_proba(inputs) for seed in (1, 1, 2**40))
    np.testing.assert_array_equal(once, again)
    assert (once != other).any()
    assert FOREST.estimator[-1].random_state is None, "the caller's estimator was changed"


class Backwards:
    """No relative of scikit-learn's; its columns are in an order of its own."""

    def fit(self, inputs: np.ndarray, labels: np.ndarray) -> None:
        assert sorted(set(labels)) == list(range(len(set(labels)))), "gaps between the classes"
        self.classes_ = np.unique(labels)[::-1]
        self.last = int(labels[-1])

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        return np.tile((self.classes_ == self.last).astype(float), (len(inputs), 1))


def test_columns_go_where_the_estimator_says() -> None:
    estimator = Backwards()
    model = Classifier(estimator).fit(blobs(3)[0], np.array([1, 3, 4]), 6)
    assert model.predict_proba(np.zeros((1, 5))).tolist() == [[0, 0, 0, 0, 1, 0]]
    assert not hasattr(estimator, "last"), "the caller's estimator was fitted"


class Undecided(Backwards):
    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        return np.full((len(inputs), len(self.classes_)), np.nan)


def test_probabilities_that_are_no_numbers_are_an_error() -> None:
    with pytest.raises(UnderstudyError, match=r"Undecided's probabilities for item . are not finite"):
        Classifier(Undecided()).fit(*blobs(9), 3).predict_proba(blobs(2)[0])


def test_a_class_in_place_of_an_estimator_is_refused() -> None:
    with pytest.raises(UnderstudyError, match=r"pass an instance, not the class: GaussianNB\(\)"):
        Classifier(GaussianNB)


def test_one_class_only_is_certain() -> None:
    model = Classifier(LogisticRegression()).fit(blobs(5)[0], np.full(5, 1), 3)
    assert model.predict_proba(blobs(2)[0]).tolist() == [[0, 1, 0]] * 2


def test_no_items_give_no_rows() -> None:
    assert FOREST.fit(*blobs(9), 3).predict_proba(np.empty((0, 5))).shape == (0, 3)


def test_an_estimator_without_probabilities_is_refused() -> None:
    with pytest.raises(UnderstudyError, match="LinearSVC has no predict_proba; use an estimator that has it"):
        Classifier(LinearSVC())


def test_a_stack_finds_its_last_classifier_when_it_is_fitted() -> None:
    stack = StackingClassifier([("tree", DecisionTreeClassifier())], cv=2)
    for estimator in (stack, make_pipeline(StandardScaler(), stack)):
        assert Classifier(estimator).fit(*blobs(12), 3).predict_proba(blobs(12)[0]).shape == (12, 3)
    with pytest.raises(UnderstudyError, match="StackingClassifier has no predict_proba"):
        Classifier(stack.set_params(final_estimator=LinearSVC()))


def test_what_the_estimator_refuses_is_one_line() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    with pytest.raises(UnderstudyError, match="KNeighborsClassifier could not be fitted to 4 labels"):
        Classifier(KNeighborsClassifier(n_neighbors=-1)).fit(*blobs(4), 3)


def test_questions_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(UnderstudyError, match="takes 5 columns"):
        FOREST.fit(*blobs(9), 3).predict_proba(np.zeros((2, 4)))


def test_a_regressor_is_refused_as_what_it_is() -> None:
    with pytest.raises(
        UnderstudyError, match=r"LinearRegression predicts numbers, not classes; pass a classifier such"
    ):
        Classifier(LinearRegression())


def test_the_way_out_that_is_named_for_one_without_probabilities_is_one() -> None:
    inputs, labels = blobs(12)
    model = Classifier(CalibratedClassifierCV(LinearSVC(), cv=2)).fit(inputs, labels, 4)
    assert (model.predict_proba(inputs).argmax(1) == labels).mean() > 0.8


# -- the classes as the caller knows them ---------------------------------------------------------------------------


def test_the_estimator_is_given_the_classes_by_name_and_its_settings_may_name_them() -> None:
    inputs, labels = blobs(40)
    names = ("dog", "ant", "cat", "owl")
    weighted = LogisticRegression(class_weight={"cat": 50.0})
    model = Classifier(weighted, names).fit(inputs, labels, 4)  # labels 0, 1, 2: the owl has none
    assert model.estimator.predict(inputs).tolist() == [names[label] for label in model.predict_proba(inputs).argmax(1)]
    by_hand = LogisticRegression(class_weight={"cat": 50.0}).fit(inputs, [names[label] for label in labels])
    np.testing.assert_array_equal(model.predict_proba(inputs)[:, [1, 2, 0]], by_hand.predict_proba(inputs))
    assert not model.predict_proba(inputs)[:, 3].any()


@pytest.mark.parametrize("classes", [(-1, 1), (False, True), (30, 10)])
def test_classes_may_be_numbers_of_any_kind(classes: tuple[Any, ...]) -> None:
    inputs, labels = blobs(40, 2)
    model = Classifier(LogisticRegression(), classes).fit(inputs, labels, 2)
    assert set(model.estimator.classes_.tolist()) == set(classes)
    assert (model.predict_proba(inputs).argmax(1) == labels).mean() > 0.9


def test_another_number_of_classes_is_refused() -> None:
    with pytest.raises(UnderstudyError, match="this classifier has 2 classes, not 3"):
        Classifier(LogisticRegression(), ("a", "b")).fit(*blobs(9), 3)


@pytest.mark.parametrize(
    "estimator",
    [
        DummyClassifier(),
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
        CalibratedClassifierCV(LogisticRegression(), cv=2),
        make_pipeline(make_column_transformer((StandardScaler(), [0, 2])), GaussianNB()),
    ],
)
def test_estimators_within_estimators_are_copied_and_left_alone(estimator: Any) -> None:
    before = repr(estimator)
    inputs, labels = blobs(30)
    probs = Classifier(estimator, ("a", "b", "c", "d")).fit(inputs, labels, 4, seed=7).predict_proba(inputs)
    assert probs.shape == (30, 4)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-6)
    assert repr(estimator) == before
    assert not hasattr(estimator, "classes_")


# -- rows that are no arrays ---------------------------------------------------------------------------------------


def test_frames_and_sparse_matrices_reach_the_estimator_as_they_are() -> None:
    pd = import_or_leave_out("pandas")
    frame = pd.DataFrame({"size": [1.0, 2.0, 8.0, 9.0], "colour": ["red", "red", "blue", "blue"]})
    encode = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    model = Classifier(make_pipeline(encode, LogisticRegression())).fit(frame, np.array([0, 0, 2, 2]), 3)
    assert model.predict_proba(frame).argmax(1).tolist() == [0, 0, 2, 2]
    with pytest.raises(UnderstudyError, match="this model takes 2 columns"):
        model.predict_proba(frame[["size"]])
    matrix = scipy.sparse.csr_matrix(np.eye(4))
    sparse = Classifier(LogisticRegression()).fit(matrix, np.array([0, 0, 2, 2]), 3)
    assert sparse.predict_proba(matrix).argmax(1).tolist() == [0, 0, 2, 2]
    assert sparse.predict_proba(torch.eye(4)).argmax(1).tolist() == [0, 0, 2, 2]


def test_what_an_encoder_has_not_seen_is_one_line_with_the_way_out() -> None:
    pd = import_or_leave_out("pandas")
    frame = pd.DataFrame({"colour": ["red", "red", "blue", "green"]})
    some, labels = frame[:3], np.array([0, 0, 1])
    with pytest.raises(
        UnderstudyError, match=r"could not predict 4 rows: .*'green'.*pass handle_unknown='ignore' to the"
    ):
        Classifier(make_pipeline(OneHotEncoder(), LogisticRegression())).fit(some, labels, 2).predict_proba(frame)
    mended = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    assert Classifier(mended).fit(some, labels, 2).predict_proba(frame).shape == (4, 2)


def test_the_steps_before_a_classifier_prepare_features_without_labels() -> None:
    inputs, _ = blobs(20)
    scaled = Classifier(make_pipeline(StandardScaler(), GaussianNB())).preprocess(inputs)
    np.testing.assert_allclose(scaled, (inputs - inputs.mean(0)) / inputs.std(0), rtol=1e-5)
    assert Classifier(GaussianNB()).preprocess(inputs) is None


# -- networks of skorch --------------------------------------------------------------------------------------------


class Net(torch.nn.Module):
    """A linear network with an output for each of so many classes, whether they have labels or not."""

    def __init__(self, outputs: int = 6) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(5, outputs)

    def forward(self, inputs: torch.Tensor) -> Any:
        return self.layer(inputs)


def net(**settings: Any) -> Any:
    skorch = import_or_leave_out("skorch")
    usual = {"criterion": torch.nn.CrossEntropyLoss, "train_split": None, "verbose": 0, "max_epochs": 30, "lr": 0.3}
    return skorch.NeuralNetClassifier(Net, **{**usual, **settings})


@pytest.mark.parametrize("classes", [None, ("a", "b", "c", "d", "e", "f"), (10, 20, 30, 40, 50, 60)])
@pytest.mark.parametrize("wrap", [lambda net: net, lambda net: make_pipeline(StandardScaler(), net)])
def test_a_network_of_fixed_width_keeps_its_outputs_where_classes_have_no_labels(classes: Any, wrap: Any) -> None:
    inputs, labels = blobs(40)
    inputs, labels = inputs.astype(np.float64), labels * 2  # classes 0, 2 and 4 of six
    model = Classifier(wrap(net()), classes).fit(inputs, labels, 6)
    probs = model.predict_proba(inputs)
    np.testing.assert_array_equal(probs, model.estimator.predict_proba(inputs.astype(np.float32)))
    assert (probs.argmax(1) == labels).mean() > 0.9
    assert (probs[:, 1::2] > 0).all()  # an output is never quite 0


def test_a_network_draws_its_weights_from_the_seed_and_from_nothing_else() -> None:
    inputs, labels = blobs(20)
    learner = Classifier(net(max_epochs=1))
    state = torch.get_rng_state()
    once, again, other = (learner.fit(inputs, labels, 6, seed=seed).predict_proba(inputs) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(once, again)
    assert (once != other).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"module__outputs": 7}, "it predicts 7 columns for 3 classes with labels, of 6; give it 6 outputs"),
        ({"module__outputs": 2}, "Target 2 is out of bounds; give the network an output for each class"),
        ({"train_split": import_or_leave_out("skorch.dataset").ValidSplit(50)}, "Pass train_split=None"),
    ],
)
def test_a_network_that_cannot_work_is_one_line(settings: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=re.escape(message)) as error:
        Classifier(net(**settings)).fit(*blobs(12), 6)
    assert "\n" not in str(error.value)


def test_logits_are_not_taken_for_probabilities() -> None:
    inputs, labels = blobs(12)
    model = Classifier(net(predict_nonlinearity=None)).fit(inputs, labels, 6)
    with pytest.raises(UnderstudyError, match=r"predict_proba gives no probabilities: .*CrossEntropyLoss"):
        model.predict_proba(inputs)


def test_a_network_after_a_transformer_is_told_how_it_gets_float32() -> None:
    inputs, labels = blobs(12)
    doubled = FunctionTransformer(np.float64)
    with pytest.raises(UnderstudyError, match=r"put FunctionTransformer\(np.float32\) before the network"):
        Classifier(make_pipeline(doubled, net())).fit(inputs, labels, 6)
    mended = make_pipeline(doubled, FunctionTransformer(np.float32), net())
    assert Classifier(mended).fit(inputs, labels, 6).predict_proba(inputs).shape == (12, 6)
