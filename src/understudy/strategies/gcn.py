"""SeqGCN: a graph network on row similarities learns which rows are labelled. Names: uncertain_gcn, core_gcn."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

from understudy.checks import check_choice, check_number, check_whole_number
from understudy.strategies.kcenter import kcenter_greedy, kcenter_utilities
from understudy.strategies.protocol import Needs
from understudy.strategies.randomness import torch_generator
from understudy.strategies.ranking import picks, top, utilities
from understudy.strategies.view import Picks, PoolView, Utilities

Rule = Literal["uncertain", "core"]
Normalisation = Literal["columns", "rows"]
# A row similar to no other has zero total weight. Sums below this are rounding, and are not divided by.
LEAST_WEIGHT: Final = 1e-3


@dataclass(frozen=True)
class SequentialGCN:
    """Rows that a graph network is uncertain about, or that are far from the labelled ones in its hidden layer."""

    rule: Rule = "uncertain"
    margin: float = 0.1  # uncertain: the target output; 0 means unlabelled, 1 labelled
    unlabelled_weight: float = 1.2
    width: int = 128
    dropout: float = 0.3
    epochs: int = 200
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4
    subset_size: int | None = 10_000
    normalisation: Normalisation = "columns"

    def __post_init__(self) -> None:
        check_choice("rule", self.rule, get_args(Rule))
        check_choice("normalisation", self.normalisation, get_args(Normalisation))
        for name in ("width", "epochs", "subset_size"):
            if getattr(self, name) is not None:
                check_whole_number(name, getattr(self, name), 1)
        for name in ("unlabelled_weight", "weight_decay"):
            check_number(name, getattr(self, name), least=0)
        check_number("learning_rate", self.learning_rate, above=0)
        check_number("dropout", self.dropout, least=0, below=1)
        check_number("margin", self.margin, least=0, most=1)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"hidden"}), labelled=1)

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        view.require_labelled(f"{self.rule}_gcn")
        rows = view.candidates(n, self.subset_size, rng)
        m = len(rows)
        nodes = torch.cat([rows, view.taken])
        graph = SimilarityGraph(view.hidden[nodes].float(), self.normalisation)
        network = self._train_network(graph, m, rng)
        with torch.no_grad():
            H, logits = network.layers(keep=None)
        if self.rule == "uncertain":
            return top(rows, -(torch.sigmoid(logits[:m]) - self.margin).abs(), n)
        places = torch.arange(len(nodes), device=nodes.device)
        points = torch.cat([H, logits[:, None]], 1)
        chosen, distances = kcenter_greedy(points, places[m:], places[:m], n, rng)

        def all_distances() -> Utilities:
            return utilities(rows, kcenter_utilities(points, places[m:], places[:m], chosen))

        return picks(rows[chosen], distances, all_distances)

    def _train_network(self, graph: "SimilarityGraph", m: int, rng: np.random.Generator) -> "GraphNetwork":
        """Train a network; the first m nodes are unlabelled, the rest labelled."""
        draws = torch_generator(rng)
        network = GraphNetwork(graph, self.width, draws)
        optimiser = torch.optim.Adam(network.parameters, lr=self.learning_rate, weight_decay=self.weight_decay)
        for _ in range(self.epochs):
            keep = (torch.rand(len(graph.X), self.width, generator=draws) >= self.dropout).to(graph.X.device)
            _, logits = network.layers(keep / (1 - self.dropout))
            # Log-sigmoids, which do not overflow where the output is 0 or 1.
            loss = -logsigmoid(logits[m:]).mean() - self.unlabelled_weight * logsigmoid(-logits[:m]).mean()
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
        return network


class SimilarityGraph:
    """A complete graph weighted by the cosine of the features. The n² weights are never materialised.

    A = A₀ / s + I, with A₀ = X Xᵀ minus its diagonal and s its sums, and unit-norm rows X. Negative features are
    set to 0: with them cosines could sum to zero or less. A row of zeros is a node without neighbours.
    """

    def __init__(self, features: Float[Tensor, "g d"], normalisation: Normalisation = "columns") -> None:
        self.normalisation = normalisation
        self.X = normalize(features.clamp(min=0), dim=1)
        self.own = self.X.square().sum(1)  # 1, and 0 for zeros
        sums = self.X @ self.X.sum(0) - self.own
        self.weight = 1 / sums.clamp(min=LEAST_WEIGHT)

    def mix(self, H: Float[Tensor, "g w"]) -> Float[Tensor, "g w"]:
        """A H in O(g d w): every node's own row plus the average of its neighbours."""
        by_columns = self.normalisation == "columns"
        sent = H * self.weight[:, None] if by_columns else H
        received = self.X @ (self.X.T @ sent) - self.own[:, None] * sent
        return H + (received if by_columns else received * self.weight[:, None])


class GraphNetwork:
    """Two graph layers: A (H W) + b, ReLU and dropout after the first, one logit per node after the second."""

    def __init__(self, graph: SimilarityGraph, width: int, draws: torch.Generator) -> None:
        self.graph = graph
        self.mixed = graph.mix(graph.X)  # A (X W) = (A X) W, and A X is the same in every step
        d = graph.X.shape[1]
        shapes = ((d, width), (width,), (width, 1), (1,))
        self.parameters = [
            ((2 * torch.rand(shape, generator=draws) - 1) / shape[-1] ** 0.5).to(graph.X).requires_grad_()
            for shape in shapes
        ]

    def layers(self, keep: Float[Tensor, "g w"] | None) -> tuple[Float[Tensor, "g w"], Float[Tensor, "g"]]:
        """The hidden layer before dropout, and the logits. `keep` is the dropout mask in training, None afterwards."""
        W1, b1, W2, b2 = self.parameters
        H = torch.relu(self.mixed @ W1 + b1)
        passed = H if keep is None else H * keep
        return H, (self.graph.mix(passed @ W2) + b2)[:, 0]
