"""Classes that are merged, removed and renamed while people label: surrogate, model and exports follow."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from tests.sessions.small_projects import after_a_kill, copied, label_next, opened, require_alike, require_in_step
from tests.waiting import wait_until
from understudy.core.surrogate import Surrogate
from understudy.errors import Conflict, NotFound
from understudy.labels.formats import format_named
from understudy.sessions.calibrations import audit_labels
from understudy.sessions.label_rows import collect_labels
from understudy.sessions.session import Session
from understudy.sessions.training.artifacts import Artifacts
from understudy.sessions.training.training_job import SETUP, make_anchor


def label_some(session: Session, count: int, person: str = "ann", first: str = "k") -> None:
    for turn in range(count):
        label_next(session, person, f"{first}{turn}", turn % 3)


def fresh_surrogate(session: Session) -> Surrogate:
    """One that is made of the model's predictions and told the labels as they are now."""
    record, models = session.record, session.models
    last = models.artifacts.predictions(record.trainings[-1].data["predictions"])
    trained = {
        row: record.class_table.becomes[label]
        for row, label in zip(last.trained_on.tolist(), last.labels.tolist(), strict=True)
    }
    known = [row for row, label in trained.items() if label is not None and record.label_of(row) == label]
    probs = np.pad(last.probs, ((0, 0), (0, len(record.classes) - last.probs.shape[1])))
    state = make_anchor(
        session.project.features, session.project.work / SETUP, record.to_ledger(), len(record.classes),
        record.class_table.project(probs), np.array(sorted(known), np.int64),
    )  # fmt: skip
    return Surrogate.restore(session.project.features, state, check=False)


def exported(session: Session, form: str = "csv") -> list[dict[str, str]]:
    data = collect_labels(session.record, session.project.pool, Artifacts(session.project.artifacts))
    text = b"".join(format_named(form).write(data)).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text)))


def columns(row: dict[str, str]) -> list[str]:
    return [name.removeprefix("p_") for name in row if name.startswith("p_")]


def test_the_surrogate_is_one_that_was_told_the_labels_as_they_are_now(tmp_path: Path) -> None:
    with opened(copied(tmp_path, taught=6)) as session:
        label_some(session, 9)
        before = dict(session.record.effective)
        session.merge_class(2, 1, "bob", "m")
        assert session.record.effective == {item: 1 if label == 2 else label for item, label in before.items()}
        require_alike(session.learning.chooser.surrogate, fresh_surrogate(session))
        label_some(session, 3, first="after")
        require_alike(session.learning.chooser.surrogate, fresh_surrogate(session))
        session.remove_class(0, "bob", "r")
        require_alike(session.learning.chooser.surrogate, fresh_surrogate(session))
        assert session.models.probs is not None
        np.testing.assert_allclose(session.models.probs, np.eye(3)[[1] * len(session.models.probs)], atol=1e-6)
        for change in session.classes().changes:
            session.undo_class_change(change.seq, "ann", f"u{change.seq}")
        assert {item: session.record.effective[item] for item in before} == before
        require_in_step(session)


def test_after_a_restart_the_classes_and_the_next_item_are_the_same(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=6)) as session:
        label_some(session, 6)
        session.change_class(0, {"name": "Katze", "colour": "#102030", "shortcut": "q"}, "ann", "n")
        session.merge_class(2, 1, "bob", "m")
        session.order_classes([1, 0], "bob", "o")
        session.remove_class(0, "bob", "r")
        session.undo("bob", "u")
        label_next(session, "ann", "last", 0)
        session.release("ann")
        ahead = session.learning.chooser.surrogate.leaders(3).tolist()
        with after_a_kill(session, tmp_path / "two") as follower:
            assert follower.classes() == session.classes()
            assert follower.record.effective == session.record.effective
            assert follower.learning.chooser.surrogate.leaders(3).tolist() == ahead
            require_alike(session.learning.chooser.surrogate, follower.learning.chooser.surrogate)
            assert follower.status().class_order == [1, 0]


def test_the_next_training_knows_the_classes_alive_and_a_merge_meanwhile_is_followed(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=6)) as session:
        label_some(session, 9)
        session.remove_class(0, "ann", "r")
        with session.lock:
            session.train()
            session.merge_class(2, 1, "bob", "m")  # while the model is being trained
        wait_until(lambda: not session.learning.is_busy)
        training = session.record.trainings[-1].data
        assert training["outputs"] == [1, 2]
        assert session.models.probs is not None
        np.testing.assert_allclose(session.models.probs[:, 1], 1.0, rtol=1e-6)
        require_alike(session.learning.chooser.surrogate, fresh_surrogate(session))
        [merged] = [change.seq for change in session.classes().changes if "merged" in change.line]
        session.undo_class_change(merged, "ann", "u")
        assert session.models.probs[:, 0].max() == 0 < session.models.probs[:, 2].max() < 1
        with after_a_kill(session, tmp_path / "two", without=("work",)) as follower:
            require_alike(session.learning.chooser.surrogate, follower.learning.chooser.surrogate)


def test_audit_items_of_merged_classes_measure_the_model_as_one(tmp_path: Path) -> None:
    with opened(copied(tmp_path, taught=6)) as session:
        session.change_settings({"audit_share": 0.5}, "ann", "s")
        guesses = session.models.guesses[-1]
        assert guesses is not None
        asked = 0
        while asked < 8:
            question = session.next("ann")
            assert question.item is not None
            asked += question.ask == "audit"
            label = 1 - guesses[question.item] if question.ask == "audit" else 0
            session.label(question.item, label, "ann", f"k{question.item}")
        right, audited = session.models.right_on(audit_labels(session.record)) or (0, 0)
        assert right < audited / 2
        session.merge_class(0, 1, "ann", "m")
        assert session.models.right_on(audit_labels(session.record)) == (audited, audited)
        assert (session.status().accuracy, session.calibration().audited) == (1.0, audited)


def test_exports_have_the_names_of_today(tmp_path: Path) -> None:
    with opened(copied(tmp_path, taught=6)) as session:
        label_some(session, 6)
        session.change_class(0, {"name": "Katze"}, "ann", "n")
        session.merge_class(2, 1, "ann", "m")
        session.order_classes([1, 0], "ann", "o")
        rows = exported(session)
        assert {row["label"] for row in rows} == {"Katze", "dog"}
        predicted = exported(session, "predictions-csv")
        assert columns(predicted[0]) == ["Katze", "dog"]
        sums = [float(row["p_Katze"]) + float(row["p_dog"]) for row in predicted]
        np.testing.assert_allclose(sums, 1.0, atol=1e-5)
        before = len(rows)
        session.remove_class(0, "ann", "r")
        assert {row["label"] for row in exported(session)} == {"dog"}
        assert len(exported(session)) < before
        assert columns(exported(session, "predictions-csv")[0]) == ["dog"]


def test_a_page_that_has_not_heard_of_it_may_use_a_merged_class_but_not_a_removed_one(tmp_path: Path) -> None:
    with opened(copied(tmp_path)) as session:
        session.merge_class(2, 1, "ann", "m")
        session.label(0, 2, "bob", "k0")
        assert session.record.label_of(0) == 1
        session.label(1, 0, "bob", "k1")
        session.remove_class(0, "ann", "r")
        with pytest.raises(Conflict, match="the class 'cat' was removed; choose another"):
            session.label(3, 0, "bob", "k3")
        assert session.label(1, 0, "bob", "k1").repeated, "the answer to a call of before got lost"
        with pytest.raises(NotFound, match="no class 0"):
            session.likely(0)


def test_a_call_that_is_sent_again_is_one_change(tmp_path: Path) -> None:
    with opened(copied(tmp_path)) as session:
        first = session.merge_class(2, 1, "ann", "m")
        assert session.merge_class(2, 1, "ann", "m") == first
        with pytest.raises(Conflict, match="used for something else"):
            session.merge_class(0, 1, "ann", "m")
        undone = session.undo_class_change(first.changes[0].seq, "bob", "u")
        assert session.undo_class_change(first.changes[0].seq, "bob", "u") == undone
        with pytest.raises(Conflict, match="taken back already"):
            session.undo_class_change(first.changes[0].seq, "bob", "v")
        assert [shown.gone for shown in undone.classes] == [None] * 3


def test_a_class_that_is_hidden_is_neither_offered_nor_suggested_and_its_labels_count(tmp_path: Path) -> None:
    with opened(copied(tmp_path, taught=6)) as session:
        counts = session.status().class_counts
        session.change_class(0, {"hidden": True}, "ann", "h0")
        session.change_class(1, {"hidden": True}, "ann", "h1")
        assert session.status().class_order == [2]
        assert session.status().class_counts == counts
        assert session.next("ann").suggestion is None
        session.change_class(0, {"hidden": False}, "ann", "s0")
        session.change_class(1, {"hidden": False}, "ann", "s1")
        session.release("ann")
        assert session.next("ann").suggestion in (0, 1)


def test_undoing_the_label_that_made_a_class_asks_for_the_item_again(tmp_path: Path) -> None:
    with opened(copied(tmp_path)) as session:
        item = session.next("ann").item
        assert item is not None
        session.add_class("owl", "ann", "c", item=item)
        session.label(item, 3, "ann", "k")
        undone = session.undo("ann", "u")
        assert (undone.what, undone.next.item) == ("labelled", item)
        assert session.status().class_order == [0, 1, 2]
        session.add_class("owl", "bob", "again")
        assert session.status().class_order == [0, 1, 2, 4]
        session.label(item, 4, "ann", "k2")
        require_in_step(session)
