"""Hierarchical subqueries: expected error reduction on a graph, for candidates found by descending a cluster tree."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import linkage
from scipy.sparse import csr_array
from torch import Tensor

from understudy.checks import check_number, check_whole_number
from understudy.core.blocks import block_slices
from understudy.core.kernels import squared_distances
from understudy.strategies.expected_error import LEAST_FALL, expected_risk
from understudy.strategies.portions import select_in_portions
from understudy.strategies.protocol import Needs
from understudy.strategies.randomness import draw_subset
from understudy.strategies.ranking import top
from understudy.strategies.view import Picks, PoolView

NODES_PER_BLOCK: Final = 512


@dataclass(frozen=True)
class Subquery:
    """Harmonic label propagation on a neighbour graph; picks the rows whose label is expected to reduce error most."""

    max_candidates: int = 100
    max_rows: int = 2000
    neighbours: int = 10
    width: float = 1.0
    prior: float = 1e-3

    def __post_init__(self) -> None:
        check_whole_number("max_candidates", self.max_candidates, 1)
        check_whole_number("max_rows", self.max_rows, 2)
        check_whole_number("neighbours", self.neighbours, 1)
        check_number("width", self.width, above=0)
        check_number("prior", self.prior, above=0)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"features"}), labelled=1)

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        view.require_labelled("subquery", 1)
        return select_in_portions(self._select, view, n, self.max_rows, rng)

    def _select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n, self.max_rows, rng)
        other = draw_subset((~(view.is_open | view.is_labelled)).nonzero()[:, 0], self.max_rows, rng)
        labelled = draw_subset(view.labelled, self.max_rows, rng)
        X = view.features[torch.cat([rows, other, labelled])].double()
        W = neighbour_graph(X - X.mean(0), self.neighbours, self.width)
        u = len(rows) + len(other)
        known = torch.nn.functional.one_hot(view.labels[labelled], view.n_classes).double()
        f, laplacian = harmonic_solution(W, u, known, self.prior)
        # A pending row will have a label, so its prediction is fixed and no other label changes it.
        kept = torch.cat([torch.ones_like(rows, dtype=torch.bool), ~view.is_pending[other]]).nonzero()[:, 0]
        f = f[kept]
        G = torch.cholesky_inverse(torch.linalg.cholesky(laplacian[kept][:, kept]))
        falls = torch.full((len(rows),), -torch.inf, dtype=f.dtype, device=f.device)

        def evaluate(some: list[int]) -> list[float]:
            index = torch.tensor(some, device=f.device)
            falls[index] = error_reduction(f, G, index)
            return falls[index].tolist()

        tried = descend(X[: len(rows)].cpu().numpy(), evaluate, max(n, self.max_candidates))
        index = torch.tensor(sorted(tried), device=f.device)
        return top(rows[index], falls[index], n)


# -- the graph ------------------------------------------------------------------------------------------------


def neighbour_graph(X: Float[Tensor, "t d"], neighbours: int, width: float) -> csr_array:
    """Symmetric weights exp(-d²/b) between rows of which one is among the other's nearest.

    √b is `width` times the mean distance to a neighbour.
    """
    n, k = len(X), min(neighbours, len(X) - 1)
    distances, found = [], []
    for some in block_slices(n, NODES_PER_BLOCK):
        squares = squared_distances(X[some], X)
        here = torch.arange(len(squares), device=X.device)
        squares[here, some.start + here] = torch.inf
        near = squares.topk(k, largest=False)
        distances.append(near.values)
        found.append(near.indices)
    squares = torch.cat(distances).flatten()
    scale = width * float(squares.sqrt().mean())
    weights = torch.exp(squares / -(scale**2)) if scale > 0 else torch.ones_like(squares)
    sources = np.repeat(np.arange(n), k)
    W = csr_array((weights.cpu().numpy(), (sources, torch.cat(found).flatten().cpu().numpy())), shape=(n, n))
    return W.maximum(W.T).tocsr()


def harmonic_solution(
    W: csr_array, u: int, known: Float[Tensor, "l c"], prior: float
) -> tuple[Float[Tensor, "u c"], Float[Tensor, "u u"]]:
    """Class probabilities f of the first u rows, and the matrix Δ of Δ f = b; the other rows are labelled.

    Each row is the weighted mean of its neighbours. An edge of weight `prior` ties it to the uniform distribution as
    well, so that components of the graph without a label have a solution too.
    """
    laplacian = -W[:u, :u].toarray()
    laplacian[np.diag_indices(u)] += W.sum(1)[:u] + prior
    spread = torch.from_numpy(W[:u, u:] @ known.cpu().numpy()).to(known.device)
    delta = torch.from_numpy(laplacian).to(known.device)
    f = torch.cholesky_solve(spread + prior / known.shape[1], torch.linalg.cholesky(delta))
    return f, delta


def error_reduction(
    f: Float[Tensor, "u c"], G: Float[Tensor, "u u"], candidates: Int[Tensor, "q"]
) -> Float[Tensor, "q"]:
    """The expected decrease of 1 - max f, averaged over all rows, by a label of each candidate.

    A label y of row k moves f by (e_y - f_k) G_ik/G_kk, so the graph is not solved again.
    """
    columns = G[candidates]
    ratios = columns / columns.gather(1, candidates[:, None])
    labels = torch.arange(f.shape[1], device=f.device).expand(len(candidates), -1)
    at = f[candidates]
    falls = (1 - f.amax(1)).mean() - expected_risk(f, ratios, at, labels, at)
    return falls.masked_fill(falls.abs() < LEAST_FALL, 0.0)


# -- the tree -------------------------------------------------------------------------------------------------


def descend(X: Float[np.ndarray, "m d"], evaluate: Callable[[list[int]], list[float]], n: int) -> set[int]:
    """n of the rows or one more (or all there are), found by best-first descent of a cluster tree.

    Its most central row stands for a cluster. The best cluster so far is opened first, and its halves are evaluated.
    """
    m = len(X)
    if m == 1:
        evaluate([0])
        return {0}
    children = linkage(X, "ward")[:, :2].astype(np.int64)
    scores: dict[int, float] = {}

    def visit(nodes: list[int]) -> None:
        centres = [most_central(X, leaves(children, m, node)) for node in nodes]
        news = [row for row in centres if row not in scores]
        scores.update(zip(news, evaluate(news) if news else [], strict=True))
        for node, row in zip(nodes, centres, strict=True):
            heapq.heappush(frontier, (-scores[row], row, node))

    frontier: list[tuple[float, int, int]] = []
    visit([2 * m - 2])
    while frontier and len(scores) < n:
        _, _, node = heapq.heappop(frontier)
        if node >= m:
            visit(children[node - m].tolist())
    return set(scores)


def leaves(children: Int[np.ndarray, "k 2"], m: int, node: int) -> list[int]:
    """The rows below a node of the tree, ascending; nodes from m on are merges of two."""
    found, waiting = [], [node]
    while waiting:
        node = waiting.pop()
        if node < m:
            found.append(node)
        else:
            waiting.extend(children[node - m].tolist())
    return sorted(found)


def most_central(X: Float[np.ndarray, "m d"], members: list[int]) -> int:
    """The member nearest to the mean of all."""
    points = X[members]
    return members[int(((points - points.mean(0)) ** 2).sum(1).argmin())]
