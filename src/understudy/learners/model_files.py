"""Trained models as files: tensors and a line of JSON in safetensors, no code and no pickle.

A file holds `weight_0`, `bias_0` ... and `shift` and `scale` of the inputs; a network has its parameters by name.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from understudy.data.files import write_atomically
from understudy.errors import UnderstudyError
from understudy.learners import standalone
from understudy.learners.heads import HeadModel
from understudy.learners.protocol import Model
from understudy.learners.stack import Stack
from understudy.messages import reason_of

FORMAT: Final = standalone.FORMAT
LOADER: Final = Path(standalone.__file__).read_text(encoding="utf-8")  # for those who have no understudy
NET: Final = "net."  # before the names of a network's own tensors

Parts = tuple[dict[str, Any], dict[str, np.ndarray]]  # what the JSON says of a model, and its tensors


def can_save(model: Model) -> bool:
    """Whether `save_model` knows how to write such a model."""
    return _parts_of(model) is not None


def save_model(
    model: Model, path: Path, *, classes: Sequence[str], encoder: str | None = None, notes: Mapping[str, Any]
) -> None:
    """Write a model, whole or not at all. `notes` are yours, anything that JSON can hold."""
    write_atomically(path, model_bytes(model, classes=classes, encoder=encoder, notes=notes))


def model_bytes(model: Model, *, classes: Sequence[str], encoder: str | None, notes: Mapping[str, Any]) -> bytes:
    """The content of a model's file; the same for the same model."""
    if len(classes) != model.n_classes:
        raise UnderstudyError(f"the model knows {model.n_classes} classes; got {len(classes)} names for them")
    parts = _parts_of(model)
    if parts is None:
        raise UnderstudyError(
            f"a {type(model).__name__} cannot be written to a file; heads, logistic regression and networks can"
        )
    about, tensors = parts
    about = {
        "format": FORMAT, "classes": list(classes), "encoder": encoder, "notes": dict(notes),
        "interrupted": model.interrupted, **about,
    }  # fmt: skip
    # One entry: several would come in another order each time, and the content is known by its hash.
    return save(
        {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()},
        {"understudy": json.dumps(about, sort_keys=True)},
    )


def load_model(path: Path) -> Model:
    """The model in a file, on the CPU."""
    about, tensors = _read(path)
    try:
        if about["kind"] == "head":
            return _head_of(about, tensors)
        if about["kind"] == "network":
            return _network_of(about, tensors)
        return standalone.load_model(path)
    except (KeyError, ValueError, RuntimeError) as error:
        raise UnderstudyError(f"{path} is not a complete model ({reason_of(error)}); export it again") from error


def about_model(path: Path) -> dict[str, Any]:
    """What is written beside the tensors: kind, classes, encoder, notes."""
    return _read(path)[0]


def _read(path: Path) -> Parts:
    try:
        with safe_open(path, framework="np") as file:
            about = json.loads((file.metadata() or {})["understudy"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise UnderstudyError(f"{path}: no such file") from error
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise UnderstudyError(f"{path} holds no model of understudy ({reason_of(error)}); export it again") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise UnderstudyError(f"{path} is of another version of understudy; load it where it was saved")
    return about, tensors


def _parts_of(model: Any) -> Parts | None:
    """What a file says of a model, or None where the model is of no known kind."""
    if isinstance(model, HeadModel):
        return _parts_of_head(model)
    # Only here: whoever trains heads need not wait for scikit-learn and the network.
    from understudy.learners.classifiers import ClassifierModel
    from understudy.learners.network import NetworkModel

    if isinstance(model, NetworkModel):
        tensors = {NET + name: tensor for name, tensor in model.net.state_dict().items()}
        tensors |= {"shift": model.shift, "scale": model.scale}
        return {"kind": "network", "dropout": model.dropout}, {name: _on_host(each) for name, each in tensors.items()}
    if isinstance(model, ClassifierModel):
        return _parts_of_classifier(model)
    return None


def _parts_of_head(model: HeadModel) -> Parts:
    stack = model.stack
    layers = {f"weight_{i}": _on_host(weight[0]) for i, weight in enumerate(stack.weights)}
    layers |= {f"bias_{i}": _on_host(bias[0, 0]) for i, bias in enumerate(stack.biases)}
    about = {
        "kind": "head", "layers": len(stack.weights), "activation": stack.activation, "dropout": model.dropout,
        "seen": list(range(model.n_classes)),
    }  # fmt: skip
    return about, layers | {"shift": _on_host(model.shift), "scale": _on_host(model.scale)}


def _parts_of_classifier(model: Any) -> Parts | None:
    """Logistic regression on standardised features as one layer, or None for any other estimator."""
    about = {"kind": "linear", "layers": 1, "activation": "relu", "seen": model.seen.tolist()}
    if model.estimator is None:  # one class only: it is certain
        nothing = np.zeros(model.n_columns)
        weight = np.zeros((model.n_columns, 1))
        return about, {"weight_0": weight, "bias_0": np.zeros(1), "shift": nothing, "scale": nothing}
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    steps = [step for _, step in model.estimator.steps] if isinstance(model.estimator, Pipeline) else []
    if [type(step) for step in steps] != [StandardScaler, LogisticRegression]:
        return None
    scaler, regression = steps
    asks_for_other = getattr(regression, "multi_class", "deprecated") not in ("auto", "deprecated")
    if asks_for_other or (regression.solver == "liblinear" and len(model.seen) > 2):
        return None  # one against the rest: no softmax
    weight, bias = _doubles(regression.coef_).T, _doubles(regression.intercept_)
    if len(model.seen) == 2:  # one output for two classes: the other's is 0
        weight, bias = np.hstack([np.zeros_like(weight), weight]), np.append(0.0, bias)
    n = model.n_columns
    shift = _doubles(scaler.mean_) if scaler.with_mean else np.zeros(n)
    scale = 1 / _doubles(scaler.scale_) if scaler.with_std else np.ones(n)
    return about, {"weight_0": weight, "bias_0": bias, "shift": shift, "scale": scale}


def _head_of(about: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> HeadModel:
    layers = range(about["layers"])
    stack = Stack(
        tuple(_as_tensor(tensors[f"weight_{i}"][None]) for i in layers),
        tuple(_as_tensor(tensors[f"bias_{i}"][None, None]) for i in layers),
        about["activation"],
    )
    shift, scale = _as_tensor(tensors["shift"]), _as_tensor(tensors["scale"])
    return HeadModel(stack, shift, scale, len(about["classes"]), about["dropout"], about["interrupted"])


def _network_of(about: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Model:
    from understudy.learners.network import NetworkModel, ResNet18

    shift, scale = _as_tensor(tensors["shift"]), _as_tensor(tensors["scale"])
    net = ResNet18(len(shift), len(about["classes"]))
    net.load_state_dict(
        {name.removeprefix(NET): _as_tensor(each) for name, each in tensors.items() if name.startswith(NET)}
    )
    net.to(memory_format=torch.channels_last).eval().requires_grad_(False)  # type: ignore[call-overload]
    return NetworkModel(net, shift, scale, len(about["classes"]), about["dropout"], about["interrupted"])


def _doubles(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=np.float64)


def _on_host(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def _as_tensor(values: np.ndarray) -> torch.Tensor:
    # A copy of torch's own: where a tensor begins in memory can change the last bit of a product.
    return torch.from_numpy(values).clone()
