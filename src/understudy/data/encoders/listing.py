"""The encoders as a table, for people who choose one."""

from typing import Final

from rich.table import Column, Table

from understudy.data.encoders.names import ENCODERS

SYNTAX: Final = (
    "KIND[:MODEL][?OPTIONS][@WEIGHTS]: options such as ?size=128&mean=0.5 change the preprocessing, "
    "@FILE takes the weights from a local file. What is not installed comes with pip install understudy[EXTRA]."
)


def table() -> Table:
    shown = Table(Column("encoder", no_wrap=True), "what it is", "columns", "extra", "installed")
    for entry in ENCODERS.values():
        shown.add_row(entry.syntax, entry.what, entry.columns, entry.extra or "", "yes" if entry.is_installed else "no")
    return shown
