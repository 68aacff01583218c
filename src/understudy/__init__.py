"""Understudy tells people which item to label next, and learns from every single label."""

from understudy.core.explanation import Explanation
from understudy.core.surrogate import Surrogate
from understudy.errors import PoolExhausted, UnderstudyError

__version__ = "0.1.0"
__all__ = ["Explanation", "PoolExhausted", "Surrogate", "UnderstudyError", "__version__"]
