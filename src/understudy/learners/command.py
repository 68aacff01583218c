"""A user's own training script as a learner: a command that reads labels and writes predictions."""

import csv
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import numpy as np

from understudy.errors import UnderstudyError
from understudy.learners.protocol import Offer, Takes, check_labels, check_seed
from understudy.learners.training import let_interrupts_through

FILES: Final = {
    "labels": "labels.csv",
    "items": "items.csv",
    "classes": "classes.txt",
    "predictions": "predictions.npy",
}
PLACE: Final = re.compile("{(labels|items|classes|predictions|seed)}")
BYTES_OF_OUTPUT: Final = 4096  # tail of its output that is read when a command fails
TOLERANCE: Final = 1e-3  # how far the sum of an item's probabilities may be from 1


@dataclass(frozen=True)
class Command:
    """`command` is run once per training. It reads two tables and writes one array.

    In the command, `{labels}` stands for a CSV file with columns `id` and `label`: the training set. `{items}` is a
    CSV file with the column `id`: the items to predict, all of `ids`. `{classes}` is a text file with one class
    per line. `{predictions}` is where the script writes its probabilities: an array (items, classes) as `.npy`, rows in
    the order of `{items}`, columns in that of `{classes}`. `{seed}` is an integer. The command runs in `folder`, not
    through a shell. If it fails, the last line of its output is shown.
    """

    command: str
    ids: tuple[str, ...]
    classes: tuple[str, ...]
    folder: Path = Path()
    timeout: float | None = None

    takes: Takes = field(default="ids", init=False)
    offers: frozenset[Offer] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        for place in ("labels", "predictions"):
            if "{" + place + "}" not in self.command:
                raise UnderstudyError(f"the command must contain {{{place}}}; got {self.command!r}")
        try:
            shlex.split(self.command)
        except ValueError as error:
            raise UnderstudyError(f"the command cannot be split into words ({error}); got {self.command!r}") from error
        for what, names in (("items", self.ids), ("classes", self.classes)):
            if len(set(names)) < len(names):
                twice = next(name for name, times in Counter(names).items() if times > 1)
                raise UnderstudyError(f"the names of the {what} must be distinct; {twice!r} appears twice")
        if broken := [name for name in self.classes if len(name.splitlines()) != 1]:
            raise UnderstudyError(f"a class name must be one line of text, as in {{classes}}; got {broken[0]!r}")
        if not self.folder.is_dir():
            raise UnderstudyError(f"the command's folder {self.folder} does not exist")

    def fit(
        self,
        inputs: Sequence[str],
        labels: np.ndarray,
        n_classes: int,
        *,
        seed: int = 0,
        progress: bool = False,
    ) -> "CommandModel":
        """Run the command on these items and labels; the model holds its predictions for all `ids`."""
        if n_classes != len(self.classes):
            raise UnderstudyError(
                f"the command was created with {len(self.classes)} classes, but {n_classes} are to be learnt"
            )
        labels, seed = check_labels(labels, len(inputs), n_classes), check_seed(seed)
        with tempfile.TemporaryDirectory(prefix="understudy-") as scratch:
            files = {name: Path(scratch) / file for name, file in FILES.items()}
            answers = [self.classes[label] for label in labels]
            _write_table(files["labels"], ("id", "label"), zip(inputs, answers, strict=True))
            _write_table(files["items"], ("id",), ((name,) for name in self.ids))
            files["classes"].write_text("".join(f"{name}\n" for name in self.classes), encoding="utf-8")
            self.run({**{name: str(file) for name, file in files.items()}, "seed": str(seed)})
            probs = self.read(files["predictions"])
        return CommandModel(probs, {name: row for row, name in enumerate(self.ids)}, n_classes)

    def run(self, places: dict[str, str]) -> None:
        # Split before the paths are filled in, so that a path with a space stays one argument.
        words = [PLACE.sub(lambda place: places[place[1]], word) for word in shlex.split(self.command)]
        shown = shlex.join(words)
        let_interrupts_through()
        with tempfile.TemporaryFile() as output:
            try:
                # In its own process group, so that its child processes end with it.
                started = subprocess.Popen(
                    words,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise UnderstudyError(f"{shown} could not be started: {error.strerror}; check the command") from error
            try:
                code = started.wait(self.timeout)
            except subprocess.TimeoutExpired as error:
                raise UnderstudyError(f"{shown} took longer than {self.timeout:g} s; raise the timeout") from error
            finally:
                _end(started)
            if code:
                raise UnderstudyError(f"{shown} exited with {code}; its last line: {_last_line(output) or 'none'}")

    def read(self, file: Path) -> np.ndarray:
        """Load and check the script's predictions."""
        expected = (len(self.ids), len(self.classes))
        try:
            with file.open("rb") as opened:
                probs = np.lib.format.read_array(opened, allow_pickle=False)
        except FileNotFoundError as error:
            raise UnderstudyError(
                f"the command wrote no predictions; write a {expected} array to {{predictions}}"
            ) from error
        except (ValueError, EOFError, OSError) as error:
            raise UnderstudyError(f"the command's predictions are not a .npy array: {error}") from error
        if probs.dtype.kind not in "fiub":
            raise UnderstudyError("the command's predictions are not a .npy array of numbers; use numpy.save")
        if probs.shape != expected:
            raise UnderstudyError(f"the command must predict an array of shape {expected}; got {probs.shape}")
        probs = probs.astype(np.float64)
        good = (probs >= 0).all(1) & (abs(probs.sum(1) - 1) <= TOLERANCE)
        if not good.all():
            worst = self.ids[int(good.argmin())]
            raise UnderstudyError(f"the command's predictions for {worst!r} do not sum to 1; apply a softmax first")
        return probs


@dataclass(frozen=True, eq=False)
class CommandModel:
    """The predictions of a command."""

    probs: np.ndarray
    row_of: dict[str, int]
    n_classes: int
    interrupted: bool = False

    def predict_proba(self, inputs: Sequence[str]) -> np.ndarray:
        """Class probabilities of the items with these ids."""
        unknown = [name for name in inputs if name not in self.row_of]
        if unknown:
            raise UnderstudyError(f"{unknown[0]!r} is not among the items the command predicted; add it to ids")
        return self.probs[[self.row_of[name] for name in inputs]]


def _end(started: subprocess.Popen[bytes]) -> None:
    """End a process and its child processes."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def _last_line(output: IO[bytes]) -> str:
    output.seek(max(0, output.seek(0, os.SEEK_END) - BYTES_OF_OUTPUT))
    lines = output.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _write_table(file: Path, header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    # File names need not be valid text; such bytes are written unchanged.
    with file.open("w", newline="", encoding="utf-8", errors="surrogateescape") as opened:
        table = csv.writer(opened)
        table.writerow(header)
        table.writerows(rows)
