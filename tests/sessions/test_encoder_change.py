"""Another encoder for a project that has labels: they stay, all else is made anew, and a kill loses nothing."""

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.sessions.label_data import images, texts
from tests.sessions.small_projects import copied, label_next, opened, require_in_step, stored_events
from tests.waiting import wait_until
from tests.warm_training import WarmProcess
from understudy.cli import app
from understudy.data.embedding import embed
from understudy.data.encoders import make_encoder
from understudy.data.sources import load
from understudy.errors import Conflict, UnderstudyError
from understudy.projects.opening import create_or_open
from understudy.projects.project_file import read_info
from understudy.sessions.encoder_change import change_encoder
from understudy.sessions.opening import open_session

BEFORE, AFTER = "pixels?size=4", "pixels?size=3&grey=1"


def expected_features(folder: Path) -> np.ndarray:
    encoder, pool = make_encoder(AFTER), create_or_open(project=folder, device="cpu").pool
    return encoder.encode([encoder.prepare(pool.item(row)) for row in range(len(pool))])


def test_labels_stay_and_everything_else_is_made_anew(tmp_path: Path) -> None:
    folder = copied(tmp_path, taught=6)
    with opened(folder) as session:
        before = stored_events(session)
        labels, audit, usable = session.record.effective, session.record.audit_rows, len(session.record.usable)
        predicted = session.models.predictions()
    lines = list(change_encoder(str(folder), AFTER, device="cpu"))
    assert lines == [
        f"features are made by {AFTER}: 40 items, 9 columns",
        f"a model was trained on {usable} labels with them",
        f"{len(labels)} labels kept, and the log with them",
    ]
    with opened(folder) as session:
        record = session.record
        assert session.project.encoder == AFTER
        assert (record.effective, record.audit_rows) == (labels, audit)
        events = stored_events(session)
        assert events[: len(before)] == before
        changed, trained = events[len(before) :]
        assert (changed.kind, changed.data["encoder"]) == ("encoder_changed", AFTER)
        assert (trained.kind, trained.data["labels"]) == ("trained", usable)
        np.testing.assert_array_equal(session.project.features, expected_features(folder))
        assert session.project.features_path.parent.joinpath("features-40.npy").exists() is False
        assert not np.array_equal(session.models.predictions(), predicted)
        require_in_step(session)
        label_next(session, "ann", "k", 1)
        require_in_step(session)


def test_a_model_of_the_old_features_is_never_given_new_ones(tmp_path: Path) -> None:
    folder = copied(tmp_path, taught=6)
    project = create_or_open(project=folder, device="cpu")
    project.change_encoder(AFTER)
    images(tmp_path / "photos", ["new.png"], first=99)
    session = open_session(create_or_open(project=folder, device="cpu"))
    try:  # it trains at once; whatever comes first, nothing is predicted by the model of before
        record = session.record
        assert record.knows_features(record.trainings[-1]) or np.allclose(session.models.predictions()[40], 1 / 3)
        wait_until(lambda: not session.learning.is_busy)
        assert record.knows_features(record.trainings[-1])
        assert session.models.predictions().shape == (41, 3)
        assert session.project.features.shape == (41, 9)
        require_in_step(session)
    finally:
        session.close()


def test_what_the_last_model_predicted_is_gone_on_from_until_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied(tmp_path, taught=6)
    with opened(folder) as session:
        predicted = session.models.predictions()
    create_or_open(project=folder, device="cpu").change_encoder(AFTER)
    monkeypatch.setattr("understudy.sessions.learning.Learning.train_if_due", lambda _: None)
    with opened(folder) as session:
        assert session.learning.next_training() == 2
        np.testing.assert_array_equal(session.models.predictions(), predicted)
        require_in_step(session)
        label_next(session, "ann", "k", 0)
        require_in_step(session)
    with opened(folder) as session:
        require_in_step(session)


KILLED = """
import os, sys
from understudy.projects import item_table, project_file
from understudy.sessions import encoder_change

def end(*_args, **_given):
    os._exit(9)

moment, folder, encoder = sys.argv[1:]
if moment == "writing":
    item_table.replace_durably = end
elif moment == "before the switch":
    project_file.ProjectInfo.write = end
elif moment == "after the switch":
    item_table.remove_other_features = end
elif moment == "before the log knows":
    encoder_change.open_session = end
list(encoder_change.change_encoder(folder, encoder, device="cpu"))
"""


@pytest.mark.parametrize(
    ("moment", "encoder"),
    [
        ("writing", BEFORE),
        ("before the switch", BEFORE),
        ("after the switch", AFTER),
        ("before the log knows", AFTER),
    ],
)
def test_a_kill_leaves_a_project_that_works(
    tmp_path: Path, moment: str, encoder: str, monkeypatch: pytest.MonkeyPatch, warm: WarmProcess
) -> None:
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "home"))
    folder = copied(tmp_path / "p", taught=6)
    with opened(folder) as session:
        labels = session.record.effective
    assert warm.run(KILLED, moment, folder, AFTER) == 9
    with opened(folder) as session:
        assert session.project.encoder == encoder
        assert session.record.effective == labels
        wait_until(lambda: not session.learning.is_busy)
        assert session.record.knows_features(session.record.trainings[-1])
        assert session.project.features.shape == (40, 48 if encoder == BEFORE else 9)
        require_in_step(session)
    if encoder == BEFORE:
        lines = list(change_encoder(str(folder), AFTER, device="cpu"))
        assert lines[0].startswith(f"features are made by {AFTER}")
    np.testing.assert_array_equal(create_or_open(project=folder, device="cpu").features, expected_features(folder))


def test_a_project_that_is_served_is_left_alone(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    with opened(folder), pytest.raises(Conflict, match="Stop it first: features cannot change under people's hands"):
        list(change_encoder(str(folder), AFTER, device="cpu"))
    assert create_or_open(project=folder).encoder == BEFORE


def test_a_few_items_may_be_gone_and_many_may_not(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    expected = expected_features(folder)
    (tmp_path / "photos" / "0003.png").unlink()
    lines = list(change_encoder(str(folder), AFTER, device="cpu"))
    assert lines[0].endswith("; 1 item could not be read and got the mean of the others")
    features = create_or_open(project=folder, device="cpu").features
    others = np.arange(40) != 3
    np.testing.assert_array_equal(features[others], expected[others])
    np.testing.assert_allclose(features[3], expected[others].mean(0), rtol=1e-5)
    for row in range(10, 20):
        (tmp_path / "photos" / f"{row:04}.png").unlink()
    with pytest.raises(UnderstudyError, match=r"11 of 40 items cannot be encoded, the first: 0003\.png.* stay in use"):
        list(change_encoder(str(folder), BEFORE, device="cpu"))
    assert create_or_open(project=folder).encoder == AFTER


def test_there_and_back(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    assert json.loads((folder / "project.json").read_text())["format"] == 2  # the version before reads it
    for name in (AFTER, BEFORE):
        list(change_encoder(str(folder), name, device="cpu"))
        assert read_info(folder).encoder == name
        with pytest.raises(UnderstudyError, match="already; name another encoder"):
            list(change_encoder(str(folder), name, device="cpu"))
    assert json.loads((folder / "project.json").read_text())["format"] == 3
    with opened(folder) as session:
        assert [event.kind for event in stored_events(session)].count("encoder_changed") == 2
        assert len(list((folder / "features").glob("*.npy"))) == 1


def test_texts_and_projects_without_labels_or_features(tmp_path: Path) -> None:
    table = texts(tmp_path / "t.jsonl", [{"text": f"text number {row}"} for row in range(12)])
    folder = tmp_path / "t"
    create_or_open(table, project=folder, classes=["a", "b"], encoder="words?size=16")
    lines = list(change_encoder(str(folder), "words?size=32", device="cpu"))
    assert lines == [f"{folder} has no features yet; they will be made by words?size=32"]
    with opened(folder) as session:
        assert session.project.features.shape == (12, 32)
    lines = list(change_encoder(str(table.with_name("t")), "words?size=64", device="cpu"))
    assert lines == ["features are made by words?size=64: 12 items, 64 columns", "0 labels kept, and the log with them"]
    with pytest.raises(UnderstudyError, match="takes images, these items are texts"):
        list(change_encoder(str(folder), "pixels", device="cpu"))


def test_features_that_came_with_the_data_can_be_given_up(tmp_path: Path) -> None:
    photos = images(tmp_path / "photos", [f"{row}.png" for row in range(20)])
    embed(load(photos).pool, make_encoder(BEFORE), out=tmp_path / "made", progress=False, cache=tmp_path / "cache")
    folder = tmp_path / "project"
    with closing(open_session(create_or_open(tmp_path / "made", project=folder, classes=["a", "b"]))) as session:
        assert session.project.encoder == "given"
    lines = list(change_encoder(str(folder), AFTER, device="cpu"))
    assert lines[0] == f"features are made by {AFTER}: 20 items, 9 columns"
    again = create_or_open(project=folder, device="cpu")
    assert again.encoder == AFTER
    np.testing.assert_array_equal(again.features, expected_features(folder))


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    result = CliRunner().invoke(app, ["encoder", str(folder), AFTER, "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert f"features are made by {AFTER}: 40 items, 9 columns" in result.output
    assert "kept, and the log with them" in result.output
    with pytest.raises(UnderstudyError, match=r"to change it: understudy encoder .*project 'pixels'"):
        create_or_open(project=folder, encoder="pixels")
