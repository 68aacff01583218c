"""Projects of the version before name no method: they go on with the paper's, as if nothing had happened."""

import json
from pathlib import Path

import pytest

from tests.sessions.small_projects import opened
from tests.waiting import wait_until
from understudy.sessions.session import Session

# `project.json` of `understudy label --demo` as commit 672e39c wrote it, trained seldom so that a test is quick.
ABOUT = """{
 "format": 1, "name": "digits", "kind": "image",
 "origin": {"name": "digits", "relative": null, "absolute": null, "columns": null},
 "settings": {
  "classes": ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"], "seed": 0, "audit_share": 0.1, "agreement_share": 0.0,
  "lease_seconds": 600.0, "learner": "quick", "retrain_growth": 100.0, "retrain_at_most": 1000000, "basis_size": 500
 },
 "encoder": null, "own_features": true, "made_by": null, "import_labels": false, "classes_from": "source",
 "store": null, "identity": "dc40486637d54527a674013c6f850cb2", "version": "0.1.0"
}
"""
# What that commit asked for, each item answered with its number modulo 3, and a training after the tenth.
ASKED = [1160, 903, 657, 1127, 1107, 393, 531, 656, 1058, 303]
ASKED_THEN = [320, 841, 642, 702, 1054, 353, 638, 1128, 808, 759]
PROMISED = 0.36888726544698314


def answer(session: Session, count: int) -> list[int]:
    items = []
    for _ in range(count):
        item = session.next("ann").item
        assert item is not None
        session.label(item, item % 3, "ann", f"k{item}")
        wait_until(lambda: not session.learning.is_busy)
        items.append(item)
    return items


def test_a_project_of_the_version_before_goes_on_as_it_would_have(tmp_path: Path) -> None:
    folder = tmp_path / "digits"
    folder.mkdir()
    (folder / "project.json").write_text(ABOUT)
    with opened(folder) as session:
        assert session.project.settings.method == session.record.settings.method == "paper"
        options = session.learning.chooser.surrogate.options
        assert (options.method, options.basis_points(1297)) == ("paper", 500)
        assert answer(session, len(ASKED)) == ASKED
        session.train()
        wait_until(lambda: not session.learning.is_busy)
    forget_the_method(folder)
    with opened(folder) as session:
        assert answer(session, len(ASKED_THEN)) == ASKED_THEN
        assert session.progress().hint.promise == pytest.approx(PROMISED, rel=1e-4)


def forget_the_method(folder: Path) -> None:
    """Leave the set-up as the version before wrote it; it must be used as it is."""
    about = folder / "work" / "setup" / "about.json"
    written = json.loads(about.read_text())
    del written["surrogate"]["method"], written["mean_distance"]
    about.write_text(json.dumps(written))
    (folder / "project.json").write_text(ABOUT)


def test_a_new_project_names_its_method_and_takes_its_number_of_basis_points(tmp_path: Path) -> None:
    from understudy.projects.opening import create_or_open

    create_or_open(demo=True, project=tmp_path / "digits", device="cpu")
    written = json.loads((tmp_path / "digits" / "project.json").read_text())
    assert written["format"] == 2
    assert (written["settings"]["method"], written["settings"]["basis_size"]) == ("understudy", None)
    with opened(tmp_path / "digits") as session:
        surrogate = session.learning.chooser.surrogate
        assert surrogate.options.method == "understudy"
        assert "325 basis points" in repr(surrogate), "a quarter of 1,297 items"
