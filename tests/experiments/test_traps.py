"""What the traps are for: uncertainty falls into one, covering into the other. The failures that the page predicts."""

from pathlib import Path

import pytest

from understudy.experiments.compare import compare
from understudy.experiments.curves import Curves

SCHEDULE = (20, 40, 80, 160, 320)


def curves_of(out: Path, name: str, *strategies: str) -> Curves:
    comparison = compare(name, strategies, out=out, repeats=5, schedule=SCHEDULE, learner="quick", controls=False)
    outcome = comparison.run(jobs=1, progress=False)
    assert outcome.failed == {}
    return outcome.results.curves()


@pytest.fixture(scope="module")
def honeypot(tmp_path_factory: pytest.TempPathFactory) -> Curves:
    return curves_of(tmp_path_factory.mktemp("honeypot"), "honeypot", "margin", "entropy", "random", "typiclust")


@pytest.mark.parametrize("name", ["margin", "entropy"])
def test_uncertainty_falls_into_the_honeypot(honeypot: Curves, name: str) -> None:
    lost = honeypot.area("random") - honeypot.area(name)
    assert lost.mean() > 0.05
    assert (lost > 0).sum() >= 4
    assert (honeypot.of("random") - honeypot.of(name))[:, -1].mean() > 0.1  # at the end most of all


def test_what_does_not_ask_for_doubt_stays_out_of_it(honeypot: Curves) -> None:
    assert (honeypot.area("typiclust") - honeypot.area("margin")).mean() > 0.05


def test_covering_is_led_astray_by_waves_that_diverge(tmp_path: Path) -> None:
    found = curves_of(tmp_path, "diverging_sine", "coreset", "random")
    lost = found.area("random") - found.area("coreset")
    assert lost.mean() > 0.02
    assert (lost > 0).sum() >= 4
