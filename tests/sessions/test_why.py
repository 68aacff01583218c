"""The line that people read: plain, true, and silent about what must not be said."""

import json
import re
from math import nan
from typing import Any

import numpy as np
import pytest

from understudy import Explanation, Surrogate
from understudy.core.options import Method
from understudy.sessions.log.events import Ask
from understudy.sessions.why import NO_MODEL, reason_for_log, reason_line, reason_without_model

CLASSES = ["cat", "dog", "fox"]
JARGON = re.compile(r"varianc|utilit|entrop|influence|surrogate|poster|nan|None|row|class \d", re.IGNORECASE)


def explained(**given: Any) -> Explanation:
    values: dict[str, Any] = {
        "row": 3,
        "utility": 1.5,
        "influence": 0.2,
        "uncertainty": 0.1,
        "influence_share": 0.7,
        "uncertainty_share": 0.3,
        "accuracy": 0.8,
        "prediction": ((0, 0.5), (2, 0.4), (1, 0.1)),
        "teaches": ((4, 0.3),),
        "n_taught": 134,
        "nearest": ((8, 1, 2.0),),
        "reason": "",
    }
    return Explanation(**{**values, **given})


def test_a_choice_is_explained_by_what_it_lies_between_and_what_it_helps_with() -> None:
    assert (
        reason_line(explained(), CLASSES, "choice")
        == "Between cat and fox; its answer would help with about 130 similar items."
    )


@pytest.mark.parametrize(
    ("n", "words"),
    [
        (1, "with one similar item."),
        (2, "with 2 similar items."),
        (20, "with 20 similar items."),
        (21, "with about 21 similar items."),
        (134, "with about 130 similar items."),
        (12_345, "with about 12,000 similar items."),
    ],
)
def test_items_are_counted_while_they_are_few_and_rounded_when_they_are_many(n: int, words: str) -> None:
    assert reason_line(explained(n_taught=n), CLASSES, "choice").endswith(words)


@pytest.mark.parametrize(
    ("prediction", "start"),
    [
        (((1, 0.9), (0, 0.1)), "Probably dog; "),
        (((1, 1.2), (0, -0.2)), "Probably dog; "),
        (((0, 1 / 3), (1, 1 / 3), (2, 1 / 3)), "Its answer would help"),
        (((0, nan), (1, nan)), "Its answer would help"),
        (((7, 0.9), (0, 0.8), (1, 0.1)), "Probably cat; "),
    ],
)
def test_guesses_are_named_by_their_classes_where_there_are_any(prediction: Any, start: str) -> None:
    assert reason_line(explained(prediction=prediction), CLASSES, "choice").startswith(start)


def test_with_a_single_class_nothing_is_between() -> None:
    assert reason_line(explained(prediction=((0, 1.0),)), ["cat"], "choice").startswith("Its answer would help")


def test_without_anything_to_teach_only_the_guess_is_left_or_a_plain_word() -> None:
    assert reason_line(explained(n_taught=0), CLASSES, "choice") == "Between cat and fox."
    blank = explained(n_taught=0, prediction=((0, 0.5), (1, 0.5)))
    assert reason_line(blank, CLASSES, "choice") == "Its answer helps a little with many others."
    hard = explained(n_taught=0, prediction=((0, 0.5), (1, 0.5)), influence_share=0.1, uncertainty_share=0.9)
    assert reason_line(hard, CLASSES, "choice") == "It is hard to tell."
    unknown = explained(n_taught=0, prediction=((0, 0.5), (1, 0.5)), influence_share=nan, uncertainty_share=nan)
    assert reason_line(unknown, CLASSES, "choice") == "Its answer helps a little with many others."


def test_far_from_all_labels_it_is_unlike_anything_so_far() -> None:
    far = reason_line(explained(), CLASSES, "choice", mean_distance=1.0)
    assert far == "Unlike anything labelled so far; its answer would help with about 130 similar items."
    assert reason_line(explained(), CLASSES, "choice", mean_distance=5.0).startswith("Between")
    assert reason_line(explained(nearest=()), CLASSES, "choice", mean_distance=1.0).startswith("Between")


def test_before_the_first_model_it_says_so() -> None:
    assert reason_line(None, CLASSES, "choice").startswith("There is no model yet")


def test_before_the_first_model_influence_alone_chooses_and_the_line_says_so() -> None:
    assert reason_without_model(explained(n_taught=7), "choice") == (
        "There is no model yet; its answer would help with 7 similar items."
    )
    assert reason_without_model(explained(n_taught=0), "choice") == NO_MODEL
    assert reason_without_model(explained(n_taught=0), None) == "There is no model yet.", "nobody chose it"


@pytest.mark.parametrize("ask", ["audit", "second", "again"])
def test_no_guess_leaks_into_items_that_are_to_be_judged_afresh(ask: Ask) -> None:
    words = reason_line(explained(), CLASSES, ask)
    assert not any(name in words for name in CLASSES)
    assert words == reason_line(None, CLASSES, ask)


def test_guesses_can_be_left_out() -> None:
    words = reason_line(explained(), CLASSES, "choice", guesses=False)
    assert not any(name in words for name in CLASSES)


def test_what_the_log_keeps_is_json_and_says_nothing_of_audit_items() -> None:
    kept = reason_for_log(explained(influence_share=nan), CLASSES, "choice")
    assert json.loads(json.dumps(kept, allow_nan=False)) == {
        "line": reason_line(explained(influence_share=nan), CLASSES, "choice"),
        "influence_share": None,
        "uncertainty_share": 0.3,
        "utility": 1.5,
    }
    assert set(reason_for_log(explained(), CLASSES, "audit").values()) == {reason_line(None, CLASSES, "audit"), None}
    assert reason_for_log(None, CLASSES, "choice")["utility"] is None


@pytest.mark.parametrize("method", ["understudy", "paper"])
@pytest.mark.parametrize("is_anchored", [False, True])
def test_lines_of_a_real_surrogate_are_plain(is_anchored: bool, method: Method) -> None:
    rng = np.random.default_rng(0)
    s = Surrogate(rng.normal(size=(60, 3)), 3, basis_size=10, method=method)
    if is_anchored:
        s.anchor(rng.dirichlet(np.ones(3), size=60), [0, 1])
    for _ in range(5):
        row = int(s.ask()[0])
        words = reason_line(s.explain(row), CLASSES, "choice", mean_distance=2.0)
        assert not JARGON.search(words)
        assert re.fullmatch(r"[A-Z].*\.", words)
        s.tell([row], [row % 3])
