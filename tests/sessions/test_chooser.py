import tempfile
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.sessions.small_projects import copied, opened, require_in_step, stored_events
from understudy.errors import Conflict, UnderstudyError
from understudy.sessions.record import Move, replay_events
from understudy.sessions.session import Session

PEOPLE = ("ann", "bob", "cy")
DEEDS = st.lists(
    st.tuples(
        st.sampled_from(
            ["label", "label", "label", "any", "skip", "dont_know", "bad", "flag", "put_back", "undo", "undo",
             "release", "class", "why", "ahead", "assign"]
        ),
        st.integers(0, 39),
        st.sampled_from(PEOPLE),
        st.integers(0, 2),
    ),
    max_size=25,
)  # fmt: skip


def act(session: Session, place: int, deed: tuple[str, int, str, int]) -> None:
    """Do something of all that people may do."""
    kind, item, who, label = deed
    key = f"k{place}"
    asked = session.next(who).item
    if kind == "label" and asked is not None:
        session.label(asked, label, who, key)
    elif kind == "any":
        session.label(item, label, who, key)
    elif kind == "undo":
        with nullcontext() if session.record.last_decision(who) else pytest.raises(Conflict, match="nothing to undo"):
            session.undo(who, key)
    elif kind == "put_back":
        session.put_back("skipped" if label else "dont_know", who, key)
    elif kind == "release":
        session.release(who)
    elif kind == "class":
        session.add_class(f"class {place}", who, key)
    elif kind == "why":
        session.why(item)
        session.progress()
    elif kind == "ahead":
        session.preview(who)
    elif kind == "assign":
        with suppress(UnderstudyError):  # more than the pool
            session.assign(who, {"share": item / 100, "classes": [label], "quota": 1 + item}, who, key)
    elif kind in ("skip", "dont_know", "bad", "flag"):
        getattr(session, kind)(item if label or asked is None else asked, who, key)


@pytest.mark.parametrize("taught", [0, 2])
@examples(max_examples=15, suppress_health_check=list(HealthCheck))
@given(deeds=DEEDS)
def test_the_surrogate_is_where_the_record_is_whatever_people_do(
    taught: int, deeds: list[tuple[str, int, str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = copied(Path(folder) / "one", taught=taught)
        with opened(made) as session:
            for place, (kind, item, who, label) in enumerate(deeds):
                act(session, place, (kind, item, who, label if taught else 0))  # one class is nothing to train on
            require_in_step(session)
        with opened(made) as again:
            require_in_step(again)
            replay = replay_events(stored_events(again))
            assert [replay.record.state_of(item) for item in range(40)] == [
                again.record.state_of(item) for item in range(40)
            ]
            assert replay.moves == again.learning.since


def test_a_chosen_item_that_is_not_asked_for_is_open_again(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one")) as session:
        chooser = session.learning.chooser
        utilities = chooser.surrogate.utility
        choice = chooser.choose()
        others = chooser.surrogate.askable
        assert choice.item not in others
        assert choice.utility == pytest.approx(utilities[choice.item])
        over_others = np.log(choice.utility) - np.log(utilities[others]).mean()
        assert choice.of_influence + choice.of_uncertainty == pytest.approx(over_others, rel=1e-4)
        chooser.cancel(choice.item)
        assert chooser.choose().item == choice.item


def test_a_surrogate_that_cannot_follow_is_made_again(tmp_path: Path, caplog: Any) -> None:
    with opened(copied(tmp_path / "one", taught=2)) as session:
        first = session.next("ann").item
        assert first is not None
        session.learning.chooser.surrogate.drop([first])  # somebody meddled: a dropped row cannot be told
        stored = session.label(first, 1, "ann", "k")
        assert stored.next.item is not None
        assert "made again from the log" in caplog.text
        require_in_step(session)


def test_moves_without_an_item_add_classes_and_items(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=2)) as session:
        chooser = session.learning.make_chooser()
        n, classes = len(chooser.surrogate), chooser.surrogate.n_classes
        chooser.follow(Move())
        assert chooser.surrogate.n_classes == classes + 1
        features = session.project.features[:3]
        chooser.describe_rows = lambda _, count, n_classes: (
            features, session.models.rows_for(session.models.predict(features), count, n_classes)
        )  # fmt: skip
        chooser.follow(Move(added=3, first=n, audit_rows=(n + 1,)))
        assert len(chooser.surrogate) == n + 3
        assert {n, n + 2} <= set(chooser.surrogate.askable.tolist())
        assert n + 1 not in chooser.surrogate.askable
        chooser.follow(Move(added=3, first=n, audit_rows=(n + 2,)))  # known by then
        assert len(chooser.surrogate) == n + 3
        assert n + 2 not in chooser.surrogate.askable


def test_a_bad_value_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one")) as session:
        before = session.record.seq
        for call in (
            lambda: session.label(40, 0, "ann", "k"), lambda: session.label(0, 3, "ann", "k"),
            lambda: session.label(-1, 0, "ann", "k"), lambda: session.label(0, 0, "", "k"),
            lambda: session.label(0, 0, "ann\n", "k"), lambda: session.label(0, 0, "ann", ""),
            lambda: session.skip(0, "ann", "k" * 65), lambda: session.keep(0, "ann", "k"),
            lambda: session.put_back("all", "ann", "k"), lambda: session.label_many([], 0, "ann", "k"),
            lambda: session.label_many([1, 1], 0, "ann", "k"), lambda: session.add_class(" ", "ann", "k"),
            lambda: session.add_class("cat", "ann", "k"), lambda: session.next(" "), lambda: session.why(99),
            lambda: session.card(99), lambda: session.likely(7), lambda: session.train(),
        ):  # fmt: skip
            with pytest.raises(UnderstudyError) as caught:
                call()
            assert "\n" not in str(caught.value)
        assert session.record.seq == before
