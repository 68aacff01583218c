"""The map of a session: what is shown while a better one is made, and what lies inside a lasso."""

import math
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from tests.sessions.small_projects import copied, opened
from tests.waiting import wait_until
from understudy.errors import UnderstudyError
from understudy.sessions import pool_map
from understudy.sessions.browsing import Filter
from understudy.sessions.pool_map import rows_inside
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
    np.testing.assert_array_equal(sent / 65535, shown.points)


@pytest.fixture
def large(session: Session, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session whose pool counts as large, so that a process makes its map: here with the priority of all others."""
    start = trainer.start_process
    monkeypatch.setattr(pool_map, "SMALL_POOL", 0)
    monkeypatch.setattr(trainer, "start_process", lambda folder, output, gently: start(folder, output, not gently))
    return session


def test_a_process_makes_the_map_of_a_large_pool(large: Session) -> None:
    large.map.shown()
    wait_until(lambda: not large.map.is_being_made)
    assert (large.map.shown().layout, large.map.trouble) == ("neighbours", None)
    assert [path.name for path in large.project.work.glob("map*")] == ["map"]


def test_a_session_that_closes_ends_what_is_being_made(large: Session) -> None:
    large.map.shown()
    large.close()
    assert not large.map.is_being_made
    assert list(large.project.work.glob("map-*")) == []


def test_it_is_said_why_no_better_map_could_be_made(large: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UnderstudyError("no process can be started")

    monkeypatch.setattr(trainer, "start_process", refuse)
    large.map.shown()
    wait_until(lambda: not large.map.is_being_made)
    said = large.map.describe("")
    assert said.layout == "axes"
    assert said.trouble == "no process can be started"


def test_a_map_that_fails_in_its_process_leaves_its_reason(large: Session) -> None:
    large.map.project = Mock(wraps=large.project, features=large.project.features)
    large.map.project.features_path = large.project.folder / "nowhere.npy"
    large.map.project.work = large.project.work
    large.map.project.settings = large.project.settings
    large.map.project.info = large.project.info
    large.map._make()
    assert "nowhere.npy cannot be read" in (large.map.trouble or "")


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
    points = rng.random((300, 2))
    polygon = [(float(x), float(y)) for x, y in rng.random((corners, 2)) * 1.4 - 0.2]  # which may cross itself
    found = set(rows_inside(points, polygon).tolist())
    assert found == {row for row in range(300) if literal_inside(points[row, 0], points[row, 1], polygon)}


def test_every_point_is_in_exactly_one_of_two_triangles_that_share_a_side() -> None:
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 21), np.linspace(0, 1, 21)), -1).reshape(-1, 2)
    square = [(-1.0, -1.0), (2.0, -1.0), (2.0, 2.0), (-1.0, 2.0)]
    one, other = rows_inside(grid, square[:3]), rows_inside(grid, [square[0], *square[2:]])
    assert sorted([*one, *other]) == list(range(len(grid)))


def test_less_than_a_triangle_has_nothing_inside() -> None:
    points = np.full((3, 2), 0.5)
    assert len(rows_inside(points, [])) == 0
    assert len(rows_inside(points, [(0.0, 0.0), (1.0, 1.0)])) == 0


def test_a_lasso_on_a_session_finds_items_where_they_are_shown(session: Session) -> None:
    session.map.shown()
    wait_until(lambda: not session.map.is_being_made)
    points = session.map.shown().points
    x = float(np.median(points[:, 0])) + 1e-4
    found = session.map.rows_inside([(-1, -1), (x, -1), (x, 2), (-1, 2)])
    assert found.tolist() == np.flatnonzero(points[:, 0] < x).tolist()


def test_a_list_of_what_is_inside_a_lasso_has_exactly_these_items(session: Session) -> None:
    session.map.shown()
    wait_until(lambda: not session.map.is_being_made)
    lasso = ((0.2, 0.1), (0.9, 0.3), (0.6, 0.95), (0.1, 0.6))
    page = session.browser.page(Filter(lasso=lasso), limit=N)
    assert 0 < len(page.items) < N
    assert [each.item for each in page.items] == session.map.rows_inside(lasso).tolist()
