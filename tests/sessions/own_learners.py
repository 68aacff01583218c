"""Learners that do not survive, and one that does, for the training process to import."""

import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from understudy.learners.protocol import Model, Offer, Takes


@dataclass(frozen=True)
class Own:
    """Does something odd when it is fitted."""

    what: str
    takes: Takes = "features"
    offers: frozenset[Offer] = field(default=frozenset())

    def fit(self, inputs: Any, labels: np.ndarray, n_classes: int, *, seed: int = 0, progress: bool = False) -> Model:
        if self.what == "raise":
            raise RuntimeError("stumbled\nover its own feet")
        if self.what == "exit":
            os.write(2, b"last words\n")
            os._exit(3)
        if self.what == "leave":
            sys.exit("had enough")
        if self.what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.what == "fault":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.what == "sleep":
            Path(os.environ["ASLEEP"]).write_text(str(os.getpid()))
            time.sleep(300)
        if self.what == "hoard":
            bytearray(2**50)
        return Even(n_classes, {"wide": 1, "nan": 0}.get(self.what, 0), np.nan if self.what == "nan" else 1.0)


@dataclass(frozen=True)
class Even:
    """Finds all classes equally likely, unless something is added."""

    n_classes: int
    more: int
    factor: float
    interrupted: bool = False

    def predict_proba(self, inputs: Any) -> np.ndarray:
        return np.full((len(inputs), self.n_classes + self.more), self.factor / self.n_classes)


raising, exiting, leaving, dying, faulting, sleeping, hoarding, even, wide, undecided = (
    Own(what) for what in ("raise", "exit", "leave", "die", "fault", "sleep", "hoard", "even", "wide", "nan")
)
of_images = Own("even", takes="images")
