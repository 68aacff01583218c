"""Support vector machines: the midpoint of separable points, and fast decisions against scikit-learn's own."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.svm import SVC

from tests.strategies.pools import make_arrays
from understudy.errors import UnderstudyError
from understudy.strategies import svm_margin
from understudy.strategies.svm_margin import Inputs, SVMMargin, decisions, train_machines
from understudy.strategies.view import Picks, PoolView

LINE = np.array([[-4.0], [-2.0], [-1.5], [-0.9], [0.05], [0.8], [1.4], [2.0], [4.0]])
ENDS = {0: 0, 1: 0, 7: 1, 8: 1}  # the nearest of either class are -2 and 2


def on_the_line(n: int = 1, **settings: Any) -> Picks:
    labels = np.full(len(LINE), -1)
    labels[list(ENDS)] = list(ENDS.values())
    strategy = SVMMargin(**settings)
    return strategy.select(PoolView(labels, 2, features=LINE), n, np.random.default_rng(0))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("rule", ["simple", "maxmin", "ratio"])
def test_separable_points_on_a_line_give_the_midpoint(rule: str, kernel: str) -> None:
    assert on_the_line(rule=rule, kernel=kernel, penalty=1e4).rows.tolist() == [4]


def test_the_simple_rule_goes_by_the_distance_from_the_boundary() -> None:
    picks = on_the_line(5, penalty=1e4)
    assert picks.rows.tolist() == [4, 5, 3, 6, 2]
    np.testing.assert_allclose(picks.scores, -np.abs(LINE[picks.rows, 0]) / 2, atol=1e-3)  # f is 1 at the margin


def test_maxmin_and_ratio_are_the_margins_after_either_label() -> None:
    """With hard margins on a line the new margin is half the gap that is left, so both can be had by hand."""
    low, high = LINE + 2, 2 - LINE  # the two gaps that a row at x makes of the one from -2 to 2
    for rule in ("maxmin", "ratio"):
        picks = on_the_line(5, rule=rule, penalty=1e6)
        smaller, larger = np.minimum(low, high)[picks.rows, 0], np.maximum(low, high)[picks.rows, 0]
        np.testing.assert_allclose(picks.scores, smaller / (4 if rule == "maxmin" else larger), atol=1e-3)
        assert picks.rows.tolist() == [4, 5, 3, 6, 2]


def three_classes() -> tuple[np.ndarray, np.ndarray, list[int]]:
    arrays = make_arrays(60)
    return arrays.features, arrays.truth, list(range(0, 60, 4))


def scaled(X: np.ndarray) -> np.ndarray:
    """About the mean, with a mean square length of 1."""
    about: np.ndarray = X - X.mean(0)
    return about / np.sqrt((about**2).sum(1).mean())


def machines_of(X: np.ndarray, truth: np.ndarray, labelled: list[int], kernel: str) -> list[SVC]:
    """One against the rest by scikit-learn, on scaled features."""
    Z = scaled(X)
    return [SVC(C=1.0, kernel=kernel, gamma=1.0, tol=1e-8).fit(Z[labelled], truth[labelled] == c) for c in range(3)]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_decisions_equal_those_of_scikit_learn(kernel: Any) -> None:
    X, truth, labelled = three_classes()
    Z = scaled(X)
    inputs = Inputs.of(torch.from_numpy(X), torch.tensor(labelled), kernel)
    targets = np.where(truth[labelled] == np.arange(3)[:, None], 1.0, -1.0)
    machines = train_machines(inputs.kernel_with(torch.tensor(labelled)).numpy(), targets, 1.0)
    ours = decisions(inputs, torch.arange(60), machines).numpy()
    theirs = machines_of(X, truth, labelled, kernel)
    np.testing.assert_allclose(ours, np.stack([machine.decision_function(Z) for machine in theirs], 1), atol=5e-4)
    if kernel == "linear":
        np.testing.assert_allclose(machines.lengths, [np.linalg.norm(m.coef_) for m in theirs], rtol=1e-4)


@pytest.mark.parametrize("multiclass", ["closest", "top_two"])
def test_several_classes_are_ranked_by_the_nearest_boundary_or_the_best_two(multiclass: Any) -> None:
    X, truth, labelled = three_classes()
    Z = scaled(X)
    f = np.stack([machine.decision_function(Z) for machine in machines_of(X, truth, labelled, "linear")], 1)
    f[labelled] = 1e3, -1e3, -1e3
    ordered = np.sort(f, axis=1)
    far = np.abs(f).min(1) if multiclass == "closest" else ordered[:, -1] - ordered[:, -2]
    labels = np.full(60, -1)
    labels[labelled] = truth[labelled]
    picks = SVMMargin(multiclass=multiclass).select(PoolView(labels, 3, features=X), 8, np.random.default_rng(0))
    assert picks.rows.tolist() == np.argsort(far)[:8].tolist()
    np.testing.assert_allclose(-picks.scores, np.sort(far)[:8], atol=1e-4)


def test_margins_of_several_classes_are_those_of_the_nearest_machine_trained_again() -> None:
    X, truth, labelled = three_classes()
    Z = scaled(X)
    first = machines_of(X, truth, labelled, "linear")
    labels = np.full(60, -1)
    labels[labelled] = truth[labelled]
    view = PoolView(labels, 3, features=X)
    picks = {
        "maxmin": SVMMargin("maxmin").select(view, 45, np.random.default_rng(0)),
        "ratio": SVMMargin("ratio").select(view, 45, np.random.default_rng(0)),
    }
    for row in (1, 2, 3):
        c = int(np.argmin([abs(machine.decision_function(Z[[row]])[0]) for machine in first]))
        margins = [
            1 / np.linalg.norm(
                SVC(kernel="linear", tol=1e-8).fit(Z[[*labelled, row]], [*(truth[labelled] == c), label]).coef_
            )
            for label in (True, False)
        ]  # fmt: skip
        expected = {
            "maxmin": min(margins) * np.linalg.norm(first[c].coef_),
            "ratio": min(margins) / max(margins),
        }
        for rule, found in picks.items():
            assert found.scores[found.rows.tolist().index(row)] == pytest.approx(expected[rule], rel=1e-3)


def test_units_and_offset_of_the_features_do_not_matter() -> None:
    X, truth, labelled = three_classes()
    labels = np.full(60, -1)
    labels[labelled] = truth[labelled]
    plain, moved = (
        SVMMargin().select(PoolView(labels, 3, features=f), 9, np.random.default_rng(0)).rows.tolist()
        for f in (X, 1e3 * X + 7e4)
    )
    assert plain == moved


def overlapping(n: int = 400, d: int = 16, n_classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Classes that nobody can separate, on a few directions through a ReLU."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, n_classes, n)
    latent = rng.standard_normal((n_classes, 8))[truth] + 2 * rng.standard_normal((n, 8))
    return np.maximum(latent @ rng.standard_normal((8, d)), 0), truth


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps the solver took for each machine."""
    taken: list[int] = []

    class Counted(SVC):  # type: ignore[misc]
        def fit(self, *args: Any) -> "Counted":
            super().fit(*args)
            taken.extend(self.n_iter_.tolist())
            return self

    monkeypatch.setattr(svm_margin, "SVC", Counted)
    return taken


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_solver_comes_to_an_end_where_classes_overlap(kernel: Any, steps: list[int]) -> None:
    X, truth = overlapping()
    view = PoolView(np.where(np.arange(400) < 300, truth, -1), 10, features=X)
    SVMMargin(kernel=kernel).select(view, 5, np.random.default_rng(0))
    assert len(steps) == 10
    assert max(steps) < 30_000


def test_the_solver_is_stopped_where_it_would_not_end_and_says_so(
    steps: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    X, truth = overlapping(n_classes=2)
    known = torch.arange(300)
    gram = Inputs.of(torch.from_numpy(X), known, "linear").kernel_with(known).numpy()
    machines = train_machines(gram, np.where(truth[:300] == 1, 1.0, -1.0)[None], penalty=1e4, max_steps=2_000)
    assert steps == [2_000]
    assert np.isfinite(machines.alphas).all()
    assert "has not converged after 2000 steps; a penalty below 10000 may help" in caplog.text


def test_the_mean_of_the_features_is_that_of_all_blocks() -> None:
    X = torch.from_numpy(make_arrays(60).features).float() + 1000
    inputs = Inputs.of(X, torch.arange(5), "linear", rows_per_block=7)
    torch.testing.assert_close(inputs.mean, X.double().mean(0))
    assert float(inputs.take(torch.arange(60)).square().sum(1).mean()) == pytest.approx(1.0)


def test_only_the_dear_rules_try_a_subset() -> None:
    X, truth, labelled = three_classes()
    labels = np.full(60, -1)
    labels[labelled] = truth[labelled]
    view = PoolView(labels, 3, features=X)
    for rule, differs in (("simple", False), ("ratio", True)):
        strategy = SVMMargin(rule=rule, max_candidates=5)  # type: ignore[arg-type]
        one, other = (strategy.select(view, 4, np.random.default_rng(seed)).rows.tolist() for seed in range(2))
        assert (one != other) == differs


@pytest.mark.parametrize("rule", ["simple", "maxmin", "ratio"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_features_that_say_nothing_leave_the_lowest_rows(rule: Any, kernel: Any) -> None:
    view = PoolView(np.array([0, 1, 0, -1, -1, -1]), 2, features=np.ones((6, 2)))
    picks = SVMMargin(rule=rule, kernel=kernel).select(view, 2, np.random.default_rng(0))
    assert picks.rows.tolist() == [3, 4]
    assert np.isfinite(picks.scores).all()


def test_one_class_is_not_enough() -> None:
    view = PoolView(np.array([0, 0, -1]), 2, features=np.eye(3))
    with pytest.raises(UnderstudyError, match="svm_margin needs labels of 2 classes, got 1"):
        SVMMargin().select(view, 1, np.random.default_rng(0))


@pytest.mark.parametrize(
    "settings", [{"rule": "x"}, {"multiclass": "x"}, {"kernel": "x"}, {"penalty": 0}, {"max_candidates": 0}]
)
def test_a_bad_setting_is_named(settings: dict[str, Any]) -> None:
    with pytest.raises(UnderstudyError, match=next(iter(settings))):
        SVMMargin(**settings)
