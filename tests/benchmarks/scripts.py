"""The scripts of benchmarks/ and the folders in it, which are not packages, as modules."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

PAPER = Path(__file__).parents[2] / "benchmarks" / "paper"
DEFAULT = PAPER.with_name("default")
SCALE = PAPER.with_name("scale")


def script(name: str) -> ModuleType:
    """A script as a module; it finds its neighbours as it does when it is run."""
    for folder in (PAPER, PAPER.parent, DEFAULT, SCALE):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    return importlib.import_module(name)


def write_task(file: Path, n: int = 400, columns: int = 5, classes: int = 3) -> Path:
    """A small task of overlapping classes, as the scripts read it."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(classes, columns)) * 1.5
    y = rng.integers(classes, size=n)
    yt = rng.integers(classes, size=100)
    X, Xt = (centres[labels] + rng.normal(size=(len(labels), columns)) for labels in (y, yt))
    np.savez(file, X=X.astype(np.float16), y=y.astype(np.int16), Xt=Xt.astype(np.float16), yt=yt.astype(np.int16))
    return file
