"""Figures on the page about the default are those of the kept results, and so are its sentences."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.scripts import DEFAULT, script

page = script("default_page")
table_on = script("page_tables").table_on
README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.fixture(scope="module")
def text() -> str:
    return str(page.PAGE.read_text())


@pytest.mark.parametrize("name", list(page.TABLES))
def test_a_table_of_the_page_is_what_the_files_say(text: str, name: str) -> None:
    assert table_on(text, name) == page.TABLES[name](), "run python benchmarks/default/default_page.py"


def test_from_600_labels_on_nobody_is_ahead_at_any_budget() -> None:
    played = [curves for name in page.of_study("curves") if (curves := page.curves_of(name)) is not None]
    assert len(played) == 8
    for curves in played:
        rivals = [name for name in curves.accuracy if name != page.OURS]
        for i in range(1, len(curves.schedule)):
            assert curves.of(page.OURS)[:, i].mean() > max(curves.of(name)[:, i].mean() for name in rivals)


def test_the_leads_that_the_readme_names_are_those_of_the_files() -> None:
    few: list[float] = []
    many: list[float] = []
    badge: list[float] = []
    for name in page.of_study("curves"):
        curves = page.curves_of(name)
        if curves is None:
            continue
        areas = {rival: 100 * float(curves.area(rival).mean()) for rival in curves.accuracy}
        ours = areas.pop(page.OURS)
        (many if "100" in name or "tiny" in name else few).append(ours - max(areas.values()))
        badge.append(ours - areas["badge"])
    said = (
        "The best other one is {:.1f} to {:.1f} points behind where there are ten classes and {:.1f} to {:.1f} where "
    )
    said += "there are a hundred or two, BADGE {:.1f} to {:.1f}."
    found = said.format(min(few), max(few), min(many), max(many), min(badge), max(badge))
    assert found in " ".join(README.split())


def test_up_to_two_labels_a_class_others_are_ahead_and_the_page_says_by_how_much() -> None:
    gaps = []
    for name, c in (("fashion_mnist", 10), ("cifar10", 10), ("cifar100", 100), ("tiny_imagenet", 200)):
        curves = page.curves_of(f"nothing-{name}-modern")
        rivals = [rival for rival in curves.accuracy if rival != page.OURS]
        ahead = curves.of(page.OURS).mean(0) - np.max([curves.of(rival).mean(0) for rival in rivals], axis=0)
        few = np.array(curves.schedule) <= 2 * c
        gaps.append(-100 * ahead[few].min())
        assert (ahead[np.array(curves.schedule) >= 8 * c] > 0).all() or c == 200
    assert 1 < min(gaps) < max(gaps) < 4.5


def test_the_kept_results_tell_of_no_machine() -> None:
    kept = sorted(DEFAULT.glob("results/*/experiment.json"))
    assert len(kept) > 20
    for file in kept:
        told = json.loads(file.read_text())
        assert "/" not in told["source"]
        assert "/" not in json.dumps(told["plan"])
