"""How far the set-up of a surrogate is: its phase, and the share of the work that is done, by the rows read so far."""

from collections.abc import Callable
from typing import Final, Literal

Phase = Literal["basis", "width", "rows"]
ReportSetup = Callable[[Phase, float], None]  # the phase that is under way, and the share of the whole that is done

BEGINS: Final[dict[Phase, float]] = {"basis": 0.0, "width": 0.65, "rows": 0.75}  # shares of the time, at many columns
ENDS: Final[dict[Phase, float]] = {"basis": 0.65, "width": 0.75, "rows": 1.0}
PASSES: Final[dict[Phase, int]] = {"basis": 6, "width": 1, "rows": 1}  # over all rows; k-means may need more


class SetupProgress:
    """Passes on whenever another hundredth of a set-up is done. The share never falls, and ends at 1."""

    def __init__(self, report: ReportSetup | None, n_rows: int) -> None:
        self._report, self._n_rows = report, n_rows
        self._phase: Phase = "basis"
        self._read = 0  # rows, in this phase
        self._reported = -1  # hundredths

    def begin(self, phase: Phase) -> None:
        self._phase, self._read = phase, 0
        self._note(BEGINS[phase])

    def note_read(self, n_rows: int) -> None:
        self._read += n_rows
        passes = self._read / self._n_rows
        done = passes / max(PASSES[self._phase], passes + 1 if self._phase == "basis" else passes)
        self._note(BEGINS[self._phase] + done * (ENDS[self._phase] - BEGINS[self._phase]))

    def end(self) -> None:
        self._note(1.0)

    def _note(self, share: float) -> None:
        hundredths = int(100 * share)
        if self._report is not None and hundredths > self._reported:
            self._reported = hundredths
            self._report(self._phase, hundredths / 100)
