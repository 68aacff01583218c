"""How a measurement of kills is carried out: in a folder that is deleted, and with an exit code that fails a build."""

import argparse
import json
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def measure_in_scratch(
    measure: Callable[[argparse.Namespace, Path], dict[str, Any]], given: argparse.Namespace, **about: object
) -> None:
    """Write what `measure` found to `--out`; exit with 1 if a run that was killed ended with other results."""
    with tempfile.TemporaryDirectory() as scratch:
        result = measure(given, Path(scratch))
    result |= {**about, "torch": torch.__version__, "machine": platform.machine()}
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=1) + "\n")
    if not result["identical"]:
        raise SystemExit(1)
