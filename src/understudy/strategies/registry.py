"""Every strategy by its name."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Final

from understudy.errors import UsageError
from understudy.strategies.active_ft import ActiveFT
from understudy.strategies.badge import Badge
from understudy.strategies.bait import Bait, BaitBinary
from understudy.strategies.bald import Bald, PowerBald
from understudy.strategies.batchbald import BatchBald
from understudy.strategies.bgadl import Bgadl
from understudy.strategies.cluster_margin import ClusterMargin
from understudy.strategies.dal import DAL
from understudy.strategies.dcom import DCoM
from understudy.strategies.drop_query import DropQuery
from understudy.strategies.elhamifar import Elhamifar
from understudy.strategies.emoc import EMOC
from understudy.strategies.expected_error import ExpectedError
from understudy.strategies.gcn import SequentialGCN
from understudy.strategies.gradnorm import GradNorm
from understudy.strategies.herding import MaxHerding, UHerding
from understudy.strategies.kcenter import CoreSet, FarthestFirst
from understudy.strategies.kmeans import KMeans
from understudy.strategies.learning_loss import LearningLoss
from understudy.strategies.mutual_information import MutualInformation
from understudy.strategies.preclustering import PreClustering
from understudy.strategies.probcover import ProbCover
from understudy.strategies.protocol import Strategy
from understudy.strategies.random_rows import Random
from understudy.strategies.robust_coreset import RobustCoreSet
from understudy.strategies.selection_via_proxy import SelectionViaProxy
from understudy.strategies.sraal import Sraal
from understudy.strategies.subquery import Subquery
from understudy.strategies.surrogate import SurrogateStrategy
from understudy.strategies.svm_margin import SVMMargin
from understudy.strategies.ta_vaal import TaVaal
from understudy.strategies.tcm import TCM
from understudy.strategies.typiclust import TypiClust
from understudy.strategies.uncertainty import Uncertainty
from understudy.strategies.vaal import Vaal
from understudy.strategies.weight_schedule import WeightSchedule

paper = partial(SurrogateStrategy, method="paper")

# Calling an entry creates a new strategy; its settings are the arguments.
STRATEGIES: Final[dict[str, Callable[..., Strategy]]] = {
    "understudy": SurrogateStrategy,
    "surrogate": paper,
    "surrogate_influence": partial(paper, mode="influence"),
    "surrogate_uncertainty": partial(paper, mode="uncertainty"),
    "surrogate_uniform": partial(paper, mode="uniform"),
    "surrogate_lookahead": partial(paper, mode="lookahead", lookahead_candidates=200),
    "surrogate_variance": partial(paper, mode="variance"),
    "surrogate_blind": partial(paper, blind=True),
    "random": Random,
    "entropy": partial(Uncertainty, score="entropy"),
    "margin": partial(Uncertainty, score="margin"),
    "least_confidence": partial(Uncertainty, score="least_confidence"),
    "bald": Bald,
    "power_bald": PowerBald,
    "batchbald": BatchBald,
    "badge": Badge,
    "bait": Bait,
    "bait_binary": BaitBinary,
    "selection_via_proxy": SelectionViaProxy,
    "learning_loss": LearningLoss,
    "weight_schedule": WeightSchedule,
    "gradnorm": partial(GradNorm, scheme="entropy"),
    "gradnorm_egl": partial(GradNorm, scheme="egl"),
    "coreset": CoreSet,
    "coreset_robust": RobustCoreSet,
    "farthest_first": FarthestFirst,
    "uncertain_gcn": partial(SequentialGCN, rule="uncertain"),
    "core_gcn": partial(SequentialGCN, rule="core"),
    "dal": DAL,
    "vaal": Vaal,
    "ta_vaal": TaVaal,
    "sraal": Sraal,
    "bgadl": Bgadl,
    "emoc": EMOC,
    "expected_error": ExpectedError,
    "mutual_information": MutualInformation,
    "subquery": Subquery,
    "svm_margin": SVMMargin,
    "kmeans": KMeans,
    "preclustering": PreClustering,
    "typiclust": TypiClust,
    "probcover": ProbCover,
    "dcom": DCoM,
    "tcm": TCM,
    "active_ft": ActiveFT,
    "max_herding": MaxHerding,
    "uherding": UHerding,
    "elhamifar": Elhamifar,
    "drop_query": DropQuery,
    "cluster_margin": ClusterMargin,
}


def make_strategy(name: str, **settings: Any) -> Strategy:
    """A new strategy of this name, with these settings in place of its defaults."""
    if name not in STRATEGIES:
        near = get_close_matches(name, STRATEGIES, 1)
        hint = f"did you mean {near[0]!r}?" if near else "`understudy strategies` lists them"
        if (plain := name.partition("(")[0]) in STRATEGIES:
            hint = f"in Python its settings are arguments: make_strategy({plain!r}, ...)"
        if Path(f"{name}.py").is_file():
            hint = f"to take a class from {name}.py write {name}:ItsName"
        raise UsageError(f"there is no strategy {name!r}; {hint}")
    known = signature(STRATEGIES[name]).parameters
    takes_options = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known.values())
    if not takes_options and (unknown := [setting for setting in settings if setting not in known]):
        near = get_close_matches(unknown[0], known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known) or 'none'}"
        raise UsageError(f"{name} has no setting {unknown[0]!r}; {hint}")
    try:
        return STRATEGIES[name](**settings)
    except TypeError as error:
        raise UsageError(f"{name} does not accept these settings: {error}") from error
