"""How far do utilities fall around a pick?

    python benchmarks/paper/neighbours.py --data fashion_mnist.npz [--device cuda] [--out FILE]

That batches are redundant is the paper's starting point: a label should make its neighbours less useful. After the
paper's schedule up to 2,000 labels, one round is chosen by ours, row by row. Around each pick the summed u1, u2 and u
of its 10 nearest open rows are compared with what they were before, and so are those of 10 random open rows:

- asked: the row is handed out and its label not known yet;
- told: the label is known (`right`, `wrong`: whether the network had predicted it).

All are changes in per cent, means over the picks of the round. u is u1 and u2 over their deviations, which change as
well: what random rows do is what the scale does. Beside it, what networks do to entropy at the same rows:

- one label: trained on the 2,000 and one pick, against trained on the 2,000 and one random row, with the same seed: the
  same weights and batches but for that row. Over `--single` picks;
- round: trained on all labels of the round, against the network before it; `same labels` is that network trained again
  with another seed, for the picks were made where the first one happened to be unsure;
- u1, u2, u over the round: what the surrogate had made of these rows by then.
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import study
import torch
from jaxtyping import Float, Int
from study import Run, Task

from understudy import Surrogate
from understudy.core.links import entropy_of

LINKS: Final = ("softmax", "simplex")
UTILITIES: Final = ("u1", "u2", "u")
PLACES: Final = ("near", "random")

Places = dict[str, np.ndarray]  # rows near a pick, and as many random ones
Changes = dict[str, float]  # per cent, by what it is a change of


def change(before: np.ndarray, after: np.ndarray) -> float:
    """Of the sum, in per cent: single rows may have next to nothing to lose."""
    total = float(before.sum())
    return 100 * (float(after.sum()) / total - 1) if total > 0 else float("nan")


class Distances:
    """Nearest rows among those that are open."""

    def __init__(self, X: np.ndarray, device: str) -> None:
        self.X = torch.from_numpy(X).to(device)
        self.X = self.X - self.X.mean(0)
        self.squares = (self.X**2).sum(1)

    def nearest(self, row: int, is_open: np.ndarray, n: int) -> Int[np.ndarray, "n"]:
        away: Float[torch.Tensor, "m"] = self.squares - 2 * self.X @ self.X[row]
        closed = torch.from_numpy(~is_open).to(away.device)
        closed[row] = True
        return away.masked_fill(closed, torch.inf).topk(n, largest=False).indices.cpu().numpy()


def utilities(s: Surrogate) -> dict[str, np.ndarray]:
    return {"u1": s.influence, "u2": s.uncertainty, "u": s.utility}


def watched_round(
    task: Task, run: Run, distances: Distances, given: argparse.Namespace, rng: np.random.Generator
) -> Iterator[tuple[int, Places, Changes]]:
    """Each pick, the rows looked at, and what it changed there; the run has its label in the end."""
    s = run.surrogate
    is_open = np.ones(len(task.X), dtype=bool)
    is_open[run.labelled] = False
    before = utilities(s)
    for _ in range(given.picks):
        row = int(s.ask()[0])
        is_open[row] = False
        near = distances.nearest(row, is_open, given.near)
        places = {"near": near, "random": rng.choice(np.flatnonzero(is_open), given.near, replace=False)}
        asked = utilities(s)
        s.tell([row], task.y[[row]])
        told = utilities(s)
        found: Changes = {}
        for place, rows in places.items():
            for name in UTILITIES:
                found[f"asked {name} {place}"] = change(before[name][rows], asked[name][rows])
                found[f"told {name} {place}"] = change(before[name][rows], told[name][rows])
            hit = "right" if run.probs[row].argmax() == task.y[row] else "wrong"
            found[f"told u2 {place}, {hit}"] = found[f"told u2 {place}"]
        run.labelled = np.append(run.labelled, row)
        before = told
        yield row, places, found


def mean_of(found: Sequence[Changes]) -> Changes:
    """Means over picks; a change that some picks have no word on is the mean of the others."""
    names = sorted({name for one in found for name in one})
    return {name: float(np.nanmean([one[name] for one in found if name in one])) for name in names}


def of_single_labels(
    task: Task, learner: str, given: argparse.Namespace, labelled: np.ndarray, watched: Sequence[tuple[int, Places]]
) -> Changes:
    """What one label does to a network's entropy around it, against one of a random row."""
    rng = study.stream(given.seed, study.STREAM_OTHER, 3)
    others = rng.choice(study.unlabelled(task, labelled), len(watched), replace=False)
    sets = [np.append(labelled, row) for row in [*(row for row, _ in watched), *others.tolist()]]
    seed = study.whole_number(given.seed, study.STREAM_OTHER, 4)
    models = study.train(task, learner, given.device, sets, [seed] * len(sets))
    found = []
    for i, (_, places) in enumerate(watched):
        rows = np.concatenate([places[place] for place in PLACES])
        with_pick, without = (entropy(models[j].predict_proba(task.X[rows])) for j in (i, i + len(watched)))
        parts = np.split(np.arange(len(rows)), len(PLACES))
        found.append(
            {f"one label {place}": change(without[p], with_pick[p]) for place, p in zip(PLACES, parts, strict=True)}
        )
    return mean_of(found)


def entropy(probs: np.ndarray) -> np.ndarray:
    return entropy_of(torch.from_numpy(probs)).numpy()


def of_round(
    run: Run, models: Sequence[Any], task: Task, start: dict[str, np.ndarray], watched: Sequence[tuple[int, Places]]
) -> Changes:
    """What a round did to the network's entropy and to the utilities, at rows that are still open.

    `models`: trained on all labels, and again on those from before the round.
    """
    then, end = entropy(run.probs), utilities(run.surrogate)
    now, again = (entropy(model.predict_proba(task.X)) for model in models)
    found: Changes = {}
    for place in PLACES:
        rows = np.setdiff1d(np.concatenate([places[place] for _, places in watched]), run.labelled)
        found[f"round, network {place}"] = change(then[rows], now[rows])
        found[f"round, network, same labels {place}"] = change(then[rows], again[rows])
        found |= {f"round, {name} {place}": change(start[name][rows], end[name][rows]) for name in UTILITIES}
    return found


def measure(task: Task, given: argparse.Namespace, distances: Distances) -> dict[str, dict[str, Any]]:
    """For each link the changes of every repetition."""
    runs, which = [], []
    for repeat in range(given.repeats):
        basis = study.basis_of(study.make_surrogate(task, given, repeat))
        for link in given.links:
            surrogate = study.make_surrogate(task, given, repeat, basis=basis, link=link)
            runs.append(Run(repeat, surrogate, study.initial_rows(task, given.schedule[0], given.seed, repeat)))
            which.append(link)
    study.follow_schedule(task, given.learner, given, runs, given.schedule)
    before, starts = [run.labelled for run in runs], [utilities(run.surrogate) for run in runs]
    found, watched = [], []
    for run, labelled in zip(runs, before, strict=True):
        rng = study.stream(given.seed, study.STREAM_OTHER, 6, run.repeat)
        seen = list(watched_round(task, run, distances, given, rng))
        watched.append([(row, places) for row, places, _ in seen])
        found.append(mean_of([changes for *_, changes in seen]))
        if given.single:
            found[-1] |= of_single_labels(task, given.learner, given, labelled, watched[-1][: given.single])
    seeds = [study.whole_number(given.seed, study.STREAM_OTHER, 5, run.repeat, i) for i in range(2) for run in runs]
    models = study.train(task, given.learner, given.device, [*(run.labelled for run in runs), *before], seeds)
    for i, run in enumerate(runs):
        found[i] |= of_round(run, models[i :: len(runs)], task, starts[i], watched[i])
        found[i]["asked_accuracy"] = 100 * run.surrogate.accuracy
    by_link = {link: [one for one, its in zip(found, which, strict=True) if its == link] for link in given.links}
    return {
        link: {name: study.summary([one[name] for one in many]) for name in many[0] if all(name in one for one in many)}
        for link, many in by_link.items()
    }


def table(found: dict[str, Any]) -> list[str]:
    lines = [f"{'change in %':<30}" + "".join(f"{place:>20}" for place in PLACES)]
    what = [f"{when} {name}" for when in ("asked", "told") for name in UTILITIES]
    what += ["one label", "round, network", "round, network, same labels", *(f"round, {name}" for name in UTILITIES)]
    keys = [(name, [f"{name} {place}" for place in PLACES]) for name in what]
    keys[6:6] = [(f"told u2, {hit}", [f"told u2 {place}, {hit}" for place in PLACES]) for hit in ("right", "wrong")]
    for name, columns in keys:
        if all(column in found for column in columns):
            lines.append(f"{name:<30}" + "".join(f"{study.in_words(found[column]):>20}" for column in columns))
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = study.options(__doc__, repeats=2)
    parser.add_argument("--schedule", type=int, nargs="+", default=list(study.SCHEDULE))
    parser.add_argument("--picks", type=int, default=500, help="of the round that is watched")
    parser.add_argument("--near", type=int, default=10)
    parser.add_argument("--single", type=int, default=16, help="picks for which networks are trained on one label more")
    parser.add_argument("--links", nargs="+", default=list(LINKS))
    parser.add_argument("--learner", default="paper")
    given = parser.parse_args(arguments)
    task = study.read_task(given.data, given.rows, given.seed)
    clock = study.Clock(given.device)
    found = measure(task, given, Distances(task.X, given.device))
    for link, one in found.items():
        print(f"link {link}, {given.learner}")
        print("\n".join(table(one)))
    print(f"{clock.seconds():.1f} s")
    study.save({"about": study.about(given, task), "seconds": clock.seconds(), "change_percent": found}, given.out)


if __name__ == "__main__":
    main()
