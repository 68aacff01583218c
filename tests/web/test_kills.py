"""A server killed twice while an owner, a reviewer and two annotators are at work: nothing is lost or doubled."""

from pathlib import Path

import pytest

from tests.benchmarks.scripts import script
from tests.sessions import postgres
from tests.sessions.postgres import Cluster

cluster = postgres.cluster


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_every_answer_is_in_the_log_once_and_the_next_item_is_that_of_an_engine_that_never_died(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = None
    if store == "postgresql":
        running: Cluster = request.getfixturevalue("cluster")
        url = running.url()
    found = script("label_kills").measure(2, 60, url, seed=1, folder=tmp_path, say=False)
    assert found["kills"] == 2
    assert found["labels"] >= 60
    assert found["sent_again"] > 0  # calls were under way when it was killed
    assert (found["lost"], found["changed"], found["doubled"]) == (0, 0, 0)
    assert found["trainings"] > 0
    assert found["class_changes"] > 0
    assert found["classes_same"]
    assert found["settlements"] > 0
    assert found["disputes_same"]
    assert found["people_same"]
    assert found["items_joined"] > 0
    assert found["items_same"]
    assert found["next_item_same"] == found["next_item_compared"] >= 1
