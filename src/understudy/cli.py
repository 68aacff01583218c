"""The command line: each command parses, calls one function, and prints."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from understudy import __version__
from understudy.errors import UnderstudyError

app = typer.Typer(
    help="Tells people which item to label next, and learns from every single label.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # who asks for a trace gets Python's own
)


def main() -> None:
    """Run this process's command. What its user can mend is one line on standard error and exit code 1."""
    try:
        app()
    except UnderstudyError as error:
        # By now the command's context is gone, and with it the parsed option.
        if "--debug" in sys.argv:
            raise
        typer.echo(f"understudy: {error}", err=True)
        sys.exit(1)


def print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"understudy {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def understudy(
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    repeats: Annotated[int, typer.Option(min=1, help="Repetitions, each from other initial labels.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the numbers and the picture.")] = Path("demo"),
) -> None:
    """Compare the surrogate with random, margin and entropy on 8x8 digits: about a minute."""
    # Imported here, so that no other command waits for what the demo needs.
    from understudy.experiments.curves import summary
    from understudy.experiments.demo import run_demo

    curves = run_demo(repeats=repeats, seed=seed, out=out)
    console = Console()
    console.print(summary(curves))
    console.print("written:", *map(str, curves.files), soft_wrap=True, highlight=False, markup=False)
    if len(curves.files) == 1:
        console.print("for the picture too: pip install understudy[plot]", highlight=False, markup=False)
