"""What docs/own-strategy.md says: its commands run in an empty folder, and its table is what a view holds."""

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from understudy.cli import main
from understudy.experiments.results import Results
from understudy.strategies.view import SUPPLIES, PoolView

PAGE = (Path(__file__).parents[1] / "docs" / "own-strategy.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [shlex.split(line) for line in re.findall(r"^    understudy (compare .*)$", PAGE, re.MULTILINE)]
TABLE = re.findall(r"^\| `(\w+)` \| ([\w. ]+) \| (?:\((.*?)\))? ?\|", PAGE, re.MULTILINE)
N, C = 12, 3


def full_view() -> PoolView:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(C), (N, 4))
    return PoolView(
        np.r_[[0, 1, 2], np.full(N - 3, -1)],
        C,
        pending=[4, 5],
        skipped=[6],
        features=rng.random((N, 7)),
        hidden=rng.random((N, 5)).astype(np.float32),
        activations=[rng.random((N, 6)), rng.random((N, 5))],
        probs=probs[:, 0],
        stochastic=probs,
        gradient_norms=rng.random(N),
        images=rng.integers(0, 256, (N, 9, 8)).astype(np.uint8),
        round=1,
    )


def public_names(view: PoolView) -> set[str]:
    fields = {name for name in vars(view) if not name.startswith("_")}
    return fields | {name for name, value in vars(PoolView).items() if isinstance(value, property)}


def test_the_table_names_all_that_a_view_holds_and_nothing_else() -> None:
    assert {name for name, _, _ in TABLE} == public_names(full_view())
    assert {name for name, _, _ in TABLE} >= SUPPLIES


@pytest.mark.parametrize(("name", "kind", "shape"), TABLE)
def test_it_holds_them_as_the_type_and_shape_of_the_table(name: str, kind: str, shape: str) -> None:
    value: Any = getattr(full_view(), name)
    if kind == "tuple of float":
        assert isinstance(value, tuple)
        kind, value = "float", value[0]
    if kind in ("int", "int or None", "torch.device"):
        assert isinstance(value, torch.device if kind == "torch.device" else int)
        assert shape == ""
        return
    if kind == "bytes":
        assert (value.dtype, value.shape) == (np.uint8, (N, 9, 8))
        return
    assert isinstance(value, torch.Tensor)
    kinds = {"float": (torch.float32, torch.float64), "int64": (torch.int64,), "bool": (torch.bool,)}
    assert value.dtype in kinds[kind]
    axes = [axis for axis in shape.split(",") if axis]
    lengths = {"n": N, "c": C, "d": 7, "h": 5, "passes": 4, "width": 6, "l": 3, "p": 2, "t": 5}
    assert tuple(value.shape) == tuple(lengths[axis.strip()] for axis in axes)


def test_its_commands_run_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as the command itself does
    Path("mine.py").write_text(BLOCKS[0])
    names: dict[str, Any] = {"np": np}
    exec(BLOCKS[-1], names)
    (names["folder"] / "mine.npz").rename("mine.npz")
    for command in COMMANDS:
        few = [*command[: command.index("--repeats")], "--repeats", "2", *command[command.index("--out") :]]
        with pytest.raises(SystemExit) as ended:
            main([*few, "--jobs", "1"])
        assert not ended.value.code, f"{' '.join(few)} failed"
        results = Results.open(Path(command[-1]))
        assert {"mine:LeastSure", "margin", "random"} <= set(results.strategies)
        assert Path(command[-1], "report.html").exists()


def test_ten_lines_are_ten_lines() -> None:
    code = [line for line in BLOCKS[0].splitlines() if line.strip()]
    assert len(code) <= 10
