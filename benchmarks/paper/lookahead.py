"""Is u3, the expected fall of all entropies, worth its time beside u2, the entropy of a row itself?

    python benchmarks/paper/lookahead.py --data fashion_mnist.npz [--device cuda] [--workers 4] [--out FILE]

The paper: with u2 the final accuracy on FashionMNIST is 0.16 points lower than with u3, which is about 50 times slower.

Accuracy: a pool of 5,000 rows is labelled from 600 to 2,000 by u1 with u2 and by u1 with u3, from the same initial
rows, with networks of the same seeds, in paired repetitions. With u3 `--candidates` rows are tried a pick (0: all).
Time: seconds of a pick on the whole pool, chosen and told from Python: with u2, with u3 of all rows, and with u3 of
`--candidates`. `literal` is u1 by the paper's own products of n x k x k, with u2.
"""

import argparse
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import study
import torch
from study import Run, Task

from understudy import Surrogate

sys.path.append(str(Path(__file__).parents[1]))  # the literal form lives there
from picks import literal_pick, literal_tell

PAPER: Final = {"points_lower": 0.16, "times_slower": 50.0}
MODES: Final = {"u2": "combined", "u3": "lookahead"}


def settings_of(name: str, candidates: int) -> dict[str, Any]:
    if name == "u2":
        return {"mode": MODES[name]}
    return {"mode": MODES[name], "lookahead_candidates": candidates or None}


# -- accuracy ---------------------------------------------------------------------------------------------------------


def repetition(repeat: int, given: argparse.Namespace) -> dict[str, Any]:
    """The accuracy at each budget with u2 and with u3, and the seconds that their picks took."""
    if given.device == "cpu":
        torch.set_num_threads(1)
    task = study.read_task(given.data, given.pool, given.seed)
    found: dict[str, Any] = {}
    basis = study.basis_of(study.make_surrogate(task, given, repeat))
    for name in MODES:
        surrogate = study.make_surrogate(task, given, repeat, basis=basis, **settings_of(name, given.candidates))
        run = Run(repeat, surrogate, study.initial_rows(task, given.schedule[0], given.seed, repeat))
        found[name] = curve(task, given, run)
    return found


def curve(task: Task, given: argparse.Namespace, run: Run) -> dict[str, Any]:
    accuracies, seconds = [], 0.0
    for i, n in enumerate(given.schedule):
        if i:
            clock = study.Clock(given.device)
            study.label_to(task, [run], n)
            seconds += clock.seconds()
        (model,) = study.train_and_anchor(task, given.learner, given, [run])
        accuracies.append(study.accuracy(model, task))
    return {"accuracy": accuracies, "seconds_a_pick": seconds / (given.schedule[-1] - given.schedule[0])}


def repetitions(given: argparse.Namespace) -> list[dict[str, Any]]:
    """One after the other, or each in a process of its own: a pick with u3 is many short operations."""
    once = partial(repetition, given=given)
    if given.workers < 2:
        return [once(repeat) for repeat in range(given.repeats)]
    with ProcessPoolExecutor(given.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(once, range(given.repeats)))


def compared(found: list[dict[str, Any]], schedule: list[int]) -> dict[str, Any]:
    """Accuracy of both and the paired difference u3 - u2 in points, at each budget."""
    table = {name: np.array([one[name]["accuracy"] for one in found]) for name in MODES}
    out: dict[str, Any] = {}
    for i, n in enumerate(schedule):
        out[str(n)] = {name: study.summary(100 * values[:, i]) for name, values in table.items()}
        out[str(n)]["u3 - u2"] = study.summary(100 * (table["u3"] - table["u2"])[:, i])
    return out


# -- time -------------------------------------------------------------------------------------------------------------


def seconds_of_picks(s: Surrogate, task: Task, n: int, device: str) -> list[float]:
    """Seconds of each of n picks, choice and label, after one that nobody timed."""
    seconds = []
    for _ in range(n + 1):
        clock = study.Clock(device)
        row = s.ask()
        s.tell(row, task.y[row])
        seconds.append(clock.seconds())
    return seconds[1:]


def seconds_of_literal_picks(s: Surrogate, task: Task, n: int, device: str) -> list[float]:
    seconds = []
    for _ in range(n + 1):
        clock = study.Clock(device)
        row = literal_pick(s)
        literal_tell(s, row, int(task.y[row]))
        seconds.append(clock.seconds())
    return seconds[1:]


def timed(task: Task, given: argparse.Namespace) -> dict[str, Any]:
    """Median seconds of a pick on the whole pool at the last budget of the schedule, labelled at random."""
    labelled = study.initial_rows(task, given.schedule[-1], given.seed, 0)
    seed = study.whole_number(given.seed, study.STREAM_LEARNER, 0)
    (model,) = study.train(task, given.learner, given.device, [labelled], [seed])
    probs = model.predict_proba(task.X)
    basis = study.basis_of(study.make_surrogate(task, given, 0))
    found: dict[str, Any] = {}
    cases = {
        "u2": ("u2", 0, 50, seconds_of_picks),
        "u2 literal": ("u2", 0, 5, seconds_of_literal_picks),
        f"u3 of {given.candidates or 200}": ("u3", given.candidates or 200, 20, seconds_of_picks),
        "u3 of all": ("u3", 0, given.unrestricted, seconds_of_picks),
    }
    for title, (name, candidates, n, measure) in cases.items():
        s = study.make_surrogate(task, given, 0, basis=basis, **settings_of(name, candidates)).anchor(probs, labelled)
        seconds = measure(s, task, n, given.device)
        found[title] = {"median_s": median(seconds), "picks": len(seconds)}
        del s
    for title in list(found)[2:]:
        found[title]["over_u2"] = found[title]["median_s"] / found["u2"]["median_s"]
        found[title]["over_u2_literal"] = found[title]["median_s"] / found["u2 literal"]["median_s"]
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = study.options(__doc__, repeats=4)
    parser.add_argument("--schedule", type=int, nargs="+", default=list(study.SCHEDULE))
    parser.add_argument("--pool", type=int, default=5000, help="rows of the pool that is labelled; times take --rows")
    parser.add_argument("--candidates", type=int, default=200, help="rows tried with u3 at each pick; 0: all")
    parser.add_argument("--unrestricted", type=int, default=2, help="picks timed with u3 of all rows")
    parser.add_argument("--workers", type=int, default=1, help="processes that share the repetitions")
    parser.add_argument("--learner", default="paper")
    given = parser.parse_args(arguments)
    clock = study.Clock(given.device)
    task = study.read_task(given.data, given.rows, given.seed)
    times = timed(task, given)
    for title, one in times.items():
        ratio = f", {one['over_u2']:.0f} x u2, {one['over_u2_literal']:.1f} x literal" if "over_u2" in one else ""
        print(f"{title:<12} {1e3 * one['median_s']:.4g} ms a pick{ratio}", flush=True)
    found = repetitions(given)
    accuracies = compared(found, given.schedule)
    for n, one in accuracies.items():
        print(f"{n:>6} labels: " + ", ".join(f"{name} {study.in_words(values)}" for name, values in one.items()))
    print(f"the paper: {PAPER['points_lower']} points, {PAPER['times_slower']:g} x; {clock.seconds():.1f} s")
    report = {"about": study.about(given, task), "paper": PAPER, "seconds": clock.seconds(), "times": times}
    report |= {"accuracy_points": accuracies, "repetitions": found}
    study.save(report, given.out)


if __name__ == "__main__":
    main()
