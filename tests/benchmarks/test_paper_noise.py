"""The study of the noise counts how far several rounds agree."""

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.scripts import script, write_task

noise = script("noise")


def test_rounds_agree_up_to_the_first_pick_that_one_of_them_makes_otherwise() -> None:
    first = np.array([4, 2, 7, 1])
    assert noise.agreed([first, first.copy()]) == 4
    assert noise.agreed([first, first.copy(), np.array([4, 2, 9, 1])]) == 2
    assert noise.agreed([first, np.array([5, 2, 7, 1])]) == 0


def test_the_study_runs_and_levels_as_small_as_the_papers_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_task(tmp_path / "small.npz")
    wanted = ["--data", data, "--repeats", 1, "--labels", 12, "--picks", 5, "--basis", 8]
    noise.main([*map(str, wanted), "--out", str(tmp_path / "noise.json")])
    assert "all agree up to pick 5 of 5" in capsys.readouterr().out
