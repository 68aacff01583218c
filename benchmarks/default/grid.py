"""Play the studies of the default: many processes side by side on one GPU, each round stored as soon as it ends.

    python benchmarks/default/grid.py --data DATA --store STORE --out OUT --studies curves,nothing --sets cifar100 \
        --device cuda --workers 15 --seconds 520

Jobs are taken in the order of the studies named, the longest of each study first. After `--seconds` no round is begun,
nor before if it would not end in time; `--grace` seconds later processes that are still at one are ended. That round is
lost, what was stored is not. OUT then has `finished-0.zip` and so on, `unfinished.zip` and `summary.json`. To go on
elsewhere:

    ... --resume unfinished.zip --finished summary.json

`--list` only shows the jobs and how long they may take. `--trial` plays all of them on almost nothing, on a CPU in
minutes. `merge.py` makes of the archives what is kept. Packages that store results or draw progress need not be there
(`stand_ins.py`); the first line that is printed says which are.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from stand_ins import BY_NAME_ONLY, missing, stand_in, step_back, versions

STANDING: Final = stand_in(missing(BY_NAME_ONLY))

import torch  # noqa: E402
from prepare import SETS, files_of, read_bench  # noqa: E402
from rounds import SUMMARY, count_rounds, is_finished, pack, read_rounds, unpack, write_round  # noqa: E402
from studies import STUDIES, Job, for_trial, jobs_of  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

from understudy.errors import UnderstudyError  # noqa: E402
from understudy.experiments.bench import Bench  # noqa: E402
from understudy.experiments.plan import Plan  # noqa: E402
from understudy.experiments.run import Experiment, Unit, device_name, play  # noqa: E402
from understudy.experiments.specs import strategy_of  # noqa: E402
from understudy.strategies import bait  # noqa: E402

step_back(STANDING)

TRIAL_ROWS: Final = 500
TRIAL_IMAGES: Final = 100
DEVICE_FAILED: Final = 3  # exit status: this process can use the device no more, another may
PACK_EVERY: Final = 60.0  # seconds
LOOK_EVERY: Final = 0.5
BENCHES_KEPT: Final = 3
TOLD: Final = ("studies", "sets", "only", "device", "workers", "seconds", "again", "trial")  # not where files lie
# Numbers in memory at once. BAIT's own limit is for a CPU; on a GPU a pick would be two hundred small steps.
BAIT_NUMBERS_PER_BLOCK: Final = 1 << 24


# -- one job ----------------------------------------------------------------------------------------------------------


@lru_cache(BENCHES_KEPT)
def bench_for(folder: Path, name: str, trial: bool) -> Bench:
    rows = None if not trial else TRIAL_IMAGES if name.endswith("+images") else TRIAL_ROWS
    return read_bench(folder, name, rows)


@lru_cache(BENCHES_KEPT)
def digest_for(folder: Path, name: str, trial: bool) -> str:
    return bench_for(folder, name, trial).digest()


def plan_for(job: Job, folder: Path, trial: bool) -> Plan:
    bench = bench_for(folder, job.data, trial)
    digest = digest_for(folder, job.data, trial)
    rows, test_rows, start = len(bench.pool), len(bench.test), 0 if job.start == "own" else None
    return Plan(
        bench.name,
        digest,
        classes=bench.pool.classes,
        pool_rows=rows,
        test_rows=test_rows,
        learner=job.learner,
        schedule=job.schedule,
        start=start,
    )


def play_job(job: Job, options: "Options", until: float) -> int:
    """The rounds that are not stored yet, each stored as it ends; none is begun when the time is over."""
    bench = bench_for(options.data, job.data, options.trial)
    plan = plan_for(job, options.data, options.trial)
    experiment = Experiment(plan, bench, options.device)
    before = read_rounds(options.store, job, plan)
    stored = {
        repeat: [one for rounds in before for one in rounds if one.repeat == repeat and one.strategy == job.strategy]
        for repeat in job.repeats
    }
    number, last = len(before), time.time()
    for rounds in play(experiment, Unit(job.strategy, job.repeats), stored):
        write_round(options.store, job, number, rounds, plan)
        number += 1
        now = time.time()
        if now > until or now + (now - last) * growth(job.schedule, number) > until + options.grace:
            break
        last = now
    return number - len(before)


def growth(schedule: Sequence[int], number: int) -> float:
    """How many times as long as the round before this one may take, by the labels it adds; 0 if nothing tells."""
    if not 2 <= number < len(schedule):
        return 0.0
    return (schedule[number] - schedule[number - 1]) / (schedule[number - 1] - schedule[number - 2])


# -- the processes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    data: Path
    store: Path
    out: Path
    studies: tuple[str, ...]
    sets: tuple[str, ...] = ()
    only: str = ""
    device: str = "cpu"
    workers: int = 1
    seconds: float = 1e9
    grace: float = 30.0
    again: bool = False
    trial: bool = False
    finished: frozenset[str] = field(default_factory=frozenset)

    def jobs(self) -> list[Job]:
        """All that are asked for and not finished elsewhere, in the order in which they are taken."""
        jobs = jobs_of(self.studies, self.sets, self.again)
        jobs = [job for job in jobs if self.only in job.key and job.key not in self.finished]
        return [for_trial(job) for job in jobs] if self.trial else jobs

    def has_data(self, job: Job) -> bool:
        return all((self.data / f"{SETS[name]}.npz").exists() for name in files_of(job.data))


def work(options: Options, until: float) -> int:
    """Play what nobody else plays, until nothing is left or the time is over."""
    torch.set_num_threads(1)
    threadpool_limits(1)
    if options.device.startswith("cuda"):
        bait.NUMBERS_PER_BLOCK = BAIT_NUMBERS_PER_BLOCK  # type: ignore[misc]
    for number, job in enumerate(options.jobs()):
        if time.time() > until:
            break
        if not options.has_data(job) or is_finished(options.store, job) or not claim(options.store, number):
            continue
        begin = time.time()
        note: dict[str, Any] = {"key": job.key, "begin": begin}
        try:
            note["rounds"] = play_job(job, options, until)
        except Exception as error:
            note["error"] = "".join(traceback.format_exception(error))[-1500:]
            print(f"FAILED {job.key}: {error!r:.300}", flush=True)
        add_note(options.store, note | {"end": time.time()})
        if "error" in note and "CUDA" in note["error"]:
            return DEVICE_FAILED  # after some errors every further call fails
        gc.collect()
        if options.device.startswith("cuda"):
            torch.cuda.empty_cache()
    return 0


def claim(store: Path, number: int) -> bool:
    """Whether this process is the first to come to a job."""
    try:
        (store / "claims" / str(number)).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def add_note(store: Path, note: Mapping[str, Any]) -> None:
    with (store / "notes" / f"{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps(note) + "\n")


def carry_out(options: Options, until: float) -> None:
    """Start the processes, start another where one lost the device, and pack what there is again and again."""
    jobs = options.jobs()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, __file__, *sys.argv[1:], "--until", str(until)]
    begin = last = time.time()
    processes = [subprocess.Popen(command, env=environment) for _ in range(min(options.workers, len(jobs)))]
    again = 2 * len(processes)
    try:
        while processes and time.time() < until + options.grace:
            time.sleep(LOOK_EVERY)
            for process in [process for process in processes if process.poll() is not None]:
                processes.remove(process)
                if process.returncode and again and time.time() < until:
                    again -= 1
                    processes.append(subprocess.Popen(command, env=environment))
            if time.time() - last > PACK_EVERY:
                last = time.time()
                pack(options.store, jobs, options.out)
                print(progress(options, jobs, last - begin, len(processes)), flush=True)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
        pack(options.store, jobs, options.out)
        (options.out / SUMMARY).write_text(json.dumps(summary(options, jobs, time.time() - begin), indent=1))


def progress(options: Options, jobs: Sequence[Job], seconds: float, n_processes: int) -> str:
    rounds = [min(count_rounds(options.store, job), len(job.schedule)) for job in jobs]
    total = sum(len(job.schedule) for job in jobs)
    ended = sum(count == len(job.schedule) for count, job in zip(rounds, jobs, strict=True))
    return (
        f"{seconds:.0f} s: {ended} of {len(jobs)} jobs finished, {sum(rounds)} of {total} rounds stored, "
        f"{n_processes} processes"
    )


def summary(options: Options, jobs: Sequence[Job], seconds: float) -> dict[str, Any]:
    """What was done in how many seconds, what failed, and what is finished, here and before."""
    lines = [line for file in (options.store / "notes").glob("*.jsonl") for line in file.read_text().splitlines()]
    notes = [json.loads(line) for line in lines]
    took: dict[str, float] = defaultdict(float)
    for note in notes:
        took[note["key"]] += note["end"] - note["begin"]
    told = {
        job.key: {
            "rounds": count_rounds(options.store, job),
            "of": len(job.schedule),
            "seconds": round(took[job.key], 1),
            "estimate": round(job.seconds, 1),
        }
        for job in jobs
    }
    return {
        "versions": versions(),
        "device": device_name(options.device),
        "wall_seconds": round(seconds, 1),
        "options": {name: str(value) for name, value in asdict(options).items() if name in TOLD},
        "failed": {note["key"]: note["error"] for note in notes if "error" in note},
        "jobs": {key: value for key, value in told.items() if value["rounds"] or value["seconds"]},
        "finished": sorted(options.finished | {job.key for job in jobs if is_finished(options.store, job)}),
    }


# -- the command ------------------------------------------------------------------------------------------------------


def parsed(arguments: Sequence[str] | None = None) -> tuple[Options, argparse.Namespace]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--studies", required=True, help=f"of {', '.join(STUDIES)}; the first named come first")
    parser.add_argument("--sets", default="", help=f"of {', '.join(SETS)}; all unless named")
    parser.add_argument("--only", default="", help="jobs with this in their key")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--grace", type=float, default=30.0)
    parser.add_argument("--again", action="store_true", help="play what benchmarks/paper keeps, too")
    parser.add_argument("--trial", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--resume", type=Path, nargs="*", default=[], help="archives of rounds to go on from")
    parser.add_argument("--finished", type=Path, nargs="*", default=[], help="summaries of what is finished elsewhere")
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)  # a process that was started by another
    given = parser.parse_args(arguments)
    studies, sets = (tuple(filter(None, text.split(","))) for text in (given.studies, given.sets))
    if unknown := [name for name in studies if name not in STUDIES] + [name for name in sets if name not in SETS]:
        parser.error(f"there is no study or set {unknown[0]!r}")
    finished = frozenset(
        key for file in given.finished if file.exists() for key in json.loads(file.read_text())["finished"]
    )
    return Options(
        given.data,
        given.store,
        out=given.out,
        studies=studies,
        sets=sets,
        only=given.only,
        device=given.device,
        workers=given.workers,
        seconds=given.seconds,
        grace=given.grace,
        again=given.again,
        trial=given.trial,
        finished=finished,
    ), given


def refused(jobs: Sequence[Job]) -> list[str]:
    """What is wrong with strategies that cannot be made, a line each."""
    lines = []
    for spec in dict.fromkeys(job.strategy for job in jobs):
        try:
            strategy_of(spec)
        except UnderstudyError as error:
            lines.append(f"{spec} cannot be played: {error}")
    return lines


def list_jobs(options: Options) -> None:
    jobs = options.jobs()
    print(*refused(jobs), sep="\n")
    for job in jobs:
        print(f"{job.seconds:6.0f} s  {len(job.schedule):3} rounds  {job.key}")
    by_study: dict[str, float] = defaultdict(float)
    for job in jobs:
        by_study[f"{job.study} {job.set}"] += job.seconds
    for name, seconds in by_study.items():
        print(f"{seconds:8.0f} process-seconds  {name}")
    total = sum(job.seconds for job in jobs)
    print(
        f"{total:8.0f} process-seconds in all: {total / max(1, options.workers):.0f} s by {options.workers} processes"
    )


def main() -> None:
    begin = time.time()
    options, given = parsed()
    if given.until is not None:
        sys.exit(work(options, given.until))
    if given.list:
        list_jobs(options)
        return
    print(versions(), f"device {device_name(options.device)}", sep=", ", flush=True)
    for name in ("claims", "notes"):
        (options.store / name).mkdir(parents=True, exist_ok=True)
    for file in (options.store / "claims").iterdir():
        file.unlink()
    restored = unpack([file for file in given.resume if file.exists()], options.store)
    jobs = options.jobs()
    absent = sorted({name for job in jobs if not options.has_data(job) for name in files_of(job.data)})
    print(
        f"{len(jobs)} jobs, {len(options.finished)} finished elsewhere, {restored} rounds restored, "
        f"sets that are not all here: {', '.join(absent) or 'none'}",
        flush=True,
    )
    print(*refused(jobs), sep="\n", flush=True)
    carry_out(options, begin + options.seconds)
    print(progress(options, jobs, time.time() - begin, 0))
    for key, error in json.loads((options.out / SUMMARY).read_text())["failed"].items():
        print(f"failed: {key}: {error.strip().splitlines()[-1]:.200}")
    open_jobs = [f"{job.key} {count_rounds(options.store, job)}/{len(job.schedule)}" for job in jobs
                 if not is_finished(options.store, job)]  # fmt: skip
    print(f"not finished: {len(open_jobs)}", *open_jobs[:40], sep="\n  ")


if __name__ == "__main__":
    main()
