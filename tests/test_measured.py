"""Figures on the strategies' pages are those of the kept results, and the benchmark that makes them works."""

import importlib.util
import json
import sys
from pathlib import Path
from subprocess import run
from types import ModuleType
from typing import Any

import pytest

from tests.benchmarks.scripts import script
from understudy.strategies.registry import STRATEGIES

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def loaded(name: str) -> ModuleType:
    """A module of the benchmarks, which are scripts and no package."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


measured = loaded("measured")


def row(name: str, seconds: list[float], who: str = "understudy", classes: int = 10, **more: Any) -> dict[str, Any]:
    shared = {"name": name, "who": who, "classes": classes, "picks": [10, 100][: len(seconds)], "seconds": seconds}
    return {**shared, "peak_mib": 12.3, "failure": "", "settings": "", "note": "", **more}


def report(*rows: dict[str, Any]) -> dict[str, Any]:
    about = {"rows": 60_000, "columns": 512, "labelled": 600, "classes": [10, 100], "threads": 2}
    return {"about": about, "results": list(rows)}


class TestSentences:
    def test_a_sentence_tells_the_cost_of_a_pick_from_two_batches(self) -> None:
        found = measured.sentence(report(row("margin", [0.2, 1.1])), "margin")
        assert (
            found
            == "`margin`: 11 ms a pick, 100 at a time (0.1 s at the start, 10 ms for each), and 12 MiB at the peak."
        )

    def test_it_tells_more_classes_shortening_and_failures(self) -> None:
        first = row("margin", [0.2], failure="timeout after 120 s", settings="iterations=50")
        second = row("margin", [], classes=100, failure="MemoryError")
        found = measured.sentence(report(second, first), "margin")
        assert found == (
            "`margin`: 20 ms a pick, 10 at a time, and 12 MiB at the peak; with 100 classes MemoryError; "
            "more at a time: timeout after 120 s; shortened: iterations=50."
        )

    def test_it_tells_how_it_was_measured_if_not_like_the_others(self) -> None:
        found = measured.sentence(report(row("margin", [0.2, 1.1], note="one thread")), "margin")
        assert found.endswith("at the peak; one thread.")

    def test_a_strategy_that_was_not_measured_is_an_error(self) -> None:
        with pytest.raises(KeyError, match="margin is not in the kept results"):
            measured.sentence(report(row("entropy", [0.1, 0.2])), "margin")

    def test_the_line_below_the_mark_is_written_once_and_then_replaced(self) -> None:
        page = f"# Page\n\n## Cost\n\nO(n).\n\n{measured.MARK}\n\n## More\n"
        once = measured.with_line(page, "It took 1 ms.")
        assert once == f"# Page\n\n## Cost\n\nO(n).\n\n{measured.MARK}\nIt took 1 ms.\n\n## More\n"
        assert measured.with_line(once, "It took 2 ms.") == once.replace("1 ms", "2 ms")

    def test_a_page_without_a_mark_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="one line <!-- measured -->"):
            measured.with_line("# Page\n", "It took 1 ms.")


class TestPeers:
    def test_the_best_peer_counts_at_the_largest_batch_that_one_has_finished(self) -> None:
        ours, slow = row("margin", [0.1, 0.5]), row("margin", [0.1, 5.0], "baal")
        stuck = row("margin", [0.001], "small-text", failure="timeout after 120 s")
        assert measured.best_peer(report(ours, slow, stuck), ours) == (10.0, 100)
        assert measured.best_peer(report(ours, stuck), ours) == (pytest.approx(0.01), 10)

    def test_without_a_peer_that_finished_there_is_no_ratio(self) -> None:
        ours = row("margin", [0.1, 0.5])
        assert measured.best_peer(report(ours, row("margin", [], "baal", failure="MemoryError")), ours) is None

    def test_the_table_names_what_failed(self) -> None:
        rows = [row("margin", [0.1, 0.5]), row("margin", [], "baal", failure="MemoryError")]
        assert any("baal MemoryError" in line for line in measured.table(report(*rows)))


@pytest.mark.parametrize("page", sorted(measured.pages()))
def test_the_page_says_what_the_kept_results_say(page: str) -> None:
    found = measured.below_mark(measured.pages()[page].read_text())
    assert found == (measured.line_for(measured.load(), page) if measured.KEPT.exists() else "")


def test_the_table_of_the_benchmarks_is_that_of_the_kept_results() -> None:
    text = measured.README.read_text()
    lines = "\n".join(measured.table(measured.load())) if measured.KEPT.exists() else None
    assert text == (text if lines is None else measured.with_table(text, lines))
    assert all(mark in text for mark in measured.TABLE)


def test_the_benchmark_measures_a_small_pool_and_records_what_took_too_long(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    command = [sys.executable, str(BENCHMARKS / "strategies.py"), "--rows", "300", "--columns", "8", "--threads", "1"]
    command += ["--only", "random", "--no-peers", "--data", str(tmp_path), "--out", str(out)]
    found = []
    for limit in ("100", "0"):
        done = run([*command, "--limit", limit], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found += json.loads(out.read_text())["results"]
    finished, stopped = found
    assert (finished["name"], finished["picks"], finished["failure"]) == ("random", [10, 100], "")
    assert all(seconds > 0 for seconds in finished["seconds"])
    assert finished["peak_mib"] >= 0
    assert (stopped["picks"], stopped["failure"]) == ([], "not ready after 0 s")


def test_names_in_the_tables_of_the_benchmark_are_strategies() -> None:
    made = script("strategies")
    named = {*made.OTHER_BATCHES, *made.SHORTENED, *made.GOALS, *made.PEERS}
    assert named
    assert named <= set(STRATEGIES)
