import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.sessions import postgres
from tests.sessions.label_data import images
from tests.sessions.small_projects import CALM, SMALL, copied, label_next, opened, require_in_step, stored_events
from tests.waiting import wait_until
from understudy.errors import Conflict, UnderstudyError
from understudy.projects.opening import create_or_open
from understudy.sessions.log.log import EventLog
from understudy.sessions.opening import open_session
from understudy.sessions.transfer import export_labels

cluster = postgres.cluster  # a fixture


def test_a_project_is_open_once(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one")
    with opened(folder), pytest.raises(Conflict, match="in use"):
        open_session(create_or_open(project=folder))
    with opened(folder) as session:
        assert session.record.seq == 1


@pytest.mark.parametrize("taught", [0, 2])
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_labelled_project_without_its_log_is_refused_and_left_as_it_is(
    tmp_path: Path, taught: int, is_empty: bool
) -> None:
    folder = copied(tmp_path / "one", taught=taught)
    path = folder / "log.sqlite3"
    kept = path.read_bytes()
    for file in folder.glob("log.sqlite3*"):
        file.unlink()
    if is_empty:
        path.touch()
    names = sorted(file.name for file in folder.iterdir())
    what = "its log in .* is empty|it has no log in .*log.sqlite3"
    with pytest.raises(Conflict, match=rf"was labelled before.*({what}).*understudy restore.*to begin anew, delete"):
        open_session(create_or_open(project=folder))
    with pytest.raises(Conflict, match="was labelled before"):
        list(export_labels(str(folder), "csv", tmp_path / "labels.csv"))
    assert sorted(file.name for file in folder.iterdir()) == names
    path.write_bytes(kept)
    with opened(folder) as session:  # put back, all is as it was
        assert len(session.record.trainings) == (1 if taught else 0)


def test_a_project_is_begun_anew_on_purpose(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one", taught=2)
    for name in ("artifacts", "work"):
        shutil.rmtree(folder / name)
    (folder / "log.sqlite3").unlink()
    with opened(folder) as session:
        assert session.record.seq == 1
        assert not session.record.effective


def test_a_labelled_project_whose_database_was_emptied_is_refused(tmp_path: Path, cluster: postgres.Cluster) -> None:
    photos = images(tmp_path / "photos", [f"{row}.png" for row in range(12)])
    options = {"classes": ["cat", "dog"], "encoder": SMALL, "device": "cpu", "store": cluster.url(), **CALM}
    project = create_or_open(photos, **options)  # type: ignore[arg-type]
    open_session(project).close()
    with (
        closing(EventLog.open(project.store_url, project.identity)) as log,
        log.store.engine.connect() as connection,
        connection.begin(),
    ):
        connection.exec_driver_sql("DROP TABLE events, servers, alembic_version")
    with pytest.raises(Conflict, match=r"was labelled before .*it has no log in postgresql://"):
        open_session(create_or_open(project=project.folder))


def test_a_pool_that_grew_is_labelled_on(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one", taught=2)
    with opened(folder) as session:
        before = session.record.audit_rows
        asked = session.next("ann").item
    images(tmp_path / "one" / "photos", [f"new{row}.png" for row in range(20)], first=100)
    for without in ((), ("work",)):
        for name in without:
            shutil.rmtree(folder / name)
        with opened(folder) as session:
            assert session.record.n_items == 60
            assert session.record.audit_rows[: len(before)] == before
            assert len(session.record.audit_rows) == len(before) + 2
            assert all(row >= 40 for row in session.record.audit_rows[len(before) :])
            assert [event.kind for event in stored_events(session)].count("items_added") == 1
            assert session.models.predictions().shape == (60, 3)
            np.testing.assert_allclose(session.models.predictions().sum(1), 1, rtol=1e-4)
            assert session.next("ann").item == asked
            session.label(50, 0, f"{without}", "k")
            require_in_step(session)
            chosen = session.next("bob").item
            session.release("bob")
    with opened(folder) as session:
        assert session.next("bob").item == chosen


def test_class_folders_give_labels_also_for_what_comes_later(tmp_path: Path) -> None:
    photos = images(tmp_path / "photos", ["cat/1.png", "dog/2.png", *(f"{row}.png" for row in range(10))])
    project = create_or_open(photos, encoder=SMALL, device="cpu", **CALM)  # type: ignore[arg-type]
    session = open_session(project)
    names = {project.pool.ids[row]: label for row, label in session.record.effective.items()}
    assert names == {"cat/1.png": 0, "dog/2.png": 1}
    assert session.record.classes == ["cat", "dog"]
    assert len(session.record.audit_rows) == 1
    assert session.learning.is_busy, "there are labels in two classes"
    require_in_step(session)
    session.close()
    images(photos, ["cat/3.png", "fox/1.png"], first=50)
    with opened(project.folder) as session:
        names = {session.project.pool.ids[row]: label for row, label in session.record.effective.items()}
        assert names == {"cat/1.png": 0, "dog/2.png": 1, "cat/3.png": 0, "fox/1.png": 2}
        assert session.record.classes == ["cat", "dog", "fox"]
        assert session.record.n_items == 14
        require_in_step(session)
    with opened(project.folder) as session:
        assert session.record.classes == ["cat", "dog", "fox"]
        assert len(session.record.effective) == 4


def test_a_folder_labels_what_its_class_became(tmp_path: Path) -> None:
    photos = images(tmp_path / "photos", ["cat/1.png", "dog/1.png", "fox/1.png", *(f"{row}.png" for row in range(10))])
    project = create_or_open(photos, encoder=SMALL, device="cpu", **CALM)  # type: ignore[arg-type]
    session = open_session(project)
    session.change_class(0, {"name": "Katze"}, "ann", "n")
    session.merge_class(1, 0, "ann", "m")
    session.remove_class(2, "ann", "r")
    session.close()
    images(photos, ["cat/2.png", "dog/2.png", "fox/2.png", "owl/2.png"], first=50)
    with opened(project.folder) as session:
        names = {session.project.pool.ids[row]: label for row, label in session.record.effective.items()}
        assert names == {"cat/1.png": 0, "dog/1.png": 0, "cat/2.png": 0, "dog/2.png": 0, "owl/2.png": 3}
        assert session.record.classes == ["Katze", "dog", "fox", "owl"]


def test_classes_may_all_come_later(tmp_path: Path) -> None:
    photos = images(tmp_path / "photos", [f"{row}.png" for row in range(12)])
    project = create_or_open(photos, encoder=SMALL, device="cpu", classes=[], **CALM)  # type: ignore[arg-type]
    session = open_session(project)
    try:
        item = session.next("ann").item
        assert item is not None
        with pytest.raises(UnderstudyError, match="there are none: add it first"):
            session.label(item, 0, "ann", "k")
        for place, name in enumerate(("cat", "dog", "fox")):
            session.add_class(name, "ann", f"c{place}")
            label_next(session, "ann", f"k{place}", place)
            require_in_step(session)
        assert session.status().class_counts == [1, 1, 1]
        wait_until(lambda: session.record.trainings)
        require_in_step(session)
    finally:
        session.close()
    with opened(project.folder) as session:
        assert session.record.classes == ["cat", "dog", "fox"]
        require_in_step(session)


def test_predictions_that_one_has_are_the_first_model(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one")
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 40)
    np.save(tmp_path / "probs.npy", probs)
    project = create_or_open(project=folder, device="cpu")
    session = open_session(project, predictions=tmp_path / "probs.npy")
    try:
        assert session.models.version is not None
        assert session.record.trainings[0].data["source"] == "given"
        np.testing.assert_allclose(session.models.predictions(), probs, rtol=1e-5)
        question = session.next("ann")
        assert question.item is not None
        assert question.suggestion == probs[question.item].argmax()
        assert session.status().training.next_at == 30  # ten labels a class: it is not given up for less
        label_next(session, "ann", "k", 0)
        require_in_step(session)
        asked = session.next("bob").item
    finally:
        session.close()
    with opened(folder, predictions=tmp_path / "probs.npy") as session:
        assert len(session.record.trainings) == 1
        assert session.next("bob").item == asked


def test_predictions_that_do_not_fit_are_said_and_the_project_can_be_opened(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one")
    np.save(tmp_path / "probs.npy", np.ones((3, 3)))
    with pytest.raises(UnderstudyError, match="3 rows for 40 items"):
        open_session(create_or_open(project=folder, device="cpu"), predictions=tmp_path / "probs.npy")
    with opened(folder) as session:
        assert session.models.version is None
