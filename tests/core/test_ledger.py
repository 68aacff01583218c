import numpy as np
import pytest

from tests.blocks import column
from tests.pools import make_pool
from understudy import Surrogate
from understudy.core.ledger import LEDGER_KEYS, Answer, Ledger
from understudy.core.options import Method

pytestmark = pytest.mark.usefixtures("every_storage")


def test_a_row_is_open_until_it_is_labelled_pending_or_dropped() -> None:
    ledger = Ledger(6)
    ledger.is_trained[0] = True
    ledger.answers[1] = Answer(2, True, False)
    ledger.pending[2] = None
    ledger.is_skipped[3] = True
    ledger.is_dropped[4] = True
    assert ledger.open_mask().tolist() == [False, False, False, True, False, True]
    assert ledger.askable_mask().tolist() == [False, False, False, False, False, True]
    assert [ledger.is_open(row) for row in range(6)] == ledger.open_mask().tolist()
    assert [ledger.is_askable(row) for row in range(6)] == ledger.askable_mask().tolist()
    assert ledger.labelled_mask().tolist() == [True, True, False, False, False, False]


def test_unjudged_answers_do_not_count_in_the_accuracy() -> None:
    ledger = Ledger(4)
    ledger.answers = {0: Answer(0, None, False), 1: Answer(0, True, False), 2: Answer(0, False, True)}
    assert ledger.accuracy() == (1, 2)


def test_where_rows_go_when_answers_are_taken_back() -> None:
    pool = make_pool(20, 3)
    s = Surrogate(pool.features, 3, basis_size=6).anchor(pool.probs, [0])
    asked = int(s.ask()[0])
    unasked = next(row for row in range(1, 20) if row != asked)
    s.tell([asked, unasked], [0, 1])
    s.retract([asked, unasked])
    assert list(s.parts.ledger.pending) == [asked]
    assert s.parts.ledger.is_askable(unasked)
    s.tell([asked], [1]).release([asked])  # no effect: it is answered
    assert s.parts.ledger.answers[asked].label == 1
    s.skip([asked]).undo()
    assert asked in s.parts.ledger.pending  # it was asked for before
    s.release([asked])
    assert not s.parts.ledger.is_askable(asked)  # and is skipped all the same
    assert asked not in s.ask(18).tolist()


def test_undo_follows_the_order_of_answers() -> None:
    pool = make_pool(20, 3)
    s = Surrogate(pool.features, 3, basis_size=6).anchor(pool.probs, [0])
    s.tell([7, 3], [0, 0]).tell([9], [1]).retract([3]).tell([3], [2])
    s.undo()
    assert list(s.parts.ledger.answers) == [7, 9]
    s.undo(2)
    assert not s.parts.ledger.answers


def test_new_rows_are_open() -> None:
    ledger = Ledger(2)
    ledger.is_dropped[1] = True
    ledger.extend(2)
    assert len(ledger) == 4
    np.testing.assert_array_equal(ledger.open_mask(), [True, False, True, True])


def test_a_ledger_comes_back_from_its_arrays() -> None:
    ledger = Ledger(5)
    ledger.answers = {3: Answer(1, None, True), 0: Answer(0, False, False), 1: Answer(1, True, False)}
    ledger.pending, ledger.credit = {4: None, 2: None}, (3, 7)
    ledger.is_trained[0] = ledger.is_skipped[2] = ledger.is_dropped[4] = True
    arrays = ledger.to_arrays()
    assert set(arrays) == LEDGER_KEYS
    again = Ledger.from_arrays({**arrays, "format": 2})
    assert list(again.answers.items()) == list(ledger.answers.items()), "in the order they were told"
    assert (list(again.pending), again.credit, len(again)) == ([4, 2], (3, 7), 5)
    for name, array in again.to_arrays().items():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.dtype == arrays[name].dtype
    again.is_dropped[1] = True
    assert not ledger.is_dropped[1], "what is loaded is nobody else's"
    del arrays["credit"]
    assert Ledger.from_arrays(arrays).credit == (0, 0), "the first states had none"


@pytest.mark.parametrize("method", ["understudy", "paper"])
def test_whatever_happens_the_rows_on_the_device_are_as_the_ledger_says(method: Method) -> None:
    rng = np.random.default_rng(7)
    s = Surrogate(rng.normal(size=(40, 5)), 3, basis_size=12, method=method)
    for turn in range(250):
        ledger = s.parts.ledger
        some = rng.choice(len(s), 3, replace=False).tolist()
        untold = [row for row in some if not (ledger.is_labelled(row) or ledger.is_dropped[row])]
        told = [row for row in some if row in ledger.answers]
        deed = rng.integers(13)
        if deed <= 2 and len(s.askable) > 3:
            s.ask(int(rng.integers(1, 3)))
        elif deed == 3:
            s.tell(untold, [row % 3 for row in untold])
        elif deed == 4:
            s.tell(asked := s.pending[:2], asked % 3)
        elif deed == 5:
            s.reserve(untold)
        elif deed == 6:
            s.retract(told)
        elif deed == 7:
            s.release(some)
        elif deed == 8:
            s.skip(some[:1])
        elif deed == 9:
            s.unskip(some)
        elif deed == 10:
            s.drop(some[:1])
        elif deed == 11:
            s.undrop(some)
        elif turn % 3:
            s.anchor(rng.dirichlet(np.ones(3), len(s)), [row for row in ledger.answers if row % 2])
        else:
            s = Surrogate.restore(s.parts.features.parts[0], s.state_dict())
        expected = set(s.parts.ledger.pending) if s.parts.engine is None else s.parts.engine.expected
        is_open, is_askable, is_in_pool = s.parts.ledger.masks(expected)
        np.testing.assert_array_equal(~column(s, "is_closed").numpy(), is_askable)
        np.testing.assert_array_equal(column(s, "is_in_pool").numpy(), is_in_pool)
        if s.parts.engine is not None:
            np.testing.assert_array_equal(column(s, "is_open").numpy(), is_open)
            assert expected <= set(s.parts.ledger.pending)
