"""GradNorm: golden numbers, closed forms against automatic differentiation, and what is longest."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.learners.literal import as_sequential, gradient_lengths
from tests.strategies.pools import make_arrays
from understudy.errors import UnderstudyError
from understudy.learners.heads import Head
from understudy.learners.training import Recipe
from understudy.strategies.gradnorm import GradNorm, entropy_slope, expected_slope
from understudy.strategies.registry import make_strategy
from understudy.strategies.view import PoolView

GENERATOR = torch.Generator().manual_seed(0)
HIDDEN = torch.randn(12, 4, generator=GENERATOR, dtype=torch.float64)
LAST = nn.Linear(4, 3, dtype=torch.float64)
with torch.no_grad():
    for parameter in LAST.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=GENERATOR, dtype=torch.float64))
PROBS = LAST(HIDDEN).softmax(1).detach()


def lengths(loss: Tensor, net: nn.Module) -> float:
    """One length a parameter, summed, by automatic differentiation."""
    return sum(float(gradient.norm()) for gradient in gradients(loss, net))


def whole_length(loss: Tensor, net: nn.Module) -> float:
    """That of all parameters laid end to end."""
    return float(torch.cat([gradient.flatten() for gradient in gradients(loss, net)]).norm())


def gradients(loss: Tensor, net: nn.Module) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, list(net.parameters()), retain_graph=True)


def test_golden_numbers() -> None:
    even = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    assert entropy_slope(even).item() == pytest.approx(0, abs=1e-15)
    assert expected_slope(even).item() == pytest.approx(0.7071, abs=1e-4)
    hidden = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    assert GradNorm("egl", "last").last_lengths(hidden, even).item() == pytest.approx(0.5**0.5 * 26**0.5)
    assert GradNorm("entropy", "last").last_lengths(hidden, even).item() == pytest.approx(0, abs=1e-14)


def test_the_entropy_is_flat_at_both_ends() -> None:
    for classes in (2, 5):
        even = torch.full((1, classes), 1 / classes, dtype=torch.float64)
        assert entropy_slope(even).item() == pytest.approx(0, abs=1e-12)
        certain = torch.eye(classes, dtype=torch.float64)
        assert entropy_slope(certain).abs().max() == 0
        assert expected_slope(certain).abs().max() == 0


def test_with_two_classes_the_slope_is_the_known_one_and_steepest_near_four_fifths() -> None:
    p = torch.linspace(0.5, 0.999, 500, dtype=torch.float64)
    slope = entropy_slope(torch.stack([p, 1 - p], 1))
    torch.testing.assert_close(slope, math.sqrt(2) * p * (1 - p) * (p / (1 - p)).log())
    assert float(p[slope.argmax()]) == pytest.approx(0.82, abs=0.005)


@pytest.mark.parametrize("scheme", ["entropy", "expected_released"])
def test_the_last_layer_in_closed_form_is_what_differentiation_gives(scheme: str) -> None:
    found = GradNorm(scheme, "last").last_lengths(HIDDEN, PROBS)  # type: ignore[arg-type]
    for row, hidden in enumerate(HIDDEN):
        logs = LAST(hidden).log_softmax(0)
        assert lengths(-(logs.exp() * logs).sum(), LAST) == pytest.approx(float(found[row]), abs=1e-9)


def test_the_expected_length_of_the_last_layer_is_what_differentiation_gives() -> None:
    found = GradNorm("egl", "last").last_lengths(HIDDEN, PROBS)
    for row, hidden in enumerate(HIDDEN):
        logs = LAST(hidden).log_softmax(0)
        expected = sum(float(PROBS[row, label]) * whole_length(-logs[label], LAST) for label in range(3))
        assert expected == pytest.approx(float(found[row]), abs=1e-9)


def test_the_released_expected_loss_is_the_entropy_and_would_be_flat_without_its_oversight() -> None:
    for row, hidden in enumerate(HIDDEN):
        logs = LAST(hidden).log_softmax(0)
        released = (logs.exp() * -logs).sum()  # the probabilities are differentiated along
        found = GradNorm("expected_released", "last").last_lengths(HIDDEN, PROBS)[row]
        assert lengths(released, LAST) == pytest.approx(float(found), abs=1e-9)
        assert lengths((logs.exp().detach() * -logs).sum(), LAST) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize(("of", "literal"), [("entropy", "entropy"), ("each_class", "expected")])
def test_the_lengths_a_head_supplies_are_those_of_all_its_layers(activation: str, of: str, literal: str) -> None:
    features = np.random.default_rng(0).normal(size=(15, 6))
    head = Head(hidden=(9, 7), activation=activation, recipe=Recipe(epochs=3))  # type: ignore[arg-type]
    model = head.fit(features, np.arange(15) % 3, 3)
    found = model.gradient_norms(features, of=of)  # type: ignore[arg-type]
    net = as_sequential(model.stack)
    expected = [gradient_lengths(net, item, literal) for item in torch.from_numpy(features).float()]
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("scheme", "of"), [("entropy", "entropy"), ("egl", "each_class")])
def test_the_last_layer_agrees_with_what_the_learner_says_of_it(scheme: str, of: str) -> None:
    features = np.random.default_rng(1).normal(size=(15, 6))
    model = Head(hidden=(9, 7), recipe=Recipe(epochs=3)).fit(features, np.arange(15) % 3, 3)
    hidden, probs = (torch.from_numpy(values) for values in (model.features(features), model.predict_proba(features)))
    found = GradNorm(scheme, "last").last_lengths(hidden, probs)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, model.gradient_norms(features, of=of, layers="last"), rtol=1e-4, atol=1e-6)  # type: ignore[arg-type]


def test_each_variant_asks_for_what_it_uses() -> None:
    assert make_strategy("gradnorm").needs.gradient_of == "entropy"
    assert make_strategy("gradnorm").needs.supplies == {"gradient_norms"}
    assert make_strategy("gradnorm", scheme="expected_released").needs.gradient_of == "entropy"
    assert make_strategy("gradnorm_egl").needs.gradient_of == "each_class"
    assert make_strategy("gradnorm_egl", layers="last").needs.supplies == {"hidden", "probs"}


def test_the_longest_gradients_are_chosen_with_ties_to_the_lowest_row() -> None:
    view = PoolView([-1, 0, -1, -1, -1], 2, gradient_norms=np.array([0.5, 9.0, 2.0, 0.5, 2.0]))
    picks = GradNorm().select(view, 4, np.random.default_rng(0))
    assert picks.rows.tolist() == [2, 4, 0, 3]
    assert picks.scores.tolist() == [2.0, 2.0, 0.5, 0.5]


@pytest.mark.parametrize("scheme", ["entropy", "expected_released", "egl"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_last_layer_alone_chooses_in_blocks(scheme: str, dtype: type) -> None:
    arrays = make_arrays(50).as_type(dtype)
    view = PoolView(np.where(np.arange(50) < 6, arrays.truth, -1), 3, hidden=arrays.hidden, probs=arrays.probs)
    strategy = GradNorm(scheme, "last")  # type: ignore[arg-type]
    whole = strategy.last_lengths(view.hidden, view.probs).numpy()
    order = 6 + np.argsort(-whole[6:], kind="stable")[:9]
    lengths = strategy.lengths_of_rows(view, torch.arange(6, 50), rows_per_block=7)
    np.testing.assert_allclose(lengths, whole[6:])
    picks = strategy.select(view, 9, np.random.default_rng(0))
    assert picks.rows.tolist() == order.tolist()
    np.testing.assert_allclose(picks.scores, whole[order])


def test_a_subset_is_drawn_and_its_longest_are_chosen() -> None:
    arrays = make_arrays(60)
    view = PoolView(np.full(60, -1), 3, gradient_norms=arrays.gradient_norms)
    drawn = view.candidates(3, 10, np.random.default_rng(4)).numpy()
    picks = GradNorm(subset_size=10).select(view, 3, np.random.default_rng(4))
    assert picks.rows.tolist() == drawn[np.argsort(-arrays.gradient_norms[drawn])][:3].tolist()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"scheme": "expected"}, "scheme must be one of entropy, expected_released, egl; got 'expected'"),
        ({"layers": "first"}, "layers must be one of all, last; got 'first'"),
        ({"subset_size": 0}, "subset_size must be a whole number of at least 1; got 0"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UnderstudyError, match=complaint):
        GradNorm(**settings)
