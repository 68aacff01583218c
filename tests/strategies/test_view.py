"""What a view takes, refuses, and tells."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from understudy.errors import PoolExhausted, UnderstudyError
from understudy.strategies import view as view_module
from understudy.strategies.protocol import Needs
from understudy.strategies.view import PoolView

LABELS = np.array([0, -1, 1, -1, -1])


def test_rows_that_may_be_chosen_are_neither_labelled_nor_pending_nor_skipped() -> None:
    view = PoolView(LABELS, 2, pending=[1], skipped=[3])
    assert len(view) == 5
    assert view.candidates(1).tolist() == [4]
    assert view.labelled.tolist() == [0, 2]
    assert view.taken.tolist() == [0, 1, 2]
    with pytest.raises(PoolExhausted, match="asked for 2 rows, but only 1 of 5"):
        view.candidates(2)


def test_arrays_stay_where_they_lie(tmp_path: Path) -> None:
    features = np.ones((5, 2), dtype=np.float32)
    view = PoolView(LABELS, 2, features=features)
    assert view.features.numpy().ctypes.data == features.ctypes.data
    np.save(tmp_path / "x.npy", features)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert PoolView(LABELS, 2, features=mapped).features.numpy().ctypes.data == mapped.ctypes.data


@pytest.mark.parametrize("kind", [np.float16, np.int64, np.uint8, ">f4"])
def test_other_numbers_become_floats(kind: Any) -> None:
    features = np.arange(10).reshape(5, 2).astype(kind)
    assert PoolView(LABELS, 2, features=features).features.sum() == 45
    assert PoolView(LABELS, 2, features=features[::-1]).features[0].tolist() == [8, 9]
    assert PoolView(LABELS, 2, features=torch.ones(5, 2, dtype=torch.float16)).features.dtype == torch.float32


def test_what_was_not_given_is_named_with_its_meaning() -> None:
    view = PoolView(LABELS, 2)
    assert not view.has("probs")
    with pytest.raises(UnderstudyError, match=r"needs probs, the learner's class probabilities.*probs=\.\.\."):
        _ = view.probs


@pytest.mark.parametrize("name", ["probs", "stochastic"])
@pytest.mark.parametrize("row", [0, 3, 6])
def test_what_is_no_probability_is_found_in_whichever_block_it_is(
    name: str, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "NUMBERS_PER_BLOCK", 12)
    given = np.full((7, 2) if name == "probs" else (7, 3, 2), 0.5)
    PoolView(np.full(7, -1), 2, **{name: given})  # type: ignore[arg-type]
    for wrong in (0.6, -0.5):
        bad = given.copy()
        bad[row, ..., 1] = wrong
        with pytest.raises(UnderstudyError, match=f"{name} must be probabilities"):
            PoolView(np.full(7, -1), 2, **{name: bad})  # type: ignore[arg-type]


def test_a_view_after_new_labels_keeps_what_the_learner_said() -> None:
    view = PoolView(LABELS, 2, probs=np.full((5, 2), 0.5), round=3)
    later = view.after([0, 1, 1, -1, -1], pending=[3])
    assert later.probs is view.probs
    assert later.round == 3
    assert later.candidates(1).tolist() == [4]
    assert view.candidates(1).tolist() == [1, 3, 4]
    with pytest.raises(UnderstudyError, match="pass one per row"):
        view.after([0, 1])


def test_a_subset_does_not_go_unnoticed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "understudy"):
        PoolView(np.full(5000, -1), 2).candidates(5, 1000, np.random.default_rng(0))
    assert "considering a random sample of 1,000 of 5,000 open rows" in caplog.text


def test_a_subset_is_drawn_from_the_open_rows_and_never_too_small() -> None:
    view, rng = PoolView(np.full(100, -1), 2), np.random.default_rng(0)
    subset = view.candidates(5, 10, rng).tolist()
    assert len(set(subset)) == 10
    assert subset == sorted(subset)
    assert len(view.candidates(20, 10, rng)) == 20
    assert len(view.candidates(5, 200, rng)) == 100
    with pytest.raises(UnderstudyError, match="pass rng"):
        view.candidates(5, 10)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": [0.0, 1.0]}, "labels must be one integer per row"),
        ({"labels": []}, "labels must be one integer per row"),
        ({"labels": [[0], [1]]}, "labels must be one integer per row"),
        ({"labels": [0, 2, -1, -1, -1]}, "labels must be -1 to 1 for 2 classes; got -1 to 2"),
        ({"labels": [-2, 0, -1, -1, -1]}, "got -2 to 0"),
        ({"n_classes": 0}, "n_classes must be a whole number of at least 1"),
        ({"n_classes": "two"}, "n_classes must be a whole number"),
        ({"pending": [5]}, "pending must be rows 0 to 4; got 5 to 5"),
        ({"skipped": [-1]}, "skipped must be rows 0 to 4; got -1"),
        ({"skipped": [True, False]}, "skipped must be a list of row numbers; got bool"),
        ({"features": np.ones((4, 2))}, r"the first for the 5 rows; got shape \(4, 2\)"),
        ({"features": np.ones(5)}, "features must have 2 axes"),
        ({"features": 1.0}, "features must have 2 axes"),
        ({"features": np.array([["a"]] * 5)}, "features must be numbers"),
        ({"features": [[1.0], [2.0], [np.nan], [0.0], [0.0]]}, "must be finite, but row 2 is not"),
        ({"hidden": [[1.0], [2.0], [0.0], [0.0], [np.inf]]}, "hidden must be finite, but row 4"),
        ({"probs": np.full((5, 3), 1 / 3)}, "probs must have 2 classes"),
        ({"probs": np.full((5, 2), 0.7)}, "apply a softmax first"),
        ({"probs": [[-0.5, 1.5]] * 5}, "apply a softmax first"),
        ({"stochastic": np.full((5, 2), 0.5)}, "stochastic must have 3 axes"),
        ({"gradient_norms": np.ones((5, 1))}, "gradient_norms must have 1 axis"),
        ({"activations": [np.ones((5, 2)), np.ones((3, 2))]}, "activations must have 2 axes"),
        ({"images": np.zeros((3, 8, 8), np.uint8)}, "5 rows, but 3 images"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message) as error:
        PoolView(**{"labels": LABELS, "n_classes": 2, **given})
    assert "\n" not in str(error.value)


def test_too_few_labels_are_said() -> None:
    view = PoolView([0, 0, -1], 2)
    view.require_labelled("this", 2)
    with pytest.raises(UnderstudyError, match="this needs 3 labelled rows, got 2"):
        view.require_labelled("this", 3)
    with pytest.raises(UnderstudyError, match="this needs labels of 2 classes, got 1"):
        view.require_labelled("this", 2, classes=2)


def test_needs_are_of_what_a_view_holds() -> None:
    with pytest.raises(UnderstudyError, match="unknown need"):
        Needs(frozenset({"gold"}))  # type: ignore[arg-type]
    with pytest.raises(UnderstudyError, match="number of passes"):
        Needs(frozenset({"stochastic"}))
