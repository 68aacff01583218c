"""What a worker of a cluster does: play one unit, like a process of this machine, and send back its rounds."""

import platform
from collections.abc import Iterator, Mapping, Sequence

from understudy.errors import UnderstudyError
from understudy.experiments.grid import one_thread
from understudy.experiments.results import Round
from understudy.experiments.run import Experiment, Unit, play, versions


def play_there(
    experiment: Experiment, unit: Unit, stored: Mapping[int, Sequence[Round]], wanted: Mapping[str, str]
) -> Iterator[list[Round]]:
    """The rounds of a unit, as a process of `understudy compare` makes them."""
    check_versions(wanted, versions())
    with one_thread():
        yield from play(experiment, unit, stored)


def check_versions(wanted: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Numbers of one comparison come from the same versions. Builds may differ: +cpu here, +cu126 there."""
    for name in ("understudy", "torch", "numpy"):
        if wanted[name].partition("+")[0] != found[name].partition("+")[0]:
            raise UnderstudyError(
                f"{platform.node()} has {name} {found[name]}, and the machine that asks {wanted[name]}; "
                "install the same on all machines of the cluster"
            )
