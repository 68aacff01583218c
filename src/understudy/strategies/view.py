"""The view: everything a strategy may see of a pool, as arrays; and the picks that it returns."""

import logging
import math
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.checks import check_whole_number
from understudy.core.blocks import rows_that_fit
from understudy.core.checks import check_device
from understudy.errors import PoolExhausted, UnderstudyError
from understudy.strategies.randomness import draw_subset

LOG: Final = logging.getLogger(__name__)
UNLABELLED: Final = -1
NUMBERS_PER_BLOCK: Final = 2**22  # probabilities checked at a time
# What a view may hold besides the labels. `features` belong to the pool and never change, the rest to the learner.
Supply = Literal["features", "hidden", "activations", "probs", "stochastic", "gradient_norms", "images"]
MEANING: Final[dict[Supply, str]] = {
    "features": "the pool's features, (n, d)",
    "hidden": "the outputs of the learner's last hidden layer, (n, h)",
    "activations": "the outputs of every hidden layer, a list of (n, width)",
    "probs": "the learner's class probabilities, (n, c)",
    "stochastic": "class probabilities of several passes with dropout, (n, passes, c)",
    "gradient_norms": "the learner's gradient norm at every row, (n,)",
    "images": "images as bytes, (n, height, width) or (n, height, width, channels)",
}
AXES: Final[dict[str, int]] = {"features": 2, "hidden": 2, "probs": 2, "stochastic": 3, "gradient_norms": 1}


@runtime_checkable
class Images(Protocol):
    """Images that are read on access: an array, a memory map, or anything that is indexed like one."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any) -> Any:
        """(b, height, width) or (b, height, width, channels) bytes for an array of b rows."""


@dataclass(frozen=True, eq=False)
class Utilities:
    """The score of m rows before each of q picks; -inf where a row could not be chosen any more."""

    rows: Int[np.ndarray, "m"]
    values: Float[np.ndarray, "q m"]


@dataclass(frozen=True, eq=False)
class Picks:
    """Rows in the order they were chosen, and the score of each; larger is better.

    `utilities` computes what the other rows scored, if the strategy has a score for single rows. Call it before the
    strategy sees another view.
    """

    rows: Int[np.ndarray, "q"]
    scores: Float[np.ndarray, "q"]
    utilities: Callable[[], Utilities] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.rows)


class PoolView:
    """A pool of n rows as a strategy sees it. Row numbers are those of the pool, labelled rows included.

    `labels` is (n,): classes, and -1 where there is no label. `pending` rows are with an annotator, `skipped` ones
    must never be asked for; both are row numbers. The other arguments are what the strategy needs: see MEANING.
    Arrays and tensors are used without a copy where possible, and never written to. The attributes of the same
    names are tensors on `device`, float32 or float64 as passed.

    `round` counts the trainings of the learner. Strategies that learn from single labels use it to see whether the
    predictions are new; None means that they always are. `trained_on` are the rows the learner was trained on; by
    default, all labelled ones.
    """

    def __init__(
        self,
        labels: Any,
        n_classes: int,
        *,
        pending: Any = (),
        skipped: Any = (),
        features: Any = None,
        hidden: Any = None,
        activations: Any = None,
        probs: Any = None,
        stochastic: Any = None,
        gradient_norms: Any = None,
        images: Images | None = None,
        trained_on: Any = None,
        round: int | None = None,  # noqa: A002
        device: str | torch.device = "cpu",
    ) -> None:
        self.n_classes = check_whole_number("n_classes", n_classes, 1)
        self.device = check_device(device)
        self.round = round
        self._set_rows(labels, pending, skipped, trained_on)
        self._supplies: dict[str, Any] = {}
        given = {
            "features": features,
            "hidden": hidden,
            "probs": probs,
            "stochastic": stochastic,
            "gradient_norms": gradient_norms,
        }
        for name, values in given.items():
            if values is not None:
                self._supplies[name] = self._checked(name, values, AXES[name])
        if activations is not None:
            self._supplies["activations"] = tuple(self._checked("activations", layer, 2) for layer in activations)
        if images is not None:
            if len(images) != len(self):
                raise UnderstudyError(f"{len(self):,} rows, but {len(images):,} images; pass one per row")
            self._supplies["images"] = images
        for name in ("probs", "stochastic"):
            if name in self._supplies:
                _check_probabilities(name, self._supplies[name], self.n_classes)

    def __len__(self) -> int:
        """The number of rows in the pool."""
        return len(self.labels)

    def after(self, labels: Any, pending: Any = (), skipped: Any = (), trained_on: Any = None) -> "PoolView":
        """The same view with other labels: predictions are kept, and not checked again."""
        view = copy(self)
        view._set_rows(labels, pending, skipped, trained_on)
        if len(view) != len(self):
            raise UnderstudyError(f"got labels of {len(view):,} rows for a view of {len(self):,}; pass one per row")
        return view

    # -- rows ---------------------------------------------------------------------------------------------

    @property
    def is_labelled(self) -> Bool[Tensor, "n"]:
        return self.labels != UNLABELLED

    @property
    def is_taken(self) -> Bool[Tensor, "n"]:
        """Labelled or pending: what a new row should differ from."""
        return self.is_labelled | self.is_pending

    @property
    def is_open(self) -> Bool[Tensor, "n"]:
        """Rows that may be chosen."""
        return ~(self.is_taken | self.is_skipped)

    @property
    def labelled(self) -> Int[Tensor, "l"]:
        return self.is_labelled.nonzero()[:, 0]

    @property
    def pending(self) -> Int[Tensor, "p"]:
        """Rows that are waiting for a label, ascending."""
        return (self.is_pending & ~self.is_labelled).nonzero()[:, 0]

    @property
    def taken(self) -> Int[Tensor, "t"]:
        return self.is_taken.nonzero()[:, 0]

    def candidates(
        self, n: int, subset_size: int | None = None, rng: np.random.Generator | None = None
    ) -> Int[Tensor, "m"]:
        """The rows that may be chosen, ascending; a random `subset_size` if that is fewer. Raises if there are not n.

        A subset smaller than n is enlarged to n.
        """
        n = check_whole_number("n", n, 1)
        rows = self.is_open.nonzero()[:, 0]
        if len(rows) < n:
            raise PoolExhausted(
                f"asked for {n:,} rows, but only {len(rows):,} of {len(self):,} can still be chosen; ask for fewer"
            )
        if subset_size is None or max(subset_size, n) >= len(rows):
            return rows
        if rng is None:
            raise UnderstudyError("a random subset needs a random generator; pass rng")
        size = max(subset_size, n)
        # Subsampling alone adds diversity and changes rankings, so it must not go unnoticed.
        LOG.info("considering a random sample of %s of %s open rows", f"{size:,}", f"{len(rows):,}")
        return draw_subset(rows, size, rng)

    def require_labelled(self, who: str, rows: int = 1, classes: int = 1) -> None:
        """Raise if there are fewer labelled rows, or classes among them, than a strategy needs."""
        known = self.labels[self.is_labelled]
        if len(known) < rows:
            raise UnderstudyError(f"{who} needs {rows:,} labelled rows, got {len(known):,}; label some at random first")
        found = int((torch.bincount(known, minlength=1) > 0).sum())
        if found < classes:
            raise UnderstudyError(
                f"{who} needs labels of {classes} classes, got {found}; label more rows at random first"
            )

    # -- what the strategy needs ----------------------------------------------------------------------------

    def has(self, name: Supply) -> bool:
        return name in self._supplies

    @property
    def features(self) -> Float[Tensor, "n d"]:
        return self._supply("features")

    @property
    def hidden(self) -> Float[Tensor, "n h"]:
        return self._supply("hidden")

    @property
    def activations(self) -> tuple[Float[Tensor, "n _"], ...]:
        return self._supply("activations")

    @property
    def probs(self) -> Float[Tensor, "n c"]:
        return self._supply("probs")

    @property
    def stochastic(self) -> Float[Tensor, "n t c"]:
        return self._supply("stochastic")

    @property
    def gradient_norms(self) -> Float[Tensor, "n"]:
        return self._supply("gradient_norms")

    @property
    def images(self) -> Images:
        return self._supply("images")

    def _supply(self, name: Supply) -> Any:
        if name not in self._supplies:
            raise UnderstudyError(
                f"this strategy needs {name}, {MEANING[name]}; name it in its `needs`, "
                f"or pass {name}=... to a view that you make"
            )
        return self._supplies[name]

    # -- checks ---------------------------------------------------------------------------------------------

    def _set_rows(self, labels: Any, pending: Any, skipped: Any, trained_on: Any) -> None:
        known = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels)
        if known.ndim != 1 or known.dtype.kind not in "iu" or not len(known):
            raise UnderstudyError(
                f"labels must be one integer per row, -1 for unlabelled; got {known.dtype} of {known.shape}"
            )
        if known.min() < UNLABELLED or known.max() >= self.n_classes:
            raise UnderstudyError(
                f"labels must be -1 to {self.n_classes - 1} for {self.n_classes} classes; "
                f"got {known.min()} to {known.max()}"
            )
        self.labels: Int[Tensor, "n"] = torch.from_numpy(known.astype(np.int64)).to(self.device)
        self.is_pending = self._mask("pending", pending)
        self.is_skipped = self._mask("skipped", skipped)
        self.is_trained = self.is_labelled if trained_on is None else self._mask("trained_on", trained_on)

    def _mask(self, name: str, rows: Any) -> Bool[Tensor, "n"]:
        chosen = np.asarray(rows.cpu() if isinstance(rows, Tensor) else rows)
        if chosen.size and (chosen.ndim != 1 or chosen.dtype.kind not in "iu"):
            raise UnderstudyError(f"{name} must be a list of row numbers; got {chosen.dtype} of shape {chosen.shape}")
        if chosen.size and (chosen.min() < 0 or chosen.max() >= len(self)):
            raise UnderstudyError(
                f"{name} must be rows 0 to {len(self) - 1}; got {int(chosen.min())} to {int(chosen.max())}"
            )
        mask = torch.zeros(len(self), dtype=torch.bool)
        mask[torch.from_numpy(chosen.astype(np.int64).reshape(-1))] = True
        return mask.to(self.device)

    def _checked(self, name: str, values: Any, axes: int) -> Tensor:
        values = as_tensor(name, values).to(self.device)
        if values.ndim != axes or len(values) != len(self) or 0 in values.shape:
            raise UnderstudyError(
                f"{name} must have {axes} {'axis' if axes == 1 else 'axes'}, the first for the {len(self):,} rows; "
                f"got shape {tuple(values.shape)}"
            )
        # A sum needs no memory and is finite only if all entries are; it may overflow, so check entry by entry then.
        if not math.isfinite(float(values.sum())) and not bool(torch.isfinite(values).all()):
            row = int((~torch.isfinite(values)).reshape(len(self), -1).any(1).nonzero()[0, 0])
            raise UnderstudyError(f"{name} must be finite, but row {row} is not; fix or remove it first")
        return values


def as_tensor(name: str, values: Any) -> Tensor:
    """The values in float32 or float64, without a copy where possible."""
    if not isinstance(values, Tensor):
        array = np.asanyarray(values)
        if array.dtype.kind not in "fiub":
            raise UnderstudyError(f"{name} must be numbers; got an array of type {array.dtype}")
        if (
            array.dtype not in (np.float32, np.float64)
            or not array.dtype.isnative
            or any(step < 0 for step in array.strides)
        ):
            array = array.astype(np.float64 if array.dtype.itemsize >= 8 else np.float32)
        with warnings.catch_warnings():
            # torch warns about read-only arrays. Nothing is written, and a memory map should stay one.
            warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
            values = torch.from_numpy(array)
    values = values.detach()
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def _check_probabilities(name: str, probs: Tensor, n_classes: int) -> None:
    if probs.shape[-1] != n_classes:
        raise UnderstudyError(f"{name} must have {n_classes} classes on its last axis; got shape {tuple(probs.shape)}")
    # A block at a time: the sums of several passes over a million rows would take more memory than choosing does.
    for block in torch.split(probs, rows_that_fit(NUMBERS_PER_BLOCK, probs[0].numel())):
        if float(block.min()) < 0 or float((block.sum(-1) - 1).abs().max()) > 1e-3:
            raise UnderstudyError(f"{name} must be probabilities, non-negative with sum 1; apply a softmax first")


def check_subset_size(size: int | None) -> None:
    """Check the number of rows to consider; None for all."""
    if size is not None:
        check_whole_number("subset_size", size, 1)


# The names that a strategy may declare as needs.
SUPPLIES: Final = frozenset(get_args(Supply))
