"""Herding: lazy equals plain, the kernels' limits, widths and temperatures."""

from typing import Any

import numpy as np
import pytest
import torch

from understudy.errors import UnderstudyError
from understudy.strategies import herding
from understudy.strategies.herding import (
    MaxHerding,
    Similarity,
    UHerding,
    apply_temperature,
    best_temperature,
    calibration_error,
    calibration_rows,
    draw_targets,
    herd,
)
from understudy.strategies.probcover import ProbCover
from understudy.strategies.uncertainty import Uncertainty
from understudy.strategies.view import PoolView


def plain(K: np.ndarray, taken: list[int], rows: list[int], w: np.ndarray, n: int) -> tuple[list[int], list[float]]:
    """Every gain of every row before every pick, from the whole kernel matrix."""
    c = K[taken].max(0) if taken else np.zeros(len(K))
    chosen: list[int] = []
    scores: list[float] = []
    for _ in range(n):
        left = [row for row in rows if row not in chosen]
        gains = [float(np.mean(w * np.maximum(0, K[row] - c))) for row in left]
        best = int(np.argmax(gains))
        chosen.append(left[best])
        scores.append(gains[best])
        c = np.maximum(c, K[left[best]])
    return chosen, scores


def kernel_matrix(points: np.ndarray, name: str, h: float) -> np.ndarray:
    D = np.sqrt(((points[:, None] - points) ** 2).sum(2))
    return np.exp(-((D / h) ** 2)) if name == "gaussian" else np.where(h > D, 1.0, 0.0)


def made(n: int = 80, seed: int = 0, labelled: tuple[int, ...] = (2, 7, 30), c: int = 4) -> PoolView:
    rng = np.random.default_rng(seed)
    labels = np.full(n, -1)
    labels[list(labelled)] = rng.integers(0, c, len(labelled))
    features = rng.standard_normal((n, 3))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return PoolView(labels, c, features=features, probs=rng.dirichlet(np.ones(c), n), pending=[1], skipped=[5])


@pytest.mark.parametrize("name", ["gaussian", "tophat"])
@pytest.mark.parametrize("h", [0.1, 0.5, 1.5])
@pytest.mark.parametrize("is_kept", [True, False])
def test_lazy_picks_are_the_plain_ones(name: str, h: float, is_kept: bool) -> None:
    rng = np.random.default_rng(1)
    points, w = rng.standard_normal((90, 3)), rng.integers(0, 5, 90).astype(float)
    rows, taken = torch.arange(10, 90), torch.tensor([0, 3, 4])
    kernel = Similarity(torch.from_numpy(points), torch.arange(90), name, h, 1000)  # type: ignore[arg-type]
    room = 2**29 if is_kept else 0
    chosen, scores = herd(kernel, rows, taken, torch.from_numpy(w), 40, max_kept_bytes=room, first_leaders=2)
    expected, gains = plain(kernel_matrix(points, name, h), taken.tolist(), rows.tolist(), w, 40)
    assert scores.tolist() == pytest.approx(gains, abs=1e-12)
    is_gain = sum(gain > 1e-12 for gain in gains)  # rounding may leave dust where nothing is to be gained
    assert chosen.tolist()[:is_gain] == expected[:is_gain]


def test_max_herding_is_the_plain_greedy_over_the_pool() -> None:
    view = made()
    picks = MaxHerding(bandwidth=0.7).select(view, 20, np.random.default_rng(0))
    K = kernel_matrix(view.features.numpy(), "gaussian", 0.7)
    rows, gains = plain(K, view.taken.tolist(), view.candidates(1).tolist(), np.ones(80), 20)
    assert picks.rows.tolist() == rows
    assert picks.scores.tolist() == pytest.approx(gains)


def test_without_predictions_uherding_is_max_herding() -> None:
    view = PoolView(np.full(80, -1), 3, features=np.random.default_rng(1).normal(size=(80, 4)))
    doubtful, plain_one = (
        one.select(view, 20, np.random.default_rng(0))
        for one in (UHerding(), MaxHerding(bandwidth=herding.WITHOUT_GAP))
    )
    np.testing.assert_array_equal(doubtful.rows, plain_one.rows)
    np.testing.assert_array_equal(doubtful.scores, plain_one.scores)


def test_uherding_is_the_plain_greedy_with_doubts_for_weights() -> None:
    view = made()
    picks = UHerding(temperature=2.0).select(view, 20, np.random.default_rng(0))
    X, p = view.features.numpy(), np.sqrt(view.probs.numpy())
    p = np.sort(p / p.sum(1, keepdims=True), 1)
    w = 1 - (p[:, -1] - p[:, -2])
    w[view.taken] = 0
    h = min(np.linalg.norm(X[i] - X[j]) for i in view.taken for j in view.taken if i < j)
    rows, gains = plain(kernel_matrix(X, "gaussian", float(h)), view.taken.tolist(), view.candidates(1).tolist(), w, 20)
    assert picks.rows.tolist() == rows
    assert picks.scores.tolist() == pytest.approx(gains)


def test_gains_add_up_to_the_similarity_of_the_pool_to_what_is_chosen() -> None:
    view = made(labelled=())
    picks = MaxHerding(bandwidth=0.7).select(view, 15, np.random.default_rng(0))
    K = kernel_matrix(view.features.numpy(), "gaussian", 0.7)
    before, after = K[[1]].max(0).mean(), K[[1, *picks.rows]].max(0).mean()
    assert picks.scores.sum() == pytest.approx(after - before)
    assert (np.diff(picks.scores) <= 1e-15).all()


@pytest.mark.parametrize("seed", range(4))
def test_the_tophat_kernel_gives_probcover(seed: int) -> None:
    view = made(seed=seed)
    covering = ProbCover(delta=0.3).select(view, 40, np.random.default_rng(0))
    herded = MaxHerding(kernel="tophat", bandwidth=0.3).select(view, 40, np.random.default_rng(0))
    n = int((covering.scores >= 1).sum())
    assert n > 10
    assert herded.rows[:n].tolist() == covering.rows[:n].tolist()
    assert herded.scores[:n] * len(view) == pytest.approx(covering.scores[:n])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_kernel_without_width_gives_uncertainty(dtype: torch.dtype) -> None:
    full = made()
    view = PoolView(full.labels, 4, features=full.features.to(dtype), probs=full.probs.to(dtype))
    narrow = UHerding(bandwidth=1e-9, temperature=1.0).select(view, 77, np.random.default_rng(0))
    doubts = Uncertainty("margin").select(view, 77, np.random.default_rng(0))
    assert narrow.rows.tolist() == doubts.rows.tolist()
    assert narrow.scores * len(view) == pytest.approx(doubts.scores, rel=1e-5)


def test_equal_doubts_give_max_herding() -> None:
    full = made()
    view = PoolView(full.labels, 4, features=full.features, probs=torch.full((80, 4), 0.25))
    one, other = (
        strategy.select(view, 20, np.random.default_rng(0))
        for strategy in (MaxHerding(bandwidth=0.5), UHerding(bandwidth=0.5))
    )
    assert one.rows.tolist() == other.rows.tolist()


def test_the_width_follows_the_labels_and_is_one_where_no_two_differ() -> None:
    near, far = np.eye(3)[[0, 1, 2, 0, 1]], np.eye(3)[[0, 0, 2, 0, 1]]
    near[1] = [1.0, 0.01, 0.0]
    probs = np.full((5, 2), 0.5)
    for features, h in ((near, np.linalg.norm(near[1] / np.linalg.norm(near[1]) - near[0])), (far, 1.0)):
        view = PoolView(np.array([0, 1, -1, -1, -1]), 2, features=features, probs=probs)
        adaptive, given = (
            UHerding(bandwidth=bandwidth).select(view, 3, np.random.default_rng(0)) for bandwidth in (None, float(h))
        )
        assert adaptive.scores.tolist() == pytest.approx(given.scores.tolist())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labelled_rows_that_nearly_coincide_leave_a_narrow_kernel(dtype: type) -> None:
    """Two labelled rows 3e-5 apart: rounding in float32 would make strangers of copies, and gaps of nothing."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((60, 40))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    features[1] = features[0] + 3e-5 * features[2]
    features[30:] = features[:30]  # all come twice
    labels = np.full(60, -1)
    labels[:2] = 0
    features = features.astype(dtype)
    probs = rng.dirichlet(np.ones(3), 60)
    view = PoolView(labels, 3, features=features, probs=probs)
    picks = UHerding(temperature=1.0).select(view, 29, np.random.default_rng(0))
    # Each row serves its copy and nobody else, so that doubt alone decides, and no copy is taken. The two labelled rows
    # have copies too, which are served.
    ordered = np.sort(probs, 1)
    doubt = 1 - (ordered[:, -1] - ordered[:, -2])
    pairs = doubt[2:30] + doubt[32:]
    assert picks.scores[:28] * 60 == pytest.approx(np.sort(pairs)[::-1], rel=1e-5)
    assert set(picks.rows[:28] % 30) == set(range(2, 30))
    assert picks.scores[28] * 60 < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("normalise", [True, False])
def test_rows_without_a_part_are_not_copied(dtype: type, normalise: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    plain = herding.Similarity.__init__

    def counted(self: Similarity, points: torch.Tensor, *more: Any) -> None:
        sizes.append(len(points))
        plain(self, points, *more)

    monkeypatch.setattr(herding.Similarity, "__init__", counted)
    full = made(200)
    view = PoolView(full.labels, 4, features=full.features.numpy().astype(dtype) + 3)
    picks = MaxHerding(normalise=normalise, max_candidates=20, max_targets=30).select(view, 5, np.random.default_rng(0))
    assert 30 <= sizes[0] <= 33
    assert set(picks.rows) <= set(view.candidates(5, 20, np.random.default_rng(0)).tolist())


# -- large pools ------------------------------------------------------------------------------------------------------


def test_targets_are_the_candidates_and_others_as_far_as_there_is_room() -> None:
    rng = np.random.default_rng(0)
    candidates = torch.tensor([3, 5, 11])
    assert draw_targets(20, candidates, None, rng).tolist() == list(range(20))
    assert draw_targets(20, candidates, 20, rng).tolist() == list(range(20))
    assert draw_targets(20, candidates, 2, rng).tolist() == [3, 5, 11]
    some = draw_targets(20, candidates, 10, rng).tolist()
    assert len(set(some)) == 10
    assert some == sorted(some)
    assert {3, 5, 11} <= set(some)


@pytest.mark.parametrize("strategy", [MaxHerding, UHerding])
def test_rows_outside_the_drawn_candidates_are_not_chosen(strategy: Any) -> None:
    view = made()
    settings = {"max_candidates": 25, "max_targets": 40}
    picks = [strategy(**settings).select(view, 10, np.random.default_rng(seed)).rows for seed in range(2)]
    drawn = [view.candidates(10, 25, np.random.default_rng(seed)).tolist() for seed in range(2)]
    assert all(set(rows) <= set(some) for rows, some in zip(picks, drawn, strict=True))
    assert picks[0].tolist() != picks[1].tolist()


def test_a_sum_over_some_targets_is_near_that_over_all() -> None:
    view = made(600, labelled=())
    exact = MaxHerding(max_candidates=None, max_targets=None).select(view, 1, np.random.default_rng(0))
    drawn = MaxHerding(max_candidates=200, max_targets=400).select(view, 1, np.random.default_rng(0))
    assert drawn.scores[0] == pytest.approx(exact.scores[0], rel=0.1)


# -- calibration ------------------------------------------------------------------------------------------------------


def test_calibration_error_golden_number() -> None:
    probs = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.3, 0.7], [0.3, 0.7]])
    # In the bin of 0.9 one of two is right, in that of 0.7 both are.
    assert calibration_error(probs, torch.tensor([0, 1, 1, 1])) == pytest.approx(0.5 * 0.4 + 0.5 * 0.3, abs=1e-6)
    assert calibration_error(torch.eye(2), torch.tensor([0, 1])) == 0


def test_calibration_error_is_that_of_the_literal_bins() -> None:
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(5), 300), rng.integers(0, 5, 300)
    confidence, right = probs.max(1), probs.argmax(1) == labels
    error = 0.0
    for b in range(15):
        inside = (confidence >= b / 15) & (confidence < (b + 1) / 15)
        if inside.any():
            error += inside.mean() * abs(confidence[inside].mean() - right[inside].mean())
    assert calibration_error(torch.from_numpy(probs), torch.from_numpy(labels)) == pytest.approx(error)


def test_apply_temperature_probabilities_are_those_of_divided_logits() -> None:
    logits = torch.randn(20, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.allclose(apply_temperature(torch.softmax(logits, 1), 2.5), torch.softmax(logits / 2.5, 1))
    assert torch.isfinite(apply_temperature(torch.eye(3), 2.0)).all()


def test_the_temperature_undoes_overconfidence() -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((4000, 5)) * 1.5
    honest = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (honest.cumsum(1) < rng.random((4000, 1))).sum(1)
    boastful = torch.softmax(torch.from_numpy(3 * logits), 1)
    assert best_temperature(boastful, torch.from_numpy(labels)) == pytest.approx(3.0, abs=0.4)


def test_rows_known_by_heart_and_no_rows_at_all_leave_the_temperature_at_one() -> None:
    probs = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    assert best_temperature(probs, torch.tensor([0, 1])) == 1.0
    assert best_temperature(probs[:0], torch.tensor([], dtype=torch.int64)) == 1.0


def test_the_temperature_is_found_on_rows_the_learner_has_not_seen_if_there_are_some() -> None:
    labels = np.full(60, -1)
    labels[:40] = 0
    probs = np.full((60, 2), 0.5)
    for seen, expected in ((20, range(20, 40)), (21, range(40)), (40, range(40))):
        view = PoolView(labels, 2, features=np.ones((60, 1)), probs=probs, trained_on=np.arange(seen))
        assert calibration_rows(view).tolist() == list(expected)


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [MaxHerding, UHerding])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bandwidth": 0.0}, "bandwidth must be a number above 0"),
        ({"max_candidates": 0}, "max_candidates must be a whole number of at least 1"),
        ({"max_targets": -1}, "max_targets must be a whole number of at least 1"),
    ],
)
def test_bad_settings_are_errors(strategy: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        strategy(**settings)


def test_an_unknown_kernel_is_an_error() -> None:
    broken = MaxHerding()
    object.__setattr__(broken, "kernel", "cosine")
    with pytest.raises(UnderstudyError, match="kernel must be one of gaussian, tophat"):
        broken.__post_init__()


def test_max_herding_has_a_bandwidth() -> None:
    broken = MaxHerding()
    object.__setattr__(broken, "bandwidth", None)
    with pytest.raises(UnderstudyError, match="bandwidth must be a number above 0; got None"):
        broken.__post_init__()


def test_a_temperature_of_zero_is_an_error() -> None:
    with pytest.raises(UnderstudyError, match="temperature must be a number above 0"):
        UHerding(temperature=0.0)
