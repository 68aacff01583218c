"""Types and shapes in signatures are checked wherever tests run, and trainings start from a warm process."""

import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

if TYPE_CHECKING:
    from tests.warm_training import WarmProcess

# Before the package is imported for the first time. An int passes for a float, as it does for mypy.
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
# The doors are left out: their own checks are tested with all that a caller may get wrong.
SOURCE = Path(__file__).parents[1] / "src" / "understudy"
DOORS = {
    "understudy.core.surrogate",
    "understudy.experiments.compare",
    "understudy.integrations.skactiveml",
    "understudy.distributed.worker",  # Ray wants the generator function itself
    "understudy.learners.classifiers",
    "understudy.learners.command",
    "understudy.learners.heads",
    "understudy.learners.network",
    "understudy.learners.protocol",
    "understudy.learners.training",
    "understudy.loop",
    "understudy.strategies.badge",
    "understudy.strategies.bald",
    "understudy.strategies.surrogate",
    "understudy.strategies.gcn",
    "understudy.strategies.gradnorm",
    "understudy.strategies.kcenter",
    "understudy.strategies.kmeans",
    "understudy.strategies.protocol",
    "understudy.strategies.ranking",
    "understudy.strategies.selection_via_proxy",
    "understudy.strategies.svm_margin",
    "understudy.strategies.uncertainty",
    "understudy.strategies.view",
    "understudy.strategies.vaal",
    "understudy.strategies.ta_vaal",
    "understudy.strategies.sraal",
    "understudy.strategies.bgadl",
    "understudy.strategies.weight_schedule",
}
MODULES = [module.name for module in pkgutil.walk_packages([str(SOURCE)], "understudy.") if not module.ispkg]
assert set(MODULES) >= DOORS, f"renamed or gone: {DOORS - set(MODULES)}"
INSIDE = [name for name in MODULES if name not in DOORS]
hook = install_import_hook(INSIDE, CHECKER)

settings.register_profile("understudy", derandomize=True, deadline=None)
settings.load_profile("understudy")


@pytest.fixture(scope="session")
def warm() -> "Iterator[WarmProcess]":
    """A process that has imported torch; it forks others, which begin at once."""
    from tests.warm_training import WarmProcess

    made = WarmProcess()
    yield made
    made.close()


@pytest.fixture(scope="session", autouse=True)
def _warm_training(warm: "WarmProcess") -> Iterator[None]:
    """Training processes are forked from the warm one."""
    from understudy.sessions.training import trainer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "start_process", warm.start_training)
        yield
