"""ActiveFT: its loss written out and differentiated by torch, and what labelled rows change."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from tests.strategies.test_clusters import blobs
from understudy.errors import UnderstudyError
from understudy.strategies import active_ft
from understudy.strategies.active_ft import ActiveFT
from understudy.strategies.view import Picks, PoolView

NONE = torch.empty((0, 5), dtype=torch.float64)


def unit_rows(n: int, seed: int = 0, d: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return normalize(torch.randn((n, d), generator=generator, dtype=torch.float64), dim=1)


def literal_loss(points: Tensor, free: Tensor, fixed: Tensor, temperature: float, balance: float) -> Tensor:
    """Point by point, as the publication has it; the centroids that a centroid is compared with are held."""
    centroids = torch.cat([normalize(free, dim=1), fixed])
    held = centroids.detach()
    total = torch.zeros((), dtype=points.dtype)
    for point in points:
        c = int((centroids @ point).argmax())
        similarity = torch.exp(point @ centroids[c] / temperature)
        crowd = sum((torch.exp(other @ centroids[c] / temperature) for other in held), torch.zeros(()))
        total = total - torch.log(similarity / (similarity + balance * crowd))
    return total / len(points)


def choose(points: Any, n: int, labelled: Any = (), seed: int = 0, skipped: Any = (), **settings: Any) -> Picks:
    labels = np.full(len(points), -1)
    labels[list(labelled)] = 0
    view = PoolView(labels, 2, features=points, skipped=skipped)
    return ActiveFT(**settings).select(view, n, np.random.default_rng(seed))


@pytest.mark.parametrize("block", [2**21, 40])
@pytest.mark.parametrize("n_fixed", [0, 1, 4])
@pytest.mark.parametrize(("temperature", "balance"), [(0.07, 1.0), (0.5, 0.3), (0.07, 0.0)])
def test_the_gradient_is_that_of_the_loss(
    temperature: float, balance: float, n_fixed: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_ft, "NUMBERS_PER_BLOCK", {"cpu": block})
    points, fixed = unit_rows(60), unit_rows(n_fixed, 1)
    free = (3 * unit_rows(7, 2)).requires_grad_()
    literal_loss(points, free, fixed, temperature, balance).backward()  # type: ignore[no-untyped-call]
    nearest = (points @ fixed.T).amax(1) if n_fixed else torch.full((60,), -torch.inf, dtype=torch.float64)
    ours = ActiveFT(temperature=temperature, balance=balance).gradient(points, free.detach(), fixed, nearest)
    assert free.grad is not None
    torch.testing.assert_close(ours, free.grad)


@pytest.mark.parametrize("seed", range(3))
def test_with_nothing_labelled_the_picks_are_those_of_the_publication(seed: int) -> None:
    """Adam on the loss written out; then each centroid in turn takes the row nearest to it that is not taken."""
    points = unit_rows(50, seed)
    start = np.random.default_rng(seed).permutation(50)[:6]
    free = points[torch.from_numpy(start)].clone().requires_grad_()
    adam = torch.optim.Adam([free], lr=1e-2)
    for _ in range(30):
        adam.zero_grad()
        literal_loss(points, free, NONE, 0.07, 1.0).backward()  # type: ignore[no-untyped-call]
        adam.step()
    rows: list[int] = []
    for centroid in normalize(free.detach(), dim=1):
        order = torch.argsort(points @ centroid, descending=True).tolist()
        rows.append(next(row for row in order if row not in rows))
    picks = choose(points, 6, seed=seed, iterations=30, learning_rate=1e-2)
    assert picks.rows.tolist() == rows


def test_training_lowers_the_loss_and_spreads_the_centroids() -> None:
    points = unit_rows(200, 3)
    start = points[:8].clone()
    start[1] = start[0] + 1e-3  # two that begin in the same place
    trained = ActiveFT(learning_rate=1e-2).train(points, start, NONE)
    losses = [float(literal_loss(points, free, NONE, 0.07, 1.0)) for free in (start, trained)]
    assert losses[1] < losses[0]
    assert float(trained[0] @ trained[1]) < 0.9 < float(normalize(start[0], dim=0) @ normalize(start[1], dim=0))
    assert trained.norm(dim=1).tolist() == pytest.approx([1.0] * 8)


def test_centroids_stay_away_from_labelled_rows_which_do_not_move() -> None:
    """Two blobs on the circle, one of them labelled in its middle: all centroids end in the other or at the edge."""
    rng = np.random.default_rng(0)
    angle = np.repeat([0.0, 2.0], 60) + rng.uniform(-0.2, 0.2, 120)
    points = torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], 1))
    start = points[[1, 61]].clone()
    settings = ActiveFT(learning_rate=1e-2)
    alone = settings.train(points, start, torch.empty((0, 2), dtype=torch.float64))
    middle = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    beside = settings.train(points, start, middle)
    assert float(beside[0] @ middle[0]) < float(alone[0] @ middle[0])
    assert float(beside[1] @ alone[1]) > 0.99


def test_where_all_rows_are_nearest_to_labelled_ones_nothing_moves() -> None:
    points = unit_rows(30)
    start = -points[:1] * 0.5
    trained = ActiveFT().train(points, start, points)
    assert trained.tolist() == normalize(start, dim=1).tolist()


def test_well_apart_blobs_give_a_row_each_if_the_centroids_begin_so() -> None:
    points, owner = blobs(4, 30, d=6)
    picks = choose(points - points.mean(0), 4, seed=int(_seed_with_one_a_blob(owner)))
    assert sorted(owner[picks.rows]) == [0, 1, 2, 3]


def _seed_with_one_a_blob(owner: np.ndarray) -> int:
    return next(s for s in range(999) if len(set(owner[np.random.default_rng(s).permutation(len(owner))[:4]])) == 4)


def test_all_that_is_left_can_be_taken_skipped_rows_never_and_scores_are_told() -> None:
    picks = choose(unit_rows(30), 25, labelled=[0, 3, 5], skipped=[7, 8], iterations=5)
    assert sorted(picks.rows.tolist()) == sorted(set(range(30)) - {0, 3, 5, 7, 8})
    assert picks.utilities is not None
    told = picks.utilities()
    places = [told.rows.tolist().index(row) for row in picks.rows.tolist()]
    assert told.values[np.arange(25), places].tolist() == pytest.approx(picks.scores.tolist())
    assert (told.values.max(1) == told.values[np.arange(25), places]).all()


def test_a_low_temperature_does_not_overflow_in_single_precision() -> None:
    trained = ActiveFT(temperature=0.005).train(unit_rows(40).float(), unit_rows(5, 1).float(), NONE.float())
    assert bool(torch.isfinite(trained).all())


def test_rows_of_zeros_do_no_harm() -> None:
    points = unit_rows(20)
    points[:10] = 0
    assert len(set(choose(points, 12).rows.tolist())) == 12


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_chooses_as_a_cpu_does_in_double_precision() -> None:
    points = unit_rows(300)
    labels = np.full(300, -1)
    labels[:5] = 0
    here, there = (
        ActiveFT().select(PoolView(labels, 2, features=points, device=device), 20, np.random.default_rng(0))
        for device in ("cpu", "cuda")
    )
    assert here.rows.tolist() == there.rows.tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "temperature must be a number above 0"),
        ({"learning_rate": -1}, "learning_rate must be a number above 0"),
        ({"balance": -1}, "balance must be a number of at least 0"),
        ({"iterations": -1}, "iterations must be a whole number of at least 0"),
    ],
)
def test_bad_settings_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        ActiveFT(**settings)
