"""Loads a model trained by understudy with just numpy and safetensors: a copy of this file is exported with the model.

from load_model import load_model

model = load_model("model.safetensors")
probabilities = model.predict_proba(features)  # (n, d) features of the encoder that `model.encoder` names
names = [model.classes[i] for i in probabilities.argmax(1)]

Probabilities are calibrated: of the items that are said to be 90 % sure, nine in ten should be right.
`model.temperature` is what that takes; `model.predict_proba(features, raw=True)` gives them as
they came out of the training.
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
STEPS = 256  # table entries per unit of the error function


@dataclass(frozen=True)
class LoadedModel:
    """A perceptron on scaled features; with one layer it is a logistic regression."""

    weights: tuple[np.ndarray, ...]  # (inputs, outputs) each
    biases: tuple[np.ndarray, ...]
    shift: np.ndarray
    scale: np.ndarray
    activation: str
    seen: np.ndarray  # the class of each output; several have one where classes were merged, others had no labels
    classes: tuple[str, ...]
    encoder: str | None
    notes: dict[str, Any]
    interrupted: bool = False
    temperature: float = 1.0  # that outputs are divided by: calibration

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    def predict_proba(self, inputs: np.ndarray, raw: bool = False) -> np.ndarray:
        """Class probabilities (n, c), calibrated unless they are to be raw."""
        inputs = np.asarray(inputs)
        if inputs.ndim != 2 or inputs.shape[1] != len(self.shift):
            raise ValueError(f"this model takes {len(self.shift)} columns of features; got shape {inputs.shape}")
        probs = np.zeros((len(inputs), self.n_classes))
        for start in range(0, len(inputs), ROWS_PER_BLOCK):
            outputs = self.outputs(inputs[start : start + ROWS_PER_BLOCK])
            probs[start : start + ROWS_PER_BLOCK] = self.class_probs(outputs, 1.0 if raw else self.temperature)
        return probs

    def class_probs(self, outputs: np.ndarray, temperature: float) -> np.ndarray:
        """Probabilities of the classes by the last layer's outputs; merged classes are summed before calibration."""
        probs = np.zeros((len(outputs), self.n_classes))
        if len(set(self.seen.tolist())) == len(self.seen):
            probs[:, self.seen] = softmax(outputs / temperature)
            return probs
        for label, share in zip(self.seen, softmax(outputs).T, strict=True):
            probs[:, label] += share
        powers = probs ** (1 / temperature)
        return powers / powers.sum(1, keepdims=True)

    def outputs(self, inputs: np.ndarray) -> np.ndarray:
        # In double precision, so that results hardly depend on the order of summation.
        values = (inputs.astype(np.float64) - self.shift) * self.scale
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = ACTIVATIONS[self.activation](values @ weight + bias)
        return values @ self.weights[-1] + self.biases[-1]


def load_model(path: Any) -> LoadedModel:
    """The model in a file."""
    with safe_open(path, framework="np") as file:
        about = json.loads((file.metadata() or {}).get("understudy", "{}"))
        if about.get("format") != FORMAT or about.get("kind") not in ("head", "linear"):
            raise ValueError(f"{path} is not a model that this file can read; load it with understudy")
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
        temperature=float(about.get("calibration", {}).get("temperature", 1.0)),
    )


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def relu(values: np.ndarray) -> np.ndarray:
    return np.maximum(values, 0)


def gelu(values: np.ndarray) -> np.ndarray:
    return values * (0.5 + 0.5 * erf(values / math.sqrt(2)))


def erf(values: np.ndarray) -> np.ndarray:
    """The error function, which numpy lacks: cubic Hermite interpolation in a table."""
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
