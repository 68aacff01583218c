"""What may still be taken: the least of what the system, the limits of the process and its container say."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from understudy.core.options import Options
from understudy.errors import UnderstudyError
from understudy.strategies import available_memory
from understudy.strategies.available_memory import available_bytes, in_gib, require_memory
from understudy.strategies.registry import make_strategy
from understudy.strategies.surrogate import bytes_at_peak
from understudy.strategies.view import PoolView

CPU = torch.device("cpu")
MEMINFO = "MemTotal: 4000 kB\nMemAvailable: 3000 kB\nHugePages_Total: 0\n"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system with 3,000 KiB to spare, and neither limits nor a container."""
    (tmp_path / "meminfo").write_text(MEMINFO)
    for name, file in (("SYSTEM", "meminfo"), ("PROCESS", "status"), ("CONTAINER", "cgroup")):
        monkeypatch.setattr(available_memory, name, tmp_path / file)
    monkeypatch.setattr("resource.getrlimit", lambda _: (-1, -1))
    return tmp_path


def test_the_system_says_what_is_free(system: Path) -> None:
    assert available_bytes(CPU) == 3000 * 1024
    (system / "meminfo").unlink()
    assert available_bytes(CPU) == math.inf


def test_a_container_may_have_less_and_what_it_has_read_from_files_does_not_count(system: Path) -> None:
    group = system / "cgroup"
    group.mkdir()
    for name, text in (("max", "1000000\n"), ("current", "900000\n"), ("stat", "anon 1\ninactive_file 50000\n")):
        (group / f"memory.{name}").write_text(text)
    assert available_bytes(CPU) == 150_000
    (group / "memory.max").write_text("max\n")
    assert available_bytes(CPU) == 3000 * 1024


@pytest.mark.parametrize(("limit", "line"), [("RLIMIT_DATA", "VmData"), ("RLIMIT_AS", "VmSize")])
def test_a_limit_of_the_process_leaves_what_is_not_taken(
    system: Path, monkeypatch: pytest.MonkeyPatch, limit: str, line: str
) -> None:
    import resource

    monkeypatch.setattr("resource.getrlimit", lambda which: (10**6 if which == getattr(resource, limit) else -1, -1))
    (system / "status").write_text(f"Name:\tpython\n{line}:\t     400 kB\nThreads:\t1\n")
    assert available_bytes(CPU) == 10**6 - 400 * 1024


@pytest.mark.usefixtures("system")
def test_more_than_is_free_is_refused_in_one_line() -> None:
    require_memory(3000 * 1024, "it takes", "take less", CPU)
    words = f"it takes {in_gib(2**32)} of memory, and 0.00286 GiB are free; take less"
    with pytest.raises(UnderstudyError, match=f"^{re.escape(words)}$"):
        require_memory(2**32, "it takes", "take less", CPU)


@pytest.mark.parametrize("name", ["understudy", "surrogate", "emoc"])
def test_a_surrogate_that_does_not_fit_is_refused_before_it_is_set_up(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, strategy = 40, make_strategy(name, basis_size=20)
    options = Options.of("understudy" if name == "understudy" else "paper", basis_size=20)
    view = PoolView(np.full(n, -1), 3, features=np.random.default_rng(0).random((n, 4)), probs=np.full((n, 3), 1 / 3))
    free = bytes_at_peak(options, n, 3)
    monkeypatch.setattr(available_memory, "available_bytes", lambda _: free)
    assert len(strategy.select(view, 1, np.random.default_rng(0))) == 1
    monkeypatch.setattr(available_memory, "available_bytes", lambda _: free - 1)
    other = "" if name == "understudy" else ", or use understudy"
    words = (
        rf"surrogate of 40 rows with 20 basis points and 3 classes takes .* free; pass a basis_size below 20{other}$"
    )
    with pytest.raises(UnderstudyError, match=words):
        make_strategy(name, basis_size=20).select(view, 1, np.random.default_rng(0))
