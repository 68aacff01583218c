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
from understudy.experiments.statistics import holm_correction

page = script("page")
table_on = script("page_tables").table_on
text_claims = script("text_claims")
FOLDERS = sorted(file.parent for file in PAPER.glob("*/experiment.json"))
# Others were run for single statements: a sweep, one strategy, or budgets beyond the first ones.
REPORTED = [folder for folder in FOLDERS if folder.name.endswith(("-paper", "-modern")) and folder.name.count("-") == 1]


@pytest.fixture(scope="module")
def text() -> str:
    return str(page.PAGE.read_text())


@pytest.mark.parametrize("name", list(page.TABLES))
def test_a_table_of_the_page_is_what_the_files_say(text: str, name: str) -> None:
    assert table_on(text, name) == page.TABLES[name](), "run python benchmarks/paper/page.py"


def test_the_verdicts_are_those_of_the_kept_results() -> None:
    kept = json.loads((PAPER / "results" / "text_claims.json").read_text())
    found = text_claims.report_of(text_claims.read(FOLDERS))
    assert kept["judged_by"] == found["judged_by"]
    assert [text_claims.in_full(one) for one in kept["claims"]] == [text_claims.in_full(one) for one in found["claims"]]


def test_every_verdict_on_the_page_says_to_where_it_holds(text: str) -> None:
    rows = [
        row.split(" | ")
        for name in ("text of the paper", "beside the text")
        for row in table_on(text, name).split("\n")
    ]
    verdicts = [
        row[-1].removesuffix(" |") for row in rows[2:] if row[-1].startswith(("confirmed", "not,", "undecided"))
    ]
    assert len(verdicts) > 100
    assert all(re.search(r"to (\d[\d,]* \([^)]*\) or )?\d[\d,]* labels", verdict) for verdict in verdicts)
    assert not any("whole range" in verdict and "to 11,000" not in verdict for verdict in verdicts)


def test_what_the_page_says_of_families_is_so(text: str) -> None:
    kept = [one for one in page.kept("text_claims")["claims"] if one["id"] == "blind"]
    p = {(one["dataset"], one["learner"], one["stage"]): one["comparisons"][0]["p"] for one in kept}

    def early_below(family: list[tuple[str, str, str]]) -> int:
        corrected = dict(zip(family, holm_correction(np.array([p[key] for key in family])), strict=True))
        return sum(corrected[key] < 0.05 for key in family if key[1:] == ("paper", "early"))

    assert len(p) == 15
    assert early_below(list(p)) == 1
    assert early_below([key for key in p if key[1] == "paper"]) == 2
    assert early_below([key for key in p if key[1:] == ("paper", "early")]) == 2
    assert "with the fifteen comparisons of both heads the second has p = 0.055" in " ".join(text.split())


def test_words_of_the_page_agree_with_the_files(text: str) -> None:
    by = {
        (one["id"], one["dataset"], one["stage"]): one
        for one in page.kept("text_claims")["claims"]
        if one["learner"] == "paper"
    }
    leads = []
    for name in text_claims.MANY:
        early, late = (by["best", name, stage] for stage in ("early", "late"))
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


def test_runs_to_the_end_are_taken_up_when_their_folders_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "HERE", tmp_path)
    assert page.long_curves() == "No run has gone so far yet."
    copytree(PAPER / "cifar10-paper", tmp_path / "long-cifar10-paper")
    title, _, heads, *_ = page.long_curves().split("\n")
    assert title == "**CIFAR-10**, 10 repetitions"
    assert heads == "|  | 1,000 | 3,000 | 5,000 | ours minus it at 5,000 |"  # as far as it goes
    rows = {row.split(" | ")[0].strip("| "): row for row in page.long_curves().split("\n")[4:]}
    assert "core_gcn" not in rows  # it did not come to the end
    assert "surrogate" in rows
