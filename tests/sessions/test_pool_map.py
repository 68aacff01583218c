"""The map of a session: what is shown while a better one is made, and what lies inside a lasso."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.sessions.small_projects import copied, opened
from tests.waiting import wait_until
from understudy.errors import UnderstudyError
from understudy.sessions.pool_map import encode_colours, rows_inside
from understudy.sessions.session import Session
from understudy.sessions.training import trainer

N = 40


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(copied(tmp_path, n=N)) as session:
        yield session


def test_axes_are_shown_at_once_and_neighbours_follow(session: Session) -> None:
    first = session.map.shown()
    assert first.layout == "axes"
    assert first.points.shape == (N, 2)
    said = session.map.describe("c")
    assert (said.items, said.trouble, said.colours) == (N, None, "c")
    version = session.version
    wait_until(lambda: not session.map.is_being_made)
    better = session.map.shown()
    assert better.layout == "neighbours"
    assert session.version > version
    assert session.map.describe("c").points != said.points
    assert better.points.min() >= 0
    assert better.points.max() <= 1
    assert [path.name for path in session.project.work.glob("map*")] == ["map"]


def test_a_map_that_is_kept_is_shown_at_once(tmp_path: Path) -> None:
    folder = copied(tmp_path, n=N)
    with opened(folder) as session:
        session.map.shown()
        wait_until(lambda: not session.map.is_being_made)
        before = session.map.shown().to_bytes()
    with opened(folder) as session:
        assert session.map.shown().layout == "neighbours"
        assert session.map.shown().to_bytes() == before
        assert not session.map.is_being_made


def test_places_travel_as_16_bits_an_axis(session: Session) -> None:
    shown = session.map.shown()
    sent = np.frombuffer(shown.to_bytes(), "<u2").reshape(-1, 2)
    assert sent.shape == (N, 2)
    np.testing.assert_allclose(sent / 65535, shown.points, atol=1e-5)


def test_a_session_that_closes_ends_what_is_being_made(tmp_path: Path) -> None:
    with opened(copied(tmp_path, n=N)) as session:
        session.map.shown()
        made_by = session.map
    assert not made_by.is_being_made
    assert list(session.project.work.glob("map-*")) == []


def test_it_is_said_why_no_better_map_could_be_made(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UnderstudyError("no process can be started")

    monkeypatch.setattr(trainer, "start_process", refuse)
    session.map.shown()
    wait_until(lambda: not session.map.is_being_made)
    said = session.map.describe("")
    assert said.layout == "axes"
    assert said.trouble == "UnderstudyError: no process can be started"


def test_a_map_that_fails_in_its_process_leaves_its_reason(session: Session) -> None:
    session.project.features_path.rename(session.project.folder / "away")
    session.map.shown()
    wait_until(lambda: not session.map.is_being_made)
    assert "cannot be read" in (session.map.trouble or "")


# -- lasso ------------------------------------------------------------------------------------------------


def literal_inside(x: float, y: float, polygon: list[tuple[float, float]]) -> bool:
    """By the angle that the border makes around the point: an odd number of turns is inside."""
    total = 0.0
    for (x0, y0), (x1, y1) in zip(polygon, [*polygon[1:], polygon[0]], strict=True):
        a, b = (x0 - x, y0 - y), (x1 - x, y1 - y)
        total += math.atan2(a[0] * b[1] - a[1] * b[0], a[0] * b[0] + a[1] * b[1])
    return round(total / (2 * math.pi)) % 2 == 1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("corners", [3, 4, 9, 64])
def test_inside_is_what_the_border_turns_around_an_odd_time(seed: int, corners: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.random((300, 2)).astype(np.float32)
    polygon = [(float(x), float(y)) for x, y in rng.random((corners, 2)) * 1.4 - 0.2]  # which may cross itself
    found = set(rows_inside(points, polygon).tolist())
    assert found == {row for row in range(300) if literal_inside(*points[row].tolist(), polygon)}


def test_every_point_is_in_exactly_one_of_two_triangles_that_share_a_side() -> None:
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 21), np.linspace(0, 1, 21)), -1).reshape(-1, 2).astype(np.float32)
    square = [(-1.0, -1.0), (2.0, -1.0), (2.0, 2.0), (-1.0, 2.0)]
    one, other = rows_inside(grid, square[:3]), rows_inside(grid, [square[0], *square[2:]])
    assert sorted([*one, *other]) == list(range(len(grid)))


def test_less_than_a_triangle_has_nothing_inside() -> None:
    points = np.full((3, 2), 0.5, np.float32)
    assert len(rows_inside(points, [])) == 0
    assert len(rows_inside(points, [(0.0, 0.0), (1.0, 1.0)])) == 0


def test_a_lasso_on_a_session_finds_items_where_they_are_shown(session: Session) -> None:
    session.map.shown()
    wait_until(lambda: not session.map.is_being_made)
    points = session.map.shown().points
    x = float(np.median(points[:, 0])) + 1e-4
    found = session.map.rows_inside([(-1, -1), (x, -1), (x, 2), (-1, 2)])
    assert found.tolist() == np.flatnonzero(points[:, 0] < x).tolist()


# -- colours ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_classes", "width"), [(3, 1), (255, 1), (256, 2)])
def test_colours_are_a_plane_each_of_class_confidence_and_state(n_classes: int, width: int) -> None:
    classes = np.array([2, -1, n_classes - 1], np.int32)
    sent = encode_colours(classes, np.array([0.999, np.nan, 0.29]), np.array([1, 2, 64]), n_classes)
    assert len(sent) == 3 * (width + 2)
    planes = np.frombuffer(sent[: 3 * width], "<u1" if width == 1 else "<u2")
    assert planes.tolist() == [2, 256**width - 1, n_classes - 1]
    assert list(sent[3 * width :]) == [99, 255, 29, 1, 2, 64]
