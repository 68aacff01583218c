"""Your own encoder: a function in a file or a module. It is run, so name only what you trust."""

import importlib
import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from understudy.data.encoders.extras import describe_error, one_line
from understudy.data.encoders.protocol import Encoder
from understudy.data.encoders.spec import WEIGHTS, Spec
from understudy.errors import UnderstudyError, UsageError

MEMBERS = ("name", "identity", "kind", "dim", "prepare", "encode")


def own_encoder(spec: Spec) -> Encoder:
    """What `NAME(weights=..., device=...)` of `FILE_OR_MODULE:NAME` returns."""
    place, _, name = spec.model.rpartition(":")
    if not place or not name:
        raise UsageError(f"write python:FILE_OR_MODULE:NAME, such as python:my_encoder.py:encoder; got {spec.name!r}")
    if "@" in name:
        raise UsageError(f"a file of weights ends in {', '.join(WEIGHTS)}; got {spec.name!r}")
    if spec.options:
        raise UsageError("python: takes no options; put the preprocessing into your encoder")
    make = getattr(_import_place(place), name, None)
    if not callable(make):
        raise UsageError(f"{place} has no function {name!r}; write def {name}(weights, device)")
    _require_arguments(make, place, name)
    try:
        encoder: Encoder = make(weights=spec.weights, device=spec.device)
        lacking = [member for member in MEMBERS if not hasattr(encoder, member)]
    except UnderstudyError:
        raise
    except Exception as error:  # whatever people's code raises
        raise UnderstudyError(
            f"{place}:{name} failed ({describe_error(error)}); mend it, --debug shows where"
        ) from error
    if lacking:
        raise UnderstudyError(f"what {place}:{name} returned lacks {', '.join(lacking)}; return an ImageEncoder")
    return encoder


def _require_arguments(make: Callable[..., Any], place: str, name: str) -> None:
    try:
        signature = inspect.signature(make)
    except ValueError:
        return  # not written in Python
    try:
        signature.bind(weights=None, device="cpu")
    except TypeError as error:
        raise UnderstudyError(
            f"{place}:{name} takes {signature}, {one_line(error)}; write def {name}(weights, device)"
        ) from error


def _import_place(place: str) -> ModuleType:
    path = Path(place)
    try:
        if path.suffix != ".py":
            return importlib.import_module(place)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise UsageError(
            f"{place} cannot be imported ({describe_error(error)}); check the path or install it"
        ) from error
    except OSError as error:
        raise UsageError(f"{place} cannot be imported ({describe_error(error)}); check the path") from error
    except Exception as error:  # whatever people's code raises
        raise UnderstudyError(
            f"{place} cannot be imported ({describe_error(error)}); mend it, --debug shows where"
        ) from error
    return module
