"""What a cluster worker does: run one unit, as a local process would, and send back its rounds."""

import platform
from collections.abc import Iterator, Mapping, Sequence

from understudy.errors import UnderstudyError
from understudy.experiments.grid import single_thread
from understudy.experiments.results import Round
from understudy.experiments.run import Experiment, Unit, play, versions
from understudy.experiments.specs import code_digests
from understudy.own_code import keep_place


def play_remotely(
    experiment: Experiment,
    unit: Unit,
    stored: Mapping[int, Sequence[Round]],
    wanted: Mapping[str, str],
    code: Mapping[str, str],
) -> Iterator[list[Round]]:
    """Run a unit as a process of `understudy compare` would and yield its rounds.

    `wanted`: the versions of the driver's packages; `code`: digests of the user's own code there.
    """
    check_versions(wanted, versions())
    check_code({spec: code[spec] for spec in (unit.strategy, experiment.plan.learner) if spec in code})
    with single_thread():
        try:
            yield from play(experiment, unit, stored)
        except Exception as error:
            keep_place(error)
            raise


def check_versions(wanted: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raise unless both machines have the same versions. Builds may differ: +cpu here, +cu126 there."""
    for name in ("understudy", "torch", "numpy"):
        if wanted[name].partition("+")[0] != found[name].partition("+")[0]:
            raise UnderstudyError(
                f"{platform.node()} has {name} {found[name]}, but the driver has {wanted[name]}; "
                "install the same version on all machines of the cluster"
            )


def check_code(wanted: Mapping[str, str]) -> None:
    """Raise unless the user's own strategies and learners are the same files here. Those missing are named later."""
    for spec, digest in wanted.items():
        try:
            found = code_digests([spec]).get(spec, digest)
        except Exception:  # whatever importing it raises is told, with its line, where it is made
            continue
        if found != digest:
            raise UnderstudyError(
                f"{spec} is another code on {platform.node()} than where the comparison was started; put the same "
                "files on all machines of the cluster"
            )
