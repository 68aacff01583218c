"""The command that says whether all is well here: what is installed, what is missing, and what mends it."""

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from understudy.cli.app import JsonOption, app
from understudy.installation import FAULTS, Diagnosis, Installation, State, examine
from understudy.messages import install_command
from understudy.version import __version__

COLOURS: Final[dict[State, str]] = {
    "works": "green",
    "note": "yellow",
    "missing": "bright_black",
    "too old": "red",
    "broken": "red",
}


@app.command()
def doctor(
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Import the libraries of all extras too, which takes longer.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what is installed and works here, what is missing for which task, and the line that mends each.

    The exit code is 0 if everything works that needs no extra, and 1 if not.
    """
    with Console(stderr=True).status("looking at what is installed"):
        found = examine(thorough=thorough)
    if as_json:
        typer.echo(json.dumps(found.as_json(), indent=1))
    else:
        _print(found, Console())
    raise typer.Exit(0 if found.works else 1)


def _print(found: Installation, console: Console) -> None:
    console.print(f"understudy {__version__}", highlight=False)
    console.print()
    console.print(_table("here", found.core))
    console.print()
    console.print(_table("for", found.tasks, with_extra=True))
    for line in _advice(found):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _table(title: str, diagnoses: Iterable[Diagnosis], *, with_extra: bool = False) -> Table:
    """A line a diagnosis; it fits into 80 columns."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    shown.add_column(title, no_wrap=not with_extra)
    shown.add_column("state", no_wrap=True)
    if with_extra:
        shown.add_column("extra", no_wrap=True)
    shown.add_column("", overflow="fold")
    for diagnosis in diagnoses:
        state = f"[{COLOURS[diagnosis.state]}]{diagnosis.state}[/]"
        shown.add_row(diagnosis.name, state, *([diagnosis.extra] if with_extra else []), diagnosis.detail)
    return shown


def _advice(found: Installation) -> Iterator[str]:
    """What to do, the lines that can be copied by themselves."""
    every = [*found.core, *found.tasks]
    missing = [diagnosis.extra for diagnosis in found.tasks if diagnosis.state == "missing"]
    for title, chosen in (
        ("to mend", [diagnosis for diagnosis in every if diagnosis.state in FAULTS and diagnosis.extra not in missing]),
        ("worth a change", [diagnosis for diagnosis in every if diagnosis.state == "note"]),
    ):
        remedies: dict[str, list[str]] = {}
        for diagnosis in chosen:
            if diagnosis.remedy:
                remedies.setdefault(diagnosis.remedy, []).append(diagnosis.name)
        if remedies:
            yield f"\n{title}:"
            yield from (f"  {', '.join(names)}\n    {remedy}" for remedy, names in remedies.items())
    if missing:
        yield f"\nto add what is missing, or a part of it:\n    {install_command(','.join(missing))}"
    if not found.works:
        yield "\nWhat needs no extra does not work yet."
