import math
from typing import Any

import numpy as np
import pytest
import torch

from understudy.checks import check_choice, check_flag, check_number, check_whole_number
from understudy.errors import UnderstudyError


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), torch.tensor(3)])
def test_whole_numbers_of_any_make_become_plain_ones(value: Any) -> None:
    found = check_whole_number("n", value, 1)
    assert found == 3
    assert type(found) is int


@pytest.mark.parametrize("value", [True, np.True_, 3.0, "3", None, np.array([1, 2])])
def test_what_is_not_a_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(UnderstudyError, match="n must be a whole number of at least 1; got"):
        check_whole_number("n", value, 1)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ((), "n must be a whole number; got 'x'"),
        ((2,), "n must be a whole number of at least 2; got 'x'"),
        ((0, 2**63 - 1), "n must be a whole number from 0 to 9223372036854775807; got 'x'"),
        ((None, 9), "n must be a whole number of at most 9; got 'x'"),
    ],
)
def test_the_bounds_of_a_whole_number_are_named(bounds: tuple[Any, ...], said: str) -> None:
    with pytest.raises(UnderstudyError) as caught:
        check_whole_number("n", "x", *bounds)
    assert str(caught.value) == said


@pytest.mark.parametrize("value", [0, 10])
def test_a_whole_number_outside_its_bounds_is_refused(value: int) -> None:
    with pytest.raises(UnderstudyError, match=f"n must be a whole number from 1 to 9; got {value}"):
        check_whole_number("n", value, 1, 9)
    assert check_whole_number("n", 1, 1, 9) == 1
    assert check_whole_number("n", 9, 1, 9) == 9


@pytest.mark.parametrize(
    ("value", "bounds", "said"),
    [
        (0, {"above": 0}, "w must be a number above 0; got 0"),
        (-1.0, {"least": 0}, "w must be a number of at least 0; got -1.0"),
        (1.0, {"least": 0, "below": 1}, "w must be a number of at least 0 and below 1; got 1.0"),
        (1.5, {"above": 0, "most": 1}, "w must be a number above 0 and of at most 1; got 1.5"),
        (0.95, {"least": 0.0, "most": 0.5}, "w must be a number from 0 to 0.5; got 0.95"),
        (math.nan, {}, "w must be a number; got nan"),
        (math.inf, {"least": 0}, "w must be a number of at least 0; got inf"),
        ("0.5", {}, "w must be a number; got '0.5'"),
        (None, {"above": 0}, "w must be a number above 0; got None"),
        (True, {}, "w must be a number; got True"),
        (10**400, {}, "w must be a number; got 1000"),
    ],
)
def test_what_a_number_must_be_is_named(value: Any, bounds: dict[str, float], said: str) -> None:
    with pytest.raises(UnderstudyError) as caught:
        check_number("w", value, **bounds)
    assert str(caught.value).startswith(said)


def test_numbers_become_floats() -> None:
    for value in (1, 1.0, np.float32(1), torch.tensor(1.0)):
        found = check_number("w", value, least=0, most=1)
        assert found == 1.0
        assert type(found) is float


def test_choices_and_flags() -> None:
    assert check_choice("on", "a", ("a", "b")) == "a"
    with pytest.raises(UnderstudyError, match="on must be one of a, b; got 'c'"):
        check_choice("on", "c", ("a", "b"))
    assert check_flag("bias", np.True_) is True
    with pytest.raises(UnderstudyError, match="bias must be True or False; got 1"):
        check_flag("bias", 1)
