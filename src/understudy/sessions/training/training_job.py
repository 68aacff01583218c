"""What a training process does, from the job that a folder describes to its result. `training_process.py` starts it.

It fits the learner, predicts the whole pool, and makes the surrogate's next anchor; where predictions are given, only
the anchor. A job may also ask for the set-up alone, for a map of the pool, or for new items to be encoded.
`result.json` comes last and says how it went. The process has one thread, and with `--gently` low priority, so that
those who label do not notice it. With `--watched` it ends when its standard input closes: when its parent dies.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from understudy.core.basis import centre_and_spread
from understudy.core.features import Features
from understudy.core.kernels import mean_distance
from understudy.core.ledger import Ledger
from understudy.core.setup_progress import Phase, ReportSetup
from understudy.core.state import count_rows, drop_rows
from understudy.core.surrogate import Surrogate
from understudy.data.files import write_atomically
from understudy.errors import UnderstudyError
from understudy.learners.calibration import cross_fit_probs, cross_fitted
from understudy.learners.model_files import can_save, model_bytes
from understudy.learners.protocol import Model
from understudy.learners.registry import make_feature_learner
from understudy.messages import reason_of
from understudy.sessions.training.array_folders import can_be_read, link, read_about, read_arrays, write_arrays
from understudy.sessions.training.artifacts import Artifacts, Predictions
from understudy.sessions.training.map_job import make_map
from understudy.sessions.training.progress_file import ProgressFile

JOB, INPUTS, RESULT, OUTPUT = "job.json", "inputs", "result.json", "output.txt"
FEATURES: Final = "features.npy"
SETUP, JOBS, ANCHORS = "setup", "jobs", "anchors"
ROWS, LABELS = "training_rows", "training_labels"
IS_TRAINED: Final = "is_trained"  # of a set-up, one for each item
DISTANCE_ROWS: Final = 10_000  # of which the mean distance of two items is that of all, to about a thousandth
SHARE_BEFORE_WRITING: Final = 0.9  # of the time of a set-up; then come the first choice and the files
ROWS_PER_BLOCK: Final = 8192  # predicted at a time: as a head does, so that its file gives the same to the last bit
MAX_REASON_LENGTH: Final = 500
MAX_SECONDS_TO_CROSS_FIT: Final = 60.0  # one training may have taken when several more are to follow


def main(arguments: list[str]) -> int:
    """Do the job in a folder. 0: it is done; 1: it failed, and `result.json` says why."""
    if "--watched" in arguments:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    result = attempt(folder := Path(arguments[0]))
    write_atomically(folder / RESULT, json.dumps(result).encode())
    return 1 if "failed" in result else 0


def write_job(folder: Path, job: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> None:
    """Write a job for a process to read. Its features get a second name, by which they stay when the pool grows."""
    write_arrays(folder / INPUTS, inputs, {})
    if "features" in job and link(Path(job["features"]), own := folder / FEATURES):
        job = {**job, "features": str(own.absolute())}
    write_atomically(folder / JOB, json.dumps(job).encode())


def attempt(folder: Path) -> dict[str, Any]:
    """Do the job in a folder; its result, or in one line why it failed."""
    try:
        return _do_job(folder, json.loads((folder / JOB).read_text(encoding="utf-8")))
    except BaseException as error:  # a learner of one's own may do anything, exit included
        traceback.print_exc()
        return {"failed": _reason_of(error)}


def _end_with_parent() -> None:
    """Wait for the end of standard input, then end with all that was started here."""
    while os.read(0, 1024):
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _reason_of(error: BaseException) -> str:
    """Why it failed, in one line."""
    said = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return "there is not enough memory; use an encoder with fewer columns, or a smaller basis"
    if isinstance(error, SystemExit):
        return f"the learner ended the process ({said or 'exit'}); let it raise an error instead"
    return (said if isinstance(error, UnderstudyError) else f"{type(error).__name__}: {said}")[:MAX_REASON_LENGTH]


def _do_job(folder: Path, job: Mapping[str, Any]) -> dict[str, Any]:
    sys.path += [path for path in job["path"] if path not in sys.path]
    started = time.monotonic()
    if job["kind"] == "items":
        from understudy.sessions.training.items_job import encode_items  # which a training does not need

        return encode_items(folder, job)
    features = read_features(Path(job["features"]))[: job.get("items")]  # there may be more of them by now
    if job["kind"] == "map":
        make_map(features, job)
        return {"seconds": time.monotonic() - started}
    basis_rows = job.get("basis_rows") or len(features)
    setup = setup_folder(Path(job["work"]), basis_rows)
    make_setup(features[:basis_rows], setup, job["n_classes"], job["surrogate"], ProgressFile(folder).report)
    if job["kind"] == "setup":
        return {"seconds": time.monotonic() - started}
    artifacts, inputs = Artifacts(Path(job["artifacts"])), read_arrays(folder / INPUTS)
    rows, labels = inputs.pop(ROWS), inputs.pop(LABELS)
    model = calibration = None
    if job["predictions"] is not None:
        given = artifacts.predictions(job["predictions"])
        probs, rows = _with_classes(given.probs, job["n_classes"]), given.trained_on
    else:
        model = _fit(features, rows, labels, job)
        calibration = _cross_fit(features, rows, labels, job, seconds=time.monotonic() - started)
        probs = _predict_pool(model, features, job["outputs"], job["n_classes"])
    state = make_anchor(features, setup, Ledger.from_arrays(inputs), job["n_classes"], probs, rows)
    stored = {
        "model": None if model is None else _put_model(artifacts, model, job),
        "predictions": job["predictions"] or artifacts.put_predictions(Predictions(probs, rows, labels)),
    }
    about = {"until": job["until"], "predictions": stored["predictions"], "n_classes": job["n_classes"]}
    # What is known of every row by its features alone stays the same from one training to the next.
    of_features = "of_features" if "of_features" in state else "W"
    linked = {of_features: setup / f"{of_features}.npy"} if basis_rows == len(features) else None
    write_arrays(Path(job["anchor"]), state, about, linked=linked)
    return {**stored, "calibration": calibration, "seconds": time.monotonic() - started}


def read_features(path: Path) -> np.ndarray:
    try:
        found: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = reason_of(error)
        raise UnderstudyError(f"the features in {path} cannot be read ({reason}); embed the items again") from error
    return found


def setup_folder(work: Path, rows: int) -> Path:
    """The folder for the set-up of the first so many items: `setup`, or one beside it where that is of others."""
    named = work / f"{SETUP}-{rows}"
    return named if rows_of_setup(named) == rows or rows_of_setup(work / SETUP) not in (None, rows) else work / SETUP


def rows_of_setup(folder: Path) -> int | None:
    """How many items a set-up was made of; None where there is none."""
    about = read_about(folder)
    return None if about is None or IS_TRAINED not in about["arrays"] else int(about["arrays"][IS_TRAINED][1][0])


def make_setup(
    features: np.ndarray, folder: Path, n_classes: int, options: Mapping[str, Any], report: ReportSetup | None = None
) -> None:
    """Write what a surrogate has before its first label: basis, widths, whitened rows. Once for the same features."""
    if is_setup_of(features, folder, n_classes, options):
        return

    def report_part(phase: Phase, share: float) -> None:
        if report is not None:
            report(phase, round(SHARE_BEFORE_WRITING * share, 3))

    surrogate = Surrogate(features, n_classes, report_progress=report_part, **options)
    surrogate.tell([], [])  # nothing, which makes it ready to be asked
    about = {
        "digest": Features(features).digest(), "n_classes": n_classes, "surrogate": dict(options),
        "mean_distance": mean_distance_in(features),
    }  # fmt: skip
    write_arrays(folder, surrogate.state_dict(whole=True), about)


def mean_distance_in(features: np.ndarray) -> float:
    """The mean distance of two items; in a large pool that of a sample."""
    rng = np.random.default_rng(0)
    if len(features) > DISTANCE_ROWS:
        features = features[np.sort(rng.choice(len(features), DISTANCE_ROWS, replace=False))]
    given = Features(features)
    origin, spread = centre_and_spread(given, torch.device("cpu"))
    return mean_distance(given, origin, spread, rng)


def is_setup_of(features: np.ndarray, folder: Path, n_classes: int, options: Mapping[str, Any]) -> bool:
    """Whether the folder has a set-up made of these features and options. Classes can be added to one."""
    about = read_about(folder)
    return (
        about is not None
        and can_be_read(folder)
        and _with_method(about.get("surrogate")) == _with_method(options)
        and about.get("n_classes", 0) <= n_classes
        and about.get("digest") == Features(features).digest()
    )


def _with_method(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Options with their method. A set-up of the version before names none and is the paper's, as all were."""
    return {"method": "paper", **(options or {})}


def _fit(features: np.ndarray, rows: np.ndarray, labels: np.ndarray, job: Mapping[str, Any]) -> Model:
    learner, outputs = make_feature_learner(job["learner"]), job["outputs"]
    inputs, places = np.asarray(features[rows], dtype=np.float32), np.searchsorted(outputs, labels)
    return learner.fit(inputs, places, len(outputs), seed=job["seed"])


def _cross_fit(
    features: np.ndarray, rows: np.ndarray, labels: np.ndarray, job: Mapping[str, Any], *, seconds: float
) -> dict[str, Any] | None:
    """The temperature that items show which a model was not trained on, from as many more trainings as there are folds.

    None where the job wants no folds, one training took long already, or a learner fails on fewer labels.
    """
    folds = job.get("folds", 0)
    if folds < 2 or seconds > MAX_SECONDS_TO_CROSS_FIT:
        return None
    inputs = np.asarray(features[rows], dtype=np.float32)
    try:
        found = cross_fit_probs(
            lambda places: _fit(features, rows[places], labels[places], job), inputs, labels, folds, job["seed"]
        )
    except Exception:  # the model itself is there; without this its confidences rest on audit items alone
        traceback.print_exc()
        return None
    if found is None:
        return None
    probs, places = found
    given = np.searchsorted(job["outputs"], labels[places])
    return {"temperature": cross_fitted(probs, given), "items": len(places), "folds": folds}


def _predict_pool(model: Model, features: np.ndarray, outputs: Sequence[int], n_classes: int) -> np.ndarray:
    """What a model predicts for the pool, each of its outputs in the column of its class."""
    probs = np.zeros((len(features), n_classes), dtype=np.float32)
    for start in range(0, len(features), ROWS_PER_BLOCK):
        block = np.asarray(features[start : start + ROWS_PER_BLOCK], dtype=np.float32)
        some = np.asarray(model.predict_proba(block))
        if some.shape != (len(block), len(outputs)):
            raise UnderstudyError(
                f"the learner's model predicts shape {some.shape} for {len(block)} items and {len(outputs)} classes; "
                "it must give each item one probability a class"
            )
        probs[start : start + ROWS_PER_BLOCK, outputs] = some
    return probs


def _with_classes(probs: np.ndarray, n_classes: int) -> np.ndarray:
    """Predictions with a column for each class; those that came later have no probability."""
    more = n_classes - probs.shape[1]
    if more < 0:
        raise UnderstudyError(
            f"the predictions know {probs.shape[1]} classes, the project {n_classes}; predict for its classes only"
        )
    return np.pad(probs, ((0, 0), (0, more)))


def make_anchor(
    features: np.ndarray,
    setup: Path,
    ledger: Ledger,
    n_classes: int,
    probs: np.ndarray,
    trained_on: np.ndarray,
) -> dict[str, np.ndarray]:
    """The state of a surrogate on these predictions, with everything that the ledger knows."""
    made = read_arrays(setup)
    if count_rows(made) != len(features):  # made when there were more items, or fewer: only its basis is of use
        made = drop_rows(made)
    surrogate = Surrogate.restore(features, {**made, **ledger.to_arrays()}, check=False)
    while surrogate.n_classes < n_classes:
        surrogate.add_class()
    return surrogate.anchor(probs, trained_on).state_dict(whole=True)


def _put_model(artifacts: Artifacts, model: Model, job: Mapping[str, Any]) -> str | None:
    """Keep the model, where there is a way to write it."""
    if not can_save(model):
        return None
    notes = {name: job[name] for name in ("learner", "seed", "until")}
    return artifacts.put(model_bytes(model, classes=job["classes"], encoder=job["encoder"], notes=notes), "safetensors")
