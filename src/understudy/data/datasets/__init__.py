"""The data sets of the paper and two traps, by name: found, fetched, checked and loaded from their official files."""

from understudy.data.datasets.registry import DATASETS, NAMES, DatasetStatus, fetch, find, load_named, status

__all__ = ["DATASETS", "NAMES", "DatasetStatus", "fetch", "find", "load_named", "status"]
