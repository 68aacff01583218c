"""Leave-one-out means against leaving one out, and planted errors that must be found."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from understudy import Surrogate, UnderstudyError
from understudy.sessions.review import (
    LABEL_NOISE,
    LabelsToReview,
    Suspect,
    expectations,
    find_suspects,
    judge_labels,
    leave_one_out,
    surprises,
    suspects,
    whiten,
    without_own,
)


def test_leave_one_out_is_what_refitting_without_each_row_gives() -> None:
    rng = np.random.default_rng(0)
    q, k, c = 25, 6, 3
    W, nu = rng.normal(size=(q, k)) / 2, rng.uniform(0.05, 0.6, q)
    labels = rng.integers(c, size=q)
    found = leave_one_out(W, nu, labels, c)
    for row in range(q):
        rest = np.delete(np.arange(q), row)
        S = np.eye(k) + (W[rest] / nu[rest, None]).T @ W[rest]
        targets = np.eye(c)[labels[rest]] - 1 / c
        B = np.linalg.solve(S, W[rest].T @ (targets / nu[rest, None]))
        assert found[row] == pytest.approx(1 / c + W[row] @ B, abs=1e-10)


def test_with_all_rows_in_the_basis_it_is_leave_one_out_of_the_full_process() -> None:
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(20, 2)), rng.integers(2, size=20)
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    found = leave_one_out(*whiten(distances, 1.5), labels, 2)
    K = np.exp(-((distances / 1.5) ** 2))
    for row in range(20):
        rest = np.delete(np.arange(20), row)
        gain = np.linalg.solve(K[np.ix_(rest, rest)] + LABEL_NOISE * np.eye(19), K[rest, row])
        assert found[row] == pytest.approx(0.5 + gain @ (np.eye(2)[labels[rest]] - 0.5), abs=1e-5)


def test_the_surrogate_says_the_same_of_a_row_whose_answer_is_retracted() -> None:
    rng = np.random.default_rng(2)
    n, c = 80, 3
    X, F, y = rng.normal(size=(n, 4)), rng.dirichlet(np.ones(c), size=n), rng.integers(c, size=n)
    s = Surrogate(X, c, basis_size=12, noise=1e-2, dtype="float64").anchor(F, np.arange(10))
    told = np.array([20, 33, 41, 57, 60, 71])
    s.tell(told, y[told])
    g = np.diag(s.covariance(told)[told])
    nu = s.variance[told] - g
    found = without_own(s.mean[told], g, nu, np.eye(c)[y[told]])
    for i, row in enumerate(told):
        s.retract([row])
        assert s.mean[row] == pytest.approx(found[i], abs=1e-6)
        s.tell([row], [y[row]])


def test_a_row_that_only_its_own_label_speaks_of_is_not_judged() -> None:
    targets = np.eye(2)[[0]]
    found = without_own(np.array([[1.0, 0.0]]), np.array([0.3]), np.array([0.3]), targets)
    assert np.array_equal(found, targets)


@pytest.mark.parametrize("seed", range(4))
def test_wrong_labels_among_digits_are_found(seed: int) -> None:
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(X))[:300]
    labels = y[rows].copy()
    wrong = rng.permutation(300)[:10]
    labels[wrong] = (labels[wrong] + rng.integers(1, 10, 10)) % 10
    found = suspects(rows, labels, *surprises(X[rows], labels, 10), kept={}, least=0.0)
    planted = set(rows[wrong].tolist())
    assert sum(suspect.row in planted for suspect in found[:20]) >= 8
    certain = suspects(rows, labels, *surprises(X[rows], labels, 10), kept={})
    assert sum(suspect.row in planted for suspect in certain) >= 8
    assert len(certain) <= 15


def test_right_labels_of_well_parted_classes_surprise_nobody() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 20)
    X = 10 * np.eye(3)[labels] + rng.normal(size=(60, 3))
    expected, surprise = surprises(X, labels, 3)
    assert np.array_equal(expected, labels)
    assert not surprise.any()


def test_the_means_do_not_depend_on_the_units_nor_on_the_place_of_the_features() -> None:
    X, y = load_digits(return_X_y=True)
    one = expectations(X[:100], y[:100], 10)
    assert expectations(1000 * X[:100] + 5e4, y[:100], 10) == pytest.approx(one, abs=1e-6)


@pytest.mark.parametrize("q", [0, 1, 2])
def test_few_labels_give_no_suspects_and_no_error(q: int) -> None:
    labels = np.arange(q) % 2
    expected, surprise = surprises(np.ones((q, 3), dtype=np.float32), labels, 2)
    assert len(expected) == len(surprise) == q
    assert np.isfinite(surprise).all()


def test_features_that_say_nothing_leave_the_majority() -> None:
    labels = np.array([0, 0, 0, 0, 1])
    expected, _ = surprises(np.zeros((5, 2)), labels, 2)
    assert expected.tolist() == [0] * 5


def test_surprise_is_the_lead_of_the_expected_share_over_the_given_one() -> None:
    means = np.array([[0.7, 0.3, -0.2], [0.1, 0.1, 0.2], [-1.0, -1.0, -1.0]])
    expected, surprise = judge_labels(means, np.array([1, 2, 2]))
    assert expected.tolist() == [0, 2, 0]
    assert surprise == pytest.approx([0.4, 0.0, 0.0])


def test_suspects_come_worst_first_without_those_a_review_kept() -> None:
    rows, labels = np.array([5, 6, 7, 8, 9]), np.array([0, 0, 1, 1, 0])
    expected, surprise = np.array([1, 1, 0, 1, 1]), np.array([0.5, 0.9, 0.9, 0.0, 0.1])
    assert suspects(rows, labels, expected, surprise, kept={}) == [
        Suspect(6, 0, 1, 0.9),
        Suspect(7, 1, 0, 0.9),
        Suspect(5, 0, 1, 0.5),
    ]
    kept = {6: 0, 7: 0}  # 7 was kept as class 0, and is class 1 since
    assert [suspect.row for suspect in suspects(rows, labels, expected, surprise, kept)] == [7, 5]


def test_a_least_surprise_beyond_all_is_refused() -> None:
    nothing = np.array([], dtype=np.int64)
    with pytest.raises(UnderstudyError, match="from 0 to 1"):
        suspects(nothing, nothing, nothing, np.array([]), {}, least=2.0)


def test_where_features_do_not_carry_the_labels_nothing_is_called_surprising() -> None:
    rng = np.random.default_rng(5)
    labels = rng.integers(3, size=60)
    noise = rng.normal(size=(60, 4))
    assert suspects(np.arange(60), labels, *surprises(noise, labels, 3), kept={})
    assert find_suspects(noise, LabelsToReview(np.arange(60), labels, {}, 3, 0)) == []
    telling = noise + 10 * np.eye(3, 4)[labels]
    wrong = labels.copy()
    wrong[7] = (wrong[7] + 1) % 3
    assert [one.row for one in find_suspects(telling, LabelsToReview(np.arange(60), wrong, {}, 3, 0))] == [7]
