"""Libraries that come with an extra: imported when an encoder needs them, missed in one line."""

import importlib
import importlib.util
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from understudy.errors import UnderstudyError
from understudy.messages import install_command, reason_of

BUILT_FOR_TORCH: Final = ("torchvision", "torchaudio")  # of no use with another torch than theirs


def import_library(module: str, extra: str) -> Any:
    """The imported module, or the line that says how to get it."""
    with explain_import_errors(module, extra):
        return importlib.import_module(module)


@contextmanager
def explain_import_errors(module: str, extra: str) -> Iterator[None]:
    """What goes wrong while a library, or a part that it imports when asked for, is imported: in one line."""
    try:
        yield
    except Exception as error:  # a library that does not fit another raises whatever it meets
        first = _origin(error)
        if isinstance(first, ModuleNotFoundError) and first.name:
            raise UnderstudyError(
                f"this encoder needs {first.name}, which is not installed; {install_command(extra)}"
            ) from error
        broken = _failing(first) or module
        again = f"torch {broken}" if broken in BUILT_FOR_TORCH else broken
        raise UnderstudyError(
            f"{module} is installed but cannot be imported: {broken} fails ({describe_error(first)}); "
            f"pip install --force-reinstall {again}"
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
    """What goes wrong while a model is fetched, in one line with its remedy."""
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
