"""A model labels what it is sure of: its labels stay a model's, and people and audits are left their say."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.sessions.commands import command
from tests.sessions.small_projects import copied, opened, require_in_step
from tests.sessions.test_record import Story
from understudy.errors import Conflict, UnderstudyError, UsageError
from understudy.sessions.agreement import agreement
from understudy.sessions.model_labels import annotate_project, take_back_labels

MODEL = f"{__name__}:parity"
N = 40
CALLS: list[int] = []


def parity(items: Sequence[str]) -> np.ndarray:
    """Sure that a number ending in 0 to 4 is bad, and undecided about others."""
    CALLS.append(len(items))
    is_low = np.array([int(item[-1]) < 5 for item in items])
    bad = np.where(is_low, 0.99, 0.6)
    return np.stack([1 - bad, bad], 1)


def word_of(row: int) -> str:
    return f"word{row * 7919}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return copied(tmp_path, "noise", N, audit_share=0.2)


def sure_rows(audit: Sequence[int]) -> list[int]:
    return [row for row in range(N) if int(word_of(row)[-1]) < 5 and row not in audit]


def test_it_labels_what_it_is_sure_of_and_leaves_audit_items_to_people(project: Path, tmp_path: Path) -> None:
    printed = command("annotate", project, "--with", MODEL, "--threshold", "0.9")
    with opened(project) as session:
        record = session.record
        audit = record.audit_rows
        expected = sure_rows(audit)
        assert len(audit) == 8
        assert record.effective == dict.fromkeys(expected, 1)
        assert not set(record.effective) & set(audit)
        assert {mark.source for marks in record.labels.values() for mark in marks.values()} == {"model"}
        assert record.training_rows() == record.effective  # models learn from them
        assert not any(record.was_right(item) for item in expected)
        assert record.people.owners == []  # whoever labels first is the owner, and a model is nobody
        require_in_step(session)
        asked = session.next("ann").item
        assert asked is not None
        assert asked not in expected
        session.release("ann")
    assert f"{len(expected)} items labelled by 'parity' ({len(expected)} bad)" in printed
    assert f"{32 - len(expected)} of 32 it was less than 0.9 sure of; people are asked for them" in printed
    assert "8 audit items left to people: they measure models, this one included" in printed
    command("export", project, "--out", tmp_path / "labels.csv")
    text = (tmp_path / "labels.csv").read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert {(row["annotator"], row["source"], row["resolution"], row["asked"]) for row in rows} == {
        ("parity", "model", "model", "unasked")
    }
    assert [int(row["item"]) for row in rows] == expected


def test_a_second_run_labels_only_what_is_still_open_and_not_more_than_asked_for(project: Path) -> None:
    first = "\n".join(annotate_project(str(project), MODEL, threshold=0.9, most=3, annotator="small"))
    assert "ended at 3 labels; run it again for more" in first
    assert first.startswith("3 items labelled by 'small' (3 bad)")
    CALLS.clear()
    second = list(annotate_project(str(project), MODEL, threshold=0.5, annotator="small"))
    assert sum(CALLS) == 32 - 3
    assert second[0] == "29 items labelled by 'small' (29 bad)"
    third = list(annotate_project(str(project), MODEL, threshold=0.5, annotator="small"))
    assert third[0] == "0 items labelled by 'small'"


def test_they_can_be_taken_back(project: Path) -> None:
    with opened(project) as session:
        item = session.next("ann").item
        assert item is not None
        session.label(item, 1, "ann", "a1")  # of the same class: with two a training would start
        session.release("ann")
    given = next(iter(annotate_project(str(project), MODEL, threshold=0.9)))
    said = command("annotate", project, "--annotator", "parity", "--take-back")
    assert said.split()[0] == given.split()[0]
    with opened(project) as session:
        assert list(session.record.effective) == [item]
        require_in_step(session)
    with pytest.raises(Conflict, match="no label of a model called 'ann'"):
        list(take_back_labels(str(project), "ann"))


def test_a_file_of_predictions_labels_too(project: Path, tmp_path: Path) -> None:
    with opened(project) as session:
        ids = session.project.pool.ids
    probs = np.full((N, 2), 0.5)
    probs[3] = [0.97, 0.03]
    np.savez(tmp_path / "llm.npz", probs=probs, ids=np.array(ids), classes=np.array(["good", "bad"]))
    said = list(annotate_project(str(project), str(tmp_path / "llm.npz")))
    assert said[0] in ("1 item labelled by 'llm' (1 good)", "0 items labelled by 'llm'")  # unless it is an audit item


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0.0}, "the threshold must be above 0 and at most 1"),
        ({"most": 0}, "the number of labels must be 1 or more"),
        ({"model": "nowhere:at_all"}, "cannot be imported"),
        ({"annotator": "ann"}, "'ann' is a person of this project; give the model another name with --annotator"),
        ({"annotator": "source"}, "stands for labels that came with the data"),
    ],
)
def test_a_call_that_cannot_be_meant_is_refused_and_labels_nothing(
    project: Path, options: dict[str, object], message: str
) -> None:
    with opened(project) as session:
        session.next("ann")
    given = {"model": MODEL, **options}
    with pytest.raises(UnderstudyError, match=message):
        list(annotate_project(str(project), **given))  # type: ignore[arg-type]
    with opened(project) as session:
        assert not session.record.effective
        with pytest.raises(Conflict):
            list(annotate_project(str(project), MODEL))  # somebody has it open


def test_the_command_must_say_who_labels(project: Path) -> None:
    with pytest.raises(UsageError, match="say which model labels, with --with MODEL"):
        command("annotate", project)


def test_a_project_starts_from_what_a_function_predicts(project: Path) -> None:
    with opened(project, predictions=MODEL) as session:
        assert session.record.trainings[0].data["source"] == "given"
        expected = parity([word_of(row) for row in range(N)])
        np.testing.assert_allclose(session.models.predictions(), expected, atol=1e-6)


# -- what a model's label counts for ------------------------------------------------------------------------------


def test_a_persons_label_decides_over_those_of_models() -> None:
    story = Story()
    story.label(0, 2, "llm", source="model")
    story.label(0, 2, "other", source="model")
    assert (story.record.label_of(0), story.record.decisions(0).resolution) == (2, "model")
    story.label(0, 1, "ann")
    found = story.record.decisions(0)
    assert (found.label, found.resolution, found.contest) == (1, "single", None)
    story.label(0, 0, "bob")
    assert (found.label, found.resolution, found.contest) == (1, "majority", "disputed")
    story.undo("bob")
    story.undo("ann")
    assert (story.record.label_of(0), story.record.decisions(0).resolution) == (2, "model")


def test_a_review_that_keeps_a_models_label_makes_it_a_reviewed_one() -> None:
    story = Story()
    story.label(0, 2, "llm", source="model")
    story.say("kept", 0, "ann", label=2)
    assert story.record.decisions(0).resolution == "review"


def test_whether_people_agree_has_nothing_to_do_with_models() -> None:
    story = Story()
    for item in range(3):
        story.label(item, 0, "llm", source="model")
        story.label(item, 1, "ann")
    story.label(0, 1, "bob")
    found = agreement(story.record.labels_of_people())
    assert (found.items, found.share) == (1, 1.0)


def test_an_audit_item_is_never_answered_by_a_model() -> None:
    story = Story()
    story.say("asked", 4, "ann", lease="audit", seconds=60.0)
    story.label(4, 0, "llm", source="model")
    assert story.record.audit_label(4) is None
    story.label(4, 1, "ann")
    assert story.record.audit_label(4) == 1
