"""UncertainGCN and CoreGCN: the product against the dense one, training against the textbook, and the rules."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.strategies.gcn import GraphNetwork, Normalisation, SequentialGCN, SimilarityGraph
from understudy.strategies.randomness import torch_generator
from understudy.strategies.registry import make_strategy
from understudy.strategies.view import Picks, PoolView


def dense(features: Tensor, normalisation: Normalisation) -> Tensor:
    """The matrix as it is printed."""
    X = features / features.norm(dim=1, keepdim=True)
    eye = torch.eye(len(X), dtype=X.dtype)
    A0 = X @ X.T - eye
    if normalisation == "columns":
        return A0 @ torch.diag(1 / A0.sum(0)) + eye
    return torch.diag(1 / A0.sum(1)) @ A0 + eye


def make_features(n: int, d: int = 6, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((n, d)))


def make_view(features: Any, labelled: Any, **more: Any) -> PoolView:
    labels = np.full(len(features), -1)
    labels[labelled] = 0
    return PoolView(labels, 1, hidden=features, **more)


def outputs(view: PoolView, seed: int = 0, **settings: Any) -> dict[int, float]:
    """The network's output for every open row: above the margin 0 the score is minus the output."""
    strategy = make_strategy("uncertain_gcn", margin=0.0, **settings)
    picks = strategy.select(view, int(view.is_open.sum()), np.random.default_rng(seed))
    return {int(row): -float(score) for row, score in zip(picks.rows, picks.scores, strict=True)}


@pytest.mark.parametrize("normalisation", ["columns", "rows"])
class TestGraph:
    def test_low_rank_product_is_the_dense_one(self, normalisation: Normalisation) -> None:
        features = make_features(30)
        H = torch.from_numpy(np.random.default_rng(1).standard_normal((30, 4)))
        fast = SimilarityGraph(features, normalisation).mix(H)
        assert float((fast - dense(features, normalisation) @ H).abs().max()) < 1e-12

    def test_gradients_are_those_of_the_dense_product(self, normalisation: Normalisation) -> None:
        features = make_features(15)
        H = torch.from_numpy(np.random.default_rng(1).standard_normal((15, 2))).requires_grad_()
        weights = torch.from_numpy(np.random.default_rng(2).standard_normal((15, 2)))
        (fast,) = torch.autograd.grad((SimilarityGraph(features, normalisation).mix(H) * weights).sum(), H)
        (slow,) = torch.autograd.grad((dense(features, normalisation) @ H * weights).sum(), H)
        assert float((fast - slow).abs().max()) < 1e-12

    def test_layers_are_the_printed_ones(self, normalisation: Normalisation) -> None:
        features = make_features(20)
        network = GraphNetwork(SimilarityGraph(features, normalisation), 7, torch.Generator().manual_seed(0))
        W1, b1, W2, b2 = (parameter.detach() for parameter in network.parameters)
        A, X = dense(features, normalisation), features / features.norm(dim=1, keepdim=True)
        H = torch.relu(A @ (X @ W1) + b1)
        keep = torch.from_numpy(np.random.default_rng(0).random((20, 7)))
        for kept in (None, keep):
            hidden, logits = network.layers(kept)
            assert torch.allclose(hidden, H, atol=1e-12)
            assert torch.allclose(logits, (A @ ((H if kept is None else H * kept) @ W2) + b2)[:, 0], atol=1e-12)

    def test_rows_without_neighbours_keep_to_themselves(self, normalisation: Normalisation) -> None:
        features = torch.tensor([[1.0, 0, 0], [1.0, 1.0, 0], [0, 0, 2.0], [0, 0, 0], [0, 0, -3.0]])
        H = torch.tensor([[1.0], [2.0], [3.0], [4.0], [5.0]])
        mixed = SimilarityGraph(features, normalisation).mix(H)
        # Rows 0 and 1 have each other; row 2 is at right angles to both, 3 is nothing, 4 is negative.
        assert mixed[:, 0].tolist() == pytest.approx([3.0, 3.0, 3.0, 4.0, 5.0])


def test_columns_and_rows_differ() -> None:
    features, H = make_features(10), torch.ones(10, 1, dtype=torch.float64)
    # By rows every node averages its neighbours, by columns it hands its own share to them.
    assert SimilarityGraph(features, "rows").mix(H)[:, 0].tolist() == pytest.approx([2.0] * 10)
    by_columns = SimilarityGraph(features, "columns").mix(H)[:, 0]
    assert float(by_columns.sum()) == pytest.approx(20)
    assert float(by_columns.std()) > 1e-3


def test_weights_are_drawn_evenly_within_one_over_the_root_of_the_width() -> None:
    network = GraphNetwork(SimilarityGraph(make_features(5, 400)), 100, torch.Generator().manual_seed(0))
    W1, b1, W2, b2 = (parameter.detach() for parameter in network.parameters)
    assert W1.shape == (400, 100)
    for values, end in ((W1, 0.1), (b1, 0.1), (W2, 1.0), (b2, 1.0)):
        assert float(values.abs().max()) <= end
    assert float(W1.abs().max()) > 0.099
    assert float(W1.std()) == pytest.approx(0.1 / 3**0.5, rel=0.02)
    assert float(W2.std()) == pytest.approx(1 / 3**0.5, rel=0.2)


@pytest.mark.parametrize("normalisation", ["columns", "rows"])
def test_training_is_the_textbooks(normalisation: Normalisation) -> None:
    features, labelled = make_features(25), [20, 21, 22]
    fast = outputs(make_view(features, labelled), width=8, epochs=30, learning_rate=0.05, normalisation=normalisation)

    draws = torch_generator(np.random.default_rng(0))
    order = [*(row for row in range(25) if row not in labelled), *labelled]
    A, X = (values.float() for values in (dense(features[order], normalisation), features[order]))
    X = X / X.norm(dim=1, keepdim=True)
    parameters = [
        torch.nn.Parameter((2 * torch.rand(shape, generator=draws) - 1) / shape[-1] ** 0.5)
        for shape in ((6, 8), (8,), (8, 1), (1,))
    ]
    W1, b1, W2, b2 = parameters
    optimiser = torch.optim.Adam(parameters, lr=0.05, weight_decay=5e-4)
    for _ in range(30):
        keep = (torch.rand(25, 8, generator=draws) >= 0.3).float() / 0.7
        o = torch.sigmoid(A @ (keep * torch.relu(A @ (X @ W1) + b1) @ W2) + b2)[:, 0].clamp(1e-7, 1 - 1e-7)
        loss = -o[22:].log().mean() - 1.2 * (1 - o[:22]).log().mean()
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    slow = torch.sigmoid(A @ (torch.relu(A @ (X @ W1) + b1) @ W2) + b2)[:22, 0].tolist()
    assert [fast[row] for row in order[:22]] == pytest.approx(slow, abs=1e-4)


def test_likeness_to_the_labelled_rows_raises_the_output() -> None:
    rng = np.random.default_rng(0)
    features = np.zeros((60, 8))
    features[:30, :4], features[30:, 4:] = rng.random((30, 4)) + 0.5, rng.random((30, 4)) + 0.5
    found = outputs(make_view(features, list(range(10))), learning_rate=0.01)
    assert min(found[row] for row in range(10, 30)) > max(found[row] for row in range(30, 60))


def test_moving_the_rows_moves_their_outputs() -> None:
    features = make_features(40)
    order = np.random.default_rng(5).permutation(40)
    plain = outputs(make_view(features, [0, 1, 2]), dropout=0.0, width=16, epochs=50)
    moved = outputs(make_view(features[order], np.flatnonzero(order < 3)), dropout=0.0, width=16, epochs=50)
    assert [moved[row] for row in np.flatnonzero(order >= 3).tolist()] == pytest.approx(
        [plain[row] for row in order[order >= 3].tolist()], abs=1e-4
    )


def test_without_unlabelled_rows_in_the_loss_all_outputs_go_to_one() -> None:
    settings: dict[str, Any] = {"learning_rate": 0.05, "width": 16}
    view = make_view(make_features(40), [0, 1, 2])
    assert min(outputs(view, unlabelled_weight=0.0, **settings).values()) > 0.99
    assert max(outputs(view, **settings).values()) < 0.9


def test_uncertain_takes_the_outputs_nearest_to_the_margin() -> None:
    view = make_view(make_features(40), [0, 1, 2])
    settings: dict[str, Any] = {"width": 16, "epochs": 60, "learning_rate": 0.02}
    found = outputs(view, **settings)
    target = float(np.median(list(found.values())))
    picks = make_strategy("uncertain_gcn", margin=target, **settings).select(view, 5, np.random.default_rng(0))
    nearest = sorted(found, key=lambda row: abs(found[row] - target))[:5]
    assert picks.rows.tolist() == nearest
    assert picks.scores.tolist() == pytest.approx([-abs(found[row] - target) for row in nearest], abs=1e-6)


def test_core_is_farthest_first_in_the_networks_own_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Tensor, Tensor]] = []
    layers = GraphNetwork.layers

    def watched(self: GraphNetwork, keep: Tensor | None) -> tuple[Tensor, Tensor]:
        answer = layers(self, keep)
        if keep is None:
            seen.append(answer)
        return answer

    monkeypatch.setattr(GraphNetwork, "layers", watched)
    view = make_view(make_features(30), [3, 4, 5], pending=[0], skipped=[9])
    picks: Picks = make_strategy("core_gcn", epochs=20, width=16).select(view, 6, np.random.default_rng(0))
    ((hidden, logits),) = seen
    nodes = [*(row for row in range(30) if row not in (0, 3, 4, 5, 9)), 0, 3, 4, 5]
    points = torch.cat([hidden, logits[:, None]], 1).double().numpy()
    assert points.shape == (29, 17)
    centres, order = [25, 26, 27, 28], []
    for score in picks.scores.tolist():
        lengths = [np.linalg.norm(points[i] - points[centres], axis=1).min() for i in range(25)]
        best = int(np.argmax(lengths))
        assert score == pytest.approx(lengths[best])
        centres.append(best)
        order.append(nodes[best])
    assert picks.rows.tolist() == order


def test_signed_features_and_rows_of_zeros_are_no_trouble() -> None:
    features = np.random.default_rng(0).standard_normal((30, 3))
    features[:5] = 0
    for name in ("uncertain_gcn", "core_gcn"):
        view = make_view(features, [0, 10])
        picks = make_strategy(name, epochs=5).select(view, 28, np.random.default_rng(0))
        assert np.isfinite(picks.scores).all()


def test_a_subset_is_drawn_from_a_large_pool_and_can_be_switched_off() -> None:
    view = make_view(make_features(50), [0])
    one, other = (
        make_strategy("uncertain_gcn", subset_size=10, epochs=1).select(view, 10, np.random.default_rng(seed))
        for seed in (0, 1)
    )
    assert set(one.rows.tolist()) != set(other.rows.tolist())
    assert len(outputs(view, subset_size=None, epochs=1)) == 49


def test_somebody_must_have_labelled_something() -> None:
    with pytest.raises(UnderstudyError, match="core_gcn needs 1 labelled rows, got 0"):
        make_strategy("core_gcn").select(make_view(make_features(9), [], pending=[2]), 1, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "other"}, "rule must be one of uncertain, core; got 'other'"),
        ({"normalisation": "both"}, "normalisation must be one of columns, rows; got 'both'"),
        ({"width": 0}, "width must be a whole number of at least 1"),
        ({"epochs": 1.5}, "epochs must be a whole number"),
        ({"subset_size": 0}, "subset_size must be a whole number of at least 1"),
        ({"unlabelled_weight": -1.0}, "unlabelled_weight must be a number of at least 0"),
        ({"weight_decay": float("nan")}, "weight_decay must be a number of at least 0"),
        ({"learning_rate": 0.0}, "learning_rate must be a number above 0"),
        ({"dropout": 1.0}, "dropout must be a number of at least 0 and below 1"),
        ({"margin": 2.0}, "margin must be a number from 0 to 1"),
    ],
)
def test_wrong_settings_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        SequentialGCN(**settings)
