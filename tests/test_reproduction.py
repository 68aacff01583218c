"""Figures on the page about the paper are those of the kept results, and nothing kept tells of a machine."""

import json
import re
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from tests.benchmarks.scripts import PAPER, script
from understudy.experiments.report import write_report
from understudy.experiments.results import CEILING, Results

page = script("page")
table_on = script("page_tables").table_on
text_claims = script("text_claims")
FOLDERS = sorted(file.parent for file in PAPER.glob("*/experiment.json"))
REPORTED = [folder for folder in FOLDERS if folder.name != "sweep-cifar10"]


@pytest.fixture(scope="module")
def text() -> str:
    return str(page.PAGE.read_text())


@pytest.mark.parametrize("name", list(page.TABLES))
def test_a_table_of_the_page_is_what_the_files_say(text: str, name: str) -> None:
    assert table_on(text, name) == page.TABLES[name](), "run python benchmarks/paper/page.py"


def test_the_verdicts_are_those_of_the_kept_results() -> None:
    kept = json.loads((PAPER / "results" / "text_claims.json").read_text())
    found = text_claims.report_of(text_claims.read(FOLDERS))
    assert [one["verdict"] for one in kept["claims"]] == [one["verdict"] for one in found["claims"]]


def test_words_of_the_page_agree_with_the_files(text: str) -> None:
    by = {
        (one["says"], one["dataset"], one["stage"]): one
        for one in page.kept("text_claims")["claims"]
        if one["learner"] == "paper"
    }
    leads = []
    for name in text_claims.MANY:
        early, late = (by[page.BEST, name, stage] for stage in ("early", "late"))
        assert early["verdict"] == "confirmed"
        assert late["verdict"] == "not"
        leads.append(min(one["mean"] for one in early["comparisons"]))
    assert f"by {leads[0]:.1f} to {leads[1]:.1f} points" in " ".join(text.split())
    for name in text_claims.MANY:
        results = Results.open(PAPER / f"{name}-paper")
        last = {who: results.curves([who]).accuracy[who][:, -1].mean() for who in page.SYSTEMS}
        assert last["surrogate"] < min(last[who] for who in ("badge", "margin", "random"))
    (body,) = text_claims.read([PAPER / "cifar10-paper", PAPER / "sweep-cifar10"])
    shared = text_claims.differences(body, "surrogate(dtype='float64')", "surrogate")
    assert shared is not None
    assert np.array_equal(shared[1], np.zeros_like(shared[1]))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_kept_results_are_small_and_of_no_machine(folder: Path) -> None:
    results = Results.open(folder)
    assert results.settings["source"] == Path(results.settings["source"]).name
    assert set(map(len, results.table["picks"].to_pylist())) == {0}
    assert (folder / "results.parquet").stat().st_size < 400_000
    for file in [*folder.rglob("*.json"), *folder.rglob("*.md")]:
        assert not re.search(r"/(work|tmp|home|root)/|scratch/", file.read_text()), file


def test_kept_figures_are_of_no_machine() -> None:
    for file in (PAPER / "results").glob("*.json"):
        assert not re.search(r"/(work|tmp|home|root)/|scratch/", file.read_text()), file


@pytest.mark.parametrize("folder", REPORTED, ids=lambda folder: folder.name)
def test_the_report_can_be_made_from_what_is_kept(folder: Path, tmp_path: Path) -> None:
    again = copytree(folder, tmp_path / folder.name)
    results = Results.open(again)
    assert CEILING in results.strategies
    assert "surrogate" in write_report(results, with_figures=False).read_text()
    assert (again / "tables" / "curves.md").read_text() == (folder / "tables" / "curves.md").read_text()
