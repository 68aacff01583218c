"""`understudy labelstudio`: Label Studio's own queue in our order; and a doctor for the connection."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from understudy import defaults
from understudy.cli.app import app, find_modules_here
from understudy.errors import UsageError

if TYPE_CHECKING:
    from understudy.integrations.label_studio.client import LabelStudio

TOKEN_VARIABLE: Final = "LABEL_STUDIO_TOKEN"
UrlOption = Annotated[str | None, typer.Option(metavar="URL", help="Where Label Studio is: http://localhost:8080")]
ProjectOption = Annotated[
    int | None, typer.Option(metavar="N", help="The project's number, as in its address: /projects/N")
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        envvar=TOKEN_VARIABLE, help="A personal access token or a legacy token, from Account & Settings.",
        show_default=False,
    ),
]  # fmt: skip
WebhookOption = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Listen here for Label Studio's webhook; its request guard must be off."),
]

labelstudio = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
app.add_typer(labelstudio, name="labelstudio")


@labelstudio.callback()
def follow(
    ctx: typer.Context,
    url: UrlOption = None,
    project: ProjectOption = None,
    token: TokenOption = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where tasks are kept; labelstudio-N if not given, the project beside it.")
    ] = None,
    annotators: Annotated[int, typer.Option(min=1, help="How many people label at once, at least.")] = 1,
    seconds: Annotated[
        float | None, typer.Option(min=0.05, help="Between two polls.", show_default="1; with --webhook 10")
    ] = None,
    webhook: WebhookOption = None,
    encoder: Annotated[
        str | None, typer.Option(help="See `understudy encoders`; the best that is installed if not given.")
    ] = None,
    learner: Annotated[
        str | None, typer.Option(help="What is trained on the labels.", show_default=defaults.LEARNER)
    ] = None,
    audit_share: Annotated[
        float | None,
        typer.Option(
            help="Share of random audit items, which only measure models.", show_default=f"{defaults.AUDIT_SHARE:g}"
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same seed gives the same choices.", show_default=str(defaults.SEED))
    ] = None,
    device: Annotated[str, typer.Option(help="For features: auto, cpu or cuda.")] = "auto",
) -> None:
    """Put Label Studio's own queue into our order, and learn from every annotation there.

    It follows until it is stopped with Ctrl+C, twice to end at once. The same command continues where it was stopped.
    """
    if ctx.invoked_subcommand is not None:
        return
    from understudy.integrations.label_studio.following import FollowOptions
    from understudy.integrations.label_studio.following import follow as follow_project

    find_modules_here()
    client, number = _connect(url, project, token)
    options = FollowOptions(
        folder=(folder or Path(f"labelstudio-{number}")).expanduser(),
        annotators=annotators,
        seconds=seconds,
        webhook=webhook,
        encoder=encoder,
        learner=learner,
        audit_share=audit_share,
        seed=seed,
        device=device,
    )
    try:
        with _set_by_signals() as stop:
            follow_project(client, number, options, stop, typer.echo)
    finally:
        client.close()
    typer.echo("stopped; every annotation is stored, and the same command goes on from here")


@labelstudio.command()
def doctor(
    ctx: typer.Context,
    url: UrlOption = None,
    project: ProjectOption = None,
    token: TokenOption = None,
    webhook: WebhookOption = None,
) -> None:
    """Find what is wrong between Label Studio and us.

    Each finding says what mends it. Nothing is changed; the exit code is 1 if something is wrong.
    """
    from understudy.integrations.label_studio.doctor import examine

    before = {} if ctx.parent is None else ctx.parent.params  # what was given in front of "doctor"
    client, number = _connect(url or before.get("url"), project or before.get("project"), token or before.get("token"))
    webhook = webhook or before.get("webhook")
    is_well = True
    try:
        for finding in examine(client, number, webhook):
            typer.echo(finding.line)
            is_well &= finding.level != "wrong"
    finally:
        client.close()
    if not is_well:
        raise typer.Exit(1)


@contextmanager
def _set_by_signals() -> Iterator[threading.Event]:
    """An event that Ctrl+C or an end of the process sets; a second Ctrl+C interrupts at once, as it does elsewhere."""
    stop, wanted = threading.Event(), (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in wanted}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def end(*_: object) -> None:
        stop.set()
        restore()

    for number in wanted:
        signal.signal(number, end)
    try:
        yield stop
    finally:
        restore()


def _connect(url: str | None, project: int | None, token: str | None) -> "tuple[LabelStudio, int]":
    """Label Studio, and the number of the project."""
    from understudy.integrations.label_studio.client import LabelStudio

    if url is None or project is None:
        raise UsageError("give --url and --project, as in --url http://localhost:8080 --project 1")
    if not token:
        raise UsageError(
            f"there is no token; put one of Label Studio's (Account & Settings) into {TOKEN_VARIABLE}, "
            "or give it with --token"
        )
    return LabelStudio(url, token), project
