"""`understudy compare`, killed at twenty random moments and run again: is the table that of an undisturbed run?

    python benchmarks/compare_kills.py --kills 20 --out benchmarks/results/soak-compare.json

Each run is a process of its own with two more at work; all three are ended by SIGKILL at once. It is killed after some
rounds more were stored and a random moment passed, so that every kill hits work and not the imports.

`--regimes` makes it harder: a thinned pool with near-copies, wrong answers, no shared first labels, and the oracle.
"""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from kill_results import measure_in_scratch

STRATEGIES = ("surrogate", "surrogate_blind", "surrogate_uniform", "badge", "typiclust", "random", "learning_loss",
              "weight_schedule(distillation=True)")  # fmt: skip
SCHEDULE = (20, 26, 34, 44, 58, 76, 100)
REGIMES = {"imbalance": 5, "wrong": 0.1, "duplicates": 0.3, "start": 0, "oracle": True}
# Processes that it starts read it again, hence a file.
PLAY = """
import sys
from understudy.experiments.compare import compare
if __name__ == "__main__":
    out, repeats, jobs, learner, *strategies = sys.argv[1:]
    more = {more}
    made = compare("digits", strategies, out=out, repeats=int(repeats), schedule={schedule}, learner=learner, **more)
    sys.exit(len(made.run(jobs=int(jobs), progress=False).failed))
"""


def started(scratch: Path, out: Path, given: argparse.Namespace) -> subprocess.Popen[bytes]:
    script = scratch / "play.py"
    script.write_text(PLAY.format(schedule=SCHEDULE, more=REGIMES if given.regimes else {}))
    command = [sys.executable, str(script), str(out), str(given.repeats), str(given.jobs), given.learner, *STRATEGIES]
    return subprocess.Popen(command, start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def finished(process: subprocess.Popen[bytes]) -> float:
    """Seconds until it is done; it must be done well."""
    start = time.perf_counter()
    if process.wait() != 0:
        raise SystemExit("the comparison failed; see above")
    return time.perf_counter() - start


def stored(out: Path) -> int:
    return sum(1 for _ in out.glob("rounds/*/*/*.parquet"))


def digest(out: Path) -> str:
    return hashlib.sha256((out / "results.parquet").read_bytes()).hexdigest()


def measure(given: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    whole, out = scratch / "whole", scratch / "out"
    seconds = finished(started(scratch, whole, given))
    rounds = stored(whole)
    print(f"undisturbed: {seconds:.0f} s, {rounds} rounds", flush=True)
    rng = np.random.default_rng(given.seed)
    kills: list[dict[str, Any]] = []
    for aim in np.sort(rng.choice(np.arange(1, int(0.9 * rounds)), given.kills, replace=False)).tolist():
        process, before = started(scratch, out, given), stored(out)
        while stored(out) < max(before + 1, aim) and process.poll() is None:
            time.sleep(0.005)
        moment = float(rng.uniform(0, given.longest))
        time.sleep(moment)
        if process.poll() is not None:
            raise SystemExit("it was done before all kills; give more --repeats or fewer --kills")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        halves = sum(1 for _ in out.rglob("*.part"))
        kills.append({"aim": aim, "moment_s": round(moment, 3), "stored_before": before, "stored_after": stored(out)})
        print(f"killed: {before} rounds before, {stored(out)} after, {halves} half files so far", flush=True)
    left, halves = rounds - stored(out), sum(1 for _ in out.rglob("*.part"))
    rest = finished(started(scratch, out, given))
    identical = digest(out) == digest(whole)
    print(f"{left} rounds were left, played in {rest:.0f} s; identical: {identical}", flush=True)
    return {
        "strategies": STRATEGIES,
        "schedule": SCHEDULE,
        "repeats": given.repeats,
        "jobs": given.jobs,
        "learner": given.learner,
        "regimes": REGIMES if given.regimes else {},
        "rounds": rounds,
        "undisturbed_s": round(seconds, 1),
        "kills": kills,
        "half_files": halves,
        "left_before_last": left,
        "last_s": round(rest, 1),
        "identical": identical,
        "sha256": digest(out),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--learner", default="modern")
    parser.add_argument("--regimes", action="store_true", help="A harder pool, wrong answers and the oracle, too.")
    parser.add_argument("--longest", type=float, default=0.5, help="Seconds after a round within which it is killed.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    measure_in_scratch(measure, parser.parse_args(), cores=os.cpu_count())


if __name__ == "__main__":
    main()
