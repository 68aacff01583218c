import numpy as np
import pytest
import torch

from tests.blocks import column, scale_h
from tests.literal import literal_of
from tests.pools import make_pool, relative_error
from understudy import PoolExhausted, Surrogate, UnderstudyError
from understudy.core.engine import DRIFT_LIMIT, DRIFT_SAFETY
from understudy.core.options import METHODS, MODES_OF, Method

pytestmark = pytest.mark.usefixtures("every_storage")

BOTH = pytest.mark.parametrize("method", METHODS)
MODES = [
    ("paper", "combined"), ("paper", "uncertainty"), ("paper", "influence"), ("paper", "lookahead"),
    ("understudy", "product"), ("understudy", "uncertainty"), ("understudy", "uniform"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "mode"), MODES)
def test_a_rehearsal_is_asking_and_telling(method: Method, mode: str) -> None:
    pool = make_pool(80, 3, seed=1)
    rehearsed, played = (
        Surrogate(pool.features, 3, basis_size=15, mode=mode, method=method).anchor(pool.probs, [0, 1])
        for _ in range(2)
    )
    for s in (rehearsed, played):
        s.tell([5], [1])
        s.ask()  # somebody else's, pending all the while
    picks = []
    for _ in range(12):
        row = played.ask()
        played.tell(row, pool.labels[row])
        picks += row.tolist()
    assert rehearsed.rehearse(pool.labels, 12).tolist() == picks
    assert rehearsed.accuracy == played.accuracy
    np.testing.assert_allclose(rehearsed.utility, played.utility, rtol=1e-5)
    assert rehearsed.ask() == played.ask()
    assert rehearsed.undo(13)._ledger.pending.keys() == played.undo(13)._ledger.pending.keys()


@pytest.mark.parametrize(("method", "mode"), MODES)
def test_picks_that_nobody_answers_are_the_same_in_one_go(method: Method, mode: str) -> None:
    pool = make_pool(80, 3, seed=1)
    at_once, one_by_one = (
        Surrogate(pool.features, 3, basis_size=15, mode=mode, method=method).anchor(pool.probs, [0, 1])
        for _ in range(2)
    )
    for s in (at_once, one_by_one):
        s.tell([5, 7], [1, 2])
    rows, values = at_once._propose_in_one_go(at_once._ready(), 12)
    expected, utilities = one_by_one.propose(12)
    assert rows.tolist() == expected.tolist()
    np.testing.assert_allclose(values, utilities, rtol=1e-5)
    assert at_once.pending.tolist() == one_by_one.pending.tolist()
    for s in (at_once, one_by_one):
        s.tell(rows[:3], pool.labels[rows[:3]])
    np.testing.assert_allclose(at_once.utility, one_by_one.utility, atol=1e-4)  # rows are float32


@BOTH
def test_a_rehearsal_says_by_what_each_row_was_picked(method: Method) -> None:
    pool = make_pool(60, 3, seed=4)
    rehearsed, played = (
        Surrogate(pool.features, 3, basis_size=15, method=method).anchor(pool.probs, [0, 1]) for _ in range(2)
    )
    rows, values = rehearsed.rehearse_proposals(pool.labels, 6)
    for row, value in zip(rows, values, strict=True):
        expected, utility = played.propose()
        assert row == expected[0]
        assert float(value) == pytest.approx(float(utility[0]), rel=1e-6)
        played.tell([row], [pool.labels[row]])


@BOTH
def test_a_rehearsal_before_the_first_anchor_judges_nobody(method: Method) -> None:
    pool = make_pool(40, 3, seed=2)
    s = Surrogate(pool.features, 3, basis_size=10, method=method)
    assert len(set(s.rehearse(pool.labels, 5).tolist())) == 5
    assert s.parts.ledger.accuracy() == (0, 0)


def test_a_rehearsal_takes_labels_for_all_rows_and_no_more_rows_than_there_are() -> None:
    pool = make_pool(20, 3, seed=2)
    s = Surrogate(pool.features, 3, basis_size=10)
    with pytest.raises(UnderstudyError, match="20 rows but 5 labels"):
        s.rehearse(pool.labels[:5], 3)
    with pytest.raises(PoolExhausted, match="asked for 21 rows but only 20 are left"):
        s.rehearse(pool.labels, 21)
    assert not s.parts.ledger.answers


@BOTH
def test_an_interrupted_rehearsal_never_happened(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool(40, 3, seed=2)
    s, untouched = (Surrogate(pool.features, 3, basis_size=10, method=method).anchor(pool.probs, [0]) for _ in range(2))
    engine, calls = s.parts.engine, iter(range(100))
    assert engine is not None
    step = engine.step

    def interrupted(labels: torch.Tensor, judge: bool, watch: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return step(labels, judge, watch)

    monkeypatch.setattr(engine, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        s.rehearse(pool.labels, 10)
    monkeypatch.undo()
    np.testing.assert_allclose(s.utility, untouched.utility, rtol=1e-6)
    assert s.rehearse(pool.labels, 10).tolist() == untouched.rehearse(pool.labels, 10).tolist()


@BOTH
def test_drift_is_seen_and_refreshed_away(method: Method) -> None:
    pool = make_pool(300, 3, seed=3)
    s = Surrogate(pool.features, 3, basis_size=20, dtype="float64", method=method).anchor(pool.probs, [0])
    s.tell(s.ask(), [0])
    s.ask()
    engine = s.parts.engine
    assert engine is not None
    assert float(engine.drift) < 1e-10
    scale_h(s, 1 + 1e-3)  # as if rounding had piled up
    s.tell(s.ask(), [1])
    assert DRIFT_SAFETY * float(engine.drift) > DRIFT_LIMIT
    s.ask()
    assert float(engine.drift) < 1e-10
    literal = literal_of(s, pool.features, pool.probs)
    assert relative_error(s.influence, literal.influence_by_formula()) < 1e-10


@BOTH
def test_drift_is_seen_by_those_who_only_tell(method: Method) -> None:
    pool = make_pool(300, 3, seed=3)
    s = Surrogate(pool.features, 3, basis_size=20, dtype="float64", method=method).anchor(pool.probs, [0])
    assert s.influence[5] > 0
    scale_h(s, 1 + 1e-3)
    s.tell([5], [1])
    literal = literal_of(s, pool.features, pool.probs)
    assert relative_error(s.influence, literal.influence_by_formula()) < 1e-10


@BOTH
@pytest.mark.parametrize("n", [300, 3000])
def test_small_drift_changes_no_pick(method: Method, n: int) -> None:
    """The leaders are computed exactly: noise in what rows carry along decides nothing."""
    pool = make_pool(n, 3, seed=4)
    pool = pool.take(np.argsort(pool.features[:, 0]).tolist())  # neighbours are alike
    s = Surrogate(pool.features, 3, basis_size=20, dtype="float64", mode="influence", method=method).anchor(
        pool.probs, [0]
    )
    first, second = np.argsort(-s.influence)[:2].tolist()
    carried = column(s, "h") / column(s, "var")
    scale_h(s, float((1 - 1e-9) * carried[second] / carried[first]), [first])  # now it looks second best
    carried = column(s, "h") / column(s, "var")
    assert carried[first] < carried[second]
    assert s.ask() == [first]


def test_influence_counts_however_small_it_is_and_rounding_does_not() -> None:
    """All basis points labelled: what is left is 1e-8 of what there was, and squared. It is still the truth."""
    pool = make_pool(200, 3, seed=7)
    s = Surrogate(pool.features, 3, basis=(pool.features[:20], pool.probs[:20]), dtype="float64", method="paper")
    s.anchor(pool.probs, np.arange(20)).tell([30, 31, 32], [0, 1, 2])
    literal = literal_of(s, pool.features, pool.probs)
    assert s.influence[20:].max() < 1e-8
    engine = s.parts.engine
    assert engine is not None
    _, terms = engine.utility()
    assert (terms[0].std() > 0).item()
    s.rehearse(pool.labels, 100)
    carried = s.influence
    engine.refresh()
    assert relative_error(carried, s.influence) < 1e-3
    assert len(literal.open) == 177
    s.rehearse(pool.labels, 77)  # the pool is used up
    _, terms = engine.utility()
    assert (terms[0] == 0).all()


@BOTH
def test_wear_of_many_take_outs_leads_to_a_rebuild(method: Method) -> None:
    pool = make_pool(60, 3, seed=5)
    s = Surrogate(pool.features, 3, basis_size=10, dtype="float64", method=method).anchor(pool.probs, [0])
    s.tell([5, 6], [0, 1])
    engine = s.parts.engine
    assert engine is not None
    engine.wear = 1.0
    engine.posterior.R *= 1.01  # what wear would do, in the large
    s.retract([5])
    assert engine.wear == 0.0
    literal = literal_of(s, pool.features, pool.probs)
    assert relative_error(s.influence, literal.influence_by_formula()) < 1e-10


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("n_classes", [12, 60])
@pytest.mark.parametrize(("method", "mode"), [(method, mode) for method in METHODS for mode in MODES_OF[method]])
def test_gpu_picks_are_the_cpus(method: Method, mode: str, n_classes: int) -> None:
    """Recorded and replayed, with rows dropped; the last picks are made one by one."""
    pool = make_pool(1500, n_classes, seed=6)
    U, V = pool.features[:50] + 0.3, pool.probs[:50]
    basis = (U, V) if method == "paper" else U
    here, there = (
        Surrogate(pool.features, n_classes, basis=basis, device=device, mode=mode, dtype="float64", method=method)
        .anchor(pool.probs, np.arange(20))
        .drop([100, 101])
        for device in ("cpu", "cuda")
    )
    count = 80 if mode != "lookahead" else 5
    assert here.rehearse(pool.labels, count).tolist() == there.rehearse(pool.labels, count).tolist()
    assert here.ask(3).tolist() == there.ask(3).tolist()
    np.testing.assert_allclose(there.utility, here.utility, rtol=1e-7)
