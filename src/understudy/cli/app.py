"""The application: how commands are listed, and what several of them take."""

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from understudy import __version__

ProjectArgument = Annotated[
    str, typer.Argument(metavar="PROJECT", help="A project's folder, or the data it lies beside.")
]
StoreOption = Annotated[str | None, typer.Option(metavar="URL", help="The project's database, if it is not a file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


class _Commands(TyperGroup):
    """The commands as the help lists them: labelling first, and what each does in full."""

    ORDER: Final = (
        "label",
        "labelstudio",
        "add",
        "import",
        "annotate",
        "export",
        "settings",
        "classes",
        "people",
        "encoder",
        "backup",
        "restore",
        "embed",
        "encoders",
        "datasets",
        "strategies",
        "doctor",
    )

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return [*(name for name in self.ORDER if name in names), *(name for name in names if name not in self.ORDER)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is not None:  # without a short help, the list would cut the first sentence
            found.short_help = " ".join((found.help or "").partition("\n\n")[0].split())
        return found


app = typer.Typer(
    cls=_Commands,
    help="Chooses which item to label next, and learns from every single label.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # its tables cut names of options, and leave descriptions a few letters a line
    pretty_exceptions_enable=False,  # --debug shows Python's own trace
)


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"understudy {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def understudy(
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def find_modules_here() -> None:
    """Let `module:name` be a file of the current folder; processes that are started get the same path."""
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.append(here)  # last, so that a file here hides no other module
