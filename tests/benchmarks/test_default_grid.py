"""The grid of the default's studies: what is cut goes on, what is packed comes back, and all of it makes one result."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks.scripts import DEFAULT, script, write_task
from tests.experiments.small import same_of
from understudy.experiments.results import Results
from understudy.experiments.specs import strategy_of

prepare, studies, rounds, grid, merge = map(script, ("prepare", "studies", "rounds", "grid", "merge"))
LATER = 1e18


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A study of three strategies, one of them in two blocks, on 400 rows."""
    (tmp_path / "data").mkdir()
    write_task(tmp_path / "data" / f"{prepare.SETS['reviews']}.npz")
    monkeypatch.setitem(studies.STUDIES, "small", lambda: iter(small_jobs()))
    for name in ("claims", "notes"):
        (tmp_path / "store" / name).mkdir(parents=True)
    return grid.Options(tmp_path / "data", tmp_path / "store", tmp_path / "out", ("small",))


def small_jobs() -> Iterator[Any]:
    for strategy, blocks in (("margin", ((0, 1),)), ("understudy(basis_size=20)", ((0,), (1,))), ("random", ((0, 1),))):
        for repeats in blocks:
            yield studies.Job("small", "reviews", "quick", strategy, (6, 10, 16), repeats)


def all_rounds(options: Any, store: Path | None = None) -> dict[tuple[str, int, int], dict[str, Any]]:
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
    for job in small_jobs():
        plan = grid.plan_for(job, options.data, False)
        for of_round in rounds.read_rounds(store or options.store, job, plan):
            found |= {(one.strategy, one.repeat, one.round): same_of(replace(one, scores=None)) for one in of_round}
    return found


def test_a_job_that_was_cut_after_every_round_goes_on_to_the_same_result(options: Any, tmp_path: Path) -> None:
    whole = replace(options, store=tmp_path / "whole")
    for job in small_jobs():
        assert grid.play_job(job, whole, LATER) == 3
        for _ in range(3):
            assert grid.play_job(job, options, 0.0) == 1
        assert grid.play_job(job, options, 0.0) == 0
    assert all_rounds(options) == all_rounds(whole)
    assert len(all_rounds(whole)) == 18


def test_a_round_that_would_not_end_in_time_is_not_begun(options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 10))  # every round seems to take ten seconds
    monkeypatch.setattr(grid.time, "time", lambda: next(now))
    job = next(small_jobs())
    assert grid.growth(job.schedule, 2) == 1.5
    assert grid.play_job(job, replace(options, grace=5.0), 25.0) == 2  # 20 + 1.5 * 10 > 25 + 5


def test_a_round_comes_back_as_it_was_without_its_scores(options: Any) -> None:
    job = next(small_jobs())
    grid.play_job(job, options, LATER)
    plan = grid.plan_for(job, options.data, False)
    first, second, _ = rounds.read_rounds(options.store, job, plan)
    assert first[1].picks == plan.initial_rows(1).tolist()  # left out of the file
    assert first[1].was_right is None
    assert len(second[0].picks) == len(second[0].was_right) == 4
    assert rounds.packed(second, plan) == rounds.packed(rounds.unpacked(rounds.packed(second, plan), plan), plan)


def test_what_is_packed_is_small_files_and_what_is_begun_is_apart(options: Any, tmp_path: Path) -> None:
    jobs = list(small_jobs())
    for job in jobs[:-1]:
        grid.play_job(job, options, LATER)
    grid.play_job(jobs[-1], options, 0.0)
    size = 6000
    rounds.pack(options.store, jobs, options.out, size)
    archives = sorted(options.out.glob("finished-*.zip"))
    assert len(archives) > 1
    assert all(file.stat().st_size < size + 2000 for file in archives)
    assert rounds.unpack([options.out / rounds.UNFINISHED], tmp_path / "begun") == 1
    assert rounds.unpack(archives, tmp_path / "begun") == 9
    assert rounds.unpack(archives, tmp_path / "begun") == 0
    assert all_rounds(options, tmp_path / "begun") == all_rounds(options)


def test_a_process_plays_what_nobody_else_does_and_tells_what_failed(options: Any, monkeypatch: Any) -> None:
    jobs = [*small_jobs(), studies.Job("small", "reviews", "quick", "margin(nonsense=1)", (6, 10, 16), (0,))]
    monkeypatch.setitem(studies.STUDIES, "small", lambda: iter(jobs))
    mine = options.jobs()
    assert grid.refused(mine) == ["margin(nonsense=1) cannot be played: margin has no setting 'nonsense'; it has score"]
    assert grid.claim(options.store, mine.index(jobs[0]))  # somebody else's
    assert grid.work(options, LATER) == 0
    told = grid.summary(options, mine, 1.0)
    assert "no setting" in told["failed"]["small-reviews-quick/margin(nonsense=1)/0-0"]
    assert told["finished"] == sorted(job.key for job in jobs[1:-1])
    later = replace(options, finished=frozenset(told["finished"]))
    assert [job.key for job in later.jobs()] == [job.key for job in mine if job in (jobs[0], jobs[-1])]


def test_from_no_label_a_strategy_chooses_its_own_rows_if_it_can(options: Any) -> None:
    job = studies.Job("small", "reviews", "quick", "random", (6, 10), (0, 1), "own")
    plan = grid.plan_for(job, options.data, False)
    picks = {}
    for strategy in ("random", "margin", "max_herding"):
        one = replace(job, strategy=strategy)
        grid.play_job(one, options, 0.0)
        grid.play_job(one, options, LATER)
        first, _ = rounds.read_rounds(options.store, one, plan)
        assert [first[repeat].labels for repeat in (0, 1)] == [6, 6]
        picks[strategy] = [first[repeat].picks for repeat in (0, 1)]
    assert picks["margin"] == picks["random"]
    assert all(own != drawn for own, drawn in zip(picks["max_herding"], picks["random"], strict=True))


def test_archives_become_a_folder_as_compare_makes_it(options: Any, tmp_path: Path) -> None:
    for job in small_jobs():
        grid.play_job(job, options, LATER)
    folder = merge.merge_experiment(
        list(small_jobs()), options.store, options.data, tmp_path / "nowhere", tmp_path / "work", False
    )
    results = Results.open(folder)
    assert results.strategies == ["margin", "understudy(basis_size=20)", "random"]
    curves = results.curves()
    assert curves.schedule == (6, 10, 16)
    assert len(curves.accuracy["understudy(basis_size=20)"]) == 2
    assert results.settings["source"] == f"{prepare.SETS['reviews']}.npz"
    found = all_rounds(options)["margin", 1, 2]
    assert results.picks("margin", 1)[2].tolist() == found["picks"]


def test_rounds_that_are_kept_are_taken_if_they_are_of_the_same_plan(
    options: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    margin, *_, random = small_jobs()
    grid.play_job(margin, options, LATER)
    folder = merge.merge_experiment([margin], options.store, options.data, tmp_path, tmp_path / "work", False)
    assert folder is not None
    folder.rename(tmp_path / "reviews-quick")
    monkeypatch.setattr(merge, "is_kept", lambda job: job.strategy == "margin")
    empty = tmp_path / "empty"
    grid.play_job(random, replace(options, store=empty), LATER)
    both = merge.merge_experiment([margin, random], empty, options.data, tmp_path, tmp_path / "work2", False)
    assert Results.open(both).strategies == ["margin", "random"]
    other = replace(margin, schedule=(6, 10))
    with pytest.raises(ValueError, match="another plan"):
        list(merge.kept_rounds(other, grid.plan_for(other, options.data, False), tmp_path))


def test_the_command_starts_processes_packs_and_says_what_is_there(tmp_path: Path) -> None:
    write_task(tmp_path / f"{prepare.SETS['reviews']}.npz", classes=2)
    run = subprocess.run(
        [
            sys.executable, DEFAULT / "grid.py", "--data", tmp_path, "--store", tmp_path / "store", "--out",
            tmp_path / "out", "--studies", "conditions", "--sets", "reviews", "--only", "/random", "--trial",
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "MISSING" not in run.stdout
    assert "1 of 1 jobs finished, 3 of 3 rounds stored" in run.stdout
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"finished-0.zip", "unfinished.zip", "summary.json"}
    told = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert told["finished"] == ["conditions-reviews-modern/random/0-1"]
    assert str(tmp_path) not in json.dumps(told)


def test_what_is_missing_is_stood_in_for_while_the_rest_is_imported() -> None:
    code = """
from stand_ins import missing, stand_in, step_back
standing = stand_in(missing(("numpy", "no_such_package")))
import no_such_package as a
from no_such_package.inner import Base, make
class Child(Base): pass
assert [*make(1, of=a.thing([]))] == [] and not isinstance(3, a.Table)
step_back(standing)
try:
    import no_such_package
except ModuleNotFoundError:
    print("gone")
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=DEFAULT, capture_output=True, text=True, check=True)
    assert run.stdout == "gone\n"


def test_the_studies_name_every_job_once_and_strategies_that_there_are() -> None:
    jobs = studies.jobs_of(list(studies.STUDIES), again=True)
    assert len({job.key for job in jobs}) == len(jobs)
    assert all(job.seconds > 0 for job in jobs)
    for spec in {job.strategy for job in jobs if job.study != "ablations"}:
        strategy_of(spec)
    some = studies.jobs_of(["network", "curves"], ["fashion_mnist", "fashion_pixels"])
    assert {job.set for job in some} == {"fashion_mnist", "fashion_pixels"}
    assert some[0].study == "network"
    assert not [job for job in some if job.learner == "paper" and job.strategy == "margin"]  # kept before


@pytest.mark.parametrize(("name", "learner"), studies.KEPT)
def test_what_is_not_played_again_is_kept_to_the_end(name: str, learner: str) -> None:
    curves = Results.open(merge.PAPER / f"{name}-{learner}").curves(studies.KEPT[name, learner])
    assert curves.schedule == studies.CURVE
    assert all(accuracy.shape == (10, 7) for accuracy in curves.accuracy.values())
    assert np.isfinite(curves.accuracy["surrogate"]).all()
