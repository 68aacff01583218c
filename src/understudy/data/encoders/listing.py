"""The encoders as a table, for people who choose one."""

from typing import Final

from rich.table import Table

from understudy.data.encoders.registry import ENCODERS
from understudy.messages import install_command

SYNTAX: Final = f"""\
write KIND[:MODEL][?OPTIONS][@WEIGHTS], with quotes around it in a shell
  ?size=128&mean=0.5  changes the preprocessing
  @FILE               takes the weights from a local file
found: the library is there, no more; it is imported when the encoder is made
what is not found is installed by {install_command("EXTRA")}"""


def table() -> Table:
    """One line an encoder; it fits into 80 columns."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    shown.add_column("encoder", no_wrap=True)
    for title in ("what it is", "columns", "extra", "found"):
        shown.add_column(title)
    for entry in ENCODERS.values():
        found = ("yes" if entry.is_found else "no") if entry.library else ""
        shown.add_row(entry.syntax, entry.what, entry.columns, entry.extra or "", found)
    return shown
