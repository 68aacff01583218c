"""Reads a model that understudy trained, with numpy and safetensors alone: a copy of this file goes with the model.

from load_model import load_model

model = load_model("model.safetensors")
probabilities = model.predict_proba(features)  # (n, d) features of the encoder that `model.encoder` names
names = [model.classes[i] for i in probabilities.argmax(1)]
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import safe_open

FORMAT = 1
ROWS_PER_BLOCK = 8192
STEPS = 256  # places a unit at which the error function is tabled


@dataclass(frozen=True)
class LoadedModel:
    """Layers of weights on scaled features; one layer makes it a logistic regression."""

    weights: tuple[np.ndarray, ...]  # (inputs, outputs) each
    biases: tuple[np.ndarray, ...]
    shift: np.ndarray
    scale: np.ndarray
    activation: str
    seen: np.ndarray  # the class of each output; others had no label
    classes: tuple[str, ...]
    encoder: str | None
    notes: dict[str, Any]
    interrupted: bool = False

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        """Class probabilities (n, c)."""
        inputs = np.asarray(inputs)
        if inputs.ndim != 2 or inputs.shape[1] != len(self.shift):
            raise ValueError(f"this model takes {len(self.shift)} columns of features; got shape {inputs.shape}")
        probs = np.zeros((len(inputs), self.n_classes))
        for start in range(0, len(inputs), ROWS_PER_BLOCK):
            probs[start : start + ROWS_PER_BLOCK, self.seen] = softmax(
                self.outputs(inputs[start : start + ROWS_PER_BLOCK])
            )
        return probs

    def outputs(self, inputs: np.ndarray) -> np.ndarray:
        # In double precision, so that nothing depends on the order in which a processor adds.
        values = (inputs.astype(np.float64) - self.shift) * self.scale
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = ACTIVATIONS[self.activation](values @ weight + bias)
        return values @ self.weights[-1] + self.biases[-1]


def load_model(path: Any) -> LoadedModel:
    """The model in a file."""
    with safe_open(path, framework="np") as file:
        about = json.loads((file.metadata() or {}).get("understudy", "{}"))
        if about.get("format") != FORMAT or about.get("kind") not in ("head", "linear"):
            raise ValueError(f"{path} holds no model that this file can read; load it with understudy")
        tensors = {name: file.get_tensor(name).astype(np.float64) for name in file.keys()}  # noqa: SIM118
    layers = range(about["layers"])
    return LoadedModel(
        weights=tuple(tensors[f"weight_{i}"] for i in layers),
        biases=tuple(tensors[f"bias_{i}"] for i in layers),
        shift=tensors["shift"],
        scale=tensors["scale"],
        activation=about["activation"],
        seen=np.array(about["seen"], dtype=np.int64),
        classes=tuple(about["classes"]),
        encoder=about["encoder"],
        notes=about["notes"],
        interrupted=about["interrupted"],
    )


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def relu(values: np.ndarray) -> np.ndarray:
    return np.maximum(values, 0)


def gelu(values: np.ndarray) -> np.ndarray:
    return values * (0.5 + 0.5 * erf(values / math.sqrt(2)))


def erf(values: np.ndarray) -> np.ndarray:
    """The error function, which numpy lacks: between tabled places by the cubic of both values and both slopes."""
    places = np.clip(values, -6, 6) * STEPS
    left = np.minimum(np.floor(places), 6 * STEPS - 1)
    t = places - left
    index = left.astype(np.int64) + 6 * STEPS
    rise, slope, next_slope = ERF[index + 1] - ERF[index], SLOPE[index], SLOPE[index + 1]
    return ERF[index] + t * (slope + t * (3 * rise - 2 * slope - next_slope + t * (slope + next_slope - 2 * rise)))


TABLED = np.arange(-6 * STEPS, 6 * STEPS + 1) / STEPS
ERF = np.array([math.erf(place) for place in TABLED])
SLOPE = 2 / math.sqrt(math.pi) * np.exp(-(TABLED**2)) / STEPS
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"tanh": np.tanh, "relu": relu, "gelu": gelu}
