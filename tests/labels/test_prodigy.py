"""Prodigy's form."""

import json

from tests.sessions.leaving import CLASSES, TEXTS, text_project
from understudy.labels.prodigy import write_prodigy


def test_prodigys_form_has_options_and_what_was_accepted() -> None:
    entries = [json.loads(line) for line in b"".join(write_prodigy(text_project())).splitlines()]
    assert entries[0]["accept"] == ["cat"]
    assert entries[0]["answer"] == "accept"
    assert entries[0]["text"] == TEXTS[0]
    assert [option["id"] for option in entries[0]["options"]] == list(CLASSES)
    assert [entry["answer"] for entry in entries[5:8]] == ["ignore", "reject", "ignore"]
