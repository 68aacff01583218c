"""Rounds in small files that need numpy alone, and many of them in a few archives.

    STORE/EXPERIMENT/STRATEGY/0-9/003.npz    round 3 of repetitions 0 to 9

A file appears whole or not at all. Scores are left out, and so are the first picks where they are the plan's random
rows: both can be had again.
"""

import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

import numpy as np
from studies import Job

from understudy.data.files import atomic_file, write_atomically
from understudy.experiments.plan import Plan
from understudy.experiments.results import Round, file_name

IN_ARRAYS: Final = ("picks", "was_right")
LEFT_OUT: Final = ("scores",)
PLAIN: Final = tuple(field.name for field in fields(Round) if field.name not in IN_ARRAYS + LEFT_OUT)
BYTES_PER_ARCHIVE: Final = 15 * 2**20
FINISHED, UNFINISHED, SUMMARY = "finished", "unfinished.zip", "summary.json"


def folder_of(store: Path, job: Job) -> Path:
    return store / job.experiment / file_name(job.strategy) / f"{job.repeats[0]}-{job.repeats[-1]}"


def write_round(store: Path, job: Job, number: int, rounds: Sequence[Round], plan: Plan) -> None:
    """One round of all repetitions of a job."""
    path = folder_of(store, job) / f"{number:03}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, packed(rounds, plan))


def packed(rounds: Sequence[Round], plan: Plan) -> bytes:
    about, picks, was_right = [], [], []
    for one in rounds:
        drawn = one.round == 0 and one.picks == plan.initial_rows(one.repeat).tolist()
        kept = [] if drawn else one.picks
        right = one.was_right or []
        values = {name: getattr(one, name) for name in PLAIN}
        about.append(
            values | {"n_picks": -1 if drawn else len(kept), "n_right": -1 if one.was_right is None else len(right)}
        )
        picks += kept
        was_right += right
    sink = io.BytesIO()
    np.savez_compressed(
        sink,
        about=np.frombuffer(json.dumps(about, separators=(",", ":")).encode(), np.uint8),
        picks=np.array(picks, np.int32),
        was_right=np.packbits(np.array(was_right, bool)),
    )
    return sink.getvalue()


def unpacked(content: bytes, plan: Plan) -> list[Round]:
    found = np.load(io.BytesIO(content))
    picks, was_right = found["picks"], np.unpackbits(found["was_right"]).astype(bool)
    rounds, picked, judged = [], 0, 0
    for values in json.loads(found["about"].tobytes()):
        n_picks, n_right = values.pop("n_picks"), values.pop("n_right")
        if n_picks < 0:
            rows = plan.initial_rows(values["repeat"]).tolist()
        else:
            rows = picks[picked : picked + n_picks].tolist()
        right = None if n_right < 0 else was_right[judged : judged + n_right].tolist()
        picked, judged = picked + max(n_picks, 0), judged + max(n_right, 0)
        rounds.append(Round(**values, picks=rows, was_right=right, scores=None))
    return rounds


def read_rounds(store: Path, job: Job, plan: Plan) -> list[list[Round]]:
    """What is stored of a job, up to the first round that is missing."""
    found: list[list[Round]] = []
    while (path := folder_of(store, job) / f"{len(found):03}.npz").exists():
        found.append(unpacked(path.read_bytes(), plan))
    return found


def count_rounds(store: Path, job: Job) -> int:
    folder = folder_of(store, job)
    number = 0
    while (folder / f"{number:03}.npz").exists():
        number += 1
    return number


def is_finished(store: Path, job: Job) -> bool:
    return count_rounds(store, job) >= len(job.schedule)


# -- archives ---------------------------------------------------------------------------------------------------------


def pack(store: Path, jobs: Sequence[Job], out: Path, size: int = BYTES_PER_ARCHIVE) -> None:
    """Finished jobs in archives of limited size, unfinished ones in one of their own, to go on with elsewhere."""
    out.mkdir(parents=True, exist_ok=True)
    ended = [job for job in jobs if is_finished(store, job)]
    begun = [job for job in jobs if not is_finished(store, job) and count_rounds(store, job)]
    number = 0
    for number, part in enumerate(parts(store, ended, size)):
        write_archive(out / f"{FINISHED}-{number}.zip", store, part)
    write_archive(out / UNFINISHED, store, [file for job in begun for file in files_of_job(store, job)])


def files_of_job(store: Path, job: Job) -> list[Path]:
    return sorted(folder_of(store, job).glob("*.npz"))


def parts(store: Path, jobs: Sequence[Job], size: int) -> Iterator[list[Path]]:
    part: list[Path] = []
    taken = 0
    for job in jobs:
        for file in files_of_job(store, job):
            length = file.stat().st_size + 3 * len(str(file))  # its name stands there twice
            if part and taken + length > size:
                yield part
                part, taken = [], 0
            part.append(file)
            taken += length
    if part:
        yield part


def write_archive(path: Path, store: Path, files: Sequence[Path]) -> None:
    with atomic_file(path) as whole, zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for file in files:
            archive.write(file, str(file.relative_to(store)))


def unpack(archives: Sequence[Path], store: Path) -> int:
    """Put archived rounds back where they were; those that are there stay as they are. Returns how many were put."""
    number = 0
    for path in archives:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                target = store / name
                if ".." in Path(name).parts or target.suffix != ".npz" or target.exists():
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(target, archive.read(name))
                number += 1
    return number
