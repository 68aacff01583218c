"""From the archives of the grid to what is kept: a folder an experiment, as `benchmarks/paper` has them.

    python benchmarks/default/merge.py finished-*.zip unfinished.zip --data DATA --into benchmarks/default

Give all archives of all calls; a round that is in several of them is taken once. Rounds that `benchmarks/paper` keeps
of the very same plan are taken from there. `--work` keeps the whole comparisons, picks included, which `understudy
report` and `understudy replay` take.
"""

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from grid import plan_for
from prepare import SETS, dataset_of, read_bench
from rounds import read_rounds, unpack
from studies import STUDIES, Job, for_trial, is_kept, jobs_of

from understudy.experiments.plan import Plan
from understudy.experiments.results import ROUND_FIELDS, Results, Round, RoundStore

PAPER: Final = Path(__file__).parents[1] / "paper"
sys.path.append(str(PAPER))

from keep import SEVERAL, keep  # noqa: E402


def kept_rounds(job: Job, plan: Plan, paper: Path) -> Iterator[Round]:
    """Rounds of a job that were kept of an earlier comparison, if it was of the same plan."""
    folder = paper / f"{job.data}-{job.learner}"
    if not is_kept(job) or not (folder / "experiment.json").exists():
        return
    before = Results.open(folder)
    if before.settings["plan"] != json.loads(json.dumps(plan.as_json())):
        raise ValueError(f"{folder} is of another plan than {job.experiment}; play its strategies again: --again")
    seconds = before.timings.to_pylist()
    for row, beside in zip(before.table.to_pylist(), seconds, strict=True):
        values = row | beside
        if row["strategy"] == job.strategy and row["repeat"] in job.repeats:
            yield Round(**{name: values[name] for name in ROUND_FIELDS})


def merge_experiment(
    jobs: Sequence[Job], stored: Path, data: Path, paper: Path, work: Path, trial: bool
) -> Path | None:
    """The comparison of these jobs as a folder of results; None if nothing of it was played."""
    plan = plan_for(jobs[0], data, trial)
    found: dict[str, list[Round]] = defaultdict(list)
    for job in jobs:
        rounds = [one for rounds in read_rounds(stored, job, plan) for one in rounds]
        found[job.strategy] += rounds or ([] if trial else list(kept_rounds(job, plan, paper)))
    rounds = [one for of_one in found.values() for one in of_one]
    if not rounds:
        return None
    store = RoundStore(work / jobs[0].experiment)
    store.begin(
        plan,
        {
            "source": f"{SETS[jobs[0].set]}.npz",
            "protocol": "from no label" if jobs[0].start == "own" else "own schedule",
            "strategies": [name for name, of_one in found.items() if of_one],
            "repeats": max(one.repeat for one in rounds) + 1,
            "device": "cuda" if any("NVIDIA" in one.device for one in rounds) else "cpu",
            "together": max(one.together for one in rounds),
            "devices": sorted({one.device for one in rounds}),
            "versions": versions_of(rounds),
        },
    )
    store.add(rounds)
    store.merge()
    return store.folder


def versions_of(rounds: Sequence[Round]) -> list[str]:
    found = [json.loads(text) for text in sorted({one.versions for one in rounds})]
    names = ("understudy", "torch", "numpy")
    return list(dict.fromkeys(f"{name} {each[name].partition('+')[0]}" for each in found for name in names))


def by_experiment(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        found[job.experiment].append(job)
    return found


def in_order(jobs: Sequence[Job], studies: Sequence[str]) -> list[Job]:
    """As the studies list them, not as they were taken from the queue."""
    place = {job.key: number for number, job in enumerate(job for study in studies for job in STUDIES[study]())}
    return sorted(jobs, key=lambda job: place[job.key])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archives", type=Path, nargs="+", metavar="ARCHIVE")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--into", type=Path, default=Path("benchmarks/default"))
    parser.add_argument("--studies", default=",".join(STUDIES))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--paper", type=Path, default=PAPER)
    parser.add_argument("--note", default=SEVERAL)
    parser.add_argument("--trial", action="store_true")
    given = parser.parse_args()
    studies = given.studies.split(",")
    with tempfile.TemporaryDirectory() as scratch:
        stored, work = Path(scratch) / "rounds", given.work or Path(scratch) / "work"
        print(f"{unpack(given.archives, stored)} files of rounds")
        jobs = in_order(jobs_of(studies, again=True), studies)
        there = {folder.name for folder in stored.iterdir()}
        for name, members in by_experiment(jobs).items():
            if name not in there:
                continue
            members = [for_trial(job) for job in members] if given.trial else members
            folder = merge_experiment(members, stored, given.data, given.paper, work, given.trial)
            if folder is None:
                continue
            dataset = None if given.trial else dataset_of(read_bench(given.data, members[0].data))
            target = keep(folder, given.into, dataset, given.note)
            table = Results.open(target).table
            print(f"{target}  {len(table)} rounds of {len(set(table['strategy'].to_pylist()))} strategies")


if __name__ == "__main__":
    main()
