"""What bad input gets: one line that names the value and the remedy, and a state that is as it was."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.leaving_out import import_or_leave_out
from tests.pools import make_pool
from understudy import PoolExhausted, Surrogate, UnderstudyError
from understudy.core.options import METHODS, Method

POOL = make_pool(30, 3, seed=1)


def surrogate(**options: object) -> Surrogate:
    options = {"basis_size": 8, "dtype": "float64"} | options
    return Surrogate(POOL.features, 3, **options).anchor(POOL.probs, [0, 1]).tell([5, 6], [0, 1])  # type: ignore[arg-type]


def probs(**rows: list[float]) -> np.ndarray:
    changed = POOL.probs.copy()
    for row, values in rows.items():
        changed[int(row[1:])] = values
    return changed


def without(state: dict[str, np.ndarray], *keys: str) -> dict[str, np.ndarray]:
    return {key: value for key, value in state.items() if key not in keys}


BAD_CALLS: dict[str, tuple[Callable[[Surrogate], object], str]] = {
    "label too large": (lambda s: s.tell([7], [3]), r"label 3 of row 7 is not a class: there are 3.*add_class\(\)"),
    "label negative": (lambda s: s.tell([7], [-1]), r"label -1 of row 7 is not a class"),
    "label fractional": (lambda s: s.tell([7], [0.5]), r"labels must be integers; got float64; convert"),
    "label by name": (
        lambda s: s.tell([7], ["cat"]),
        r"labels must be integers, the places of classes in your list of them; got .*'cat'.*ActiveLoop\(..., classes=",
    ),
    "label boolean": (lambda s: s.tell([7], [True]), r"labels must be integers; got booleans"),
    "labels too few": (lambda s: s.tell([7, 8], [1]), r"2 rows but 1 labels; pass one label per row"),
    "labels nested": (lambda s: s.tell([7, 8], [[1], [2]]), r"labels must be one number or a flat list"),
    "told twice": (lambda s: s.tell([7, 5], [1, 1]), r"row 5 is already labelled as class 0; retract it first"),
    "told twice at once": (lambda s: s.tell([7, 7], [1, 1]), r"rows: row 7 is given more than once"),
    "told though trained on": (lambda s: s.tell([1], [1]), r"row 1 is one the learner was trained on"),
    "row beyond the pool": (
        lambda s: s.tell([7, 30], [1, 1]),
        r"rows: 30 is not a row of this pool; rows run from 0 to 29",
    ),
    "row negative": (lambda s: s.release([-1]), r"rows: -1 is not a row of this pool"),
    "rows by mask": (lambda s: s.skip(np.ones(30, dtype=bool)), r"rows must be integers; got booleans; use numpy.flat"),
    "rows fractional": (lambda s: s.drop([1.0]), r"rows must be integers; got float64"),
    "rows as a set": (lambda s: s.tell({7}, [1]), r"rows must be a list, an array or one number; got set"),
    "rows ragged": (lambda s: s.tell([[7], [8, 9]], [1]), r"rows cannot be converted to an array"),
    "row beyond int64": (lambda s: s.skip(np.array([2**64 - 1], dtype=np.uint64)), r"is not a row of this pool"),
    "probs ragged": (lambda s: s.anchor([[1], [0.5, 0.5]], [0]), r"probs cannot be converted to an array"),
    "probs sparse": (lambda s: s.anchor(torch.eye(30, 3).to_sparse(), [0]), r"probs must be a dense tensor"),
    "retract what was not told": (lambda s: s.retract([5, 9]), r"row 9 has no answer to retract"),
    "undo too much": (lambda s: s.undo(3), r"cannot undo 3 answers: only 2 were given; undo fewer"),
    "undo nothing": (lambda s: s.undo(0), r"n must be a whole number of at least 1; got 0"),
    "ask for nothing": (lambda s: s.ask(0), r"n must be a whole number of at least 1; got 0"),
    "ask for a fraction": (lambda s: s.ask(1.5), r"n must be a whole number of at least 1; got 1.5"),  # type: ignore[arg-type]
    "ask for too many": (
        lambda s: s.ask(27),
        r"asked for 27 rows but only 26 are left to ask; ask for fewer or add items",
    ),
    "probs for too few rows": (lambda s: s.anchor(POOL.probs[:9], [0]), r"30 items.*got shape \(9, 3\)"),
    "probs for too many classes": (lambda s: s.anchor(np.full((30, 4), 0.25), [0]), r"3 classes; got shape \(30, 4\)"),
    "probs flat": (lambda s: s.anchor(np.ones(30), [0]), r"got shape \(30,\)"),
    "probs negative": (lambda s: s.anchor(probs(r4=[-0.5, 1, 0.5]), [0]), r"probs of row 4 contain -0.5; pass prob"),
    "probs are logits": (lambda s: s.anchor(probs(r4=[3, 1, 2]), [0]), r"probs of row 4 sum to 6, not to 1"),
    "probs not a number": (lambda s: s.anchor(probs(r4=[np.nan, 1, 0]), [0]), r"probs of row 4 are not finite"),
    "probs are words": (lambda s: s.anchor(np.full((30, 3), "a"), [0]), r"probs must be numbers; got <U1"),
    "trained on a mask": (lambda s: s.anchor(POOL.probs, np.zeros(30, bool)), r"trained_on must be integers; got bool"),
    "trained on doubles": (lambda s: s.anchor(POOL.probs, [1, 2, 1]), r"trained_on: row 1 is given more than once"),
    "trained beyond the pool": (lambda s: s.anchor(POOL.probs, [30]), r"trained_on: 30 is not a row of this pool"),
    "features of another size": (
        lambda s: s.anchor(POOL.probs, [0], features=POOL.features[:9]),
        r"features for 9 rows, but the pool has 30",
    ),
    "features not finite": (
        lambda s: s.anchor(POOL.probs, [0], features=np.full((30, 2), np.inf)),
        r"features must be finite.*row 0, column 0 is inf",
    ),
    "extend without probs": (lambda s: s.extend(POOL.features[:2]), r"extend needs the learner's probabilities"),
    "extend with other columns": (lambda s: s.extend(np.ones((2, 9)), POOL.probs[:2]), r"9 columns, the pool has 5"),
    "extend with too few probs": (lambda s: s.extend(POOL.features[:2], POOL.probs[:1]), r"got shape \(1, 3\)"),
    "extend not finite": (lambda s: s.extend(np.full((1, 5), np.nan), POOL.probs[:1]), r"row 0, column 0 is nan"),
    "explain beyond the pool": (lambda s: s.explain(99), r"row: 99 is not a row of this pool"),
    "no state at all": (lambda s: s.load_state_dict({}), r"this is not the state of a surrogate"),
    "nothing for a state": (lambda s: s.load_state_dict(None), r"this is not the state of a surrogate"),  # type: ignore[arg-type]
    "half a state": (lambda s: s.load_state_dict(without(s.state_dict(), "U", "R")), r"incomplete: R, U missing"),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_bad_call_says_why_and_changes_nothing(method: Method, name: str) -> None:
    call, message = BAD_CALLS[name]
    s = surrogate(method=method)
    before, untouched = s.state_dict(), surrogate(method=method)
    with pytest.raises(UnderstudyError, match=message) as caught:
        call(s)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)
    after = s.state_dict()
    assert before.keys() == after.keys()
    for key, value in before.items():
        np.testing.assert_array_equal(after[key], value, err_msg=key)
    assert s.ask(3).tolist() == untouched.ask(3).tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "best"}, "mode must be one of .*combined, influence, .*; got 'best'"),
        ({"link": "probit"}, "link must be one of softmax, simplex, logit, residual; got 'probit'"),
        ({"dtype": "float16"}, "dtype must be one of float32, float64; got 'float16'"),
        ({"old_targets": "one"}, "old_targets must be one of zero, residual"),
        ({"accuracy_of": "me"}, "accuracy_of must be one of learner, surrogate"),
        ({"width": 0.0}, "width must be a number above 0; got 0.0"),
        ({"output_width": -1.0}, "output_width must be a number above 0; got -1.0"),
        ({"noise": float("nan")}, "noise must be a number of at least 0; got nan"),
        ({"mean_tolerance": -1.0}, "mean_tolerance must be a number of at least 0"),
        ({"basis_size": 0}, "basis_size must be a whole number of at least 1; got 0"),
        ({"lookahead_candidates": 0}, "lookahead_candidates must be a whole number of at least 1"),
        ({"n_classes": 0}, "n_classes must be a whole number of at least 1; got 0"),
        ({"n_classes": True}, "n_classes must be a whole number"),
        ({"device": "quantum"}, "'quantum' is not a device; use 'cpu' or 'cuda'"),
        ({"device": "meta"}, "device 'meta' does not support float64"),
        ({"basis": (np.ones((3, 4)), np.ones((3, 3)))}, r"shapes \(k, 5\) and \(k, 3\); got \(3, 4\) and \(3, 3\)"),
        ({"basis": (np.ones((3, 5)), np.ones((2, 3)))}, r"got \(3, 5\) and \(2, 3\)"),
        ({"basis": (np.full((3, 5), np.nan), np.ones((3, 3)))}, "basis must be finite"),
        ({"device": None}, "None is not a device"),
        ({"random_state": "abc"}, "random_state must be a whole number of at least 0, .* got 'abc'"),
        ({"random_state": -1}, "random_state must be a whole number of at least 0, .* got -1"),
        ({"width": None}, "width must be a number above 0; got None"),
        ({"explained": 0.9}, "method 'paper' does not use explained"),
        ({"noise": "low"}, "noise must be a number of at least 0; got 'low'"),
        ({"exclude_self": "no"}, "exclude_self must be True or False; got 'no'"),
        ({"basis": 7}, r"basis must be a pair \(U, V\)"),
        ({"basis": ("a", "b")}, r"basis must be a pair \(U, V\)"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        Surrogate(POOL.features, **({"n_classes": 3, "basis_size": 8, "method": "paper"} | options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"link": "softmax"}, "method 'understudy' does not use link; leave it out, or pass method='paper'"),
        ({"explained": 1.5}, "explained must be"),
        ({"basis": np.ones((3, 4))}, r"basis must be an array U of shape \(k, 5\); got \(3, 4\)"),
        ({"basis": np.ones((0, 5))}, r"basis must be an array U of shape \(k, 5\); got \(0, 5\)"),
        (
            {"basis": (np.ones((3, 5)), np.ones((3, 3)))},
            "basis must be an array U with one row of features",
        ),
        ({"basis": np.full((3, 5), np.inf)}, "basis must be finite"),
        ({"method": "best"}, "method must be one of understudy, paper; got 'best'"),
        ({"n_classes": 0}, "n_classes must be a whole number of at least 1; got 0"),
        ({"basis_size": 0}, "basis_size must be a whole number of at least 1; got 0"),
        ({"random_state": -1}, "random_state must be a whole number of at least 0, .* got -1"),
    ],
)
def test_bad_options_of_the_default_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        Surrogate(POOL.features, **({"n_classes": 3} | options))  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(UnderstudyError, match="torch sees 0 GPUs here; use device='cpu'"):
        Surrogate(POOL.features, 3, device="cuda")


def test_exhausted_pools_have_their_own_error() -> None:
    with pytest.raises(PoolExhausted):
        surrogate().ask(100)


# -- odd but meant: a defined result -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_nothing_trained_on_means_a_model_from_elsewhere(method: Method) -> None:
    s = Surrogate(POOL.features, 3, basis_size=8, method=method).anchor(POOL.probs, [])
    np.testing.assert_allclose(s.mean, POOL.probs, rtol=1e-6)
    assert len(s.ask(30)) == 30


def test_single_rows_and_labels_need_no_list() -> None:
    s = surrogate()
    row = s.ask()[0]
    s.tell(row, 2)
    s.tell(torch.tensor([9]), torch.tensor([1]))
    s.tell([], [])
    assert list(s.parts.ledger.answers) == [5, 6, row, 9]


@pytest.mark.parametrize("method", METHODS)
def test_half_precision_features_and_predictions_are_cast(method: Method) -> None:
    large = POOL.features * 1000 + 30_000
    half = Surrogate(large.astype(np.float16), 3, basis_size=8, method=method).anchor(
        POOL.probs.astype(np.float16), [0]
    )
    same = Surrogate(large.astype(np.float16).astype(np.float64), 3, basis_size=8, method=method)
    same.anchor(POOL.probs.astype(np.float16).astype(np.float64), [0])
    assert np.isfinite(half.utility).all()
    np.testing.assert_array_equal(half.ask(5), same.ask(5))


@pytest.mark.parametrize("method", METHODS)
def test_inputs_are_never_written_to(method: Method) -> None:
    features, predictions = POOL.features.astype(np.float32), POOL.probs.astype(np.float32)
    copies = features.copy(), predictions.copy()
    s = Surrogate(features, 3, basis_size=8, method=method).anchor(predictions, [0])
    s.rehearse(POOL.labels, 10)
    s.add_class()
    np.testing.assert_array_equal(features, copies[0])
    np.testing.assert_array_equal(predictions, copies[1])


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_of_one_row(method: Method) -> None:
    s = Surrogate(np.ones((1, 4)), 2, method=method)
    assert s.ask() == [0]
    s.tell([0], [1])
    assert np.isfinite(s.mean).all()
    with pytest.raises(PoolExhausted):
        s.ask()


@pytest.mark.parametrize("method", METHODS)
def test_one_class_only(method: Method) -> None:
    s = Surrogate(POOL.features, 1, basis_size=8, method=method).anchor(np.ones((30, 1)), [0])
    rows = s.ask(3)
    s.tell(rows, [0, 0, 0])
    assert (s.uncertainty == (1 if method == "understudy" else 0)).all()  # without a choice there is nothing to weigh
    assert s.accuracy == 1.0
    assert len(s.ask(5)) == 5
    s.add_class().tell([int(s.parts.ledger.open_mask().nonzero()[0][0])], [1])
    assert s.mean.shape == (30, 2)


@pytest.mark.parametrize("method", METHODS)
def test_labels_of_one_class_only(method: Method) -> None:
    s = surrogate(method=method)
    s.tell(range(10, 20), np.zeros(10, dtype=int))
    assert np.isfinite(s.utility).all()


@pytest.mark.parametrize("method", METHODS)
def test_constant_features_are_told_apart_by_predictions_alone(method: Method) -> None:
    s = Surrogate(np.full((30, 5), 7.0), 3, basis_size=8, method=method).anchor(POOL.probs, [0])
    s.rehearse(POOL.labels, 10)
    assert np.isfinite(s.utility).all()


@pytest.mark.parametrize("method", METHODS)
def test_duplicated_rows(method: Method) -> None:
    """All rows twice: the doubles of what is labelled are worth little, and nothing breaks."""
    features, predictions = np.repeat(POOL.features, 2, axis=0), np.repeat(POOL.probs, 2, axis=0)
    s = Surrogate(features, 3, basis_size=8, mode="influence", dtype="float64", method=method).anchor(predictions, [])
    before = s.influence
    first = int(s.ask()[0])
    s.tell([first], [0])
    assert first % 2 == 0
    assert s.influence[first + 1] < before[first + 1]


@pytest.mark.parametrize("method", METHODS)
def test_more_basis_points_than_rows(method: Method) -> None:
    s = Surrogate(POOL.features, 3, basis_size=500, method=method).anchor(POOL.probs, [0])
    assert len(s.parts.kernel.U) == 30
    assert np.isfinite(s.utility).all()
    assert len(set(s.rehearse(POOL.labels, 29).tolist())) == 29


@pytest.mark.parametrize("method", METHODS)
def test_dropped_rows_stay_dropped_and_take_their_answers_along(method: Method) -> None:
    s = surrogate(method=method)
    s.drop([5, 9]).drop([5])
    assert 5 not in s.parts.ledger.answers
    with pytest.raises(UnderstudyError, match="row 9 was dropped from the pool"):
        s.tell([9], [0])
    with pytest.raises(UnderstudyError, match="row 9 was dropped from the pool; there is nothing to explain"):
        s.explain(9)
    s.anchor(POOL.probs, [0, 1, 5, 6])  # the learner may have seen it before
    assert not s.parts.ledger.is_trained[5]
    assert not {5, 9} & set(s.ask(20).tolist())


def test_a_dropped_row_needs_no_label() -> None:
    s = Surrogate(POOL.features, 3, basis_size=8, old_targets="residual", method="paper").tell([1, 2], [0, 1]).drop([1])
    s.anchor(POOL.probs, [1, 2])
    assert not s.parts.ledger.is_trained[1]


def test_old_residuals_need_all_labels() -> None:
    s = Surrogate(POOL.features, 3, basis_size=8, old_targets="residual", method="paper").tell([0], [1])
    with pytest.raises(UnderstudyError, match=r"row 4 was never told \(2 such rows\); tell them before anchoring"):
        s.anchor(POOL.probs, [0, 4, 7])
    assert not s.parts.is_anchored


def test_rows_and_labels_may_come_in_series() -> None:
    pd, pl = import_or_leave_out("pandas"), import_or_leave_out("polars")
    for series in (pd.Series, pl.Series, lambda values: pd.Series(values, dtype="Int64")):
        s = Surrogate(POOL.features, 3).tell(series([3, 5]), series([1, 0]))
        assert s.mean[3].argmax() == 1
        assert s.askable.tolist() == [row for row in range(len(s)) if row not in (3, 5)]
