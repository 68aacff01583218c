"""The lines of the two studies of time: what is extrapolated, compared and divided."""

import json
from pathlib import Path

import pytest

from tests.benchmarks.scripts import script, write_task

lookahead, picks_time = script("lookahead"), script("picks_time")


def test_a_line_through_two_short_trainings_gives_the_long_one() -> None:
    seconds, each = picks_time.extrapolated((50, 2.0), (200, 5.0), 1000)
    assert (seconds, each) == (pytest.approx(21.0), pytest.approx(0.02))


def test_a_round_is_divided_by_its_picks() -> None:
    row = picks_time.line("badge", [3.0, 1.0, 2.0], 0.5, 100)
    assert (row["choose_s"], row["with_predictions_s"], row["paper_s"]) == (0.02, 0.025, 0.58)
    assert picks_time.line("vaal on images", [1.0], 0.0, 1)["paper_s"] == picks_time.PAPER["vaal"]


def test_all_systems_but_the_adversaries_are_timed(tmp_path: Path) -> None:
    out = tmp_path / "times.json"
    command = ["--data", str(write_task(tmp_path / "small.npz")), "--basis", "20", "--repeats", "1"]
    command += [
        "--labels",
        "40",
        "--picks",
        "10",
        "--literal",
        "2",
        "--learner",
        "modern",
        "--out",
        str(out),
        "--only",
        "surrogate",
    ]
    picks_time.main([*command, *picks_time.PLAIN])
    rows = json.loads(out.read_text())["results"]
    ours = ["surrogate", "surrogate, rehearsed", "surrogate, literal"]
    assert [row["system"] for row in rows] == [*ours, *picks_time.PLAIN]
    assert all(0 < row["choose_s"] < row["with_predictions_s"] for row in rows)


def test_an_adversary_on_features_is_extrapolated(tmp_path: Path) -> None:
    out = tmp_path / "times.json"
    command = ["--data", str(write_task(tmp_path / "small.npz", n=60)), "--labels", "20"]
    command += [
        "--picks",
        "5",
        "--learner",
        "modern",
        "--iterations",
        "4",
        "--only",
        "vaal",
        "ta_vaal",
        "--on",
        "features",
        "--out",
        str(out),
    ]
    picks_time.main(command)
    vaal, ta_vaal = json.loads(out.read_text())["results"]
    assert vaal["extrapolated"]
    assert [iterations for iterations, _ in vaal["timed"]] == [1, 4]
    assert vaal["iterations"] == 60 * 100 // 128
    assert ta_vaal["iterations"] == (20 + 40) * 100 // 128


def test_differences_are_paired_and_in_points() -> None:
    found = [{"u2": {"accuracy": [0.5, 0.7]}, "u3": {"accuracy": [0.5, 0.7 + gain]}} for gain in (0.01, 0.03)]
    out = lookahead.compared(found, [10, 20])
    assert out["10"]["u3 - u2"]["mean"] == 0.0
    assert out["20"]["u3 - u2"]["values"] == pytest.approx([1.0, 3.0])


def test_both_utilities_label_the_same_pool(tmp_path: Path) -> None:
    out = tmp_path / "lookahead.json"
    command = ["--data", str(write_task(tmp_path / "small.npz")), "--basis", "20", "--repeats", "2"]
    command += [
        "--pool",
        "200",
        "--schedule",
        "20",
        "40",
        "--learner",
        "modern",
        "--candidates",
        "10",
        "--unrestricted",
        "1",
    ]
    lookahead.main([*command, "--out", str(out)])
    report = json.loads(out.read_text())
    assert report["accuracy_points"]["20"]["u3 - u2"]["values"] == [0.0, 0.0]
    assert report["times"]["u3 of all"]["over_u2"] > 0
