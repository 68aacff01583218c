"""DropQuery: its candidates, its head, and one row a cluster."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.strategies.test_clusters import blobs
from understudy.errors import UnderstudyError
from understudy.strategies.drop_query import DropQuery, LinearHead, choose_candidates, root_mean_square
from understudy.strategies.points import Points
from understudy.strategies.randomness import torch_generator
from understudy.strategies.view import PoolView


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_candidates_differ_in_more_than_one_pass_if_there_are_enough_of_them() -> None:
    flips = torch.tensor([0, 1, 2, 3, 0, 2, 1, 3])
    rng = np.random.default_rng(0)
    assert choose_candidates(flips, 1, 1, 4, rng).tolist() == [2, 3, 5, 7]
    assert choose_candidates(flips, 1, 1, 5, rng).tolist() == [
        1,
        2,
        3,
        5,
        6,
        7,
    ]  # too few for 5 a pick: any flip will do
    assert choose_candidates(flips, 6, 1, 150, rng).tolist() == [1, 2, 3, 5, 6, 7]
    filled = choose_candidates(flips, 7, 1, 175, rng).tolist()
    assert set(filled) > {1, 2, 3, 5, 6, 7}
    assert len(filled) == 7
    assert choose_candidates(flips, 8, 1, 200, rng).tolist() == list(range(8))


def test_what_fills_up_is_drawn_evenly() -> None:
    flips = torch.tensor([0, 3, 0, 0, 0])
    counts = np.zeros(5)
    for seed in range(400):
        counts[choose_candidates(flips, 2, 1, 50, np.random.default_rng(seed)).tolist()] += 1
    assert counts[1] == 400
    assert ((counts[[0, 2, 3, 4]] - 100) ** 2 / 100).sum() < 16.3  # chi-square, 3 degrees, 99.9 %


@pytest.mark.parametrize("seed", range(3))
def test_before_there_are_labels_it_takes_one_row_near_each_centre(seed: int) -> None:
    points, owner = blobs(7, 20, d=12, seed=seed)
    view = PoolView(np.full(140, -1), 2, features=points)
    picks = DropQuery().select(view, 7, np.random.default_rng(seed))
    assert sorted(owner[picks.rows]) == list(range(7))


def test_without_dropout_nothing_flips() -> None:
    points = torch.from_numpy(np.random.default_rng(0).standard_normal((50, 4)))
    head = LinearHead(torch.eye(3, 4, dtype=torch.float64), torch.zeros(3, dtype=torch.float64))
    assert DropQuery(dropout=0.0).flips(head, Points(points), 1.0, generator()).tolist() == [0] * 50


def test_flips_come_as_often_as_the_dropout_makes_them() -> None:
    # Class 1 wins where the first column outweighs the bias, so a row of ones flips if and only if it is dropped.
    head = LinearHead(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([0.5, 0.0]))
    strategy = DropQuery(passes=4, dropout=0.3)
    flips = strategy.flips(head, Points(torch.ones(4000, 2)), 1.0, generator())
    assert float(flips.double().mean()) == pytest.approx(4 * 0.3, abs=0.05)
    assert torch.bincount(flips, minlength=5).tolist() == pytest.approx(
        [4000 * w * 0.3**i * 0.7 ** (4 - i) for i, w in enumerate([1, 4, 6, 4, 1])], abs=110
    )


def test_what_is_kept_is_as_large_on_average_as_without_dropout() -> None:
    kept = DropQuery(dropout=0.75).drop_features(torch.full((2000, 10), 3.0), generator())
    assert set(kept.reshape(-1).tolist()) == {0.0, 12.0}
    assert float(kept.mean()) == pytest.approx(3.0, rel=0.03)


def test_the_head_learns_classes_that_a_line_divides() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((300, 16))
    labels = (inputs @ rng.standard_normal((16, 3))).argmax(1)
    head = DropQuery(dropout=0.2, epochs=100).train_head(
        torch.from_numpy(inputs), torch.from_numpy(labels), 3, generator()
    )
    assert float((head.classes(torch.from_numpy(inputs)).numpy() == labels).mean()) > 0.9


def test_it_stops_when_the_loss_no_longer_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    plain = torch.optim.AdamW.step

    def counted(self: torch.optim.AdamW) -> None:
        steps.append(1)
        plain(self)

    monkeypatch.setattr(torch.optim.AdamW, "step", counted)
    one = torch.zeros(5, 3)
    DropQuery(learning_rate=1e-9).train_head(one, torch.arange(5) % 2, 2, generator())
    assert len(steps) == 21  # the first, and 20 that were no better


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_rows_between_the_classes_are_chosen_whatever_the_unit(unit: float) -> None:
    rng = np.random.default_rng(0)
    strength = rng.uniform(-1, 1, 400)
    features = unit * (strength[:, None] + 0.5 * rng.standard_normal((400, 32)))
    labels = np.full(400, -1)
    labels[:60] = strength[:60] > 0
    view = PoolView(labels, 2, features=features)
    picks = DropQuery(enough=1).select(view, 10, np.random.default_rng(0))
    assert np.abs(strength[picks.rows]).mean() < 0.6 * np.abs(strength[60:]).mean()
    assert set(np.round(3 * picks.scores)) <= {2.0, 3.0}


def test_the_typical_size_of_an_entry() -> None:
    assert root_mean_square(torch.tensor([[3.0, 4.0], [0.0, 5.0]])) == pytest.approx(12.5**0.5)
    assert root_mean_square(torch.zeros(3, 2)) == 1.0


@pytest.mark.parametrize("name", ["passes", "threshold", "enough", "epochs"])
def test_parts_of_passes_are_errors(name: str) -> None:
    broken = DropQuery()
    object.__setattr__(broken, name, 2.5)
    with pytest.raises(UnderstudyError, match=f"{name} must be a whole number of at least [0-9]; got 2.5"):
        broken.__post_init__()


@pytest.mark.parametrize("block_bytes", [1000, 2**21])
def test_what_is_dropped_depends_on_neither_precision_nor_blocks(block_bytes: int) -> None:
    points = torch.from_numpy(np.random.default_rng(0).standard_normal((5000, 8)))
    weight = torch.from_numpy(np.random.default_rng(1).standard_normal((3, 8)))
    found = []
    for dtype in (torch.float32, torch.float64):
        head = LinearHead(weight.to(dtype), torch.zeros(3, dtype=dtype))
        found.append(DropQuery().flips(head, Points(points.to(dtype), bytes_per_block=block_bytes), 1.0, generator()))
    assert float((found[0] != found[1]).double().mean()) < 1e-3


def test_it_learns_where_the_caller_wants_no_gradients() -> None:
    points, owner = blobs(3, 20)
    view = PoolView(np.where(np.arange(60) < 20, owner, -1), 3, features=points)
    plain = DropQuery(epochs=5).select(view, 4, np.random.default_rng(0))
    with torch.no_grad():
        found = DropQuery(epochs=5).select(view, 4, np.random.default_rng(0))
    assert found.rows.tolist() == plain.rows.tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"passes": 0}, "passes must be a whole number of at least 1; got 0"),
        ({"threshold": 3}, "threshold must be below the number of passes, 3"),
        ({"dropout": 1.0}, "dropout must be a number of at least 0 and below 1"),
        ({"learning_rate": 0.0}, "learning_rate must be a number above 0"),
        ({"learning_rate": float("inf")}, "learning_rate must be a number above 0"),
        ({"weight_decay": -1.0}, "weight_decay must be a number of at least 0"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"enough": 0}, "enough must be a whole number of at least 1"),
    ],
)
def test_bad_settings_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        DropQuery(**settings)


@pytest.mark.parametrize("seed", range(3))
def test_blobs_with_a_pending_row_give_no_other(seed: int) -> None:
    points, owner = blobs(7, 20, d=12, seed=seed)
    pending = [int(np.flatnonzero(owner == blob)[seed]) for blob in (2, 5)]
    view = PoolView(np.full(140, -1), 2, features=points, pending=pending)
    picks = DropQuery().select(view, 5, np.random.default_rng(seed))
    assert sorted(owner[picks.rows]) == [0, 1, 3, 4, 6]


def test_with_labels_too_blobs_with_a_pending_row_are_left_alone() -> None:
    """K-means may divide a blob now and then, so it is counted over several draws."""
    points, owner = blobs(7, 20, d=12)
    labels = np.where(np.arange(140) % 20 == 19, owner % 2, -1)
    strategy = DropQuery(passes=40, threshold=0, dropout=0.9, epochs=3)  # nearly every row is a candidate

    def in_blobs_2_and_5(pending: Any) -> int:
        view = PoolView(labels, 2, features=points, pending=pending)
        found = [strategy.select(view, 5, np.random.default_rng(trial)).rows for trial in range(8)]
        assert all((labels[rows] == -1).all() for rows in found)
        return int(np.isin(owner[np.concatenate(found)], [2, 5]).sum())

    assert in_blobs_2_and_5([int(np.flatnonzero(owner == blob)[0]) for blob in (2, 5)]) <= 2
    assert in_blobs_2_and_5([]) >= 6  # of 40: a share of two blobs in seven would be 11


def test_scores_belong_to_their_rows_whatever_is_pending() -> None:
    points, owner = blobs(4, 25, d=12)
    labels = np.where(np.arange(100) % 10 == 0, owner % 2, -1)
    rng = np.random.default_rng(0)
    view = PoolView(labels, 2, features=points, pending=[3, 57], skipped=[8])
    strategy = DropQuery(dropout=0.9, epochs=3, passes=10)
    picks = strategy.select(view, 6, np.random.default_rng(0))
    source = torch_generator(rng)
    unit = root_mean_square(view.features)
    head = strategy.train_head(view.features[view.labelled] / unit, view.labels[view.labelled], 2, source)
    rows = view.candidates(1)
    flips = dict(
        zip(rows.tolist(), strategy.flips(head, Points(view.features, rows), unit, source).tolist(), strict=True)
    )
    assert picks.scores.tolist() == [flips[row] / 10 for row in picks.rows.tolist()]
