"""How far a set-up is: phases in their order, shares that only rise, and an end."""

from typing import Any

import pytest

from tests.pools import make_pool
from understudy import Surrogate
from understudy.core.options import METHODS, Method
from understudy.core.setup_progress import BEGINS, ENDS, PASSES, Phase, SetupProgress
from understudy.core.split_rows import InMemory

Reports = list[tuple[Phase, float]]


def test_phases_follow_each_other_without_a_gap() -> None:
    assert [BEGINS["basis"], ENDS["basis"], ENDS["width"], ENDS["rows"]] == [
        0.0, BEGINS["width"], BEGINS["rows"], 1.0
    ]  # fmt: skip


def test_the_share_is_that_of_the_rows_read_and_only_rises() -> None:
    reports: Reports = []
    progress = SetupProgress(lambda *report: reports.append(report), 100)
    progress.begin("basis")
    for _ in range(PASSES["basis"] // 2):
        progress.note_read(100)
    assert reports[-1][0] == "basis"
    assert reports[-1][1] == pytest.approx(ENDS["basis"] / 2, abs=0.01)
    for _ in range(5000):  # k-means goes on for longer than was thought
        progress.note_read(20)
    assert reports[-1][0] == "basis"
    assert reports[-1][1] < ENDS["basis"]
    progress.begin("width")
    progress.begin("rows")
    progress.note_read(50)
    assert reports[-1][1] == pytest.approx((BEGINS["rows"] + 1) / 2, abs=0.01)
    progress.note_read(500)
    progress.end()
    assert [phase for phase, _ in reports[-2:]] == ["rows", "rows"]
    assert reports[-1][1] == 1.0
    shares = [share for _, share in reports]
    assert shares == sorted(set(shares))  # each hundredth at most once
    SetupProgress(None, 100).begin("rows")  # to nobody


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("blocks", [1, 3])
def test_a_surrogate_says_how_far_its_set_up_is_and_is_the_same(method: Method, blocks: int) -> None:
    pool, reports = make_pool(2000, 3, seed=1), Reports()
    given: dict[str, Any] = {"basis_size": 20, "method": method, "storage": InMemory(blocks)}
    s = Surrogate(pool.features, 3, report_progress=lambda *report: reports.append(report), **given)
    assert list(dict.fromkeys(phase for phase, _ in reports)) == ["basis", "width", "rows"]
    assert [reports[0], reports[-1]] == [("basis", 0.0), ("rows", 1.0)]
    assert len(reports) > 10
    silent = Surrogate(pool.features, 3, **given)
    assert s.ask(5).tolist() == silent.ask(5).tolist()
    s.copy().anchor(pool.probs, [], features=pool.features)  # nothing is left of whom it reported to
    assert reports[-1] == ("rows", 1.0)


def test_what_a_report_raises_ends_the_set_up() -> None:
    class Enough(Exception):
        pass

    def stop(phase: Phase, share: float) -> None:
        if phase == "width":
            raise Enough(share)

    with pytest.raises(Enough):
        Surrogate(make_pool(500, 3, seed=1).features, 3, report_progress=stop)
