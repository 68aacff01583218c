"""Commands as a person types them, run in this process."""

from typer.testing import CliRunner, Result

from understudy.cli import app


def command(*words: object) -> str:
    """What a command prints, on a wide terminal; its error as it is."""
    result: Result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output
