"""Commands about a project: its settings, classes and people, labels in and out, copies."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from understudy.cli.app import JsonOption, ProjectArgument, StoreOption, app, find_modules_here
from understudy.errors import UsageError


@app.command()
def settings(
    project: ProjectArgument,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="What to change, audit_share=0.2 for example.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the settings of a project, or change some. While it is served, change them on its page."""
    from understudy.sessions.settings_changes import change_settings, list_settings, settings_table

    find_modules_here()
    shown = change_settings(project, changes, store=store) if changes else list_settings(project, store=store)
    if as_json:
        typer.echo(json.dumps(asdict(shown), indent=1))
        return
    console = Console()
    changed = {word.partition("=")[0].strip() for word in changes or ()}
    console.print(settings_table([each for each in shown.settings if not changed or each.name in changed]))
    for line in shown.notes:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


@app.command()
def classes(
    project: ProjectArgument,
    change: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CHANGE]...",
            help="add NAME, rename CLASS NAME, merge CLASS INTO, remove CLASS, hide CLASS, show CLASS, order CLASS..., "
            "key CLASS KEY, colour CLASS #RRGGBB, describe CLASS TEXT, or undo.",
        ),
    ] = None,
    alike: Annotated[
        bool, typer.Option("--alike", help="Use a name even if it is easily taken for that of another class.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the classes of a project, or change one. While it is served, change them on its page."""
    from understudy.sessions.class_changes import change_classes, classes_as_rows, classes_table, list_classes

    line = ""
    if change:
        record, line = change_classes(project, change, alike=alike, store=store)
    else:
        record = list_classes(project, store=store)
    rows = classes_as_rows(record)
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    console = Console()
    console.print(classes_table(rows))
    if line:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


@app.command()
def people(
    project: ProjectArgument,
    change: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CHANGE]...",
            help="add NAME [ROLE], rename NAME NEW-NAME, role NAME ROLE, retire NAME, return NAME, or undo. "
            "Roles: annotator, reviewer, owner.",
        ),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the people of a project, or change one. While it is served, change them on its page."""
    from understudy.sessions.people_changes import change_people, list_people, people_as_rows, people_table

    line = ""
    if change:
        record, line = change_people(project, change, store=store)
    else:
        record = list_people(project, store=store)
    rows = people_as_rows(record)
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    console = Console()
    console.print(people_table(rows))
    if line:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


@app.command()
def add(project: ProjectArgument, store: StoreOption = None) -> None:
    """Add what is new in the data to a project: files of its folder, rows of its table.

    While it is served, new files join by themselves; so this is for a project that nobody serves.
    """
    from understudy.sessions.transfer import add_items

    find_modules_here()
    for line in add_items(project, store=store):
        typer.echo(line)


@app.command("import")
def import_(
    project: ProjectArgument,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A table, Label Studio's JSON, or a folder or zip with one folder per class."
        ),
    ],
    form: Annotated[
        str | None,
        typer.Option("--format", help="csv, jsonl, parquet, labelstudio or folders; told by the file if not given."),
    ] = None,
    annotator: Annotated[str, typer.Option(help="The annotator of labels for which the file names none.")] = "import",
    columns: Annotated[
        str | None, typer.Option(metavar="label=NAME,...", help="Columns: id, path, text, label, annotator, time.")
    ] = None,
    add_classes: Annotated[
        bool, typer.Option("--add-classes/--no-add-classes", help="Whether labels that are not a class yet become one.")
    ] = True,
    many_classes: Annotated[
        bool, typer.Option("--many-classes", help="Add new classes even if there are suspiciously many.")
    ] = False,
    alike: Annotated[
        bool, typer.Option("--alike", help="Add new classes even if they are easily taken for others: Cat for cat.")
    ] = False,
    store: StoreOption = None,
) -> None:
    """Import labels into a project. Labels that it has already, by the same annotator, are not stored again."""
    from understudy.data.columns import parse_columns
    from understudy.sessions.transfer import import_labels

    named = None if columns is None else parse_columns(columns)
    for line in import_labels(
        project,
        file,
        form,
        annotator=annotator,
        columns=named,
        add_classes=add_classes,
        many_classes=many_classes,
        alike=alike,
        store=store,
    ):
        typer.echo(line)


@app.command()
def annotate(
    project: ProjectArgument,
    model: Annotated[
        str | None,
        typer.Option(
            "--with", metavar="MODEL", help="module:function, items to probabilities, or a file of predictions."
        ),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Label items of which the likeliest class is at least so probable.")
    ] = 0.95,
    most: Annotated[int | None, typer.Option(min=1, help="Labels at the most, in the order of the pool.")] = None,
    annotator: Annotated[
        str | None, typer.Option(help="Whom the labels are by; the name of the function or file if not given.")
    ] = None,
    take_back: Annotated[
        bool, typer.Option("--take-back", help="Take back all labels by the model --annotator instead.")
    ] = False,
    store: StoreOption = None,
) -> None:
    """Let a model label what it is sure of. Its labels stay marked as a model's, and a person's always decide.

    Audit items are left to people. Labels are stored as they come, so an interrupted run loses little.
    """
    from understudy.sessions.model_labels import annotate_project, take_back_labels

    find_modules_here()
    if take_back != (model is None) or (take_back and annotator is None):
        raise UsageError(
            "say which model labels, with --with MODEL, or which is taken back: --annotator NAME --take-back"
        )
    if model is None:
        lines = take_back_labels(project, annotator or "", store=store)
    else:
        lines = annotate_project(
            project, model, threshold=threshold, annotator=annotator, most=most, store=store, progress=_print_progress
        )
    for line in lines:
        typer.echo(line)


def _print_progress(done: int, total: int) -> None:
    """A line on standard error that is written over, where somebody looks at it."""
    if sys.stderr.isatty():
        typer.echo(f"\r{done:,} of {total:,} items", err=True, nl=done == total)


@app.command()
def export(
    project: ProjectArgument,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="csv, jsonl, parquet, labelstudio, prodigy, folders, datasets, predictions-csv, predictions-jsonl, "
            "predictions-parquet or model.",
        ),
    ] = "csv",
    out: Annotated[
        Path | None, typer.Option(help="File or folder to write; its usual name, here, if not given and not there yet.")
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(metavar="URL", help="What addresses of images begin with, for labelstudio: https://.../photos/"),
    ] = None,
    copy: Annotated[bool, typer.Option("--copy", help="Copy files into the folders instead of linking them.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Probabilities as the model gives them, not calibrated by audit items.")
    ] = False,
    store: StoreOption = None,
) -> None:
    """Export labels, predictions or the model, with who, when and why. Works while people label."""
    from understudy.sessions.transfer import export_labels

    for line in export_labels(project, form, out, copy=copy, raw=raw, prefix=prefix, store=store):
        typer.echo(line)


@app.command()
def backup(
    project: ProjectArgument,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="File or folder to write; PROJECT-DATE.backup.zip, here.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Copy a project into one file: labels, models, features, settings. Works while people label."""
    from understudy.sessions.backup import back_up

    for line in back_up(project, file, store=store):
        typer.echo(line)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `understudy backup` made.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder for the project.")],
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="Another database for the log, or sqlite:///FILE.")
    ] = None,
) -> None:
    """Make a project of a backup again, in a new folder. Nothing that is there is replaced."""
    from understudy.sessions.backup import restore_backup

    for line in restore_backup(file, folder, store=store):
        typer.echo(line)
