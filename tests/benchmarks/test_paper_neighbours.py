"""Changes around picks are those of sums, at the rows that are nearest and open."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.scripts import script, write_task

neighbours = script("neighbours")


def test_a_change_is_that_of_the_sum_in_per_cent() -> None:
    assert neighbours.change(np.array([1.0, 3.0]), np.array([1.5, 1.5])) == pytest.approx(-25.0)
    assert np.isnan(neighbours.change(np.zeros(2), np.ones(2)))


def test_neighbours_are_the_nearest_open_rows_without_the_row_itself() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    is_open = np.arange(60) % 3 > 0
    found = neighbours.Distances(X, "cpu").nearest(7, is_open, 5)
    away = ((X - X[7]) ** 2).sum(1)
    expected = [row for row in np.argsort(away).tolist() if is_open[row] and row != 7][:5]
    assert found.tolist() == expected


def test_a_mean_is_over_the_picks_that_have_a_word_on_it() -> None:
    assert neighbours.mean_of([{"a": 1.0, "b": 4.0}, {"a": 3.0}]) == {"a": 2.0, "b": 4.0}


def test_influence_falls_near_a_pick_and_entropies_wait_for_its_label(tmp_path: Path) -> None:
    out = tmp_path / "neighbours.json"
    command = ["--data", str(write_task(tmp_path / "small.npz")), "--basis", "30", "--repeats", "1"]
    command += [
        "--schedule",
        "20",
        "40",
        "--learner",
        "modern",
        "--picks",
        "8",
        "--single",
        "2",
        "--near",
        "4",
        "--out",
        str(out),
    ]
    neighbours.main(command)
    for found in json.loads(out.read_text())["change_percent"].values():
        assert found["asked u1 near"]["mean"] < found["asked u1 random"]["mean"] < 0
        assert found["asked u2 near"]["mean"] == 0.0 != found["told u2 near"]["mean"]
        assert np.isfinite(found["one label near"]["mean"])
