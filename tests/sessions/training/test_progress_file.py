from pathlib import Path

import pytest

from understudy.sessions.training import progress_file
from understudy.sessions.training.progress_file import PROGRESS, ProgressFile, read_progress


def test_what_was_reported_last_can_be_read_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_progress(tmp_path) is None
    monkeypatch.setattr(progress_file, "SECONDS_BETWEEN_REPORTS", 0.0)
    file = ProgressFile(tmp_path)
    file.report(3, 10)
    assert read_progress(tmp_path) == (3, 10)
    file.report("basis", 0.5)
    assert read_progress(tmp_path) == ("basis", 0.5)
    for broken in ("", "[1]", "7"):
        (tmp_path / PROGRESS).write_text(broken)
        assert read_progress(tmp_path) is None


def test_it_is_not_written_at_every_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_file, "SECONDS_BETWEEN_REPORTS", 1e9)
    ProgressFile(tmp_path).report(1, 2)
    assert read_progress(tmp_path) is None
