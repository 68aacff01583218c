"""Learners by name: the paper's, a stronger one, and common ones."""

from collections.abc import Callable
from difflib import get_close_matches
from types import FunctionType
from typing import Any, Final

from torch.nn import Module

from understudy.errors import UsageError
from understudy.learners.heads import Head
from understudy.learners.own_models import learner_of_function
from understudy.learners.protocol import Learner
from understudy.learners.training import Recipe
from understudy.own_code import describe_error, import_own


def paper(device: str = "cpu") -> Learner:
    """Features - 300 - 300 - 300 - classes, tanh; the rate drops to a tenth every ten epochs, as the paper says."""
    return Head(device=device)


def paper_slow(device: str = "cpu") -> Learner:
    """The same, but the rate drops by a tenth every ten epochs, the other reading of that sentence."""
    return Head(recipe=Recipe(gamma=0.9), device=device)


def paper_scaled(device: str = "cpu") -> Learner:
    """The paper's head on features centred and scaled by one factor, computed from the labelled items.

    On features of small norm, such as unit-norm embeddings, the head as printed learns nothing.
    """
    return Head(scaling="whole", device=device)


def modern(device: str = "cpu") -> Learner:
    """One wide layer with strong dropout, AdamW with a one-cycle schedule: better at every budget tried, and faster.

    Its settings were chosen on held-out rows of the training sets of FashionMNIST and CIFAR-100.
    """
    recipe = Recipe("adamw", 1e-3, weight_decay=1e-2, batch_size=64, epochs=50, schedule="one_cycle")
    return Head((1024,), "gelu", 0.75, "whole", recipe, device)


def quick(device: str = "cpu") -> Learner:
    """One layer of 128, ReLU, AdamW at a constant rate, up to 256 labels in one batch: for a few hundred labels.

    Its settings were chosen on the digits with randomly drawn training rows, judged by held-out rows of the pool.
    """
    recipe = Recipe("adamw", 1e-2, weight_decay=1e-3, batch_size=256, epochs=100, gamma=1.0)
    return Head((128,), "relu", recipe=recipe, device=device)


def logistic(device: str = "cpu") -> Learner:  # noqa: ARG001  # CPU only
    """Logistic regression on standardised features, by scikit-learn, on the CPU."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from understudy.learners.classifiers import Classifier

    return Classifier(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)))


def resnet18(device: str = "cpu") -> Learner:
    """ResNet18 trained end to end on images of 32 to 64 pixels."""
    from understudy.learners.network import Network

    return Network(device=device)


LEARNERS: Final[dict[str, Callable[[str], Learner]]] = {
    "paper": paper,
    "paper_slow": paper_slow,
    "paper_scaled": paper_scaled,
    "modern": modern,
    "quick": quick,
    "logistic": logistic,
    "resnet18": resnet18,
}
MAX_REPR: Final = 80  # characters of what is no learner, in a message
FINETUNE: Final = "finetune:"  # and the name or the folder of a Hugging Face model
FEATURE_LEARNERS: Final = tuple(name for name in LEARNERS if name != "resnet18")  # the others take images


def make_learner(name: str, device: str = "cpu") -> Learner:
    """The learner of this name, or your own as `module:name`: a learner, a function that returns one, or one that
    trains: `fit(texts, labels)`.

    `device` applies to the former and to training functions; your own learner decides where it runs.
    """
    if name in LEARNERS:
        return LEARNERS[name](device)
    if name.startswith(FINETUNE):
        from understudy.learners.finetuning import finetune_learner

        return finetune_learner(name, device)
    if not name.partition(":")[2]:
        near = get_close_matches(name, LEARNERS, 1)
        known = ", ".join((*LEARNERS, f"{FINETUNE}NAME_OR_FOLDER"))
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {known}, or pass your own as module:name"
        raise UsageError(f"there is no learner {name!r}; {hint}")
    found = import_own(name)
    if isinstance(found, FunctionType) and (own := learner_of_function(found, device)) is not None:
        return own
    if callable(found) and (isinstance(found, type) or not isinstance(found, Learner)):
        try:
            found = found()
        except Exception as error:  # whatever its own code raises
            raise UsageError(
                f"{name!r} is not a learner, and calling it to create one failed: {describe_error(error)}"
            ) from error
    if not isinstance(found, Learner):
        raise UsageError(f"{name!r} is not a learner; it must have takes, offers and fit (docs/learners.md)")
    return found


def as_learner(given: Any, device: str = "cpu", classes: tuple[Any, ...] | None = None) -> Learner:
    """The learner of a name, a learner as it is, a function that trains, or any scikit-learn classifier as a learner.

    A classifier is given these classes in place of their numbers.
    """
    if isinstance(given, str):
        return make_learner(given, device)
    if isinstance(given, Learner) and not isinstance(given, type):
        return given
    if isinstance(given, FunctionType) and (own := learner_of_function(given, device)) is not None:
        return own
    if hasattr(given, "fit") or hasattr(given, "predict"):
        from understudy.learners.classifiers import Classifier

        return Classifier(given, classes)
    if isinstance(given, FunctionType):
        raise UsageError(f"{given.__name__} is not a function that trains: it must take items and their labels")
    if isinstance(given, Module) or (isinstance(given, type) and issubclass(given, Module)):
        name = given.__name__ if isinstance(given, type) else type(given).__name__
        raise UsageError(f"{name} is a torch module; pass TorchLearner(make_model), with a function that makes it")
    raise UsageError(
        f"a learner must be a name ({', '.join(LEARNERS)}), a classifier of scikit-learn, a function that trains, or "
        f"have takes, offers and fit; got {_cut(repr(given))}"
    )


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_REPR else f"{line[: MAX_REPR - 1]}…"


def make_feature_learner(name: str) -> Learner:
    """The learner of this name; an error where it takes anything but features, on which labelling projects train."""
    learner = make_learner(name)
    if learner.takes != "features":
        raise UsageError(
            f"{name} takes {learner.takes}, and labelling projects train on features; choose one of "
            f"{', '.join(FEATURE_LEARNERS)}. Judge it by understudy compare, and give a project what it predicts with "
            "--predictions"
        )
    return learner
