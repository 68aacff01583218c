"""Whether each kind of encoder works here: a tiny model of it is made, loaded as any other, and encodes an item."""

import base64
import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final, Literal

import numpy as np
import torch
from PIL import Image

from understudy.data.encoders.extras import import_library, import_torchvision
from understudy.data.encoders.registry import ENCODERS, EncoderEntry, make_encoder
from understudy.data.encoders.timm_models import PAPER, find_paper_weights
from understudy.errors import UnderstudyError
from understudy.messages import reason_of

Outcome = Literal["works", "no weights", "not installed", "broken", ""]
WORDS: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "text")
# Global means of an image of 8 x 8; a file of 111 bytes.
ONNX_GRAPH: Final = (
    "CAkSADpjChkKAXgSAXAiEUdsb2JhbEF2ZXJhZ2VQb29sCg8KAXASAXkiB0ZsYXR0ZW4SAWdaHAoBeBIXChUIARIRCgMSAW4KAggDCgIICAoCCAhi"
    "FAoBeRIPCg0IARIJCgMSAW4KAggDQgQKABAR"
)


@dataclass(frozen=True)
class Trial:
    """What became of the attempt to use one kind of encoder; `problem` is a line for people, with what to do."""

    outcome: Outcome
    problem: str = ""


def try_encoders() -> tuple[dict[str, Trial], str | None]:
    """A trial of every kind; and the line that mends torchvision, where it does not fit torch. It takes seconds."""
    fault = import_torchvision()
    return {kind: _try(kind, entry) for kind, entry in ENCODERS.items()}, fault


def _try(kind: str, entry: EncoderEntry) -> Trial:
    if kind == "python":
        return Trial("")  # nobody's code is run unasked
    if not entry.is_found:
        return Trial("not installed")
    weights = find_paper_weights(kind) if kind in PAPER else None
    try:
        with tempfile.TemporaryDirectory() as folder, redirect_stderr(StringIO()), torch.random.fork_rng(devices=[]):
            if weights is not None:
                _encode_one(f"{kind}@{weights}")
            else:
                _encode_one(MODELS[kind](Path(folder)) if kind in MODELS else kind)
    except Exception as error:  # whatever a library that is broken raises
        return Trial("broken", reason_of(error))
    return Trial("no weights" if kind in PAPER and weights is None else "works")


def _encode_one(name: str) -> None:
    encoder = make_encoder(name)
    item: Image.Image | str = "a text" if encoder.kind == "text" else Image.new("RGB", (16, 16), (200, 30, 90))
    features = encoder.encode([encoder.prepare(item)])
    if features.shape != (1, encoder.dim) or not np.isfinite(features).all():
        raise UnderstudyError(f"it makes features of shape {features.shape} that are not all finite numbers")


def _timm_model(folder: Path) -> str:
    timm = import_library("timm", "vision")
    network = timm.create_model("test_vit", pretrained=False, num_classes=0)
    torch.save(network.state_dict(), folder / "weights.pt")
    return f"timm:test_vit@{folder / 'weights.pt'}"


def _vision_model(folder: Path) -> str:
    transformers = import_library("transformers", "vision")
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, image_size=16, patch_size=8
    )
    transformers.ViTModel(config).save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(folder)
    return f"hf:{folder}"


def _sentence_model(folder: Path) -> str:
    """One layer of BERT, in the layout of the official repositories."""
    transformers = import_library("transformers", "text")
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    parts = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling")]
    listed = [
        {"idx": int(name), "name": name, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for name, path, kind in parts
    ]
    (folder / "modules.json").write_text(json.dumps(listed), encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    return f"text:{folder}"


def _onnx_graph(folder: Path) -> str:
    (folder / "model.onnx").write_bytes(base64.b64decode(ONNX_GRAPH))
    return f"onnx:{folder / 'model.onnx'}"


MODELS: Final[Mapping[str, Callable[[Path], str]]] = {
    "resnet18": _timm_model,
    "resnet101": _timm_model,
    "vgg16": _timm_model,
    "timm": _timm_model,
    "hf": _vision_model,
    "text": _sentence_model,
    "onnx": _onnx_graph,
}
