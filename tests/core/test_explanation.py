import numpy as np
import pytest

from tests.literal import literal_of
from tests.pools import make_pool
from understudy import Surrogate
from understudy.core.explanation import shares_of
from understudy.core.options import METHODS, Method, Options

pytestmark = pytest.mark.usefixtures("every_storage")

POOL = make_pool(60, 3, seed=1)


def surrogate(mode: str = "combined") -> Surrogate:
    """By the mode's own method: a product is the understudy's, all else the paper's."""
    method: Method = "understudy" if mode == "product" else "paper"
    s = Surrogate(POOL.features, 3, basis_size=12, dtype="float64", mode=mode, method=method)
    return s.anchor(POOL.probs, [0, 1]).tell(range(10, 20), POOL.labels[10:20])


def test_shares_and_values_are_those_of_the_utility() -> None:
    s = surrogate()
    why = s.explain(30)
    u1, u2, P = s.influence, s.uncertainty, s.accuracy
    terms = (1 - P) * u1[30] / u1.std(), P * u2[30] / u2.std()
    assert why.influence == pytest.approx(u1[30])
    assert why.uncertainty == pytest.approx(u2[30])
    assert why.utility == pytest.approx(s.utility[30])
    assert why.influence_share == pytest.approx(terms[0] / sum(terms))
    assert why.influence_share + why.uncertainty_share == pytest.approx(1)
    assert why.accuracy == P
    label, mean = why.prediction[0]
    assert label == s.mean[30].argmax()
    assert mean == pytest.approx(s.mean[30].max())


def test_a_product_is_explained_by_how_far_each_factor_is_from_an_ordinary_rows() -> None:
    s = surrogate("product")
    askable, (row,) = s.askable, s.ask().tolist()
    s.release([row])
    for one in (row, 30, 47):
        why = s.explain(one)
        assert why.utility == pytest.approx(why.influence * why.uncertainty) == pytest.approx(s.utility[one])
        assert (why.influence, why.uncertainty) == pytest.approx((s.influence[one], s.uncertainty[one]))
        terms = [abs(np.log(values[one]) - np.log(values[askable]).mean()) for values in (s.influence, s.uncertainty)]
        assert why.influence_share == pytest.approx(terms[0] / sum(terms))
        assert why.influence_share + why.uncertainty_share == pytest.approx(1)
        for values, quartiles in (
            (s.influence, why.influence_quartiles),
            (s.uncertainty, why.uncertainty_quartiles),
        ):
            exact = np.quantile(values[askable], [0.25, 0.5, 0.75], method="nearest")
            np.testing.assert_allclose(quartiles, exact, rtol=1e-6)


def test_the_last_terms_of_a_product_sum_to_its_logarithm_over_that_of_an_ordinary_row() -> None:
    s = surrogate("product")
    u, influence, doubt = s.utility, s.influence, s.uncertainty
    (row,) = s.ask().tolist()
    askable = s.askable  # the others
    usual = np.exp(np.log(u[askable]).mean())
    assert sum(s.last_terms) == pytest.approx(np.log(u[row] / usual))
    first, second = s.last_terms
    assert first == pytest.approx(np.log(influence[row]) - np.log(influence[askable]).mean())
    assert second == pytest.approx(np.log(doubt[row]) - np.log(doubt[askable]).mean())


@pytest.mark.parametrize("mode", ["combined", "product"])
def test_it_names_the_rows_that_would_lose_most_variance(mode: str) -> None:
    s = surrogate(mode)
    why = s.explain(30, n_rows=4)
    before = literal_of(s, POOL.features, POOL.probs)
    after = before.variance([*before.explained(), 30])
    share = (before.variance() - after) / before.variance()
    others = [row for row in before.open if row != 30]
    expected = sorted(others, key=lambda row: -share[row])[:4]
    assert [row for row, _ in why.teaches] == expected
    np.testing.assert_allclose([value for _, value in why.teaches], share[expected], rtol=1e-9)
    assert why.n_taught == sum(share[row] >= 0.1 for row in others)


def test_it_names_the_nearest_labelled_rows_and_their_labels() -> None:
    s = surrogate()
    why = s.explain(30, n_rows=3)
    labelled = [0, 1, *range(10, 20)]
    distance = np.linalg.norm(POOL.features[labelled] - POOL.features[30], axis=1)
    order = np.argsort(distance)[:3]
    assert [row for row, _, _ in why.nearest] == [labelled[i] for i in order]
    np.testing.assert_allclose([d for _, _, d in why.nearest], distance[order])
    for row, label, _ in why.nearest:
        assert label == (None if row < 2 else POOL.labels[row])


def test_one_plain_line() -> None:
    assert str(surrogate("influence").explain(30)).startswith("row 30: it is the most informative about other items: ")
    assert str(surrogate("uncertainty").explain(30)).startswith("row 30: it is hard (now class ")
    for method in METHODS:
        fresh = Surrogate(np.ones((9, 2)), 2, basis_size=3, method=method)  # type: ignore[arg-type]
        assert str(fresh.explain(4)) == "row 4: nothing sets it apart (now any class)"
        assert fresh.explain(4).nearest == ()


def test_the_reason_for_a_product_is_the_factor_that_is_above_the_usual() -> None:
    s = surrogate("product")
    askable = s.askable
    influence, doubt = (np.log(values) - np.log(values[askable]).mean() for values in (s.influence, s.uncertainty))
    begins = {"influence": "it is the most informative", "doubt": "it is hard", "neither": "nothing sets it apart"}
    seen = set()
    for row in askable:
        above = "influence" if influence[row] > doubt[row] else "doubt"
        above = "neither" if max(influence[row], doubt[row]) < 0 else above
        assert s.explain(row).reason.startswith(begins[above])
        seen.add(above)
    assert seen == set(begins)


@pytest.mark.parametrize("mode", ["combined", "product"])
def test_explaining_changes_nothing(mode: str) -> None:
    s, untouched = surrogate(mode), surrogate(mode)
    s.explain(30)
    assert s.ask(5).tolist() == untouched.ask(5).tolist()


def test_lookahead_and_variance_are_explained_too() -> None:
    why = surrogate("variance").explain(30)
    assert str(why).startswith("row 30: the surrogate knows least about it (now ")
    assert np.isnan(why.influence_share)
    for row in range(0, 60, 5):
        why = surrogate("lookahead").explain(row)
        assert 0 <= why.influence_share <= 1
        assert why.influence_share + why.uncertainty_share == pytest.approx(1)
    few = Surrogate(POOL.features, 3, basis_size=12, mode="lookahead", lookahead_candidates=2, method="paper")
    few.anchor(POOL.probs, [0])
    few.tell(range(10, 20), POOL.labels[10:20])
    for row in [*few.ask().tolist(), 33]:
        assert np.isfinite(few.explain(row).utility)  # though it was not among those tried


@pytest.mark.parametrize("mode", ["combined", "product"])
@pytest.mark.parametrize("others", [0, 2])
def test_a_row_that_was_asked_for_is_explained_as_it_was_before(mode: str, others: int) -> None:
    s, twin = surrogate(mode), surrogate(mode)
    if others:
        s.ask(others)
        twin.ask(others)
    row = int(twin.ask()[0])
    before, after = s.explain(row), twin.explain(row)
    assert [other for other, _ in after.teaches] == [other for other, _ in before.teaches]
    np.testing.assert_allclose([share for _, share in after.teaches], [share for _, share in before.teaches])
    assert (after.influence, after.utility) == pytest.approx((before.influence, before.utility))
    assert str(after) == str(before)
    s.ask()  # and nothing came of the explaining
    np.testing.assert_allclose(twin.utility, s.utility, rtol=1e-10)
    twin.tell([row], [1])
    s.tell([row], [1])
    assert twin.ask(4).tolist() == s.ask(4).tolist()


PRODUCT, SUM = Options.of("understudy"), Options.of("paper")


@pytest.mark.parametrize(
    ("terms", "product", "total"),
    [
        ((0.0, 2.0), (0.0, 1.0), (0.0, 1.0)),  # an ordinary influence and much doubt
        ((-1.0, 3.0), (0.0, 1.0), (0.25, 0.75)),  # what speaks against a row is no reason for it
        ((3.0, -1.0), (1.0, 0.0), (0.75, 0.25)),
        ((1.0, 3.0), (0.25, 0.75), (0.25, 0.75)),
    ],
)
def test_a_factor_below_the_ordinary_has_no_share_of_a_product(
    terms: tuple[float, float], product: tuple[float, float], total: tuple[float, float]
) -> None:
    assert shares_of(*terms, PRODUCT) == product
    assert shares_of(*terms, SUM) == total


def test_where_neither_factor_is_above_the_ordinary_there_are_no_shares() -> None:
    assert np.isnan(shares_of(-1.0, -0.5, PRODUCT)).all()
    assert np.isnan(shares_of(0.0, 0.0, SUM)).all()


def test_reason_and_shares_of_any_row_agree() -> None:
    pool = make_pool(80, 3, seed=8)
    s = Surrogate(pool.features, 3)
    assert not any("hard" in s.explain(row).reason for row in range(80)), "without a learner nothing is hard"
    s.anchor(pool.probs, [0, 1])
    for row in range(2, 80):
        found = s.explain(row)
        if "hard" in found.reason:
            assert found.uncertainty_share >= found.influence_share
        if "says most" in found.reason:
            assert found.influence_share > 0


def test_the_last_terms_are_those_of_the_choice_whatever_happens_since() -> None:
    pool = make_pool(80, 3, seed=9)
    s = Surrogate(pool.features, 3)
    assert s.last_terms == (0.0, 0.0), "nothing was asked for yet"
    s.anchor(pool.probs, [0, 1]).ask()
    then = s.last_terms
    s.extend(pool.features[:3] + 0.02, pool.probs[:3])
    assert s.utility is not None
    assert s.last_terms == then
