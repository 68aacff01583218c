"""Tests that need something which is not there say so and are skipped, or fail where nothing may be left out."""

import importlib
import os
from typing import Any, NoReturn

import pytest

STRICT = "UNDERSTUDY_LEAVE_NOTHING_OUT"


def leave_out(reason: str) -> NoReturn:
    """Skip the test or module with a reason, or fail it where the environment says that nothing may be left out."""
    if os.environ.get(STRICT):
        pytest.fail(f"{reason} ({STRICT} is set)", pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def import_or_leave_out(name: str) -> Any:
    """A module of a library that not everybody installs."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        leave_out(f"{name} cannot be imported ({error}); `make setup` installs it")
