"""A model that one has already: a function, a file or an array of probabilities, from which a loop starts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.leaving_out import import_or_leave_out
from tests.strategies.pools import make_arrays
from understudy import ActiveLoop, UnderstudyError
from understudy.data.items import Texts
from understudy.data.pool import Pool
from understudy.errors import UsageError
from understudy.learners.heads import Head
from understudy.learners.training import Recipe
from understudy.predictors import digest_of, find_predictor, is_function_name, predict_pool, predictions_for

pd, pl = import_or_leave_out("pandas"), import_or_leave_out("polars")

ARRAYS = make_arrays(150)
CLASSES = ("bad", "fair", "good")
QUICKLY = Head(hidden=(8, 5), dropout=0.2, recipe=Recipe("adamw", 0.01, epochs=3))
TEXTS = tuple(f"{CLASSES[label]} film {row}" for row, label in enumerate(ARRAYS.truth.tolist()))
NOT_CALLABLE = 3


def by_word(items: Sequence[str]) -> np.ndarray:
    """Sure of the class that the text begins with, two times in three."""
    found = np.array([[float(item.startswith(name)) for name in CLASSES] for item in items])
    return found * 0.5 + 1 / 6


class ByName:
    """The same with its own classes, in another order."""

    def __init__(self, classes: Sequence[str]) -> None:
        self.classes = tuple(reversed(classes))
        self.calls: list[int] = []

    def __call__(self, items: Sequence[str]) -> np.ndarray:
        self.calls.append(len(items))
        return by_word(items)[:, ::-1]


def sometimes(items: Sequence[str]) -> np.ndarray:
    """Nothing of every item that it has no opinion on."""
    return np.where([["7" in item] for item in items], np.nan, by_word(items))


def pool(**more: Any) -> Pool:
    ids = tuple(f"item {row}" for row in range(len(ARRAYS)))
    known = {"features": ARRAYS.features, "items": Texts(list(TEXTS)), "labels": ARRAYS.truth, "classes": CLASSES}
    return Pool(ids, **{**known, **more})


EXPECTED = by_word(TEXTS).astype(np.float32)


# -- what a predictor says ------------------------------------------------------------------------------------------


def test_a_function_an_array_and_a_file_give_the_same_predictions(tmp_path: Path) -> None:
    table = tmp_path / "zero.csv"
    rows = [",".join(map(repr, values)) for values in EXPECTED.tolist()]
    lines = [f"{name},{row}" for name, row in zip(pool().ids, rows, strict=True)]
    table.write_text("\n".join(["id," + ",".join(CLASSES), *reversed(lines)]))  # in another order, found by id
    for given in (by_word, EXPECTED, str(table), table, f"{__name__}:by_word", f"{__name__}:ByName", ByName(CLASSES)):
        np.testing.assert_allclose(predictions_for(pool(), CLASSES, given), EXPECTED, atol=1e-6)


def test_columns_of_a_frame_are_found_by_name() -> None:
    swapped = pd.DataFrame(EXPECTED, columns=CLASSES)[list(CLASSES)[::-1]]
    with_ids = swapped.assign(id=pool().ids, other="x")[::-1]
    numbered = pd.DataFrame(EXPECTED)
    for given in (swapped, with_ids, numbered, pl.from_pandas(with_ids)):
        np.testing.assert_allclose(predictions_for(pool(), CLASSES, given), EXPECTED, atol=1e-6)
    swapped.iloc[3] = np.nan  # no opinion
    np.testing.assert_allclose(predictions_for(pool(), CLASSES, swapped)[3], 1 / 3, atol=1e-6)
    of_numbers = pd.DataFrame(EXPECTED, columns=[2, 1, 0])
    np.testing.assert_allclose(predictions_for(pool(), ("0", "1", "2"), of_numbers), EXPECTED[:, ::-1], atol=1e-6)


def test_columns_that_are_called_like_no_class_are_named_with_what_they_were_taken_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    renamed = pd.DataFrame(EXPECTED, columns=["poor", "middling", "fine"])
    np.testing.assert_allclose(predictions_for(pool(), CLASSES, renamed), EXPECTED, atol=1e-6)
    assert "poor, middling, fine were taken for bad, fair, good, in this order" in caplog.text
    caplog.clear()
    predictions_for(pool(), CLASSES, pd.DataFrame(EXPECTED))
    assert not caplog.text


def test_what_takes_classes_is_made_with_their_names_and_its_columns_are_found_by_name() -> None:
    made = find_predictor(f"{__name__}:ByName", CLASSES)
    assert isinstance(made, ByName)
    assert made.classes == ("good", "fair", "bad")
    told: list[tuple[int, int]] = []
    found = predict_pool(made, pool(), CLASSES, progress=lambda done, of: told.append((done, of)))
    np.testing.assert_allclose(found.probs, EXPECTED, atol=1e-6)
    assert made.calls == [64, 64, 22]
    assert told == [(64, 150), (128, 150), (150, 150)]


def test_items_of_which_a_predictor_says_nothing_start_uniform() -> None:
    found = predict_pool(sometimes, pool(), CLASSES, [6, 7, 8])
    np.testing.assert_allclose(found.probs, [EXPECTED[6], [1 / 3] * 3, EXPECTED[8]], atol=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            lambda items: len(items) / 0,
            r"<lambda> failed on 64 items: ZeroDivisionError: division by zero \(.*test_predictors.py, line \d+, in <",
        ),
        (
            lambda items: np.ones((3, len(items))),
            r"must return a row of probabilities for each of 64 items; got float64 of",
        ),
        (lambda items: -by_word(items), r"below 0, so it is not a probability: apply a softmax first"),
        (lambda items: by_word(items)[:, :2], r"has 2 columns for 3 classes"),
        (EXPECTED[:5], r"predictions has 5 rows for 150 items"),
        (np.array(["good"]), r"predictions must give numbers of shape \(items, classes\)"),
        (f"{__name__}:nobody", r"cannot be imported: .*test_predictors.py has no 'nobody'"),
        (f"{__name__}:NOT_CALLABLE", r"must be a function from items to probabilities; got int"),
        ("predictions.docx", r"is not a file that predictions can be read from"),
    ],
)
def test_predictions_that_cannot_be_used_are_refused_with_the_reason(given: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        predictions_for(pool(), CLASSES, given)


def test_a_function_needs_items_to_look_at() -> None:
    with pytest.raises(UsageError, match="no items that a function could be given; give an array or a file"):
        predictions_for(pool(items=None), CLASSES, by_word)


def test_a_name_of_a_function_is_told_from_a_path(tmp_path: Path) -> None:
    assert is_function_name("my.module:name")
    assert not is_function_name("C:\\data\\zero.csv")
    assert not is_function_name(str(tmp_path / "zero.csv"))


# -- a loop that starts from them -----------------------------------------------------------------------------------


def loop_of(strategy: Any, predictions: Any = EXPECTED, **more: Any) -> ActiveLoop:
    return ActiveLoop(pool(), QUICKLY, strategy, **{"random_state": 3, "predictions": predictions, **more})


def test_a_strategy_that_needs_only_predictions_chooses_by_them_from_the_first_row_on() -> None:
    unsure = EXPECTED.copy()
    unsure[40] = [0.34, 0.33, 0.33]
    loop = loop_of("margin", unsure, schedule=[5])
    assert loop.is_ready
    assert loop.ask().tolist() == [40]
    assert loop.predict_classes([0, 40]).tolist() == [unsure[0].argmax(), 0]
    assert not loop_of("margin", None, schedule=[5]).is_ready


def test_the_first_training_replaces_them() -> None:
    loop = loop_of("margin", schedule=[6])
    np.testing.assert_allclose(loop.view.probs.numpy(), EXPECTED)
    loop.rehearse(6, ARRAYS.truth)
    assert loop.round == 1
    np.testing.assert_allclose(loop.view.probs.numpy(), loop.model.predict_proba(ARRAYS.features), atol=1e-6)


def test_without_a_schedule_that_is_at_ten_labels_a_class() -> None:
    loop = loop_of("margin")
    loop.rehearse(29, ARRAYS.truth)
    assert loop.round == 0
    assert loop.rehearse(1, ARRAYS.truth) is not None
    assert loop.round == 1
    early = loop_of("margin", None)
    early.rehearse(6, ARRAYS.truth)
    assert early.round == 1


def test_our_own_starts_from_them_and_learns_from_every_label() -> None:
    """As a surrogate driven by hand would: anchored at the predictions, then told each label."""
    from understudy import Surrogate
    from understudy.loop import STREAM_STRATEGY

    loop = loop_of("understudy", schedule=[])
    s = Surrogate(ARRAYS.features, 3, random_state=int(np.random.default_rng([3, STREAM_STRATEGY, 0]).integers(2**63)))
    s.anchor(EXPECTED, [])
    for _ in range(5):
        (row,) = loop.ask().tolist()
        assert s.ask().tolist() == [row]
        loop.tell([row], ARRAYS.truth[[row]])
        s.tell([row], ARRAYS.truth[[row]])


@pytest.mark.parametrize("strategy", ["random", "badge"])
def test_who_cannot_use_them_starts_at_random_as_before(strategy: str) -> None:
    assert loop_of(strategy).ask(5).tolist() == loop_of("margin", None).ask(5).tolist()


def test_a_loop_resumes_with_the_same_predictions_and_no_others() -> None:
    loop = loop_of("understudy", schedule=[8])
    loop.rehearse(5, ARRAYS.truth)
    state = loop.state_dict()
    assert state["predictions"] == digest_of(EXPECTED)
    again = loop_of("understudy", schedule=[8]).resume(state)
    assert again.ask(3).tolist() == loop.ask(3).tolist()
    for other in (None, EXPECTED[::-1]):
        with pytest.raises(UnderstudyError, match="belongs to another loop: its predictions is"):
            loop_of("understudy", other, schedule=[8]).resume(state)


def test_a_state_from_before_there_were_predictions_is_resumed() -> None:
    loop = loop_of("margin", None, schedule=[8])
    loop.rehearse(9, ARRAYS.truth)
    state = {name: value for name, value in loop.state_dict().items() if name != "predictions"}
    assert loop_of("margin", None, schedule=[8]).resume(state).ask(3).tolist() == loop.ask(3).tolist()
