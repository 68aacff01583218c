"""Optional libraries: imported when an encoder needs them; where one is missing, an error says what to install."""

import functools
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

import torch

from understudy.errors import UnderstudyError
from understudy.messages import index_of_build, install_command, reason_of

TORCHVISION: Final = "torchvision"
USE_TORCHVISION: Final = (
    "timm",
    "transformers",
    "sentence_transformers",
    "lightning.pytorch",
)  # and fail with it where it is there
OPERATORS: Final = "torchvision._meta_registrations"  # the module that describes the compiled operators to torch
MINORS_APART: Final = 15  # torch 2.13 and torchvision 0.28 belong together, and so on, since 2.0 and 0.15


def import_library(module: str, extra: str, who: str = "this encoder") -> Any:
    """The imported module, or the line that says how to get it."""
    if module in USE_TORCHVISION:
        import_torchvision()
    with explain_import_errors(module, extra, who):
        return importlib.import_module(module)


@functools.cache
def import_torchvision() -> str | None:
    """Import torchvision as far as it goes. None, or the line that mends one which does not fit torch.

    One that was built for another torch fails as a whole, since its compiled operators are not there, and takes timm
    and transformers with it. Neither uses them: without them, the part that is written in Python is imported. Where
    that fails too, torchvision is hidden, and what can do without it does.
    """
    if not is_found(TORCHVISION):
        return None
    try:
        importlib.import_module(TORCHVISION)
    except Exception as error:  # RuntimeError, OSError, AttributeError: whatever the first operator leads to
        reason = describe_error(error)
    else:
        return None
    _forget(TORCHVISION)
    sys.modules[OPERATORS] = ModuleType(OPERATORS)
    try:
        importlib.import_module(TORCHVISION)
    except Exception:
        _forget(TORCHVISION)
        sys.modules[TORCHVISION] = None  # type: ignore[assignment]  # how Python says that there is no such module
    return f"torchvision does not fit torch {torch.__version__} ({reason}); {mending_command(torch.__version__)}"


def _forget(package: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def mending_command(torch_version: str) -> str:
    """The command that installs the torchvision of this torch, of the same build."""
    found = re.match(r"2\.(\d+)", torch_version)
    wanted = f"torchvision==0.{int(found[1]) + MINORS_APART}.*" if found else TORCHVISION
    return f"pip install --force-reinstall --no-deps '{wanted}'{index_of_build(torch_version)}"


@contextmanager
def explain_import_errors(module: str, extra: str, who: str = "this encoder") -> Iterator[None]:
    """Turn errors while a library, or a part that it imports lazily, is imported into one line."""
    try:
        yield
    except Exception as error:  # a library that does not fit another raises whatever it meets
        first = _origin(error)
        if isinstance(first, ModuleNotFoundError) and first.name:
            if first.name.partition(".")[0] == TORCHVISION and (fault := import_torchvision()):
                raise UnderstudyError(f"{module} needs torchvision, but {fault}") from error
            raise UnderstudyError(
                f"{who} needs {first.name}, which is not installed; {install_command(extra)}"
            ) from error
        broken = _failing(first) or module
        remedy = (
            mending_command(torch.__version__) if broken == TORCHVISION else f"pip install --force-reinstall {broken}"
        )
        raise UnderstudyError(
            f"{module} is installed but cannot be imported: {broken} fails ({describe_error(first)}); {remedy}"
        ) from error


def _origin(error: BaseException) -> BaseException:
    """The error with which it began; libraries that import their parts late wrap it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _failing(error: BaseException) -> str | None:
    """The package during whose import it happened."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_name == "<module>"]
    return str(frames[-1].f_globals["__name__"]).partition(".")[0] if frames else None


def is_found(module: str) -> bool:
    """Whether it is there. Whether it can be imported shows only when it is, which takes seconds."""
    return importlib.util.find_spec(module) is not None


def major_version(module: Any) -> str:
    return str(module.__version__).split(".")[0]


@contextmanager
def explain_hub_errors(model: str, remedy: str) -> Iterator[None]:
    """Turn errors while a model is fetched into one line with its remedy."""
    try:
        yield
    except UnderstudyError:
        raise
    except Exception as error:  # the hub's clients raise their own, the network's and the file system's
        raise UnderstudyError(f"{model} could not be had from the hub ({one_line(error)}); {remedy}") from error


def one_line(error: BaseException) -> str:
    text = reason_of(error)
    return text if len(text) < 200 else f"{text[:200]}..."


def describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {one_line(error)}" if str(error) else type(error).__name__


@contextmanager
def quiet_transformers(extra: str = "vision") -> Iterator[None]:
    """No reports and bars of the library's own; what they tell is told in our words."""
    logging = import_library("transformers", extra).utils.logging
    verbosity, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if has_bars:
            logging.enable_progress_bar()
