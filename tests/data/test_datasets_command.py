"""`understudy datasets`: the table, the list for scripts, and the download."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.data.official import cifar10, pack_cifar, write
from tests.data.serving import offer, only_our_own, serving
from understudy.cli import app
from understudy.data.datasets import DATASETS, NAMES
from understudy.data.datasets.idx import FASHION_MNIST
from understudy.data.datasets.registry import home_of
from understudy.errors import UnderstudyError

runner = CliRunner()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    only_our_own(tmp_path / "home", monkeypatch)
    return tmp_path / "home"


def test_the_table_says_what_is_here_and_how_to_get_the_rest(home: Path) -> None:
    write(home_of("cifar10"), cifar10("binary"))
    result = runner.invoke(app, ["datasets"], env={"COLUMNS": "80", "TERM": "dumb"})
    assert result.exit_code == 0
    lines = {words[0]: words for line in result.stdout.splitlines() if (words := line.split())}
    assert lines["cifar10"][:5] == ["cifar10", "50,000", "10,000", "10", "yes"]
    assert lines["digits"][4:] == ["yes", "comes", "with", "scikit-learn"]
    assert "understudy datasets --get NAME" in result.stdout
    advice = result.stdout.split("--get NAME")[1]
    assert [name for name in NAMES if f"  {name} " in advice] == [
        "fashion_mnist", "cifar100", "tiny_imagenet", "caltech256",
    ]  # fmt: skip
    assert f"\n  {home / 'datasets' / 'NAME'}\n" in advice


def test_the_table_fits_into_80_columns() -> None:
    table = runner.invoke(app, ["datasets"], env={"COLUMNS": "80"}).stdout.split("to download")[0]
    assert max(map(len, table.splitlines())) <= 80
    assert all(name in table for name in NAMES)


def test_every_place_is_named_in_which_a_missing_set_was_looked_for(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_DATA", "/data/mine")
    monkeypatch.setitem(DATASETS, "fashion_mnist", replace(FASHION_MNIST, also_in=(tmp_path / "system",)))
    lines = runner.invoke(app, ["datasets"], env={"COLUMNS": "80"}).stdout.splitlines()
    start = lines.index("or put it into one of the folders that are looked into:") + 1
    assert lines[start : start + 3] == ["  /data/mine/NAME", "  /data/mine", f"  {home / 'datasets' / 'NAME'}"]
    start = next(row for row, line in enumerate(lines) if line.startswith("  fashion_mnist  the four IDX files"))
    assert lines[start + 1].split() == ["also", "in", str(tmp_path / "system")]
    assert lines[start + 2].strip() == "which Debian's package dataset-fashion-mnist fills"
    assert all(len(line) <= 80 for line in lines if str(tmp_path) not in line)


def test_scripts_get_json() -> None:
    write(home_of("cifar10"), cifar10("binary"))
    entries = {entry["name"]: entry for entry in json.loads(runner.invoke(app, ["datasets", "--json"]).stdout)}
    assert tuple(entries) == NAMES
    assert entries["cifar10"]["found"] == str(home_of("cifar10") / "cifar-10-batches-bin")
    assert entries["cifar100"]["found"] is None
    assert entries["cifar100"]["looked_in"] == [str(home_of("cifar100"))]
    assert entries["cifar100"]["files"][0]["name"] == "cifar-100-binary.tar.gz"
    assert (entries["digits"]["pool"], entries["digits"]["test"], entries["digits"]["classes"]) == (1297, 500, 10)


def test_get_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        offer(server, monkeypatch, "cifar10", pack_cifar(tmp_path, "cifar10", "binary", cifar10("binary")).read_bytes())
        result = runner.invoke(app, ["datasets", "--get", "cifar10", "--json"])
    assert result.exit_code == 0
    found = {entry["name"]: entry["found"] for entry in json.loads(result.stdout)}
    assert found["cifar10"] == str(home_of("cifar10") / "cifar-10-binary.tar.gz")


def test_get_of_an_unknown_name_is_an_error_of_ours() -> None:
    result = runner.invoke(app, ["datasets", "--get", "mnist"])
    assert isinstance(result.exception, UnderstudyError)
    assert "no data set is called 'mnist'" in str(result.exception)


def test_the_list_does_not_wait_for_torch_or_scikit_learn() -> None:
    script = (
        "import sys; from understudy.cli import app; app(['datasets'], standalone_mode=False); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'sklearn')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "digits" in done.stdout
