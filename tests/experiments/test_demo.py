"""The demo, run small: what is paired is paired, and what is written is what was found."""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from understudy import Surrogate, UnderstudyError
from understudy.experiments import demo
from understudy.experiments.curves import Curves
from understudy.strategies.registry import make_strategy

SCHEDULE = (20, 25, 40)


@pytest.fixture(scope="module", autouse=True)
def small_arrays() -> Iterator[None]:
    with demo.one_thread():
        yield


@pytest.fixture(scope="module")
def task() -> demo.Task:
    return demo.digits()


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> Curves:
    return demo.run_demo(repeats=2, schedule=SCHEDULE, seed=3, out=tmp_path_factory.mktemp("demo") / "new" / "folder")


def curve(task: demo.Task, strategy: str, seed: int = 3, repeat: int = 0) -> list[float]:
    return list(demo.learning_curve(task, strategy, SCHEDULE, seed, repeat))


def probabilities(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(10, 0.3), n).astype(np.float32)


def test_strategies_start_alike_and_part(curves: Curves) -> None:
    first = np.stack([accuracy[:, 0] for accuracy in curves.accuracy.values()])
    last = np.stack([accuracy[:, -1] for accuracy in curves.accuracy.values()])
    assert (first == first[0]).all()
    assert len(np.unique(last, axis=0)) == len(demo.STRATEGIES)


def test_initial_labels_and_learner_seeds_are_those_of_the_repetition(
    task: demo.Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings: list[tuple[bytes, int]] = []  # the images and the seed of each

    def train(features: np.ndarray, _labels: np.ndarray, _n_classes: int, seed: int) -> demo.Predict:
        trainings.append((features[:20].tobytes(), seed))
        return lambda images: probabilities(len(images))

    monkeypatch.setattr(demo, "train", train)
    for repeat in (0, 1):
        for strategy in demo.STRATEGIES:
            curve(task, strategy, repeat=repeat)
    once, again = trainings[: len(SCHEDULE)], trainings[-len(SCHEDULE) :]
    assert trainings == once * len(demo.STRATEGIES) + again * len(demo.STRATEGIES)
    assert once[0][0] != again[0][0]
    assert len({seed for _, seed in once + again}) == 2 * len(SCHEDULE)


def test_learners_learn(curves: Curves) -> None:
    for accuracy in curves.accuracy.values():
        assert (accuracy[:, 0] > 0.3).all()
        assert (accuracy[:, -1] > accuracy[:, 0]).all()


def test_a_curve_does_not_depend_on_what_ran_before_it(task: demo.Task, curves: Curves) -> None:
    torch.manual_seed(99)
    np.testing.assert_array_equal(curve(task, "random", repeat=1), curves.accuracy["random"][1])
    np.testing.assert_array_equal(curve(task, "surrogate", repeat=1), curves.accuracy["surrogate"][1])


def test_another_seed_gives_another_curve(task: demo.Task, curves: Curves) -> None:
    assert curve(task, "random", seed=4) != curves.accuracy["random"][0].tolist()


def test_the_table_on_disk_is_what_was_found(curves: Curves) -> None:
    with curves.files[0].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * len(demo.STRATEGIES) * len(SCHEDULE)
    for row in rows:
        found = curves.accuracy[row["strategy"]][int(row["repeat"]), SCHEDULE.index(int(row["labels"]))]
        assert (row["dataset"], float(row["accuracy"])) == ("digits", found)


def test_pictures_are_drawn(curves: Curves) -> None:
    _, png, svg = curves.files
    assert png.read_bytes().startswith(b"\x89PNG")
    assert all(f"<!-- {name} -->" in svg.read_text() for name in demo.STRATEGIES)


def test_without_matplotlib_there_is_a_table_and_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert demo.run_demo(repeats=1, schedule=(5,), out=tmp_path).files == (tmp_path / "digits.csv",)
    assert [path.name for path in tmp_path.iterdir()] == ["digits.csv"]


def test_pool_and_test_images_are_apart_and_scaled(task: demo.Task) -> None:
    images = np.concatenate([task.pool, task.test])
    assert (len(task.pool), len(task.test)) == (1297, 500)
    assert len(np.unique(images, axis=0)) == 1797  # no image twice, so none on both sides
    assert (images.min(), images.max()) == (0, 1)
    np.testing.assert_allclose(
        np.bincount(task.pool_labels) / len(task.pool), np.bincount(task.test_labels) / len(task.test), atol=0.003
    )


def test_the_same_seed_trains_the_same_learner_and_leaves_the_global_stream_alone(task: demo.Task) -> None:
    before = torch.get_rng_state()
    a, b, c = (demo.train(task.pool[:30], task.pool_labels[:30], 10, seed)(task.test) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.allclose(a, c)
    np.testing.assert_allclose(a.sum(1), 1, atol=1e-5)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("strategy", demo.STRATEGIES)
def test_rows_are_new_and_as_many_as_asked(task: demo.Task, strategy: str) -> None:
    labelled, probs = np.arange(0, 1200, 2), probabilities(len(task.pool))
    rows = demo.chosen(make_strategy(strategy), task, probs, labelled, 30, np.random.default_rng(0))
    assert len(set(rows.tolist()) - set(labelled.tolist())) == len(rows) == 30
    np.testing.assert_array_equal(probs, probabilities(len(task.pool)))


def test_the_surrogate_is_told_each_label_before_it_chooses_the_next(task: demo.Task) -> None:
    labelled = np.arange(20)
    probs = demo.train(task.pool[labelled], task.pool_labels[labelled], 10, seed=0)(task.pool)
    rows = demo.chosen(make_strategy("surrogate"), task, probs, labelled, 20, np.random.default_rng(7))
    seed = int(np.random.default_rng(7).integers(2**63))
    told, blind = (Surrogate(task.pool, 10, random_state=seed).anchor(probs, labelled) for _ in range(2))
    np.testing.assert_array_equal(rows, told.rehearse(task.pool_labels, 20))
    assert rows.tolist() != blind.ask(20).tolist()


@pytest.mark.parametrize("schedule", [(), (20, 20), (40, 20), (20, 1298)])
def test_a_schedule_that_cannot_be_kept_is_refused(tmp_path: Path, schedule: tuple[int, ...]) -> None:
    with pytest.raises(UnderstudyError, match="grow, up to 1297"):
        demo.run_demo(repeats=1, schedule=schedule, out=tmp_path)


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"seed": -1}, {"schedule": (0, 5)}])
def test_numbers_out_of_range_are_refused(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(UnderstudyError, match="whole number of at least"):
        demo.run_demo(**{"repeats": 1, "schedule": (5,), "out": tmp_path} | wrong)  # type: ignore[arg-type]


def test_a_folder_that_cannot_be_made_is_said_before_any_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "train", lambda *_: pytest.fail("trained"))
    (tmp_path / "file").touch()
    with pytest.raises(UnderstudyError, match="choose another folder"):
        demo.run_demo(repeats=1, out=tmp_path / "file" / "below")


def test_the_number_of_threads_is_restored() -> None:
    torch.set_num_threads(2)  # the fixture above puts back what the other tests had
    with demo.one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
