"""The product of influence and a live doubt: whole sessions and small pools against brute force."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.blocks import column
from tests.core.test_surrogate import assert_literal
from tests.literal import doubt, literal_of
from tests.pools import Pool, make_pool, relative_error
from understudy import Surrogate
from understudy.core.options import OWN_BASIS_JITTER

pytestmark = pytest.mark.usefixtures("every_storage")

OPTION_SETS: dict[str, dict[str, object]] = {
    "as it comes": {},
    "all rows weigh alike": {"weighting": "even"},
    "doubt of the learner": {"doubt": "standing"},
    "predictions may be wrong everywhere": {"bias": None},
    "hardly wrong on average": {"bias": 1e-4},
    "a high floor": {"floor": 0.3},
    "without itself": {"exclude_self": True},
    "influence": {"mode": "influence"},
    "influence without itself": {"mode": "influence", "exclude_self": True, "bias": None},
    "uncertainty": {"mode": "uncertainty"},
    "uniform": {"mode": "uniform"},
    "variance": {"mode": "variance"},
    "all at once": {"weighting": "even", "doubt": "standing", "bias": None, "exclude_self": True, "noise": 1e-3},
}


def started(pool: Pool, trained_on: object = (0, 1, 2), **options: object) -> Surrogate:
    options = {"basis_size": 12, "dtype": "float64"} | options
    return Surrogate(pool.features, pool.n_classes, **options).anchor(pool.probs, trained_on)  # type: ignore[arg-type]


# -- whole sessions -----------------------------------------------------------------------------------------------


def whole_session(s: Surrogate, long: Pool) -> Iterator[tuple[str, Pool, dict[str, object]]]:
    """Something of everything; after each step what to compare with. The last six rows of `long` join on the way."""
    n, c = len(s), s.n_classes
    pool = Pool(long.features[:n], np.full((n, c), 1 / c), long.labels[:n], c)
    yield "nothing yet", pool, {}
    s.tell(s.ask(), [0])
    s.ask()
    yield "a label and a question before there is a learner", pool, {}
    pool = long.first(n)
    s.anchor(pool.probs, [0, 1, 2])
    yield "the first anchor", pool, {}
    pending = s.ask(4)
    yield "asked", pool, {}
    s.tell(pending[2], pool.labels[pending[2]])
    yield "answered late", pool, {}
    free = s.askable.tolist()
    s.tell(free[:3], [1, 2, 3])
    yield "answered unasked", pool, {}
    s.retract(pending[2])
    assert pending[2] in s.pending
    yield "pending again", pool, {}
    s.retract(free[:1])
    assert free[0] in s.askable
    yield "back in the pool", pool, {}
    s.release(pending[:1])
    yield "released", pool, {}
    s.skip([free[3], pending[1]])
    yield "skipped", pool, {}
    s.drop([free[4], pending[3], free[1], 0])  # open, pending, told, trained on
    yield "dropped", pool, {}
    s.undrop([free[4], 0])
    yield "undropped", pool, {}
    s.tell(free[5:8], [0, 1, 2])
    s.undo(2)
    yield "undone", pool, {}
    s.extend(long.features[n:], long.probs[n:])
    pool = long
    yield "extended", pool, {}
    s.tell([n, n + 1], [1, 1])
    s.drop([n + 2]).retract([n])
    yield "new rows told, dropped, retracted", pool, {}
    s.add_class()
    wider = Pool(long.features, np.hstack([long.probs, np.zeros((len(long.labels), 1))]), long.labels, c + 1)
    added: dict[str, object] = {"weighed_by": long.probs}
    yield "a class more", wider, added
    s.tell(s.askable[:2], [c, 0])
    s.undrop([n + 2])
    yield "told to be of it", wider, added
    later = make_pool(len(long.labels), c + 1, seed=77)
    pool = Pool(long.features, later.probs, long.labels, c + 1)
    s.anchor(pool.probs, list(s.parts.ledger.answers)[:3])
    yield "the second anchor", pool, {}
    s.tell(s.ask(2), [c, c])
    yield "and on", pool, {}


@pytest.mark.parametrize("name", OPTION_SETS)
def test_a_whole_session_equals_brute_force_at_every_step(name: str) -> None:
    long = make_pool(42, 4, seed=3)
    options = {"basis_size": 10, "dtype": "float64"} | OPTION_SETS[name]
    s = Surrogate(long.features[:36], 4, **options)  # type: ignore[arg-type]
    for step, pool, more in whole_session(s, long):
        try:
            assert_literal(s, pool, 1e-9, **more)
        except AssertionError as error:
            raise AssertionError(f"{step}: {error}") from error


@pytest.mark.parametrize("name", OPTION_SETS)
def test_every_question_is_the_best_row_by_brute_force(name: str) -> None:
    pool = make_pool(40, 4, seed=5)
    s = started(pool, **OPTION_SETS[name])
    s.skip([7])
    for turn in range(8):
        literal = literal_of(s, pool.features, pool.probs)
        u = literal.utility()[literal.askable]
        (row,) = s.ask().tolist()
        assert row == literal.askable[int(np.argmax(u))]
        if turn % 3:
            s.tell([row], pool.labels[[row]])
    assert len(s.pending) == 3


def test_the_live_doubt_follows_answers_and_the_standing_one_does_not() -> None:
    pool = make_pool(40, 4, seed=6)
    live, standing = started(pool), started(pool, doubt="standing")
    np.testing.assert_allclose(live.uncertainty, doubt(pool.probs, 1e-3), rtol=1e-12)
    for s in (live, standing):
        s.tell([10, 11, 12], [0, 1, 2])
    np.testing.assert_allclose(live.mean, standing.mean, atol=1e-12)
    np.testing.assert_allclose(live.uncertainty, doubt(live.mean, 1e-3), rtol=1e-9)
    np.testing.assert_allclose(standing.uncertainty, doubt(pool.probs, 1e-3), rtol=1e-12)
    assert np.abs(live.uncertainty - standing.uncertainty).max() > 1e-2


def test_a_bias_of_next_to_nothing_keeps_the_mean_row_where_it_was_predicted() -> None:
    """And a wide one is none at all: the option reaches from one to the other."""
    pool = make_pool(40, 4, seed=7)
    moved = {}
    for bias in (1e-9, 1e9, None):
        s = started(pool, bias=bias).tell(range(10, 20), np.zeros(10, int))
        moved[bias] = s.mean - pool.probs
    assert np.abs(moved[None].mean(0)).max() > 1e-2  # told the same ten times, all rows lean to it
    np.testing.assert_allclose(moved[1e9], moved[None], atol=1e-7)
    np.testing.assert_allclose(moved[1e-9].mean(0), 0.0, atol=1e-6)
    assert np.abs(moved[1e-9]).max() > 1e-2  # each row is free to move all the same


def test_pending_rows_take_their_influence_and_leave_all_doubts_alone() -> None:
    pool = make_pool(40, 4, seed=8)
    s, plain = started(pool), started(pool)
    rows = s.ask(3)
    np.testing.assert_array_equal(s.uncertainty, plain.uncertainty)
    assert (s.influence[rows] < plain.influence[rows]).all()


# -- ω: what rows count -------------------------------------------------------------------------------------------


def weighed_gram(s: Surrogate, omega: np.ndarray) -> np.ndarray:
    """M by its definition: Σ ω w wᵀ over the rows that are neither labelled, pending nor dropped."""
    w = column(s, "W").numpy()[s.parts.ledger.open_mask()]
    return (w * omega[s.parts.ledger.open_mask(), None]).T @ w


def test_a_row_takes_its_weight_along_and_brings_it_back() -> None:
    pool = make_pool(46, 3, seed=9)
    s = started(pool.first(40))
    omega = doubt(pool.probs, 1e-3)
    assert omega.std() > 0.1
    engine = s.parts.engine
    assert engine is not None
    start = engine.posterior.M.numpy().copy()

    def is_as_weighed() -> None:
        np.testing.assert_allclose(engine.posterior.M, weighed_gram(s, omega[: len(s)]), atol=1e-11)

    is_as_weighed()
    row = int(s.ask()[0])
    s.tell([row], [0]).tell([20], [1])
    is_as_weighed()
    s.retract([20]).undo().release([row])
    np.testing.assert_allclose(engine.posterior.M, start, atol=1e-11)
    s.drop([21, 22]).undrop([22])
    is_as_weighed()
    s.extend(pool.features[40:], pool.probs[40:])  # each by its own predictions
    is_as_weighed()
    s.add_class()  # ω stands until the next anchor
    is_as_weighed()
    later = make_pool(46, 4, seed=10)
    s.anchor(later.probs, [0])
    assert s.parts.engine is not None
    np.testing.assert_allclose(s.parts.engine.posterior.M, weighed_gram(s, doubt(later.probs, 1e-3)), atol=1e-11)


def test_decided_rows_count_for_nothing_but_the_floor() -> None:
    """Influence on a pool half of which is decided is that on the other half alone."""
    pool = make_pool(40, 3, seed=11)
    probs = pool.probs.copy()
    probs[20:] = np.eye(3)[pool.labels[20:]]
    # Without a bias row, which is the mean of all rows that are in the pool, decided or not.
    options = {"weighting": "margin", "floor": 1e-9, "bias": None}
    half = started(Pool(pool.features, probs, pool.labels, 3), [], **options)
    s = started(Pool(pool.features, probs, pool.labels, 3), [], **options).drop(range(20, 40))
    np.testing.assert_allclose(half.influence[:20], s.influence[:20], rtol=1e-6)


# -- odd pools ----------------------------------------------------------------------------------------------------


def test_hard_predictions_leave_the_choice_to_influence() -> None:
    """ω and doubt are at their floor everywhere: the utility is that of equal weights, times the floor twice."""
    pool = make_pool(40, 4, seed=12)
    hard = Pool(pool.features, np.eye(4)[pool.probs.argmax(1)], pool.labels, 4)
    s, even = started(hard), started(hard, weighting="even")
    np.testing.assert_allclose(s.utility, 1e-6 * even.influence, rtol=1e-9)
    assert s.ask(1) == started(hard, weighting="even", mode="influence").ask(1)
    s.tell([10], [(int(hard.probs[10].argmax()) + 1) % 4])  # not as it was predicted
    assert_literal(s, hard)
    assert s.uncertainty[10] > 0.1
    assert (s.uncertainty > 1e-3).sum() > 1


def test_one_class_leaves_no_doubt_to_weigh_with() -> None:
    pool = make_pool(30, 3, seed=13)
    only = Pool(pool.features, np.ones((30, 1)), np.zeros(30, np.int64), 1)
    s = started(only, [0])
    s.tell(s.ask(3), [0, 0, 0])
    assert_literal(s, only)
    assert (s.uncertainty == 1).all()
    np.testing.assert_array_equal(s.utility, s.influence)
    # Then a second class turns up: the margin is followed from here on.
    s.add_class()
    row = int(s.askable[0])
    s.tell([row], [1])
    two = Pool(pool.features, np.hstack([only.probs, np.zeros((30, 1))]), only.labels, 2)
    assert_literal(s, two, weighed_by=only.probs)
    assert s.uncertainty[row] > 0.1


def test_one_row_by_hand() -> None:
    """w² = 1/(1 + jitter), known but for a variance of c = w²/(1 + w²/bias); its influence on itself is c²/(ν + c)."""
    s = Surrogate(np.ones((1, 4)), 2, dtype="float64").anchor([[0.7, 0.3]], [])
    w2 = 1 / (1 + OWN_BASIS_JITTER)
    nu, c = 1 - w2 + 0.1, w2 / (1 + w2 / 1e-2)
    assert s.variance[0] == pytest.approx(nu + c, rel=1e-12)
    assert s.influence[0] == pytest.approx(0.6 * c * c / (nu + c), rel=1e-12)
    assert s.utility[0] == pytest.approx(0.6 * s.influence[0], rel=1e-12)
    s.tell(s.ask(), [1])
    assert s.mean[0, 1] == pytest.approx(0.3 + c / (nu + c) * 0.7, rel=1e-12)


def test_constant_features_leave_the_choice_to_doubt() -> None:
    pool = make_pool(30, 3, seed=14)
    same = Pool(np.full((30, 5), 7.0), pool.probs, pool.labels, 3)
    s = started(same, [0], basis_size=6)
    assert np.ptp(s.influence[1:]) < 1e-9 * s.influence.max()
    open_rows = s.askable
    assert s.ask() == [open_rows[np.argmax(doubt(pool.probs, 1e-3)[open_rows])]]
    s.release(s.pending).tell([4, 5], [1, 1])
    assert_literal(s, same, 1e-7)  # six equal basis points are told apart by the jitter alone
    nobody = Surrogate(np.full((30, 5), 7.0), 3)
    assert nobody.ask(3).tolist() == [0, 1, 2]


@pytest.mark.parametrize("own", [False, True])
def test_more_basis_points_than_rows(own: bool) -> None:
    pool = make_pool(20, 3, seed=15)
    more = make_pool(33, 3, seed=16).features
    s = started(pool, [0], **({"basis": more, "basis_size": None} if own else {"basis_size": 500}))
    assert len(s.parts.kernel.U) == (33 if own else 20)
    for _ in range(4):
        row = s.ask()
        assert_literal(s, pool, 1e-8)
        s.tell(row, pool.labels[row])
    assert_literal(s, pool, 1e-8)
    assert len(set(s.rehearse(pool.labels, 15).tolist())) == 15


@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 1), (4, 1), (5, 2), (40, 10), (1999, 500), (2000, 500), (2400, 500)])
def test_a_small_pool_has_a_quarter_as_many_basis_points(n: int, k: int) -> None:
    assert len(Surrogate(np.random.default_rng(0).normal(size=(n, 2)), 2, width=1.0)._kernel.U) == k


# -- golden numbers -----------------------------------------------------------------------------------------------

# One basis point; three rows with covariances 0.9, 0.5 and 0.1 to it, so that λ = 0.19, 0.75, 0.99 and, with σ² = 0.1,
# ν + k² = 1.1 for each. Predicted undecided, 0.8 to 0.2 and decided: ω = 1, 0.4 and the floor of 0.001. The jitter
# of 1e-6 on the basis point's variance is below the digits given.
COVARIANCES = np.array([0.9, 0.5, 0.1])
PREDICTED = np.array([[0.5, 0.5], [0.8, 0.2], [1.0, 0.0]])


def three_rows(bias: float | None) -> Surrogate:
    features = np.sqrt(-np.log(COVARIANCES))[:, None]
    distance = np.mean([abs(a - b)[0] for i, a in enumerate(features) for b in features[:i]])
    s = Surrogate(features, 2, basis=[[0.0]], width=1 / distance, bias=bias, dtype="float64")
    return s.anchor(PREDICTED, [])


def test_three_rows_by_hand() -> None:
    """M = 1 x 0.81 + 0.4 x 0.25 + 0.001 x 0.01 = 0.91001, and u(l) = k² M / 1.1."""
    s = three_rows(None)
    np.testing.assert_allclose(s.variance, [1.1, 1.1, 1.1], rtol=1e-5)
    np.testing.assert_allclose(s.influence, [0.670098, 0.206820, 0.00827282], rtol=1e-5)
    np.testing.assert_allclose(s.uncertainty, [1.0, 0.4, 0.001], rtol=1e-12)
    np.testing.assert_allclose(s.utility, [0.670098, 0.0827282, 8.27282e-6], rtol=1e-5)
    assert s.ask() == [0]


def test_three_rows_by_hand_after_a_label() -> None:
    """The label moves row i by 0.9 k_i/1.1 times (-0.5, 0.5); R = 0.29/1.1, M = 0.10001, u(l) = R² k² M/(ν + R k²)."""
    s = three_rows(None).tell([0], [1])
    np.testing.assert_allclose(s.mean[:, 0], [0.131818, 0.595455, 0.959091], rtol=1e-5)
    np.testing.assert_allclose(s.uncertainty, [0.263636, 0.809091, 0.0818182], rtol=1e-5)
    np.testing.assert_allclose(s.influence[1:], [0.00189732, 6.36178e-5], rtol=1e-5)
    np.testing.assert_allclose(s.utility[1:], [0.00153511, 5.20509e-6], rtol=1e-5)


def test_three_rows_by_hand_that_are_right_on_average() -> None:
    """The mean row has covariance 0.5: as if answered with variance 0.01, so R = 1/(1 + 0.25/0.01) = 1/26."""
    s = three_rows(1e-2)
    np.testing.assert_allclose(s.influence, [0.00339521, 0.000391502, 1.23453e-5], rtol=1e-4)
    s.tell([0], [1])
    np.testing.assert_allclose(s.mean[:, 0], [0.451497, 0.773054, 0.994611], rtol=1e-5)


# -- the exact limit ----------------------------------------------------------------------------------------------


def test_basis_equal_to_the_pool_is_the_exact_process_up_to_the_jitter() -> None:
    """What the basis represents, K (K + jI)⁻¹ K, is less than K by at most j, on the diagonal by nothing.

    So with A = K_LL + σ² the mean is off by at most j |A⁻¹r| (1 + 2|A⁻¹k|), the variance by 2j (|A⁻¹k| + |A⁻¹k|²).
    """
    pool, noise, rows = make_pool(25, 3, seed=15), 1e-2, np.array([3, 8, 11, 20])
    s = started(pool, [], basis=pool.features, basis_size=None, bias=None, noise=noise)
    s.tell(rows, pool.labels[rows])
    literal = literal_of(s, pool.features, pool.probs)
    K = literal.K - OWN_BASIS_JITTER * np.eye(25)
    inverse = np.linalg.inv(K[np.ix_(rows, rows)] + noise * np.eye(4))
    residuals = np.eye(3)[pool.labels[rows]] - pool.probs[rows]
    reach = np.linalg.norm(K[:, rows] @ inverse, axis=1)
    off = np.abs(s.mean - pool.probs - K[:, rows] @ inverse @ residuals)
    allowed = np.outer(1 + 2 * reach, np.linalg.norm(inverse @ residuals, axis=0))
    assert (off <= OWN_BASIS_JITTER * allowed + 1e-10).all()
    exact = 1 - np.einsum("ij,jk,ik->i", K[:, rows], inverse, K[:, rows])
    off = np.abs(s.variance - noise - exact)
    assert (off <= 2.1 * OWN_BASIS_JITTER * (reach + reach**2) + 1e-10).all()
    assert relative_error(s.mean - pool.probs, K[:, rows] @ inverse @ residuals) < 1e-4  # and that is not much


def test_the_kernel_sees_no_predictions() -> None:
    """Other predictions bring other weights and doubts, and leave variances and covariances alone."""
    pool, other = make_pool(40, 3, seed=16), make_pool(40, 3, seed=17)
    s = started(pool)
    variance, covariance = s.variance, s.covariance([5, 6])
    s.anchor(other.probs, [0, 1, 2])
    np.testing.assert_allclose(s.variance, variance, rtol=1e-12)
    np.testing.assert_allclose(s.covariance([5, 6]), covariance, rtol=1e-9)
    assert not np.allclose(s.influence, started(pool).influence)
