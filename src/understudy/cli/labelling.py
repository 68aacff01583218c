"""`understudy label`: the page on which people label."""

import os
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy import defaults
from understudy.cli.app import app, find_modules_here
from understudy.errors import UsageError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from understudy.core.protocol import RowStorage
    from understudy.projects.folder_question import FolderQuestion


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
    watch: Annotated[
        bool, typer.Option("--watch/--no-watch", help="Whether files that come while you label join by themselves.")
    ] = True,
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
        str | None,
        typer.Option(metavar="FILE", help="Predictions of a model that you have already; or module:function."),
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
    engine: Annotated[str, typer.Option(help="local, or ray: the pool's rows lie on a Ray cluster.")] = "local",
    ray_address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster; without one a cluster is started here.")
    ] = None,
    blocks: Annotated[
        int | None, typer.Option(min=1, help="Into how many blocks the rows are cut, each with a worker of its own.")
    ] = None,
) -> None:
    """Label items in the browser. Each answer teaches the surrogate, which chooses the next item.

    The project is stored beside the data. The same command continues where it was stopped. Several paths
    are served together, with a list of them.
    """
    if not sources and project is None and not demo:
        raise UsageError("there is nothing to label; give a PATH, or --demo to try it on digits")
    from understudy.cli.setup_bar import SetupBar
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

    rows = _rows_on(engine, ray_address, blocks)
    find_modules_here()
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
        with rows as storage:
            serve_several(
                sources,
                open_project=open_project,
                enter=enter,
                people=people,
                storage=storage,
                address=way,
                browser=browser,
                polls=watch,
                say=typer.echo,
            )
        return
    opened = open_project(sources[0] if sources else None)
    with rows as storage, SetupBar() as bar:
        serve(
            opened,
            enter=lambda: enter(opened),
            address=way,
            predictions=predictions,
            people=people,
            storage=storage,
            browser=browser,
            polls=watch,
            say=typer.echo,
            show_setup=bar.show,
        )


def _rows_on(engine: str, ray_address: str | None, blocks: int | None) -> "AbstractContextManager[RowStorage | None]":
    """Where the pool's rows are kept while people label; None: in the memory of this process."""
    if engine not in ("ray", "local"):
        raise UsageError(f"--engine must be local or ray; got {engine!r}")
    if engine == "ray":
        from understudy.distributed.remote_rows import rows_on_cluster

        return rows_on_cluster(ray_address, blocks)
    for name, value in (("--ray-address", ray_address), ("--blocks", blocks)):
        if value is not None:
            raise UsageError(f"{name} is about a pool on a Ray cluster; give --engine ray with it")
    return nullcontext()


def _refuse_project_options(options: dict[str, Any]) -> None:
    """Options that say how one project is made do not go with several: nobody could tell which is meant."""
    for name, value in options.items():
        if value is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} is about one project, and several are given; begin that one alone "
                f"with it, or change it with: understudy settings PROJECT"
            )


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
