from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.blocks import blocks_of, column, lies_here
from tests.literal import literal_of
from tests.pools import Pool, make_pool, relative_error
from understudy import Surrogate, UnderstudyError
from understudy.core.options import METHODS, Method

pytestmark = pytest.mark.usefixtures("every_storage")

BEFORE = Path(__file__).parent / "data" / "format-1.npz"  # saved by the version before there were methods
POOL = make_pool(60, 40, seed=1)  # classes enough to defer means


def lived(dtype: str = "float32", method: Method = "understudy", **options: Any) -> Surrogate:
    """A surrogate with something of everything in its past."""
    s = Surrogate(POOL.features, 40, basis_size=12, random_state=3, dtype=dtype, method=method, **options)
    s.tell([50, 51], POOL.labels[50:52])
    s.anchor(POOL.probs, [0, 1, 50])
    s.rehearse(POOL.labels, 9)
    s.ask(3)
    free = [row for row in range(60) if s.parts.ledger.is_askable(row)]
    s.tell(free[0], 3).skip(free[1]).drop(free[2])
    s.ask()
    return s


def played(s: Surrogate, rounds: int = 12) -> list[int]:
    """What it would do next: asks, answers, an undo, a release."""
    picks = []
    for i in range(rounds):
        row = s.ask()
        picks += row.tolist()
        s.tell(row, POOL.labels[row])
        if i == 4:
            s.undo(2)
        if i == 6:
            s.release(list(s.parts.ledger.pending)[:1])
    return picks


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_picks_after_loading_are_the_same(method: Method, dtype: str, tmp_path: Path) -> None:
    s = lived(dtype, method)
    np.savez(tmp_path / "state.npz", **s.state_dict())  # type: ignore[arg-type]
    with np.load(tmp_path / "state.npz", allow_pickle=False) as saved:
        restored = Surrogate.restore(POOL.features, saved)
        made = Surrogate(POOL.features, 40, basis_size=12, dtype=dtype, method=method).load_state_dict(saved)
    assert repr(restored) == repr(s) == repr(made)
    for other in (restored, made):
        for name in ("mean", "variance", "influence", "uncertainty", "utility"):
            # Not to the last bit: products may round by where in memory their arrays begin.
            rounding = 1e-6 if dtype == "float32" else 1e-12
            np.testing.assert_allclose(getattr(other, name), getattr(s, name), rtol=rounding, err_msg=name)
    picks = played(s)
    assert played(restored) == picks
    assert played(made) == picks
    assert s.accuracy == restored.accuracy


@pytest.mark.parametrize("method", METHODS)
def test_deferred_means_go_on_where_they_were(method: Method) -> None:
    s = lived("float64", method)
    restored = Surrogate.restore(POOL.features, s.state_dict())
    assert s.parts.rows.turn() > 0
    assert restored.parts.rows.turn() == s.parts.rows.turn()
    played(s)
    played(restored)
    for theirs, ours in zip(blocks_of(restored), blocks_of(s), strict=True):
        np.testing.assert_allclose(theirs.means.Z, ours.means.Z, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_saving_is_no_event(method: Method) -> None:
    s, untouched = lived("float64", method), lived("float64", method)
    s.state_dict()
    assert played(s) == played(untouched)


@pytest.mark.parametrize("method", METHODS)
def test_a_state_from_before_the_first_question(method: Method) -> None:
    s = Surrogate(POOL.features, 40, basis_size=12, method=method)
    restored = Surrogate.restore(POOL.features, s.state_dict())
    assert played(restored) == played(s)


@pytest.mark.parametrize("method", METHODS)
def test_classes_and_rows_added_meanwhile_are_restored(method: Method) -> None:
    s = lived("float64", method)
    s.add_class().tell([int(s.parts.ledger.askable_mask().argmax())], [40])
    more = make_pool(3, 41, seed=5)
    s.extend(more.features, more.probs)
    features = np.vstack([POOL.features, more.features])
    restored = Surrogate.restore(features, s.state_dict())
    assert restored.n_classes == 41
    assert len(restored) == 63
    np.testing.assert_allclose(restored.utility, s.utility, rtol=1e-12)
    later = make_pool(63, 41, seed=6)
    for each in (s, restored):
        each.anchor(later.probs, [0, 1])
    if s.parts.kernel.V is not None:
        assert restored.parts.kernel.V is not None
        assert torch.equal(restored.parts.kernel.V, s.parts.kernel.V)  # drawn anew for 41 classes, from the same stream
    np.testing.assert_allclose(restored.utility, s.utility, rtol=1e-12)
    literal = literal_of(restored, features, Pool(features, later.probs, later.labels, 41).probs)
    assert (
        relative_error(
            restored.influence[~np.isnan(restored.influence)],
            literal.influence_by_formula()[~np.isnan(restored.influence)],
        )
        < 1e-9
    )


def test_a_basis_of_ones_own_is_kept_when_classes_are_added() -> None:
    basis = (POOL.features[:5], POOL.probs[:5])
    s = Surrogate(POOL.features, 40, basis=basis, method="paper").anchor(POOL.probs, [0])
    restored = Surrogate.restore(POOL.features, s.state_dict())
    later = make_pool(60, 41, seed=6)
    restored.add_class().anchor(later.probs, [0])
    assert restored.parts.kernel.V is not None
    np.testing.assert_allclose(restored.parts.kernel.V[:, :40], POOL.probs[:5])
    assert (restored.parts.kernel.V[:, 40] == 0).all()
    restored.anchor(later.probs, [0], features=POOL.features + 1)  # these bring a basis of their own
    restored.add_class().anchor(make_pool(60, 42, seed=7).probs, [0])
    assert (restored.parts.kernel.V[:, 41] > 0).any()


@pytest.mark.parametrize("method", METHODS)
def test_the_state_of_another_pool_is_refused(method: Method) -> None:
    s = lived(method=method)
    saved = s.state_dict()
    other = Surrogate(POOL.features + 1, 40, basis_size=12, method=method)
    with pytest.raises(UnderstudyError, match="this state belongs to another pool"):
        other.load_state_dict(saved)
    assert not other.parts.ledger.answers
    with pytest.raises(UnderstudyError, match="this state belongs to another pool"):
        Surrogate.restore(POOL.features[::-1], saved)


def test_other_options_and_formats_are_refused_by_name() -> None:
    paper, own = lived(method="paper").state_dict(), lived().state_dict()
    with pytest.raises(UnderstudyError, match="saved with link='softmax', but the surrogate has 'simplex'"):
        Surrogate(POOL.features, 40, basis_size=12, link="simplex", method="paper").load_state_dict(paper)
    with pytest.raises(UnderstudyError, match=r"saved with bias=0.01, but the surrogate has None"):
        Surrogate(POOL.features, 40, basis_size=12, bias=None).load_state_dict(own)
    with pytest.raises(UnderstudyError, match="saved with method='paper', but the surrogate has 'understudy'"):
        Surrogate(POOL.features, 40, basis_size=12).load_state_dict(paper)
    with pytest.raises(UnderstudyError, match="this state has format 99, but this version reads only 1, 2; load"):
        Surrogate.restore(POOL.features, own | {"format": np.array(99)})
    for name in ("option_method", "option_bias", "U", "R"):
        cut = {key: value for key, value in own.items() if key != name}
        with pytest.raises(UnderstudyError, match=f"incomplete: {name} missing"):
            Surrogate.restore(POOL.features, cut)


@pytest.mark.parametrize(
    "options",
    [
        {
            "method": "paper", "width": 0.7, "output_width": 2.0, "noise": 1e-6, "mode": "lookahead", "link": "logit",
            "old_targets": "residual", "exclude_self": True, "accuracy_of": "surrogate", "dtype": "float64",
            "mean_tolerance": 0.0, "lookahead_candidates": 7,
        },
        {
            "width": 0.7, "noise": 1e-3, "mode": "influence", "weighting": "even", "doubt": "standing", "floor": 0.1,
            "bias": None, "exclude_self": True, "dtype": "float64", "mean_tolerance": 0.0,
        },
        {"explained": 0.7, "bias": 0.5},
        {},
    ],
)  # fmt: skip
def test_options_survive(options: dict[str, Any]) -> None:
    s = Surrogate(POOL.features, 40, basis_size=12, **options)
    restored = Surrogate.restore(POOL.features, s.state_dict())
    assert restored.options == s.options
    for name, value in options.items():
        assert getattr(restored.options, name) == value
    assert restored.parts.kernel.input_bandwidth == s.parts.kernel.input_bandwidth


def test_a_mean_row_and_weights_that_were_set_at_the_anchor_are_kept() -> None:
    """Rows that joined or left since have no part in the one, and a class that was added none in the others."""
    s = lived("float64").drop([40, 41])
    more = make_pool(5, 40, seed=5)
    s.extend(more.features, more.probs).add_class()
    features = np.vstack([POOL.features, more.features])
    for whole in (False, True):
        restored = Surrogate.restore(features, s.state_dict(whole))
        assert restored.parts.engine is not None
        assert s.parts.engine is not None
        np.testing.assert_array_equal(restored.parts.engine.middle, s.parts.engine.middle)
        np.testing.assert_array_equal(column(restored, "stats")[:, 3], column(s, "stats")[:, 3])
        s.rebuild()
        restored.rebuild()
        np.testing.assert_allclose(restored.utility, s.utility, rtol=1e-9)


@pytest.mark.parametrize("whole", [False, True])
def test_a_state_of_the_version_before_goes_on_with_the_papers_method(whole: bool) -> None:
    """The file holds the pool, what that version saved of it, and what it then asked for."""
    with np.load(BEFORE) as kept:
        saved = {name: kept[name] for name in kept if not name.startswith("test_")}
        X, P, y, picks, after, tally, mean = (
            kept[f"test_{name}"] for name in ("features", "probs", "labels", "picks", "picks_after", "tally", "mean")
        )
    assert int(saved["format"]) == 1
    if not whole:
        saved = {name: value for name, value in saved.items() if name not in ("W", "stats", "of_features")}
    s = Surrogate.restore(X, saved)
    options = s.options
    assert (options.method, options.width, options.link, options.noise) == ("paper", 0.7, "logit", 1e-3)
    given: dict[str, Any] = {"basis_size": 12, "dtype": "float64", "width": 0.7, "link": "logit", "noise": 1e-3}
    made = Surrogate(X, 4, method="paper", **given).load_state_dict(saved)
    for each in (s, made, Surrogate.restore(X, s.state_dict(whole))):
        found: list[int] = []
        for turn in range(12):
            row = each.ask()
            found += row.tolist()
            each.tell(row, y[row])
            if turn == 5:
                each.undo(2)
        assert found == picks.tolist()
        each.anchor(P[::-1], [0, 1, 2, *found[:4]])
        assert each.ask(4).tolist() == after.tolist()
        assert each.tally == tuple(tally)
        np.testing.assert_allclose(each.mean, mean, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_answers_that_were_judged_elsewhere_count_and_are_kept(method: Method) -> None:
    s = Surrogate(POOL.features, 40, basis_size=12, method=method).anchor(POOL.probs, [0, 1])
    assert s.tally == (0, 0)
    s.credit(3, 4)
    assert (s.tally, s.accuracy) == ((3, 4), 0.75)
    rows = s.rehearse(POOL.labels, 6)
    right = int((POOL.probs[rows].argmax(1) == POOL.labels[rows]).sum())
    assert s.tally == (3 + right, 10)
    restored = Surrogate.restore(POOL.features, s.state_dict())
    assert restored.tally == s.tally
    assert played(restored) == played(s)
    older = {name: value for name, value in s.state_dict().items() if name != "credit"}  # of a version before
    assert Surrogate.restore(POOL.features, older).tally[1] == s.tally[1] - 4


def test_credit_decides_how_much_influence_counts_at_once() -> None:
    given = {"basis_size": 12, "method": "paper"}
    sure, unsure = (Surrogate(POOL.features, 40, **given).anchor(POOL.probs, [0, 1]) for _ in range(2))  # type: ignore[arg-type]
    sure.credit(9, 10)
    assert not np.allclose(sure.utility, unsure.credit(1, 10).utility)
    np.testing.assert_array_equal(sure.utility, unsure.credit(9, 10).utility)
    before = Surrogate(POOL.features, 40, **given).credit(9, 10).anchor(POOL.probs, [0, 1])  # type: ignore[arg-type]
    np.testing.assert_array_equal(before.utility, sure.utility)  # though it was not yet at work then


def test_credit_plays_no_part_in_a_product() -> None:
    s = Surrogate(POOL.features, 40, basis_size=12).anchor(POOL.probs, [0, 1])
    before = s.utility
    np.testing.assert_array_equal(s.credit(9, 10).utility, before)
    assert s.accuracy == 0.9


@pytest.mark.parametrize(("right", "judged"), [(2, 1), (-1, 1), (0.5, 1)])
def test_nobody_was_right_more_often_than_judged(right: Any, judged: Any) -> None:
    with pytest.raises(UnderstudyError):
        Surrogate(POOL.features, 40, basis_size=12).credit(right, judged)


@pytest.mark.parametrize("method", METHODS)
def test_a_whole_state_is_mapped_from_files_and_the_picks_are_the_same(method: Method, tmp_path: Path) -> None:
    s = lived(method=method)
    for name, value in s.state_dict(whole=True).items():
        np.save(tmp_path / f"{name}.npy", value)
    mapped = {path.stem: np.load(path, mmap_mode="c" if path.stem == "W" else None) for path in tmp_path.glob("*.npy")}
    restored = Surrogate.restore(POOL.features, mapped, check=False)
    if lies_here(restored):
        assert blocks_of(restored)[0].W.data_ptr() == mapped["W"].ctypes.data
    assert repr(restored) == repr(s)
    np.testing.assert_array_equal(column(restored, "W").numpy(), column(s, "W").numpy())
    on_disk = (tmp_path / "W.npy").read_bytes()
    assert played(restored) == played(s)
    restored.anchor(POOL.probs[::-1], [3])
    assert (tmp_path / "W.npy").read_bytes() == on_disk  # what is mapped is this surrogate's own


@pytest.mark.parametrize("method", METHODS)
def test_a_whole_state_in_memory_is_not_written_to(method: Method) -> None:
    saved = lived(method=method).state_dict(whole=True)
    kept = {name: value.copy() for name, value in saved.items()}
    restored = Surrogate.restore(POOL.features, saved)
    played(restored)
    restored.anchor(POOL.probs[::-1], [3])
    for name, value in kept.items():
        np.testing.assert_array_equal(saved[name], value, err_msg=name)


@pytest.mark.parametrize("method", METHODS)
def test_a_state_before_the_first_anchor_grows_by_a_ledger_and_a_class(method: Method) -> None:
    """What a labelling project does: the set-up once, then ledgers and predictions laid over it."""
    setup = Surrogate(POOL.features, 39, basis_size=12, random_state=3, method=method).state_dict()
    ledger = lived(method=method).state_dict()
    names = [
        name for name in setup if name.startswith(("answered_", "is_skipped", "is_dropped", "pending", "is_trained"))
    ]
    made = Surrogate.restore(POOL.features, setup | {name: ledger[name] for name in names}).add_class()
    made.anchor(POOL.probs, [0, 1, 50])
    plain = lived(method=method).anchor(POOL.probs, [0, 1, 50])
    np.testing.assert_allclose(made.utility, plain.utility, rtol=1e-6)
    assert played(made) == played(plain)
