"""An encoder's name, taken apart: `KIND[:MODEL][?OPTIONS][@WEIGHTS]`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import parse_qsl

import torch

from understudy.errors import UsageError

Precision = Literal["float32", "bfloat16"]
WEIGHTS: Final = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".h5", ".npz")  # how files of weights end
PATHS: Final = ("hf", "text", "python")  # their models may be paths, and a path may have an @


@dataclass(frozen=True)
class Spec:
    """Which encoder, of what, and where it runs."""

    name: str
    kind: str
    model: str
    options: Mapping[str, str]
    weights: Path | None
    device: str = "cpu"
    precision: Precision = "float32"


def parse_spec(name: str, device: str, precision: Precision | None) -> Spec:
    kind = name.partition("@")[0].partition(":")[0].partition("?")[0]
    front, at, file = _divide(name, kind)
    if at and not file:
        raise UsageError(f"a file of weights must follow the @ in {name!r}")
    head, _, query = front.removeprefix(kind).partition("?")
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else {}
    except ValueError as error:
        raise UsageError(f"options are written ?key=value&key=value; got ?{query}") from error
    device = check_device(device)
    return Spec(
        name=name,
        kind=kind,
        model=head.removeprefix(":"),
        options=options,
        weights=Path(file).expanduser() if at else None,
        device=device,
        precision=precision or default_precision(device),
    )


def _divide(name: str, kind: str) -> tuple[str, str, str]:
    """What comes before the weights, the @, and the weights; of paths, only what looks like weights is one."""
    if kind == "onnx" or (kind in PATHS and not name.endswith((*WEIGHTS, "@"))):
        return name, "", ""  # an @ belongs to the path; the weights of ONNX are in the graph
    if kind in PATHS and "@" in name:
        return name.rpartition("@")[0], "@", name.rpartition("@")[2]
    return name.partition("@")


def default_precision(device: str) -> Precision:
    """Half the bits where they are twice as fast."""
    return "bfloat16" if torch.device(device).type == "cuda" else "float32"


def check_device(device: str) -> str:
    """The device, if it is there; "auto" is a GPU if there is one."""
    has_gpu = torch.cuda.is_available()
    if device == "auto":
        return "cuda" if has_gpu else "cpu"
    if device.partition(":")[0] not in {"cpu", "cuda"}:
        raise UsageError(f"device must be auto, cpu or cuda; got {device!r}")
    if device.startswith("cuda") and not has_gpu:
        raise UsageError("torch finds no GPU here; use the device cpu, or install torch for CUDA")
    return device
