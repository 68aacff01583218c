"""The encoders as a table, for people who choose one."""

from collections.abc import Iterator, Mapping
from typing import Final

from rich.table import Table

from understudy.data.encoders.choice import DEFAULTS, default_encoder
from understudy.data.encoders.found_models import find_models
from understudy.data.encoders.registry import ENCODERS
from understudy.data.encoders.trials import Trial
from understudy.messages import install_command

SYNTAX: Final = """\
write KIND[:MODEL][?OPTIONS][@WEIGHTS], with quotes around it in a shell
  ?size=128&mean=0.5  changes the preprocessing
  @FILE               takes the weights from a local file"""
MEANINGS: Final = {
    "works": "one of this kind was loaded just now and has encoded an item",
    "no weights": "the library works; the weights are downloaded when they are used",
    "not installed": f"{install_command('EXTRA')} brings it",
    "broken": "it is installed and could not be used; the reason stands below",
}


def table(trials: Mapping[str, Trial]) -> Table:
    """One line an encoder, with what became of its trial; it fits into 80 columns."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    shown.add_column("encoder", no_wrap=True)
    for title in ("what it is", "columns", "extra"):
        shown.add_column(title)
    shown.add_column("here", no_wrap=True)
    for kind, entry in ENCODERS.items():
        shown.add_row(entry.syntax, entry.what, entry.columns, entry.extra or "", trials[kind].outcome)
    return shown


def explanations(trials: Mapping[str, Trial], torchvision_fault: str | None) -> Iterator[str]:
    """Lines below the table: what its words mean, what is broken and why, and what mends it."""
    outcomes = {trial.outcome for trial in trials.values()}
    for word, meaning in MEANINGS.items():
        if word in outcomes:
            yield f"{word}: {meaning}"
    for kind, trial in trials.items():
        if trial.problem:
            yield f"{ENCODERS[kind].syntax} is broken: {trial.problem}"
    if torchvision_fault is not None:
        yield torchvision_fault
    for kind, choices in DEFAULTS.items():
        usable = default_encoder(kind)
        how = "" if usable is not None else f", with {install_command(choices[0].extra)}"
        yield f"label takes for {kind}s, where none is named: {(usable or choices[0]).name}{how}"
    for found in (*find_models("image"), *find_models("text")):
        yield f"found here: {found}"
    yield SYNTAX
