"""Commands about data sets, encoders and features."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from understudy import defaults
from understudy.cli.app import JsonOption, ProjectArgument, StoreOption, app, find_modules_here


@app.command()
def datasets(
    get: Annotated[str | None, typer.Option("--get", metavar="NAME", help="Download this data set first.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the data sets that have a name: which are here, where, and how to get the others."""
    from understudy.data.datasets import listing, registry

    if get is not None:
        registry.fetch(get)
    statuses = registry.status()
    if as_json:
        typer.echo(json.dumps(listing.as_json(statuses), indent=1))
        return
    console = Console()
    console.print(listing.table(statuses))
    for line in listing.advice(statuses):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


@app.command()
def encoders() -> None:
    """List what makes features of items: how each is written, what it needs, and whether it works here.

    One of each kind is loaded and encodes an item, which takes some seconds.
    """
    from understudy.data.encoders.listing import explanations, table
    from understudy.data.encoders.trials import try_encoders

    console = Console()
    with Console(stderr=True).status("loading one of each kind"):
        trials, torchvision_fault = try_encoders()
    console.print(table(trials))
    for line in explanations(trials, torchvision_fault):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


@app.command()
def embed(
    source: Annotated[str, typer.Argument(metavar="PATH", help="A folder, a file, or the name of a data set.")],
    encoder: Annotated[str, typer.Option(help="See `understudy encoders`.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the features; PATH.features if not given.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Items computed at once.")] = defaults.ITEMS_PER_BATCH,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    workers: Annotated[int | None, typer.Option(min=1, help="Threads that read and decode.")] = None,
    on_error: Annotated[
        str, typer.Option(help="skip: leave out items that cannot be used. fail: stop at them.")
    ] = "skip",
    columns: Annotated[
        str | None, typer.Option(metavar="text=NAME,...", help="Columns of a table: path or text, label, split, id.")
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Use only these classes; items with another label are left out."),
    ] = None,
    folder_labels: Annotated[
        bool,
        typer.Option("--folder-labels/--no-folder-labels", help="Whether the folders of images are their classes."),
    ] = True,
) -> None:
    """Compute features of items. Features computed before are reused, so an interrupted run continues."""
    from understudy.data.columns import parse_columns
    from understudy.data.embedding import embed_dataset
    from understudy.data.encoders import make_encoder
    from understudy.data.faults import check_on_error
    from understudy.data.features import output_folder, summarize
    from understudy.data.sources import load

    chosen = check_on_error(on_error)
    folder = output_folder(source, out)
    named = None if columns is None else parse_columns(columns)
    only = None if classes is None else [name.strip() for name in classes.split(",")]
    made = make_encoder(encoder, device=device)
    # What cannot be used is settled once, when features are computed.
    dataset = load(source, classes=only, columns=named, folder_labels=folder_labels)
    pool, test = embed_dataset(dataset, made, out=folder, batch_size=batch_size, workers=workers, on_error=chosen)
    typer.echo(summarize(pool))
    if test is not None:
        typer.echo(summarize(test, "test"))


@app.command()
def encoder(
    project: ProjectArgument,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="See `understudy encoders`; the best to be had if not given.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    store: StoreOption = None,
) -> None:
    """Change the encoder of a project. Labels stay; features, surrogate and model are made anew.

    The features of before stay in use until the new ones are complete. After an interruption, run it again.
    """
    from understudy.sessions.encoder_change import change_encoder

    find_modules_here()
    for line in change_encoder(project, name, device=device, store=store, quiet=False):
        typer.echo(line)
