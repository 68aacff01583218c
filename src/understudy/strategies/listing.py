"""The table of `understudy strategies`, and that of the documentation."""

from collections.abc import Iterator
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from understudy.strategies.registry import STRATEGIES

# In each group, what a strategy chooses.
GROUPS: Final[dict[str, dict[str, str]]] = {
    "ours": {
        "understudy": "rows informative about undecided ones and uncertain themselves; updated with every single label",
        "surrogate": "the most informative rows first, then the hardest: the paper's method, to the letter",
        "surrogate_influence": "the most informative rows about the whole pool (u1 alone)",
        "surrogate_uncertainty": "the hardest rows (u2 alone)",
        "surrogate_uniform": "u1 and u2 with equal weights, whatever the learner's accuracy",
        "surrogate_lookahead": "rows whose label is expected to leave least uncertainty (u3 in place of u2); slow",
        "surrogate_variance": "the largest variance of the surrogate, which the paper argues against",
        "surrogate_blind": "as surrogate, but updated only when the learner is trained",
    },
    "in the paper's experiments": {
        "random": "random rows",
        "coreset": "the row farthest from all labelled ones, repeatedly (k-center greedy)",
        "coreset_robust": "centres that cover the pool best except for a few outliers, by an integer program",
        "learning_loss": "the largest loss as predicted by a jointly trained module",
        "uncertain_gcn": "rows that a graph network can just tell apart from labelled ones",
        "core_gcn": "farthest first, in the features of that graph network",
        "badge": "large and diverse gradients, sampled like the seeds of k-means++",
        "gradnorm": "the largest gradient norm of the prediction's entropy",
        "gradnorm_egl": "the largest expected gradient norm of the cross-entropy (EGL)",
        "weight_schedule": "highest entropy, with a learner whose weight decay falls as labels grow",
        "vaal": "what a discriminator most confidently tells apart from labelled items",
        "ta_vaal": "the same, with the rank of the predicted loss as an extra input",
    },
    "cited by it": {
        "entropy": "the highest entropy of the prediction",
        "margin": "the smallest margin between the two most probable classes",
        "least_confidence": "the lowest probability of the predicted class",
        "bald": "where MC-dropout passes disagree most",
        "power_bald": "rows sampled with odds that grow with the BALD score",
        "batchbald": "a batch on which they jointly disagree most",
        "bait": "rows that lower the learner's expected error most, by Fisher information",
        "bait_binary": "the same with one factor per row; for large pools and many classes",
        "dal": "what a classifier recognises as unlabelled, a few at a time",
        "farthest_first": "farthest first, by Euclidean or cosine distance",
        "selection_via_proxy": "any strategy, with the predictions of a cheaper learner",
        "kmeans": "the row nearest to each of n cluster centres",
        "preclustering": "uncertain rows in dense regions, by prototypes",
        "svm_margin": "the rows nearest to a support vector machine's decision boundary",
        "emoc": "rows whose label is expected to change the surrogate's predictions most",
        "expected_error": "rows whose label is expected to leave the surrogate with the fewest errors",
        "subquery": "the same with harmonic functions on a graph, searched along a tree",
        "elhamifar": "uncertain representatives far from labelled rows, by a convex program",
        "mutual_information": "the most mutual information with the rest of the pool, under a Gaussian process",
        "sraal": "what a discriminator tells apart from labelled items, weighted by uncertainty",
        "bgadl": "as bald, and the learner also trains on generated variants of labelled images",
    },
    "newer methods": {
        "typiclust": "the most typical row of each cluster without labels",
        "probcover": "balls that cover most of the uncovered rows",
        "dcom": "the same with balls as large as their predictions are pure, then small margins as coverage grows",
        "tcm": "typiclust up to a number of labels per class, then margin",
        "active_ft": "the row nearest to each of n centroids that are trained to be spread as the pool is",
        "cluster_margin": "small margins, spread over clusters",
        "drop_query": "rows whose prediction changes under dropout, spread by k-means",
        "max_herding": "rows that represent the rest of the pool best under a kernel",
        "uherding": "the same, weighted by uncertainty",
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
            out.add_row(name, chooses, ", ".join(needs_in_words(name)) or "nothing")
        yield out


def as_json() -> list[dict[str, object]]:
    return [
        {"name": name, "group": group, "chooses": chooses, "needs": needs_in_words(name)}
        for group, members in GROUPS.items()
        for name, chooses in members.items()
    ]


def needs_in_words(name: str) -> list[str]:
    needs = STRATEGIES[name]().needs
    words: list[str] = sorted(needs.supplies)
    words += [f"{supply} (once available)" for supply in sorted(needs.optional)]
    words += ["images or features"] * needs.images_or_features
    words += ["training hook"] * needs.hook
    if needs.classes > 1:
        return [*words, f"labels of {needs.classes} classes"]
    return words + ["a label"] * (needs.labelled > 0)


def as_markdown() -> str:
    """The tables of docs/strategies.md, which a test compares with the page."""
    lines = []
    for group, members in GROUPS.items():
        lines += ["", f"**{group.capitalize()}**", "", "| name | chooses | needs |", "|---|---|---|"]
        for name, chooses in members.items():
            page = f"strategies/{module_of(name)}.md"
            lines.append(f"| [`{name}`]({page}) | {chooses} | {', '.join(needs_in_words(name)) or 'nothing'} |")
    return "\n".join(lines).lstrip("\n") + "\n"


def module_of(name: str) -> str:
    """The module of a strategy, which is also the name of its page."""
    made = STRATEGIES[name]
    return str(getattr(made, "func", made).__module__).rpartition(".")[2]
