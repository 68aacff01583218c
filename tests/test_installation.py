"""What `understudy doctor` finds: builds of torch, libraries that are missing, old or broken, and extras."""

import json
import tomllib
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from understudy.cli import app, doctor
from understudy.installation import (
    HIDE_TORCHVISION,
    TASKS,
    Diagnosis,
    Installation,
    Requirement,
    find_cache,
    find_libraries,
    find_library,
    find_ourselves,
    find_page,
    find_tasks,
    find_torch,
    is_older,
    requirements,
    try_imports,
)

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
CPU = {"version": "2.13.0+cpu", "build": "", "gpu": "", "gpu_fault": ""}
CUDA = {"version": "2.13.0+cu130", "build": "CUDA 13.0", "gpu": "NVIDIA H200", "gpu_fault": ""}
NO_GPU = {**CUDA, "gpu": "", "gpu_fault": "Found no NVIDIA driver on your system"}

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a distribution beside the others, as pip does, with a module of its name and this code."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def add(name: str, version: str, code: str = "") -> None:
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (tmp_path / f"{name}.py").write_text(code)

    return add


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """NVIDIA's program, as it answers where there is a card and where there is none."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def answer(script: str) -> None:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)

    return answer


def test_every_extra_has_a_task_and_belongs_to_all() -> None:
    assert set(TASKS) == set(EXTRAS) - {"all", "dev", "peers"}
    named = {name for line in EXTRAS["all"] for name in line.partition("[")[2].rstrip("]").split(",")}
    assert named == set(TASKS)


def test_the_readme_lists_every_extra() -> None:
    table = (ROOT / "README.md").read_text().partition("| extra |")[2].partition("\n\n")[0]
    listed = {line.split("`")[1] for line in table.splitlines() if line.startswith("| `")}
    assert listed == {*TASKS, "all"}


def test_requirements_are_read_from_the_lines_of_the_metadata() -> None:
    lines = [
        "torch>=2.11",
        "torchvision; extra == 'vision'",
        'psycopg[binary]>=3.2; extra == "postgres"',
        "Pillow<13,>=11",
        "understudy-al[plot]; extra == 'all'",
    ]
    assert list(requirements(lines)) == [
        Requirement("torch", "2.11"),
        Requirement("torchvision", "", "vision"),
        Requirement("psycopg", "3.2", "postgres"),
        Requirement("pillow", "11"),
    ]


@pytest.mark.parametrize(
    ("version", "minimum", "expected"),
    [
        ("4.57.6", "5", True),
        ("5.0.0", "5", False),
        ("2.13.0+cpu", "2.11", False),
        ("2.9.1", "2.11", True),
        ("2.0.0rc1", "2.0", False),
    ],
)
def test_versions_are_compared_number_by_number(version: str, minimum: str, expected: bool) -> None:
    assert is_older(version, minimum) is expected


def test_a_library_is_missing_too_old_broken_or_works(install: Install) -> None:
    install("aged", "1.2")
    tried = {"aged": "RuntimeError: no such operator"}
    assert find_library(Requirement("absent", "1"), {}) == Diagnosis(
        "absent", "missing", "not installed", "pip install 'absent>=1'"
    )
    assert find_library(Requirement("aged", "1.3"), tried).state == "too old"
    broken = find_library(Requirement("aged", "1.1"), tried)
    assert (broken.state, broken.remedy) == ("broken", "pip install --force-reinstall --no-deps 'aged==1.2'")
    assert "no such operator" in broken.detail
    assert find_library(Requirement("aged"), {}) == Diagnosis("aged", "works", "1.2")


def test_torch_is_mended_by_the_build_that_is_there_or_is_needed(
    install: Install, driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    install("torch", "2.13.0+cpu")
    cpu = "--index-url https://download.pytorch.org/whl/cpu"
    assert find_library(Requirement("torch", "2.14"), {}).remedy == f"pip install 'torch>=2.14' {cpu}"
    broken = find_library(Requirement("torch", "2.11"), {"torch": "OSError: libtorch.so"})
    assert broken.remedy == f"pip install --force-reinstall --no-deps 'torch==2.13.0' {cpu}"
    monkeypatch.setattr("understudy.installation._version", {}.get)
    monkeypatch.setattr("sys.platform", "linux")
    assert find_library(Requirement("torch", "2.11"), {}).remedy == f"pip install 'torch>=2.11' {cpu}"
    driver("echo NVIDIA H200")
    assert find_library(Requirement("torch", "2.11"), {}).remedy == "pip install 'torch>=2.11'"


def test_what_is_amiss_with_the_core_has_a_line_each(install: Install) -> None:
    install("aged", "1.2")
    needed = [Requirement("absent"), Requirement("aged", "1.0"), Requirement("aged", "2")]
    found = {diagnosis.name: diagnosis for diagnosis in find_libraries(needed, {"sqlite3": "No module named _sqlite3"})}
    assert list(found) == ["absent", "aged", "libraries", "SQLite"]
    assert found["libraries"].detail.startswith("1 of 3 packages")
    assert not Installation(tuple(found.values()), ()).works


def test_what_cannot_be_imported_is_found_even_if_it_takes_its_process_with_it(install: Install) -> None:
    install("killer", "1", "import os; os._exit(77)")
    install("wrong", "1", "raise RuntimeError('operator does\\nnot exist')")
    install("late", "1", "raise SystemExit")
    faults = try_imports(["json", "killer", "wrong", "late", "csv"])
    assert faults == {
        "killer": "the process ended with 77",
        "wrong": "RuntimeError: operator does not exist",
        "late": "SystemExit: ",
    }


def test_a_task_is_missing_as_a_whole_or_broken_by_one_library(install: Install) -> None:
    install("torchvision", "0.1")
    needed = [Requirement("absent", "", "plot"), Requirement("torchvision", "0.28", "vision")]
    found = {diagnosis.extra: diagnosis for diagnosis in find_tasks(needed, {}, None)}
    assert found["plot"].state == "missing"
    assert found["plot"].remedy == "pip install 'understudy-al[plot]'"
    assert found["vision"].state == "too old"
    assert "0.28 or later" in found["vision"].detail


def test_a_torchvision_that_does_not_fit_is_said_with_the_line_that_mends_it(install: Install) -> None:
    install("torchvision", "0.27")
    fault = (
        "torchvision does not fit torch 2.13.0 (RuntimeError: operator torchvision::nms does not exist); pip install x"
    )
    found = next(
        each for each in find_tasks([Requirement("torchvision", "", "vision")], {}, fault) if each.extra == "vision"
    )
    assert (found.state, found.remedy) == ("note", "pip install x")
    assert found.detail.endswith("torchvision::nms does not exist)")


def test_what_goes_on_without_a_torchvision_that_does_not_fit_is_not_called_broken(install: Install) -> None:
    install("torchvision", "0.27", "raise RuntimeError('operator torchvision::nms does not exist')")
    install("user", "1", "try: import torchvision\nexcept ImportError: pass")
    assert try_imports(["user"]) == {"user": "RuntimeError: operator torchvision::nms does not exist"}
    assert try_imports(["user"], first=HIDE_TORCHVISION) == {}


def states(probed: dict[str, Any]) -> list[tuple[str, str]]:
    return [(diagnosis.name, diagnosis.state) for diagnosis in find_torch(probed)]


def test_torch_and_the_gpu_fit_each_other_or_what_mends_it_is_said(driver: Callable[[str], None]) -> None:
    assert states(CPU) == [("torch", "works"), ("GPU", "works")]
    assert states(CUDA) == [("torch", "works"), ("GPU", "works")]
    (wasted,) = find_torch(NO_GPU)
    assert wasted.state == "note"
    assert "no GPU here" in wasted.detail
    assert wasted.remedy.startswith("pip uninstall -y torch ")
    assert wasted.remedy.endswith("pip install 'torch==2.13.0' --index-url https://download.pytorch.org/whl/cpu")
    driver("echo NVIDIA H200")
    _, unused = find_torch(CPU)
    assert (unused.state, unused.detail) == ("note", "NVIDIA H200 is not used: this torch is for the CPU")
    assert unused.remedy.startswith("pip uninstall -y torch && pip install 'torch==2.13.0'")
    _, failing = find_torch({**NO_GPU, "gpu_fault": "the driver is too old"})
    assert (failing.state, failing.detail) == ("note", "NVIDIA H200 cannot be used: the driver is too old")
    driver("echo no devices were found; exit 6")
    assert states(CPU) == [("torch", "works"), ("GPU", "works")]


def test_another_project_of_the_same_import_name_is_noticed(install: Install) -> None:
    assert [diagnosis.name for diagnosis in find_ourselves() if diagnosis.state == "broken"] == []
    install("understudy", "9.9", "from pkgutil import extend_path")
    (found,) = (diagnosis for diagnosis in find_ourselves() if diagnosis.state == "broken")
    assert found.remedy.startswith("pip uninstall -y understudy && ")


def test_a_cache_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    assert find_cache(tmp_path / "not" / "yet").state == "works"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("in the way")
    found = find_cache(tmp_path / "file" / "cache")
    assert found.state == "broken"
    assert "UNDERSTUDY_HOME" in found.remedy


def test_the_page_is_built() -> None:
    assert find_page().state == "works"


def test_what_is_printed_fits_and_ends_with_lines_to_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    core = (
        Diagnosis("torch", "note", "2.13.0+cu130, CUDA 13.0: 5.4 GB, and no GPU here", "pip uninstall -y torch"),
        Diagnosis("scipy", "broken", "1.13 cannot be imported: ImportError: " + "x" * 90, "pip install scipy"),
    )
    tasks = (
        Diagnosis(TASKS["hub"], "missing", "not installed: datasets", "pip install 'understudy-al[hub]'", "hub"),
        Diagnosis(TASKS["vision"], "works", "timm 1.0, transformers 5, torchvision 0.28", "", "vision"),
        Diagnosis(TASKS["heic"], "missing", "not installed: pillow-heif", "pip install 'understudy-al[heic]'", "heic"),
    )
    written = StringIO()
    monkeypatch.setattr(doctor, "examine", lambda **_: Installation(core, tasks))
    monkeypatch.setattr(doctor, "Console", lambda **_: Console(file=written, width=80))
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 1
    shown = written.getvalue()
    table, _, advice = shown.partition("\nto mend:")
    assert max(map(len, table.splitlines())) <= 80
    lines = [line.strip() for line in advice.splitlines()]
    assert {"pip uninstall -y torch", "pip install scipy", "pip install 'understudy-al[hub,heic]'"} <= set(lines)


def test_doctor_examines_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of it, with the one fault that is made here: a file is where the cache belongs."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "file" / "cache"))
    done = CliRunner().invoke(app, ["doctor", "--json"])
    found = json.loads(done.stdout)
    core = {diagnosis["name"]: diagnosis["state"] for diagnosis in found["core"]}
    assert (done.exit_code, found["works"], core.pop("cache")) == (1, False, "broken")
    assert core["torch"] in {"works", "note"}
    assert not set(core.values()) & {"missing", "too old", "broken"}
    assert {diagnosis["extra"] for diagnosis in found["tasks"] if diagnosis["extra"]} == set(TASKS)
