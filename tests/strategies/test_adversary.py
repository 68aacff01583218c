"""The game against a plain copy of it, and what it must come to where the answer is known."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.strategies.pools import make_arrays
from understudy.errors import UnderstudyError
from understudy.strategies import adversary, autoencoders
from understudy.strategies.adversary import (
    Batch,
    Board,
    Game,
    Kl,
    Players,
    board_of,
    check_duration,
    discriminator_logits,
    hiding_losses,
    least_like_labelled,
    make_players,
    passes_over,
    play,
    seeking_loss,
    shuffle_batches,
)
from understudy.strategies.autoencoders import FeatureInputs
from understudy.strategies.randomness import torch_generator
from understudy.strategies.sraal import Sraal
from understudy.strategies.vaal import Vaal
from understudy.strategies.view import PoolView

GAME = Game(
    beta=0.7,
    adversary_weight=0.3,
    vae_steps=2,
    adversary_steps=1,
    latent=3,
    batch_size=4,
    learning_rate=1e-3,
    kl="sum",
)


@pytest.fixture(autouse=True)
def small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested here does not depend on how wide they are."""
    monkeypatch.setattr(autoencoders, "PERCEPTRON", (128, 64))


def small_board(told: int = 0, n: int = 12, d: int = 5) -> Board:
    rng = np.random.default_rng(0)
    return Board(
        FeatureInputs(torch.from_numpy(rng.standard_normal((n, d)).astype(np.float32))),
        taken=np.arange(5),
        others=np.arange(5, n),
        told=torch.from_numpy(rng.standard_normal((n, told)).astype(np.float32)),
        targets=(torch.arange(n) < 5).float(),
        labels=torch.where(torch.arange(n) < 5, torch.arange(n) % 2, -1),
        n_classes=2,
    )


def batch_of(board: Board, rows: list[int]) -> Batch:
    return Batch(board.inputs(np.array(rows)), board.told[rows], board.targets[rows], board.labels[rows])


@pytest.mark.parametrize("told", [0, 1])
@pytest.mark.parametrize("kl", ["sum", "mean"])
def test_losses_are_the_published_formulas_row_by_row(told: int, kl: Kl) -> None:
    board = small_board(told)
    game = replace(GAME, kl=kl, supervised_weight=1.0)
    players = make_players(game, board, np.random.default_rng(0))
    batch = batch_of(board, [0, 3, 4])
    parts = hiding_losses(game, players, batch, torch.Generator().manual_seed(3))
    seen = seeking_loss(players, replace(batch, targets=torch.tensor([1.0, 0.0, 0.25])))

    mean, log_variance = (values.detach() for values in players.vae.encode(batch.x))
    noise = torch.randn(3, 3, generator=torch.Generator().manual_seed(3))
    squares, divergence, fooled, wrong, told_apart = [], 0.0, [], [], []
    for row in range(3):
        rank = batch.told[row]
        latent = mean[row] + (0.5 * log_variance[row]).exp() * noise[row]
        rebuilt = players.vae.decoder(torch.cat([latent, 1 / (1 + (-rank).exp())])[None])[0]
        squares += [(float(a) - float(b)) ** 2 for a, b in zip(rebuilt.detach(), batch.x[row], strict=True)]
        for m, v in zip(mean[row].tolist(), log_variance[row].tolist(), strict=True):
            divergence += -0.5 * (1 + v - m**2 - math.exp(v))
        D = 1 / (1 + math.exp(-players.discriminator(torch.cat([mean[row], rank])[None]).item()))
        fooled.append(-math.log(D))
        target = [1.0, 0.0, 0.25][row]
        told_apart.append(-target * math.log(D) - (1 - target) * math.log(1 - D))
        probs = players.classifier(latent).softmax(0)
        wrong.append(-math.log(probs[int(batch.labels[row])].item()))
    if kl == "mean":
        divergence /= 9
    expected = [np.mean(squares), divergence, np.mean(fooled), np.mean(wrong) + game.beta * divergence]
    assert parts.tolist() == pytest.approx(expected, rel=1e-4)
    assert seen.item() == pytest.approx(float(np.mean(told_apart)), rel=1e-4)


def test_no_classes_are_learnt_from_rows_without_labels() -> None:
    board = small_board()
    game = replace(GAME, supervised_weight=1.0)
    players = make_players(game, board, np.random.default_rng(0))
    losses = [
        hiding_losses(game, players, batch_of(board, rows), torch.Generator().manual_seed(0)) for rows in ([7, 8], [1])
    ]
    assert losses[0][3].item() == 0
    assert losses[1][3].item() > 0
    losses[0].sum().backward()  # type: ignore[no-untyped-call]
    assert all(torch.isfinite(p.grad).all() for p in players.vae.parameters() if p.grad is not None)


@pytest.mark.parametrize(("vae_steps", "adversary_steps"), [(2, 1), (1, 2)])
def test_training_is_the_published_loop(vae_steps: int, adversary_steps: int) -> None:
    board = small_board()
    game = replace(GAME, vae_steps=vae_steps, adversary_steps=adversary_steps)
    ours, plain = (make_players(game, board, np.random.default_rng(1)) for _ in range(2))
    history = play(game, ours, board, 3, np.random.default_rng(2))
    losses = published_loop(plain, board, (3, vae_steps, adversary_steps), np.random.default_rng(2))
    for one, other in zip(parameters(ours), parameters(plain), strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    assert history["discriminator"].tolist() == pytest.approx(losses, rel=1e-4)
    assert {name: values.shape for name, values in history.items()} == dict.fromkeys(history, (3,))


def parameters(players: Players) -> list[torch.Tensor]:
    return [*players.vae.parameters(), *players.discriminator.parameters()]


def published_loop(
    players: Players, board: Board, steps: tuple[int, int, int], rng: np.random.Generator
) -> list[float]:
    """One line of the publication after the other: sigmoid and BCE apart, labelled and unlabelled by name."""
    vae, D = players.vae, nn.Sequential(players.discriminator, nn.Sigmoid())
    noise = torch_generator(rng)
    labelled, unlabelled = (shuffle_batches(rows, 4, rng) for rows in (board.taken, board.others))
    of_vae = torch.optim.Adam(vae.parameters(), lr=1e-3)
    of_D = torch.optim.Adam(D.parameters(), lr=1e-3)
    losses = []
    iterations, vae_steps, adversary_steps = steps
    for _ in range(iterations):
        x_l, x_u = board.inputs(next(labelled)), board.inputs(next(unlabelled))
        for count in range(vae_steps):
            total = torch.tensor(0.0)
            for x in (x_l, x_u):
                mu, logvar = vae.encode(x)
                z = mu + torch.exp(0.5 * logvar) * torch.randn(mu.shape, generator=noise)
                KL = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
                total = total + functional.mse_loss(vae.decoder(z), x) + 0.7 * KL
                total = total + 0.3 * functional.binary_cross_entropy(D(mu), torch.ones(len(x), 1))
            of_vae.zero_grad()
            total.backward()  # type: ignore[no-untyped-call]
            of_vae.step()
            if count < vae_steps - 1:
                x_l, x_u = board.inputs(next(labelled)), board.inputs(next(unlabelled))
        for count in range(adversary_steps):
            mu_l, mu_u = vae.encode(x_l)[0].detach(), vae.encode(x_u)[0].detach()
            loss = functional.binary_cross_entropy(D(mu_l), torch.ones(4, 1))
            loss = loss + functional.binary_cross_entropy(D(mu_u), torch.zeros(4, 1))
            of_D.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            of_D.step()
            if count < adversary_steps - 1:
                x_l, x_u = board.inputs(next(labelled)), board.inputs(next(unlabelled))
        losses.append(loss.item())
    return losses


def test_what_is_told_first_is_told_in_the_first_iteration_only() -> None:
    board = small_board(1)
    heard: list[torch.Tensor] = []
    players = make_players(GAME, board, np.random.default_rng(0))
    players.discriminator[0].register_forward_pre_hook(lambda _, given: heard.append(given[0][:, -1]))
    play(GAME, players, board, 2, np.random.default_rng(0), torch.full((12, 1), 9.0))
    calls = 2 * 2 + 2  # two steps of one side and one of the other, two batches each
    assert all(bool((rank == 9).all()) for rank in heard[:calls])
    assert not any(bool((rank == 9).any()) for rank in heard[calls:])


def pool_at(places: list[float], labelled: int) -> PoolView:
    features = np.array(places)[:, None] + 0.05 * np.random.default_rng(0).standard_normal((len(places), 2))
    labels = np.where(np.arange(len(places)) < labelled, 0, -1)
    return PoolView(labels, 2, features=features)


def logits_after(view: PoolView, game: Game, iterations: int) -> tuple[Board, torch.Tensor]:
    board = board_of(view, "features", view.candidates(1))
    players = make_players(game, board, np.random.default_rng(0))
    play(game, players, board, iterations, np.random.default_rng(0))
    return board, discriminator_logits(players, board, board.others)


def test_latents_that_lie_apart_are_told_apart() -> None:
    view = pool_at([1.0] * 40 + [-1.0] * 20 + [1.0] * 20, labelled=40)
    game = replace(GAME, adversary_weight=0.0, beta=1e-3, kl="mean", batch_size=20, vae_steps=1)
    _, logits = logits_after(view, game, 60)
    picked = least_like_labelled(view.candidates(1), logits, 20)
    assert sorted(picked.rows.tolist()) == list(range(40, 60))
    assert picked.scores.min() > 0.5
    assert float(logits[20:].sigmoid().mean()) > 0.5


def test_latents_of_one_kind_are_not() -> None:
    places = np.random.default_rng(1).standard_normal(120).tolist()
    _, logits = logits_after(pool_at(places, labelled=60), replace(GAME, batch_size=32, kl="mean", vae_steps=1), 100)
    assert float(logits.sigmoid().mean()) == pytest.approx(0.5, abs=0.08)


def test_pending_rows_stand_with_the_labelled_and_skipped_ones_nowhere() -> None:
    view = PoolView([0, -1, -1, -1, -1], 2, pending=[2], skipped=[4], features=np.ones((5, 2)))
    board = board_of(view, "auto", view.candidates(1))
    assert board.taken.tolist() == [0, 2]
    assert board.others.tolist() == [1, 3]
    assert board.targets.tolist() == [1, 0, 1, 0, 0]
    assert board.told.shape == (5, 0)


def test_every_row_comes_once_before_any_comes_again() -> None:
    batches = shuffle_batches(np.arange(10, 17), 3, np.random.default_rng(0))
    drawn = np.concatenate([next(batches) for _ in range(14)])
    assert [sorted(drawn[start : start + 7].tolist()) for start in range(0, 42, 7)] == [list(range(10, 17))] * 6
    assert len(next(shuffle_batches(np.arange(2), 128, np.random.default_rng(0)))) == 2


def test_rows_are_ranked_where_the_sigmoid_has_no_more_digits() -> None:
    picked = least_like_labelled(torch.arange(4), torch.tensor([2.0, -700.0, -800.0, -60.0]), 4)
    assert picked.rows.tolist() == [2, 1, 3, 0]
    assert picked.scores.tolist() == pytest.approx([1.0, 1.0, 1.0, 1 - 1 / (1 + math.exp(-2))])


def test_a_hundred_passes_are_as_many_iterations_as_published() -> None:
    assert passes_over(60_000, 128) == 46_875
    assert passes_over(1, 128) == 1


def test_a_training_of_days_is_refused_before_it_begins_with_what_to_say_to_have_it() -> None:
    check_duration("Vaal", 128_000, 128, torch.device("cpu"), on_images=False)
    check_duration("Vaal", 1_281_167, 128, torch.device("cuda"), on_images=True)
    words = (
        "Vaal trains for 100 epochs: 781,250 iterations over 1,000,000 rows, hours to days, and more than 100,000; "
        "pass iterations=781250 to have them, or fewer, or use a GPU"
    )
    with pytest.raises(UnderstudyError, match=re.escape(words)):
        check_duration("Vaal", 1_000_000, 128, torch.device("cpu"), on_images=False)
    with pytest.raises(UnderstudyError, match=r"more than 2,000,000; pass iterations=3906250 to have them, or fewer$"):
        check_duration("Vaal", 5_000_000, 128, torch.device("cuda"), on_images=False)


def test_convolutions_on_a_processor_are_refused_far_sooner_with_the_ways_around_them() -> None:
    arrays = make_arrays(30)
    images = np.zeros((30, 16, 16), np.uint8)
    view = PoolView(np.where(np.arange(30) < 6, 0, -1), 3, features=arrays.features, images=images)
    words = "iterations over 30 rows, hours to days, and more than 500; pass iterations=750 to have them, or fewer, "
    with pytest.raises(UnderstudyError, match=re.escape(f'750 {words}use a GPU, or set on="features"')):
        Vaal(batch_size=4).select(view, 2, np.random.default_rng(0))


@pytest.mark.parametrize("make", [Vaal, Sraal])
def test_whoever_says_how_many_iterations_has_them(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(adversary.MOST_ITERATIONS, "cpu", 3)
    arrays = make_arrays(20)
    view = PoolView(np.where(np.arange(20) < 6, 0, -1), 3, features=arrays.features, probs=arrays.probs)
    small = {"batch_size": 4, "latent": 2}
    with pytest.raises(UnderstudyError, match=f"{make.__name__} trains for 100 epochs: 500 iterations over 20 rows"):
        make(**small).select(view, 2, np.random.default_rng(0))
    strategy = make(iterations=5, **small)
    strategy.select(view, 2, np.random.default_rng(0))
    assert len(strategy.history["kl"]) == 5


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"beta": -1.0}, "beta must be a number of at least 0"),
        ({"adversary_weight": float("nan")}, "adversary_weight must be"),
        ({"supervised_weight": float("inf")}, "supervised_weight must be"),
        ({"vae_steps": 0}, "vae_steps must be a whole number of at least 1"),
        ({"adversary_steps": 0}, "adversary_steps must be a whole number of at least 1"),
        ({"latent": 0}, "latent must be a whole number of at least 1"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be a number above 0"),
    ],
)
def test_a_bad_setting_is_an_error(setting: dict[str, float], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        replace(GAME, **setting)  # type: ignore[arg-type]
