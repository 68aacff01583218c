"""What the map is coloured by, against what is known of each item one by one."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from tests.sessions.small_projects import copied, opened
from understudy.learners.calibration import Calibration
from understudy.sessions.browsing import Filter
from understudy.sessions.calibrations import Audits
from understudy.sessions.map_colours import STATES_TOLD, encode_colours, map_colours
from understudy.sessions.session import Session


@pytest.mark.parametrize(("n_classes", "width"), [(3, 1), (255, 1), (256, 2)])
def test_colours_are_a_plane_each_of_class_confidence_and_state(n_classes: int, width: int) -> None:
    classes = np.array([2, -1, n_classes - 1], np.int32)
    sent = encode_colours(classes, np.array([0.999, np.nan, 0.29]), np.array([1, 2, 64]), n_classes)
    assert len(sent) == 3 * (width + 2)
    planes = np.frombuffer(sent[: 3 * width], "<u1" if width == 1 else "<u2")
    assert planes.tolist() == [2, 256**width - 1, n_classes - 1]
    assert list(sent[3 * width :]) == [99, 255, 29, 1, 2, 64]


def require_true(session: Session, sent: bytes) -> None:
    """Every byte is what the list of items says of its item, one item at a time."""
    n = session.record.n_items
    page = session.browser.page(Filter(), limit=n)
    assert len(sent) == 3 * n
    for each in page.items:
        has_label = each.label is not None
        expected = each.label if has_label else each.suggestion
        assert sent[each.item] == (255 if expected is None else expected)
        assert sent[n + each.item] == (255 if each.confidence is None else int(100 * each.confidence + 1e-9))
        states = {state for place, state in enumerate(STATES_TOLD) if sent[2 * n + each.item] >> place & 1}
        assert states == set(each.states) & set(STATES_TOLD)


def test_every_item_has_its_label_or_suggestion_and_its_states(tmp_path: Path) -> None:
    with opened(copied(tmp_path, n=60, audit_share=0.2)) as session:
        session.models.probs = np.random.default_rng(0).dirichlet(np.ones(3), size=60).astype(np.float32)
        session.browser.audits = Mock(spec=Audits)
        session.browser.audits.calibration.return_value = Calibration(1.7, audited=50)
        untouched = [item for item in range(60) if not session.record.is_audit(item)][:6]
        session.label(untouched[0], 1, "ann", "a1")
        session.label(untouched[0], 0, "bob", "b1")
        session.skip(untouched[1], "ann", "a2")
        session.dont_know(untouched[2], "ann", "a3")
        session.bad(untouched[3], "ann", "a4")
        session.flag(untouched[4], "ann", "a5")
        tag, sent = map_colours(session.browser.overview())
        require_true(session, sent)
        for item in session.record.audit_rows:
            if item not in session.record.effective:
                assert (sent[item], sent[60 + item]) == (255, 255)
        assert map_colours(session.browser.overview()) == (tag, sent)
        session.label(untouched[5], 2, "ann", "a6")
        changed, later = map_colours(session.browser.overview())
        assert changed != tag
        require_true(session, later)


def test_before_there_is_a_model_nothing_is_suggested(tmp_path: Path) -> None:
    with opened(copied(tmp_path)) as session:
        _, sent = session.map_colours()
        assert sent == b"\xff" * 80 + b"\0" * 40
