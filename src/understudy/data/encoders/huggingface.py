"""Any vision model of `transformers`, from the hub or a folder, with the image processor that belongs to it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from understudy.data.encoders.extras import from_hub, library, major
from understudy.data.encoders.modules import forward, moved, on_device
from understudy.data.encoders.protocol import Prepared, digest_of, identity_of
from understudy.data.encoders.spec import Spec
from understudy.data.encoders.weights import load_weights
from understudy.data.items import Kind
from understudy.errors import UnderstudyError


class Pooled(nn.Module):
    """A model's `pooler_output`; without one, the mean of its tokens, or its map of features."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Tensor) -> Tensor:
        output = self.model(pixel_values=pixel_values)
        pooled = getattr(output, "pooler_output", None)
        if pooled is not None:
            return pooled.flatten(1)
        last = output.last_hidden_state
        return last.mean(1) if last.ndim == 3 else last


class HuggingFaceEncoder:
    kind: Kind = "image"

    def __init__(self, spec: Spec, identity: str, model: nn.Module, processor: Any) -> None:
        self.name, self.identity, self.precision = spec.name, identity, spec.precision
        self.device = torch.device(spec.device)
        self.processor = processor
        self.module = on_device(Pooled(model), self.device)
        self.dim = self.encode([self.prepare(Image.new("RGB", (64, 64)))]).shape[1]

    def prepare(self, item: Image.Image | str) -> Prepared:
        pixels = self.processor(images=item, return_tensors="np")["pixel_values"]
        return np.asarray(pixels[0], dtype=np.float32)

    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        images = np.stack([np.asarray(image) for image in batch])
        return forward(self.module, moved(images, self.device), self.precision)


def huggingface_encoder(spec: Spec) -> HuggingFaceEncoder:
    model = spec.model
    if spec.options:
        raise UnderstudyError(f"hf:{model} brings its own preprocessing and takes no options; leave out what follows ?")
    transformers = library("transformers", "vision")
    with from_hub(f"the model {model}", "give a folder that save_pretrained wrote, hf:FOLDER or hf:FOLDER@FILE"):
        processor = transformers.AutoImageProcessor.from_pretrained(model)
        if spec.weights is None:
            whole = transformers.AutoModel.from_pretrained(model)
        else:
            whole = transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(model))
    if spec.weights is not None:
        load_weights(whole, spec.weights, ignored=("classifier.", "head."))
    # Models of images and texts, such as CLIP, keep what sees in a part of their own.
    network = getattr(whole, "vision_model", whole)
    identity = identity_of(
        kind="hf",
        library=f"transformers {major(transformers)}",
        network=[type(network).__name__, network.config.to_json_string(), digest_of(network)],
        preprocessing=processor.to_json_string(),
        precision=spec.precision,
    )
    return HuggingFaceEncoder(spec, identity, network, processor)
