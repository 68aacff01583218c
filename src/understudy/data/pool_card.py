"""A pool as a notebook shows it: how many items and labels, the classes, and a few items."""

from typing import Final

from markupsafe import Markup

from understudy.data.faults import ItemFault
from understudy.data.images import thumbnail_uri
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError
from understudy.messages import count_of
from understudy.notebook import BLUE, Sample, Share, draw_card, draw_class_counts, draw_note, draw_samples, draw_shares

MAX_SAMPLES: Final = 8
THUMBNAIL_PIXELS: Final = 96  # of the longer side; shown at 64, which is sharp on dense screens too


def draw_pool(pool: Pool, name: str = "Pool", more: tuple[str, ...] = ()) -> Markup:
    """The card of a pool. Reads up to eight of its items."""
    parts = []
    if pool.labels is not None:
        n_labelled = int(pool.is_labelled.sum())
        known = pool.labels[pool.is_labelled]
        counts = [int((known == place).sum()) for place in range(len(pool.classes))]
        parts += [draw_shares([Share("labelled", n_labelled, BLUE)], len(pool))]
        parts += [draw_class_counts(counts, pool.classes, "labels by class")]
    if pool.items is not None:
        parts.append(draw_samples(_read_samples(pool)))
    if pool.faults:
        parts.append(draw_note(f"{count_of(pool.faults, 'note')} on items: pool.faults; the first: {pool.faults[0]}"))
    return draw_card(name, [*pool.facts, *more], *parts)


def _read_samples(pool: Pool) -> list[Sample]:
    """Items from all over the pool; those that cannot be read are left out."""
    samples = []
    for place in range(min(MAX_SAMPLES, len(pool))):
        row = place * len(pool) // min(MAX_SAMPLES, len(pool))
        caption = pool.classes[pool.labels[row]] if pool.labels is not None and pool.labels[row] >= 0 else ""
        try:
            item = pool.item(row)
        except (ItemFault, UnderstudyError):
            continue
        if isinstance(item, str):
            samples.append(Sample(caption, text=item))
        else:
            samples.append(Sample(caption, thumbnail_uri(item, THUMBNAIL_PIXELS)))
    return samples
