"""K-means sampling: one row a blob, with and without Zhdanov's weights."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.strategies.test_clusters import blobs
from understudy.errors import UnderstudyError
from understudy.strategies.kmeans import KMeans
from understudy.strategies.protocol import Needs
from understudy.strategies.view import Picks, PoolView


def choose(n: int, seed: int = 0, labelled: Any = (), **supplies: Any) -> Picks:
    settings = supplies.pop("settings", {"on": "features"})
    size = len(next(iter(supplies.values())))
    labels = np.full(size, -1)
    labels[list(labelled)] = 0
    return KMeans(**settings).select(PoolView(labels, 2, **supplies), n, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(6))
def test_as_many_blobs_as_picks_give_one_row_each_the_nearest_to_the_mean(seed: int) -> None:
    points, owner = blobs(10, 15, seed=seed)
    picks = choose(10, seed, features=points)
    assert sorted(owner[picks.rows]) == list(range(10))
    for row, score in zip(picks.rows, picks.scores, strict=True):
        members = points[torch.from_numpy(owner == owner[row])]
        gaps = (members - members.mean(0)).norm(dim=1)
        assert -score == pytest.approx(float(gaps.min()))
        assert float((points[row] - members.mean(0)).norm()) == pytest.approx(float(gaps.min()))


def test_labelled_rows_take_no_part() -> None:
    points, owner = blobs(6, 10)
    picks = choose(5, labelled=np.flatnonzero(owner == 2), features=points)
    assert sorted(owner[picks.rows]) == [0, 1, 3, 4, 5]


def test_it_looks_at_the_hidden_layer_unless_told_otherwise() -> None:
    points, owner = blobs(4, 10)
    picks = choose(4, settings={}, hidden=points)
    assert sorted(owner[picks.rows]) == [0, 1, 2, 3]
    assert KMeans().needs == Needs(frozenset({"hidden"}))
    assert KMeans(weighted=True).needs == KMeans(prefilter=10).needs == Needs(frozenset({"hidden", "probs"}))


def test_the_prefilter_leaves_only_the_most_uncertain_rows() -> None:
    points, _ = blobs(10, 10)
    first = np.random.default_rng(0).random(100)
    probs = np.stack([first, 1 - first], 1)
    picks = choose(5, settings={"on": "features", "prefilter": 4}, features=points, probs=probs)
    assert set(picks.rows) <= set(np.argsort(abs(first - 0.5))[:20])
    alone = choose(5, settings={"on": "features", "prefilter": 1}, features=points, probs=probs)
    assert set(alone.rows) == set(np.argsort(abs(first - 0.5))[:5])


def test_weights_draw_the_centre_towards_uncertain_rows() -> None:
    line = np.linspace(0, 1, 101)[:, None]
    sure = np.array([0.999, 0.001])
    probs = np.where(line > 0.9, 0.5, sure)
    plain = choose(1, features=line)
    weighted = choose(1, settings={"on": "features", "weighted": True}, features=line, probs=probs)
    assert plain.rows.tolist() == [50]
    # The mean with weights 1 - |p - q|: 0.002 below 0.9, 1 above. By hand, about 0.947.
    weights = 1 - abs(probs[:, 0] - probs[:, 1])
    assert weighted.rows.tolist() == [round(100 * float((weights @ line)[0] / weights.sum()))]


def test_certainty_everywhere_weighs_all_alike() -> None:
    points, owner = blobs(3, 10)
    probs = np.tile([1.0, 0.0], (30, 1))
    picks = choose(3, settings={"on": "features", "weighted": True, "prefilter": 10}, features=points, probs=probs)
    assert sorted(owner[picks.rows]) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(4))
def test_medoids_are_the_members_with_the_least_total_distance(seed: int) -> None:
    points, owner = blobs(6, 15, seed=seed)
    picks = choose(6, seed, settings={"on": "features", "centres": "medoids"}, features=points)
    assert sorted(owner[picks.rows]) == list(range(6))
    for row, score in zip(picks.rows, picks.scores, strict=True):
        members = points[torch.from_numpy(owner == owner[row])]
        totals = torch.cdist(members, members).sum(1)
        assert -score == pytest.approx(float(totals.min()) / 15)
        assert float(torch.cdist(points[[row]], members).sum()) == pytest.approx(float(totals.min()))


def test_many_medoids_are_taken_portion_by_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.strategies.kmeans.MEDOIDS_PER_PORTION", 8)
    points, owner = blobs(4, 10)
    probs = np.full((40, 2), 0.5)
    for extra in ({}, {"prefilter": 3}):
        settings = {"on": "features", "centres": "medoids", **extra}
        picks = choose(35, settings=settings, features=points, probs=probs, labelled=[0, 5])
        assert len(set(picks.rows) - {0, 5}) == 35
        assert np.isfinite(picks.scores).all()
    assert sorted(owner[choose(35, settings={"on": "features", "centres": "medoids"}, features=points).rows[:4]]) == [
        0, 1, 2, 3,
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["prefilter"])
def test_parts_of_rows_are_errors(name: str) -> None:
    broken = KMeans()
    object.__setattr__(broken, name, 2.5)
    with pytest.raises(UnderstudyError, match=f"{name} must be a whole number of at least [0-9]; got 2.5"):
        broken.__post_init__()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"on": "pixels"}, "on must be one of hidden, features"),
        ({"prefilter": 0}, "prefilter must be a whole number of at least 1"),
        ({"uncertainty": "doubt"}, "uncertainty must be one of entropy"),
        ({"centres": "modes"}, "centres must be one of means, medoids"),
        ({"centres": "medoids", "weighted": True}, "weighted=True works with means only"),
    ],
)
def test_bad_settings_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        KMeans(**settings)


# -- pending rows are chosen already ------------------------------------------------------------------------------

WAYS: list[dict[str, Any]] = [
    {"on": "features"},
    {"on": "features", "centres": "medoids"},
    {"on": "features", "prefilter": 15, "weighted": True},
]


def probs_for(n: int) -> np.ndarray:
    first = np.random.default_rng(0).random(n)
    return np.stack([first, 1 - first], 1)


@pytest.mark.parametrize("settings", WAYS)
@pytest.mark.parametrize("seed", range(4))
def test_blobs_with_a_pending_row_give_no_other(settings: dict[str, Any], seed: int) -> None:
    points, owner = blobs(8, 15, seed=seed)
    pending = [int(np.flatnonzero(owner == blob)[seed]) for blob in (1, 4, 6)]
    view = PoolView(np.full(120, -1), 2, features=points, probs=probs_for(120), pending=pending)
    picks = KMeans(**settings).select(view, 5, np.random.default_rng(seed))
    assert sorted(owner[picks.rows]) == [0, 2, 3, 5, 7]


@pytest.mark.parametrize("settings", WAYS[:2])
def test_rows_asked_for_one_by_one_lie_apart(settings: dict[str, Any]) -> None:
    points, _ = blobs(6, 15)
    pending: list[int] = []
    for number in range(6):
        view = PoolView(np.full(90, -1), 2, features=points, pending=pending)
        pending += KMeans(**settings).select(view, 1, np.random.default_rng(number)).rows.tolist()
    apart = torch.cdist(points[pending], points[pending]) + 1e9 * torch.eye(6)
    together = choose(6, settings=settings, features=points).rows
    expected = torch.cdist(points[together], points[together]) + 1e9 * torch.eye(6)
    assert float(apart.min()) > 0.1 * float(expected.min())
    again = [choose(1, number, settings=settings, features=points).rows[0] for number in range(6)]
    assert len(set(again)) < 6  # what would come if nobody knew what is pending


@pytest.mark.parametrize("settings", WAYS)
def test_copies_of_pending_rows_come_when_nothing_else_is_left(settings: dict[str, Any]) -> None:
    points = torch.eye(4).repeat(3, 1)
    view = PoolView(np.full(12, -1), 2, features=points, probs=np.full((12, 2), 0.5), pending=[0, 1])
    picks = KMeans(**settings).select(view, 10, np.random.default_rng(0))
    assert sorted(picks.rows) == list(range(2, 12))
    few = KMeans(**settings).select(view, 2, np.random.default_rng(0))
    assert sorted(few.rows % 4) == [2, 3]


def test_portions_of_medoids_are_chosen_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    points, owner = blobs(8, 15)
    monkeypatch.setattr("understudy.strategies.kmeans.MEDOIDS_PER_PORTION", 4)
    pending = np.flatnonzero(owner == 3)[:1]
    view = PoolView(np.full(120, -1), 2, features=points, pending=pending)
    picks = KMeans(on="features", centres="medoids").select(view, 7, np.random.default_rng(0))
    assert len(set(picks.rows.tolist())) == 7
    assert 3 not in owner[picks.rows[:2]]
