import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.leaving_out import import_or_leave_out
from understudy.cli import app
from understudy.data.encoders import extras, trials
from understudy.data.encoders.extras import mending_command
from understudy.data.encoders.registry import ENCODERS
from understudy.data.encoders.trials import Trial, try_encoders

for library in ("timm", "transformers", "sentence_transformers", "onnxruntime"):
    import_or_leave_out(library)

# A torchvision as pip leaves it beside a torch of another build: its first line of operators fails.
BROKEN = {
    "__init__.py": "from torchvision import _meta_registrations, ops, transforms\n",
    "_meta_registrations.py": "raise RuntimeError('operator torchvision::nms does not exist')\n",
    "ops/__init__.py": "",
    "ops/misc.py": "import torch\nclass FrozenBatchNorm2d(torch.nn.Module): ...\n",
    "transforms/__init__.py": "",
}
BEYOND_REPAIR = {"__init__.py": "raise OSError('libtorch_cuda.so: cannot open shared object file')\n"}


def run_beside(package: dict[str, str], folder: Path, code: str) -> list[str]:
    """What a new process prints that finds this torchvision first."""
    for name, text in package.items():
        path = folder / "torchvision" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    put_first = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    done = subprocess.run([sys.executable, "-c", put_first + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_kind_is_really_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    found, _ = try_encoders()
    assert {kind: trial.outcome for kind, trial in found.items()} == {
        **dict.fromkeys(("resnet18", "resnet101", "vgg16"), "no weights"),
        **dict.fromkeys(("timm", "hf", "text", "onnx", "pixels", "words"), "works"),
        "python": "",
    }


def test_weights_in_the_hubs_cache_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--timm--resnet18.tv_in1k" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(b"no weights at all")
    trial = trials._try("resnet18", ENCODERS["resnet18"])
    assert trial.outcome == "broken"
    assert "model.safetensors is broken or no file of weights; copy it again" in trial.problem


def test_a_library_that_is_found_and_fails_is_not_said_to_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "onnxruntime.py").write_text("raise OSError('libodd.so is missing')")
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert trials._try("onnx", ENCODERS["onnx"]) == Trial(
        "broken",
        "onnxruntime is installed but cannot be imported: onnxruntime fails (OSError: libodd.so is missing); "
        "pip install --force-reinstall onnxruntime",
    )


def test_encoders_work_beside_a_torchvision_of_another_torch(tmp_path: Path) -> None:
    code = """
from understudy.data.encoders.extras import import_library, import_torchvision
from transformers import ViTConfig
print(import_torchvision())
print(import_library("torchvision.ops.misc", "vision").FrozenBatchNorm2d.__name__)
"""
    fault, name = run_beside(BROKEN, tmp_path, code)
    assert fault.startswith("torchvision does not fit torch ")
    assert "(RuntimeError: operator torchvision::nms does not exist); pip install --force-reinstall --no-deps " in fault
    assert name == "FrozenBatchNorm2d"


def test_what_needs_no_torchvision_does_without_one_that_cannot_be_mended(tmp_path: Path) -> None:
    code = """
from understudy.data.encoders.registry import ENCODERS
from understudy.data.encoders.trials import _try
for kind in ("hf", "text", "timm"):
    print(_try(kind, ENCODERS[kind]))
"""
    images, texts, timm = run_beside(BEYOND_REPAIR, tmp_path, code)
    assert images == texts == "Trial(outcome='works', problem='')"
    assert "timm needs torchvision, but torchvision does not fit torch" in timm
    assert "libtorch_cuda.so" in timm


@pytest.mark.parametrize(
    ("torch_version", "command"),
    [
        ("2.13.0+cpu", "'torchvision==0.28.*' --index-url https://download.pytorch.org/whl/cpu"),
        ("2.11.1+cu128", "'torchvision==0.26.*' --index-url https://download.pytorch.org/whl/cu128"),
        ("2.12.0", "'torchvision==0.27.*'"),
        ("3.0.0+local", "'torchvision'"),
    ],
)
def test_the_torchvision_that_fits_is_named(torch_version: str, command: str) -> None:
    assert mending_command(torch_version) == f"pip install --force-reinstall --no-deps {command}"


def test_the_list_fits_into_80_columns_and_says_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = {kind: Trial("works") for kind in ENCODERS}
    outcomes |= {"text": Trial("not installed"), "hf": Trial("broken", "it fails; mend it"), "python": Trial("")}
    monkeypatch.setattr(trials, "try_encoders", lambda: (outcomes, "torchvision does not fit"))
    result = CliRunner().invoke(app, ["encoders"], env={"COLUMNS": "80", "TERM": "dumb"})
    assert result.exit_code == 0
    lines = [line for line in result.stdout.splitlines() if line]
    table = lines[: lines.index("works: one of this kind was loaded just now and has encoded an item")]
    assert max(map(len, table)) <= 80
    assert lines[0].split() == ["encoder", "what", "it", "is", "columns", "extra", "here"]
    for kind, entry in ENCODERS.items():
        [line] = [line for line in lines[1:] if line.startswith(f"{entry.syntax} ") and "is broken" not in line]
        assert line.rstrip().endswith(outcomes[kind].outcome)
    for line in (
        "works: one of this kind was loaded just now and has encoded an item",
        "not installed: pip install 'understudy-al[EXTRA]' brings it",
        "hf:NAME is broken: it fails; mend it",
        "torchvision does not fit",
    ):
        assert line in lines


def test_without_torchvision_there_is_nothing_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "is_found", lambda _: False)
    extras.import_torchvision.cache_clear()
    try:
        assert extras.import_torchvision() is None
    finally:
        extras.import_torchvision.cache_clear()
