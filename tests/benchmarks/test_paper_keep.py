"""What is kept of a comparison is small, tells of no machine, and makes the same tables; sweeps are paired."""

import json
from pathlib import Path

import numpy as np

from tests.benchmarks.scripts import script
from tests.experiments.made_up import made_up
from understudy.experiments.results import Results

keep = script("keep")
figures = script("figures")
text_claims = script("text_claims")


def test_what_is_kept_has_all_but_the_picks(tmp_path: Path) -> None:
    full = made_up(tmp_path / "run")
    keep.main([str(tmp_path / "run"), "--into", str(tmp_path / "kept")])
    small = Results.open(tmp_path / "kept" / "run")
    for name in ("strategy", "repeat", "labels", "accuracy", "class_counts", "asked_accuracy"):
        assert small.table[name].to_pylist() == full.table[name].to_pylist()
    assert small.table.schema.equals(full.table.schema)
    assert set(map(len, small.table["picks"].to_pylist())) == {0}
    assert small.settings["source"] == "pool.npz"
    assert small.settings["note"] == keep.SEVERAL
    assert small.timings.equals(full.timings)
    kept = {file.name for file in (tmp_path / "kept" / "run").iterdir()}
    assert kept == {"experiment.json", "results.parquet", "timings.parquet", "tables"}
    assert json.loads((tmp_path / "kept" / "run" / "experiment.json").read_text())["plan"] == full.settings["plan"]


def test_a_sweep_takes_the_repetitions_and_budgets_that_all_have() -> None:
    setting = "surrogate(width=0.15)"
    runs = {
        "surrogate": {0: {600: 0.5, 800: 0.6, 1000: 0.7}, 1: {600: 0.4, 800: 0.5}},
        setting: {1: {600: 0.4, 800: 0.55}, 2: {600: 0.1}},
    }
    curves = figures.sweep(text_claims.Body("cifar10", "paper", runs), "width", [setting])
    assert curves.schedule == (600, 800)
    assert np.array_equal(curves.accuracy["ours"], [[0.4, 0.5]])
    assert np.array_equal(curves.accuracy["σ × 0.3"], [[0.4, 0.55]])
