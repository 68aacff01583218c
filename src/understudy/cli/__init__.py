"""The command line: each command parses, calls one function, and prints. One module a family of commands."""

import sys

import typer

# Each adds its commands.
from understudy.cli import comparisons, doctor, features, labelling, labelstudio, projects  # noqa: F401
from understudy.cli.app import app
from understudy.errors import UnderstudyError, UsageError

__all__ = ["app", "main"]


def main(arguments: list[str] | None = None) -> None:
    """Run a command, by default that of this process. An error of ours is one line on standard error.

    The exit code is 0 when it is done, 1 when the work failed, 2 when the call itself was wrong.
    """
    words = sys.argv[1:] if arguments is None else arguments
    try:
        app(words)
    except UnderstudyError as error:
        # By now the command's context is gone, and the parsed option with it.
        if "--debug" in words:
            raise
        typer.echo(f"understudy: {error}", err=True)
        sys.exit(2 if isinstance(error, UsageError) else 1)
