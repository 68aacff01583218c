"""Pre-clustering: the mixture, the classifier and the score against their formulas."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

from tests.strategies.test_clusters import blobs
from understudy.errors import UnderstudyError
from understudy.strategies.clusters import alternate_medoids, k_medoids
from understudy.strategies.points import Points
from understudy.strategies.preclustering import (
    Mixture,
    PreClustering,
    fit_mixture,
    in_turns,
    prototype_classes,
)
from understudy.strategies.view import PoolView


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def literal_mixture(mixture: Mixture, x: np.ndarray, of_prototype: np.ndarray) -> tuple[float, np.ndarray]:
    """ln p(x) and p(y | x), term by term."""
    joint = [
        np.exp(float(log_share)) * np.exp(-((x - c.numpy()) ** 2).sum() / (2 * mixture.std**2))
        for log_share, c in zip(mixture.log_shares, mixture.prototypes, strict=True)
    ]
    density = sum(joint)
    return float(np.log(density)), sum(p / density * q for p, q in zip(joint, of_prototype, strict=True))


def test_medoids_of_blobs_are_the_points_with_the_least_total_distance() -> None:
    points, owner = blobs(5, 15)
    found = k_medoids(Points(points), 5, rng(), samples=2, sample_size=1000)
    expected = []
    for c in range(5):
        members = np.flatnonzero(owner == c)
        totals = torch.cdist(points[members], points[members]).sum(1)
        expected.append(int(members[int(totals.argmin())]))
    assert sorted(found.tolist()) == sorted(expected)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_of_several_samples_is_near_the_best_of_all_medoids(seed: int) -> None:
    points = torch.from_numpy(rng(seed).standard_normal((25, 2)))
    distances = torch.cdist(points, points)
    best = min(float(distances[:, list(two)].min(1).values.sum()) for two in combinations(range(25), 2))
    found = k_medoids(Points(points), 2, rng(seed), samples=8, sample_size=100)
    assert float(distances[:, found].min(1).values.sum()) <= 1.05 * best


def test_medoids_do_not_move_where_nothing_is_gained() -> None:
    assert alternate_medoids(torch.zeros(6, 2, dtype=torch.float64), torch.tensor([3, 5])).tolist() == [3, 5]
    line = torch.tensor([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]], dtype=torch.float64)
    assert alternate_medoids(line, torch.tensor([0, 3])).tolist() == [1, 4]


def test_a_sample_is_enough_for_a_large_pool() -> None:
    points, owner = blobs(4, 200)
    found = k_medoids(Points(points), 4, rng(), samples=1, sample_size=60)
    assert sorted(owner[found.numpy()]) == [0, 1, 2, 3]


def test_the_mixture_has_the_shares_and_the_spread_of_the_clusters() -> None:
    points, owner = blobs(3, 20)
    keep = torch.from_numpy(np.flatnonzero((owner != 0) | (np.arange(60) % 2 == 0)))
    points, owner = points[keep], owner[keep.numpy()]
    mixture, assignment = fit_mixture(Points(points), 3, 2.0, rng(), samples=1, sample_size=100)
    assert sorted(mixture.log_shares.exp().tolist()) == pytest.approx(sorted(np.bincount(owner) / len(owner)))
    gaps = points - mixture.prototypes[assignment]
    assert mixture.std == pytest.approx(2 * float(gaps.square().sum(1).mean()) ** 0.5)


def test_copies_of_a_prototype_are_one() -> None:
    points = torch.tensor([[0.0, 1.0]] * 5 + [[2.0, 2.0]] * 3)
    mixture, assignment = fit_mixture(Points(points), 6, 1.0, rng(), samples=1, sample_size=100)
    assert mixture.prototypes.shape == (2, 2)
    assert sorted(mixture.log_shares.exp().tolist()) == pytest.approx([3 / 8, 5 / 8])
    assert len(set(assignment.tolist())) == 2
    assert mixture.std == 1.0


def test_density_and_classes_are_the_sums_they_are_said_to_be() -> None:
    points = rng(0).standard_normal((30, 3))
    mixture, _ = fit_mixture(Points(torch.from_numpy(points)), 5, 1.0, rng(), samples=1, sample_size=100)
    of_prototype = rng(1).dirichlet(np.ones(4), len(mixture.prototypes))
    log_density, classes = mixture.read(Points(torch.from_numpy(points)), torch.from_numpy(of_prototype))
    for i, x in enumerate(points):
        expected, shares = literal_mixture(mixture, x, of_prototype)
        assert float(log_density[i]) == pytest.approx(expected)
        assert classes[i].tolist() == pytest.approx(shares.tolist())


def test_the_classifier_is_at_the_top_of_its_likelihood() -> None:
    points = rng(2).standard_normal((40, 2))
    labels = (points[:, 0] > 0).astype(np.int64) + (points[:, 1] > 0.5)
    mixture, _ = fit_mixture(Points(torch.from_numpy(points)), 8, 0.5, rng(), samples=1, sample_size=100)
    of_prototype = prototype_classes(mixture, Points(torch.from_numpy(points)), torch.from_numpy(labels), 3, 0.1)
    assert of_prototype.sum(1).tolist() == pytest.approx([1.0] * len(of_prototype))

    inputs = (mixture.prototypes - mixture.prototypes.mean(0)).numpy()
    inputs = inputs / np.sqrt((inputs**2).sum(1).mean())

    def objective(logits: np.ndarray) -> float:
        """Of logits that are linear in the prototypes: the weights by least squares."""
        design = np.concatenate([inputs, np.ones((len(inputs), 1))], 1)
        weights = np.linalg.lstsq(design, logits, rcond=None)[0]
        powers = np.exp(design @ weights)
        shares = powers / powers.sum(1, keepdims=True)
        likelihood = sum(np.log(literal_mixture(mixture, x, shares)[1][y]) for x, y in zip(points, labels, strict=True))
        # Only differences of classes matter to the likelihood; at the top the weights sum to 0 over classes.
        slopes = weights[:-1] - weights[:-1].mean(1, keepdims=True)
        return float(likelihood - 0.05 * (slopes**2).sum())

    top = np.log(of_prototype.numpy())
    best = objective(top)
    design = np.concatenate([inputs, np.ones((len(inputs), 1))], 1)
    for seed in range(20):
        change = design @ rng(seed).standard_normal((3, 3))
        assert objective(top + 0.1 * change) < best
        assert objective(top + 1e-3 * change) < best + 1e-6


def test_one_pick_is_the_row_with_the_most_expected_error_weighed_by_density() -> None:
    points, owner = blobs(6, 12, apart=3.0, seed=4)
    labels = np.full(72, -1)
    labels[:20] = owner[:20] % 3
    view = PoolView(labels, 3, features=points)
    strategy = PreClustering(coarse=6, fine=6)
    picks = strategy.select(view, 1, rng(7))

    mixture, _ = fit_mixture(Points(points), 6, 1.0, rng(7), samples=3, sample_size=2000)
    of_prototype = prototype_classes(
        mixture, Points(points, torch.arange(20)), torch.from_numpy(labels[:20]), 3, strategy.penalty
    ).numpy()
    scores = []
    for x in points[20:].numpy():
        log_density, shares = literal_mixture(mixture, x, of_prototype)
        guess = np.eye(3)[shares.argmax()]
        error = sum(p * ((guess - np.eye(3)[y]) ** 2).sum() for y, p in enumerate(shares))
        scores.append(np.exp(log_density) * error)
    assert picks.rows.tolist() == [20 + int(np.argmax(scores))]


@pytest.mark.parametrize("seed", range(3))
def test_before_there_are_labels_blobs_give_one_row_each_the_densest(seed: int) -> None:
    points, owner = blobs(20, 12, seed=seed)
    picks = PreClustering().select(PoolView(np.full(240, -1), 3, features=points), 20, rng(seed))
    assert sorted(owner[picks.rows]) == list(range(20))


def test_a_class_that_is_known_is_left_for_one_that_is_in_doubt() -> None:
    points = torch.cat([torch.randn(30, 2, generator=torch.Generator().manual_seed(0)) + 10 * c for c in range(3)])
    labels = np.full(90, -1)
    labels[:10], labels[60:70] = 0, 1  # the middle blob is between the two
    picks = PreClustering(coarse=3, fine=3).select(PoolView(labels, 2, features=points), 1, rng())
    assert 30 <= picks.rows[0] < 60


def test_it_refines_as_labels_come(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    plain = fit_mixture

    def counted(points: Points, k: int, *arguments: Any, **more: Any) -> Any:
        asked.append(k)
        return plain(points, k, *arguments, **more)

    monkeypatch.setattr("understudy.strategies.preclustering.fit_mixture", counted)
    points, owner = blobs(4, 25)
    for labelled in (0, 10, 30, 60):
        labels = np.where(np.arange(100) < labelled, owner, -1)
        PreClustering(coarse=8, fine=40).select(PoolView(labels, 4, features=points), 5, rng())
    assert asked == [8, 15, 35, 40]


def test_no_cluster_gives_two_before_all_have_given_one() -> None:
    clusters, scores = np.array([0, 0, 0, 1, 1, 2]), np.array([0.9, 0.8, 0.7, 0.3, 0.3, 0.6])
    assert in_turns(clusters, scores, 6).tolist() == [0, 5, 3, 1, 4, 2]


@pytest.mark.parametrize("name", ["coarse", "fine", "samples", "sample_size"])
def test_parts_of_clusters_are_errors(name: str) -> None:
    broken = PreClustering()
    object.__setattr__(broken, name, 2.5)
    with pytest.raises(UnderstudyError, match=f"{name} must be a whole number of at least [0-9]; got 2.5"):
        broken.__post_init__()


def test_it_learns_where_the_caller_wants_no_gradients() -> None:
    points, owner = blobs(3, 20)
    view = PoolView(np.where(np.arange(60) < 20, owner, -1), 3, features=points)
    plain = PreClustering().select(view, 4, rng())
    with torch.no_grad():
        assert PreClustering().select(view, 4, rng()).rows.tolist() == plain.rows.tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"coarse": 0}, "coarse must be a whole number of at least 1; got 0"),
        ({"fine": 5}, "fine must be at least coarse, 20 clusters; got 5"),
        ({"width": 0.0}, "width must be a number above 0"),
        ({"width": float("inf")}, "width must be a number above 0"),
        ({"penalty": 0.0}, "penalty must be a number above 0"),
        ({"samples": 0}, "samples must be a whole number of at least 1"),
    ],
)
def test_bad_settings_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        PreClustering(**settings)
