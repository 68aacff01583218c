"""The data sets of the paper, by name: found, fetched, checked and loaded from their official files."""

from understudy.data.datasets.registry import DATASETS, NAMES, Status, fetch, find, load_named, status

__all__ = ["DATASETS", "NAMES", "Status", "fetch", "find", "load_named", "status"]
