"""A model that one has already, as a function from items to probabilities, and what it predicts for a pool.

Any model fits: a zero-shot encoder, a language model, an ensemble, a service. Nothing here knows of any of them.
"""

import hashlib
import inspect
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from understudy.data.faults import ItemFault
from understudy.data.items import Items
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError, UsageError
from understudy.frames import is_frame
from understudy.labels.predictions import GivenPredictions, probabilities_in_frame, probabilities_of, read_predictions
from understudy.messages import count_of
from understudy.own_code import describe_error, import_own

ITEMS_PER_CALL: Final = 64
FUNCTION_NAME: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # module:name, which no path looks like
log = logging.getLogger(__name__)


@runtime_checkable
class Predictor(Protocol):
    """A function from items to probabilities.

    One that has an attribute `classes`, names, has a column for each of these; otherwise the columns are those of the
    pool's classes, in their order.
    """

    def __call__(self, items: Sequence[Any], /) -> Any:
        """(n, c): the probability of every class, for texts (`str`) or images (`PIL.Image`); NaN where it has none."""


def is_function_name(text: str) -> bool:
    """Whether this names a function, `module:name`, rather than a file."""
    return FUNCTION_NAME.fullmatch(text) is not None and not Path(text).exists()


def find_predictor(name: str, classes: Sequence[str]) -> Predictor:
    """The predictor that `module:name` is. What takes `classes` is called with their names, and returns one."""
    if FUNCTION_NAME.fullmatch(name) is None:
        raise UsageError(f"a predictor must be given as module:name, a function of items; got {name!r}")
    found = import_own(name)
    if not callable(found):
        raise UsageError(f"{name!r} must be a function from items to probabilities; got {type(found).__name__}")
    if not _takes_classes(found):
        return found
    try:
        made = found(classes=tuple(classes))
    except Exception as error:
        raise UnderstudyError(f"{name!r} could not be made for these classes: {describe_error(error)}") from error
    if not callable(made):
        raise UsageError(f"{name!r} must return a function from items to probabilities; got {type(made).__name__}")
    return made


def _takes_classes(found: Callable[..., Any]) -> bool:
    try:
        return "classes" in inspect.signature(found).parameters
    except (TypeError, ValueError):  # built in: nobody can look into it
        return False


def _score_in_blocks(predictor: Predictor, items: Items, rows: Sequence[int]) -> Iterator[np.ndarray]:
    """What the predictor says of these rows, some at a time, (m, c) each; NaN for items that cannot be read."""
    name = _name_of(predictor)
    for start in range(0, len(rows), ITEMS_PER_CALL):
        block = rows[start : start + ITEMS_PER_CALL]
        contents, readable = [], []
        for place, row in enumerate(block):
            with suppress(ItemFault):
                contents.append(items.decode(row, items.read(row))[0])
                readable.append(place)
        if not contents:
            yield np.full((len(block), 0), np.nan)
            continue
        values = _call(predictor, name, contents)
        placed = np.full((len(block), values.shape[1]), np.nan)
        placed[readable] = values
        yield placed


def _call(predictor: Predictor, name: str, contents: Sequence[Any]) -> np.ndarray:
    """(n, c): the probabilities of some items; an error of ours, with the model's own reason, where there are none."""
    try:
        values = np.asarray(predictor(contents))
    except Exception as error:
        raise UnderstudyError(f"{name} failed on {count_of(contents, 'item')}: {describe_error(error)}") from error
    if values.ndim != 2 or len(values) != len(contents) or values.dtype.kind not in "fiub":
        raise UnderstudyError(
            f"{name} must return a row of probabilities for each of {len(contents)} items; got {values.dtype} of shape "
            f"{values.shape}"
        )
    return values


def _name_of(predictor: Predictor) -> str:
    """What a predictor is called in messages."""
    return getattr(predictor, "__qualname__", type(predictor).__qualname__)


def predictions_for(
    pool: Pool,
    classes: Sequence[str],
    given: Any,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Float[np.ndarray, "n c"]:
    """The probabilities of every item of a pool, given as an array, a frame, a file, a function or a
    function's `module:name`.

    Notes on them, such as items without a prediction, are logged as warnings.
    """
    if isinstance(given, str) and is_function_name(given):
        given = find_predictor(given, classes)
    if isinstance(given, str | Path):
        return read_predictions(Path(given), pool.ids, classes)
    if hasattr(given, "predict_proba") and not callable(given):
        raise UsageError(
            f"predictions must be numbers, not a model; pass predict_proba(X) of this {type(given).__name__}"
        )
    if callable(given):
        found = predict_pool(given, pool, classes, progress=progress)
    elif is_frame(given):
        found = probabilities_in_frame(given, pool.ids, classes, source="predictions")
    else:
        found = probabilities_of(np.asarray(given), pool.ids, classes, source="predictions")
    for note in found.notes:
        log.warning("predictions to start from: %s", note)
    return found.probs


def predict_pool(
    predictor: Predictor,
    pool: Pool,
    classes: Sequence[str],
    rows: Sequence[int] | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> GivenPredictions:
    """What a predictor says of these rows of a pool, or of all. Items that cannot be read start uniform."""
    if pool.items is None:
        raise UsageError("this pool has features and no items that a function could be given; give an array or a file")
    rows = range(len(pool)) if rows is None else rows
    parts: list[np.ndarray] = []
    for part in _score_in_blocks(predictor, pool.items, rows):
        parts.append(part)
        if progress is not None:
            progress(sum(map(len, parts)), len(rows))
    columns = getattr(predictor, "classes", None)
    width = max((part.shape[1] for part in parts), default=0) or len(columns or classes)
    parts = [part if part.shape[1] else np.full((len(part), width), np.nan) for part in parts]
    if any(part.shape[1] != width for part in parts):
        found = sorted({part.shape[1] for part in parts})
        raise UnderstudyError(
            f"{_name_of(predictor)} must always return equally many columns; got {found[0]} and {found[-1]}"
        )
    ids = [pool.ids[row] for row in rows]
    values = np.concatenate(parts) if parts else np.empty((0, width))
    return probabilities_of(values, ids, classes, source=_name_of(predictor), columns=columns)


def digest_of(probs: Float[np.ndarray, "n c"]) -> str:
    """A digest of predictions, by which a loop or a comparison that continues is told from another."""
    values = np.ascontiguousarray(probs, dtype=np.float32)
    return hashlib.sha256(repr(values.shape).encode() + values.tobytes()).hexdigest()[:16]
