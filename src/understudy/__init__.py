"""Understudy tells people which item to label next, and learns from every single label."""

from importlib import import_module
from typing import TYPE_CHECKING

from understudy.errors import PoolExhausted, UnderstudyError
from understudy.version import __version__

if TYPE_CHECKING:
    from understudy.core.explanation import Explanation
    from understudy.core.surrogate import Surrogate
    from understudy.data.pool import Pool
    from understudy.data.sources import load
    from understudy.loop import ActiveLoop
    from understudy.strategies.registry import STRATEGIES
    from understudy.strategies.view import PoolView

__all__ = [
    "STRATEGIES",
    "ActiveLoop",
    "Explanation",
    "Pool",
    "PoolExhausted",
    "PoolView",
    "Surrogate",
    "UnderstudyError",
    "__version__",
    "load",
]

_HOMES = {
    "ActiveLoop": "understudy.loop",
    "PoolView": "understudy.strategies.view",
    "STRATEGIES": "understudy.strategies.registry",
    "Explanation": "understudy.core.explanation",
    "Pool": "understudy.data.pool",
    "Surrogate": "understudy.core.surrogate",
    "load": "understudy.data.sources",
}


def __getattr__(name: str) -> object:
    """Names that need torch are imported on first use: two seconds that `understudy --help` can do without."""
    if name not in _HOMES:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
