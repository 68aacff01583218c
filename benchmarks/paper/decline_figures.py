"""The two figures of `docs/paper-late-decline.md`; `decline_page.py` draws them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from decline_report import by_variant

if TYPE_CHECKING:
    from decline_page import Kept

# Colours of Okabe and Ito.
ORANGE, BLUE, GREEN, PINK, SKY, GOLD, GREY = (
    "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#666666",
)  # fmt: skip
WHOLE: Final = {
    "surrogate": ("literal", ORANGE),
    "surrogate_influence": ("u¹ alone", GOLD),
    "surrogate_uncertainty": ("u² alone", PINK),
    "random": ("random", GREY),
    "badge": ("BADGE", GREEN),
}
SWITCHED: Final = {
    "literal": ("literal", ORANGE, "-"),
    "literal>margin@2000": ("literal, then margin", BLUE, "-"),
    "margin>literal@2000": ("margin, then literal", SKY, "-"),
    "literal>random@2000": ("literal, then random", GREY, "-"),
    "P=pool": ("P of the pool", PINK, "--"),
    "u2=margin": ("u² = margin", GOLD, "--"),
    "u2=margin, P=0.9": ("u² = margin and P = 0.9", GREEN, "--"),
}
INSIDE: Final = {
    "pool accuracy": ("learner's accuracy on the pool", GREY),
    "P": ("P", ORANGE),
    "u1 lead": ("u¹'s part of the lead", BLUE),
    "g left": ("left of what the basis explains", GREEN),
}
SHOWN_BY_GROUP: Final = {
    "rivals": ("margin", "badge", "random", "typiclust"),
    "one part": ("influence", "uncertainty"),
    "P": ("P=pool", "uniform", "P=0.9"),
    "u²": ("u2=least_confidence", "u2=margin"),
    "both": ("u2=margin, P=0.5", "u2=margin, P=0.9"),
    "basis": ("K=1000", "K=2000", "K=4000", "renewed"),
    "input kernel": ("width=0.25", "width=1", "width=2", "on=hidden"),
    "output kernel": ("sigma_f=sqrt(C)", "sigma_f=1"),
    "link, labels": ("link=simplex", "link=logit", "blind"),
}


def draw_paths(kept: "Kept", out: Path) -> None:
    """Left: whole experiments minus margin. Middle: switches and changes. Right: what the literal method weighs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.5, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    schedule = kept.curves["cifar100-modern"]["schedule"]
    ends: list[tuple[float, str, str]] = []
    for name, (label, colour) in WHOLE.items():
        mean, half = kept.curve("cifar100-modern", name, "margin")
        left.plot(schedule, mean, color=colour, linewidth=1.8)
        left.fill_between(schedule, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)
        ends.append((float(mean[-1]), label, colour))
    left.set_title("accuracy minus margin's, points (n = 10)", loc="left", fontsize=9.5)
    name_ends(left, schedule[-1], ends, 0.28)
    ends = []
    for name, (label, colour, dashes) in SWITCHED.items():
        budgets, curve = path_minus_margin(kept, name)
        middle.plot(budgets, curve, dashes, color=colour, linewidth=1.8)
        ends.append((curve[-1], label, colour))
    middle.set_title("the same, switched at 2,000 or changed (n = 5 to 3)", loc="left", fontsize=9.5)
    name_ends(middle, 4000, ends, 0.19)
    for panel in (left, middle):
        panel.axhline(0, color="black", linewidth=0.8)
    ends = []
    for key, (label, colour) in INSIDE.items():
        labels, values = gauge_along(kept, key)
        right.plot(labels, values, color=colour, linewidth=1.8)
        ends.append((values[-1], label, colour))
    right.set_title("inside the literal method", loc="left", fontsize=9.5)
    right.set_ylim(0, 1)
    right.legend([right.lines[i] for i in range(len(ends))], [label for _, label, _ in ends], fontsize=8,
                 frameon=False, loc="upper right", bbox_to_anchor=(1, 0.98))  # fmt: skip
    for panel in (left, middle, right):
        panel.set_xlabel("labels", fontsize=9)
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="#e4e4e4", linewidth=0.6)
    figure.savefig(out, dpi=110)


def name_ends(panel: Any, x: float, ends: list[tuple[float, str, str]], gap: float) -> None:
    """Names at the right ends of curves, moved apart where they would meet."""
    panel.set_xlim(right=x + 0.55 * (x - panel.get_xlim()[0]))
    panel.set_xticks(list(range(1000, int(x) + 1, 1000)))
    ends = sorted(ends)
    places = np.array([y for y, _, _ in ends])
    for _ in range(200):
        lack = np.maximum(gap - np.diff(places), 0)
        places[:-1] -= lack / 2
        places[1:] += lack / 2
    for place, (_, label, colour) in zip(places, ends, strict=True):
        panel.annotate(label, (x + 60, place), fontsize=8, color=colour, va="center")


def path_minus_margin(kept: "Kept", name: str) -> tuple[list[int], list[float]]:
    """Up to 4,000 labels, which three repetitions reached."""
    budgets = [budget for budget in sorted({record["labels"] for record in kept.paths}) if budget <= 4000]
    curve = []
    for budget in budgets:
        at = by_variant([r for r in kept.paths if r["labels"] == budget], lambda r: 100 * r["accuracy"])
        shared = at[name].keys() & at["margin"].keys()
        curve.append(float(np.mean([at[name][key] - at["margin"][key] for key in shared])))
    return budgets, curve


def gauge_along(kept: "Kept", key: str) -> tuple[list[int], list[float]]:
    """A number of the literal method's inside at each look, mean over repetitions; without the first, P = 0."""
    looks: dict[int, list[float]] = {}
    for record in kept.paths:
        if record["variant"] == "literal":
            for gauge in record.get("gauges", ()):
                value = record["pool accuracy"] if key == "pool accuracy" else gauge[key]
                looks.setdefault(record["labels"] + int(gauge["asked"]), []).append(value)
    labels = [at for at in sorted(looks) if len(looks[at]) >= 3][1:]
    return labels, [float(np.mean(looks[at])) for at in labels]


def draw_levers(kept: "Kept", out: Path) -> None:
    """One round by each variant minus one by the literal method: every repetition, and the mean."""
    from matplotlib.figure import Figure

    names = [name for group in SHOWN_BY_GROUP.values() for name in group]
    places: dict[str, float] = {}
    y = 0.0
    for group in SHOWN_BY_GROUP.values():
        for name in group:
            places[name] = y
            y -= 1
        y -= 0.5
    states = (("random", 600), ("literal", 2000), ("literal", 4000))
    figure = Figure(figsize=(11, 0.235 * len(names) + 1.6), layout="constrained")
    panels = figure.subplots(1, len(states), sharey=True)
    for panel, state in zip(panels, states, strict=True):
        for name, place in places.items():
            found, half = kept.lever(name, state)
            if not found:
                continue
            mean = float(np.mean(found))
            colour = GREY if abs(mean) <= half else (GREEN if mean > 0 else ORANGE)
            panel.plot(found, [place] * len(found), "o", color=colour, markersize=3.5, alpha=0.45, markeredgewidth=0)
            panel.plot([mean], [place], "|", color=colour, markersize=11, markeredgewidth=2.5)
        panel.axvline(0, color="black", linewidth=0.8)
        kind, labels = state
        panel.set_title(f"from {labels:,} labels, {kind}", loc="left", fontsize=9.5)
        panel.set_xlabel("points of gain beyond the literal method's", fontsize=8.5)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="both", color="#eeeeee", linewidth=0.6)
        panel.tick_params(labelsize=8)
    for panel in panels[1:]:
        panel.set_xlim(-1.9, 1.9)
    panels[0].set_yticks(list(places.values()), list(places))
    figure.savefig(out, dpi=110)
