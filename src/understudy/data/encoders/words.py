"""Texts by the words and letters they share: no model, no download, and nothing that depends on other texts."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from PIL import Image

from understudy.data.encoders.protocol import Prepared, identity_of
from understudy.data.encoders.spec import Spec
from understudy.data.items import Kind
from understudy.errors import UsageError

SIZE: Final = 256
MIN_SIZE: Final = 16
MAX_SIZE: Final = 4096
BUCKETS: Final = 2**20  # that pieces of text are hashed into before they are projected
PLACES: Final = 4  # columns that each piece of text is added to, with a sign of its own
VERSION: Final = 1  # of what follows; it grows when the numbers change


class WordEncoder:
    """Words, pairs of words, and runs of three to five letters, projected by signs drawn from their hashes.

    Each piece counts by the logarithm of how often it comes. Rows have length 1, so that long texts are no further
    apart than short ones. Which column a piece goes to depends on the piece alone.
    """

    kind: Kind = "text"

    def __init__(self, name: str, size: str = str(SIZE)) -> None:
        if not (size.isascii() and size.isdigit() and MIN_SIZE <= int(size) <= MAX_SIZE):
            raise UsageError(f"size must be from {MIN_SIZE} to {MAX_SIZE} columns; got {size!r}")
        self.name, self.dim = name, int(size)
        self.identity = identity_of(kind="words", version=VERSION, size=self.dim)
        self.counters = (
            _counter(analyzer="word", ngram_range=(1, 2)),
            _counter(analyzer="char_wb", ngram_range=(3, 5)),
        )

    def prepare(self, item: Image.Image | str) -> Prepared:
        assert isinstance(item, str)
        return item.encode("utf-8", "replace").decode()  # halves of characters cannot be hashed

    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        texts = [str(text) for text in batch]
        rows = sum(_unit_rows(self.project(each.transform(texts))) for each in self.counters)
        return np.ascontiguousarray(_unit_rows(np.asarray(rows)), dtype=np.float32)

    def project(self, counts: Any) -> np.ndarray:
        """(b, dim): each piece added to a few columns, with signs; both follow from the piece."""
        rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        weights = np.log1p(counts.data)
        flat = np.zeros(counts.shape[0] * self.dim)
        for place in range(PLACES):
            drawn = _mix(counts.indices.astype(np.uint64) * np.uint64(PLACES) + np.uint64(place))
            columns = ((drawn >> np.uint64(1)) % np.uint64(self.dim)).astype(np.int64)
            signs = 1.0 - 2.0 * (drawn & np.uint64(1)).astype(np.float64)
            flat += np.bincount(rows * self.dim + columns, weights=signs * weights, minlength=len(flat))
        return flat.reshape(-1, self.dim)


def _counter(**pieces: Any) -> Any:
    """Scikit-learn's, which remembers nothing. Imported late, since a list of encoders need not wait for it."""
    from sklearn.feature_extraction.text import HashingVectorizer

    # Words of one letter count as well: there are languages where they are many.
    kept = {"token_pattern": r"(?u)\b\w+\b"} if pieces["analyzer"] == "word" else {}
    return HashingVectorizer(n_features=BUCKETS, norm=None, alternate_sign=False, dtype=np.float64, **kept, **pieces)


def _mix(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers of 64 bits that look random, and are always the same for the same number."""
    with np.errstate(over="ignore"):
        numbers = (numbers + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xD6E8FEB86659FD93)
        numbers = (numbers ^ (numbers >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        return (numbers ^ (numbers >> np.uint64(32))) >> np.uint64(8)


def _unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1; one of zeros stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)


def word_encoder(spec: Spec) -> WordEncoder:
    if spec.weights is not None:
        raise UsageError("words takes no weights; write words or words?size=512")
    unknown = [name for name in spec.options if name != "size"]
    if unknown:
        raise UsageError(f"there is no option {unknown[0]!r} for words; there is size")
    return WordEncoder(spec.name, **spec.options)
