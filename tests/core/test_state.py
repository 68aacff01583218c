from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.literal import literal_of
from tests.pools import Pool, make_pool, relative_error
from understudy import Surrogate, UnderstudyError

POOL = make_pool(60, 40, seed=1)  # classes enough to defer means


def lived(dtype: str = "float32", **options: object) -> Surrogate:
    """A surrogate with something of everything in its past."""
    s = Surrogate(POOL.features, 40, basis_size=12, random_state=3, dtype=dtype, **options)  # type: ignore[arg-type]
    s.tell([50, 51], POOL.labels[50:52])
    s.anchor(POOL.probs, [0, 1, 50])
    s.rehearse(POOL.labels, 9)
    s.ask(3)
    free = [row for row in range(60) if s._ledger.is_askable(row)]
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
            s.release(list(s._ledger.pending)[:1])
    return picks


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_picks_after_loading_are_the_same(dtype: str, tmp_path: Path) -> None:
    s = lived(dtype)
    np.savez(tmp_path / "state.npz", **s.state_dict())  # type: ignore[arg-type]
    with np.load(tmp_path / "state.npz", allow_pickle=False) as saved:
        restored = Surrogate.restore(POOL.features, saved)
        made = Surrogate(POOL.features, 40, basis_size=12, dtype=dtype).load_state_dict(saved)  # type: ignore[arg-type]
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


def test_deferred_means_go_on_where_they_were() -> None:
    s = lived("float64")
    restored = Surrogate.restore(POOL.features, s.state_dict())
    assert s._rows.means.turn > 0
    assert restored._rows.means.turn == s._rows.means.turn
    played(s)
    played(restored)
    np.testing.assert_allclose(restored._rows.means.Z, s._rows.means.Z, atol=1e-12)


def test_saving_is_no_event() -> None:
    s, untouched = lived("float64"), lived("float64")
    s.state_dict()
    assert played(s) == played(untouched)


def test_a_state_from_before_the_first_question() -> None:
    s = Surrogate(POOL.features, 40, basis_size=12)
    restored = Surrogate.restore(POOL.features, s.state_dict())
    assert played(restored) == played(s)


def test_classes_and_rows_added_meanwhile_are_restored() -> None:
    s = lived("float64")
    s.add_class().tell([int(s._ledger.askable_mask().argmax())], [40])
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
    assert torch.equal(restored._kernel.V, s._kernel.V)  # drawn anew for 41 classes, from the same stream
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
    s = Surrogate(POOL.features, 40, basis=basis).anchor(POOL.probs, [0])
    restored = Surrogate.restore(POOL.features, s.state_dict())
    later = make_pool(60, 41, seed=6)
    restored.add_class().anchor(later.probs, [0])
    np.testing.assert_allclose(restored._kernel.V[:, :40], POOL.probs[:5])
    assert (restored._kernel.V[:, 40] == 0).all()
    restored.anchor(later.probs, [0], features=POOL.features + 1)  # these bring a basis of their own
    restored.add_class().anchor(make_pool(60, 42, seed=7).probs, [0])
    assert (restored._kernel.V[:, 41] > 0).any()


def test_the_state_of_another_pool_is_refused() -> None:
    s = lived()
    saved = s.state_dict()
    other = Surrogate(POOL.features + 1, 40, basis_size=12)
    with pytest.raises(UnderstudyError, match="this state is of another pool"):
        other.load_state_dict(saved)
    assert not other._ledger.answers
    with pytest.raises(UnderstudyError, match="this state is of another pool"):
        Surrogate.restore(POOL.features[::-1], saved)


def test_other_options_and_formats_are_refused_by_name() -> None:
    saved = lived().state_dict()
    with pytest.raises(UnderstudyError, match="saved with link='softmax', the surrogate has 'simplex'"):
        Surrogate(POOL.features, 40, basis_size=12, link="simplex").load_state_dict(saved)
    with pytest.raises(UnderstudyError, match="this state has format 99, this version reads 1"):
        Surrogate.restore(POOL.features, saved | {"format": np.array(99)})


def test_options_survive() -> None:
    s = Surrogate(
        POOL.features, 40, basis_size=12, width=0.7, output_width=2.0, noise=1e-6, mode="lookahead", link="logit",
        old_targets="residual", exclude_self=True, accuracy_of="surrogate", dtype="float64", mean_tolerance=0.0,
        lookahead_candidates=7,
    )  # fmt: skip
    restored = Surrogate.restore(POOL.features, s.state_dict())
    assert restored._settings == s._settings
    assert (restored.width, restored.output_width, restored.noise) == (0.7, 2.0, 1e-6)
    assert restored.old_targets == "residual"


def test_answers_that_were_judged_elsewhere_count_and_are_kept() -> None:
    s = Surrogate(POOL.features, 40, basis_size=12).anchor(POOL.probs, [0, 1])
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
    sure, unsure = (Surrogate(POOL.features, 40, basis_size=12).anchor(POOL.probs, [0, 1]) for _ in range(2))
    sure.credit(9, 10)
    assert not np.allclose(sure.utility, unsure.credit(1, 10).utility)
    np.testing.assert_array_equal(sure.utility, unsure.credit(9, 10).utility)
    before = Surrogate(POOL.features, 40, basis_size=12).credit(9, 10).anchor(POOL.probs, [0, 1])  # not yet at work
    np.testing.assert_array_equal(before.utility, sure.utility)


@pytest.mark.parametrize(("right", "judged"), [(2, 1), (-1, 1), (0.5, 1)])
def test_nobody_was_right_more_often_than_judged(right: Any, judged: Any) -> None:
    with pytest.raises(UnderstudyError):
        Surrogate(POOL.features, 40, basis_size=12).credit(right, judged)


def test_a_whole_state_is_mapped_from_files_and_the_picks_are_the_same(tmp_path: Path) -> None:
    s = lived()
    for name, value in s.state_dict(whole=True).items():
        np.save(tmp_path / f"{name}.npy", value)
    mapped = {path.stem: np.load(path, mmap_mode="c" if path.stem == "W" else None) for path in tmp_path.glob("*.npy")}
    restored = Surrogate.restore(POOL.features, mapped, check=False)
    assert restored._rows.W.data_ptr() == mapped["W"].ctypes.data
    assert repr(restored) == repr(s)
    np.testing.assert_array_equal(restored._rows.W.numpy(), s._rows.W.numpy())
    on_disk = (tmp_path / "W.npy").read_bytes()
    assert played(restored) == played(s)
    restored.anchor(POOL.probs[::-1], [3])
    assert (tmp_path / "W.npy").read_bytes() == on_disk  # what is mapped is this surrogate's own


def test_a_whole_state_in_memory_is_not_written_to() -> None:
    saved = lived().state_dict(whole=True)
    kept = {name: value.copy() for name, value in saved.items()}
    restored = Surrogate.restore(POOL.features, saved)
    played(restored)
    restored.anchor(POOL.probs[::-1], [3])
    for name, value in kept.items():
        np.testing.assert_array_equal(saved[name], value, err_msg=name)


def test_a_state_before_the_first_anchor_grows_by_a_ledger_and_a_class() -> None:
    """What a labelling project does: the set-up once, then ledgers and predictions laid over it."""
    setup = Surrogate(POOL.features, 39, basis_size=12, random_state=3).state_dict()
    ledger = lived().state_dict()
    names = [
        name for name in setup if name.startswith(("answered_", "is_skipped", "is_dropped", "pending", "is_trained"))
    ]
    made = Surrogate.restore(POOL.features, setup | {name: ledger[name] for name in names}).add_class()
    made.anchor(POOL.probs, [0, 1, 50])
    plain = lived().anchor(POOL.probs, [0, 1, 50])
    np.testing.assert_allclose(made.utility, plain.utility, rtol=1e-6)
    assert played(made) == played(plain)
