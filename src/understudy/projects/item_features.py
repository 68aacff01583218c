"""The features of a project's items: the encoder by its name, and what it made of new items or of all."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from understudy.data.embedding import embed
from understudy.data.encoders import Encoder, make_encoder
from understudy.data.encoders.choice import DEFAULTS, PLAIN_ENCODERS
from understudy.data.faults import Fault
from understudy.data.features import replace_unwritable
from understudy.data.items import Kind
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import count_of

MAX_MISSING_SHARE: Final = 0.1  # of items that may be unreadable when the encoder is changed


def encoder_for(name: str, kind: Kind, device: str) -> Encoder:
    """The encoder of this name; an error where it takes items of another kind."""
    encoder = make_encoder(name, device=device)
    if encoder.kind != kind:
        suitable = f"{DEFAULTS[kind][0].name} or {PLAIN_ENCODERS[kind]}"
        raise UsageError(f"{name} takes {encoder.kind}s, these items are {kind}s; give one such as {suitable}")
    return encoder


@dataclass(frozen=True, eq=False)
class EmbeddedItems:
    """The items that could be used, their features, what their contents are known by, and the faults of all."""

    pool: Pool
    features: np.ndarray
    marks: dict[str, list[Any]]
    faults: list[Fault]


def compute_features(
    pool: Pool,
    encoder: Encoder,
    folder: Path,
    *,
    source: str,
    draws_bar: bool,
    on_progress: Callable[[int, int], None],
    on_wait: Callable[[], None],
) -> EmbeddedItems:
    """Features of a pool, made in a folder of their own."""
    made = embed(pool, encoder, out=folder, progress=draws_bar, source=source, on_progress=on_progress, on_wait=on_wait)
    table = pq.read_table(folder / "items.parquet", columns=["id", "digest", "size", "mtime_ns"])
    features = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
    marks = {name: table[name].to_pylist() for name in ("digest", "size", "mtime_ns")}
    rows = {name: row for row, name in enumerate(map(replace_unwritable, pool.ids))}
    used = pool.take([rows[name] for name in table["id"].to_pylist()])
    return EmbeddedItems(used, features, marks, list(made.faults))


def recompute_features(
    pool: Pool, encoder: Encoder, folder: Path, *, source: str, draws_bar: bool
) -> tuple[np.ndarray, int]:
    """Features of all items of a pool in its order, by another encoder; and how many items had to get the mean."""
    made = compute_features(
        Pool(pool.ids, items=pool.items), encoder, folder, source=source, draws_bar=draws_bar,
        on_progress=lambda *_: None, on_wait=lambda: None,
    )  # fmt: skip
    rows = {name: row for row, name in enumerate(map(replace_unwritable, pool.ids))}
    known = np.array([rows[replace_unwritable(name)] for name in made.pool.ids], np.int64)
    missing = len(pool) - len(known)
    if missing > MAX_MISSING_SHARE * len(pool):
        unused = next(fault for fault in made.faults if not fault.used)
        raise UnderstudyError(
            f"{missing:,} of {count_of(pool.ids, 'item')} cannot be encoded, the first: {unused}; "
            "the features of before stay in use"
        )
    features = np.empty((len(pool), encoder.dim), np.float32)
    features[:] = np.asarray(made.features, np.float64).mean(0)
    features[known] = made.features
    return features, missing
