"""The features of a project's new items: which encoder makes them where nobody names one, and what it made."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from understudy.data.embedding import embed
from understudy.data.encoders import Encoder, make_encoder
from understudy.data.faults import Fault
from understudy.data.features import replace_unwritable
from understudy.data.items import Kind
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import install_command, reason_of

BEST_ENCODERS: Final[dict[Kind, str]] = {
    "image": "resnet18",
    "text": "text:sentence-transformers/all-MiniLM-L6-v2",
}
PLAIN_ENCODERS: Final[dict[Kind, str]] = {"image": "pixels", "text": "words"}  # need no download
EXTRAS: Final[dict[Kind, str]] = {"image": "vision", "text": "text"}  # what the best ones need installed


def choose_encoder(kind: Kind, device: str) -> tuple[Encoder, str]:
    """The best encoder that works here and now; and a note that says which, and how to get a better one."""
    best = BEST_ENCODERS[kind]
    try:
        return make_encoder(best, device=device), f"features are made by {best}"
    except UnderstudyError as error:
        plain = make_encoder(PLAIN_ENCODERS[kind], device=device)
        reason = reason_of(error)
        return plain, (
            f"features are made by {plain.name}, which needs no download and is weak. For better ones, "
            f"{install_command(EXTRAS[kind])}, be online once, and begin another project "
            f"(--encoder {best} --project NEW). {best} cannot be used now: {reason}"
        )


def encoder_for(name: str, kind: Kind, device: str) -> Encoder:
    """The encoder of this name; an error where it takes items of another kind."""
    encoder = make_encoder(name, device=device)
    if encoder.kind != kind:
        suitable = f"{BEST_ENCODERS[kind]} or {PLAIN_ENCODERS[kind]}"
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
