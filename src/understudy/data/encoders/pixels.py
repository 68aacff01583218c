"""The image itself as features: a baseline that needs no weights."""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from understudy.data.encoders.preprocessing import Preprocessing
from understudy.data.encoders.protocol import Prepared, identity_of
from understudy.data.encoders.spec import Spec
from understudy.data.items import Kind
from understudy.errors import UsageError


class PixelEncoder:
    """Height x width x 3 columns, or x 1 in grey, from 0 to 1; the whole image is squashed to this size."""

    kind: Kind = "image"

    def __init__(self, name: str, size: str = "32", grey: str = "0") -> None:
        if grey not in {"0", "1"}:
            raise UsageError(f"grey is 0 or 1; got {grey!r}")
        self.name, self.grey = name, grey == "1"
        self.preprocessing = Preprocessing().with_options({"size": size})
        height, width = self.preprocessing.shape
        self.dim = height * width * (1 if self.grey else 3)
        self.identity = identity_of(kind="pixels", size=[height, width], grey=self.grey)

    def prepare(self, item: Image.Image | str) -> Prepared:
        assert isinstance(item, Image.Image)
        pixels = self.preprocessing.resize_to_shape(item)
        return np.asarray(Image.fromarray(pixels).convert("L")) if self.grey else pixels

    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        pixels = np.stack([np.asarray(image) for image in batch])
        return pixels.reshape(len(pixels), -1).astype(np.float32) / 255


def pixel_encoder(spec: Spec) -> PixelEncoder:
    if spec.weights is not None:
        raise UsageError("pixels takes no weights; write pixels or pixels?size=32&grey=1")
    unknown = [name for name in spec.options if name not in {"size", "grey"}]
    if unknown:
        raise UsageError(f"there is no option {unknown[0]!r} for pixels; there are size and grey")
    return PixelEncoder(spec.name, **spec.options)
