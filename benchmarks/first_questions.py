"""The first questions of a labelling session: how many classes has it met?

    python benchmarks/first_questions.py --out benchmarks/results/first-questions.json

The project of `understudy label --demo`, 1,297 digits of ten classes: once with the method of new projects, once with
the paper's, which projects of the version before keep. Every question is answered truthfully, audit items (one in ten,
the same for both) included, and after each answer a training that is due is waited for, so that nothing depends on the
machine's speed. The seed is the project's: it draws the audit items and the start of k-means, and seeds the learner.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from understudy.projects.opening import create_or_open
from understudy.sessions.opening import open_session
from understudy.sessions.session import Session

METHODS: Final = ("understudy", "paper")
AFTER: Final = (5, 10, 20)  # questions
WHO: Final = "ann"


def play(method: str, seed: int, n_questions: int) -> dict[str, Any]:
    """The items of one session in the order they were asked for, their classes, and which were drawn for the audit."""
    with tempfile.TemporaryDirectory() as folder:
        project = create_or_open(demo=True, project=Path(folder) / "digits", device="cpu", seed=seed, method=method)
        session = open_session(project)
        try:
            assert project.source is not None
            labels = project.source.pool.labels
            assert labels is not None
            return answer_all(session, labels, n_questions) | {"method": method, "seed": seed}
        finally:
            session.close()


def answer_all(session: Session, labels: np.ndarray, n_questions: int) -> dict[str, Any]:
    items, audited = [], 0
    for turn in range(n_questions):
        question = session.next(WHO)
        assert question.item is not None, question.reason
        items.append(question.item)
        audited += question.ask == "audit"
        session.label(question.item, int(labels[question.item]), WHO, f"{turn}")
        while session.learning.is_busy:
            time.sleep(0.01)
    classes = [int(labels[item]) for item in items]
    seen = {str(count): len(set(classes[:count])) for count in AFTER if count <= n_questions}
    return {"items": items, "classes": classes, "audit_items": audited, "classes_seen": seen}


def summary(runs: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The mean number of classes seen after so many questions, by method."""
    found: dict[str, dict[str, float]] = {}
    for method in METHODS:
        seen = [run["classes_seen"] for run in runs if run["method"] == method]
        found[method] = {count: float(np.mean([one[count] for one in seen])) for count in seen[0]}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--questions", type=int, default=max(AFTER))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    runs = []
    for seed in range(given.seeds):
        for method in METHODS:
            runs.append(play(method, seed, given.questions))
            print(f"seed {seed}, {method}: {runs[-1]['classes_seen']}", flush=True)
    means = summary(runs)
    for method, seen in means.items():
        print(f"{method}: " + ", ".join(f"{mean:.1f} classes after {count}" for count, mean in seen.items()))
    if given.out is not None:
        given.out.write_text(json.dumps({"classes": 10, "mean_classes_seen": means, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
