"""Commands that compare strategies in simulation."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from understudy import defaults
from understudy.cli.app import JsonOption, app, find_modules_here
from understudy.errors import UsageError

if TYPE_CHECKING:  # else every command would wait for what a comparison needs
    from understudy.experiments.compare import Comparison
    from understudy.experiments.grid import Engine
    from understudy.experiments.results import Results
    from understudy.tracking import Tracker

Shown = tuple[tuple[str, ...], tuple[float, ...] | None]  # metrics, and targets of the first
TrackOption = Annotated[
    str | None,
    typer.Option(metavar="mlflow[:URI]", help="Show curves, picks and report in MLflow too, or tensorboard:FOLDER."),
]

MetricOption = Annotated[
    str,
    typer.Option(
        metavar="A,B,...", help="What is compared: accuracy, balanced_accuracy, log_loss, brier, ece. A table of each."
    ),
]
ReachOption = Annotated[
    str | None,
    typer.Option(metavar="0.8,0.85", help="Values of the first metric: how many labels did each strategy need?"),
]


@app.command()
def demo(
    repeats: Annotated[int, typer.Option(min=1, help="Repetitions, each from new initial labels.")] = defaults.REPEATS,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = defaults.SEED,
    out: Annotated[Path, typer.Option(help="Folder for the results and the report.")] = Path(defaults.DEMO_FOLDER),
    metric: MetricOption = defaults.METRIC,
    reach: ReachOption = None,
) -> None:
    """Compare the surrogate with margin, entropy and random on 8x8 digits: about a minute.

    The same command continues where it was interrupted.
    """
    # Imported here, so that no other command waits for what the demo needs.
    from understudy.experiments.demo import demo_comparison

    shown = _parse_shown(metric, reach)
    _carry_out(demo_comparison(repeats=repeats, seed=seed, out=out), None, None, shown=shown)


@app.command()
def strategies(as_json: JsonOption = False) -> None:
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
    predictions: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Predictions that all strategies start from: a file, or module:function."),
    ] = None,
    imbalance: Annotated[
        float | None, typer.Option(metavar="20", help="Thin the pool: its largest class is so many times its smallest.")
    ] = None,
    wrong: Annotated[
        float | None, typer.Option(metavar="0.1", help="Share of the answers that are another class.")
    ] = None,
    duplicates: Annotated[float | None, typer.Option(metavar="0.3", help="Share of near-copies in the pool.")] = None,
    learner: Annotated[
        str,
        typer.Option(
            help="paper, paper_slow, paper_scaled, modern, quick, logistic, resnet18, module:name or "
            "finetune:NAME_OR_FOLDER."
        ),
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
    track: TrackOption = None,
    controls: Annotated[
        bool,
        typer.Option(
            "--controls/--no-controls",
            help="Also run margin retrained ten times as often, and the learner with all labels.",
        ),
    ] = True,
    metric: MetricOption = defaults.METRIC,
    reach: ReachOption = None,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Also run a choice that looks at labels: what is left to win.")
    ] = False,
) -> None:
    """Label a data set in simulation by several strategies, and report which needs the fewest labels.

    Every round is stored as it ends. The same command continues where it was interrupted, and adds what is new.
    """
    from understudy.experiments.compare import compare

    find_modules_here()
    chosen, shown = _comparison_engine(engine, ray_address, jobs), _parse_shown(metric, reach)
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
        predictions=predictions,
        imbalance=imbalance,
        wrong=wrong,
        duplicates=duplicates,
        oracle=oracle,
    )
    _carry_out(comparison, chosen, jobs, track, shown)


@app.command()
def replay(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a comparison.")],
    learner: Annotated[str, typer.Option(help="The learner that judges the stored picks.")],
    data: Annotated[str | None, typer.Option(help="Where the data set is, if it has moved.")] = None,
    picks: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The picks, if DIR was kept without them; see `understudy picks`."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; DIR/replay-LEARNER if not given.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = defaults.DEVICE,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes.")] = None,
    together: Annotated[int | None, typer.Option(min=1, help="Repetitions trained at once.")] = None,
    engine: Annotated[str, typer.Option(help="local, or ray for a Ray cluster.")] = "local",
    ray_address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster; without one a cluster is started here.")
    ] = None,
    track: TrackOption = None,
    metric: MetricOption = defaults.METRIC,
    reach: ReachOption = None,
) -> None:
    """Judge the picks of a comparison by another learner: are they good labels, or good for one learner only?"""
    from understudy.experiments.compare import replay

    find_modules_here()
    chosen, shown = _comparison_engine(engine, ray_address, jobs), _parse_shown(metric, reach)
    comparison = replay(folder, data, learner, out=out, device=device, together=together, picks=picks)
    _carry_out(comparison, chosen, jobs, track, shown)


@app.command()
def picks(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a comparison.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write, a Parquet table.")],
) -> None:
    """Write all picks of a comparison into one file, and note its digest in DIR/experiment.json.

    The folder may then be kept without picks: `understudy replay DIR --picks FILE` takes them from there.
    """
    from understudy.experiments.picks_file import write_picks
    from understudy.experiments.results import Results

    digest = write_picks(Results.open(folder), out)
    typer.echo(f"{out}: SHA-256 {digest}, noted in {folder / 'experiment.json'}")


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of comparisons: one, or several.")],
    data: Annotated[str | None, typer.Option(help="Where the data set is, if it has moved. Of one comparison.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the report of several comparisons.")] = None,
    metric: MetricOption = defaults.METRIC,
    reach: ReachOption = None,
) -> None:
    """Make the report of a comparison again from its results, finished or not; of several, one page over all of them.

    Several need --out, and share ranks, penalties and a matrix of strategies and sets.
    """
    shown = _parse_shown(metric, reach)
    if len(folders) == 1:
        from understudy.experiments.results import Results

        if out is not None:
            raise UsageError("--out is for several comparisons; the report of one lies in its folder")
        _show_results(Results.open(folders[0]), data, shown)
        return
    from understudy.experiments.joint_report import write_joint_report

    if out is None:
        raise UsageError(f"a report of {len(folders)} comparisons needs a folder of its own; name it with --out")
    if data is not None or reach is not None or len(shown[0]) > 1:
        raise UsageError(
            "--data, --reach and further metrics are for one comparison; leave them out, or name one folder"
        )
    typer.echo(f"report: {write_joint_report(folders, out, shown[0][0])}")


@app.command()
def leaderboard(
    places: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Comparisons, folders that hold them, results.parquet files, or leaderboard pages."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("leaderboard.html"),
    to: Annotated[
        int | None,
        typer.Option(min=1, metavar="LABELS", help="Compare up to this many labels; budgets above are left out."),
    ] = None,
) -> None:
    """Make a leaderboard of any number of comparisons: one page, to which others can add theirs."""
    from understudy.experiments.leaderboard_page import write_leaderboard

    typer.echo(f"leaderboard: {write_leaderboard(places, out, to)}")


def _parse_shown(metric: str, reach: str | None) -> Shown:
    """The metrics to show and the targets of the first, as the command line has them."""
    from understudy.experiments.labels_needed import parse_targets
    from understudy.experiments.metrics import METRICS, parse_metrics

    metrics = parse_metrics(metric)
    return metrics, None if reach is None else parse_targets(reach, METRICS[metrics[0]])


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


def _carry_out(
    comparison: "Comparison",
    engine: "Engine | None",
    jobs: int | None,
    track: str | None = None,
    shown: Shown = ((defaults.METRIC,), None),
) -> None:
    """Run a comparison, and say beforehand what will be done and afterwards what came out."""
    from understudy.experiments.tracked_rounds import log_report

    tracker = _tracker_of(comparison, track)
    for line in comparison.describe(jobs, None if engine is None else "in a Ray cluster"):
        typer.echo(line, err=True)
    try:
        outcome = comparison.run(engine, jobs, tracker=tracker)
    except KeyboardInterrupt:
        folder = comparison.task.store.folder
        typer.echo(f"understudy: stopped; what is done is in {folder}, and the same command continues", err=True)
        raise typer.Exit(1) from None
    try:
        if comparison.task.stored():
            _show_results(outcome.results, None, shown)
            if tracker is not None:
                log_report(comparison.task.store, tracker)
        if tracker is not None:
            tracker.close()
    finally:  # whatever becomes of the report
        for unit, what in outcome.failed.items():
            typer.echo(f"understudy: {unit} failed: {what}", err=True)
    if outcome.failed:
        raise typer.Exit(1)


def _tracker_of(comparison: "Comparison", track: str | None) -> "Tracker | None":
    if track is None:
        return None
    from understudy.integrations.trackers import make_tracker

    return make_tracker(track, str(comparison.task.store.folder.resolve()))


def _show_results(results: "Results", data: str | None, shown: Shown) -> None:
    """Print the tables of a comparison, and write its report."""
    from understudy.experiments.report import publish

    console = Console()
    for part in publish(results, data, console.width, *shown):
        if isinstance(part, str):
            console.print(part, highlight=False, markup=False, soft_wrap=True)
        else:
            console.print(part)
