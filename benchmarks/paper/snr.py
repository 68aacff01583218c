"""How near is the surrogate to the network it stands in for, 500 labels after that was trained?

    python benchmarks/paper/snr.py --data fashion_mnist.npz [--device cuda] [--out FILE]

Rows are labelled by the paper's strategy and schedule from 600 to 2,000, where the network f is trained; 500 more are
chosen and told one by one, and a new network f' is trained on all 2,500. The ratio, over the rows without a label,

    SNR = 10 log10(sum |f'|^2 / sum |g - f'|^2)

is taken for g =

- f^: the surrogate's mean f + mu as it is (the paper: 15.49 dB, "comparable" to retraining);
- f^ simplex: clipped to be probabilities;
- softmax f^: the softmax that the paper takes of it before the entropy. It is no longer on the scale of f';
- softmax f^ against softmax f': both on that flattened scale;
- retrained: f'', trained on the same 2,500 with another initialisation: what no surrogate can know;
- old: f itself, as if nothing had been learnt;
- f again: f trained on the first 2,000 with another initialisation, the same as `old` without what f and f' owe to the
  surrogate's choice of rows where f was unsure.

Beside it: on how many of these rows g and f' name the same class, and how often g names the true one.
"""

import argparse
from typing import Any, Final

import numpy as np
import study
from study import Run, Task

PAPER: Final = 15.49
SMALLEST: Final = 1e-6


def decibel(signal: np.ndarray, estimate: np.ndarray) -> float:
    """10 log10(sum |signal|^2 / sum |estimate - signal|^2)."""
    signal = signal.astype(np.float64)
    return float(10 * np.log10((signal**2).sum() / ((estimate - signal) ** 2).sum()))


def softmax(z: np.ndarray) -> np.ndarray:
    q = np.exp(z - z.max(1, keepdims=True))
    return q / q.sum(1, keepdims=True)


def on_simplex(z: np.ndarray) -> np.ndarray:
    q = np.maximum(z, SMALLEST)
    return q / q.sum(1, keepdims=True)


def ratios(
    mean: np.ndarray, old: np.ndarray, again: np.ndarray, new: np.ndarray, other: np.ndarray, truth: np.ndarray
) -> dict[str, float]:
    """Everything that is said of one repetition; arrays are of the rows without a label. `new` is f'."""
    found = {
        "f^": decibel(new, mean),
        "f^ simplex": decibel(new, on_simplex(mean)),
        "softmax f^": decibel(new, softmax(mean)),
        "softmax f^ against softmax f'": decibel(softmax(new), softmax(mean)),
        "retrained": decibel(new, other),
        "retrained, softmax of both": decibel(softmax(new), softmax(other)),
        "old": decibel(new, old),
        "old, softmax of both": decibel(softmax(new), softmax(old)),
        "f again": decibel(new, again),
    }
    for name, g in (("f^", mean), ("retrained", other), ("old", old), ("f again", again), ("f'", new)):
        if name != "f'":
            found[f"same class as f': {name}"] = float((g.argmax(1) == new.argmax(1)).mean())
        found[f"true class: {name}"] = float((g.argmax(1) == truth).mean())
    return found


def measure(task: Task, learner: str, given: argparse.Namespace, runs: list[Run]) -> dict[str, Any]:
    models = study.follow_schedule(task, learner, given, runs, given.schedule)
    before = [(run.labelled, run.probs) for run in runs]
    study.label_to(task, runs, given.schedule[-1] + given.picks)
    # f' and f'' of all repetitions at once, then f again
    new, other = (
        [study.whole_number(given.seed, study.STREAM_OTHER, which, run.repeat) for run in runs] for which in (0, 1)
    )
    again = [study.whole_number(given.seed, study.STREAM_OTHER, 2, run.repeat) for run in runs]
    labelled = [run.labelled for run in runs]
    jobs = [*labelled, *labelled, *(rows for rows, _ in before)]
    networks = study.train(task, learner, given.device, jobs, [*new, *other, *again])
    n, found = len(runs), []
    for i, run in enumerate(runs):
        rows = study.unlabelled(task, run.labelled)
        first, second, old = (networks[i + turn * n].predict_proba(task.X)[rows] for turn in range(3))
        found.append(ratios(run.surrogate.mean[rows], before[i][1][rows], old, first, second, task.y[rows]))
    tests = {
        "old": study.summary([study.accuracy(model, task) for model in models]),
        "new": study.summary([study.accuracy(model, task) for model in networks[:n]]),
    }
    right = study.summary([run.surrogate.accuracy for run in runs])
    by_name = {name: study.summary([one[name] for one in found]) for name in found[0]}
    return {"learner": learner, "test_accuracy": tests, "asked_accuracy": right, "found": by_name}


def table(result: dict[str, Any]) -> list[str]:
    tests = result["test_accuracy"]
    lines = [
        f"{result['learner']}: test accuracy of f {study.in_words(tests['old'], 100, 1)} %, "
        f"of f' {study.in_words(tests['new'], 100, 1)} %"
    ]
    for name, found in result["found"].items():
        is_share = "class" in name
        lines.append(f"  {name:<34}{study.in_words(found, 100 if is_share else 1):>18} {'%' if is_share else 'dB'}")
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = study.options(__doc__, repeats=5)
    parser.add_argument("--schedule", type=int, nargs="+", default=list(study.SCHEDULE))
    parser.add_argument("--picks", type=int, default=500)
    parser.add_argument("--learners", nargs="+", default=list(study.LEARNERS))
    given = parser.parse_args(arguments)
    task = study.read_task(given.data, given.rows, given.seed)
    clock = study.Clock(given.device)
    bases = [study.basis_of(study.make_surrogate(task, given, repeat)) for repeat in range(given.repeats)]
    results = []
    for learner in given.learners:
        runs = [
            Run(
                repeat,
                study.make_surrogate(task, given, repeat, basis=basis),
                study.initial_rows(task, given.schedule[0], given.seed, repeat),
            )
            for repeat, basis in enumerate(bases)
        ]
        results.append(measure(task, learner, given, runs))
        print("\n".join(table(results[-1])), flush=True)
    print(f"the paper: {PAPER} dB; {clock.seconds():.1f} s")
    report = {"about": study.about(given, task), "paper_db": PAPER, "seconds": clock.seconds(), "results": results}
    study.save(report, given.out)


if __name__ == "__main__":
    main()
