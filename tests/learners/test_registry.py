from dataclasses import replace

import numpy as np
import pytest

from tests.learners.tasks import blobs
from understudy import UnderstudyError
from understudy.learners.heads import Head
from understudy.learners.protocol import Learner
from understudy.learners.registry import FEATURE_LEARNERS, LEARNERS, make_learner
from understudy.learners.training import Recipe

OWN = Head((7,))
NOTHING = 3


def own_learner() -> Learner:
    return OWN


@pytest.mark.parametrize("name", LEARNERS)
def test_every_name_makes_a_learner(name: str) -> None:
    learner = make_learner(name)
    assert isinstance(learner, Learner)
    assert LEARNERS[name].__doc__


def test_a_project_is_offered_the_learners_that_take_features() -> None:
    assert [name for name in LEARNERS if make_learner(name).takes == "features"] == list(FEATURE_LEARNERS)


def test_the_papers_head_has_the_papers_settings() -> None:
    head = make_learner("paper")
    assert isinstance(head, Head)
    assert (head.hidden, head.activation, head.dropout, head.scaling) == ((300, 300, 300), "tanh", 0, "none")
    assert head.recipe == Recipe(
        optimiser="sgd", learning_rate=0.01, momentum=0.9, weight_decay=5e-4, batch_size=30, epochs=100,
        schedule="step", gamma=0.1, step_every=10, label_smoothing=0.0,
    )  # fmt: skip
    slow = make_learner("paper_slow")
    assert isinstance(slow, Head)
    assert slow.recipe == Recipe(gamma=0.9)
    scaled = make_learner("paper_scaled")
    assert scaled == replace(head, scaling="whole")


def test_the_scaled_head_learns_from_embeddings_of_length_1_and_the_papers_does_not() -> None:
    """Many classes in features of length 1, as encoders of texts give them."""
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 100
    features = rng.standard_normal((100, 256))[labels] + 1.5 * rng.standard_normal((300, 256))
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    paper, scaled = (make_learner(name).fit(unit, labels, 100) for name in ("paper", "paper_scaled"))
    assert (paper.predict_proba(unit).argmax(1) == labels).mean() < 0.1
    assert (scaled.predict_proba(unit).argmax(1) == labels).mean() > 0.9


def test_quick_takes_up_to_256_labels_at_a_time_at_a_constant_rate() -> None:
    head = make_learner("quick")
    assert isinstance(head, Head)
    assert (head.hidden, head.activation, head.dropout, head.scaling) == ((128,), "relu", 0, "none")
    assert (head.recipe.batch_size, head.recipe.epochs) == (256, 100)
    assert {head.recipe.rate(epoch, epoch / 100) for epoch in range(100)} == {0.01}


@pytest.mark.parametrize("name", ["logistic", "modern", "quick"])
def test_learners_on_features_learn(name: str) -> None:
    inputs, labels = blobs(120)
    probs = make_learner(name).fit(inputs, labels, 3).predict_proba(inputs)
    assert (probs.argmax(1) == labels).mean() > 0.95
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("name", ["OWN", "own_learner"])
def test_ones_own_learner_is_found_by_its_import_path(name: str) -> None:
    assert make_learner(f"tests.learners.test_registry:{name}") is OWN


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("papper", "no learner 'papper'; did you mean 'paper'?"),
        ("perceptron", "no learner 'perceptron'; choose one of paper, paper_slow, paper_scaled, modern"),
        ("no_such_module:thing", "cannot be imported.*PYTHONPATH"),
        ("tests.learners.test_registry:missing", "cannot be imported"),
        ("tests.learners.test_registry:NOTHING", "is not a learner; it must have takes, offers and fit"),
        ("builtins:dict", "is not a learner"),
        ("math:sqrt", "is not a learner, and calling it to create one failed"),
        (":x", "cannot be imported"),
        (".x:y", "cannot be imported"),
    ],
)
def test_other_names_are_refused(name: str, complaint: str) -> None:
    with pytest.raises(UnderstudyError, match=complaint):
        make_learner(name)
