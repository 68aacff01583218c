"""Any torch network as an encoder of images: what the named ones are made of, and what your own can be."""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from understudy.data.encoders.preprocessing import Preprocessing
from understudy.data.encoders.protocol import Prepared, digest_of, identity_of
from understudy.data.encoders.spec import Precision, default_precision
from understudy.data.items import Kind
from understudy.errors import UnderstudyError


class ImageEncoder:
    """A network that makes (b, d) features, or (b, d, h, w) maps whose mean is taken, of (b, 3, height, width) images.

    `identity` stands for the network and its weights; without one it is a digest of both. On a GPU the precision is
    bfloat16 unless another is asked for.
    """

    kind: Kind = "image"

    def __init__(
        self,
        module: nn.Module,
        preprocessing: Preprocessing | None = None,
        *,
        name: str = "custom",
        identity: str | None = None,
        device: str = "cpu",
        precision: Precision | None = None,
    ) -> None:
        self.name = name
        self.preprocessing = preprocessing or Preprocessing()
        self.precision = precision or default_precision(device)
        self.identity = identity_of(
            network=identity or [repr(module), digest_of(module)],
            preprocessing=asdict(self.preprocessing),
            precision=self.precision,
        )
        self.device = torch.device(device)
        self.module = prepare_module(module, self.device)
        self.dim = self.encode([np.zeros((*self.preprocessing.shape, 3), np.uint8)]).shape[1]

    def prepare(self, item: Image.Image | str) -> Prepared:
        assert isinstance(item, Image.Image)
        return self.preprocessing.resize_to_shape(item)

    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        pixels = move_to_device(np.stack([np.asarray(image) for image in batch]), self.device)
        return forward(self.module, self.preprocessing.normalise(pixels), self.precision)


def prepare_module(module: nn.Module, device: torch.device) -> nn.Module:
    module = module.eval().requires_grad_(False).to(device)
    # Convolutions in half precision want their channels together; elsewhere the layout changes nothing.
    return module.to(memory_format=torch.channels_last) if device.type == "cuda" else module  # type: ignore[call-overload]


def move_to_device(values: np.ndarray, device: torch.device) -> Tensor:
    tensor = torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def forward(module: nn.Module, images: Tensor, precision: Precision) -> np.ndarray:
    """(b, d) in float32. The same images give the same bits, in the same batch on the same device."""
    with (
        torch.inference_mode(),
        torch.autocast(images.device.type, torch.bfloat16, enabled=precision == "bfloat16"),
        torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True),
    ):
        features = module(images)
    if not isinstance(features, Tensor) or features.ndim not in (2, 4) or len(features) != len(images):
        came = f"shape {tuple(features.shape)}" if isinstance(features, Tensor) else type(features).__name__
        raise UnderstudyError(
            f"an encoder must make (items, columns) or (items, columns, height, width) of {len(images)} images; "
            f"got {came}"
        )
    features = features.float()
    return (features.mean((2, 3)) if features.ndim == 4 else features).cpu().numpy()
