"""Are batches redundant? One round of every strategy: distances between its picks, near copies picked, class balance.

    python benchmarks/paper/redundancy.py --data FILE.npz [--device cuda] [--repeats 3] [--rounds 1000:1000 600:200]
        [--strategies random margin ...] [--rows 3000 --planted 200] [--out FILE.json]

A round is so many picks from so many random initial labels; in a repetition all strategies have the same initial labels
and, unless they change its training, the same learner. Ours that learn within a round are told each label; the blind
one is not. Every round is played twice: on the pool as it is, and on one where some rows have near copies. On the
latter the initial labels are of rows without copies, so that chance can be calculated. At last the common learner is
trained on the initial labels and the picks, with the same seeds for all.

It is a first round: no label was asked for yet, so that P, by which ours weighs u² against u¹, is 0. A blind surrogate
keeps it for the whole round, which makes it `surrogate_influence`; and a falling weight decay has not fallen yet, which
makes `weight_schedule` the same as entropy.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from redundancy_measures import NOBODY, balance, copies_by_chance, copies_picked, distances_of, nearest, plant
from study import Clock, Task, about, basis_of, options, read_task, save, stream, summary, train, whole_number
from torch import Tensor

from understudy import Surrogate, UnderstudyError
from understudy.learners.registry import make_learner
from understudy.strategies.protocol import ChangesTraining, Needs
from understudy.strategies.registry import make_strategy
from understudy.strategies.surrogate import SurrogateStrategy
from understudy.strategies.view import UNLABELLED, PoolView

STRATEGIES: Final = (
    "random", "margin", "entropy", "least_confidence", "coreset", "badge", "typiclust", "learning_loss",
    "weight_schedule", "gradnorm", "uncertain_gcn", "core_gcn", "surrogate", "surrogate_influence",
    "surrogate_uncertainty", "surrogate_uniform", "surrogate_blind",
)  # fmt: skip
NEAR: Final = 0.01  # distance of a copy, in mean distances of the pool
RANDOM_SETS: Final = 5  # to compare distances with
# How far the surrogate's utilities fall around a pick: at the nearest rows up to each of these, over the first picks.
NEIGHBOURS: Final = (1, 10, 100, 1000)
FIRST_PICKS: Final = 10
STREAM_PLANTED, STREAM_INITIAL, STREAM_LEARNER, STREAM_STRATEGY, STREAM_HOOK, STREAM_RANDOM, STREAM_JUDGE = range(7)


@dataclass(eq=False)
class Scene:
    """A pool on the device, and what every repetition searches for once: the surrogate's basis."""

    task: Task
    group: np.ndarray
    table: Tensor
    bases: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @property
    def is_planted(self) -> bool:
        return bool((self.group != NOBODY).any())


@dataclass(eq=False)
class State:
    """One repetition before its round: the initial labels, and what the common learner makes of them."""

    repeat: int
    labelled: np.ndarray
    model: Any
    said: dict[str, Any] = field(default_factory=dict)


def main(arguments: list[str] | None = None) -> None:
    parser = options(__doc__, repeats=3)
    parser.add_argument("--learner", default="modern")
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES)
    parser.add_argument("--rounds", nargs="+", default=("1000:1000", "600:200"), help="initial labels:picks")
    parser.add_argument("--planted", type=int, default=2000, help="rows that get near copies")
    parser.add_argument("--copies", type=int, default=4, help="of each of them")
    given = parser.parse_args(arguments)
    clock, scenes = Clock(given.device), scenes_of(read_task(given.data, given.rows, given.seed), given)
    report = {**about(given, scenes[0].task), "near": NEAR, "rounds": []}
    for round_ in given.rounds:
        initial, picks = (int(part) for part in round_.split(":"))
        found = [played(scene, initial, picks, given) for scene in scenes]
        report["rounds"].append(
            {"initial": initial, "picks": picks, **dict(zip(("pool", "copies"), found, strict=True))}
        )
        print_round(report["rounds"][-1])
        report["seconds"] = clock.seconds()
        save(report, given.out)
    report["fall"] = fall_around_picks(scenes[0], int(given.rounds[0].split(":")[0]), given)
    print_fall(report["fall"])
    report["seconds"] = clock.seconds()
    print(f"{report['seconds']:.0f} s")
    save(report, given.out)


def scenes_of(task: Task, given: argparse.Namespace) -> tuple[Scene, Scene]:
    """The pool as it is, and with near copies."""
    made = plant(task.X, task.y, given.planted, given.copies, NEAR, stream(given.seed, STREAM_PLANTED))
    planted = Task(task.name, made.X, made.y, task.Xt, task.yt, task.n_classes)
    plain = np.full(len(task.X), NOBODY)
    return (
        Scene(task, plain, torch.from_numpy(task.X).to(given.device)),
        Scene(planted, made.group, torch.from_numpy(made.X).to(given.device)),
    )


# -- a round ----------------------------------------------------------------------------------------------------------


def played(scene: Scene, initial: int, n: int, given: argparse.Namespace) -> dict[str, Any]:
    """What every strategy picked, measured and judged."""
    states = states_of(scene, initial, given)
    picks: dict[str, list[np.ndarray]] = {}
    found: dict[str, Any] = {"strategies": {}, "failures": {}}
    for name in given.strategies:
        clock = Clock(given.device)
        try:
            picks[name] = [picked(scene, state, name, n, given) for state in states]
        except UnderstudyError as error:
            found["failures"][name] = str(error)
            continue
        seconds = clock.seconds()
        measured = [measures(scene, state, rows, given) for state, rows in zip(states, picks[name], strict=True)]
        found["strategies"][name] = {"seconds": seconds, "repeats": measured}
        print(f"{'copies' if scene.is_planted else 'pool'} {initial}:{n} {name}: {seconds:.1f} s", flush=True)
    before = judged(scene, {"initial": [state.labelled for state in states]}, given)["initial"]
    trained_on = {
        name: [np.concatenate([state.labelled, rows]) for state, rows in zip(states, chosen, strict=True)]
        for name, chosen in picks.items()
    }
    for name, accuracies in judged(scene, trained_on, given).items():
        entry = found["strategies"][name]
        for one, accuracy in zip(entry["repeats"], accuracies, strict=True):
            one["accuracy"] = accuracy
        entry["summary"] = {key: summary([one[key] for one in entry["repeats"]]) for key in flat(entry["repeats"])}
    found["accuracy_before"] = summary(before)
    if scene.is_planted:
        open_rows = len(scene.task.X) - initial
        found["by_chance"] = copies_by_chance(open_rows, given.planted, given.copies + 1, n)
    return found


def states_of(scene: Scene, initial: int, given: argparse.Namespace) -> list[State]:
    """Initial labels of rows without copies, and the common learner, trained for all repetitions at once."""
    alone = np.flatnonzero(scene.group == NOBODY)
    labelled = [
        stream(given.seed, STREAM_INITIAL, repeat).choice(alone, initial, replace=False)
        for repeat in range(given.repeats)
    ]
    seeds = [whole_number(given.seed, STREAM_LEARNER, repeat, initial) for repeat in range(given.repeats)]
    models = train(scene.task, given.learner, given.device, labelled, seeds)
    return [State(repeat, *each) for repeat, each in enumerate(zip(labelled, models, strict=True))]


def picked(scene: Scene, state: State, name: str, n: int, given: argparse.Namespace) -> np.ndarray:
    strategy, task = make_strategy(name), scene.task
    if isinstance(strategy, SurrogateStrategy):
        probs = said_by(scene, state.model, Needs(frozenset({"probs"})), state.said)["probs"]
        surrogate = surrogate_of(scene, state.repeat, strategy, given).anchor(probs, state.labelled)
        return surrogate.ask(n) if strategy.blind else surrogate.rehearse(task.y, n)
    rng = stream(given.seed, STREAM_STRATEGY, state.repeat, len(state.labelled))
    model, said = state.model, state.said
    if isinstance(strategy, ChangesTraining) and strategy.needs.hook:
        model, said = trained_with(strategy, scene, state, given), {}
    supplies = said_by(scene, model, strategy.needs, said)
    view = PoolView(labels_of(task, state.labelled), task.n_classes, round=1, device=given.device, **supplies)
    return strategy.select(view, n, rng).rows


def labels_of(task: Task, labelled: np.ndarray) -> np.ndarray:
    labels = np.full(len(task.X), UNLABELLED)
    labels[labelled] = task.y[labelled]
    return labels


def surrogate_of(scene: Scene, repeat: int, strategy: SurrogateStrategy, given: argparse.Namespace) -> Surrogate:
    """The strategy's surrogate. All of one repetition have the same basis, which takes longest to find."""
    settings = {name: value for name, value in strategy.options.given().items() if name != "basis_size"}
    seed = whole_number(given.seed, STREAM_STRATEGY, repeat)
    basis = scene.bases.get(repeat)
    made = Surrogate(scene.table, scene.task.n_classes, given.basis, seed, given.device, basis=basis, **settings)
    if basis is None:
        scene.bases[repeat] = basis_of(made)
    return made


def trained_with(strategy: ChangesTraining, scene: Scene, state: State, given: argparse.Namespace) -> Any:
    """The learner as the strategy has it trained, from the same seed as the common one."""
    hook = strategy.training_hook(None, stream(given.seed, STREAM_HOOK, state.repeat))
    seed = whole_number(given.seed, STREAM_LEARNER, state.repeat, len(state.labelled))
    learner: Any = make_learner(given.learner, given.device)
    X, y = scene.task.X[state.labelled], scene.task.y[state.labelled]
    return learner.fit(X, y, scene.task.n_classes, seed=seed, hook=hook)


def said_by(scene: Scene, model: Any, needs: Needs, said: dict[str, Any]) -> dict[str, Any]:
    """What a strategy needs of the pool and this model; what was `said` before is not computed again."""
    ways = {
        "probs": model.predict_proba,
        "hidden": model.features,
        "activations": model.activations,
        "gradient_norms": partial(model.gradient_norms, of=needs.gradient_of),
    }
    supplies: dict[str, Any] = {}
    if "features" in needs.supplies or needs.images_or_features:
        supplies["features"] = scene.table
    for name in needs.supplies - {"features"}:
        if name not in ways:
            raise UnderstudyError(f"this study gives no {name} to strategies; leave out those that need them")
        key = f"{name} {needs.gradient_of}" if name == "gradient_norms" else name
        if key not in said:
            said[key] = ways[name](scene.task.X)
        supplies[name] = said[key]
    return supplies


# -- measuring and judging --------------------------------------------------------------------------------------------


def measures(scene: Scene, state: State, picks: np.ndarray, given: argparse.Namespace) -> dict[str, Any]:
    task, table = scene.task, scene.table
    found: dict[str, Any] = {"balance": balance(task.y[picks], task.n_classes)}
    if scene.is_planted:
        return found | copies_picked(scene.group[picks])
    left = np.setdiff1d(np.arange(len(task.X)), state.labelled)
    rng = stream(given.seed, STREAM_RANDOM, state.repeat, len(state.labelled))
    random = [table[rng.choice(left, len(picks), replace=False)] for _ in range(RANDOM_SETS)]
    return found | distances_of(table[picks], table[state.labelled], random)


def judged(scene: Scene, labelled: dict[str, list[np.ndarray]], given: argparse.Namespace) -> dict[str, list[float]]:
    """Test accuracy of the common learner, trained on these rows: all strategies and repetitions at once."""
    task = scene.task
    rows = [each for repeats in labelled.values() for each in repeats]
    seeds = [
        whole_number(given.seed, STREAM_JUDGE, repeat, len(each))
        for repeats in labelled.values()
        for repeat, each in enumerate(repeats)
    ]
    models = iter(train(task, given.learner, given.device, rows, seeds))
    return {
        name: [float((next(models).predict_proba(task.Xt).argmax(1) == task.yt).mean()) for _ in repeats]
        for name, repeats in labelled.items()
    }


def flat(repeats: Sequence[dict[str, Any]]) -> list[str]:
    """What is one number a repetition. Distances get theirs here."""
    for one in repeats:
        for kind in ("within", "to_labelled", "within_over_random", "to_labelled_over_random"):
            for figure, value in one.get(kind, {}).items():
                one[f"{kind}, {figure}"] = value
            one.pop(kind, None)
    return list(repeats[0])


def fall_around_picks(scene: Scene, initial: int, given: argparse.Namespace) -> dict[str, Any]:
    """What is left of u¹ and u² near a pick once its label is told, and once it is only pending.

    The mean over the first picks of the sum over its k nearest rows afterwards, over that before.
    """
    found: dict[str, Any] = {"picks": FIRST_PICKS, "neighbours": list(NEIGHBOURS)}
    shares: dict[str, list[list[float]]] = {"influence": [], "uncertainty": [], "influence, pending": []}
    for state in states_of(scene, initial, given):
        probs = said_by(scene, state.model, Needs(frozenset({"probs"})), state.said)["probs"]
        of_repeat: dict[str, list[list[float]]] = {name: [] for name in shares}
        surrogate = surrogate_of(scene, state.repeat, SurrogateStrategy(method="paper"), given).anchor(
            probs, state.labelled
        )
        for _ in range(FIRST_PICKS):
            before = {"influence": surrogate.influence, "uncertainty": surrogate.uncertainty}
            row = surrogate.ask(1)
            pending = {"influence, pending": surrogate.influence}
            surrogate.tell(row, scene.task.y[row])
            after = pending | {"influence": surrogate.influence, "uncertainty": surrogate.uncertainty}
            near = neighbours_of(scene.table, int(row[0]))
            for name, values in after.items():
                of_repeat[name].append(what_is_left(before[name.split(",")[0]][near], values[near]))
        for name, each in of_repeat.items():
            shares[name].append(np.mean(each, axis=0).tolist())
    found |= {name: [summary(list(column)) for column in zip(*each, strict=True)] for name, each in shares.items()}
    return found


def neighbours_of(table: Tensor, row: int) -> np.ndarray:
    """The rows nearest to this one, which is not among them, the nearest first."""
    distances = nearest(table, table[row : row + 1])
    distances[row] = torch.inf
    return distances.topk(min(max(NEIGHBOURS), len(table) - 1), largest=False).indices.cpu().numpy()


def what_is_left(before: np.ndarray, after: np.ndarray) -> list[float]:
    """The share of a utility that is left at the nearest rows, for each number of them."""
    return [float(after[:k].sum() / before[:k].sum()) if before[:k].sum() else float("nan") for k in NEIGHBOURS]


# -- tables -----------------------------------------------------------------------------------------------------------


def print_round(found: dict[str, Any]) -> None:
    pool, copies = found["pool"], found["copies"]
    print(f"\n{found['picks']} picks from {found['initial']} labels; distances over those of random rows")
    print(f"{'':24}{'mean':>7}{'5 %':>7}{'to lab.':>8}{'crowd':>7}{'balance':>8}{'acc. %':>8} |", end="")
    print(f"{'in groups':>10}{'fellow':>8}{'repeats':>8}{'acc. %':>8}")
    for name, entry in pool["strategies"].items():
        if name not in copies["strategies"]:
            continue
        here, there = (
            {key: each["mean"] for key, each in e["summary"].items()} for e in (entry, copies["strategies"][name])
        )
        print(
            f"{name:24}{here['within_over_random, mean']:7.2f}{here['within_over_random, low']:7.2f}"
            f"{here['to_labelled_over_random, mean']:8.2f}{here['crowding']:7.2f}{here['balance']:8.3f}"
            f"{100 * here['accuracy']:8.2f} |"
            f"{there['in_groups']:10.1f}{there['with_fellow']:8.1f}{there['repeats']:8.1f}"
            f"{100 * there['accuracy']:8.2f}"
        )
    chance = copies["by_chance"]
    print(f"{'by chance':24}{'':45} |{chance['in_groups']:10.1f}{chance['with_fellow']:8.1f}{chance['repeats']:8.1f}")
    for name, words in (pool["failures"] | copies["failures"]).items():
        print(f"{name}: {words}")


def print_fall(found: dict[str, Any]) -> None:
    print(f"\nwhat is left of a utility at the nearest rows of a pick, the first {found['picks']} picks")
    print(f"{'nearest rows':24}" + "".join(f"{k:8}" for k in found["neighbours"]))
    for name in ("influence, pending", "influence", "uncertainty"):
        print(f"{name:24}" + "".join(f"{each['mean']:8.3f}" for each in found[name]))


if __name__ == "__main__":
    main()
