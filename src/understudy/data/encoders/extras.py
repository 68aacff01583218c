"""Libraries that come with an extra: imported when an encoder needs them, missed in one line."""

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from understudy.errors import UnderstudyError


def library(module: str, extra: str) -> Any:
    """The imported module, or the line that says how to get it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UnderstudyError(
            f"this encoder needs {error.name}, which is not installed; pip install understudy[{extra}]"
        ) from error
    except (ImportError, RuntimeError) as error:
        raise UnderstudyError(
            f"{module} is installed but cannot be imported ({one_line(error)}); pip install --force-reinstall "
            f"understudy[{extra}]"
        ) from error


def is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def major(module: Any) -> str:
    return str(module.__version__).split(".")[0]


@contextmanager
def from_hub(model: str, remedy: str) -> Iterator[None]:
    """What goes wrong while a model is fetched, in one line with its remedy."""
    try:
        yield
    except UnderstudyError:
        raise
    except Exception as error:  # the hub's clients raise their own, the network's and the file system's
        raise UnderstudyError(f"{model} could not be had from the hub ({one_line(error)}); {remedy}") from error


def one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) < 200 else f"{text[:200]}..."
