"""The paper's three networks, and any other that timm knows."""

import difflib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from torch import Tensor, nn

from understudy.data.encoders.extras import explain_hub_errors, import_library, major_version
from understudy.data.encoders.model_folders import find_snapshot
from understudy.data.encoders.modules import ImageEncoder
from understudy.data.encoders.preprocessing import Preprocessing
from understudy.data.encoders.protocol import digest_of
from understudy.data.encoders.spec import Spec
from understudy.data.encoders.weights import load_weights, tensors_only
from understudy.errors import UnderstudyError, UsageError

PAPER: Final = {"resnet18": "resnet18.tv_in1k", "resnet101": "resnet101.tv_in1k", "vgg16": "vgg16.tv_in1k"}
CLASSIFIERS: Final = ("fc.", "classifier.", "head.", "pre_logits.", "head_dist.")
ON_HUB: Final = ("hf-hub:", "hf_hub:", "local-dir:")


def paper_encoder(spec: Spec) -> ImageEncoder:
    """Global means of the last convolution stage, of the whole image squashed to 224 x 224."""
    network = _build(spec, PAPER[spec.kind])
    # VGG pools inside a fully connected stage of 4,096 columns; the means before it are what is wanted.
    network = nn.Sequential(OrderedDict(features=network.features)) if spec.kind == "vgg16" else network
    return _encoder_of(spec, network, Preprocessing())


def find_paper_weights(kind: str) -> Path | None:
    """The file of one of the paper's networks in the hub's cache, where timm would take it from."""
    folder = find_snapshot(f"timm/{PAPER[kind]}", "model.safetensors")
    return None if folder is None else folder / "model.safetensors"


def timm_encoder(spec: Spec) -> ImageEncoder:
    """The pooled features of any timm model, of images prepared as for its training."""
    timm = import_library("timm", "vision")
    if not spec.model.startswith(ON_HUB) and not timm.is_model(spec.model):
        close = difflib.get_close_matches(spec.model, timm.list_models(), n=3)
        remedy = f"did you mean {', '.join(close)}?" if close else "timm.list_models() gives the names"
        raise UsageError(f"timm has no model {spec.model!r}; {remedy}")
    network = _build(spec, spec.model)
    return _encoder_of(spec, network, _trained_with(timm.data.resolve_data_config({}, model=network)))


def _build(spec: Spec, model: str) -> Any:
    timm = import_library("timm", "vision")
    with (
        tensors_only(),
        explain_hub_errors(f"the network {model}", f"give its weights in a local file, {spec.name}@FILE"),
    ):
        return timm.create_model(model, pretrained=spec.weights is None, num_classes=0)


def _encoder_of(spec: Spec, network: nn.Module, preprocessing: Preprocessing) -> ImageEncoder:
    if spec.weights is not None:
        names = [name for name in network.state_dict() if not name.startswith(CLASSIFIERS)]
        load_weights(network, spec.weights, ignored=CLASSIFIERS, rename=lambda given: _timm_names(given, names))
    identity = f"timm {major_version(import_library('timm', 'vision'))} {spec.kind} {spec.model} {digest_of(network)}"
    return ImageEncoder(
        network,
        preprocessing.with_options(spec.options),
        name=spec.name,
        identity=identity,
        device=spec.device,
        precision=spec.precision,
    )


def _timm_names(given: dict[str, Tensor], names: Sequence[str]) -> dict[str, Tensor]:
    """Weights by timm's names. EfficientNets of the first port to torch have others, in the same order."""
    if "_conv_stem.weight" not in given:
        return given
    kept = {name: tensor for name, tensor in given.items() if not name.startswith("_fc.")}
    return dict(zip(names, kept.values(), strict=True)) if len(names) == len(kept) else given


def _trained_with(config: Mapping[str, Any]) -> Preprocessing:
    """timm's description of a model's images, as ours."""
    channels, height, width = config["input_size"]
    if channels != 3:
        raise UnderstudyError(f"this model takes images of {channels} channels; choose one for colour images")
    return Preprocessing(
        size=height if height == width else (height, width),
        resize="squash" if config["crop_mode"] == "squash" else "crop",
        crop=float(config["crop_pct"]),
        interpolation=config["interpolation"],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
    )
