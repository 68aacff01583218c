"""Statements of the paper are judged by the rules that are told, on results that are made up."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.benchmarks.scripts import script
from tests.experiments.made_up import made_up

claims = script("text_claims")
BUDGETS = (600, 800, 1000, 2000, 3000, 4000, 5000)


def body(repeats: int = 10, schedule: tuple[int, ...] = BUDGETS, **ahead: Any) -> Any:
    """Accuracies around a rising curve; `ahead`: points that a strategy is above it, one number or one a budget."""
    rng = np.random.default_rng(0)
    start = rng.normal(0.5, 0.02, (repeats, 1))
    runs = {}
    for name, points in {"random": 0.0, **ahead}.items():
        curve = np.broadcast_to(points, len(BUDGETS))[: len(schedule)]
        values = (
            start + np.linspace(0, 0.2, len(schedule)) + 0.01 * curve + rng.normal(0, 1e-4, (repeats, len(schedule)))
        )
        runs[name] = {i: dict(zip(schedule, row.tolist(), strict=True)) for i, row in enumerate(values)}
    return claims.Body("cifar100_features", "paper", runs)


def judged(of: Any, *pairs: tuple[str, str], stage: str = "whole", within: float | None = None) -> Any:
    return claims.case(claims.Claim("it is so", ("cifar100",), pairs, (stage,), within), of, "cifar100", stage)


class TestStages:
    def test_early_leaves_out_the_first_budget_and_late_starts_at_3000(self) -> None:
        values = np.arange(7.0)[None]
        budgets = np.array(BUDGETS)
        assert claims.at_stage("early", budgets, values) == pytest.approx([1.5])
        assert claims.at_stage("late", budgets, values) == pytest.approx([5.0])
        assert claims.at_stage("change", budgets, values) == pytest.approx([3.5])

    def test_the_whole_is_the_area_over_the_width(self) -> None:
        values = np.array([[0.0, 2.0, 1.0]])
        assert claims.at_stage("whole", np.array([600, 800, 2000]), values) == pytest.approx([(200 + 1800) / 1400])

    def test_curves_that_end_early_have_no_whole_and_no_late(self) -> None:
        values = np.zeros((1, 3))
        assert claims.at_stage("whole", np.array([600, 800, 1000]), values) is None
        assert claims.at_stage("late", np.array([600, 800, 1000]), values) is None


class TestVerdicts:
    def test_ahead_behind_and_too_close_to_tell(self) -> None:
        of = body(better=1.0, worse=-1.0, same=0.0)
        assert judged(of, ("better", "random")).verdict == "confirmed"
        assert judged(of, ("worse", "random")).verdict == "not"
        assert judged(of, ("same", "random")).verdict == "undecided"

    def test_a_lead_that_turns_is_confirmed_early_and_not_late(self) -> None:
        of = body(ours=[0, 2, 2, 0, -1, -1, -1])
        found = [judged(of, ("ours", "random"), stage=stage) for stage in ("early", "late", "change")]
        assert [one.verdict for one in found] == ["confirmed", "not", "not"]
        assert found[0].comparisons[0].mean == pytest.approx(2, abs=0.05)

    def test_level_asks_for_the_whole_interval(self) -> None:
        of = body(near=0.2, far=1.0, edge=0.5)
        assert judged(of, ("near", "random"), within=0.5).verdict == "confirmed"
        assert judged(of, ("far", "random"), within=0.5).verdict == "not"
        assert judged(of, ("edge", "random"), within=0.5).verdict == "undecided"

    def test_one_rival_that_is_ahead_refutes_and_one_that_is_missing_leaves_it_open(self) -> None:
        of = body(ours=1.0, strong=2.0, weak=-1.0)
        assert judged(of, ("ours", "weak"), ("ours", "strong")).verdict == "not"
        assert judged(of, ("ours", "weak"), ("ours", "random")).verdict == "confirmed"
        found = judged(of, ("ours", "weak"), ("ours", "nobody"))
        assert (found.verdict, found.missing) == ("undecided", ("nobody",))

    def test_several_comparisons_are_corrected_by_holm(self) -> None:
        names = [f"rival{i}" for i in range(30)]
        of = body(ours=1.0)
        of.runs.update({name: body(rival=-1.0).runs["rival"] for name in names})
        found = judged(of, *(("ours", name) for name in names))
        assert found.comparisons[0].p_holm == pytest.approx(30 * 2 / 2**10)
        assert found.verdict == "undecided"  # ten repetitions are too few for thirty rivals

    def test_two_repetitions_decide_nothing(self) -> None:
        assert judged(body(repeats=2, ours=5.0), ("ours", "random")).verdict == "undecided"
        assert judged(body(repeats=5, ours=5.0), ("ours", "random")).verdict == "confirmed"

    def test_only_shared_budgets_and_repetitions_count(self) -> None:
        of = body(ours=1.0)
        of.runs["short"] = {i: {at: run[at] for at in BUDGETS[:4]} for i, run in of.runs["random"].items() if i < 6}
        (one,) = judged(of, ("ours", "short")).comparisons
        assert (one.to, one.repeats) == (2000, 6)

    def test_nothing_measured_is_told_of_the_papers_learner_only(self) -> None:
        claim = claims.Claim("it is so", ("cifar100",), (("a", "b"),))
        bodies = [claims.Body("cifar100_x", learner) for learner in ("paper", "modern")]
        assert [(one.learner, one.verdict) for one in claims.cases(bodies, [claim])] == [("paper", "not measured")]


def test_cifar10_is_not_taken_for_cifar100() -> None:
    assert claims.is_of(claims.Body("cifar10_resnet50", "paper"), "cifar10")
    assert not claims.is_of(claims.Body("cifar100_resnet50", "paper"), "cifar10")


def test_settings_are_named_as_compare_names_them_and_told_as_factors() -> None:
    assert claims.setting(noise=1e-8, dtype="float64") == "surrogate(noise=1e-08,dtype='float64')"
    names = [claims.setting(width=0.15), claims.setting(output_width=20), "surrogate(basis_size=100)", "surrogate"]
    assert [claims.short(name) for name in names] == ["σx × 0.3", "σf × 2", "K = 100", "ours"]


def test_the_script_takes_folders_together_and_writes_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, names in (("one", ("surrogate", "badge")), ("other", ("random", "margin"))):
        made = made_up(tmp_path / folder, names, 10, [at // 100 for at in BUDGETS])
        labels = pc.cast(pc.multiply(made.table["labels"], 100), pa.int32())  # the made-up pool is small
        pq.write_table(made.table.set_column(4, "labels", labels), tmp_path / folder / "results.parquet")
        file = tmp_path / folder / "experiment.json"
        settings = json.loads(file.read_text())
        settings["plan"] |= {"dataset": "cifar100", "learner": "paper"}
        file.write_text(json.dumps(settings))
    out = tmp_path / "found.json"
    folders = [str(tmp_path / "one"), str(tmp_path / "other")]
    claims.main([*folders, "--out", str(out)])
    found = {(one["says"], one["stage"]): one for one in json.loads(out.read_text())["claims"]}
    assert found["ours is better than random (appendix)", "late"]["comparisons"][0]["repeats"] == 10
    assert "| ours is better than margin | cifar100 | whole |" in capsys.readouterr().out
