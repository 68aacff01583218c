"""Tests that need a part of the system which is not there: they say so, or fail where nothing may be left out."""

import os
from typing import NoReturn

import pytest

STRICT = "UNDERSTUDY_LEAVE_NOTHING_OUT"


def left_out(reason: str) -> NoReturn:
    """Skip the test with a reason, or fail it where the environment says that nothing may be left out."""
    if os.environ.get(STRICT):
        pytest.fail(f"{reason} ({STRICT} is set)")
    pytest.skip(reason)
