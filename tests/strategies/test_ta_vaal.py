"""TA-VAAL: how the rank enters, and that without one it is VAAL."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.strategies.pools import make_arrays, view_for
from understudy.errors import UnderstudyError
from understudy.strategies import ta_vaal
from understudy.strategies.adversary import Batch, Game, Players, discriminator_logits, hiding_losses, make_players
from understudy.strategies.adversary import board_of as real_board_of
from understudy.strategies.loss_prediction import LossPredictionHook
from understudy.strategies.registry import make_strategy
from understudy.strategies.ta_vaal import TaVaal
from understudy.strategies.view import PoolView

SMALL: dict[str, Any] = {"iterations": 2, "batch_size": 8, "latent": 3}
GAME = Game(
    beta=1.0,
    adversary_weight=1.0,
    vae_steps=1,
    adversary_steps=1,
    latent=3,
    batch_size=8,
    learning_rate=5e-4,
    kl="mean",
)


def folded(told: Players, rank: float) -> Players:
    """The same networks without the input for the rank: its share goes into the first biases."""
    board = real_board_of(some_view(), "auto", some_view().candidates(1))
    plain = make_players(GAME, board, np.random.default_rng(9))
    plain.vae.load_state_dict({**told.vae.state_dict(), **fold(told.vae.decoder, 1 / (1 + np.exp(-rank)), "decoder.")})
    plain.discriminator.load_state_dict({**told.discriminator.state_dict(), **fold(told.discriminator, rank, "")})
    return plain


def fold(layers: nn.Sequential, rank: float, prefix: str) -> dict[str, torch.Tensor]:
    first = layers[0]
    assert isinstance(first, nn.Linear)
    weight, bias = first.weight.detach(), first.bias.detach()
    return {f"{prefix}0.weight": weight[:, :-1], f"{prefix}0.bias": bias + rank * weight[:, -1]}


def some_view() -> PoolView:
    return PoolView(np.where(np.arange(20) < 6, 0, -1), 3, features=make_arrays(20).features)


@pytest.mark.parametrize("rank", [0.0, -1.3, 2.5])
def test_with_a_constant_rank_it_has_the_scores_and_losses_of_vaal(rank: float) -> None:
    view = some_view()
    board = real_board_of(view, "auto", view.candidates(1), told=torch.full((20, 1), rank))
    bare = real_board_of(view, "auto", view.candidates(1))
    told = make_players(GAME, board, np.random.default_rng(0))
    plain = folded(told, rank)
    one, other = discriminator_logits(told, board, board.others), discriminator_logits(plain, bare, board.others)
    assert torch.allclose(one, other, atol=1e-5)
    assert torch.equal(one.argsort(), other.argsort())
    losses = []
    for players, seen in ((told, board), (plain, bare)):
        batch = Batch(seen.inputs(np.arange(5)), seen.told[:5], seen.targets[:5], seen.labels[:5])
        losses.append(hiding_losses(GAME, players, batch, torch.Generator().manual_seed(1)))
    assert torch.allclose(losses[0], losses[1], atol=1e-5)


def test_both_networks_have_one_input_more_and_hear_the_ranker(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = TaVaal(**SMALL, subset_size=15)
    view = view_for(strategy, make_arrays(), [1, 2, 3, 10, 20], pending=[4])
    boards: list[Any] = []
    predicted: list[int] = []
    predict = strategy.hook.predict

    def counted(activations: Any, rows: Any = None) -> Any:
        predicted.extend(rows.tolist())
        return predict(activations, rows)

    def watched(*given: Any, **named: Any) -> Any:
        boards.append(real_board_of(*given, **named))
        return boards[-1]

    with monkeypatch.context() as patched:
        patched.setattr(ta_vaal, "board_of", watched)
        patched.setattr(strategy.hook, "predict", counted)
        strategy.select(view, 4, np.random.default_rng(0))
    assert set(strategy.history) == {"reconstruction", "kl", "adversary", "discriminator"}
    (board,) = boards
    expected = strategy.hook.predict(view.activations).float()
    seen = [*board.taken.tolist(), *board.others.tolist()]
    assert torch.allclose(board.told[seen, 0], expected[seen])  # raw: no sigmoid
    assert float(expected[seen].std()) > 0
    assert len(board.others) == 15
    assert board.taken.tolist() == [1, 2, 3, 4, 10, 20]
    assert predicted == seen
    players = make_players(GAME, board, np.random.default_rng(0))
    assert players.discriminator[0].in_features == 4
    assert players.vae.decoder[0].in_features == 4
    assert players.vae.mean.out_features == 3


def test_picks_depend_on_the_ranks() -> None:
    chosen = []
    for constant in (False, True):
        strategy = TaVaal(**SMALL)
        view = view_for(strategy, make_arrays(), [1, 2, 3, 10, 20])
        if constant:
            for layer in strategy.hook.trained_module.parameters:
                layer.detach().zero_()
        chosen.append(strategy.select(view, 35, np.random.default_rng(0)).rows.tolist())
    assert chosen[0] != chosen[1]


def test_unless_told_otherwise_it_trains_for_a_hundred_passes_over_what_it_sees() -> None:
    strategy = TaVaal(batch_size=200, latent=2, subset_size=13)
    view = view_for(strategy, make_arrays(), [1, 2, 3, 10, 20])
    strategy.select(view, 2, np.random.default_rng(0))
    assert len(strategy.history["kl"]) == (5 + 13) * 100 // 200


def test_every_training_gets_a_ranker_of_its_own() -> None:
    strategy = TaVaal(ranker_weight=0.5, ranker_width=7, detach_after=0.2)
    one, other = (strategy.training_hook(None, np.random.default_rng(0)) for _ in range(2))
    assert one is not other
    assert strategy.hook is other
    assert isinstance(other, LossPredictionHook)
    assert (other.pair_loss, other.weight, other.width, other.detach_after) == ("rank", 0.5, 7, 0.2)


def test_without_a_trained_ranker_it_says_what_to_do() -> None:
    arrays = make_arrays()
    view = PoolView(np.where(np.arange(40) < 6, 0, -1), 3, features=arrays.features, activations=arrays.activations)
    with pytest.raises(UnderstudyError, match="train the learner with this strategy's hook first"):
        TaVaal(**SMALL).select(view, 2, np.random.default_rng(0))


def test_published_settings_are_the_default() -> None:
    strategy = TaVaal()
    assert (strategy.beta, strategy.adversary_weight, strategy.kl) == (1, 1, "mean")
    assert (strategy.vae_steps, strategy.adversary_steps, strategy.subset_size) == (1, 1, 10_000)
    assert strategy.needs.supplies == {"activations"}
    assert strategy.needs.images_or_features
    assert strategy.needs.hook


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"on": "pixels"}, "on must be one of auto"),
        ({"subset_size": 0}, "subset_size must be a whole number of at least 1"),
        ({"iterations": 0}, "iterations must be a whole number of at least 1"),
        ({"detach_after": 2.0}, "detach_after must be"),
        ({"ranker_width": 0}, "width must be a whole number of at least 1"),
        ({"latent": 0}, "latent must be a whole number of at least 1"),
    ],
)
def test_a_bad_setting_is_an_error(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        make_strategy("ta_vaal", **setting)
