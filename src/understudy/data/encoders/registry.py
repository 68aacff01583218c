"""Encoders by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from understudy.data.encoders.extras import is_found
from understudy.data.encoders.found_models import kind_of_folder
from understudy.data.encoders.huggingface import huggingface_encoder
from understudy.data.encoders.onnx_files import onnx_encoder
from understudy.data.encoders.own_code import own_encoder
from understudy.data.encoders.pixels import pixel_encoder
from understudy.data.encoders.protocol import Encoder
from understudy.data.encoders.sentences import sentence_encoder
from understudy.data.encoders.spec import Precision, Spec, parse_spec
from understudy.data.encoders.timm_models import paper_encoder, timm_encoder
from understudy.data.encoders.words import word_encoder
from understudy.errors import UsageError


@dataclass(frozen=True)
class EncoderEntry:
    """One kind of encoder: how it is written, what it is, and which extra brings the library it needs."""

    syntax: str
    what: str
    columns: str
    make: Callable[[Spec], Encoder]
    library: str | None = None
    extra: str | None = None

    @property
    def is_found(self) -> bool:
        return self.library is None or is_found(self.library)

    @property
    def needs_model(self) -> bool:
        return ":" in self.syntax


ENCODERS: Final[Mapping[str, EncoderEntry]] = {
    "resnet18": EncoderEntry("resnet18", "the paper's, ImageNet", "512", paper_encoder, "timm", "vision"),
    "resnet101": EncoderEntry("resnet101", "the paper's, ImageNet", "2048", paper_encoder, "timm", "vision"),
    "vgg16": EncoderEntry("vgg16", "the paper's, ImageNet", "512", paper_encoder, "timm", "vision"),
    "timm": EncoderEntry("timm:NAME", "any timm model", "the model's", timm_encoder, "timm", "vision"),
    "hf": EncoderEntry(
        "hf:NAME", "any transformers vision model", "the model's", huggingface_encoder, "transformers", "vision"
    ),
    "text": EncoderEntry("text:NAME", "texts", "the model's", sentence_encoder, "sentence_transformers", "text"),
    "onnx": EncoderEntry(
        "onnx:FILE", "an ONNX graph, also of texts", "the graph's", onnx_encoder, "onnxruntime", "onnx"
    ),
    "pixels": EncoderEntry("pixels", "the pixels themselves", "3072", pixel_encoder),
    "words": EncoderEntry("words", "texts by their words and letters", "256", word_encoder),
    "python": EncoderEntry("python:FILE:NAME", "your own code, which is run", "yours", own_encoder),
}


def make_encoder(name: str, *, device: str = "cpu", precision: Precision | None = None) -> Encoder:
    """The encoder `KIND[:MODEL][?OPTIONS][@WEIGHTS]`, on "cpu", "cuda", or "auto" for whichever there is.

    `precision` is float32 on the CPU and bfloat16 on a GPU unless said otherwise; it is part of the identity.
    """
    spec = parse_spec(_with_kind(name), device, precision)
    if spec.kind == "python" and precision is not None:
        raise UsageError("python: encoders choose their precision themselves; leave it out here")
    if spec.kind not in ENCODERS:
        known = ", ".join(entry.syntax for entry in ENCODERS.values())
        raise UsageError(f"there is no encoder {name!r}; write one of {known}")
    entry = ENCODERS[spec.kind]
    if entry.needs_model != bool(spec.model):
        raise UsageError(f"{name!r} is not an encoder; write {entry.syntax}")
    return entry.make(spec)


def _with_kind(name: str) -> str:
    """The name; of a path to a graph or to a model's folder, the same with its kind in front."""
    if name.partition(":")[0].partition("?")[0].partition("@")[0] in ENCODERS:
        return name
    path = Path(name).expanduser()
    if path.suffix == ".onnx" and path.is_file():
        return f"onnx:{path}"
    held = kind_of_folder(path) if path.is_dir() else None
    return name if held is None else f"{held[0]}:{path}"
