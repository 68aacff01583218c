"""The bar on the terminal: where a set-up takes a moment, and nowhere else."""

import io

import pytest
from rich.console import Console

from understudy.cli.setup_bar import SECONDS_BEFORE, SetupBar


class Terminal:
    """What is written to a terminal, at times of one's own."""

    def __init__(self, is_terminal: bool = True) -> None:
        self.out, self.now = io.StringIO(), 0.0
        self.console = Console(file=self.out, force_terminal=is_terminal, width=80)
        self.bar = SetupBar(self.console, lambda: self.now)

    @property
    def text(self) -> str:
        return self.out.getvalue()


def test_a_long_set_up_shows_its_phase_and_share_and_leaves_nothing() -> None:
    terminal = Terminal()
    with terminal.bar as bar:
        bar.show("basis", 0.0)
        terminal.now = SECONDS_BEFORE
        bar.show("basis", 0.4)
        bar.show("rows", 0.8)
        assert bar._bar is not None
        bar._bar.refresh()
        assert "set-up: computing rows" in terminal.text
        assert "80%" in terminal.text
        bar.show("rows", 1.0)
        assert terminal.text.endswith("\x1b[2K")  # its line is empty again
        bar.show("rows", 1.0)


def test_a_short_set_up_shows_nothing() -> None:
    terminal = Terminal()
    with terminal.bar as bar:
        for share in (0.0, 0.5, 0.99, 1.0):
            terminal.now += SECONDS_BEFORE / 4
            bar.show("rows", share)
        terminal.now += 100
        bar.show("basis", 0.1)  # of another project: counted from its own beginning
    assert terminal.text == ""


def test_nothing_is_drawn_where_nobody_sees_it() -> None:
    terminal = Terminal(is_terminal=False)
    with terminal.bar as bar:
        bar.show("basis", 0.0)
        terminal.now = SECONDS_BEFORE
        bar.show("basis", 0.4)
    assert terminal.text.strip() == ""


def test_an_error_removes_the_bar() -> None:
    terminal = Terminal()

    def interrupted() -> None:
        with terminal.bar as bar:
            bar.show("basis", 0.0)
            terminal.now = SECONDS_BEFORE
            bar.show("basis", 0.4)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert terminal.bar._bar is None
