"""A run is paired with its rivals, goes on from any round, and several are played as each would be alone."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.experiments.small import ARRAYS, SCHEDULE, experiment, images_of, rounds_of, same_of
from understudy.experiments.bench import Bench
from understudy.experiments.metrics import measure_predictions
from understudy.experiments.plan import refine_schedule
from understudy.experiments.results import CEILING, OFTEN, SELECTION_ONLY, Round, RoundStore
from understudy.experiments.run import Experiment, StrategyRun, Unit, play
from understudy.learners.heads import Head, HeadModel
from understudy.learners.network import Network
from understudy.learners.training import Recipe
from understudy.loop import ActiveLoop

PICK_ONLY = ["random", "margin", "badge", "typiclust", "surrogate", "surrogate_blind", OFTEN]
CHANGE_TRAINING = ["learning_loss", "weight_schedule", "weight_schedule(distillation=True)"]
RESUMED = [
    *PICK_ONLY,
    *CHANGE_TRAINING,
    "surrogate_uniform",
    "surrogate(accuracy_of='surrogate')",
    "surrogate(blind=True,accuracy_of='surrogate')",
    "surrogate(old_targets='residual')",
    "surrogate(on='hidden')",
    "weight_schedule(form='inverse_size')",
    "ta_vaal(iterations=2,batch_size=8,latent=4)",
    "selection_via_proxy",
    "cluster_margin",
    "emoc",
]
TINY = Network(recipe=Recipe(epochs=1, batch_size=32))
TINY_NAME = f"{__name__}:TINY"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def only(rounds: list[list[Round]], name: str, repeat: int = 0) -> list[Round]:
    return [one for some in rounds for one in some if (one.strategy, one.repeat) == (name, repeat)]


def own(rounds: list[list[Round]], name: str) -> list[dict[str, Any]]:
    return [same_of(one) for one in only(rounds, name)]


# -- pairing ------------------------------------------------------------------------------------------------------


def test_all_strategies_start_from_the_same_rows_and_the_same_model() -> None:
    firsts = [only(rounds_of(experiment(), name), name)[0] for name in PICK_ONLY]
    assert len({tuple(one.picks) for one in firsts}) == 1
    assert len({(one.accuracy, one.log_loss, one.brier) for one in firsts}) == 1
    assert firsts[0].picks == experiment().plan.initial_rows(0).tolist()


def test_repetitions_and_seeds_differ_and_a_run_does_not_depend_on_its_company() -> None:
    first, second = only(rounds_of(experiment(), "margin", [0]), "margin"), rounds_of(experiment(), "margin", [1])
    assert first[0].picks != second[0][0].picks
    assert only(rounds_of(experiment(seed=1), "margin"), "margin")[0].picks != first[0].picks
    assert [same_of(one) for one in first] == own(rounds_of(experiment(), "margin"), "margin")


def test_what_a_strategy_draws_does_not_shift_what_its_learner_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: dict[str, list[int]] = {}
    given: list[int] = []
    fit = Head.fit

    def noted(self: Head, *args: Any, seed: int = 0, **more: Any) -> HeadModel:
        given.append(seed)
        return fit(self, *args, seed=seed, **more)

    monkeypatch.setattr(Head, "fit", noted)
    for name in PICK_ONLY:
        given.clear()
        rounds_of(experiment(), name)
        seeds[name] = list(given)
    for name in PICK_ONLY[:-1]:
        assert seeds[name] == seeds["random"]
        assert len(set(seeds[name])) == len(SCHEDULE)
    at = [refine_schedule(SCHEDULE, 10).index(step) for step in SCHEDULE]
    assert [seeds[OFTEN][place] for place in at] == seeds["random"]  # of the same budgets


def test_a_model_depends_on_rows_and_budget_and_not_on_how_they_were_reached() -> None:
    """margin and a record of its rows are the same curve: nothing else reaches the learner."""
    given = experiment()
    played = only(rounds_of(given, "margin"), "margin")
    loop = ActiveLoop(given.bench.pool, given.learner(), "random", (), given.plan.run_seed(0), n_classes=3)
    for one in played:
        loop.tell(one.picks, given.bench.truth[one.picks]).train()
        found = measure_predictions(loop.model.predict_proba(given.bench.test.features), given.bench.test_labels)
        assert (found.accuracy, found.log_loss, found.ece) == (one.accuracy, one.log_loss, one.ece)


# -- what a round says --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["margin", "surrogate", OFTEN, "learning_loss"])
def test_a_round_says_what_happened(name: str) -> None:
    given = experiment()
    truth = given.bench.truth
    rounds = only(rounds_of(given, name), name)
    assert [(one.round, one.labels) for one in rounds] == list(enumerate(SCHEDULE))
    taken: list[int] = []
    rights: list[bool] = []
    for number, one in enumerate(rounds):
        taken += one.picks
        assert len(taken) == len(set(taken)) == one.labels
        assert one.class_counts == np.bincount(truth[taken], minlength=3).tolist()
        if number:
            assert one.scores is not None
            assert one.was_right is not None
            assert len(one.scores) == len(one.was_right) == len(one.picks)
            rights += one.was_right
            assert one.asked_accuracy == pytest.approx(np.mean(rights))
            assert one.choose_seconds > 0
        else:
            assert (one.scores, one.was_right, one.asked_accuracy) == (None, None, None)
        assert one.train_seconds > 0
        assert one.peak_memory > 1e6
        assert "torch" in json.loads(one.versions)


def test_training_the_learner_beside_its_proxy_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now, fit = [0.0], Head.fit

    def counted(self: Head, *args: Any, **more: Any) -> HeadModel:
        now[0] += 1
        return fit(self, *args, **more)

    monkeypatch.setattr(Head, "fit", counted)
    monkeypatch.setattr("understudy.experiments.run._clock", lambda _: now[0])
    for name, trainings in (("margin", 1), ("selection_via_proxy(proxy='quick')", 2)):
        rounds = only(rounds_of(experiment(), name), name)
        assert [one.train_seconds for one in rounds] == [trainings] * len(SCHEDULE)


def test_p_is_judged_by_the_model_that_was_there_before_the_pick() -> None:
    given = experiment()
    rounds = only(rounds_of(given, "margin"), "margin")
    loop = ActiveLoop(given.bench.pool, given.learner(), "random", (), given.plan.run_seed(0), n_classes=3)
    for one, after in pairwise(rounds):
        loop.tell(one.picks, given.bench.truth[one.picks]).train()
        predicted = loop.model.predict_proba(ARRAYS.features[:120]).argmax(1)
        assert after.was_right == (predicted == given.bench.truth)[after.picks].tolist()


def test_margin_that_trains_ten_times_as_often_chooses_by_the_models_between() -> None:
    given = experiment()
    rounds = only(rounds_of(given, OFTEN), OFTEN)
    steps = refine_schedule(SCHEDULE, 10)
    loop = ActiveLoop(given.bench.pool, given.learner(), "margin", steps, given.plan.run_seed(0), n_classes=3)
    rows = rounds[0].picks
    loop.tell(rows, given.bench.truth[rows])
    asked: list[int] = []
    for before, after in pairwise(steps):
        rows = loop.ask(after - before).tolist()
        loop.tell(rows, given.bench.truth[rows])
        asked += rows
    assert [row for one in rounds[1:] for row in one.picks] == asked
    assert asked != [row for one in only(rounds_of(given, "margin"), "margin")[1:] for row in one.picks]


def test_the_ceiling_is_one_training_on_all_labels() -> None:
    (one,) = only(rounds_of(experiment(), CEILING), CEILING)
    assert (one.labels, one.round, one.picks) == (120, 0, [])
    assert one.class_counts == np.bincount(ARRAYS.truth[:120]).tolist()
    given = experiment()
    loop = ActiveLoop(given.bench.pool, given.learner(), "random", (), given.plan.run_seed(0), n_classes=3)
    loop.tell(np.arange(120), given.bench.truth).train()
    assert (
        one.log_loss
        == measure_predictions(loop.model.predict_proba(given.bench.test.features), given.bench.test_labels).log_loss
    )


@pytest.mark.parametrize("name", CHANGE_TRAINING)
def test_systems_that_change_training_are_also_judged_by_their_picks_alone(name: str) -> None:
    given = experiment()
    rounds = rounds_of(given, name)
    assert {one.strategy for some in rounds for one in some} == {name, name + SELECTION_ONLY} == set(given.names(name))
    system, alone = only(rounds, name), only(rounds, name + SELECTION_ONLY)
    assert [one.picks for one in system] == [one.picks for one in alone]
    plain = only(rounds_of(given, "margin"), "margin")
    assert alone[0].log_loss == plain[0].log_loss  # the same rows, the common learner
    assert any(one.log_loss != other.log_loss for one, other in zip(system, alone, strict=True))


def test_a_system_that_makes_up_images_is_judged_by_its_picks_too_and_goes_on() -> None:
    bench = Bench("images", images_of(range(16)), images_of(range(120, 124)))
    given = Experiment(replace(experiment().plan, learner=TINY_NAME, pool_rows=16, schedule=(4, 6)), bench)
    spec = "bgadl(passes=2,iterations=1)"
    whole = rounds_of(given, spec)
    assert {one.strategy for one in whole[0]} == {spec, spec + SELECTION_ONLY}
    rest = list(play(given, Unit(spec, (0,)), {0: only(whole, spec)[:1]}))
    assert [[same_of(one) for one in some] for some in rest] == [[same_of(one) for one in some] for some in whole[1:]]


# -- going on -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RESUMED)
def test_a_run_goes_on_from_any_round_as_if_it_had_never_stopped(name: str, tmp_path: Path) -> None:
    whole = rounds_of(experiment(), name)
    rounds = only(whole, name)
    store = RoundStore(tmp_path)
    for done in range(1, len(SCHEDULE)):
        store.add([rounds[done - 1]])
        stored = store.rounds_of(name, 0, SCHEDULE)
        rest = list(play(experiment(), Unit(name, (0,)), {0: stored}))
        expected = [[same_of(one) for one in some] for some in whole[done:]]
        assert [[same_of(one) for one in some] for some in rest] == expected


def test_a_run_that_stops_after_every_round_is_the_run_that_does_not() -> None:
    for name in ("surrogate(blind=True,accuracy_of='surrogate')", "learning_loss"):
        whole = only(rounds_of(experiment(), name), name)
        stored: list[Round] = []
        while len(stored) < len(SCHEDULE):
            stored += only([next(play(experiment(), Unit(name, (0,)), {0: stored}))], name)
        assert [same_of(one) for one in stored] == [same_of(one) for one in whole]


def test_a_strategy_that_waits_for_more_classes_goes_on_too() -> None:
    """Rows are drawn at random until two classes are known: also what is drawn then must not depend on the past."""
    given = experiment((6, 8, 10, 12))
    truth = given.bench.truth.copy()
    truth[:] = 0
    truth[-1] = 1
    pool = replace(given.bench.pool, labels=truth)
    given = replace(given, bench=replace(given.bench, pool=pool))
    whole = only(rounds_of(given, "svm_margin"), "svm_margin")
    assert whole[2].class_counts[1] == 0  # still waiting
    rest = list(play(given, Unit("svm_margin", (0,)), {0: whole[:2]}))
    assert own(rest, "svm_margin") == [same_of(one) for one in whole[2:]]


def test_a_finished_run_has_nothing_left() -> None:
    whole = only(rounds_of(experiment(), "margin"), "margin")
    assert list(play(experiment(), Unit("margin", (0,)), {0: whole})) == []


def test_an_interrupted_training_is_no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = Head.fit

    def stopped(self: Head, inputs: np.ndarray, *args: Any, **more: Any) -> HeadModel:
        model = fit(self, inputs, *args, **more)
        return replace(model, interrupted=len(inputs) >= 14)

    monkeypatch.setattr(Head, "fit", stopped)
    playing = play(experiment(), Unit("margin", (0,)), {})
    assert next(playing)[0].labels == 9
    with pytest.raises(KeyboardInterrupt):
        next(playing)


# -- side by side -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["margin", "badge", "surrogate", OFTEN, *CHANGE_TRAINING, CEILING])
def test_repetitions_side_by_side_are_those_of_each_alone(name: str) -> None:
    together = rounds_of(experiment(), name, [0, 1, 2])
    for repeat in range(3):
        alone = rounds_of(experiment(), name, [repeat])
        for judged in {one.strategy for one in alone[0]}:
            for one, other in zip(only(together, judged, repeat), only(alone, judged, repeat), strict=True):
                assert one.picks == other.picks
                assert (one.labels, one.was_right) == (other.labels, other.was_right)
                assert one.log_loss == pytest.approx(other.log_loss, rel=1e-4)
                assert (one.together, other.together) == (3, 1)


@pytest.mark.parametrize("name", ["surrogate", "learning_loss", "weight_schedule"])
def test_side_by_side_they_go_on_from_where_the_slowest_was(name: str) -> None:
    whole = rounds_of(experiment(), name, [0, 1])
    stored = {0: only(whole, name, 0)[:3], 1: only(whole, name, 1)[:2]}
    rest = list(play(experiment(), Unit(name, (0, 1)), stored))
    assert [[same_of(one) for one in some] for some in rest] == [[same_of(one) for one in some] for some in whole[2:]]


def test_units_say_who_they_are() -> None:
    assert Unit("margin", (3,)).name == "margin, repetition 3"
    assert Unit("margin", (0, 1, 2)).name == "margin, repetitions 0-2"
    assert Unit(CEILING, (0,)).schedule(experiment().plan) == (120,)


def test_a_run_begins_with_the_settings_of_its_spec() -> None:
    run = StrategyRun.begin(experiment(), "surrogate(width=0.25)", 0)
    assert getattr(run.loop.strategy, "options").width == 0.25  # noqa: B009
