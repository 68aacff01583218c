"""Small files of what `docs/paper-late-decline.md` rests on, from large ones.

    python benchmarks/paper/decline_keep.py --records a.json b.json --results FOLDER ... --out KEPT

Records of `decline.py` keep all but the digits that nobody reads. Of experiments by `understudy compare`, accuracies,
the paper's P and the labels' balance over classes are kept, of the strategies that the page speaks of: `curves.json`.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from understudy.experiments.results import Results

STRATEGIES: Final = (
    "surrogate", "surrogate_influence", "surrogate_uncertainty", "surrogate_uniform", "surrogate_blind", "random",
    "margin", "entropy", "badge", "typiclust",
)  # fmt: skip
DIGITS: Final = 5


def shortened(value: Any) -> Any:
    """The same with every number of five digits."""
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}")
        case list():
            return [shortened(item) for item in value]
        case dict():
            return {key: shortened(item) for key, item in value.items()}
    return value


def unevenness(counts: list[int]) -> float:
    """The deviation of the classes' counts over their mean."""
    return float(np.std(counts) / np.mean(counts))


OF_A_ROUND: Final[dict[str, Callable[[dict[str, Any]], float | None]]] = {
    "accuracy": lambda row: row["accuracy"],
    "asked": lambda row: row["asked_accuracy"],
    "unevenness": lambda row: unevenness(row["class_counts"]),
}


def curves_of(results: Results) -> dict[str, Any]:
    """One experiment: by strategy the accuracies, P and unevenness of each repetition at each budget."""
    plan = results.settings["plan"]
    found: dict[str, Any] = {key: plan[key] for key in ("dataset", "learner", "schedule")}
    wanted = [name for name in results.strategies if name in STRATEGIES or name.startswith("surrogate(")]
    rows: dict[tuple[str, int], dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in results.table.to_pylist():
        rows[row["strategy"], row["repeat"]][row["labels"]] = row
    for key, value in OF_A_ROUND.items():
        found[key] = {
            name: [
                [value(at[labels]) for labels in plan["schedule"] if labels in at]
                for (strategy, _), at in sorted(rows.items())
                if strategy == name
            ]
            for name in wanted
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", nargs="*", type=Path, default=[])
    parser.add_argument("--results", nargs="*", type=Path, default=[])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    made = {file.name: json.loads(file.read_text()) for file in options.records}
    if options.results:
        made["curves.json"] = {folder.name: curves_of(Results.open(folder)) for folder in options.results}
    for name, content in made.items():
        text = json.dumps(shortened(content), separators=(",", ":"))
        (options.out / name).write_text(text + "\n")
        print(f"{len(text):9,} bytes  {name}")


if __name__ == "__main__":
    main()
