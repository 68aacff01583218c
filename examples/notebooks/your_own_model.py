"""
Your own model, your own training
=================================

You have a model and a way of training it, and want to keep both. Then all you need is the
:class:`~understudy.Surrogate`: tell it what your model predicts after each training, and in between it says which row
to label next. Here the model is a random forest on a table of measurements; any library will do.
"""

# %%
# A table and a model
# -------------------
#
# The breast cancer data of scikit-learn: 30 measurements of cell nuclei for each of 569 patients, benign or malignant.
# A diagnosis by an expert is what a label costs. A quarter is held out to test on.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from understudy import Surrogate

table = load_breast_cancer()
pool, test, truth, test_truth = train_test_split(table.data, table.target, test_size=0.25, random_state=0)
print(f"{len(pool)} patients to choose from, {len(test)} to test on")


def train(rows):
    """Your training: a random forest on the rows that have a label."""
    return RandomForestClassifier(n_estimators=50, random_state=0).fit(pool[rows], truth[rows])


def probabilities(model, rows):
    """Predictions with a column for each class, also for one that the model has not met yet."""
    found = np.zeros((len(rows), 2))
    found[:, model.classes_] = model.predict_proba(rows)
    return found


# %%
# The surrogate needs features in which similar items are close. For a table, standardised columns will do; for images
# and texts, take embeddings. Your model may use other inputs: it never sees these.

features = StandardScaler().fit_transform(pool)
surrogate = Surrogate(features, n_classes=2)
print(surrogate)

# %%
# Three calls do the work
# -----------------------
#
# ``anchor`` after each training, ``ask`` for a row, ``tell`` its label. It also works before there is any model: the
# first rows are those that say most about the pool. We label ten, train, and then train again after every ten.

labelled, accuracies, model = [], [], None
for _ in range(5):
    for _ in range(10):
        row = int(surrogate.ask()[0])
        surrogate.tell([row], truth[[row]])  # in real life: ask an expert, and come back
        labelled.append(row)
    model = train(labelled)
    surrogate.anchor(probabilities(model, pool), labelled)
    accuracies.append(model.score(test, test_truth))
print("test accuracy at 10, 20, ... 50 labels:", *(f"{value:.1%}" for value in accuracies))

# %%
# Why this row?
# -------------
#
# ``explain`` says what sets a row apart: how undecided it is, and how much its label would tell about others.

row = int(surrogate.ask()[0])
reason = surrogate.explain(row)
print(reason)
surrogate.release([row])  # we only wanted to know: it may be asked for again

# %%
# See where it asked
# ------------------
#
# The pool in two dimensions, and the rows in the order in which they were chosen. The first ten spread over the pool.
# Later ones lie where the two classes meet, and far out, where the forest has seen nothing like them.

flat = PCA(2, random_state=0).fit_transform(features)
figure, axes = plt.subplots(figsize=(7.5, 5), layout="constrained")
for kind, colour, name in ((0, "#b06a00", "malignant"), (1, "#0b746a", "benign")):
    axes.scatter(*flat[truth == kind].T, s=10, color=colour, alpha=0.3, linewidth=0, label=name)
for rows, fill, name in (
    (labelled[:10], "white", "the first ten labels"),
    (labelled[10:], "#1f1e1b", "the next forty"),
):
    axes.scatter(*flat[rows].T, s=34, facecolor=fill, edgecolor="#1f1e1b", linewidth=1.1, label=name)
axes.set(xlabel="first principal component", ylabel="second", title="What was asked for")
axes.legend(frameon=False)

# %%
# Against random rows
# -------------------
#
# The same training with random rows, eight times. The surrogate's line is a single run, too: another ``random_state``
# gives other basis points and another line. With a test set this small, a point is one or two patients.

rng = np.random.default_rng(0)
orders = [rng.permutation(len(pool)) for _ in range(8)]
budgets = [10, 20, 30, 40, 50]
random = np.array([[train(order[:budget]).score(test, test_truth) for budget in budgets] for order in orders])

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(budgets, 100 * random.T, color="#8a8780", alpha=0.25, linewidth=1)
axes.plot(
    budgets, 100 * random.mean(axis=0), color="#5c5a54", marker="o", label="random rows: eight runs and their mean"
)
axes.plot(
    budgets,
    100 * np.array(accuracies),
    color="#0b746a",
    marker="o",
    linewidth=2.2,
    label="rows the surrogate asked for",
)
axes.set(xlabel="labels", ylabel="test accuracy in %", ylim=(80, 100))
axes.legend(frameon=False, loc="lower right")
axes.grid(alpha=0.25)

# %%
# Labels may come late, in any order, for rows that nobody asked about, or never; they can be taken back, and the pool
# may grow: :doc:`/docs/surrogate` has all of it. If you would rather have the training done for you, use
# :doc:`the loop </docs/notebooks/choose_what_to_label>`.
