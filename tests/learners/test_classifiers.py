import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from tests.learners.tasks import blobs
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


def test_what_the_estimator_refuses_is_one_line() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    with pytest.raises(UnderstudyError, match="KNeighborsClassifier could not be fitted to 4 labels"):
        Classifier(KNeighborsClassifier(n_neighbors=-1)).fit(*blobs(4), 3)


def test_questions_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(UnderstudyError, match="takes 5 columns"):
        FOREST.fit(*blobs(9), 3).predict_proba(np.zeros((2, 4)))
