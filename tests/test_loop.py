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
from understudy.loop import STREAM_STRATEGY
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import top
from understudy.strategies.registry import STRATEGIES, make_strategy
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
    seed = int(np.random.default_rng([5, STREAM_STRATEGY]).integers(2**63))
    s = Surrogate(ARRAYS.features, 3, random_state=seed)
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
    with pytest.raises(UnderstudyError, match="tell labels until there are 10"):
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
        ({"strategy": "bgadl"}, "Bgadl makes up images, which Head cannot learn from"),
        ({"schedule": []}, "a schedule is numbers of labels that grow, at most 80"),
        ({"schedule": [10, 5]}, "numbers of labels that grow"),
        ({"schedule": [10, 81]}, "at most 80; got"),
        ({"schedule": [0]}, "must be 1 or more"),
        ({"n_classes": 0}, "n_classes must be 1 or more"),
        ({"random_state": -1}, "random_state must be 0 or more"),
        ({"pool": np.zeros(5)}, "one row an item; got shape"),
        ({"pool": ARRAYS.features, "n_classes": None}, "give n_classes"),
        ({"pool": pool(features=None)}, "Head needs features, and this pool has none; make some: understudy embed"),
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
        ([1, 1], [0, 0], "some came twice"),
        ([1, 2], [0], "2 rows need as many"),
        ([1], [0.5], "whole numbers as labels; got float64"),
        ([1], [3], "labels must be 0 to 2 for 3 classes; got 3"),
        ([0.5], [0], "rows must be numbers of rows"),
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
    assert surrogate._ledger.accuracy()[1] == 12  # all but the first ten


def test_the_end_of_the_pool_is_said_and_nothing_is_lost() -> None:
    loop = ActiveLoop(ARRAYS.features, QUICKLY, "margin", schedule=[10], n_classes=3)
    played(loop, 78, at_once=13)
    with pytest.raises(PoolExhausted, match="asked for 3 rows, but only 2 of 80"):
        loop.ask(3)
    assert len(loop.ask(2)) == 2
