"""The data sets as people read them, and as scripts do."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from understudy.data.datasets.registry import DATA, DatasetStatus
from understudy.data.datasets.source import DatasetSource


def table(statuses: Sequence[DatasetStatus]) -> Table:
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
        where = str(status.found or "") if source.files else source.accepts.removeprefix("nothing: it ")
        shown.add_row(source.name, *sizes, "yes" if status.found else "no", where)
    return shown


def advice(statuses: Sequence[DatasetStatus]) -> list[str]:
    """How to get what is missing, and where it was looked for, in lines."""
    missing = [status for status in statuses if status.found is None]
    if not missing:
        return []
    width = max(len(status.source.name) for status in missing)
    return [
        "to download one: understudy datasets --get NAME",
        "or put it into one of the folders that are looked into:",
        *(f"  {place}" for place in _common_places(missing[0])),
        "what belongs there:",
        *(line for status in missing for line in _list_wanted(status.source, width)),
        f"what is kept elsewhere is found if {DATA} names the folder",
    ]


def _common_places(status: DatasetStatus) -> list[str]:
    """The folders that every set is looked for in."""
    places = (place for place in status.looked_in if place not in status.source.also_in)
    return [str(place.with_name("NAME") if place.name == status.source.name else place) for place in places]


def _list_wanted(source: DatasetSource, width: int) -> list[str]:
    """A set's name and files, and below them the places that only this one has."""
    places = [f"also in {place}" for place in source.also_in]
    package = [f"which {source.package} fills"] if places and source.package else []
    first, *rest = (source.accepts, *places, *package)
    return [f"  {source.name:{width}}  {first}", *(f"  {'':{width}}  {line}" for line in rest)]


def as_json(statuses: Sequence[DatasetStatus]) -> list[dict[str, Any]]:
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
