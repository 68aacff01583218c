"""The progress page of real sessions, beside counts made by hand."""

from pathlib import Path

import numpy as np
import pytest

from tests.sessions.small_projects import copied, label_next, opened
from understudy.sessions.audit import wilson


@pytest.mark.parametrize("method", ["understudy", "paper"])
def test_the_promise_falls_from_at_most_all_of_what_the_first_label_did(tmp_path: Path, method: str) -> None:
    with opened(copied(tmp_path / "one", taught=2, method=method)) as session:
        promises = []
        for turn in range(20):
            found = session.progress().hint.promise
            assert found is not None
            promises.append(found)
            label_next(session, "ann", f"k{turn}", turn % 3)
        assert 0 < promises[-1] < promises[0] <= 1
        if method == "paper":
            assert promises[0] == pytest.approx(1), "it is compared with the first training"
        else:
            assert promises[0] < 1, "something was labelled and decided by then"


def test_accuracy_by_class_and_the_confusion_matrix_are_the_literal_counts(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", n=60, taught=6, audit_share=0.3)) as session:
        for turn in range(40):
            label_next(session, "ann", f"k{turn}", (turn * 7) % 3)
        progress, record = session.progress(), session.record
        asked = [item for item in record.asked["audit"] if record.audit_label(item) is not None]
        assert len(asked) > 10
        pairs = [(record.audit_label(item), session.models.guess(item)) for item in asked]
        matrix = np.zeros((3, 3), int)
        for label, guess in pairs:
            assert label is not None
            assert guess is not None
            matrix[label, guess] += 1
        found = np.zeros((3, 3), int)
        for cell in progress.confusions:
            assert cell.count > 0
            found[cell.label, cell.predicted] = cell.count
        assert found.tolist() == matrix.tolist()
        for label, score in enumerate(progress.by_class):
            assert (score.label, score.right, score.audited) == (label, matrix[label, label], matrix[label].sum())
            assert score.predicted == matrix[:, label].sum()
            assert score.accuracy == pytest.approx(matrix[label, label] / matrix[label].sum())
            assert (score.low, score.high) == pytest.approx(wilson(score.right, score.audited))
        assert session.status().accuracy == pytest.approx(np.trace(matrix) / matrix.sum())


def test_labels_that_have_nothing_to_do_with_the_items_are_called_weak(tmp_path: Path) -> None:
    """Forty labels at random: the hint says that nothing was learnt, and what to do. Right labels are not doubted."""
    rng = np.random.default_rng(0)
    with opened(copied(tmp_path / "one", "digits", taught=16)) as session:
        for turn in range(30):
            label_next(session, "ann", f"k{turn}", int(rng.integers(2)))
        hint = session.progress().hint
        assert hint.advice == "weak", hint.line
        assert "Use an encoder" in hint.line
