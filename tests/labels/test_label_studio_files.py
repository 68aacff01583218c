"""Tasks for Label Studio, as its import wants them."""

import json
from dataclasses import replace

import numpy as np

from tests.sessions.leaving import CLASSES, IDS, TEXTS, leaving, text_project
from understudy.labels.label_studio_files import labels_label_studio


def test_every_item_is_a_task_with_an_annotation_a_label() -> None:
    tasks = json.loads(b"".join(labels_label_studio(leaving())))
    assert [task["data"]["id"] for task in tasks] == list(IDS)
    assert tasks[3]["data"]["image"] == "/data/local-files/?d=%C3%A4%20%C3%B6.png"
    assert [len(task["annotations"]) for task in tasks] == [2, 1, 1, 1, 0, 0, 0, 1]
    [choice] = tasks[1]["annotations"][0]["result"]
    assert choice["value"] == {"choices": [CLASSES[1]]}
    assert (choice["from_name"], choice["to_name"], choice["type"]) == ("label", "image", "choices")
    assert choice["meta"]["annotator"] == "ann"
    assert choice["meta"]["why"] == "Drawn by lot."


def test_annotators_are_not_named_where_label_studio_would_refuse_the_file() -> None:
    tasks = json.loads(b"".join(labels_label_studio(leaving())))
    assert not [each for task in tasks for each in task["annotations"] if "completed_by" in each]


def test_texts_travel_along() -> None:
    tasks = json.loads(b"".join(labels_label_studio(text_project())))
    assert [task["data"]["text"] for task in tasks] == list(TEXTS)
    assert tasks[0]["annotations"][0]["result"][0]["to_name"] == "text"


def test_predictions_are_there_where_there_is_a_model() -> None:
    probs = np.eye(len(IDS), len(CLASSES), dtype=np.float32)[:6] * 0.8
    tasks = json.loads(b"".join(labels_label_studio(replace(leaving(), predictions=lambda: probs, model="abc" * 20))))
    [prediction] = tasks[2]["predictions"]
    assert prediction["result"][0]["value"] == {"choices": [CLASSES[2]]}
    assert round(prediction["score"], 5) == 0.8
    assert prediction["model_version"] == "abcabcabcabc"
    assert "predictions" not in tasks[6]  # an item that came after the model
