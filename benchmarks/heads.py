"""Accuracy of the heads at 600 and 5,000 random labels, and what one and ten trainings cost.

    python benchmarks/heads.py FILE.npz ... [--device cuda] [--out benchmarks/results/heads.json]

A file holds `X`, `y`, `Xt`, `yt`. Every head learns from the same rows with the same seeds. Times are of whole
trainings: one head alone, ten at once, and one by torch's own layers and optimiser in the plainest loop, in one run.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from understudy.learners.heads import Head
from understudy.learners.protocol import Job
from understudy.learners.registry import make_learner

HEADS = ("paper", "paper_slow", "modern")
BUDGETS = (600, 5000)
REPEATS = 10
PLAIN_LIMIT = 1000  # labels: on a GPU the plain loop takes half a minute beyond


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--labels", nargs="+", type=int, default=BUDGETS)
    parser.add_argument("--times", choices=("first", "all", "none"), default="first", help="files to take times on")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    machine = torch.cuda.get_device_name() if options.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    report: dict[str, Any] = {"device": machine, "torch": torch.__version__, "python": platform.python_version()}
    report["accuracy"], report["seconds"] = [], []
    for file in options.files:
        arrays = np.load(file)
        X, Xt = arrays["X"].astype(np.float32), arrays["Xt"].astype(np.float32)
        y, yt = arrays["y"].astype(np.int64), arrays["yt"].astype(np.int64)
        make_learner("paper", options.device).fit(X[:60], y[:60], int(y.max()) + 1)  # nobody's first call is timed
        timed = options.times == "all" or (options.times == "first" and file == options.files[0])
        for budget in options.labels:
            jobs = []
            for seed in range(REPEATS):
                rows = np.random.default_rng(seed).choice(len(X), budget, replace=False)
                jobs.append(Job(X[rows], y[rows], seed))
            for name in HEADS:
                head = make_learner(name, options.device)
                assert isinstance(head, Head)
                start = time.perf_counter()
                models = head.fit_many(jobs, int(y.max()) + 1)
                ten = time.perf_counter() - start
                correct = [float((model.predict_proba(Xt).argmax(1) == yt).mean()) for model in models]
                row = {"data": file.stem, "head": name, "labels": budget, "repeats": REPEATS}
                report["accuracy"].append(
                    {**row, "mean": float(np.mean(correct)), "std": float(np.std(correct, ddof=1))}
                )
                print(
                    f"{file.stem} {name} {budget}: {100 * np.mean(correct):.1f} ± {100 * np.std(correct, ddof=1):.1f} %"
                )
                if timed:
                    report["seconds"].append({**row, **times(head, jobs[0], int(y.max()) + 1, ten)})
                    print("   ", {key: round(value, 2) for key, value in report["seconds"][-1].items() if key in KINDS})
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


KINDS = ("one", "ten", "ten_over_one", "plain_torch", "ten_over_plain_torch")


def times(head: Head, job: Job, n_classes: int, ten: float) -> dict[str, float]:
    """Seconds of whole trainings; the best of three for one network, which is the noisier."""
    one = min(seconds(lambda: head.fit(job.inputs, job.labels, n_classes)) for _ in range(3))
    found = {"one": one, "ten": ten, "ten_over_one": ten / one}
    if head.recipe.optimiser == "sgd" and (head.device == "cpu" or len(job.labels) <= PLAIN_LIMIT):
        plain = min(seconds(lambda: plain_training(head, job, n_classes)) for _ in range(3))
        found |= {"plain_torch": plain, "ten_over_plain_torch": ten / plain}
    return found


def seconds(training: Callable[[], object]) -> float:
    start = time.perf_counter()
    training()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def plain_training(head: Head, job: Job, n_classes: int) -> nn.Module:
    """What most people write: layers, optimiser, schedule, and a loop over shuffled batches."""
    recipe, device = head.recipe, torch.device(head.device)
    sizes = (job.inputs.shape[1], *head.hidden, n_classes)
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.Tanh()]
    net = nn.Sequential(*layers[:-1]).to(device)
    optimiser = torch.optim.SGD(
        net.parameters(), recipe.learning_rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay
    )
    scheduler = torch.optim.lr_scheduler.StepLR(optimiser, recipe.step_every, recipe.gamma)
    x, y = torch.from_numpy(job.inputs).to(device), torch.from_numpy(job.labels).to(device)
    for _ in range(recipe.epochs):
        for rows in torch.split(torch.randperm(len(x), device=device), recipe.batch_size):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        scheduler.step()
    return net


if __name__ == "__main__":
    main()
