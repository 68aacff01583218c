"""The table of strategies on large pools is that of the kept results, and failures are recorded as such."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.scripts import script

at_size = script("strategies_at_size")
table_on = script("page_tables").table_on


@pytest.mark.parametrize("name", list(at_size.TABLES))
def test_a_table_of_the_page_is_what_the_file_says(name: str) -> None:
    made = at_size.TABLES[name](at_size.load_report(at_size.KEPT))
    assert table_on(at_size.PAGE.read_text(), name) == made, "run strategies_at_size.py --write-page"


def test_no_strategy_ran_out_of_memory_or_fell_over() -> None:
    report = at_size.load_report(at_size.KEPT)
    for row in report["results"]:
        assert re.fullmatch(r"|refused: [^\n]*|over \d+ s", row["failure"]), row
        assert not row["failure"] or row["seconds"] is None or row["seconds"] < 5, "a refusal comes at once"


def row(**more: Any) -> dict[str, Any]:
    return {"failure": "", "seconds": 2.5, "processor_s": 1.25, "alone": True, "peak_mib": 30.0, **more}


def test_seconds_beside_other_work_are_those_of_the_processor_and_marked() -> None:
    assert at_size.cells_of(row()) == ["2.5 s", "30 MiB"]
    assert at_size.cells_of(row(alone=False)) == ["*1.2 s*", "30 MiB"]
    assert at_size.cells_of(row(failure="over 300 s", seconds=None)) == ["over 300 s", "30 MiB by then"]
    assert at_size.cells_of(row(failure="refused: it is too large", peak_mib=None)) == ["refused", ""]
    assert at_size.cells_of(None) == ["not measured", ""]


def test_a_case_is_measured_under_its_limits_and_kept_for_the_next_time(tmp_path: Path) -> None:
    size = at_size.Size(rows=400, classes=3, columns=8, memory_gib=0.5)
    home = at_size.prepare_data(tmp_path, size, "random")
    found = at_size.measure("random", size, 20, home, limit_s=100)
    assert (found["failure"], found["picks"]) == ("", 20)
    assert found["seconds"] > 0
    assert found["peak_mib"] is not None
    kept = tmp_path / "kept.json"
    for seconds in (1.0, 2.0):
        at_size.keep(kept, {**found, "seconds": seconds}, size)
    (only,) = json.loads(kept.read_text())["results"]
    assert only["seconds"] == 2.0
    assert at_size.row_of(at_size.load_report(kept), "random", size, 20) == only
    assert at_size.row_of(at_size.load_report(kept), "random", size, 10) is None


def test_what_takes_too_long_is_ended_with_the_memory_it_had_by_then(tmp_path: Path) -> None:
    size = at_size.Size(rows=400, classes=3, columns=8, memory_gib=0.5)
    found = at_size.measure("vaal", size, 20, at_size.prepare_data(tmp_path, size, "vaal"), limit_s=0.05)
    assert (found["failure"], found["seconds"]) == ("over 0.05 s", None)
    assert found["peak_mib"] >= 0
