"""The adapter does what somebody who drives the surrogate by hand would do."""

import json
from typing import Any

import numpy as np
import pytest

from tests.strategies.pools import N_CLASSES, Arrays, labels_of, make_arrays
from understudy.core.options import METHODS, MODES_OF, Method, Options
from understudy.core.surrogate import Surrogate
from understudy.errors import UnderstudyError
from understudy.strategies.registry import STRATEGIES
from understudy.strategies.surrogate import SurrogateStrategy
from understudy.strategies.view import PoolView

BOTH = pytest.mark.parametrize("method", METHODS)
LABELLED = [3, 8, 11, 20, 26, 31]
SEED = 4


@pytest.fixture
def arrays() -> Arrays:
    return make_arrays()


def by_hand(arrays: Arrays, **options: Any) -> Surrogate:
    seed = int(np.random.default_rng(SEED).integers(2**63))
    return Surrogate(arrays.features, N_CLASSES, random_state=seed, **options)


def view_of(arrays: Arrays, labels: np.ndarray, round: int | None = 1, **more: Any) -> PoolView:  # noqa: A002
    return PoolView(labels, N_CLASSES, features=arrays.features, probs=arrays.probs, round=round, **more)


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize(("method", "mode"), [(method, mode) for method in METHODS for mode in MODES_OF[method]])
def test_rounds_of_single_labels_are_those_of_a_surrogate_driven_by_hand(
    arrays: Arrays, method: Method, mode: str, told: bool
) -> None:
    strategy, rng = SurrogateStrategy(method=method, mode=mode), np.random.default_rng(SEED)
    s, labels = by_hand(arrays, method=method, mode=mode), labels_of(arrays, LABELLED)
    for round_number, probs in enumerate([arrays.probs, arrays.probs[:, ::-1].copy()]):
        labelled = np.flatnonzero(labels >= 0)
        s.anchor(probs, labelled)
        view = PoolView(labels, N_CLASSES, features=arrays.features, probs=probs, round=round_number)
        for _ in range(5):
            picks = strategy.select(view, 1, rng)
            before = s.utility
            row = s.ask()
            assert picks.rows.tolist() == row.tolist()
            assert picks.scores[0] == pytest.approx(before[row[0]], rel=1e-4)
            s.tell(row, arrays.truth[row])
            labels[row] = arrays.truth[row]
            if told:
                strategy.tell(row, arrays.truth[row])
            view = view.after(labels, trained_on=labelled)
    strategy.select(view, 1, rng)  # what was not told comes with the view
    assert strategy.surrogate is not None
    assert strategy.surrogate.accuracy == s.accuracy > 0


@BOTH
def test_blind_hears_labels_only_when_the_learner_was_trained(arrays: Arrays, method: Method) -> None:
    strategy, rng, labels = (
        SurrogateStrategy(method=method, blind=True),
        np.random.default_rng(SEED),
        labels_of(arrays, LABELLED),
    )
    view = view_of(arrays, labels)
    expected = by_hand(arrays, method=method).anchor(arrays.probs, LABELLED).ask(6)
    for row in expected:
        chosen = strategy.select(view, 1, rng).rows
        assert chosen.tolist() == [row]
        labels[chosen] = arrays.truth[chosen]
        strategy.tell(chosen, arrays.truth[chosen])
        view = view.after(labels, trained_on=LABELLED)
    assert strategy.surrogate is not None
    assert strategy.surrogate.accuracy == 0
    strategy.select(view_of(arrays, labels, round=2), 1, rng)
    right = arrays.probs[expected].argmax(1) == arrays.truth[expected]
    assert strategy.surrogate.accuracy == pytest.approx(right.mean())


@BOTH
def test_pending_skipped_changed_and_lost_labels_are_followed(arrays: Arrays, method: Method) -> None:
    strategy, rng, labels = SurrogateStrategy(method=method), np.random.default_rng(SEED), labels_of(arrays, LABELLED)
    view = view_of(arrays, labels)
    first = strategy.select(view, 3, rng).rows
    s = by_hand(arrays, method=method).anchor(arrays.probs, LABELLED)
    assert first.tolist() == s.ask(3).tolist()

    # The first is answered wrongly, the second given back, the third still out; others took row 0; 5 is unusable.
    wrong = (arrays.truth[first[0]] + 1) % N_CLASSES
    labels[first[0]] = wrong
    second = strategy.select(view.after(labels, pending=[first[2], 0], skipped=[5], trained_on=LABELLED), 2, rng).rows
    s.tell(first[:1], [wrong]).release(first[1:2]).reserve([0]).skip([5])
    assert second.tolist() == s.ask(2).tolist()

    labels[first[0]] = arrays.truth[first[0]]  # corrected
    labels[0] = arrays.truth[0]
    third = strategy.select(view.after(labels, pending=[first[2], *second], trained_on=LABELLED), 2, rng).rows
    s.retract(first[:1]).tell([first[0], 0], arrays.truth[[first[0], 0]]).unskip([5])
    assert third.tolist() == s.ask(2).tolist()

    labels[0] = -1  # taken back altogether, and everything else given back
    fourth = strategy.select(view.after(labels, trained_on=LABELLED), 2, rng).rows
    s.retract([0]).release(s.pending)
    assert fourth.tolist() == s.ask(2).tolist()


@BOTH
@pytest.mark.parametrize("change", ["changed", "lost"])
@pytest.mark.parametrize("is_start", [True, False])
def test_a_label_that_the_learner_was_trained_on_may_change(
    arrays: Arrays, method: Method, change: str, is_start: bool
) -> None:
    strategy, rng, labels = SurrogateStrategy(method=method), np.random.default_rng(SEED), labels_of(arrays, LABELLED)
    rows = strategy.select(view_of(arrays, labels), 2, rng).rows
    labels[rows] = arrays.truth[rows]
    view = view_of(arrays, labels, round=2)
    strategy.select(view, 1, rng)
    row = LABELLED[0] if is_start else int(rows[0])
    trained = np.flatnonzero(labels >= 0)
    labels[row] = (labels[row] + 1) % N_CLASSES if change == "changed" else -1
    later = view.after(labels, trained_on=trained)
    left = int(later.is_open.sum())
    chosen = strategy.select(later, left, rng).rows.tolist()
    assert sorted(chosen) == later.candidates(1).tolist()
    assert (row in chosen) == (change == "lost")
    assert strategy.surrogate is not None
    if change == "changed":
        assert strategy.surrogate.parts.ledger.answers[row].label == labels[row]


@BOTH
def test_a_skipped_row_may_come_back_and_a_blind_one_forgets_lost_labels(arrays: Arrays, method: Method) -> None:
    for blind in (False, True):
        strategy, rng, labels = (
            SurrogateStrategy(method=method, blind=blind),
            np.random.default_rng(SEED),
            labels_of(arrays, LABELLED),
        )
        first = strategy.select(view_of(arrays, labels), 2, rng).rows
        labels[first] = arrays.truth[first]
        view = view_of(arrays, labels, round=2, trained_on=LABELLED)
        strategy.select(view.after(labels, skipped=[5], trained_on=LABELLED), 1, rng)
        labels[first[0]] = -1
        later = view.after(labels, trained_on=LABELLED)
        everything = strategy.select(later, int(later.is_open.sum()), rng).rows
        assert {5, int(first[0])} <= set(everything.tolist())


@BOTH
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_pool_is_known_again_in_a_new_view(arrays: Arrays, method: Method, kind: type) -> None:
    strategy, rng, labels = SurrogateStrategy(method=method), np.random.default_rng(SEED), labels_of(arrays, LABELLED)
    features: np.ndarray = arrays.features.astype(kind)
    rows = strategy.select(PoolView(labels, N_CLASSES, features=features, probs=arrays.probs, round=0), 2, rng).rows
    same, labels[rows] = strategy.surrogate, arrays.truth[rows]
    strategy.select(PoolView(labels, N_CLASSES, features=features.copy(), probs=arrays.probs, round=1), 2, rng)
    assert strategy.surrogate is same
    assert same is not None
    assert same.parts.ledger.accuracy()[1] == 2  # each label was a test of the predictions before


@BOTH
def test_other_predictions_are_noticed_even_in_the_same_round(arrays: Arrays, method: Method) -> None:
    labels, other = labels_of(arrays, LABELLED), arrays.probs[:, ::-1].copy()
    used, fresh = (
        SurrogateStrategy(method=method, mode="uncertainty"),
        SurrogateStrategy(method=method, mode="uncertainty"),
    )
    used.select(view_of(arrays, labels), 1, np.random.default_rng(SEED))
    view = PoolView(labels, N_CLASSES, features=arrays.features, probs=other, round=1)
    chosen = [strategy.select(view, 5, np.random.default_rng(SEED)).rows.tolist() for strategy in (used, fresh)]
    assert chosen[0] == chosen[1]


def test_labels_of_rows_it_has_never_seen_are_left_for_the_next_view(arrays: Arrays) -> None:
    strategy = SurrogateStrategy()
    strategy.select(view_of(arrays, labels_of(arrays, LABELLED)), 1, np.random.default_rng(SEED))
    strategy.tell(np.array([500]), np.array([1]))


@BOTH
def test_labels_that_came_while_the_learner_trained_count_at_once(arrays: Arrays, method: Method) -> None:
    strategy, rng, labels = (
        SurrogateStrategy(method=method),
        np.random.default_rng(SEED),
        labels_of(arrays, [*LABELLED, 12, 13]),
    )
    chosen = strategy.select(view_of(arrays, labels, trained_on=LABELLED), 4, rng).rows
    s = by_hand(arrays, method=method).anchor(arrays.probs, LABELLED).tell([12, 13], arrays.truth[[12, 13]])
    assert chosen.tolist() == s.ask(4).tolist()


def test_old_targets_may_be_residuals(arrays: Arrays) -> None:
    strategy, rng = SurrogateStrategy(method="paper", old_targets="residual"), np.random.default_rng(SEED)
    chosen = strategy.select(view_of(arrays, labels_of(arrays, LABELLED)), 4, rng).rows
    s = (
        by_hand(arrays, method="paper", old_targets="residual")
        .tell(LABELLED, arrays.truth[LABELLED])
        .anchor(arrays.probs, LABELLED)
    )
    assert chosen.tolist() == s.ask(4).tolist()


@BOTH
def test_the_kernel_may_see_the_learners_features(arrays: Arrays, method: Method) -> None:
    strategy, labels = SurrogateStrategy(method=method, on="hidden"), labels_of(arrays, LABELLED)
    assert strategy.needs.supplies == {"hidden", "probs"}
    views = [
        PoolView(labels, N_CLASSES, hidden=hidden, probs=arrays.probs, round=number)
        for number, hidden in enumerate([arrays.hidden, arrays.features[:, :5].copy()])
    ]
    rng = np.random.default_rng(SEED)
    first = strategy.select(views[0], 3, rng).rows
    same = strategy.surrogate
    second = strategy.select(views[1].after(labels), 3, rng).rows
    assert strategy.surrogate is same
    seed = int(np.random.default_rng(SEED).integers(2**63))
    s = Surrogate(arrays.hidden, N_CLASSES, random_state=seed, method=method).anchor(arrays.probs, LABELLED)
    assert first.tolist() == s.ask(3).tolist()
    s.anchor(arrays.probs, LABELLED, features=arrays.features[:, :5]).release(first)
    assert second.tolist() == s.ask(3).tolist()


@BOTH
def test_another_pool_is_another_surrogate(arrays: Arrays, method: Method) -> None:
    strategy, rng = SurrogateStrategy(method=method), np.random.default_rng(SEED)
    strategy.select(view_of(arrays, labels_of(arrays, LABELLED)), 1, rng)
    first = strategy.surrogate
    other = make_arrays(seed=1)
    strategy.select(view_of(other, labels_of(other, LABELLED)), 1, rng)
    assert strategy.surrogate is not first


def test_the_named_surrogates_are_the_papers_and_named_after_what_they_do() -> None:
    made = {name: STRATEGIES[name]() for name in STRATEGIES if name.startswith("surrogate")}
    options = {name: each.options for name, each in made.items() if isinstance(each, SurrogateStrategy)}
    assert made.keys() == options.keys()
    assert {each.method for each in options.values()} == {"paper"}
    modes = {name: each.mode for name, each in options.items()}
    assert modes.pop("surrogate") == modes.pop("surrogate_blind") == "combined"
    assert all(name == f"surrogate_{mode}" for name, mode in modes.items())
    assert len(modes) == 5
    assert options["surrogate"] == Options.of("paper")


def test_the_default_is_the_new_method_and_needs_no_learner() -> None:
    default, paper = STRATEGIES["understudy"](), STRATEGIES["surrogate"]()
    assert isinstance(default, SurrogateStrategy)
    assert default.options == Options.of("understudy")
    assert default.needs.supplies == {"features"}
    assert default.needs.optional == {"probs"}
    assert paper.needs.supplies == {"features", "probs"}
    assert not paper.needs.optional
    assert SurrogateStrategy(on="hidden").needs.supplies == {"hidden", "probs"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"on": "pixels"}, "on must be"),
        ({"mode": "best"}, "mode"),
        ({"mode": "combined"}, "mode must be one of product, influence"),
        ({"basis_size": 0}, "basis_size"),
        ({"width": -1.0}, "width"),
        ({"blind": "yes"}, "blind must be True or False; got 'yes'"),
        ({"link": "softmax"}, "method 'understudy' does not use link; leave it out, or pass method='paper'"),
        ({"method": "paper", "bias": 0.1}, "method 'paper' does not use bias"),
        ({"method": "papers"}, "method must be one of"),
        ({"basis": [[0.0]]}, "has no option 'basis'"),
    ],
)
def test_bad_settings_are_refused_when_they_are_made(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        SurrogateStrategy(**settings)


def test_it_is_written_as_what_makes_it_again() -> None:
    made = SurrogateStrategy(method="paper", blind=True, link="logit")
    assert repr(made) == "SurrogateStrategy(blind=True, on='features', method='paper', link='logit')"
    assert eval(repr(made)).options == made.options
    assert repr(SurrogateStrategy()) == "SurrogateStrategy(blind=False, on='features', method='understudy')"


# -- without a learner ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [True, False])
def test_it_starts_from_nothing_and_goes_on_when_predictions_come(arrays: Arrays, told: bool) -> None:
    strategy, rng = SurrogateStrategy(), np.random.default_rng(SEED)
    s, labels = by_hand(arrays), labels_of(arrays, [])
    view = PoolView(labels, N_CLASSES, features=arrays.features)
    for _ in range(4):
        (row,) = strategy.select(view, 1, rng).rows.tolist()
        assert s.ask().tolist() == [row]
        s.tell([row], arrays.truth[[row]])
        labels[row] = arrays.truth[row]
        if told:
            strategy.tell(np.array([row]), arrays.truth[[row]])
        view = view.after(labels, trained_on=[])
    assert strategy.memory()["judged"] == 0  # there was nobody to be right or wrong
    known = np.flatnonzero(labels >= 0)
    s.anchor(arrays.probs, known)
    view = PoolView(labels, N_CLASSES, features=arrays.features, probs=arrays.probs, round=0)
    made = strategy.surrogate
    rows = strategy.select(view, 3, rng).rows
    assert strategy.surrogate is made  # no new basis
    assert rows.tolist() == s.ask(3).tolist()
    assert strategy.memory()["judged"] == 0
    labels[rows] = arrays.truth[rows]
    strategy.select(view.after(labels, trained_on=known), 1, rng)
    assert strategy.memory()["judged"] == 3


def test_without_a_learner_several_at_once_are_those_of_a_pool_that_is_pending(arrays: Arrays) -> None:
    view = PoolView(labels_of(arrays, []), N_CLASSES, features=arrays.features)
    at_once = SurrogateStrategy().select(view, 8, np.random.default_rng(SEED))
    assert at_once.rows.tolist() == by_hand(arrays).ask(8).tolist()
    assert (np.diff(at_once.scores) < 0).all()  # each is worth less for those before it
    strategy, rng = SurrogateStrategy(), np.random.default_rng(SEED)
    rows: list[int] = []
    for _ in range(8):
        rows += strategy.select(view.after(view.labels, pending=rows), 1, rng).rows.tolist()
    assert rows == at_once.rows.tolist()


def test_a_rehearsal_without_a_learner_is_asking_and_telling(arrays: Arrays) -> None:
    view = PoolView(labels_of(arrays, []), N_CLASSES, features=arrays.features)
    rehearsed = SurrogateStrategy().rehearse(view, 6, arrays.truth, np.random.default_rng(SEED)).rows
    assert rehearsed.tolist() == by_hand(arrays).rehearse(arrays.truth, 6).tolist()


# -- what counts as a test of the learner -----------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("blind", [False, True])
def test_correcting_a_label_that_the_learner_was_trained_on_is_no_test_of_it(
    arrays: Arrays, method: Method, blind: bool
) -> None:
    strategy, rng = SurrogateStrategy(method=method, blind=blind), np.random.default_rng(SEED)
    labels = labels_of(arrays, LABELLED)
    view = view_of(arrays, labels)
    rows = strategy.select(view, 3, rng).rows
    strategy.tell(rows, arrays.truth[rows])
    labels[rows] = arrays.truth[rows]
    strategy.select(view.after(labels, trained_on=LABELLED), 1, rng)
    before = strategy.memory()
    assert before["judged"] == 3
    corrected = LABELLED[0]
    labels[corrected] = (labels[corrected] + 1) % N_CLASSES
    strategy.select(view.after(labels, trained_on=LABELLED), 1, rng)
    assert strategy.memory() == before
    labels[corrected] = (labels[corrected] + 1) % N_CLASSES  # and once more
    strategy.select(view.after(labels, trained_on=LABELLED), 1, rng)
    assert strategy.memory() == before
    assert strategy.surrogate is not None
    if not blind:
        assert strategy.surrogate.parts.ledger.answers[corrected].label == labels[corrected]
    labels[33] = arrays.truth[33]  # a new one is a test all the same
    strategy.tell(np.array([33]), arrays.truth[[33]])
    assert strategy.memory()["judged"] == 4


@BOTH
def test_a_strategy_that_recalled_remembers_that_until_it_is_shown_something(arrays: Arrays, method: Method) -> None:
    memory = {"seed": 17, "right": 5, "judged": 9}
    strategy = SurrogateStrategy(method=method)
    strategy.recall(memory)
    assert strategy.memory() == memory
    strategy.select(view_of(arrays, labels_of(arrays, LABELLED)), 1, np.random.default_rng(SEED))
    assert strategy.memory() == memory  # nothing was judged since
    strategy.recall({"seed": 3, "right": 0, "judged": 1})
    assert strategy.memory() == {"seed": 3, "right": 0, "judged": 1}
    memory["right"] = 0  # the caller's own to change
    assert strategy.memory()["judged"] == 1


SETTINGS: list[dict[str, Any]] = [
    {},
    {"blind": True},
    {"mode": "uniform"},
    {"doubt": "standing", "bias": None},
    {"method": "paper"},
    {"method": "paper", "mode": "lookahead"},
    {"method": "paper", "blind": True},
    {"method": "paper", "accuracy_of": "surrogate"},
    {"method": "paper", "blind": True, "accuracy_of": "surrogate"},
    {"method": "paper", "old_targets": "residual"},
]


def round_of(strategy: SurrogateStrategy, arrays: Arrays, number: int, labels: np.ndarray, at_once: bool) -> np.ndarray:
    """Six rows of a round, rehearsed or one by one, and the labels after them."""
    probs = np.roll(arrays.probs, number, axis=1).copy()
    trained, rng = np.flatnonzero(labels >= 0), np.random.default_rng([SEED, number])
    view = PoolView(labels, N_CLASSES, features=arrays.features, probs=probs, round=number)
    if at_once:
        rows = strategy.rehearse(view, 6, arrays.truth, rng).rows
        labels[rows] = arrays.truth[rows]
        return rows
    picked: list[int] = []
    for _ in range(6):
        (row,) = strategy.select(view, 1, rng).rows.tolist()
        strategy.tell(np.array([row]), arrays.truth[[row]])
        labels[row] = arrays.truth[row]
        picked.append(row)
        view = view.after(labels, trained_on=trained)
    return np.array(picked)


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_rehearsed_round_is_that_of_single_labels(arrays: Arrays, settings: dict[str, Any]) -> None:
    found = []
    for at_once in (False, True):
        strategy, labels = SurrogateStrategy(**settings), labels_of(arrays, LABELLED)
        rows = [round_of(strategy, arrays, number, labels, at_once).tolist() for number in range(3)]
        found.append((rows, strategy.memory()))
    assert found[0] == found[1]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("settings", SETTINGS)
def test_what_it_remembers_is_enough_to_go_on(arrays: Arrays, settings: dict[str, Any], at_once: bool) -> None:
    whole, labels = SurrogateStrategy(**settings), labels_of(arrays, LABELLED)
    for number in range(3):
        memory, before = json.loads(json.dumps(whole.memory())), labels.copy()
        rows = round_of(whole, arrays, number, labels, at_once).tolist()
        other = SurrogateStrategy(**settings)
        if memory:
            other.recall(memory)
        assert round_of(other, arrays, number, before, at_once).tolist() == rows
        assert other.memory() == whole.memory()
    assert memory["judged"] == 12
    assert 0 < memory["right"] < 12


def test_what_it_remembers_can_be_asked_at_any_time_and_changes_nothing(arrays: Arrays) -> None:
    assert SurrogateStrategy().memory() == {}
    for settings in SETTINGS:
        asked, left = SurrogateStrategy(**settings), SurrogateStrategy(**settings)
        labels = [labels_of(arrays, LABELLED) for _ in range(2)]
        for number in range(2):
            rows = round_of(asked, arrays, number, labels[0], True).tolist()
            asked.memory()
            assert asked.memory() == asked.memory()
            assert round_of(left, arrays, number, labels[1], True).tolist() == rows
