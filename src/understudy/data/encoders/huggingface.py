"""Any vision model of `transformers`, from the hub or a folder, with the image processor that belongs to it."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from understudy.data.encoders.extras import (
    explain_hub_errors,
    explain_import_errors,
    import_library,
    major_version,
    quiet_transformers,
)
from understudy.data.encoders.hub_models import folder_or_name
from understudy.data.encoders.modules import forward, move_to_device, prepare_module
from understudy.data.encoders.protocol import Prepared, digest_of, identity_of
from understudy.data.encoders.spec import Spec
from understudy.data.encoders.weights import list_names, load_weights
from understudy.data.items import Kind
from understudy.errors import UnderstudyError, UsageError


class Pooled(nn.Module):
    """A model's `pooler_output`; without a trained one, the mean of its tokens, or its map of features."""

    def __init__(self, model: nn.Module, *, has_pooler: bool = True) -> None:
        super().__init__()
        self.model, self.has_pooler = model, has_pooler

    def forward(self, pixel_values: Tensor) -> Tensor:
        output = self.model(pixel_values=pixel_values)
        pooled = getattr(output, "pooler_output", None)
        if pooled is not None and self.has_pooler:
            return pooled.flatten(1)
        last = output.last_hidden_state
        return last.mean(1) if last.ndim == 3 else last


class HuggingFaceEncoder:
    kind: Kind = "image"

    def __init__(self, spec: Spec, identity: str, model: Pooled, processor: Any) -> None:
        self.name, self.identity, self.precision = spec.name, identity, spec.precision
        self.device = torch.device(spec.device)
        self.processor = processor
        self.module = prepare_module(model, self.device)
        self.dim = self.encode([self.prepare(Image.new("RGB", (64, 64)))]).shape[1]

    def prepare(self, item: Image.Image | str) -> Prepared:
        pixels = self.processor(images=item, return_tensors="np")["pixel_values"]
        return np.asarray(pixels[0], dtype=np.float32)

    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        images = np.stack([np.asarray(image) for image in batch])
        return forward(self.module, move_to_device(images, self.device), self.precision)


def huggingface_encoder(spec: Spec) -> HuggingFaceEncoder:
    model = folder_or_name(spec.model, "hf")
    if spec.options:
        raise UsageError(f"hf:{spec.model} brings its own preprocessing and takes no options; leave out what follows ?")
    transformers = import_library("transformers", "vision")
    with explain_import_errors("transformers", "vision"):
        processors, models = transformers.AutoImageProcessor, transformers.AutoModel
    remedy = "give a folder that save_pretrained wrote, hf:FOLDER or hf:FOLDER@FILE"
    missing: list[str] = []
    with quiet_transformers(), explain_hub_errors(f"the model {spec.model}", remedy):
        processor = processors.from_pretrained(model)
        if spec.weights is None:
            whole, loaded = models.from_pretrained(model, output_loading_info=True)
            missing = sorted(loaded["missing_keys"])
        else:
            whole = models.from_config(transformers.AutoConfig.from_pretrained(model))
    if spec.weights is not None:
        load_weights(whole, spec.weights, ignored=("classifier.", "head."))
    # Models of images and texts, such as CLIP, keep what sees in a part of their own.
    network = getattr(whole, "vision_model", whole)
    if network is not whole:
        missing = [name.removeprefix("vision_model.") for name in missing if name.startswith("vision_model.")]
    untrained = _poolers(missing, model)
    identity = identity_of(
        kind="hf",
        library=f"transformers {major_version(transformers)}",
        network=[type(network).__name__, network.config.to_json_string(), digest_of(network, untrained)],
        has_pooler=not untrained,
        preprocessing=processor.to_json_string(),
        precision=spec.precision,
    )
    return HuggingFaceEncoder(spec, identity, Pooled(network, has_pooler=not untrained), processor)


def _poolers(missing: Iterable[str], model: str) -> list[str]:
    """The missing weights, if all belong to a pooler: classifiers are saved without. It is random, and not used."""
    names = [name for name in missing if not name.endswith("num_batches_tracked")]
    others = [name for name in names if "pooler" not in name.split(".")]
    if others:
        raise UnderstudyError(f"{model} lacks weights of its network ({list_names(others)}); give one that is complete")
    return names
