"""Weights from a local file into a network. A file is data: code that one may carry is never run."""

import os
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from understudy.errors import UnderstudyError, UsageError
from understudy.messages import list_some

FORCED = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
WRAPPERS = ("state_dict", "model")  # what training scripts put around a state dict


def load_weights(
    module: nn.Module,
    path: Path | str,
    *,
    ignored: Iterable[str] = (),
    rename: Callable[[dict[str, Tensor]], dict[str, Tensor]] = lambda given: given,
) -> None:
    """Fill a network from a `.safetensors`, `.pt`, `.pth` or `.bin` file.

    Names that begin with one of `ignored` may be in the file for nothing: a classifier that was cut off. `rename` gives
    what another library wrote the names of this network.
    """
    path = Path(path)
    given = rename(_read_weights(path))
    own = module.state_dict()
    # Old files lack this counter, and nothing that is computed depends on it.
    missing = [name for name in own if name not in given and not name.endswith("num_batches_tracked")]
    unexpected = [name for name in given if name not in own and not name.startswith(tuple(ignored))]
    if missing or unexpected:
        found = [
            f"{what}: {list_names(names)}" for what, names in (("missing", missing), ("not known", unexpected)) if names
        ]
        raise UnderstudyError(f"{path} does not fit this network ({'; '.join(found)}); give the file of this model")
    for name, tensor in own.items():
        if name in given and given[name].shape != tensor.shape:
            raise UnderstudyError(
                f"{path} does not fit this network: {name} has shape {tuple(given[name].shape)}, "
                f"{tuple(tensor.shape)} is needed; give the file of this model"
            )
    try:
        module.load_state_dict({name: given.get(name, tensor) for name, tensor in own.items()})
    except Exception as error:  # a damaged file can hold tensors that nothing can be copied from
        raise _broken(path) from error


def _read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors in a file, by name."""
    if not path.is_file():
        raise UsageError(f"there is no file of weights at {path}; check what follows the @")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with warnings.catch_warnings():
            # What torch cannot unpickle is an error in the next line; a warning before it says nothing more.
            warnings.filterwarnings("ignore", "Detected pickle protocol")
            return _unwrap(torch.load(path, map_location="cpu", weights_only=True), path)
    except UnderstudyError:
        raise
    except pickle.UnpicklingError as error:
        raise UnderstudyError(
            f"{path} holds more than tensors, or is broken; what it holds was not run. "
            "Save the weights alone: safetensors, or torch.save(model.state_dict(), FILE)"
        ) from error
    except Exception as error:  # what a damaged byte leads to is anyone's guess
        raise _broken(path) from error


def _broken(path: Path) -> UnderstudyError:
    return UnderstudyError(f"{path} is broken or no file of weights; copy it again")


@contextmanager
def tensors_only() -> Iterator[None]:
    """Where other libraries read files with torch, none of them runs what a file carries, whatever they ask for."""
    before = os.environ.get(FORCED)
    os.environ[FORCED] = "1"
    try:
        yield
    finally:
        os.environ.pop(FORCED)
        if before is not None:
            os.environ[FORCED] = before


def _unwrap(loaded: Any, path: Path) -> dict[str, Tensor]:
    """A state dict as it is, or inside what training scripts and DataParallel put around it."""
    for wrapper in WRAPPERS:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(wrapper), Mapping):
            loaded = loaded[wrapper]
    if not isinstance(loaded, Mapping) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in loaded.items()
    ):
        raise UnderstudyError(f"{path} is not a state dict; save one with torch.save(model.state_dict(), FILE)")
    if loaded and all(name.startswith("module.") for name in loaded):
        return {name.removeprefix("module."): value for name, value in loaded.items()}
    return dict(loaded)


def list_names(names: list[str]) -> str:
    """The first few names of parameters, which come from a file and may hold anything."""
    return list_some((name if name.isprintable() else ascii(name) for name in names), 4)
