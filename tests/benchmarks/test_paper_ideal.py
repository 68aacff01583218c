"""The ideal run is what it says, and shares of a gap and of a batch are what they say."""

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.scripts import script

ideal = script("ideal")


def test_the_share_of_a_gap_is_of_the_means_and_lies_in_its_interval() -> None:
    gap = np.array([0.02, 0.03, 0.025, 0.035])
    share, (low, high) = ideal.share_closed(gap / 2 + [0.001, -0.001, 0.002, -0.002], gap, seed=0)
    assert share == pytest.approx(0.5)
    assert low < 0.5 < high
    assert ideal.share_closed(gap, gap, seed=0) == (pytest.approx(1), (pytest.approx(1), pytest.approx(1)))


def test_there_is_no_share_of_a_gap_that_may_be_nothing() -> None:
    assert ideal.share_closed(np.ones(4), np.array([0.01, -0.01, 0.02, -0.02]), seed=0) is None
    assert ideal.share_closed(np.ones(4), np.full(4, -0.1), seed=0) is None
    assert ideal.share_closed(np.ones(1), np.ones(1), seed=0) is None


def test_a_batch_shares_what_is_among_the_rows_that_follow() -> None:
    assert ideal.shared(np.array([4, 8, 1, 7]), np.array([1, 2, 3, 4, 5])) == 0.5


def test_the_ideal_takes_the_least_certain_row_after_every_training() -> None:
    task = ideal.digits()
    given = argparse.Namespace(repeats=2, seed=3, last=22)
    rows = ideal.labelled_by(task, "margin", 1, given)
    assert rows.shape == (2, 22)
    for n in (20, 21):
        for repeat, (model,) in enumerate(zip(*ideal.trained(task, rows[:, :n], 3, [0]), strict=True)):
            first, second = np.sort(model.predict_proba(task.X), axis=1)[:, [-1, -2]].T
            difference = first - second
            difference[rows[repeat, :n]] = np.inf
            assert difference[rows[repeat, n]] == difference.min()
    batches = ideal.labelled_by(task, "margin", 20, given)
    np.testing.assert_array_equal(batches[:, :21], rows[:, :21])  # same initial labels, same learner, same first pick


def test_a_small_run_reports_curves_gaps_and_overlaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ideal, "LEARNER", ideal.Head((8,), recipe=ideal.Recipe(epochs=2)))
    monkeypatch.setattr(ideal, "STATES", (20,))
    whole = ideal.digits()
    small = ideal.Task("digits", whole.X[:120], whole.y[:120], whole.Xt, whole.yt, whole.n_classes)
    monkeypatch.setattr(ideal, "digits", lambda: small)
    out = tmp_path / "found.json"
    ideal.main(["--repeats", "2", "--judges", "1", "--last", "60", "--out", str(out)])
    found = json.loads(out.read_text())
    starts = {each["values"][0][0] for each in found["accuracy"].values()}
    assert len(starts) == 1  # all start from the same labels and are judged by the same learner
    assert [each["ideal"] for each in found["gaps"]] == ["margin after every label", "entropy after every label"]
    for shares in found["overlap"].values():
        assert all(each["20"]["mean"] <= each["40"]["mean"] <= 1 for each in shares.values())
