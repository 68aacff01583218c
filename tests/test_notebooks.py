"""The notebooks run, draw their pictures, and what they say of their results is so."""

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"


@pytest.fixture(autouse=True)
def _drawn_in_memory() -> Iterator[None]:
    with mpl.rc_context():
        plt.switch_backend("agg")
        yield
        plt.close("all")


def run(name: str) -> dict[str, Any]:
    return runpy.run_path(str(NOTEBOOKS / f"{name}.py"))


def test_choose_what_to_label_asks_for_what_the_model_gets_wrong_and_beats_random() -> None:
    names = run("choose_what_to_label")
    assert len(plt.get_fignums()) == 3
    assert len(names["loop"].labelled) == 40
    assert len(names["mistaken"]) / 20 > 2 * names["everywhere"]
    assert names["lead"].mean() > 2


def test_compare_strategies_finds_the_default_ahead_and_draws_it() -> None:
    names = run("compare_strategies")
    assert len(plt.get_fignums()) == 1
    curves, found = names["curves"], names["against_margin"]
    start = curves.of("random")[:, 0]
    assert all((values[:, 0] == start).all() for values in curves.accuracy.values()), "nobody has chosen anything yet"
    assert found.area.interval[0] > 0
    assert found.p_holm < 0.05
    assert names["ranks"].names[names["ranks"].average.argmin()] == "understudy"


def test_your_own_model_is_better_with_the_rows_that_were_asked_for() -> None:
    names = run("your_own_model")
    assert len(plt.get_fignums()) == 2
    random = names["random"].mean(axis=0)
    assert names["accuracies"][-1] > random[-1]
    assert sum(names["accuracies"]) > random.sum()


def test_every_notebook_is_tested_here() -> None:
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert all(any(name.startswith(file.stem) for name in tested) for file in NOTEBOOKS.glob("*.py"))
