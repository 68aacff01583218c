"""Does the noise of the surrogate matter? The same round with σ² from 1e-8 to 1e-12, in float64.

    python benchmarks/paper/noise.py --data cifar10.npz [--device cuda] [--out FILE]

The paper varies σ² about 1e-10 on CIFAR-10 and sees no change. Here one network is trained on random labels, and a
surrogate for each σ², all from the same basis, chooses and is told rows one by one. Reported is up to which pick they
all agree, and how many rows of the round they share. Where all picks are the same, so is every accuracy.
"""

import numpy as np
from study import about, accuracy, basis_of, initial_rows, make_surrogate, options, read_task, save, train, whole_number

LEVELS = (1e-8, 1e-9, 1e-10, 1e-11, 1e-12)
USUAL = 1e-10
STREAM_LEARNER = 2


def agreed(picks: list[np.ndarray]) -> int:
    """How many picks from the first on are the same in all lists."""
    same = np.all([rows == picks[0] for rows in picks], axis=0)
    return len(same) if same.all() else int(same.argmin())


def main(arguments: list[str] | None = None) -> None:
    parser = options(__doc__, repeats=2)
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--picks", type=int, default=300)
    parser.add_argument("--learner", default="modern")
    given = parser.parse_args(arguments)
    task = read_task(given.data, given.rows, given.seed)
    rows_found = []
    for repeat in range(given.repeats):
        labelled = initial_rows(task, given.labels, given.seed, repeat)
        seed = whole_number(given.seed, STREAM_LEARNER, repeat, given.labels)
        [model] = train(task, given.learner, given.device, [labelled], [seed])
        probs, basis, picks = model.predict_proba(task.X), None, {}
        for noise in LEVELS:
            surrogate = make_surrogate(task, given, repeat, noise=noise, dtype="float64", basis=basis)
            basis = basis_of(surrogate)
            picks[noise] = surrogate.anchor(probs, labelled).rehearse(task.y, given.picks)
        shared = {f"{noise:g}": int(np.isin(rows, picks[USUAL]).sum()) for noise, rows in picks.items()}
        rows_found.append({"agreed": agreed(list(picks.values())), "shared": shared, "accuracy": accuracy(model, task)})
        print(f"repetition {repeat}: all agree up to pick {rows_found[-1]['agreed']} of {given.picks}; shared {shared}")
        save({**about(given, task), "levels": LEVELS, "repetitions": rows_found}, given.out)


if __name__ == "__main__":
    main()
