"""Numbers of the pages come out again in code that shares nothing with the harness, and a wrong one is seen."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.scripts import PAPER, script
from understudy.experiments.curves import Curves
from understudy.experiments.statistics import holm_correction, rising_curve, signed_rank_p

recompute = script("recompute")


def test_it_imports_nothing_of_the_package_nor_of_the_other_scripts() -> None:
    trees = [ast.parse(file.read_text()) for file in PAPER.glob("recompute*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    others = {file.stem for folder in (PAPER, PAPER.parent, PAPER.with_name("default")) for file in folder.glob("*.py")}
    others -= {"recompute_statistics"}
    assert not {name.partition(".")[0] for name in names} & {"understudy", *others}


def test_every_number_of_the_pages_comes_out_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert recompute.main([]) == 0, "run python benchmarks/paper/recompute.py"
    said = capsys.readouterr().out.split()
    assert int(said[0]) > 4000
    assert said[-2:] == ["0", "differ"]


@pytest.mark.parametrize(
    ("right", "wrong"), [("−1.23 [−1.43, −1.03]", "−1.23 [−1.43, −1.04]"), ("p = 0.055", "p = 0.045")]
)
def test_a_misprint_ends_with_an_error(right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (recompute.DOCS / "paper-reproduction.md").read_text()
    assert right in text
    (tmp_path / "paper-reproduction.md").write_text(text.replace(right, wrong))
    monkeypatch.setattr(recompute, "DOCS", tmp_path)
    assert not all(one.agrees for one in recompute.statements())


@pytest.mark.parametrize(
    ("printed", "found", "agrees"),
    [
        ("+0.00", -0.0026, False),
        ("−0.00", -0.0026, True),
        ("0.00", -0.0026, False),
        ("0.00", 0.0, True),
        ("+0.17", 0.1651, True),
        ("+0.17", 0.1749, True),
        ("+0.17", 0.1651 - 0.0002, False),
        ("1,484", 1484.4, True),
        ("confirmed", "undecided", False),
    ],
)
def test_a_number_agrees_to_its_last_digit_and_in_its_sign(printed: str, found: float | str, agrees: bool) -> None:
    assert recompute.Check("here", "this", printed, found).agrees is agrees


@pytest.mark.parametrize("seed", range(5))
def test_its_statistics_are_those_of_the_package_by_another_way(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(0.3, 1, 9), 1)  # with ties, and zeros now and then
    assert recompute.signed_ranks(values) == pytest.approx(signed_rank_p(values))
    p = np.round(rng.uniform(0, 0.2, 6), 2)
    assert recompute.holm(p.tolist()) == pytest.approx(holm_correction(p).tolist())
    curve = rng.uniform(0.4, 0.9, (1, 8))
    curves = Curves("made up", tuple(range(100, 900, 100)), {"one": curve})
    assert recompute.never_falling(curve[0]) == pytest.approx(rising_curve(curves, "one").tolist())
    at = np.cumsum(rng.integers(1, 9, 8)).tolist()
    assert recompute.area(curve, at)[0] == pytest.approx(np.trapezoid(curve[0], at) / (at[-1] - at[0]))
    assert math.isclose(recompute.interval(values)[0], values.mean())
