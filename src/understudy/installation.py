"""What is installed here, what works of it, what is missing for which task, and the line that mends each.

Versions come from the packages' metadata, which takes no time. Whether a library can be imported is tried in a process
of its own, since one that is broken may end the process that tries it.
"""

import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal

from understudy.data.user_folders import HOME, cache_folder
from understudy.messages import (
    DISTRIBUTION,
    TORCH_BUILDS,
    count_of,
    index_of_build,
    install_command,
    list_some,
    reason_of,
)
from understudy.version import __version__

State = Literal["works", "note", "missing", "too old", "broken"]
FAULTS: Final = frozenset({"missing", "too old", "broken"})

SAME_IMPORT: Final = "understudy"  # a distribution of other people, which brings a package of the same name
IMPORT_NAMES: Final = {
    "scikit-learn": "sklearn",
    "pillow": "PIL",
    "scikit-activeml": "skactiveml",
    "mlflow-skinny": "mlflow",
}
CUDA_PARTS: Final = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)")
SECONDS_TO_IMPORT: Final = 300
SECONDS_TO_ASK_THE_DRIVER: Final = 20
BYTES_TO_SPARE: Final = 10**9
TASKS: Final[Mapping[str, str]] = {
    "onnx": "networks in ONNX files",
    "vision": "networks for images",
    "text": "networks for texts",
    "hub": "Hugging Face data sets",
    "heic": "HEIC photographs",
    "excel": "Excel tables",
    "plot": "figures of reports",
    "cluster": "Ray clusters",
    "postgres": "PostgreSQL",
    "labelstudio": "Label Studio",
    "skactiveml": "scikit-activeml",
    "finetune": "fine-tuning",
    "lightning": "Lightning modules",
    "mlflow": "MLflow",
    "tensorboard": "TensorBoard",
}


@dataclass(frozen=True)
class Diagnosis:
    """One thing that was looked at: what became of it, and where something is to be done, the line that does it."""

    name: str
    state: State
    detail: str
    remedy: str = ""
    extra: str = ""


@dataclass(frozen=True)
class Installation:
    """All that was found: what everything needs, and what single tasks need."""

    core: tuple[Diagnosis, ...]
    tasks: tuple[Diagnosis, ...]

    @property
    def works(self) -> bool:
        """Whether everything works that needs no extra."""
        return not any(diagnosis.state in FAULTS for diagnosis in self.core)

    def as_json(self) -> dict[str, Any]:
        core, tasks = ([asdict(diagnosis) for diagnosis in diagnoses] for diagnoses in (self.core, self.tasks))
        return {"version": __version__, "works": self.works, "core": core, "tasks": tasks}


@dataclass(frozen=True)
class Requirement:
    """A library that we need, from which version on, and for which extra; none where everything needs it."""

    name: str
    minimum: str = ""
    extra: str = ""

    @property
    def module(self) -> str:
        return IMPORT_NAMES.get(self.name, self.name.replace("-", "_"))

    def __str__(self) -> str:
        return f"{self.name}>={self.minimum}" if self.minimum else self.name


def examine(*, thorough: bool = False) -> Installation:
    """Everything that is found out in a few seconds; `thorough` imports the libraries of the extras too."""
    needed = list(requirements(metadata.requires(DISTRIBUTION) or [])) if _is_installed(DISTRIBUTION) else []
    core = [each for each in needed if not each.extra]
    extras = [each for each in needed if each.extra in TASKS]
    torch = _probe_torch()
    wanted = [each for each in (core + extras if thorough else core) if _is_installed(each.name)]
    modules = dict.fromkeys(["sqlite3", *(each.module for each in wanted)])
    # Those two were imported by the probe, which knows more of what became of it.
    known = {"torch", "torchvision"} if "version" in torch else set()
    hidden = HIDE_TORCHVISION if torch.get("torchvision") else ""
    tried = try_imports((module for module in modules if module not in known), first=hidden)
    return Installation(
        (
            _find_python(),
            *find_ourselves(),
            *find_libraries(core, tried),
            *find_torch(torch),
            find_page(),
            find_cache(cache_folder()),
        ),
        (*_find_plain_tasks(torch), *find_tasks(extras, tried, torch.get("torchvision"))),
    )


# -- what is installed ------------------------------------------------------------------------------------------------


def requirements(lines: Iterable[str]) -> Iterator[Requirement]:
    """What the lines of a package's metadata ask for, such as `ray>=2.40; extra == "cluster"`."""
    for line in lines:
        wanted, _, condition = line.partition(";")
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", condition)
        name = re.match(r"[\w.-]+", wanted)
        minimum = re.search(r">=\s*([\w.]+)", wanted)
        if name and name[0] != DISTRIBUTION:
            yield Requirement(name[0].lower(), minimum[1] if minimum else "", extra[1] if extra else "")


def _is_installed(distribution: str) -> bool:
    return _version(distribution) is not None


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def is_older(version: str, minimum: str) -> bool:
    """Whether the first numbers of a version are below those of the other: 4.57.6 is older than 5."""
    return _numbers(version) < _numbers(minimum)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"[\d.]*", version)
    return tuple(int(part) for part in (found[0] if found else "").split(".") if part)


def find_library(needed: Requirement, tried: Mapping[str, str]) -> Diagnosis:
    """What there is of one library. `tried` has the error of each module whose import failed."""
    version = _version(needed.name)
    index = _index_of_torch(version) if needed.name == "torch" else ""
    remedy = f"pip install '{needed}'{index}"
    if version is None:
        return Diagnosis(needed.name, "missing", "not installed", remedy)
    if needed.minimum and is_older(version, needed.minimum):
        return Diagnosis(needed.name, "too old", f"{version}; {needed.minimum} or later is needed", remedy)
    if needed.module in tried:
        remedy = f"pip install --force-reinstall --no-deps '{needed.name}=={version.partition('+')[0]}'{index}"
        return Diagnosis(needed.name, "broken", f"{version} cannot be imported: {tried[needed.module]}", remedy)
    return Diagnosis(needed.name, "works", version)


def _index_of_torch(version: str | None) -> str:
    """Where pip finds the same build; where there is none yet and no GPU, the one for the CPU."""
    if version is None:
        return index_of_build("+cpu") if sys.platform == "linux" and not _gpus_of_driver() else ""
    return index_of_build(version)


def find_libraries(core: Sequence[Requirement], tried: Mapping[str, str]) -> Iterator[Diagnosis]:
    """What everything needs: a line for each that is amiss, and one for all others."""
    found = [find_library(each, tried) for each in core]
    yield from (diagnosis for diagnosis in found if diagnosis.state in FAULTS)
    n_fine = sum(diagnosis.state == "works" for diagnosis in found)
    if n_fine:
        yield Diagnosis(
            "libraries", "works", f"{n_fine} of {count_of(found, 'package')} installed, new enough and imported"
        )
    if "sqlite3" in tried:
        reason = f"this Python has no SQLite, which keeps the labels: {tried['sqlite3']}"
        yield Diagnosis("SQLite", "broken", reason, "install a Python that was built with it, and understudy-al there")


def find_tasks(
    extras: Sequence[Requirement], tried: Mapping[str, str], torchvision_fault: str | None
) -> Iterator[Diagnosis]:
    """What each extra is for, and whether its libraries are here."""
    for extra, task in TASKS.items():
        found = [find_library(each, tried) for each in extras if each.extra == extra]
        faults = [diagnosis for diagnosis in found if diagnosis.state in FAULTS]
        if not found:
            yield Diagnosis(task, "missing", "this version's metadata does not list it", install_command(extra), extra)
        elif not faults:
            detail = ", ".join(f"{diagnosis.name} {diagnosis.detail}" for diagnosis in found)
            uses = torchvision_fault is not None and any(diagnosis.name == "torchvision" for diagnosis in found)
            fault, _, remedy = (torchvision_fault or "").rpartition("; ")
            yield Diagnosis(task, "note" if uses else "works", fault if uses else detail, remedy if uses else "", extra)
        elif all(diagnosis.state == "missing" for diagnosis in faults):
            detail = f"not installed: {list_some([diagnosis.name for diagnosis in faults])}"
            yield Diagnosis(task, "missing", detail, install_command(extra), extra)
        else:
            first = next(diagnosis for diagnosis in faults if diagnosis.state != "missing")
            yield Diagnosis(task, first.state, f"{first.name} {first.detail}", first.remedy, extra)


def find_ourselves() -> Iterator[Diagnosis]:
    """Whether pip knows this package, and whether the other one of the same import name lies over it."""
    if not _is_installed(DISTRIBUTION):
        reason = f"it runs from {Path(__file__).parent} and is not installed, so that what it needs is not known"
        yield Diagnosis(DISTRIBUTION, "note", reason, "pip install -e . in its folder")
    other = _version(SAME_IMPORT)
    if other is not None:
        reason = f"{SAME_IMPORT} {other}, another project's package of the same name, is installed over this one"
        remedy = f"pip uninstall -y {SAME_IMPORT} && pip install --force-reinstall --no-deps {DISTRIBUTION}"
        yield Diagnosis("name", "broken", reason, remedy)


# -- what works -------------------------------------------------------------------------------------------------------

TRY_IMPORTS: Final = """\
import importlib, sys
for module in sys.argv[1:]:
    try:
        importlib.import_module(module)
        fault = ""
    except BaseException as error:
        fault = f"{type(error).__name__}: {' '.join(str(error).split())}"
    print("tried:", module, fault[:300], flush=True)
"""
# What does not fit torch is hidden, as it is wherever we import what uses it.
HIDE_TORCHVISION: Final = "from understudy.data.encoders.extras import import_torchvision; import_torchvision()\n"
PROBE_TORCH: Final = "from understudy import installation; print('torch:', installation._torch_as_json())"


def try_imports(modules: Iterable[str], *, first: str = "") -> dict[str, str]:
    """The modules that cannot be imported, with the reason: tried in another process, which does `first` before."""
    left, faults = list(modules), {}
    while left:
        ended, lines = _run_python(first + TRY_IMPORTS, *left)
        for line in lines:
            if line.startswith("tried: "):
                module, _, fault = line.removeprefix("tried: ").partition(" ")
                left.remove(module)
                if fault:
                    faults[module] = fault
        if left:
            faults[left.pop(0)] = ended  # this one took the process with it; the others are tried again
    return faults


def _run_python(code: str, *arguments: str) -> tuple[str, list[str]]:
    """How a process with this code ended, and its output. It sees no modules of the current folder."""
    command = [sys.executable, "-P", "-W", "ignore", "-c", code, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS_TO_IMPORT, check=False)
    except subprocess.TimeoutExpired as late:
        return f"it was not imported within {SECONDS_TO_IMPORT} seconds", _lines(late.stdout)
    return f"the process ended with {done.returncode} {list_some(_lines(done.stderr)[-1:])}".strip(), _lines(
        done.stdout
    )


def _lines(output: bytes | None) -> list[str]:
    return [line for line in (output or b"").decode(errors="replace").splitlines() if line.strip()]


def _probe_torch() -> dict[str, Any]:
    """What torch says of its build and of the GPU, and what that means for torchvision and the encoders."""
    ended, lines = _run_python(PROBE_TORCH)
    told = [line.removeprefix("torch: ") for line in lines if line.startswith("torch: ")]
    return json.loads(told[0]) if told else {"fault": ended}


def _torch_as_json() -> str:
    """For `_probe_torch`, in a process of its own."""
    import torch

    from understudy.data.encoders.choice import default_encoder
    from understudy.data.encoders.extras import import_torchvision

    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else f"ROCm {torch.version.hip}"
    has_gpu_code = bool(torch.version.cuda or torch.version.hip)
    torchvision = import_torchvision()
    chosen = {kind: default_encoder(kind) for kind in ("image", "text")}
    return json.dumps(
        {
            "version": torch.__version__,
            "build": build if has_gpu_code else "",
            "gpu": _name_of_gpu(torch) if has_gpu_code else "",
            "gpu_fault": _fault_of_gpu(torch) if has_gpu_code else "",
            "torchvision": torchvision,
            "encoders": {kind: encoder.name for kind, encoder in chosen.items() if encoder},
        }
    )


def _name_of_gpu(torch: Any) -> str:
    return list_some([torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())])


def _fault_of_gpu(torch: Any) -> str:
    """Why a sum on the GPU fails; nothing where it does not."""
    try:
        torch.ones(2, device="cuda").sum().item()
    except Exception as error:  # whatever the driver leads to
        return reason_of(error)
    return ""


def _gpus_of_driver() -> list[str]:
    """The GPUs that NVIDIA's driver lists, whether torch can use them or not."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_TO_ASK_THE_DRIVER, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []


def find_torch(probed: Mapping[str, Any]) -> Iterator[Diagnosis]:
    """Which build of torch this is, whether the GPU works, and whether one fits the other."""
    if "version" not in probed:
        return  # that torch cannot be imported is said of the libraries
    version = str(probed["version"])
    plain, there = version.partition("+")[0], _gpus_of_driver()
    named = f"{version}, {probed['build'] or 'for the CPU'}"
    if not probed["build"]:
        yield Diagnosis("torch", "works", named)
        if there:
            yield Diagnosis(
                "GPU", "note", f"{list_some(there)} is not used: this torch is for the CPU", _with_cuda(plain)
            )
        else:
            yield Diagnosis("GPU", "works", "none here, and none is needed")
    elif not probed["gpu_fault"]:
        yield Diagnosis("torch", "works", named)
        yield Diagnosis("GPU", "works", f"{probed['gpu']}, with --device cuda")
    elif there:
        yield Diagnosis("torch", "works", named)
        reason = f"{list_some(there)} cannot be used: {probed['gpu_fault']}"
        yield Diagnosis(
            "GPU", "note", reason, "update NVIDIA's driver, or take the build of torch for the one you have"
        )
    else:
        parts = _cuda_parts()
        size = sum(map(_size_of, parts)) / 1e9
        reason = f"{named}: {size:.1f} GB, and no GPU here; the build for the CPU has 0.8 GB"
        yield Diagnosis("torch", "note", reason, _without_cuda(plain, parts))


def _with_cuda(version: str) -> str:
    """The command that installs the build with CUDA: what the package index has for Linux."""
    index = f" --index-url {TORCH_BUILDS}/cu130" if sys.platform == "win32" else ""
    return f"pip uninstall -y torch && pip install 'torch=={version}'{index}"


def _without_cuda(version: str, parts: Sequence[str]) -> str:
    """The command that puts the build for the CPU in the place of CUDA."""
    return f"pip uninstall -y {' '.join(parts)} && pip install 'torch=={version}' --index-url {TORCH_BUILDS}/cpu"


def _cuda_parts() -> list[str]:
    """The distributions that make up torch with CUDA."""
    names = {str(each.metadata["Name"]).lower() for each in metadata.distributions()}
    return sorted((name for name in names if CUDA_PARTS.fullmatch(name)), key=lambda name: (name != "torch", name))


def _size_of(distribution: str) -> int:
    """Bytes of a distribution, by its own list of files."""
    return sum(file.size or 0 for file in metadata.files(distribution) or ())


def _find_plain_tasks(probed: Mapping[str, Any]) -> Iterator[Diagnosis]:
    """What needs no extra, and what it is done by where nobody names an encoder."""
    encoders: Mapping[str, str] = probed.get("encoders", {})
    for kind, plain in (("image", "pixels"), ("text", "words")):
        if kind in encoders:
            yield Diagnosis(f"labelling {kind}s", "works", f"by {encoders[kind].rpartition('/')[2]}, downloaded once")
        elif probed.get("version"):
            detail = f"by {plain} only; a network needs far fewer labels"
            yield Diagnosis(f"labelling {kind}s", "note", detail, install_command("onnx"))
    if probed.get("version"):
        yield Diagnosis("comparing strategies", "works", "figures are an extra")


# -- this machine -----------------------------------------------------------------------------------------------------


def _find_python() -> Diagnosis:
    return Diagnosis("Python", "works", f"{platform.python_version()} on {platform.system()}, {sys.executable}")


def find_page() -> Diagnosis:
    """Whether the labelling page was built into the package."""
    page = Path(__file__).parent / "web" / "static" / "index.html"
    if page.is_file():
        return Diagnosis("page", "works", "the labelling page is built")
    return Diagnosis("page", "broken", f"there is no {page}", "make page, in a copy of the repository")


def find_cache(folder: Path) -> Diagnosis:
    """Whether features and downloads can be written, and how much room there is."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
        free = shutil.disk_usage(there).free
    except OSError as error:
        reason = f"{folder} cannot be written ({reason_of(error)})"
        return Diagnosis("cache", "broken", reason, f"name a folder that can be, in the variable {HOME}")
    said = f"{folder}, {free / 1e9:.1f} GB free"
    if free < BYTES_TO_SPARE:
        return Diagnosis("cache", "note", f"{said}, which is little", f"make room, or name a folder in {HOME}")
    return Diagnosis("cache", "works", said)
