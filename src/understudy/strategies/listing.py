"""The table of `understudy strategies`, and that of the documentation."""

from collections.abc import Iterator
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from understudy.strategies.registry import STRATEGIES

# In each group, what a strategy chooses.
GROUPS: Final[dict[str, dict[str, str]]] = {
    "ours": {
        "understudy": "what would settle most of what is undecided, times its own doubt; hears every single label",
        "surrogate": "what teaches most, then what is hardest: the paper's method, to the letter",
        "surrogate_influence": "what teaches most about the whole pool (u1 alone)",
        "surrogate_uncertainty": "what is hardest (u2 alone)",
        "surrogate_uniform": "half and half, whatever the learner is worth",
        "surrogate_lookahead": "what leaves least doubt if answered (u3 in place of u2); slow",
        "surrogate_variance": "what the surrogate knows least about: what the paper argues against",
        "surrogate_blind": "as surrogate, but hears labels only when the learner is trained",
    },
    "in the paper's experiments": {
        "random": "any row",
        "coreset": "what is farthest from all labelled rows, one by one",
        "coreset_robust": "centres that cover the pool best but for a few outliers, by an integer program",
        "learning_loss": "where a module that is trained along predicts the largest loss",
        "uncertain_gcn": "what a graph network can just tell from labelled rows",
        "core_gcn": "farthest first, in the features of that graph network",
        "badge": "large gradients that differ, drawn as k-means++ draws its seeds",
        "gradnorm": "where the entropy of the prediction has the longest gradient",
        "gradnorm_egl": "where a label is expected to make the longest gradient",
        "weight_schedule": "highest entropy, of a learner whose weight decay falls as labels grow",
        "vaal": "what an adversary tells from labelled items most surely",
        "ta_vaal": "the same, with the rank of the predicted loss in view",
    },
    "cited by it": {
        "entropy": "where the prediction is spread most",
        "margin": "where two classes are closest",
        "least_confidence": "where the best class is least probable",
        "bald": "where passes with dropout disagree most",
        "power_bald": "a draw that favours such rows",
        "batchbald": "rows about which they disagree most jointly",
        "bait": "rows that lower the learner's expected error most, by its Fisher information",
        "bait_binary": "the same with one direction a row; for large pools and many classes",
        "dal": "what a classifier takes for unlabelled, a few at a time",
        "farthest_first": "farthest first, Euclidean or by angle",
        "selection_via_proxy": "what any strategy chooses by a cheaper learner",
        "kmeans": "the row nearest to each of n cluster centres",
        "preclustering": "doubtful rows in dense places, by prototypes",
        "svm_margin": "what is nearest to a support vector machine's boundary",
        "emoc": "what is expected to change the surrogate's predictions most",
        "expected_error": "what is expected to leave the surrogate with the fewest errors",
        "subquery": "the same with harmonic functions on a graph, searched along a tree",
        "elhamifar": "representatives that are doubtful and new, by a convex program",
        "mutual_information": "what tells most about the rest of the pool under a Gaussian process",
        "sraal": "what an adversary tells from labelled items, weighed by doubt",
        "bgadl": "as bald, and the learner trains on made-up siblings of labelled images too",
    },
    "expected today": {
        "typiclust": "the most typical row of each cluster without labels",
        "probcover": "balls that cover most of what is not covered yet",
        "cluster_margin": "small margins, spread over clusters",
        "drop_query": "rows whose prediction changes under dropout, spread by k-means",
        "max_herding": "what represents the rest of the pool best, by a kernel",
        "uherding": "the same, weighed by doubt",
    },
}

WIDEST: Final = max(len(name) for members in GROUPS.values() for name in members)


def tables() -> Iterator[Table]:
    """For each group: name, what it chooses, what it needs."""
    for group, members in GROUPS.items():
        out = Table(title=group, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
        out.add_column("name", no_wrap=True, min_width=WIDEST)
        out.add_column("chooses", max_width=72)
        out.add_column("needs", min_width=16)
        for name, chooses in members.items():
            out.add_row(name, chooses, ", ".join(needs_of(name)) or "nothing")
        yield out


def as_json() -> list[dict[str, object]]:
    return [
        {"name": name, "group": group, "chooses": chooses, "needs": needs_of(name)}
        for group, members in GROUPS.items()
        for name, chooses in members.items()
    ]


def needs_of(name: str) -> list[str]:
    needs = STRATEGIES[name]().needs
    words: list[str] = sorted(needs.supplies)
    words += [f"{supply} (once there are some)" for supply in sorted(needs.optional)]
    words += ["images or features"] * needs.images_or_features
    words += ["training hook"] * needs.hook
    if needs.classes > 1:
        return [*words, f"labels of {needs.classes} classes"]
    return words + ["a label"] * (needs.labelled > 0)


def as_markdown() -> str:
    """The tables of docs/strategies.md: a test holds the page to them."""
    lines = []
    for group, members in GROUPS.items():
        lines += ["", f"**{group.capitalize()}**", "", "| name | chooses | needs |", "|---|---|---|"]
        for name, chooses in members.items():
            page = f"strategies/{home(name)}.md"
            lines.append(f"| [`{name}`]({page}) | {chooses} | {', '.join(needs_of(name)) or 'nothing'} |")
    return "\n".join(lines).lstrip("\n") + "\n"


def home(name: str) -> str:
    """The module of a strategy, which is also the name of its page."""
    made = STRATEGIES[name]
    return str(getattr(made, "func", made).__module__).rpartition(".")[2]
