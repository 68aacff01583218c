"""The command line: each command parses, calls one function, and prints."""

import json
import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from typer.core import TyperGroup

from understudy import __version__, defaults
from understudy.errors import UnderstudyError, UsageError

if TYPE_CHECKING:  # else every command would wait for what a comparison needs
    from understudy.experiments.compare import Comparison
    from understudy.experiments.grid import Engine
    from understudy.experiments.results import Results
    from understudy.projects.folder_question import FolderQuestion


class _Commands(TyperGroup):
    """The commands as the help lists them: labelling first, and what each does in full."""

    ORDER: Final = ("label", "import", "export", "settings", "encoder", "backup", "restore", "embed", "encoders")

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


@app.command()
def demo(
    repeats: Annotated[int, typer.Option(min=1, help="Repetitions, each from new initial labels.")] = defaults.REPEATS,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = defaults.SEED,
    out: Annotated[Path, typer.Option(help="Folder for the results and the report.")] = Path(defaults.DEMO_FOLDER),
) -> None:
    """Compare the surrogate with margin, entropy and random on 8x8 digits: about a minute.

    The same command continues where it was interrupted.
    """
    # Imported here, so that no other command waits for what the demo needs.
    from understudy.experiments.demo import demo_comparison

    _carry_out(demo_comparison(repeats=repeats, seed=seed, out=out), None, None)


@app.command()
def datasets(
    get: Annotated[str | None, typer.Option("--get", metavar="NAME", help="Download this data set first.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
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
def strategies(as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False) -> None:
    """List the ways of choosing what to label next: what each prefers, and what it needs to know."""
    from understudy.strategies import listing

    if as_json:
        typer.echo(json.dumps(listing.as_json(), indent=1))
        return
    console = Console()
    for table in listing.tables():
        console.print(table)
    console.print("a page for each: docs/strategies.md", highlight=False)


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
def compare(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A name, or a path: .npz, features, a table.")],
    strategies: Annotated[
        str, typer.Option(metavar="A,B(setting=1),...", help="What is compared; see `understudy strategies`.")
    ] = ",".join(defaults.STRATEGIES),
    repeats: Annotated[int, typer.Option(min=1, help="Repetitions, each from new initial labels.")] = defaults.REPEATS,
    schedule: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Numbers of labels at which the learner is trained.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="paper: 600 to 11,000 labels. small: two a class to half the pool.")
    ] = None,
    start: Annotated[
        int | None, typer.Option(metavar="0", help="0: strategies that need no learner also choose the first rows.")
    ] = None,
    learner: Annotated[
        str, typer.Option(help="paper, paper_slow, paper_scaled, modern, quick, logistic, resnet18 or module:name.")
    ] = defaults.LEARNER,
    out: Annotated[Path | None, typer.Option(help="Folder for results; comparisons/DATASET if not given.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = defaults.SEED,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = defaults.DEVICE,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one per core if not given, one on a GPU.")] = None,
    together: Annotated[
        int | None, typer.Option(min=1, help="Repetitions trained at once; all of them on a GPU, otherwise one.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray for a Ray cluster.")] = "local",
    ray_address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster; without one a cluster is started here.")
    ] = None,
    controls: Annotated[
        bool,
        typer.Option(
            "--controls/--no-controls",
            help="Also run margin retrained ten times as often, and the learner with all labels.",
        ),
    ] = True,
) -> None:
    """Label a data set in simulation by several strategies, and report which needs the fewest labels.

    Every round is stored as it ends. The same command continues where it was interrupted, and adds what is new.
    """
    from understudy.experiments.compare import compare

    _find_modules_here()
    chosen = _comparison_engine(engine, ray_address, jobs)
    comparison = compare(
        dataset,
        strategies,
        out=out,
        repeats=repeats,
        schedule=schedule,
        protocol=protocol,  # type: ignore[arg-type]  # checked there
        learner=learner,
        seed=seed,
        device=device,
        together=together,
        controls=controls,
        start=start,
    )
    _carry_out(comparison, chosen, jobs)


@app.command()
def replay(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a comparison.")],
    learner: Annotated[str, typer.Option(help="The learner that judges the stored picks.")],
    data: Annotated[str | None, typer.Option(help="Where the data set is, if it has moved.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; DIR/replay-LEARNER if not given.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = defaults.DEVICE,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes.")] = None,
    together: Annotated[int | None, typer.Option(min=1, help="Repetitions trained at once.")] = None,
    engine: Annotated[str, typer.Option(help="local, or ray for a Ray cluster.")] = "local",
    ray_address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster; without one a cluster is started here.")
    ] = None,
) -> None:
    """Judge the picks of a comparison by another learner: are they good labels, or good for one learner only?"""
    from understudy.experiments.compare import replay

    _find_modules_here()
    chosen = _comparison_engine(engine, ray_address, jobs)
    _carry_out(replay(folder, data, learner, out=out, device=device, together=together), chosen, jobs)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a comparison.")],
    data: Annotated[str | None, typer.Option(help="Where the data set is, if it has moved.")] = None,
) -> None:
    """Make the report of a comparison again from its results, finished or not."""
    from understudy.experiments.results import Results

    _show_results(Results.open(folder), data)


@app.command()
def label(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="A folder of images, a table, a data set, or a project; several are served together.",
        ),
    ] = None,
    classes: Annotated[str | None, typer.Option(metavar="A,B,...", help="More can be added while labelling.")] = None,
    classes_file: Annotated[Path | None, typer.Option(help="A file with one class name per line.")] = None,
    project: Annotated[Path | None, typer.Option(help="The project's folder; PATH.understudy if not given.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Try it on 8x8 digits, without any data of your own.")] = False,
    encoder: Annotated[
        str | None, typer.Option(help="See `understudy encoders`; the best that is installed if not given.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="postgresql://USER@HOST/NAME; password in PGPASSWORD.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; beyond this machine --annotators or --password is needed.")
    ] = defaults.HOST,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help=f"The first free one from {defaults.FIRST_PORT} if not given.")
    ] = None,
    annotators: Annotated[
        str | None,
        typer.Option(
            metavar="ANN,BOB:ROLE,...",
            help="A personal login link for each; role: annotator, reviewer or owner. The first is owner if nobody is.",
        ),
    ] = None,
    allow_host: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="More names by which the page may be called."),
    ] = None,
    certfile: Annotated[Path | None, typer.Option(help="A certificate in PEM: the page is served over HTTPS.")] = None,
    keyfile: Annotated[
        Path | None,
        typer.Option(help="Its key, unless it is in the same file; the key's password in UNDERSTUDY_KEY_PASSWORD."),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where people find the page behind a reverse proxy: https://HOST/label/."),
    ] = None,
    trust_proxy: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS,...", help="Reverse proxies whose X-Forwarded-For and -Proto are believed."),
    ] = None,
    new_links: Annotated[
        bool, typer.Option("--new-links", help="Issue new login links; the old ones stop working.")
    ] = False,
    password: Annotated[
        str | None,
        typer.Option(
            envvar="UNDERSTUDY_PASSWORD",
            prompt="Password",
            prompt_required=False,
            hide_input=True,
            help="One password for everybody; given last, without a value, it is asked for.",
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open the page.")] = True,
    audit_share: Annotated[
        float | None,
        typer.Option(
            help="Share of random audit items, which only measure models.", show_default=f"{defaults.AUDIT_SHARE:g}"
        ),
    ] = None,
    agreement_share: Annotated[
        float | None,
        typer.Option(help="Share of items that two people label.", show_default=f"{defaults.AGREEMENT_SHARE:g}"),
    ] = None,
    lease_minutes: Annotated[
        float | None,
        typer.Option(
            help="How long an item is kept for an annotator.", show_default=f"{defaults.LEASE_SECONDS / 60:g}"
        ),
    ] = None,
    learner: Annotated[
        str | None, typer.Option(help="What is trained on the labels.", show_default=defaults.LEARNER)
    ] = None,
    retrain_growth: Annotated[
        float | None,
        typer.Option(
            help="Train when the labels have grown by this factor.", show_default=f"{defaults.RETRAIN_GROWTH:g}"
        ),
    ] = None,
    retrain_at_most: Annotated[
        int | None,
        typer.Option(
            help="Train after this many new labels at the latest.", show_default=str(defaults.RETRAIN_AT_MOST)
        ),
    ] = None,
    basis_size: Annotated[
        int | None, typer.Option(help="Basis points of the surrogate; 500, fewer in small pools.")
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Predictions of a model that you have already, to start from.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same seed gives the same choices.", show_default=str(defaults.SEED))
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="text=NAME,...", help="Columns of a table: path or text, label, id.")
    ] = None,
    show: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Other columns of the table to show beside each item.")
    ] = None,
    folder_labels: Annotated[
        bool | None,
        typer.Option(
            "--folder-labels/--no-folder-labels",
            help="Whether labels that come with the data are used; about folders you are asked.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="For features: auto, cpu or cuda.")] = "auto",
) -> None:
    """Label items in the browser. Each answer teaches the surrogate, which chooses the next item.

    The project is stored beside the data. The same command continues where it was stopped. Several paths
    are served together, with a list of them.
    """
    if not sources and project is None and not demo:
        raise UsageError("there is nothing to label; give a PATH, or --demo to try it on digits")
    from understudy.data.columns import parse_columns
    from understudy.learners.registry import make_feature_learner
    from understudy.projects.opening import create_or_open
    from understudy.projects.project import Project
    from understudy.projects.settings import parse_shown
    from understudy.sessions.opening import check_begin
    from understudy.sessions.people_changes import read_people
    from understudy.web.access import Access, access_for, check_access
    from understudy.web.certificates import PASSWORD_VARIABLE
    from understudy.web.server import Links, address_for, check_address, serve
    from understudy.web.several_server import serve_several

    _find_modules_here()
    if learner is not None:
        make_feature_learner(learner)  # one that cannot be used would only fail at the first training
    options: dict[str, Any] = {
        "project": project, "classes": classes, "classes_file": classes_file, "encoder": encoder, "store": store,
        "demo": demo or None, "columns": columns, "folder_labels": folder_labels, "audit_share": audit_share,
        "agreement_share": agreement_share, "lease_minutes": lease_minutes, "learner": learner,
        "retrain_growth": retrain_growth, "retrain_at_most": retrain_at_most, "basis_size": basis_size, "seed": seed,
        "predictions": predictions, "show": show,
    }  # fmt: skip
    if sources is not None and len(sources) > 1:
        _refuse_project_options(options)
    # All of this before anything is made.
    way = address_for(
        host, port, certfile=certfile, keyfile=keyfile, key_password=os.environ.get(PASSWORD_VARIABLE),
        public=public_url, trusted=trust_proxy,
    )  # fmt: skip
    wanted, _ = check_access(host, annotators, password, allow_host, way.proxy.public)
    people = None if annotators is None and password is None else wanted
    check_address(way)

    def open_project(source: str | None) -> Project:
        opened = create_or_open(
            source,
            project=project,
            classes=None if classes is None else [name.strip() for name in classes.split(",")],
            classes_file=classes_file,
            encoder=encoder,
            store=store,
            demo=demo,
            columns=None if columns is None else parse_columns(columns),
            folder_labels=folder_labels,
            ask_folders=_ask_about_folders,
            check_begin=partial(check_begin, predictions=predictions),
            device=device,
            audit_share=audit_share,
            agreement_share=agreement_share,
            lease_seconds=None if lease_minutes is None else 60 * lease_minutes,
            learner=learner,
            retrain_growth=retrain_growth,
            retrain_at_most=retrain_at_most,
            basis_size=basis_size,
            seed=seed,
            show=None if show is None else parse_shown(show),
        )
        # Before the page is there: a download is shown here, and people are asked where only a weak encoder can be had.
        opened.settle_encoder(typer.confirm if sys.stdin.isatty() and sys.stdout.isatty() else None)
        return opened

    def enter(opened: Project) -> tuple[Access, Links]:
        return access_for(
            opened.folder,
            host,
            annotators=annotators,
            password=password,
            new_links=new_links,
            allow_host=allow_host,
            public=way.proxy.public,
            people=read_people(opened),
        )

    if sources is not None and len(sources) > 1:
        serve_several(
            sources,
            open_project=open_project,
            enter=enter,
            people=people,
            address=way,
            browser=browser,
            say=typer.echo,
        )
        return
    opened = open_project(sources[0] if sources else None)
    serve(
        opened,
        enter=lambda: enter(opened),
        address=way,
        predictions=predictions,
        people=people,
        browser=browser,
        say=typer.echo,
    )


def _refuse_project_options(options: dict[str, Any]) -> None:
    """Options that say how one project is made do not go with several: nobody could tell which is meant."""
    for name, value in options.items():
        if value is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} is about one project, and several are given; begin that one alone "
                f"with it, or change it with: understudy settings PROJECT"
            )


@app.command()
def encoder(
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="A project's folder, or the data it lies beside.")],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="See `understudy encoders`; the best to be had if not given.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="The project's database, if it is not a file.")
    ] = None,
) -> None:
    """Change the encoder of a project. Labels stay; features, surrogate and model are made anew.

    The features of before stay in use until the new ones are complete. After an interruption, run it again.
    """
    from understudy.sessions.encoder_change import change_encoder

    _find_modules_here()
    for line in change_encoder(project, name, device=device, store=store, quiet=False):
        typer.echo(line)


@app.command()
def settings(
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="A project's folder, or the data it lies beside.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="What to change, audit_share=0.2 for example.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="The project's database, if it is not a file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Show the settings of a project, or change some. While it is served, change them on its page."""
    from understudy.sessions.settings_changes import change_settings, list_settings, settings_table

    _find_modules_here()
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
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="A project's folder, or the data it lies beside.")],
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
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="The project's database, if it is not a file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
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
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="A project's folder, or the data it lies beside.")],
    change: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CHANGE]...",
            help="add NAME [ROLE], rename NAME NEW-NAME, role NAME ROLE, retire NAME, return NAME, or undo. "
            "Roles: annotator, reviewer, owner.",
        ),
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="The project's database, if it is not a file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
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


@app.command("import")
def import_(
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="A project's folder, or the data it lies beside.")],
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
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="The project's database, if it is not a file.")
    ] = None,
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
def export(
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="A project's folder, or the data it lies beside.")],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="csv, jsonl, parquet, labelstudio, prodigy, folders, predictions-csv, predictions-jsonl, "
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
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="The project's database, if it is not a file.")
    ] = None,
) -> None:
    """Export labels, predictions or the model, with who, when and why. Works while people label."""
    from understudy.sessions.transfer import export_labels

    for line in export_labels(project, form, out, copy=copy, raw=raw, prefix=prefix, store=store):
        typer.echo(line)


@app.command()
def backup(
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="A project's folder, or the data it lies beside.")],
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="File or folder to write; PROJECT-DATE.backup.zip, here.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="The project's database, if it is not a file.")
    ] = None,
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


def _ask_about_folders(question: "FolderQuestion") -> bool | None:
    """Whether folders are classes, as whoever sits at the terminal says; None where nobody does."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    typer.echo(question.line)
    typer.echo("  c: classes; each item is labelled by the folder it lies in")
    typer.echo("  f: folders; nothing is labelled yet")
    usual = "c" if question.are_likely_classes else "f"
    while True:
        answer = str(typer.prompt("Are they taken for classes or for folders?", default=usual)).strip().lower()
        if answer in ("c", "classes", "f", "folders"):
            return answer.startswith("c")


def _find_modules_here() -> None:
    """Let `module:name` be a file of the current folder; processes that are started get the same path."""
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.append(here)  # last, so that a file here hides no other module


def _comparison_engine(engine: str, ray_address: str | None, jobs: int | None) -> "Engine | None":
    """What carries a comparison out; None for processes of this machine."""
    if engine not in ("ray", "local"):
        raise UsageError(f"--engine must be local or ray; got {engine!r}")
    if engine == "local":
        if ray_address is not None:
            raise UsageError("--ray-address is the address of a Ray cluster; give --engine ray with it")
        return None
    from understudy.distributed.grid import on_ray

    return on_ray(ray_address, jobs=jobs)


def _carry_out(comparison: "Comparison", engine: "Engine | None", jobs: int | None) -> None:
    """Run a comparison, and say beforehand what will be done and afterwards what came out."""
    for line in comparison.describe(jobs, None if engine is None else "in a Ray cluster"):
        typer.echo(line, err=True)
    try:
        outcome = comparison.run(engine, jobs)
    except KeyboardInterrupt:
        folder = comparison.task.store.folder
        typer.echo(f"understudy: stopped; what is done is in {folder}, and the same command continues", err=True)
        raise typer.Exit(1) from None
    try:
        if comparison.task.stored():
            _show_results(outcome.results, None)
    finally:  # whatever becomes of the report
        for unit, what in outcome.failed.items():
            typer.echo(f"understudy: {unit} failed: {what}", err=True)
    if outcome.failed:
        raise typer.Exit(1)


def _show_results(results: "Results", data: str | None) -> None:
    """Print the table of a comparison, and write its report."""
    from understudy.experiments.report import publish

    console = Console()
    for part in publish(results, data, console.width):
        if isinstance(part, str):
            console.print(part, highlight=False, markup=False, soft_wrap=True)
        else:
            console.print(part)
