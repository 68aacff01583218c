"""How much memory may still be taken, and a refusal of what needs more before it is taken."""

from pathlib import Path
from typing import Final

import torch

from understudy.errors import UnderstudyError

SYSTEM: Final = Path("/proc/meminfo")
PROCESS: Final = Path("/proc/self/status")
CONTAINER: Final = Path("/sys/fs/cgroup")


def require_memory(needed: float, what: str, instead: str, device: torch.device) -> None:
    """Raise if `what` needs more bytes than may still be taken; `instead` says what to do."""
    free = available_bytes(device)
    if needed > free:
        raise UnderstudyError(f"{what} {in_gib(needed)} of memory, and {in_gib(free)} are free; {instead}")


def available_bytes(device: torch.device) -> float:
    """The least that the system, this process's limits and its container leave; infinite where nothing says so."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return float(torch.cuda.mem_get_info(device)[0] + cached)
    return min(_free_in_system(), _free_in_container(), *_left_of_limits())


def in_gib(size: float) -> str:
    return f"{size / 2**30:,.3g} GiB"


def _free_in_system() -> float:
    return _fields(SYSTEM).get("MemAvailable", torch.inf)


def _free_in_container() -> float:
    """Of a control group of version 2; files that it has read only count until somebody needs the memory."""
    try:
        most, now = (int((CONTAINER / f"memory.{name}").read_text()) for name in ("max", "current"))
        lines = (line.split() for line in (CONTAINER / "memory.stat").read_text().splitlines())
        return float(most - now + int(dict(lines)["inactive_file"]))
    except (OSError, ValueError, KeyError):  # there is none, or it says "max"
        return torch.inf


def _left_of_limits() -> list[float]:
    try:
        from resource import RLIM_INFINITY, RLIMIT_AS, RLIMIT_DATA, getrlimit
    except ImportError:  # on Windows
        return [torch.inf]
    taken = _fields(PROCESS)
    limits = {"VmSize": getrlimit(RLIMIT_AS)[0], "VmData": getrlimit(RLIMIT_DATA)[0]}
    return [torch.inf if limit == RLIM_INFINITY else limit - taken.get(name, 0.0) for name, limit in limits.items()]


def _fields(file: Path) -> dict[str, float]:
    """Those lines of one of the kernel's tables that are sizes, in bytes; none where there is no such file."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0].rstrip(":"): 1024.0 * int(words[1]) for words in lines if words[-1:] == ["kB"]}
