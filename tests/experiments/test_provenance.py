"""Where results come from is written down, and picks that were taken out come back only if they are the same."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.experiments.small import ARRAYS, LEARNER, SCHEDULE, dataset, only_results
from understudy import UnderstudyError
from understudy.experiments.compare import Comparison, compare, replay
from understudy.experiments.picks_file import read_picks, write_picks
from understudy.experiments.provenance import commit_of, digest_of_files, input_digests, package_versions
from understudy.experiments.report import write_report
from understudy.experiments.results import CEILING, OFTEN, RESULT_COLUMNS, Results


def made(out: Path, *strategies: str, **more: Any) -> Comparison:
    settings = {"repeats": 2, "schedule": SCHEDULE, "learner": LEARNER, "source": dataset(), **more}
    return compare(settings.pop("source"), strategies or ("margin", "random"), out=out, **settings)


def git(folder: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


# -- provenance ---------------------------------------------------------------------------------------------------


def test_a_package_in_a_repository_has_its_commit_and_says_if_it_was_changed(tmp_path: Path) -> None:
    package = tmp_path / "src" / "package"
    package.mkdir(parents=True)
    (package / "version.py").write_text("1")
    assert commit_of(package) is None
    git(tmp_path, "init", "-q")
    assert commit_of(package) is None  # it lies in a repository, but is not part of it
    git(tmp_path, "add", "src/package/version.py")
    git(tmp_path, "commit", "-qm", "one")
    commit = git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "beside.txt").touch()  # no part of the package
    assert commit_of(package) == commit
    (package / "version.py").write_text("2")
    assert commit_of(package) == f"{commit} and changes"


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert commit_of() is None


def test_files_have_their_own_digest_and_folders_one_of_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(b"1")
    (tmp_path / "a" / "two").write_bytes(b"2")
    assert digest_of_files(tmp_path / "a" / "one") == hashlib.sha256(b"1").hexdigest()
    before = digest_of_files(tmp_path / "a")
    lines = "".join(f"{hashlib.sha256(c).hexdigest()}  {n}\n" for n, c in (("one", b"1"), ("two", b"2")))
    assert before == hashlib.sha256(lines.encode()).hexdigest()
    (tmp_path / "a" / "two").rename(tmp_path / "a" / "three")
    assert digest_of_files(tmp_path / "a") != before


def test_what_is_in_memory_or_comes_with_a_package_has_no_file_to_digest(tmp_path: Path) -> None:
    assert input_digests(data=dataset(), predictions=np.ones(3)) == {}
    assert input_digests(data="digits", predictions=None) == {}
    assert input_digests(data="hf:somebody/something") == {}
    (tmp_path / "p.csv").write_text("a")
    function = "tests.experiments.test_provenance:git"
    found = input_digests(data=str(tmp_path / "p.csv"), predictions=function)
    assert found["data"] == digest_of_files(tmp_path / "p.csv")
    assert found["predictions"] == hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]


def test_a_comparison_says_what_it_was_made_with(tmp_path: Path) -> None:
    X, y = ARRAYS.features, ARRAYS.truth
    np.savez(tmp_path / "small.npz", X=X[:120], y=y[:120], Xt=X[120:], yt=y[120:])
    made(tmp_path / "out", source=str(tmp_path / "small.npz"))
    found = json.loads((tmp_path / "out" / "experiment.json").read_text())
    assert found["inputs"] == {"data": digest_of_files(tmp_path / "small.npz")}
    assert found["versions"] == package_versions()
    assert f"torch {torch.__version__.partition('+')[0]}" in found["versions"]
    assert {text.partition(" ")[0] for text in found["versions"]} >= {"understudy", "python", "numpy", "scikit-learn"}
    assert found["commits"] == [commit_of()]
    assert len(found["processors"]) == 1
    assert found["processors"][0]


def test_another_machine_or_commit_is_said_and_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made(tmp_path, "random", repeats=1).run(jobs=1, progress=False).failed == {}
    before = only_results(tmp_path)
    monkeypatch.setattr("understudy.experiments.compare.processor_name", lambda: "an abacus")
    monkeypatch.setattr("understudy.experiments.compare.commit_of", lambda: "f" * 40 + " and changes")
    comparison = made(tmp_path, "random", repeats=1)
    said = "\n".join(comparison.notes)
    assert "continues with an abacus; rounds may differ by rounding" in said
    assert "continues with commit ffffffffff and changes" in said
    assert comparison.run(jobs=1, progress=False).failed == {}
    assert only_results(tmp_path) == before
    found = Results.open(tmp_path).settings
    assert found["processors"][1:] == ["an abacus"]
    assert found["commits"][1:] == ["f" * 40 + " and changes"]


def test_folders_of_earlier_versions_which_noted_less_go_on_without_a_word(tmp_path: Path) -> None:
    assert made(tmp_path, "random", repeats=1).run(jobs=1, progress=False).failed == {}
    path = tmp_path / "experiment.json"
    found = json.loads(path.read_text())
    earlier = {name: value for name, value in found.items() if name not in ("processors", "commits", "inputs")}
    wanted = ("understudy", "torch", "numpy")
    earlier["versions"] = [text for text in found["versions"] if text.partition(" ")[0] in wanted]
    path.write_text(json.dumps(earlier))
    assert made(tmp_path, "random", repeats=1).notes == ()
    assert set(json.loads(path.read_text())["versions"]) == set(found["versions"])


# -- picks in a file ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "out"
    assert made(out, wrong=0.2, imbalance=2).run(jobs=1, progress=False).failed == {}
    return out


@pytest.fixture
def kept(whole: Path, tmp_path: Path) -> Path:
    """The folder as it is kept: without rounds, and with tables that hold no picks."""
    folder = tmp_path / "kept"
    folder.mkdir()
    full = Results.open(whole)
    write_picks(full, tmp_path / "release" / "picks.parquet")
    picks = RESULT_COLUMNS.get_field_index("picks")
    nothing = pa.nulls(len(full.table), RESULT_COLUMNS.field("picks").type)
    pq.write_table(full.table.set_column(picks, RESULT_COLUMNS.field("picks"), nothing), folder / "results.parquet")
    for name in ("experiment.json", "timings.parquet"):
        shutil.copy(whole / name, folder / name)
    return folder


def test_a_replay_from_the_file_is_the_one_from_the_folder_byte_for_byte(
    whole: Path, kept: Path, tmp_path: Path
) -> None:
    file = tmp_path / "release" / "picks.parquet"
    outs = tmp_path / "from folder", tmp_path / "from file"
    assert replay(whole, dataset(), LEARNER, out=outs[0]).run(jobs=1, progress=False).failed == {}
    assert replay(kept, dataset(), LEARNER, out=outs[1], picks=file).run(jobs=1, progress=False).failed == {}
    assert only_results(outs[0]) == only_results(outs[1])
    assert Results.open(outs[1]).settings["inputs"]["picks"] == digest_of_files(file)


def test_a_table_without_the_column_of_picks_is_one_that_holds_none(kept: Path) -> None:
    pq.write_table(pq.read_table(kept / "results.parquet").drop_columns(["picks"]), kept / "results.parquet")
    results = Results.open(kept)
    assert not any(results.table["picks"].to_pylist())
    write_report(results, with_figures=False)


def test_the_file_holds_the_picks_of_every_run_and_its_digest_is_noted(whole: Path, tmp_path: Path) -> None:
    full = Results.open(whole)
    digest = write_picks(full, tmp_path / "picks.parquet")
    noted = Results.open(whole).settings["picks"]
    assert noted == {"file": "picks.parquet", "sha256": digest}
    assert digest == hashlib.sha256((tmp_path / "picks.parquet").read_bytes()).hexdigest()
    found = read_picks(Results.open(whole), tmp_path / "picks.parquet")
    assert found == read_picks(full, None)
    assert set(found) == {(name, repeat) for name in ("margin", "random", OFTEN) for repeat in range(2)}
    assert found["margin", 1] == tuple(np.concatenate(full.picks("margin", 1)).tolist())
    made(whole, wrong=0.2, imbalance=2)  # to go on keeps the note
    assert Results.open(whole).settings["picks"] == noted
    assert CEILING not in {name for name, _ in found}


def test_other_files_and_folders_without_picks_are_refused_in_a_line(kept: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    shutil.copy(tmp_path / "release" / "picks.parquet", other)
    with other.open("ab") as stream:
        stream.write(b"x")
    said = {
        None: "was kept without picks; pass the file that has them: --picks picks.parquet",
        other: "pass the file that was last written as picks.parquet",
        tmp_path / "none.parquet": "there is no file",
    }
    for picks, message in said.items():
        with pytest.raises(UnderstudyError, match=message) as caught:
            replay(kept, dataset(), LEARNER, picks=picks)
        assert "\n" not in str(caught.value)
    with pytest.raises(UnderstudyError, match="holds no picks; take the folder that its comparison was run in"):
        write_picks(Results.open(kept), tmp_path / "again.parquet")
    plain = made(tmp_path / "plain", "random", repeats=1, controls=False)
    assert plain.run(jobs=1, progress=False).failed == {}
    with pytest.raises(UnderstudyError, match="notes no file of picks; write one with: understudy picks"):
        replay(tmp_path / "plain", dataset(), LEARNER, picks=other)
