"""Units of a comparison on a Ray cluster: the results are those of this machine, whatever befalls the workers."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, chdir
from pathlib import Path

import pytest
import ray

from understudy.distributed.cluster import join_cluster, joined_cluster
from understudy.distributed.grid import on_ray
from understudy.distributed.worker import check_code, check_versions
from understudy.errors import UnderstudyError
from understudy.experiments.compare import Comparison, compare
from understudy.experiments.grid import play_unit
from understudy.experiments.results import RESULTS
from understudy.experiments.specs import code_digests

ROOT = Path(__file__).parents[2]
SCHEDULE = (20, 40, 60)
HERE = "tests.distributed.actors"


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """One for all tests: to start it takes longer than they do. Its workers find modules from where it was started."""
    with chdir(ROOT), joined_cluster(jobs=2):
        yield
    assert not ray.is_initialized(), "what was started is ended"


def digits(out: Path, *strategies: str, repeats: int = 1, learner: str = "logistic") -> Comparison:
    return compare("digits", strategies, out=out, repeats=repeats, schedule=SCHEDULE, learner=learner, controls=False)


def results(out: Path) -> bytes:
    return (out / RESULTS).read_bytes()


def nothing() -> None: ...


@pytest.mark.usefixtures("cluster")
def test_a_cluster_gives_the_bytes_of_one_process(tmp_path: Path) -> None:
    names = ("surrogate(basis_size=100)", "margin", "learning_loss")
    here, there = (digits(tmp_path / name, *names, repeats=2, learner=f"{HERE}:quick") for name in ("here", "there"))
    here.run(jobs=1, progress=False)
    there.run(on_ray(), progress=False)
    assert results(tmp_path / "there") == results(tmp_path / "here")


@pytest.mark.usefixtures("cluster")
def test_a_harder_pool_wrong_answers_and_the_oracle_are_the_same_there(tmp_path: Path) -> None:
    def harder(out: Path) -> Comparison:
        regime = {"imbalance": 5, "wrong": 0.1, "duplicates": 0.3}
        settings = {"repeats": 1, "schedule": SCHEDULE, "learner": "logistic", "controls": False, "oracle": True}
        return compare("digits", ["margin"], out=out, **settings, **regime)  # type: ignore[arg-type]

    assert not harder(tmp_path / "there").run(on_ray(), progress=False).failed
    assert not harder(tmp_path / "here").run(jobs=1, progress=False).failed
    assert results(tmp_path / "there") == results(tmp_path / "here")


@pytest.mark.usefixtures("cluster")
def test_a_unit_is_locked_while_the_cluster_plays_it_and_waited_for_while_another_process_does(tmp_path: Path) -> None:
    task = digits(tmp_path, "random").task
    [unit] = task.units
    seen = []
    other, is_held = ExitStack(), [True]
    other.enter_context(task.locked(unit))

    def look() -> None:
        if is_held:
            assert not task.stored()
            is_held.clear()
            other.close()
        elif not task.is_done(unit):
            seen.append(play_unit(task, unit))

    assert not on_ray(jobs=1)(task, look)
    assert set(seen) == {"busy"}
    assert task.stored() == len(SCHEDULE)


@pytest.mark.usefixtures("cluster")
def test_a_cluster_is_not_left_for_another(tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match="already connected to a Ray cluster; leave the address out"):
        on_ray("somewhere:6379")(digits(tmp_path, "random").task, nothing)
    on_ray()(digits(tmp_path / "empty", "random").task, nothing)
    assert ray.is_initialized()


@pytest.mark.usefixtures("cluster")
def test_a_unit_whose_worker_is_killed_goes_on_from_what_is_stored(tmp_path: Path) -> None:
    deadly = tmp_path / "deadly"
    names = (f"{HERE}:Mortal(file={str(deadly)!r})", "random")
    digits(tmp_path / "here", *names).run(jobs=1, progress=False)
    deadly.touch()
    outcome = digits(tmp_path / "there", *names).run(on_ray(), progress=False)
    assert not deadly.exists(), "a worker was killed"
    assert not outcome.failed
    assert results(tmp_path / "there") == results(tmp_path / "here")


@pytest.mark.usefixtures("cluster")
def test_what_kills_or_fails_every_time_becomes_a_line_and_the_others_go_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    deadly = tmp_path / "deadly"
    deadly.touch()
    mortal, clumsy = f"{HERE}:Mortal(file={str(deadly)!r},once=False)", f"{HERE}:Clumsy"
    comparison = digits(tmp_path / "out", mortal, clumsy, "random")
    outcome = comparison.run(on_ray(max_losses=1), progress=False)
    lines = {name.split(",")[0].split("(")[0]: line for name, line in outcome.failed.items()}
    assert set(lines) == {f"{HERE}:Mortal", clumsy}
    assert "its worker was lost 1 times" in lines[f"{HERE}:Mortal"]
    assert lines[clumsy].startswith("RuntimeError: stumbled (")
    assert ", in select; traceback in " in lines[clumsy]
    trace = next((tmp_path / "out" / "errors").iterdir()).read_text()
    assert "over its own feet" in trace
    assert "actors.py" in trace, "the trace is that of the worker"
    rounds = outcome.results.table.to_pylist()
    found = {name: [row["labels"] for row in rounds if row["strategy"] == name] for name in (mortal, clumsy, "random")}
    assert found == {mortal: [20, 40], clumsy: [20, 40], "random": list(SCHEDULE)}
    assert capfd.readouterr() == ("", ""), "Ray keeps quiet"


@pytest.mark.usefixtures("cluster")
def test_an_interruption_stops_the_workers_and_leaves_what_is_stored(tmp_path: Path) -> None:
    comparison = digits(tmp_path / "there", "random", "margin")
    task = comparison.task

    def interrupt_after_a_round() -> None:
        if task.stored():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        on_ray()(task, interrupt_after_a_round)
    assert 0 < task.stored() < task.total
    comparison.run(jobs=1, progress=False)  # no unit is locked
    digits(tmp_path / "here", "random", "margin").run(jobs=1, progress=False)
    assert results(tmp_path / "there") == results(tmp_path / "here")


def test_without_ray_a_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnderstudyError, match=r"pip install 'understudy-al\[cluster\]'$"):
        on_ray()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"jobs": 0}, "jobs must be a whole number of at least 1; got 0"),
        ({"gpus": 0.0}, "must be more than 0; got 0.0"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        on_ray(**arguments)  # type: ignore[arg-type]


def test_an_address_of_another_kind_is_refused_in_a_line() -> None:
    with pytest.raises(UnderstudyError, match="or auto; got ray://head:10001"):
        join_cluster("ray://head:10001", None)


@pytest.mark.parametrize("address", ["127.0.0.1:9", "nowhere"])
def test_where_no_cluster_is_a_line_says_so_at_once(address: str) -> None:
    with pytest.raises(UnderstudyError, match=f"a Ray cluster could not be joined at {address} .*; is it running"):
        join_cluster(address, None)


def test_machines_with_other_versions_are_refused_and_other_builds_are_not() -> None:
    here = {"understudy": "0.5", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.2"}
    check_versions(here, here | {"torch": "2.13.0+cu126", "python": "3.11.9"})
    with pytest.raises(UnderstudyError, match=r"has torch 2\.12\.0, but the driver has 2\.13\.0\+cpu; install"):
        check_versions(here, here | {"torch": "2.12.0"})


def test_own_code_that_is_another_on_a_machine_is_refused_there() -> None:
    specs = [f"{HERE}:quick", f"{HERE}:Clumsy"]
    here = code_digests(specs)
    assert set(here) == set(specs)
    check_code(here)
    check_code({"nowhere_to_be_found:Mine": "0" * 16})  # what cannot be imported is told where it is made
    with pytest.raises(UnderstudyError, match=f"{HERE}:Clumsy is another code on .* than where the comparison was"):
        check_code(here | {specs[1]: "0" * 16})


@pytest.mark.usefixtures("cluster")
def test_a_unit_with_other_code_fails_in_a_line_and_the_others_go_on(tmp_path: Path) -> None:
    own = f"{HERE}:Clumsy"
    comparison = digits(tmp_path / "out", own, "random")
    comparison.task.store.note("code", {own: "0" * 16})
    outcome = comparison.run(on_ray(), progress=False)
    (line,) = outcome.failed.values()
    assert line.startswith(f"{own} is another code on ")
    assert {row["strategy"] for row in outcome.results.table.to_pylist()} == {"random"}
