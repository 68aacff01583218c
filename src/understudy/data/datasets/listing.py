"""The data sets as people read them, and as scripts do."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from understudy.data import places
from understudy.data.datasets.registry import DATA, Status


def table(statuses: Sequence[Status]) -> Table:
    """One line a data set; paths are folded, so that it fits into 80 columns."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    shown.add_column("name", no_wrap=True)
    for title in ("pool", "test", "classes"):
        shown.add_column(title, justify="right", no_wrap=True)
    shown.add_column("here", no_wrap=True)
    shown.add_column("where", overflow="fold")
    for status in statuses:
        source = status.source
        sizes = (f"{size:,}" for size in (source.n_pool, source.n_test, source.n_classes))
        where = str(status.found or "") if source.files else "comes with scikit-learn"
        shown.add_row(source.name, *sizes, "yes" if status.found else "no", where)
    return shown


def advice(statuses: Sequence[Status]) -> list[str]:
    """How to get what is missing, in lines."""
    missing = [status.source for status in statuses if status.found is None]
    if not missing:
        return []
    width = max(len(source.name) for source in missing)
    return [
        "to download one: understudy datasets --get NAME",
        f"or put into {places.datasets() / 'NAME'}",
        *(f"  {source.name:{width}}  {source.accepts}" for source in missing),
        f"what is kept elsewhere is found if {DATA} names the folder",
    ]


def as_json(statuses: Sequence[Status]) -> list[dict[str, Any]]:
    return [
        {
            "name": status.source.name,
            "title": status.source.title,
            "pool": status.source.n_pool,
            "test": status.source.n_test,
            "classes": status.source.n_classes,
            "found": None if status.found is None else str(status.found),
            "looked_in": [str(place) for place in status.looked_in],
            "files": [{"name": file.name, "url": file.url, "checksum": file.checksum} for file in status.source.files],
        }
        for status in statuses
    ]
