import shutil
from pathlib import Path

import pytest

from tests.sessions.small_projects import after_a_kill, copied, label_next, opened, require_in_step
from tests.waiting import wait_until
from understudy.errors import Conflict, NotStored
from understudy.sessions.learning import labels_at_next_training
from understudy.sessions.log.events import Event
from understudy.sessions.log.log import EventLog
from understudy.sessions.training.trainer import Failed

OWN = "tests.sessions.own_learners:"


@pytest.fixture(autouse=True)
def own_learners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    monkeypatch.setenv("ASLEEP", str(tmp_path / "asleep"))


def test_the_first_model_comes_at_two_labels_in_two_classes_and_then_by_growth(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one", retrain_growth=1.5, retrain_at_most=200)
    with opened(folder) as session:
        with pytest.raises(Conflict, match="two classes"):
            session.train()
        label_next(session, "ann", "k0", 0)
        label_next(session, "ann", "k1", 0)
        assert not session.learning.is_busy
        assert session.status().training.next_at is None, "a second class is wanting"
        label_next(session, "ann", "k2", 1)
        assert session.status().training.state == "running"
        # Labels, classes and undoing go on meanwhile, of what the model learns from too.
        session.add_class("owl", "ann", "c")
        label_next(session, "ann", "k3", 3)
        learnt = next(iter(session.record.usable))
        session.label(learnt, 2, "ann", "k4")
        bad = list(session.record.usable)[1]
        session.bad(bad, "bob", "k5")
        wait_until(lambda: session.record.trainings)
        wait_until(lambda: not session.learning.is_busy or len(session.record.trainings) > 1)
        first = session.record.trainings[0].data
        assert (first["labels"], first["source"], first["learner"]) == (3, "learner", "quick")
        assert session.record.label_of(learnt) == 2
        require_in_step(session)
        session.undo("bob", "u1")
        session.undo("ann", "u2")
        assert session.record.label_of(learnt) == 0
        require_in_step(session)
        with after_a_kill(session, tmp_path / "two") as again:
            require_in_step(again)
            assert again.next("new").item == session.next("new").item
        assert session.status().training.next_at == 5 or session.learning.is_busy


def test_a_learner_that_fails_stops_nobody_and_is_tried_again(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", learner=f"{OWN}raising", retrain_growth=1.5)) as session:
        label_next(session, "ann", "k0", 0)
        label_next(session, "ann", "k1", 1)
        wait_until(lambda: session.record.failures)
        wait_until(lambda: not session.learning.is_busy)
        status = session.status().training
        assert (status.state, status.next_at) == ("failed", 3)
        assert status.reason is not None
        assert "stumbled" in status.reason
        assert session.progress().failures == [status.reason]
        label_next(session, "ann", "k2", 1)
        assert session.status().training.state == "running"
        wait_until(lambda: len(session.record.failures) == 2)
        require_in_step(session)


def test_what_comes_after_the_end_is_ignored_and_what_was_cut_short_is_done_later(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", learner=f"{OWN}sleeping")) as session:
        label_next(session, "ann", "k0", 0)
        label_next(session, "ann", "k1", 1)
        job = session.learning.trainer.running
        assert job is not None
        with after_a_kill(session, tmp_path / "two") as again:
            assert again.status().training.state == "running", "the training that was cut short begins anew"
    assert not session.learning.trainer.running
    seq = session.record.seq
    session.learning.training_ended(Failed(job, "too late"))
    assert session.record.seq == seq
    assert not session.record.failures


def test_a_model_that_cannot_be_used_is_a_failure_and_no_more(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one")) as session:
        shutil.rmtree(session.project.artifacts)
        session.project.artifacts.write_text("in the way")
        label_next(session, "ann", "k0", 0)
        label_next(session, "ann", "k1", 1)
        wait_until(lambda: session.record.failures)
        assert label_next(session, "ann", "k2", 1).item is not None
        wait_until(lambda: not session.learning.is_busy)
        require_in_step(session)


def test_a_model_that_was_stored_though_nobody_could_say_so_is_used_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(copied(tmp_path / "one")) as session:
        append = EventLog.append

        def lost_on_the_way_back(log: EventLog, *events: Event) -> list[Event]:
            stored = append(log, *events)
            if stored[0].kind in ("trained", "training_failed"):
                raise NotStored("the database cannot be reached; whether it was stored will be seen then")
            return stored

        monkeypatch.setattr(EventLog, "append", lost_on_the_way_back)
        label_next(session, "ann", "k0", 0)
        label_next(session, "ann", "k1", 1)
        wait_until(lambda: session.record.failures)
        wait_until(lambda: not session.learning.is_busy)
        monkeypatch.undo()
        assert session.models.version is None
        label_next(session, "ann", "k2", 1)
        assert session.models.version is not None
        assert session.progress().curve[0].labels == 2
        require_in_step(session)
        with after_a_kill(session, tmp_path / "two") as again:
            assert again.next("new").item == session.next("new").item


@pytest.mark.parametrize(
    ("now", "classes", "last", "expected"),
    [
        (0, 0, None, 2),
        (1, 1, None, 2),
        (5, 1, None, None),
        (2, 2, None, 2),
        (9, 2, None, 2),
        (2, 2, 2, 3),
        (3, 2, 3, 5),
        (7, 2, 5, 8),
        (399, 3, 399, 599),
        (400, 3, 400, 600),
        (401, 3, 401, 601),
        (1000, 3, 1000, 1200),
        (0, 0, 0, 2),
        (1, 1, 4, 6),
    ],
)
def test_the_next_training_is_due(now: int, classes: int, last: int | None, expected: int | None) -> None:
    assert labels_at_next_training(now, classes, last, growth=1.5, at_most=200) == expected


def test_with_hardly_any_growth_a_training_still_waits_for_a_label() -> None:
    assert labels_at_next_training(10, 2, 10, growth=1.01, at_most=200) == 11
    assert labels_at_next_training(10, 2, 10, growth=3.0, at_most=1) == 11
