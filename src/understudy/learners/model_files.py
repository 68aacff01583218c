"""Trained models as files: tensors and a line of JSON in safetensors, no code and no pickle.

A file holds `weight_0`, `bias_0` ... and `shift` and `scale` of the inputs; a network has its parameters by name.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from understudy.data.files import write_atomically
from understudy.errors import UnderstudyError
from understudy.learners import standalone
from understudy.learners.calibration import temper
from understudy.learners.heads import HeadModel
from understudy.learners.protocol import Model
from understudy.learners.stack import Stack
from understudy.messages import reason_of

FORMAT: Final = standalone.FORMAT
LOADER: Final = Path(standalone.__file__).read_text(encoding="utf-8")  # to load models without understudy
NET: Final = "net."  # prefix of a network's own tensors

Parts = tuple[dict[str, Any], dict[str, np.ndarray]]  # the JSON description of a model, and its tensors


def can_save(model: Model) -> bool:
    """Whether `save_model` can write such a model."""
    return _parts_of(model) is not None


def save_model(
    model: Model, path: Path, *, classes: Sequence[str], encoder: str | None = None, notes: Mapping[str, Any]
) -> None:
    """Write a model atomically. `notes` is free for the caller: anything that JSON can hold."""
    write_atomically(path, model_bytes(model, classes=classes, encoder=encoder, notes=notes))


def model_bytes(model: Model, *, classes: Sequence[str], encoder: str | None, notes: Mapping[str, Any]) -> bytes:
    """The content of a model's file; deterministic."""
    if len(classes) != model.n_classes:
        raise UnderstudyError(f"the model has {model.n_classes} classes, but {len(classes)} names were passed")
    parts = _parts_of(model)
    if parts is None:
        raise UnderstudyError(
            f"a {type(model).__name__} cannot be saved; only heads, logistic regression and networks can"
        )
    about, tensors = parts
    about = {
        "format": FORMAT, "classes": list(classes), "encoder": encoder, "notes": dict(notes),
        "interrupted": model.interrupted, **about,
    }  # fmt: skip
    # One entry: the order of several would vary, and files are compared by their hash.
    return save(
        {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()},
        {"understudy": json.dumps(about, sort_keys=True)},
    )


def exported_bytes(
    path: Path, names: Sequence[str | None], calibration: Mapping[str, Any] | None
) -> tuple[dict[str, Any], bytes]:
    """The description and the content of a model's file as it leaves a project.

    `names` are those of its classes today, None for one that was removed: without its output the others share what it
    had. Classes of one name were merged, and their probabilities are summed. `calibration`, as `Calibration.to_json`
    gives it, is applied by loaders.
    """
    about, tensors = _read(path)
    known = list(names[: len(about["classes"])])  # a file of the version before does not say which it has
    if calibration is None and known == about["classes"]:
        return about, path.read_bytes()
    if known != about["classes"]:
        about, tensors = _regroup(about, tensors, known)
    if calibration is not None:
        about = {**about, "calibration": dict(calibration)}
    return about, save(tensors, {"understudy": json.dumps(about, sort_keys=True)})


def _regroup(about: Mapping[str, Any], tensors: Mapping[str, np.ndarray], names: Sequence[str | None]) -> Parts:
    """A model whose classes have these names."""
    classes = list(dict.fromkeys(name for name in names if name is not None))
    if about["kind"] == "network" and len(classes) < len(names):
        raise UnderstudyError("classes of this model were merged or removed; train again, then export it")
    if not classes:
        raise UnderstudyError("the classes of this model are all gone; train again, then export it")
    if about["kind"] == "network":
        return {**about, "classes": classes}, dict(tensors)
    named = [names[label] for label in about["seen"]]
    kept = [column for column, name in enumerate(named) if name is not None]
    last = about["layers"] - 1
    fewer = {
        f"weight_{last}": np.ascontiguousarray(tensors[f"weight_{last}"][:, kept]),
        f"bias_{last}": np.ascontiguousarray(tensors[f"bias_{last}"][kept]),
    }
    seen = [classes.index(name) for name in named if name is not None]
    return {**about, "classes": classes, "seen": seen}, {**tensors, **fewer}


@dataclass(frozen=True, eq=False)
class CalibratedModel:
    """A model whose probabilities are calibrated by a temperature; `raw` gives them as they were."""

    raw: Model
    temperature: float

    @property
    def n_classes(self) -> int:
        return self.raw.n_classes

    @property
    def interrupted(self) -> bool:
        return self.raw.interrupted

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        """Calibrated class probabilities (n, c)."""
        return temper(self.raw.predict_proba(inputs), self.temperature)


def load_model(path: Path) -> Model:
    """The model in a file, on the CPU. One that was exported predicts calibrated probabilities."""
    about, tensors = _read(path)
    try:
        temperature = float(about.get("calibration", {}).get("temperature", 1.0))
        is_plain = about["kind"] == "network" or about["seen"] == list(range(len(about["classes"])))
        if about["kind"] in ("head", "network") and is_plain:
            model = _head_of(about, tensors) if about["kind"] == "head" else _network_of(about, tensors)
            return model if temperature == 1.0 else CalibratedModel(model, temperature)
        return standalone.load_model(path)
    except (KeyError, ValueError, RuntimeError, AttributeError, TypeError) as error:
        raise UnderstudyError(f"{path} is not a complete model ({reason_of(error)}); export it again") from error


def about_model(path: Path) -> dict[str, Any]:
    """The metadata stored with the tensors: kind, classes, encoder, notes."""
    return _read(path)[0]


def _read(path: Path) -> Parts:
    try:
        with safe_open(path, framework="np") as file:
            about = json.loads((file.metadata() or {})["understudy"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise UnderstudyError(f"{path}: no such file") from error
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise UnderstudyError(f"{path} is not an understudy model ({reason_of(error)}); export it again") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise UnderstudyError(f"{path} was saved by another version of understudy; load it with that version")
    return about, tensors


def _parts_of(model: Any) -> Parts | None:
    """The description and tensors of a model, or None if its type is not supported."""
    if isinstance(model, HeadModel):
        return _parts_of_head(model)
    # Imported here: training heads should not have to load scikit-learn and the network.
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
    if not model.shape:  # of texts
        return None
    (n,) = model.shape
    if model.estimator is None:  # a single class, which always gets probability 1
        nothing, weight = np.zeros(n), np.zeros((n, 1))
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
        return None  # one-vs-rest: no softmax
    weight, bias = _doubles(regression.coef_).T, _doubles(regression.intercept_)
    if len(model.seen) == 2:  # two classes have one output; the other's is 0
        weight, bias = np.hstack([np.zeros_like(weight), weight]), np.append(0.0, bias)
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
    # Copied by torch: a tensor's memory alignment can change the last bit of a product.
    return torch.from_numpy(values).clone()
