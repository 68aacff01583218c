"""What results come to: the runs that can be compared, the notes on the others, and a learner that learnt nothing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.experiments.made_up import made_up
from tests.experiments.small import dataset
from understudy.errors import UnderstudyError
from understudy.experiments import statistics
from understudy.experiments.compare import compare
from understudy.experiments.curves import Curves
from understudy.experiments.report import write_report
from understudy.experiments.results import Results
from understudy.experiments.summary import left_chance_at, never_left_chance, summarise, untested_classes
from understudy.experiments.tables import comparison_grid, comparison_table
from understudy.learners.heads import Head
from understudy.learners.training import Recipe
from understudy.strategies.random_rows import Random
from understudy.strategies.view import Picks, PoolView

STUCK = Head(hidden=(4,), recipe=Recipe("sgd", 1e-12, epochs=1))


def judged(results: Results, learner: str, best: float, share: float, test_rows: int = 10_000) -> str | None:
    """What is said if no accuracy is above this one."""
    at = results.table.schema.get_field_index("accuracy")
    who = results.table["strategy"].to_pylist()
    # The learner with all labels does not count: nobody chose these.
    capped = [0.9 if name == "ceiling" else best for name in who]
    settings = {**results.settings, "largest_class": share}
    settings["plan"] = {**settings["plan"], "learner": learner, "test_rows": test_rows}
    table = results.table.set_column(at, "accuracy", pa.array(capped))
    return never_left_chance(replace(results, settings=settings, table=table))


@pytest.mark.parametrize(
    ("best", "share", "test_rows", "is_stuck"),
    [
        (0.010, 0.010, 10_000, True),
        (0.029, 0.010, 10_000, True),  # significant, and still of no use
        (0.031, 0.010, 10_000, False),
        (0.500, 0.500, 10_000, True),
        (0.540, 0.500, 10_000, False),
        (0.690, 0.500, 100, True),  # four standard errors are 20 points
        (0.710, 0.500, 100, False),
        (0.100, 0.300, 10_000, True),  # below chance is not above it
    ],
)
def test_chance_is_left_by_more_than_luck_and_by_more_than_nothing(
    tmp_path: Path, best: float, share: float, test_rows: int, is_stuck: bool
) -> None:
    said = judged(made_up(tmp_path), "paper", best, share, test_rows)
    assert (said is not None) == is_stuck
    assert (best <= left_chance_at(share, test_rows)) == is_stuck


def test_guesses_do_not_leave_chance_in_a_thousand_tries() -> None:
    rng = np.random.default_rng(0)
    for share, rows in ((0.01, 10_000), (0.1, 360), (0.5, 1_000)):
        assert (rng.binomial(rows, share, 1_000) / rows).max() <= left_chance_at(share, rows)


def test_the_line_names_the_learner_and_others_to_try(tmp_path: Path) -> None:
    results, rows = made_up(tmp_path), 10_000
    assert judged(results, "paper", 0.012, 0.01) == (
        "The learner paper was never clearly better than chance: at best 1.2 % right. The largest class alone is "
        f"1.0 %, and with {rows:,} test items up to {100 * left_chance_at(0.01, rows):.1f} % can be luck. The "
        "choice of rows cannot matter then; try --learner paper_scaled or modern."
    )
    assert str(judged(results, "modern", 0.012, 0.01)).endswith("try --learner paper_scaled.")
    assert never_left_chance(results) is None
    assert str(judged(results, "modern", 0.9, 0.9)).endswith(
        "Accuracy hardly counts the other classes; try --metric balanced_accuracy or --learner paper_scaled."
    )


def test_a_comparison_ends_with_that_line_and_only_where_it_is_true(tmp_path: Path) -> None:
    for learner, stuck in (("STUCK", True), ("QUICKLY", False)):
        module = "tests.experiments.test_summary" if stuck else "tests.experiments.small"
        prepared = compare(
            dataset(), ["random"], out=tmp_path / learner, repeats=1, schedule=[9, 30], learner=f"{module}:{learner}"
        )
        results = prepared.run(jobs=1, progress=False).results
        labels = prepared.task.experiment.bench.test_labels
        assert results.settings["largest_class"] == np.bincount(labels).max() / len(labels)
        assert any("never clearly better than chance" in note for note in summarise(results).notes) == stuck


def test_context_does_not_decide_what_is_compared(tmp_path: Path) -> None:
    names = ["surrogate", "margin", "random", "margin_x10"]
    results = made_up(tmp_path, names, repeats=6, ended={"margin_x10": 5})
    found = summarise(results).findings
    assert found is not None
    assert list(found.curves.accuracy) == ["surrogate", "margin", "random"]
    assert found.curves.repeats == 6
    whole = summarise(made_up(tmp_path / "whole", names, repeats=6)).findings
    assert whole is not None
    assert "margin_x10" in whole.curves.accuracy


def test_repetitions_that_are_not_used_are_named(tmp_path: Path) -> None:
    summary = summarise(made_up(tmp_path, repeats=6, ended={"margin": 5}))
    assert summary.findings is not None
    assert summary.findings.curves.repeats == 5
    assert (
        "5 repetitions compared, those that all strategies have; more of surrogate, random are finished but "
        "not used." in summary.notes
    )
    assert not any("not used" in note for note in summarise(made_up(tmp_path / "b", repeats=6)).notes)


def test_who_failed_is_not_called_unfinished(tmp_path: Path) -> None:
    results = made_up(tmp_path, repeats=4, ended={"margin": 1}, wanted=["surrogate", "margin", "random", "my:own/one"])
    (tmp_path / "errors").mkdir()
    for name in ("margin-0", "margin-2", "my%3Aown%2Fone-0", "surrogate-1"):
        (tmp_path / "errors" / f"{name}.txt").write_text("Traceback")
    notes = summarise(results).notes
    assert f"margin failed, with 1 of 4 repetitions done; see {tmp_path}/errors/margin-2.txt." in notes
    assert f"my:own/one failed, with 0 of 4 repetitions done; see {tmp_path}/errors/my%3Aown%2Fone-0.txt." in notes
    assert not any("to continue" in note or "surrogate failed" in note for note in notes)


def test_who_failed_is_called_failed_in_notes_and_table_with_the_reason(tmp_path: Path) -> None:
    results = made_up(tmp_path, repeats=2, wanted=["surrogate", "margin", "random", "badge", "entropy", "coreset"])
    (tmp_path / "errors").mkdir()
    trace = "Traceback (most recent call last):\n  File x\nmine.errors.OddError: this cannot\nwork: twice"
    (tmp_path / "errors" / "badge-0.txt").write_text(trace)
    ours = "Traceback\nunderstudy.errors.UsageError: too few rows; label 20 or more"
    (tmp_path / "errors" / "entropy-0.txt").write_text(ours)
    summary = summarise(results)
    notes = " ".join(summary.notes)
    assert "badge failed, with 0 of 2 repetitions done: OddError: this cannot; see " in notes
    assert "entropy failed, with 0 of 2 repetitions done: too few rows; label 20 or more; see " in notes
    assert "Unfinished, in repetitions: coreset 0 of 2." in notes
    found = summary.findings
    assert found is not None
    assert found.failed == ("badge", "entropy")
    for full in (True, False):
        grid = comparison_grid(found.curves, full=full, failed=found.failed)
        assert [row[0] for row in grid.apart] == ["badge", "entropy"]
        assert all(row[grid.headings.index("minus random")] == "failed" for row in grid.apart)
        assert {len(row) for row in (*grid.rows, *grid.apart)} == {len(grid.headings)}


def test_an_error_of_ours_is_a_failure_too(tmp_path: Path) -> None:
    picky = "tests.experiments.test_summary:Picky"
    learner = "tests.experiments.small:QUICKLY"
    prepared = compare(
        dataset(), ["random", picky], out=tmp_path, repeats=1, schedule=[9, 14], learner=learner, controls=False
    )
    outcome = prepared.run(jobs=1, progress=False)
    (told,) = outcome.failed.values()
    assert told.startswith("nothing is good enough; give it better rows (")
    assert told.endswith(", in select)")
    notes = summarise(outcome.results).notes
    assert any(
        f"{picky} failed, with 0 of 1 repetitions done: nothing is good enough; give it better rows" in note
        for note in notes
    )


class Picky(Random):
    """A strategy that refuses."""

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        raise UnderstudyError("nothing is good enough; give it better rows")


def test_classes_that_the_test_set_lacks_are_named(tmp_path: Path) -> None:
    results = made_up(tmp_path, classes=("cat", "dog", "owl", "bee", "elk", "fox"))
    assert untested_classes(results) is None

    def lacking(*absent: int) -> str:
        at = results.table.schema.get_field_index("class_accuracy")
        values = [[None if i in absent else 0.5 for i in range(6)]] * len(results.table)
        column = pa.array(values, results.table.schema.field(at).type)
        made = replace(results, table=results.table.set_column(at, "class_accuracy", column))
        (said,) = [note for note in summarise(made).notes if "test set" in note]
        assert set(made.curves(metric="balanced_accuracy").of("random").ravel()) == {0.5}
        return said

    assert lacking(1).startswith("The test set has no item of dog, so no metric says how well it is predicted")
    assert "no item of cat, dog, owl and 2 more, so no metric says how well they are" in lacking(0, 1, 2, 4, 5)


def test_what_is_said_once_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(curves: Curves, reference: str | None = None) -> tuple[statistics.PairedComparison, ...]:
        asked.append(str(reference))
        return statistics.compare(curves, reference)

    monkeypatch.setattr("understudy.experiments.summary.compare", counted)
    monkeypatch.setattr("understudy.experiments.tables.compare", counted)
    results = made_up(tmp_path)
    summary = summarise(results)
    assert summary.findings is not None
    comparison_table(summary.findings.curves, comparisons=summary.findings.comparisons)
    write_report(results, summary=summary, with_figures=False)
    assert asked == ["random"]
