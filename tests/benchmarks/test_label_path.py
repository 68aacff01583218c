import importlib.util
from pathlib import Path
from types import ModuleType

from tests.benchmarks.scripts import script

label_path = script("label_path")


def load(path: Path, code: str, **names: object) -> ModuleType:
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module).update(names)
    spec.loader.exec_module(module)
    return module


def test_a_hop_is_a_call_into_another_file_whatever_lies_between(tmp_path: Path) -> None:
    low = load(tmp_path / "low.py", "def add(a, b):\n    return plus(a, b)\ndef plus(a, b):\n    return a + b\n")
    code = "from functools import reduce\ndef total(values):\n    return reduce(low.add, values)\n"
    high = load(tmp_path / "high.py", code, low=low)
    tracer = label_path.Tracer(f"{tmp_path}/")
    try:
        high.total([1, 2])
        tracer.is_on = True
        high.total([1, 2, 3])
        tracer.is_on = False
        high.total([1, 2])
    finally:
        hops = tracer.stop()
    assert [str(hop) for hop in hops] == ["- - -> high.py total", *["high.py total -> low.py add"] * 2]
    assert len(tracer.calls) == 5, "calls inside a file are seen, and are not hops"
