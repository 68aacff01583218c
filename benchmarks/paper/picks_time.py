"""Seconds a pick of the systems that the paper times on FashionMNIST.

    python benchmarks/paper/picks_time.py --data fashion_mnist.npz [--device cuda] [--out FILE]

A round of 1,000 picks from 2,000 random labels, divided by 1,000. The learner's training is not counted. Columns:

- choose: the selection alone, with features and predictions at hand;
- with predictions: also what the learner has to say of the whole pool for it (probabilities, hidden layers).

The lines:

- surrogate: ours as a person uses it, `ask` and `tell` row by row; the basis is searched for once an experiment and not
  counted (`set_up_s`), what follows a training is (`anchor`);
- surrogate, rehearsed: the same picks in one call, as simulations have it;
- surrogate, literal: u1 by the paper's own O(n k^2) products, some picks only;
- vaal, ta_vaal: they train an autoencoder and a discriminator as part of the choice. Two short trainings are timed,
  and a straight line through them gives the published number of iterations, 100 passes over the rows: an
  extrapolation, marked as such. On features, and on 28 x 28 pictures of noise, since time does not ask what is to be
  seen on them.

The paper does not say on which machine, nor whether predictions are counted.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import study
import torch
from study import Task

from understudy.learners.registry import make_learner
from understudy.strategies.adversary import passes_over
from understudy.strategies.protocol import ChangesTraining, Needs, Strategy
from understudy.strategies.registry import make_strategy
from understudy.strategies.view import UNLABELLED, PoolView

sys.path.append(str(Path(__file__).parents[1]))  # the literal form lives there
from picks import literal_pick, literal_tell

# Seconds a pick in the paper, and our names of its systems.
PAPER: Final = {
    "surrogate": 0.35,
    "vaal": 23.73,
    "coreset": 0.05,
    "learning_loss": 0.12,
    "badge": 0.58,
    "weight_schedule": 0.03,
    "uncertain_gcn": 0.86,
    "ta_vaal": 23.78,
}
PLAIN: Final = ("coreset", "learning_loss", "badge", "weight_schedule", "uncertain_gcn")
ADVERSARIES: Final = ("vaal", "ta_vaal")
SIDE: Final = 28
SUPPLIERS: Final = {"probs": "predict_proba", "hidden": "features", "activations": "activations"}

Row = dict[str, Any]


def view_maker(task: Task, given: argparse.Namespace, labelled: np.ndarray) -> Callable[..., PoolView]:
    """How to make a strategy's view of the pool with these labels."""
    labels = np.full(len(task.X), UNLABELLED)
    labels[labelled] = task.y[labelled]

    def view(**supplies: Any) -> PoolView:
        return PoolView(labels, task.n_classes, round=1, trained_on=labelled, device=given.device, **supplies)

    return view


def trained_with(strategy: Strategy, task: Task, given: argparse.Namespace, labelled: np.ndarray) -> Any:
    """The learner's model; a strategy that changes training does."""
    more: dict[str, Any] = {}
    if isinstance(strategy, ChangesTraining):
        more["hook"] = strategy.training_hook(None, study.stream(given.seed, study.STREAM_OTHER))
    learner: Any = make_learner(given.learner, given.device)
    seed = study.whole_number(given.seed, study.STREAM_LEARNER)
    return learner.fit(task.X[labelled], task.y[labelled], task.n_classes, seed=seed, **more)


def supplies_of(needs: Needs, model: Any, task: Task, given: argparse.Namespace) -> tuple[dict[str, Any], float]:
    """What the strategy needs of the learner, where it will be used, and the seconds that took."""
    clock = study.Clock(given.device)
    said: dict[str, Any] = {}
    for supply in needs.supplies & set(SUPPLIERS):
        values = getattr(model, SUPPLIERS[supply])(task.X)
        parts = values if isinstance(values, tuple) else (values,)
        moved = tuple(torch.from_numpy(part).to(given.device) for part in parts)
        said[supply] = moved if isinstance(values, tuple) else moved[0]
    return said, clock.seconds()


def seconds_of_round(strategy: Strategy, view: PoolView, given: argparse.Namespace, n: int) -> float:
    clock = study.Clock(given.device)
    picks = strategy.select(view, n, study.stream(given.seed, study.STREAM_OTHER, 1))
    seconds = clock.seconds()
    assert len(set(picks.rows.tolist())) == n
    return seconds


def line(system: str, choose: list[float], predictions: float, n: int, **more: Any) -> Row:
    """Seconds a pick: the median of the rounds, and each of them."""
    return {
        "system": system,
        "choose_s": median(choose) / n,
        "with_predictions_s": (median(choose) + predictions) / n,
        "rounds_s": choose,
        "predictions_s": predictions,
        "paper_s": PAPER.get(system.split(",")[0].split(" on ")[0]),
        **more,
    }


# -- each kind --------------------------------------------------------------------------------------------------------


def plain(name: str, task: Task, given: argparse.Namespace, labelled: np.ndarray) -> Row:
    """A strategy that chooses all its rows at once."""
    strategy = make_strategy(name)
    view = view_maker(task, given, labelled)
    model = trained_with(strategy, task, given, labelled)
    supplies_of(strategy.needs, model, task, given)  # nobody's first call is timed
    said, predictions = supplies_of(strategy.needs, model, task, given)
    if "features" in strategy.needs.supplies:
        said["features"] = torch.from_numpy(task.X).to(given.device)
    seen = view(**said)
    seconds_of_round(strategy, seen, given, min(10, given.picks))
    rounds = [seconds_of_round(strategy, seen, given, given.picks) for _ in range(given.repeats)]
    subset = getattr(strategy, "subset_size", None)
    return line(name, rounds, predictions, given.picks, **({"subset_size": subset} if subset else {}))


def ours(task: Task, given: argparse.Namespace, labelled: np.ndarray) -> list[Row]:
    strategy = make_strategy("surrogate")
    model = trained_with(strategy, task, given, labelled)
    supplies_of(strategy.needs, model, task, given)  # nobody's first call is timed
    said, predictions = supplies_of(strategy.needs, model, task, given)
    clock = study.Clock(given.device)
    first = study.make_surrogate(task, given, 0)
    set_up = clock.seconds()
    basis = study.basis_of(first)
    del first
    rows: list[Row] = []
    by_hand, at_once, anchors = list[float](), list[float](), list[float]()
    for _ in range(given.repeats):
        for kept, rehearsed in ((by_hand, False), (at_once, True)):
            s = study.make_surrogate(task, given, 0, basis=basis)
            clock = study.Clock(given.device)
            s.anchor(said["probs"], labelled)
            anchors.append(clock.seconds())
            if rehearsed:
                s.rehearse(task.y, given.picks)
            else:
                for _ in range(given.picks):
                    row = s.ask()
                    s.tell(row, task.y[row])
            kept.append(clock.seconds())
    more = {"set_up_s": set_up, "anchor_s": median(anchors)}
    rows.append(line("surrogate", by_hand, predictions, given.picks, **more))
    rows.append(line("surrogate, rehearsed", at_once, predictions, given.picks, **more))
    s = study.make_surrogate(task, given, 0, basis=basis).anchor(said["probs"], labelled)
    seconds = []
    for _ in range(given.literal + 1):
        clock = study.Clock(given.device)
        chosen = literal_pick(s)
        literal_tell(s, chosen, int(task.y[chosen]))
        seconds.append(clock.seconds())
    rows.append(line("surrogate, literal", seconds[1:], 0.0, 1, picks_timed=given.literal))
    rows[-1]["with_predictions_s"] += (predictions + more["anchor_s"]) / given.picks
    return rows


def extrapolated(short: tuple[int, float], longer: tuple[int, float], iterations: int) -> tuple[float, float]:
    """Seconds of so many iterations by a straight line through two that were timed, and seconds of each."""
    each = (longer[1] - short[1]) / (longer[0] - short[0])
    return longer[1] + each * (iterations - longer[0]), each


def adversary(name: str, on: str, task: Task, given: argparse.Namespace, labelled: np.ndarray) -> Row:
    """VAAL or TA-VAAL; two short trainings give the long one."""
    view = view_maker(task, given, labelled)
    lengths = (max(1, given.iterations // 4), given.iterations)
    strategy: Any = make_strategy(name, on=on)
    model = trained_with(strategy, task, given, labelled)
    supplies_of(strategy.needs, model, task, given)
    said, predictions = supplies_of(strategy.needs, model, task, given)
    if on == "features":
        said["features"] = torch.from_numpy(task.X).to(given.device)
    else:
        said["images"] = study.stream(given.seed, study.STREAM_OTHER, 2).integers(
            256, size=(len(task.X), SIDE, SIDE), dtype=np.uint8
        )
    seen = view(**said)
    strategy.iterations = 1
    seconds_of_round(strategy, seen, given, given.picks)
    timed = []
    for iterations in lengths:
        strategy.iterations = iterations
        timed.append((iterations, seconds_of_round(strategy, seen, given, given.picks)))
    subset = getattr(strategy, "subset_size", None)
    open_rows = len(task.X) - len(labelled)
    rows = len(task.X) if subset is None else len(labelled) + min(open_rows, max(subset, given.picks))
    iterations = passes_over(rows, strategy.batch_size)
    seconds, each = extrapolated(timed[0], timed[1], iterations)
    more = {"extrapolated": True, "timed": timed, "iterations": iterations, "iteration_s": each, "subset_size": subset}
    return line(f"{name} on {on}", [seconds], predictions, given.picks, **more)


def words(row: Row) -> str:
    paper = "" if row["paper_s"] is None else f"{row['paper_s']:.2f}"
    note = f"  extrapolated to {row['iterations']:,} iterations" if row.get("extrapolated") else ""
    return f"{row['system']:<22}{row['choose_s']:>12.6f}{row['with_predictions_s']:>18.6f}{paper:>8}{note}"


def main(arguments: list[str] | None = None) -> None:
    parser = study.options(__doc__, repeats=3)
    parser.add_argument("--labels", type=int, default=2000)
    parser.add_argument("--picks", type=int, default=1000)
    parser.add_argument("--literal", type=int, default=10, help="picks timed with the literal form")
    parser.add_argument("--iterations", type=int, default=200, help="timed of VAAL and TA-VAAL")
    parser.add_argument("--on", nargs="+", default=["features", "images"], help="what VAAL and TA-VAAL look at")
    parser.add_argument("--learner", default="paper")
    parser.add_argument("--only", nargs="+", default=list(PAPER), choices=list(PAPER))
    given = parser.parse_args(arguments)
    task = study.read_task(given.data, given.rows, given.seed)
    labelled = study.initial_rows(task, given.labels, given.seed, 0)
    clock = study.Clock(given.device)
    results: list[Row] = []
    print(f"{'system':<22}{'choose':>12}{'with predictions':>18}{'paper':>8}   (seconds a pick)")

    def say(*rows: Row) -> None:
        results.extend(rows)
        print("\n".join(words(row) for row in rows), flush=True)

    if "surrogate" in given.only:
        say(*ours(task, given, labelled))
    for name in PLAIN:
        if name in given.only:
            say(plain(name, task, given, labelled))
    for name in ADVERSARIES:
        for on in given.on if name in given.only else ():
            say(adversary(name, on, task, given, labelled))
    print(f"{clock.seconds():.1f} s")
    study.save({"about": study.about(given, task), "seconds": clock.seconds(), "results": results}, given.out)


if __name__ == "__main__":
    main()
