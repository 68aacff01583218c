from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.sessions.small_projects import copied, label_next, opened, require_alike
from tests.waiting import wait_until
from understudy.core.options import METHODS
from understudy.errors import NotFound
from understudy.sessions.models import best_influence
from understudy.sessions.session import Session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(copied(tmp_path / "one", taught=2)) as session:
        yield session


def test_before_the_first_model_there_is_nothing_to_say(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one")) as session:
        models = session.models
        assert (models.version, models.guess(0), models.right_on({0: 1})) == (None, None, None)
        with pytest.raises(NotFound, match="no model yet"):
            models.predictions()


def test_a_model_predicts_the_pool_as_it_is_now(session: Session) -> None:
    models = session.models
    probs = models.predictions()
    assert probs.shape == (40, 3)
    known = session.record.usable
    assert len(known) == 2
    for item in range(40):
        assert models.guess(item) == (None if item in known else probs[item].argmax()), "what it has learnt is no guess"
    assert models.guess(40) is None
    session.add_class("owl", "ann", "c")
    assert models.predictions().shape == (40, 4)
    np.testing.assert_array_equal(models.predictions()[:, 3], 0)
    predicted = models.predict(session.project.features[10:15])
    rows = models.rows_for(predicted, 5, 4)
    assert rows is not None
    np.testing.assert_allclose(rows, models.predictions()[10:15], rtol=1e-5)


def test_models_are_scored_on_the_same_items(session: Session) -> None:
    rows = session.record.audit_rows
    truth = {row: session.models.guess(row) or 0 for row in rows}
    assert session.models.right_on(truth) == (len(rows), len(rows))
    for item in [item for item in range(40) if session.record.state_of(item)[0] == "open"][:6]:
        session.label(item, item % 3, "ann", f"k{item}")
    session.train()
    wait_until(lambda: len(session.record.trainings) == 2)
    wait_until(lambda: not session.learning.is_busy)
    assert session.models.right_on(truth, 0) == (len(rows), len(rows))
    change = session.models.change_on(truth, 0, 1)
    assert change is not None
    assert change.gained == 0
    right = session.models.right_on(truth)
    assert right is not None
    assert change.lost == len(rows) - right[0]
    assert session.progress().curve[1].labels == 8
    for path in session.project.artifacts.iterdir():
        if session.record.trainings[0].data["predictions"] in path.name:
            path.unlink()
    session.models.reload(session.models.ledger)
    assert session.models.right_on(truth, 0) is None
    assert session.models.change_on(truth, 0, 1) is None
    assert session.progress().curve[0].accuracy is None


def test_items_that_came_after_a_model_are_no_part_of_its_score(session: Session) -> None:
    rows = session.record.audit_rows
    truth = {row: session.models.guess(row) or 0 for row in rows}
    assert session.models.right_on({**truth, 1000: 0}) == (len(rows), len(rows))
    session.models.guesses.append({row: truth[row] for row in rows[1:]})
    change = session.models.change_on({**truth, 1000: 0}, 0, 1)
    assert change is not None
    assert (change.gained, change.lost, change.n) == (0, 0, len(rows) - 1)


def test_a_surrogate_made_in_one_go_is_that_which_followed_every_move(session: Session, tmp_path: Path) -> None:
    for turn in range(12):
        label_next(session, "ann", f"k{turn}", turn % 3)
    session.skip(session.next("bob").item or 0, "bob", "skip")
    session.next("cy")
    with session.lock:
        require_alike(session.learning.chooser.surrogate, session.models.surrogate_now())
    for method in METHODS:
        with opened(copied(tmp_path / method, taught=2, method=method)) as other:
            label_next(other, "ann", "k", 1)
            taught = next(iter(other.record.usable))
            other.bad(taught, "ann", "bad")  # the model has learnt it, and it is no item any more
            with other.lock:
                require_alike(other.learning.chooser.surrogate, other.models.surrogate_now())
    with opened(copied(tmp_path / "untaught")) as other:
        other.label(3, 1, "ann", "k")
        other.next("bob")
        with other.lock:
            require_alike(other.learning.chooser.surrogate, other.models.surrogate_now())


def test_the_best_label_promises_less_as_labels_come(session: Session) -> None:
    surrogate = session.learning.chooser.surrogate
    first = best_influence(surrogate)
    assert session.models.first_influence is not None
    assert first < session.models.first_influence, "while nothing was decided every label promised more"
    surrogate.tell(surrogate.ask(5), [0] * 5)
    assert 0 < best_influence(surrogate) < first
    surrogate.skip(list(range(40)))
    assert best_influence(surrogate) == 0
