"""The signal-to-noise ratio is the paper's, and a repetition is described by all its readings."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.scripts import script, write_task

snr = script("snr")


def test_noise_of_a_tenth_of_the_signal_is_twenty_decibels() -> None:
    signal = np.random.default_rng(0).dirichlet(np.ones(4), size=50)
    assert snr.decibel(signal, 1.1 * signal) == pytest.approx(20.0)
    off = signal + 0.01
    noise = sum((a - b) ** 2 for row, other in zip(signal, off, strict=True) for a, b in zip(row, other, strict=True))
    power = sum(a**2 for row in signal for a in row)
    assert snr.decibel(signal, off) == pytest.approx(10 * np.log10(power / noise))


def test_a_surrogate_that_is_the_new_network_has_the_best_ratio() -> None:
    rng = np.random.default_rng(1)
    new, old, other = (rng.dirichlet(np.ones(4), size=30) for _ in range(3))
    found = snr.ratios(new + 1e-6, old, old, new, other, new.argmax(1))
    assert found["f^"] > 100 > found["retrained"]
    assert found["old"] == found["f again"]
    assert found["same class as f': f^"] == found["true class: f'"] == 1.0
    assert found["softmax f^"] < 10 < found["softmax f^ against softmax f'"]


def test_the_script_writes_what_it_found(tmp_path: Path) -> None:
    out = tmp_path / "snr.json"
    command = ["--data", str(write_task(tmp_path / "small.npz")), "--basis", "20", "--repeats", "2"]
    command += ["--schedule", "30", "60", "--picks", "20", "--learners", "modern", "--out", str(out)]
    snr.main(command)
    (result,) = json.loads(out.read_text())["results"]
    assert all(len(found["values"]) == 2 for found in result["found"].values())
    assert result["found"]["retrained"]["mean"] > 0
