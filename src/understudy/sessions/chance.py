"""Whether predictions say more than guessing would: a test of right answers against shuffled ones.

Guessing means: the same predictions, dealt out to the items at random. So a model that always names the commonest
class is a guess however often it is right, and one that finds half of a rare class is not:
docs/accuracy-and-stopping.md.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from scipy.special import ndtri

from understudy.errors import UnderstudyError

CONFIDENCE: Final = 0.95  # one-sided: so often a guess is recognised as one


@dataclass(frozen=True)
class Guesswork:
    """How many predictions are right, of how many, and how many would be if they were dealt out at random."""

    right: int
    n: int
    expected: float
    spread: float  # the standard deviation of that number

    def is_above_chance(self, confidence: float = CONFIDENCE) -> bool:
        """Whether guessing would hardly have so many right. Never for a prediction that is always the same."""
        return self.spread > 0 and self.right - self.expected > float(ndtri(confidence)) * self.spread


def against_guessing(predicted: Sequence[int], labels: Sequence[int]) -> Guesswork:
    """Right answers beside those of the same predictions in random order.

    The mean and the variance over all orders are exact: Hoeffding's for sums over a random order, where an item and a
    prediction count 1 if they are alike. With a_k predictions and b_k labels of class k the mean is Σ a_k b_k / n.
    """
    n = len(labels)
    if len(predicted) != n:
        raise UnderstudyError(f"{len(predicted)} predictions for {n} labels; give one for each")
    right = sum(guess == label for guess, label in zip(predicted, labels, strict=True))
    a, b = Counter(predicted), Counter(labels)
    both = [(a[k], b[k]) for k in a.keys() & b.keys()]
    expected = sum(x * y for x, y in both) / n if n else 0.0
    if n < 2:
        return Guesswork(right, n, expected, 0.0)
    # Over all pairs (i, j): Σ (c_ij - mean of row i - mean of column j + mean of all)², with c_ij = 1 where alike.
    ones = sum(x * y for x, y in both)
    rows = sum(x * y**2 for x, y in both) / n
    columns = sum(x**2 * y for x, y in both) / n
    squares = ones - rows - columns + ones**2 / n**2
    return Guesswork(right, n, expected, sqrt(max(squares, 0.0) / (n - 1)))
