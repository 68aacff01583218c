"""Statements of the paper are judged by the rules that are told, on results that are made up."""

import hashlib
import json
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.benchmarks.scripts import PAPER, script
from tests.experiments.made_up import made_up

claims = script("text_claims")
setting = script("claims").setting
BUDGETS = (600, 800, 1000, 2000, 3000, 4000, 5000)


def by_sums_of_ranks(n: int) -> np.ndarray:
    """How likely each sum of positive ranks is by chance, by trying all signs."""
    sums = [sum(rank for rank, sign in enumerate(signs, start=1) if sign) for signs in product((0, 1), repeat=n)]
    return np.bincount(sums) / len(sums)


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
    (found,) = claims.cases([of], [claims.Claim("it is so", ("cifar100",), pairs, (stage,), within)])
    return found


def words(found: Any, older: bool = False) -> str:
    return str(claims.in_full({**asdict(found), "older": older}))


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

    def test_fewer_than_five_repetitions_have_no_p_and_five_cannot_have_a_small_one(self) -> None:
        verdicts = {n: judged(body(repeats=n, ours=5.0), ("ours", "random")) for n in (2, 4, 5, 6)}
        assert [verdicts[n].verdict for n in verdicts] == ["undecided", "undecided", "undecided", "confirmed"]
        assert [verdicts[n].comparisons[0].p for n in verdicts] == [None, None, 2 / 2**5, 2 / 2**6]

    def test_a_single_pair_is_tested_too_and_not_judged_by_its_interval(self) -> None:
        of = body(ours=1.0)
        for repeat, points in {0: -0.1, 1: -0.2, 2: -0.3, 3: -0.4}.items():  # four small losses, six wins
            of.runs["ours"][repeat] = {at: value + points / 100 for at, value in of.runs["random"][repeat].items()}
        (one,) = judged(of, ("ours", "random")).comparisons
        assert one.interval[0] > 0
        assert one.p == pytest.approx(2 * sum(by_sums_of_ranks(10)[: 1 + 2 + 3 + 4 + 1]))
        assert one.verdict == "undecided"

    def test_a_single_pair_is_corrected_for_all_sets_stages_and_heads_of_its_statement(self) -> None:
        of, modern = body(ours=1.0), body(ours=1.0)
        modern = claims.Body("cifar100_features", "modern", modern.runs)
        tiny = claims.Body("tiny_imagenet_features", "paper", body(ours=1.0).runs)
        claim = claims.Claim("so", claims.MANY, (("ours", "random"),), claims.STAGES, family="statement")
        found = list(claims.cases([of, modern, tiny], [claim]))
        assert len(found) == 9
        assert {one.family for case in found for one in case.comparisons} == {9}
        assert found[0].comparisons[0].p_holm == pytest.approx(9 * 2 / 2**10)
        (alone,) = claims.cases([of], [replace(claim, stages=("whole",))])
        assert alone.comparisons[0].p_holm == alone.comparisons[0].p

    def test_level_is_tested_against_the_ends_of_the_margin(self) -> None:
        values = np.linspace(-0.1, 0.3, 10)
        below, above = (claims.signed_rank_p(values - end) for end in (0.5, -0.5))
        assert claims.p_of(values, 0.5) == max(below, above) == 2 / 2**10
        assert claims.p_of(values, 0.2) == claims.signed_rank_p(claims.round_off(values - 0.2))
        assert claims.p_of(values + 1, 0.5) == 2 / 2**10  # all outside

    def test_only_shared_budgets_and_repetitions_count(self) -> None:
        of = body(ours=1.0)
        of.runs["short"] = {i: {at: run[at] for at in BUDGETS[:4]} for i, run in of.runs["random"].items() if i < 6}
        (one,) = judged(of, ("ours", "short")).comparisons
        assert (one.to, one.repeats) == (2000, 6)


class TestRanges:
    def test_a_verdict_says_to_where_it_holds_and_what_the_end_is_like(self) -> None:
        found = judged(body(ours=[0, 5, 5, 5, 2, -1, -1.45]), ("ours", "random"))
        end = found.comparisons[0].end
        assert end == pytest.approx(-1.45, abs=0.02)
        assert words(found) == f"confirmed to 5,000 labels; −{-end:.2f} at the end"
        assert words(found, older=True).endswith("†")

    def test_whole_is_only_what_goes_to_the_end_of_the_papers_range(self) -> None:
        of = body(ours=1.0)
        for runs in of.runs.values():
            for run in runs.values():
                run[11000] = run[5000]
        assert words(judged(of, ("ours", "random"))) == "confirmed to 11,000 labels, the whole range"

    def test_early_and_late_say_their_own_ends(self) -> None:
        of = body(ours=[0, 2, 2, 0, -1, -1, -1])
        assert words(judged(of, ("ours", "random"), stage="early")) == "confirmed to 1,000 labels"
        assert words(judged(of, ("ours", "random"), stage="late")) == "not, to 5,000 labels"

    def test_a_rival_that_ends_before_the_others_is_named(self) -> None:
        of = body(ours=1.0)
        of.runs["short"] = {i: {at: run[at] for at in BUDGETS[:5]} for i, run in of.runs["random"].items()}
        told = words(judged(of, ("ours", "random"), ("ours", "short")))
        assert told.startswith("confirmed to 3,000 (short) or 5,000 labels; +")


class TestFolders:
    def test_a_pair_comes_from_one_folder_that_has_both_and_goes_furthest(self) -> None:
        short, long = body(schedule=BUDGETS[:4], ours=1.0).runs, body(ours=2.0).runs
        of = claims.Body("cifar100", "paper", long, {"short": short, "long": long}, dict.fromkeys(long, "long"))
        (one,) = judged(of, ("ours", "random")).comparisons
        assert (one.to, one.folders) == (5000, ("long",))

    def test_two_folders_are_taken_together_where_they_go_further(self) -> None:
        early, whole = body(schedule=BUDGETS[:4], ours=1.0).runs, body(ours=1.0).runs
        folders = {"both": early, "one": {"ours": whole["ours"]}, "other": {"random": whole["random"]}}
        of = claims.Body("cifar100", "paper", whole, folders, {"ours": "one", "random": "other"})
        (one,) = judged(of, ("ours", "random")).comparisons
        assert (one.to, one.folders) == (5000, ("one", "other"))

    def test_else_from_the_folders_that_have_one_each(self) -> None:
        runs = body(ours=1.0).runs
        folders = {"here": {"ours": runs["ours"]}, "there": {"random": runs["random"]}}
        of = claims.Body("cifar100", "paper", runs, folders, {"ours": "here", "random": "there"})
        (one,) = judged(of, ("ours", "random")).comparisons
        assert one.folders == ("here", "there")


class TestTheFile:
    def test_its_digest_is_the_one_that_was_written_down(self) -> None:
        assert claims.declared().digest == hashlib.sha256((PAPER / "claims.json").read_bytes()).hexdigest()

    def test_a_changed_file_is_refused(self, tmp_path: Path) -> None:
        changed = tmp_path / "claims.json"
        changed.write_text((PAPER / "claims.json").read_text().replace('"within": 0.5', '"within": 5.0'))
        with pytest.raises(claims.ChangedClaimsError, match="take back the change"):
            claims.declared(changed, PAPER / "claims.sha256")

    def test_a_report_that_other_claims_have_judged_is_not_overwritten(self, tmp_path: Path) -> None:
        out = tmp_path / "found.json"
        out.write_text('{"judged_by": {"sha256": "0123456789abcdef"}}')
        with pytest.raises(claims.ChangedClaimsError, match="--new-claims"):
            claims.main([str(PAPER / "cifar10-paper"), "--out", str(out)])
        claims.main([str(PAPER / "cifar10-paper"), "--out", str(out), "--new-claims"])
        assert json.loads(out.read_text())["judged_by"]["sha256"] == claims.DECLARED.digest

    def test_every_statement_has_its_own_name(self) -> None:
        assert len({one.id for one in claims.CLAIMS}) == len({one.says for one in claims.CLAIMS}) == len(claims.CLAIMS)

    def test_strategies_are_the_same_however_they_are_written(self) -> None:
        assert claims.name("surrogate(width=1.0)") == claims.name("surrogate(width=1)") == "surrogate(width=1)"
        assert claims.name("surrogate(noise=1e-10, dtype='float64')") == "surrogate(dtype='float64')"
        assert claims.name("understudy(noise=1e-10)") == "understudy(noise=1e-10)"
        assert claims.name("learning_loss (selection only)") == "learning_loss (selection only)"


class TestNothing:
    def test_nothing_measured_is_told_of_the_papers_learner_only(self) -> None:
        claim = claims.Claim("it is so", ("cifar100",), (("a", "b"),))
        bodies = [claims.Body("cifar100_x", learner) for learner in ("paper", "modern")]
        assert [(one.learner, one.verdict) for one in claims.cases(bodies, [claim])] == [("paper", "not measured")]


def test_cifar10_is_not_taken_for_cifar100() -> None:
    assert claims.is_of(claims.Body("cifar10_resnet50", "paper"), "cifar10")
    assert not claims.is_of(claims.Body("cifar100_resnet50", "paper"), "cifar10")


def test_settings_are_named_as_compare_names_them_and_told_as_factors() -> None:
    assert setting(noise=1e-8, dtype="float64") == "surrogate(noise=1e-08,dtype='float64')"
    names = [setting(width=0.15), setting(output_width=20), "surrogate(basis_size=100)", "surrogate"]
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
