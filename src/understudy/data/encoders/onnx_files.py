"""An ONNX file as an encoder, of images or of texts: a file, or a folder in the layout of the official repositories."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from PIL import Image

from understudy.data.encoders.extras import import_library, major_version, one_line
from understudy.data.encoders.hub_models import GRAPHS, model_folder
from understudy.data.encoders.model_configs import config_folders, preprocessing_in
from understudy.data.encoders.model_folders import is_repository
from understudy.data.encoders.onnx_texts import OnnxTextEncoder, onnx_text_encoder, takes_texts
from understudy.data.encoders.onnx_weights import digests
from understudy.data.encoders.preprocessing import Preprocessing
from understudy.data.encoders.protocol import Prepared, identity_of
from understudy.data.encoders.spec import Spec
from understudy.data.items import Kind
from understudy.errors import UnderstudyError, UsageError

POOLED: Final = "pooler_output"  # one row an image, where the graph gives it
TYPES: Final = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


class OnnxEncoder:
    """The graph's output (b, d), the mean over a map (b, d, h, w), or one row of tokens (b, t, d).

    Of tokens it is the first, which stands for the image in the DINO family, or with pool="mean" the mean of all. The
    precision is the graph's own.
    """

    kind: Kind = "image"

    def __init__(
        self, name: str, identity: str, session: Any, preprocessing: Preprocessing, output: str, pool: str = "cls"
    ) -> None:
        self.name, self.identity, self.pool = name, identity, pool
        self.session, self.preprocessing, self.output = session, preprocessing, output
        entry = session.get_inputs()[0]
        self.input, self.dtype = entry.name, TYPES[entry.type]
        self.channels_last = entry.shape[1] != 3 and entry.shape[3] == 3
        self.batch = entry.shape[0] if isinstance(entry.shape[0], int) else None
        self.dim = self.encode([np.zeros((*preprocessing.shape, 3), np.uint8)]).shape[1]

    def prepare(self, item: Image.Image | str) -> Prepared:
        assert isinstance(item, Image.Image)
        return self.preprocessing.resize_to_shape(item)

    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        pixels = torch.from_numpy(np.stack([np.asarray(image) for image in batch]))
        images = self.preprocessing.normalise(pixels).numpy().astype(self.dtype)
        images = np.ascontiguousarray(images.transpose(0, 2, 3, 1) if self.channels_last else images)
        step = self.batch or len(images)
        return np.concatenate([self.run(images[start : start + step], step) for start in range(0, len(images), step)])

    def run(self, images: np.ndarray, step: int) -> np.ndarray:
        """Features of some images; a graph made for a fixed number of them is given that number."""
        filled = np.concatenate([images, np.zeros((step - len(images), *images.shape[1:]), images.dtype)])
        features = np.asarray(self.session.run([self.output], {self.input: filled})[0])[: len(images)]
        if features.ndim == 4:
            features = features.mean((1, 2) if self.channels_last else (2, 3))
        elif features.ndim == 3:
            features = features[:, 0] if self.pool == "cls" else features.mean(1)
        if features.ndim != 2:
            raise UnderstudyError(f"{self.name} gives shape {features.shape}; choose another output, ?output=NAME")
        return features.astype(np.float32)


def onnx_encoder(spec: Spec) -> OnnxEncoder | OnnxTextEncoder:
    onnxruntime = import_library("onnxruntime", "onnx")
    path = _find_graph(model_folder(spec.model, "onnx") if is_repository(spec.model) else Path(spec.model).expanduser())
    providers = [f"{spec.device.split(':')[0].upper()}ExecutionProvider", "CPUExecutionProvider"]
    wanted = [provider for provider in dict.fromkeys(providers) if provider in onnxruntime.get_available_providers()]
    try:
        session = onnxruntime.InferenceSession(path, providers=wanted)
    except Exception as error:  # the library's exceptions share no other base
        raise UnderstudyError(
            f"{path} is not an ONNX file that can be run ({one_line(error)}); export it again"
        ) from error
    library = f"onnxruntime {major_version(onnxruntime)}"
    if takes_texts(session):
        return onnx_text_encoder(spec, path, session, library)
    return _image_encoder(spec, path, session, library)


def _find_graph(path: Path) -> Path:
    """The file of a graph: the one named, or that in the folder named."""
    if path.is_file():
        return path
    if path.is_dir():
        found = [path / name for name in GRAPHS if (path / name).is_file()] or sorted(path.glob("*.onnx"))
        if len(found) == 1 or (found and found[0].name == "model.onnx"):
            return found[0]
        raise UsageError(f"{path} has {len(found) or 'no'} ONNX files; write onnx:FILE")
    raise UsageError(f"there is no ONNX file at {path}; write onnx:FILE, onnx:FOLDER or onnx:OWNER/NAME")


def _image_encoder(spec: Spec, path: Path, session: Any, library: str) -> OnnxEncoder:
    entry = session.get_inputs()[0]
    # A graph whose axes are all open takes colours first, as those of the hub do.
    shape = list(entry.shape)
    if len(shape) == 4 and not any(isinstance(side, int) for side in shape[1:]):
        shape[1] = 3
    if len(shape) != 4 or 3 not in (shape[1], shape[3]) or entry.type not in TYPES:
        raise UnderstudyError(
            f"{path} takes {entry.type} of shape {entry.shape}; an encoder takes (items, 3, height, width) or "
            "(items, height, width, 3) numbers, or the tokens of texts by the name of input_ids"
        )
    sides = shape[2:] if shape[1] == 3 else shape[1:3]
    rest = {name: value for name, value in spec.options.items() if name not in ("output", "pool")}
    preprocessing = _fit_size(path, sides, rest)
    outputs = [output.name for output in session.get_outputs()]
    output = spec.options.get("output", POOLED if POOLED in outputs else outputs[0])
    if output not in outputs:
        raise UsageError(f"{path} has no output {output!r}; it has {', '.join(outputs)}")
    pool = spec.options.get("pool", "cls")
    if pool not in ("cls", "mean"):
        raise UsageError(f"pool must be cls or mean; got {pool!r}")
    parts = {
        "library": library,
        "files": digests(path),
        "output": output,
        "preprocessing": asdict(preprocessing),
    }
    identity = identity_of(kind="onnx", **parts, **({"pool": pool} if pool != "cls" else {}))
    return OnnxEncoder(spec.name, identity, session, preprocessing, output, pool)


def _fit_size(path: Path, sides: list[Any], options: Mapping[str, str]) -> Preprocessing:
    """The preprocessing asked for, at the size the graph takes."""
    told = preprocessing_in(config_folders(path))
    preprocessing = (told or Preprocessing()).with_options(options)
    if all(isinstance(side, int) for side in sides):
        height, width = sides
        if "size" in options and preprocessing.shape != (height, width):
            raise UsageError(f"{path} takes images of {height} x {width}; got size {options['size']}")
        return preprocessing.with_options({"size": f"{height}x{width}"})
    if told is None and "size" not in options:
        raise UsageError(f"{path} does not say how large its images are; write onnx:{path}?size=224")
    return preprocessing
