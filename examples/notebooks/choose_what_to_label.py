"""
Which images to label next
==========================

You have 1,297 small images of handwritten digits and nobody has labelled them. You have patience for sixty labels.
Which sixty? In this notebook an :class:`~understudy.ActiveLoop` decides, one image at a time, and you see what it
chooses and what that is worth.
"""

# %%
# The pool
# --------
#
# A *pool* is everything that could be labelled. ``load`` makes one of a folder, a table, arrays or a data set by name;
# the digits come with scikit-learn. Their labels are known, so that a look into ``labels`` can play the person.

import matplotlib.pyplot as plt
import numpy as np

from understudy import ActiveLoop, load

digits = load("digits")
features, labels = digits.pool.arrays()
test_features, test_labels = digits.test.arrays()
print(f"{len(features):,} images to choose from, {len(test_features)} to test on, {features.shape[1]} pixels each")


# %%
# A small helper shows images by their row in the pool. Rows are how Understudy speaks of items everywhere.


def show(rows, titles, wrong=()):
    """The images of these rows, with a title each; those that are wrong in red."""
    figure, places = plt.subplots(2, 10, figsize=(10, 2.8), layout="constrained")
    for place, row, title in zip(places.flat, rows, titles, strict=True):
        place.imshow(features[row].reshape(8, 8), cmap="gray_r")
        place.set_title(title, fontsize=10, color="#b3261e" if row in wrong else "#1f1e1b")
        place.set_axis_off()


# %%
# The first labels
# ----------------
#
# A loop keeps the pool, a learner and a strategy at work together. Here the learner is a logistic regression, trained
# from scratch at 20 labels and after every 10 more. There is no model yet, but the strategy ``"understudy"`` needs
# none: it begins with images that say most about the others.

loop = ActiveLoop(digits.pool, learner="logistic", strategy="understudy", schedule=[20, 30, 40, 50, 60])
first = loop.ask(20)
show(first, titles=[f"{labels[row]}" for row in first])

# %%
# ``tell`` takes the labels. These twenty make the learner due, and it is trained before ``tell`` returns. Nobody said
# how many digits there are of each kind, and yet none is missing.


def accuracy(loop):
    """The share of the test images that the loop's model gets right."""
    return (loop.model.predict_proba(test_features).argmax(axis=1) == test_labels).mean()


loop.tell(first, labels[first])
print("labels of each digit:", np.bincount(labels[first], minlength=10))
print(f"{accuracy(loop):.0%} of the test images are right")

# %%
# What it asks for now
# --------------------
#
# From here on every image is chosen by what its label would teach. We ask for one at a time and tell the label at
# once: the *understudy* learns it before it chooses the next, without waiting for a training. Above each image stands
# what the model takes it for; red, where that is wrong.

chosen, guesses = [], []
while len(loop.labelled) < 40:
    row = int(loop.ask()[0])
    guesses.append(int(loop.predict_classes([row])[0]))
    chosen.append(row)
    loop.tell([row], labels[[row]])

mistaken = {row for row, guess in zip(chosen, guesses, strict=True) if guess != labels[row]}
show(chosen, titles=[f"{guess}?" for guess in guesses], wrong=mistaken)

# %%
# Many are images that the model gets wrong, and they are not twenty views of one difficulty: each choice takes into
# account what the labels before it have taught.

everywhere = (loop.model.predict_proba(features).argmax(axis=1) != labels).mean()
print(
    f"the model was wrong about {len(mistaken)} of these 20; of all images in the pool it gets {everywhere:.0%} wrong"
)

# %%
# Is it worth it?
# ---------------
#
# The same loop with ``strategy="random"`` is the baseline: the same learner, other choices. ``rehearse`` plays a whole
# session when all labels are known. One session may be luck, so we play five of each, with another seed every time.


def session(strategy, seed):
    """The test accuracy of one simulated session at 20, 30, ... 60 labels."""
    loop = ActiveLoop(digits.pool, "logistic", strategy, schedule=budgets, random_state=seed)
    curve = []
    for budget in budgets:
        loop.rehearse(budget - len(loop.labelled), labels)
        curve.append(accuracy(loop))
    return curve


budgets = [20, 30, 40, 50, 60]
curves = {name: np.array([session(name, seed) for seed in range(5)]) for name in ("understudy", "random")}

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, values), colour in zip(curves.items(), ("#0b746a", "#8a8780"), strict=True):
    mean = 100 * values.mean(axis=0)
    axes.plot(budgets, mean, marker="o", color=colour, label=name)
    axes.fill_between(
        budgets, 100 * values.min(axis=0), 100 * values.max(axis=0), color=colour, alpha=0.15, linewidth=0
    )
    axes.text(budgets[-1] + 0.8, mean[-1], name, color=colour, va="center")
axes.set(
    xlabel="labels",
    ylabel="test accuracy in %",
    xlim=(19, 69),
    title="Five sessions each; shaded: from the worst to the best",
)
axes.grid(alpha=0.25)

# %%
# The lead at 60 labels, session by session, in percentage points:

lead = 100 * (curves["understudy"] - curves["random"])[:, -1]
print(f"mean {lead.mean():.1f}, from {lead.min():.1f} to {lead.max():.1f}")

# %%
# Where to go from here: the same with people in place of ``labels`` is ``understudy label``;
# :doc:`the loop </docs/loop>` describes everything it can do; and whether such a lead is more than luck is what
# :doc:`the next notebook </docs/notebooks/compare_strategies>` asks.
