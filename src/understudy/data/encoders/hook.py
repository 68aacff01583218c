"""Your own encoder: a function in a file or a module. It is run, so name only what you trust."""

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from understudy.data.encoders.extras import one_line
from understudy.data.encoders.protocol import Encoder
from understudy.data.encoders.spec import Spec
from understudy.errors import UnderstudyError

MEMBERS = ("name", "identity", "kind", "dim", "prepare", "encode")


def own_encoder(spec: Spec) -> Encoder:
    """What `NAME(weights=..., device=...)` of `FILE_OR_MODULE:NAME` returns."""
    place, _, name = spec.model.rpartition(":")
    if not place or not name:
        raise UnderstudyError(
            f"write python:FILE_OR_MODULE:NAME, such as python:my_encoder.py:encoder; got {spec.name!r}"
        )
    if spec.options:
        raise UnderstudyError("python: takes no options; put the preprocessing into your encoder")
    make = getattr(imported(place), name, None)
    if not callable(make):
        raise UnderstudyError(f"{place} has no function {name!r}; write def {name}(weights, device)")
    encoder = make(weights=spec.weights, device=spec.device)
    lacking = [member for member in MEMBERS if not hasattr(encoder, member)]
    if lacking:
        raise UnderstudyError(f"what {place}:{name} returned lacks {', '.join(lacking)}; return an ImageEncoder")
    return encoder


def imported(place: str) -> ModuleType:
    path = Path(place)
    try:
        if path.suffix != ".py":
            return importlib.import_module(place)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except (ImportError, FileNotFoundError, SyntaxError) as error:
        raise UnderstudyError(
            f"{place} cannot be imported ({one_line(error)}); check the path or install it"
        ) from error
    return module
