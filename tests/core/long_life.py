"""Thousands of labels one by one with float32 rows, then the next pick beside that of a literal computation.

Given a method and how many. Prints the drift that was carried at the end, the relative gap between the best two rows,
and whether the picks agree.
"""

import sys

import numpy as np
import torch

from tests.literal import literal_of
from tests.pools import make_pool
from understudy import Surrogate

if __name__ == "__main__":
    torch.set_num_threads(1)
    method, count = sys.argv[1], int(sys.argv[2])
    pool = make_pool(count + count // 5, 4, seed=29, n_columns=8)
    s = Surrogate(pool.features, 4, basis_size=60, method=method)  # type: ignore[arg-type]
    s.anchor(pool.probs, np.arange(10))
    s.rehearse(pool.labels, count)
    assert s.parts.engine is not None
    literal = literal_of(s, pool.features, pool.probs)
    exact = literal.utility(brute=False)[literal.askable]
    second, first = np.sort(exact)[-2:]
    drift = np.abs(s.influence - literal.influence_by_formula()).max() / s.influence.max()
    print(drift, (first - second) / first, int(s.ask()[0]) == literal.askable[int(np.argmax(exact))])
