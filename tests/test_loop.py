"""The loop asks, hears, trains when it is time, and shows a strategy just what it needs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.strategies.pools import make_arrays
from tests.strategies.quick import QUICK
from understudy import ActiveLoop, PoolExhausted, Surrogate, UnderstudyError
from understudy.data.items import ArrayImages, Texts
from understudy.data.pool import Pool
from understudy.hooks import TrainingHook
from understudy.learners.heads import Head
from understudy.learners.network import Network
from understudy.learners.training import Recipe
from understudy.loop import STREAM_STRATEGY, fit_plainly, train_together
from understudy.strategies.protocol import LearnsWithinRound, Needs
from understudy.strategies.ranking import top
from understudy.strategies.registry import STRATEGIES, make_strategy
from understudy.strategies.selection_via_proxy import SelectionViaProxy
from understudy.strategies.view import Picks, PoolView

ARRAYS = make_arrays(80)
QUICKLY = Head(hidden=(8, 5), dropout=0.2, recipe=Recipe("adamw", 0.01, epochs=3))


def pool(**more: Any) -> Pool:
    ids = tuple(f"item {row}" for row in range(len(ARRAYS)))
    images = ArrayImages(ARRAYS.images)
    known = {"features": ARRAYS.features, "items": images, "labels": ARRAYS.truth, "classes": ("a", "b", "c")}
    return Pool(ids, **{**known, **more})


def played(loop: ActiveLoop, n_labels: int, at_once: int = 1) -> list[int]:
    """Rows in the order asked for, each answered with the truth."""
    asked: list[int] = []
    while len(asked) < n_labels:
        rows = loop.ask(min(at_once, n_labels - len(asked)))
        loop.tell(rows, ARRAYS.truth[rows])
        asked += rows.tolist()
    return asked


@dataclass
class Spy:
    """Looks at its views, and takes the lowest row."""

    needs: Needs
    seen: list[PoolView] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    hooks: list[Any] = field(default_factory=list)

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        self.seen.append(view)
        rows = view.candidates(n)
        return top(rows, -rows.double(), n)

    def tell(self, rows: np.ndarray, labels: np.ndarray) -> None:
        self.told += rows.tolist()

    def training_hook(self, teacher: Any, rng: np.random.Generator) -> TrainingHook:
        self.hooks.append(teacher)
        return TrainingHook()


def own(loop: ActiveLoop) -> Spy:
    assert isinstance(loop.strategy, Spy)
    return loop.strategy


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_strategy_plays_three_rounds(name: str) -> None:
    strategy = make_strategy(name, **QUICK.get(name, {}))
    images = "images" in strategy.needs.supplies
    learner = Network(recipe=Recipe(epochs=1, batch_size=32)) if images and name == "bgadl" else QUICKLY
    loop = ActiveLoop(pool() if images else pool(items=None), learner, strategy, schedule=[12, 16, 20])
    asked = played(loop, 22, at_once=4)
    assert len(set(asked)) == 22
    assert loop.round == 3
    assert loop.labelled.tolist() == sorted(asked)


def test_the_surrogate_in_the_loop_is_the_surrogate_by_hand() -> None:
    loop = ActiveLoop(ARRAYS.features, QUICKLY, "surrogate", schedule=[10, 20], n_classes=3, random_state=5)
    start = played(loop, 10)
    asked = played(loop, 12)
    by_hand = ActiveLoop(ARRAYS.features, QUICKLY, "margin", schedule=[10, 20], n_classes=3, random_state=5)
    assert played(by_hand, 10) == start
    seed = int(np.random.default_rng([5, STREAM_STRATEGY, 10]).integers(2**63))
    s = Surrogate(ARRAYS.features, 3, random_state=seed, method="paper")
    s.anchor(by_hand.model.predict_proba(ARRAYS.features), start)
    for row in asked[:10]:
        assert s.ask() == [row]
        s.tell([row], ARRAYS.truth[[row]])
    by_hand.tell(asked[:10], ARRAYS.truth[asked[:10]])
    s.anchor(by_hand.model.predict_proba(ARRAYS.features), [*start, *asked[:10]])
    assert s.ask() == [asked[10]]


def test_all_strategies_start_from_the_same_random_rows_and_the_same_model() -> None:
    models, starts = [], []
    for name in ("margin", "badge", "surrogate", "random"):
        loop = ActiveLoop(ARRAYS.features, QUICKLY, name, schedule=[10], n_classes=3, random_state=3)
        starts.append(played(loop, 10))
        models.append(loop.model.predict_proba(ARRAYS.features))
    assert all(start == starts[0] for start in starts)
    assert all((model == models[0]).all() for model in models)


def test_it_trains_when_the_schedule_says_so_and_not_before() -> None:
    loop = ActiveLoop(ARRAYS.features, QUICKLY, "random", schedule=[10, 20, 40], n_classes=3)
    with pytest.raises(UnderstudyError, match="tell labels up to 10"):
        _ = loop.model
    rounds = []
    for row in range(45):
        loop.tell([row], ARRAYS.truth[[row]])
        rounds.append(loop.round)
    assert [row + 1 for row in range(1, 45) if rounds[row] > rounds[row - 1]] == [10, 20, 40]
    loop.train()
    assert loop.round == 4


def test_many_labels_at_once_are_one_training() -> None:
    loop = ActiveLoop(ARRAYS.features, QUICKLY, "random", schedule=[10, 20, 40], n_classes=3)
    loop.tell(np.arange(30), ARRAYS.truth[:30])
    assert loop.round == 1
    loop.tell(np.arange(30, 39), ARRAYS.truth[30:39])
    assert loop.round == 1
    loop.tell([39], ARRAYS.truth[[39]])
    assert loop.round == 2


def test_without_a_schedule_it_trains_when_labels_have_grown_by_half() -> None:
    loop = ActiveLoop(ARRAYS.features, QUICKLY, "random", n_classes=3)
    trained = []
    for row in range(60):
        before = loop.round
        loop.tell([row], ARRAYS.truth[[row]])
        trained += [row + 1] * (loop.round - before)
    assert trained == [6, 9, 13, 19, 28, 42]


@pytest.mark.parametrize(
    "supply", ["features", "hidden", "activations", "probs", "stochastic", "gradient_norms", "images"]
)
def test_the_view_holds_what_is_needed_and_nothing_else(supply: Any) -> None:
    spy = Spy(Needs(frozenset({supply}), passes=4 if supply == "stochastic" else 0))
    loop = ActiveLoop(pool(), QUICKLY, spy, schedule=[8])
    played(loop, 10)
    view = own(loop).seen[-1]
    assert [name for name in STRATEGY_SUPPLIES if view.has(name)] == [supply]
    model: Any = loop.model
    expected: dict[str, Callable[[], Any]] = {
        "features": lambda: ARRAYS.features,
        "hidden": lambda: model.features(ARRAYS.features),
        "probs": lambda: model.predict_proba(ARRAYS.features),
        "gradient_norms": lambda: model.gradient_norms(ARRAYS.features),
        "images": lambda: ARRAYS.images,
    }
    if supply in expected:
        assert (np.asarray(getattr(view, supply)) == expected[supply]()).all()
    if supply == "stochastic":
        assert view.stochastic.shape == (80, 4, 3)


STRATEGY_SUPPLIES: tuple[Any, ...] = (
    "features", "hidden", "activations", "probs", "stochastic", "gradient_norms", "images",
)  # fmt: skip


def test_views_say_what_is_pending_skipped_and_trained() -> None:
    spy = Spy(Needs(frozenset({"probs"})))
    loop = ActiveLoop(pool(), QUICKLY, spy, schedule=[8])
    assert own(loop) is not spy  # a strategy may start many loops
    spy = own(loop)
    loop.tell(np.arange(8), ARRAYS.truth[:8])
    loop.skip([8])
    assert loop.ask(2).tolist() == [9, 10]
    loop.tell([10], ARRAYS.truth[[10]])
    assert loop.ask().tolist() == [11]
    view = spy.seen[-1]
    assert view.is_pending.nonzero()[:, 0].tolist() == [9]
    assert view.is_skipped.nonzero()[:, 0].tolist() == [8]
    assert view.is_trained.nonzero()[:, 0].tolist() == list(range(8))
    assert view.labelled.tolist() == [*range(8), 10]
    assert view.round == 1
    assert loop.pending.tolist() == [9, 11]
    loop.release([9]).retract([10]).unskip([8])
    assert loop.ask(3).tolist() == [8, 9, 10]
    assert spy.told == [*range(8), 10]
    assert "8 labelled, 4 pending, trained 1 times" in repr(loop)


def test_a_hook_is_asked_for_before_every_training_and_shown_the_model_before() -> None:
    spy = Spy(Needs(hook=True))
    loop = ActiveLoop(pool(), QUICKLY, spy, schedule=[8, 12])
    spy = own(loop)
    played(loop, 12)
    assert len(spy.hooks) == 2
    assert spy.hooks[0] is None
    assert spy.hooks[1] is not loop.model
    assert spy.hooks[1].n_classes == 3


def test_images_are_for_those_who_want_images_or_features_where_there_are_some() -> None:
    for with_images in (True, False):
        spy = Spy(Needs(images_or_features=True))
        loop = ActiveLoop(pool() if with_images else pool(items=None), QUICKLY, spy, schedule=[8])
        loop.ask()
        assert own(loop).seen[0].has("images") == with_images
        assert own(loop).seen[0].has("features") != with_images


def test_files_of_images_are_learnt_from_too(tmp_path: Any) -> None:
    from PIL import Image

    from understudy.data.folders import load_folder

    for row in range(20):
        folder = tmp_path / "ab"[row % 2]
        folder.mkdir(exist_ok=True)
        Image.fromarray(np.full((16, 16, 3), 10 * row, np.uint8)).save(folder / f"{row}.png")
    images = load_folder(tmp_path).pool
    loop = ActiveLoop(images, Network(recipe=Recipe(epochs=1)), "margin", schedule=[6])
    truth = images.labels
    assert truth is not None
    for _ in range(8):
        asked = loop.ask()
        loop.tell(asked, truth[asked])
    assert loop.round == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "bagde"}, "there is no strategy 'bagde'; did you mean 'badge'"),
        ({"strategy": "xyzzy"}, "`understudy strategies` lists them"),
        ({"learner": "deep"}, "there is no learner 'deep'"),
        ({"strategy": "badge", "learner": "logistic"}, "Badge needs hidden, which Classifier does not offer"),
        ({"strategy": "learning_loss", "learner": "logistic"}, "LearningLoss"),
        ({"strategy": "bgadl"}, "Bgadl generates images, which Head cannot train on"),
        ({"schedule": [5, 5]}, "schedule must be increasing numbers of labels, at most 80"),
        ({"schedule": [10, 5]}, "increasing numbers of labels"),
        ({"schedule": [10, 81]}, "at most 80; got"),
        ({"schedule": [0]}, "must be a whole number of at least 1"),
        ({"n_classes": 0}, "n_classes must be a whole number of at least 1"),
        ({"random_state": -1}, "random_state must be a whole number of at least 0"),
        ({"pool": np.zeros(5)}, "one row per item; got shape"),
        ({"pool": ARRAYS.features, "n_classes": None}, "pass n_classes"),
        (
            {"pool": pool(features=None)},
            "Head needs features, but this pool has none; `understudy embed PATH --encoder NAME` computes them",
        ),
        ({"pool": pool(items=None), "learner": "resnet18"}, "needs images"),
        ({"pool": pool(items=Texts(["a"] * 80)), "learner": "resnet18"}, "needs images"),
    ],
)
def test_what_cannot_work_is_said_before_anything_starts(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message) as error:
        ActiveLoop(**{"pool": pool(), "strategy": "margin", "schedule": [10], "n_classes": 3, **settings})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        ([80], [0], "rows must be 0 to 79; got 80"),
        ([-1], [0], "rows must be 0 to 79; got -1"),
        ([1, 1], [0, 0], "pass each row once"),
        ([1, 2], [0], "2 rows need one integer label each"),
        ([1], [0.5], r"0\.5 \(float64\) is not an integer label; astype\(int\) makes whole numbers of them"),
        ([1], [3], "labels must be 0 to 2 for 3 classes; got 3"),
        ([0.5], [0], "rows must be a list of row numbers"),
    ],
)
def test_a_wrong_answer_is_refused_and_nothing_changes(rows: Any, labels: Any, message: str) -> None:
    loop = ActiveLoop(ARRAYS.features, QUICKLY, "random", n_classes=3)
    with pytest.raises(UnderstudyError, match=message):
        loop.tell(rows, labels)
    assert len(loop.labelled) == 0


def test_no_answer_at_all_is_an_answer_too() -> None:
    loop = ActiveLoop(ARRAYS.features, QUICKLY, "random", n_classes=3)
    assert len(loop.tell([], []).labelled) == 0


def test_one_strategy_may_start_many_loops() -> None:
    strategy = make_strategy("surrogate")
    plays = [played(ActiveLoop(ARRAYS.features, QUICKLY, strategy, [10, 15], n_classes=3), 20) for _ in range(2)]
    assert plays[0] == plays[1]


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_the_surrogate_stays_the_same_through_all_rounds(kind: type) -> None:
    loop = ActiveLoop(ARRAYS.features.astype(kind), QUICKLY, "surrogate", [10, 15, 20], n_classes=3)
    played(loop, 22)
    surrogate = loop.strategy.surrogate  # type: ignore[attr-defined]
    assert surrogate.parts.ledger.accuracy()[1] == 12  # all but the first ten


def test_the_end_of_the_pool_is_said_and_nothing_is_lost() -> None:
    loop = ActiveLoop(ARRAYS.features, QUICKLY, "margin", schedule=[10], n_classes=3)
    played(loop, 78, at_once=13)
    with pytest.raises(PoolExhausted, match="asked for 3 rows, but only 2 of 80"):
        loop.ask(3)
    assert len(loop.ask(2)) == 2


# -- simulations --------------------------------------------------------------------------------------------------

LEARN = {name for name in STRATEGIES if isinstance(make_strategy(name), LearnsWithinRound)}
WITHIN_ROUNDS = sorted(LEARN - {"selection_via_proxy"})  # which passes on what it hears, to one that may not listen
AT_ONCE = ["margin", "badge", "typiclust", "learning_loss", "random"]


def loop_of(strategy: Any, schedule: Any = (10, 20), seed: int = 3) -> ActiveLoop:
    return ActiveLoop(pool(items=None), QUICKLY, strategy, schedule=schedule, random_state=seed)


@pytest.mark.parametrize("name", WITHIN_ROUNDS)
def test_a_rehearsal_is_asking_and_telling_one_by_one(name: str) -> None:
    one_by_one, rehearsed = loop_of(name), loop_of(name)
    rows = played(one_by_one, 26)
    parts = [rehearsed.rehearse(n, ARRAYS.truth) for n in (13, 1, 12)]  # across two trainings
    assert np.concatenate([part.rows for part in parts]).tolist() == rows
    assert (rehearsed.round, rehearsed.pending.tolist()) == (2, [])
    assert rehearsed.memory == one_by_one.memory
    np.testing.assert_array_equal(rehearsed.labels, one_by_one.labels)
    assert rehearsed.ask(3).tolist() == one_by_one.ask(3).tolist()


@pytest.mark.parametrize("name", AT_ONCE)
def test_a_rehearsal_of_others_is_asking_for_a_round_at_once(name: str) -> None:
    by_hand, rehearsed = loop_of(name), loop_of(name)
    rows: list[int] = []
    for n in (10, 10, 6):
        rows += played(by_hand, n, at_once=n)
    picks = rehearsed.rehearse(26, ARRAYS.truth)
    assert picks.rows.tolist() == rows
    assert len(picks.scores) == 26


@pytest.mark.parametrize(("inner", "expected"), [("margin", [6]), ("surrogate", [1] * 6)])
def test_a_strategy_with_a_proxy_is_asked_for_a_round_at_once_unless_it_learns_within_one(
    inner: str, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    select = SelectionViaProxy.select

    def noted(self: SelectionViaProxy, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        asked.append(n)
        return select(self, view, n, rng)

    loop = loop_of(SelectionViaProxy(make_strategy(inner), proxy=QUICKLY))
    loop.rehearse(10, ARRAYS.truth)
    monkeypatch.setattr(SelectionViaProxy, "select", noted)
    loop.rehearse(6, ARRAYS.truth)
    assert asked == expected
    assert bool(loop.memory) == (inner == "surrogate")


def test_pending_rows_are_minded_in_a_rehearsal() -> None:
    loop = loop_of("surrogate")
    played(loop, 10)
    waiting = loop.ask(2).tolist()
    rows = loop.rehearse(5, ARRAYS.truth).rows.tolist()
    assert not set(rows) & set(waiting)
    assert loop.pending.tolist() == waiting


def test_a_rehearsal_needs_a_class_for_every_row_and_at_least_one_pick() -> None:
    with pytest.raises(UnderstudyError, match="truth must be a class for each of 80 rows"):
        loop_of("margin").rehearse(2, ARRAYS.truth[:70])
    with pytest.raises(UnderstudyError, match="n must be a whole number of at least 1"):
        loop_of("margin").rehearse(0, ARRAYS.truth)


def test_with_an_empty_schedule_it_trains_when_it_is_told_to_and_not_before() -> None:
    loop = loop_of("margin", schedule=())
    loop.tell(np.arange(40), ARRAYS.truth[:40])
    assert loop.round == 0
    with pytest.raises(UnderstudyError, match="there is no model yet"):
        loop.predict_classes([1])
    assert loop.train().round == 1
    assert loop.view.round == 1
    loop.rehearse(30, ARRAYS.truth)
    assert loop.round == 1


@pytest.mark.parametrize("name", ["margin", "random"])
def test_predictions_of_rows_are_those_of_the_model(name: str) -> None:
    loop = loop_of(name, schedule=())
    loop.tell(np.arange(20), ARRAYS.truth[:20]).train()
    expected = loop.model.predict_proba(ARRAYS.features).argmax(1)
    for _ in range(2):  # before and after there is a view
        np.testing.assert_array_equal(loop.predict_classes([5, 70, 3]), expected[[5, 70, 3]])
        loop.ask()


@pytest.mark.parametrize("name", ["margin", "learning_loss", "weight_schedule", "selection_via_proxy", "surrogate"])
def test_loops_that_are_trained_together_are_what_each_is_alone(name: str) -> None:
    strategy = make_strategy(name) if name != "selection_via_proxy" else SelectionViaProxy(proxy=QUICKLY)
    alone, together = ([loop_of(strategy, (), seed) for seed in range(3)] for _ in range(2))
    for number in range(3):
        for loops in (alone, together):
            for loop in loops:
                if number:
                    loop.rehearse(5, ARRAYS.truth)
                else:
                    rows = np.random.default_rng(loop._seed).choice(80, 12, replace=False)
                    loop.tell(rows, ARRAYS.truth[rows])
        for loop in alone:
            loop.train()
        train_together(together)
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one.labels, other.labels)
            assert (one.round, other.round) == (number + 1, number + 1)
            probs = one.model.predict_proba(ARRAYS.features)
            np.testing.assert_allclose(probs, other.model.predict_proba(ARRAYS.features), atol=1e-5)
        for model, loop in zip(fit_plainly(together), alone, strict=True):
            (expected,) = fit_plainly([loop])
            probs = expected.predict_proba(ARRAYS.features)
            np.testing.assert_allclose(probs, model.predict_proba(ARRAYS.features), atol=1e-5)


def test_without_the_strategys_hand_it_is_the_common_learner() -> None:
    plain, changed = loop_of("margin", ()), loop_of("learning_loss", ())
    for loop in (plain, changed):
        loop.tell(np.arange(20), ARRAYS.truth[:20]).train()
    expected = plain.model.predict_proba(ARRAYS.features)
    (found,) = fit_plainly([changed])
    np.testing.assert_array_equal(found.predict_proba(ARRAYS.features), expected)
    assert np.abs(changed.model.predict_proba(ARRAYS.features) - expected).max() > 1e-4


def test_what_is_drawn_while_a_strategy_waits_depends_on_the_number_of_labels_alone() -> None:
    """A support vector machine needs two classes; until it has them rows are drawn."""
    first = loop_of("svm_margin", ())
    truth = np.zeros(80, dtype=np.int64)
    first.tell([0, 1], truth[:2]).train().rehearse(3, truth)
    first.train()
    second = loop_of("svm_margin", ())
    second.tell(first.labelled, truth[first.labelled]).train()
    assert second.rehearse(4, truth).rows.tolist() == first.rehearse(4, truth).rows.tolist()


def test_an_interrupted_training_is_known() -> None:
    loop = loop_of("margin", ()).tell(np.arange(12), ARRAYS.truth[:12])
    assert not loop.interrupted
    assert not loop.train().interrupted
