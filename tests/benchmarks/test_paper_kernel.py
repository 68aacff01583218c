"""The regression behind the paper's 34 % is FITC, and its deviations are means of absolute differences."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.benchmarks.scripts import script, write_task
from tests.literal import Literal
from understudy.core.kernels import Kernel

kernel = script("kernel")


@pytest.mark.parametrize("output_bandwidth", [9.0, 1.0, math.inf])
def test_the_mean_is_that_of_dense_fitc(output_bandwidth: float) -> None:
    rng = np.random.default_rng(1)
    X, U = rng.normal(size=(40, 4)), rng.normal(size=(6, 4))
    F, V = rng.dirichlet(np.ones(3), size=40), rng.dirichlet(np.ones(3), size=6)
    rows, targets = np.arange(5, 20), rng.normal(size=(15, 3))
    dense = Literal(X, F, U, V, 2.0, output_bandwidth)
    phi = dense.phi[rows]
    expected = dense.phi @ dense.Qinv(rows.tolist()) @ phi.T @ (targets / dense.nu[rows, None])
    tensors = [torch.from_numpy(values) for values in (X, F, rows, targets)]
    made = Kernel.over(torch.from_numpy(U), torch.from_numpy(V), torch.zeros(4).double(), 2.0, output_bandwidth)
    np.testing.assert_allclose(kernel.fitted_mean(made, *tensors).numpy(), expected, atol=1e-10)


def test_an_infinite_bandwidth_leaves_the_input_kernel_alone() -> None:
    rng = np.random.default_rng(2)
    inputs = kernel.make_inputs(rng.normal(size=(50, 3)).astype(np.float32), 5, seed=0, device="cpu")
    F = torch.from_numpy(rng.dirichlet(np.ones(3), size=50))
    made = dict(kernel.kernels(inputs, F, rng))
    assert list(made) == ["input", *(f"{v} {b}" for v in ("dirichlet", "members") for b in ("C^2", "C", "1"))]
    alone = torch.exp(-(torch.cdist(inputs.U, inputs.U) ** 2) / inputs.bandwidth)
    torch.testing.assert_close(made["input"].L @ made["input"].L.T, alone)
    nearest = torch.cdist(inputs.U, inputs.X).argmin(1)
    torch.testing.assert_close(made["members 1"].V, F[nearest])


def test_a_reduction_is_relative_to_the_input_kernel() -> None:
    found = [{"input": {"y labelled": 0.2}, "one": {"y labelled": mad}} for mad in (0.1, 0.15)]
    assert kernel.reductions(found)["one"]["y labelled"]["values"] == pytest.approx([50.0, 25.0])


def test_the_script_writes_what_it_found(tmp_path: Path) -> None:
    out = tmp_path / "kernel.json"
    command = ["--data", str(write_task(tmp_path / "small.npz")), "--rows", "300", "--basis", "20"]
    command += ["--labels", "60", "--repeats", "2", "--learners", "paper", "--out", str(out)]
    kernel.main(command)
    (result,) = json.loads(out.read_text())["results"]
    assert result["mad"]["input"]["f labelled"]["mean"] > 0
    assert len(result["reduction_percent"]["members 1"]["f others"]["values"]) == 2
