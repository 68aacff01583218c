"""Schedules, and who draws which random numbers."""

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from understudy import UnderstudyError
from understudy.experiments.plan import Plan, check_schedule, default_schedule, parse_schedule, refine_schedule


def plan(schedule: tuple[int, ...] = (10, 20), seed: int = 0) -> Plan:
    return Plan("digits", "d1", ("a", "b"), pool_rows=100, test_rows=20, learner="modern", schedule=schedule, seed=seed)


def test_large_pools_have_the_papers_schedule_and_it_may_be_asked_for() -> None:
    paper = (600, 800, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10_000, 11_000)
    assert default_schedule(None, 20_001, 10) == paper
    assert default_schedule("paper", 12_000, 10) == paper


@pytest.mark.parametrize(("rows", "classes"), [(1297, 10), (20_000, 200), (90, 3)])
def test_small_pools_have_ten_steps_from_two_a_class_to_half_the_pool(rows: int, classes: int) -> None:
    steps = default_schedule(None, rows, classes)
    assert (len(steps), steps[0], steps[-1]) == (10, 2 * classes, rows // 2)
    ratio = (steps[-1] / steps[0]) ** (1 / 9)
    assert all(abs(b - a * ratio) <= 1 + ratio / 2 for a, b in pairwise(steps))
    assert steps == default_schedule("small", rows, classes)


def test_a_tiny_pool_has_fewer_steps_and_none_twice() -> None:
    assert default_schedule(None, 20, 4) == (8, 9, 10)
    assert default_schedule(None, 12, 4) == (8,)
    assert default_schedule("small", 30_000, 10)[-1] == 15_000


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ((10, 101), "the schedule ends at 101 labels, but the pool has 100 rows; end it at 100 or fewer"),
        ((1, 5), "the schedule starts from 1 labels for 2 classes; start from 2 or more"),
        ((), "a schedule must be increasing numbers of labels; got none"),
        ((5, 5), "increasing numbers of labels; got 5,5"),
        ((9, 5), "increasing numbers of labels; got 9,5"),
        ((0, 5), "must be a whole number of at least 1; got 0"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(schedule: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=re.escape(message)):
        check_schedule(schedule, 100, 2)
    with pytest.raises(UnderstudyError, match=re.escape(message)):
        plan(schedule)


def test_schedules_are_typed_as_numbers_or_equal_steps() -> None:
    assert parse_schedule("600,800,1_000") == (600, 800, 1000)
    assert parse_schedule("600, 1000:3000:1000") == (600, 1000, 2000, 3000)
    for text in ("", "600,", "a", "1:5", "5:1:0", "1:2:3:4", "1.5"):
        with pytest.raises(UnderstudyError, match="a schedule must be numbers of labels"):
            parse_schedule(text)


def test_ten_trainings_for_one_where_there_are_labels_enough() -> None:
    assert refine_schedule((10, 20, 40), 10) == (*range(10, 21), *range(22, 41, 2))
    assert refine_schedule((10, 13), 10) == (10, 11, 12, 13)
    assert refine_schedule((10,), 10) == (10,)
    assert {600, 801, 1000} <= set(refine_schedule((600, 801, 1000), 10))


def test_initial_rows_and_seeds_are_of_the_repetition_and_of_nothing_else() -> None:
    rows = [plan().initial_rows(repeat) for repeat in range(3)]
    assert all(len(set(some.tolist())) == 10 and some.max() < 100 for some in rows)
    assert len({tuple(some.tolist()) for some in rows}) == 3
    np.testing.assert_array_equal(plan().initial_rows(1), rows[1])
    assert len({plan(seed=seed).run_seed(repeat) for seed in range(2) for repeat in range(3)}) == 6
    assert plan((10, 30)).run_seed(1) == plan().run_seed(1)
