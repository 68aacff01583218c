"""A comparison that is killed three times, with all its processes, ends as one that nobody disturbed."""

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from tests.experiments.small import LEARNER
from tests.warm_training import WarmProcess
from understudy.experiments.compare import compare

ROOT = Path(__file__).parents[2]
STRATEGIES = ("surrogate", "surrogate_blind", "badge", "learning_loss")
SCHEDULE = (20, 26, 34, 44)
MIDDLE = len(STRATEGIES) * len(SCHEDULE)  # rounds of half the comparison, which the kills are spread over
# Processes that it starts read it again, hence a file.
PLAY = f"""
import sys
from tests.experiments.small import LEARNER
from understudy.experiments.compare import compare
if __name__ == "__main__":
    made = compare("digits", {STRATEGIES}, out=sys.argv[1], repeats=2, schedule={SCHEDULE}, learner=LEARNER)
    outcome = made.run(jobs=int(sys.argv[2]), progress=False)
    sys.exit(len(outcome.failed))
"""


def started(script: Path, out: Path, jobs: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, str(script), str(out), str(jobs)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, start_new_session=True, env=environment)


def played(out: Path) -> bytes:
    """The results at the end, of a run in this process."""
    made = compare("digits", STRATEGIES, out=out, repeats=2, schedule=SCHEDULE, learner=LEARNER)
    assert made.run(jobs=1, progress=False).failed == {}
    return (out / "results.parquet").read_bytes()


def stored(out: Path) -> int:
    return sum(1 for _ in out.glob("rounds/*/*/*.parquet"))


def test_a_comparison_killed_three_times_ends_with_the_same_bytes(tmp_path: Path, warm: WarmProcess) -> None:
    script, whole, out = tmp_path / "play.py", tmp_path / "whole", tmp_path / "out"
    script.write_text(PLAY)
    rng = np.random.default_rng(5)
    kept = [0]
    for aim, jobs in zip(np.sort(rng.choice(np.arange(1, MIDDLE), 3, replace=False)), (1, 2, 1), strict=True):
        player = warm.start(PLAY, out, 1) if jobs == 1 else started(script, out, jobs)
        # Not before something was done, so that each hits work and not the imports.
        while stored(out) < max(kept[-1] + 1, aim) and player.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.05))
        assert player.poll() is None, "it was done before it was killed"
        os.killpg(player.pid, signal.SIGKILL)
        player.wait()
        kept.append(stored(out))
    assert all(before < after for before, after in pairwise(kept))
    assert played(out) == played(whole)
    assert kept[-1] < stored(whole) == stored(out)
