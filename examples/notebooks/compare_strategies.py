"""
Is one strategy better than another?
====================================

A single learning curve proves little: other first labels, and the order of two strategies may turn round. This notebook
compares four ways of choosing the fair way, with repetitions that share everything but the choices, and ends with a
figure and a table you could put into a paper.
"""

# %%
# Run the comparison
# ------------------
#
# :func:`~understudy.experiments.compare.compare` checks everything before anything runs, and says what it is going to
# do. In each of the ten repetitions all strategies start from the same labels, and their learners from the same seeds.

import tempfile

import matplotlib.pyplot as plt
import numpy as np

from understudy.experiments.compare import compare
from understudy.experiments.statistics import compare as compare_curves
from understudy.experiments.statistics import labels_saved, rank_strategies

comparison = compare(
    "digits",
    ["understudy", "margin", "entropy", "random"],
    learner="logistic",
    schedule=[20, 40, 70],
    repeats=10,
    controls=False,
    out=tempfile.mkdtemp(),
)
print(*comparison.describe(jobs=1)[:-1], sep="\n")

# %%
# Every round is stored as soon as it ends. Interrupt a long comparison whenever you like: the same call goes on where
# it stopped.

results = comparison.run(jobs=1, progress=False).results
curves = results.curves()
print({name: values.shape for name, values in curves.accuracy.items()})

# %%
# Look at the curves
# ------------------
#
# On the left the means over repetitions. They hide what was paired: a repetition with lucky first labels lifts all
# curves. On the right is what counts, the difference from ``random`` within each repetition, in which the luck cancels.

colours = {"understudy": "#0b746a", "margin": "#b06a00", "entropy": "#7a4fa3", "random": "#8a8780"}
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
for place, (name, colour) in enumerate(colours.items()):
    left.plot(curves.schedule, 100 * curves.of(name).mean(axis=0), marker="o", color=colour, label=name)
    if name != "random":
        gains = 100 * (curves.of(name) - curves.of("random"))
        positions = np.arange(len(curves.schedule)) + 0.2 * (place - 1)
        right.plot(positions, gains.T, "o", markersize=4, color=colour, alpha=0.4, markeredgewidth=0)
        right.plot(positions, gains.mean(axis=0), "_", markersize=18, markeredgewidth=3, color=colour)
right.axhline(0, color=colours["random"], linewidth=1)
right.set_xticks(range(len(curves.schedule)), [f"{budget} labels" for budget in curves.schedule])
right.set(ylabel="points ahead of random", title="Each dot is a repetition, each bar a mean")
left.set(xlabel="labels", ylabel="test accuracy in %", title="Means of ten repetitions")
left.legend(frameon=False, loc="lower right")

# %%
# At 20 labels all differences are zero, as they should be: until then nobody has chosen anything.
#
# Test the difference
# -------------------
#
# The *area* is the mean accuracy over the whole curve, one number for each repetition. Its paired difference comes with
# a t-interval, and one test that was fixed beforehand: Wilcoxon's signed ranks, corrected by Holm for the number of
# strategies.

for found in compare_curves(curves):
    low, high = 100 * np.array(found.area.interval)
    gain = f"{100 * found.area.mean:+.1f} points [{low:+.1f}, {high:+.1f}]"
    print(f"{found.strategy:<10} {gain}, ahead in {found.wins} of {curves.repeats}, p = {found.p_holm:.3f}")

# %%
# Beating ``random`` is the least one can ask. Is the default also ahead of ``margin``, the simplest strategy that is
# any good? Name another reference:

against_margin = {found.strategy: found for found in compare_curves(curves, reference="margin")}["understudy"]
low, high = 100 * np.array(against_margin.area.interval)
print(f"understudy minus margin: {100 * against_margin.area.mean:+.1f} points [{low:+.1f}, {high:+.1f}]")
print(f"ahead in {against_margin.wins} of {curves.repeats} repetitions, p = {against_margin.p_holm:.3f}")

# %%
# What it means in labels
# -----------------------
#
# An accuracy is worth as much as the labels it would have cost otherwise. For what ``random`` reaches at its own
# budgets:

for saved in labels_saved(curves, "understudy"):
    if saved.labels is not None:
        print(f"{saved.accuracy:.1%} took random {saved.of_reference:.0f} labels, understudy {saved.labels:.0f}")

# %%
# And the order of all four, by their average rank over the repetitions:

ranks = rank_strategies(curves)
for name, rank in sorted(zip(ranks.names, ranks.average, strict=True), key=lambda pair: pair[1]):
    print(f"{rank:.2f}  {name}")

# %%
# This is one small, clean set and one small learner. It shows how to compare, not what will be best on your data:
# ``compare`` takes your features in place of ``"digits"``, and a strategy of your own in place of a name. The command
# ``understudy compare`` does all of this and writes :doc:`a report </docs/report>`; :doc:`/docs/statistics` derives the
# numbers.
