"""Ours and scikit-activeml's agree where both mean the same; where they do not, on as much of it as is the same.

BADGE is worked out by hand instead, from gradients written out in full: no library has it in the authors' form.
"""

from typing import Any

import numpy as np
import pytest
import torch

from tests.leaving_out import import_or_leave_out
from tests.strategies.pools import N_CLASSES, Arrays, labels_of, make_arrays, view_for
from understudy.strategies.badge import Gradients
from understudy.strategies.registry import make_strategy
from understudy.strategies.typiclust import typicality
from understudy.strategies.view import Picks

peer = import_or_leave_out("skactiveml.pool")
from skactiveml.base import SkactivemlClassifier  # noqa: E402
from skactiveml.pool._typi_clust import _typicality  # noqa: E402

LABELLED = [3, 8, 11, 20, 26, 31]
N = 12


@pytest.fixture(name="arrays")
def make_pool() -> Arrays:
    return make_arrays(120, d=5, seed=4)


def ours(name: str, arrays: Arrays, labelled: Any, n: int, **settings: Any) -> Picks:
    strategy = make_strategy(name, **settings)
    return strategy.select(view_for(strategy, arrays, labelled), n, np.random.default_rng(0))


def theirs(name: str, arrays: Arrays, labelled: Any, n: int, *, of: str = "", **settings: Any) -> tuple[Any, Any]:
    """Rows and the utilities of all rows at each pick; `of` is the argument by which it takes a model."""
    y = np.where(labels_of(arrays, labelled) < 0, np.nan, labels_of(arrays, labelled))
    model = {of: Known(arrays, labelled), f"fit_{of}": False} if of else {}
    strategy = getattr(peer, name)(random_state=0, **settings)
    rows, utilities = strategy.query(arrays.features, y, batch_size=n, return_utilities=True, **model)
    return np.asarray(rows), utilities


class Known(SkactivemlClassifier):  # type: ignore[misc]
    """A classifier whose predictions of the open rows are known."""

    def __init__(self, arrays: Any = None, labelled: Any = None) -> None:
        super().__init__(classes=list(range(N_CLASSES)))
        self.arrays, self.labelled = arrays, labelled
        self.classes_ = np.arange(N_CLASSES)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Known":
        return self

    def predict_proba(self, X: Any) -> Any:
        return np.delete(self.arrays.probs, self.labelled, axis=0)

    def sample_proba(self, X: Any) -> Any:
        return np.moveaxis(np.delete(self.arrays.stochastic, self.labelled, axis=0), 1, 0)


class TestTheSame:
    @pytest.mark.parametrize(
        ("name", "method"),
        [("entropy", "entropy"), ("margin", "margin_sampling"), ("least_confidence", "least_confident")],
    )
    def test_uncertainty(self, arrays: Arrays, name: str, method: str) -> None:
        found = ours(name, arrays, LABELLED, N)
        rows, utilities = theirs("UncertaintySampling", arrays, LABELLED, N, of="clf", method=method)
        assert found.rows.tolist() == rows.tolist()
        assert found.scores == pytest.approx(utilities[0][rows], abs=1e-9)

    def test_bald(self, arrays: Arrays) -> None:
        found = ours("bald", arrays, LABELLED, N, passes=8)
        settings: dict[str, Any] = {"sample_predictions_method_name": "sample_proba"}
        rows, utilities = theirs("GreedyBALD", arrays, LABELLED, N, of="ensemble", **settings)
        assert found.rows.tolist() == rows.tolist()
        assert found.scores == pytest.approx(utilities[0][rows], abs=1e-6)  # it raises probabilities to 1e-7

    def test_batchbald_where_neither_has_to_draw(self, arrays: Arrays) -> None:
        """Up to 3⁴ joint answers are all looked at, here and there."""
        found = ours("batchbald", arrays, LABELLED, 4, passes=8)
        settings: dict[str, Any] = {"sample_predictions_method_name": "sample_proba", "n_MC_samples": 1000}
        rows, _ = theirs("BatchBALD", arrays, LABELLED, 4, of="ensemble", **settings)
        assert found.rows.tolist() == rows.tolist()

    @pytest.mark.parametrize("name", ["coreset", "farthest_first"])
    def test_k_center(self, arrays: Arrays, name: str) -> None:
        same = Arrays(**{**vars(arrays), "hidden": arrays.features})
        found = ours(name, same, LABELLED, N)
        rows, utilities = theirs("CoreSet", same, LABELLED, N)
        assert found.rows.tolist() == rows.tolist()
        assert found.scores == pytest.approx(utilities[np.arange(N), rows], abs=1e-6)

    def test_max_herding(self, arrays: Arrays) -> None:
        """Its means are over open rows and ours over all, of which the labelled have nothing left to gain."""
        found = ours("max_herding", arrays, LABELLED, N)
        rows, utilities = theirs("MaxHerding", arrays, LABELLED, N, metric_dict={"gamma": 1.0})
        assert found.rows.tolist() == rows.tolist()
        share = (len(arrays) - len(LABELLED)) / len(arrays)
        assert found.scores == pytest.approx(share * utilities[np.arange(N), rows], rel=1e-5)

    @pytest.mark.filterwarnings("ignore:The maximum purity was:UserWarning")
    def test_probcover_with_the_radius_given(self, arrays: Arrays) -> None:
        """It breaks ties at random, so it is asked for one row at a time after each of ours."""
        found = ours("probcover", arrays, LABELLED, 6, delta=1.9, normalise=False)
        taken = list(LABELLED)
        for row, degree in zip(found.rows.tolist(), found.scores.tolist(), strict=True):
            _, utilities = theirs("ProbCover", arrays, taken, 1, deltas=[1.9])
            assert utilities[0][row] == np.nanmax(utilities[0]) == degree
            taken.append(row)


class TestTypiClust:
    """It takes plain distances to five neighbours, ours squared ones to twenty as the authors' code does."""

    def test_typicality_of_one_cluster(self, arrays: Arrays) -> None:
        """1e-5 is added to a mean here, 1e-7 to a sum there."""
        mine = 1 / typicality(torch.from_numpy(arrays.features), 5, squared=False).numpy() - 1e-5
        its = 1 / _typicality(arrays.features, np.arange(len(arrays)), 5)
        assert mine == pytest.approx(its, abs=1e-6)

    def test_rows_of_clusters_that_nobody_can_mistake(self) -> None:
        rng = np.random.default_rng(0)
        member = np.repeat(np.arange(5), [30, 26, 22, 18, 14])
        base = make_arrays(len(member))
        points = 100.0 * np.eye(5)[member] + rng.standard_normal((len(member), 5))
        arrays = Arrays(**{**vars(base), "features": points})
        labelled = [int(np.flatnonzero(member == 1)[0])]
        settings = {"neighbours": 5, "squared": False, "normalise": False}
        found = ours("typiclust", arrays, labelled, 4, **settings)
        rows, _ = theirs("TypiClust", arrays, labelled, 4, cluster_algo_dict={"n_init": 10})
        assert found.rows.tolist() == rows.tolist()
        assert member[found.rows].tolist() == [0, 2, 3, 4]


class TestBadge:
    def written_out(self, arrays: Arrays) -> np.ndarray:
        guess = np.eye(N_CLASSES)[arrays.probs.argmax(1)]
        gradients: np.ndarray = np.einsum("ic,ih->ich", arrays.probs - guess, arrays.hidden).reshape(len(arrays), -1)
        return gradients

    def test_picks_are_those_of_gradients_written_out(self, arrays: Arrays) -> None:
        """The authors' form: the longest first, then each with odds D², by one uniform number and cumulated sums."""
        gradients, rng = self.written_out(arrays), np.random.default_rng(0)
        rows = np.setdiff1d(np.arange(len(arrays)), LABELLED)
        chosen = [int(np.linalg.norm(gradients[rows], axis=1).argmax())]
        while len(chosen) < N:
            centres = gradients[rows][chosen]
            squared = ((gradients[rows][:, None] - centres) ** 2).sum(2).min(1)
            squared[chosen] = 0
            sums = squared.cumsum()
            chosen.append(int(np.searchsorted(sums, rng.random() * sums[-1], side="right")))
        assert ours("badge", arrays, LABELLED, N).rows.tolist() == rows[chosen].tolist()

    def test_scikit_activeml_takes_the_origin_for_a_centre(self, arrays: Arrays) -> None:
        """Its first row is ours. Then its odds are min(|G|², D²), which is what the authors' D² leaves of ours."""
        hidden = Arrays(**{**vars(arrays), "features": arrays.hidden})
        rows, utilities = theirs("Badge", hidden, LABELLED, 2, of="clf")
        assert rows[0] == ours("badge", arrays, LABELLED, 1).rows[0]
        gradients = Gradients(torch.from_numpy(arrays.hidden), torch.from_numpy(arrays.probs))
        far = torch.full((len(arrays),), torch.inf, dtype=torch.float64)
        squared = torch.minimum(gradients.distances(int(rows[0]), far), gradients.squares).numpy()
        is_open = ~np.isnan(utilities[1])
        odds = squared[is_open] / squared[is_open].sum()
        assert utilities[1][is_open] == pytest.approx(odds, abs=1e-12)
