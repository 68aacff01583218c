"""Stand-ins for packages that playing needs by name only.

Results are stored as Parquet and progress is drawn by `rich`, but a driver that writes its own files does neither. On a
machine without these packages their names are enough to import the rest. Call `stand_in` before understudy is imported,
and `step_back` after: what then asks whether a package is there gets the truth.
"""

import importlib
import sys
from collections.abc import Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

NEEDED: Final = ("torch", "numpy", "scipy", "sklearn", "threadpoolctl", "jaxtyping", "safetensors", "PIL")
BY_NAME_ONLY: Final = ("pyarrow", "filelock", "rich", "platformdirs")


class Nothing(type):
    """A class of any name, to be called, looped over and inherited from; none of it does anything."""

    def __getattr__(cls, name: str) -> "Nothing":
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name, (), {})

    def __call__(cls, *args: Any, **settings: Any) -> "Nothing":
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


class Empty(ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []  # so that modules within it are looked for

    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name, (), {})


class StandIns(MetaPathFinder, Loader):
    """Finds the modules of these packages, empty ones."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] in self.packages else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def missing(packages: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in packages if find_spec(name) is None)


def stand_in(packages: tuple[str, ...]) -> StandIns:
    found = StandIns(packages)
    sys.meta_path.append(found)
    return found


def step_back(stand_ins: StandIns) -> None:
    sys.meta_path.remove(stand_ins)
    for name in list(sys.modules):
        if name.partition(".")[0] in stand_ins.packages:
            del sys.modules[name]


def versions() -> str:
    """One line: what is there, and what is not."""
    told = [f"python {sys.version.split()[0]}"]
    for name in (*NEEDED, *BY_NAME_ONLY):
        if find_spec(name) is None:
            told.append(f"{name} MISSING")
        else:
            told.append(f"{name} {getattr(importlib.import_module(name), '__version__', '')}".strip())
    return ", ".join(told)
