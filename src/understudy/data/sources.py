"""`load`: a pool from whatever holds one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from understudy.data import arrays, folders, hub, manifests, objects, tables
from understudy.data.faults import check_on_error, list_faults, settle
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError, UsageError

EMBEDDED: Final = "embedding.json"  # what `understudy embed` leaves in a folder of features
ACCEPTED: Final = (
    "the name of a data set, a folder of images or texts, a folder of features, a file "
    f"({', '.join((*tables.READERS, *arrays.SUFFIXES))}), hf:NAME, an array, a tensor, a frame or a torch Dataset"
)


def load(
    source: Any,
    *,
    classes: Sequence[str] | None = None,
    on_error: str = "skip",
    columns: Mapping[str, str] | None = None,
    folder_labels: bool = True,
    labels: Any = None,
    ids: Any = None,
) -> Dataset:
    """A pool, and its test set where there is one, from a name, a path or an object.

    `classes`: the only ones there are; a label that is none of them is a fault. `on_error`: leave faulty items out
    ("skip"), or raise one error that lists them all ("fail"). `columns`: which column of a table holds "path" or
    "text", "label", "split" and "id", where its name does not say so. `folder_labels`: whether the folder an image
    lies in is its class. `labels` and `ids` go with an object in memory, one an item: a list, an array, a series.
    """
    chosen, known = check_on_error(on_error), _check_classes(classes)
    if objects.is_in_memory(source):
        found = objects.from_object(source, labels, ids, known, columns)
    elif labels is not None or ids is not None:
        raise UsageError(
            f"labels and ids go with arrays, tensors and frames; a {type(source).__name__} has its own: leave them out"
        )
    else:
        found = _open_source(source, known, columns, folder_labels)
    if found.test is not None and not len(found.test):
        # A test set of which no item can be used is dropped, but its faults must not be lost.
        pool = replace(found.pool, faults=found.pool.faults + found.test.faults)
        found = replace(found, pool=pool, test=None)
    settle([fault for part in found.parts for fault in part.faults], chosen)
    if not len(found.pool):
        reason = list_faults(found.pool.faults) if found.pool.faults else " it is empty"
        raise UnderstudyError(f"nothing in {found.name} can be used:{reason}")
    return found


def _open_source(
    source: Any, classes: tuple[str, ...] | None, columns: Mapping[str, str] | None, folder_labels: bool
) -> Dataset:
    """Open a source according to its kind."""
    if isinstance(source, Dataset | Pool):
        return _with_classes(source if isinstance(source, Dataset) else Dataset("pool", source), classes)
    if hub.is_of_datasets(source):
        return hub.from_datasets(source, classes=classes, columns=columns)
    if not isinstance(source, str | Path):
        raise UsageError(f"a pool cannot be made of a {type(source).__name__}; give {ACCEPTED}")
    if isinstance(source, str) and source.startswith(hub.PREFIX):
        return hub.load_hub(source, classes, columns)
    path = Path(source).expanduser()
    _require_lookup(path)
    if isinstance(source, str) and source in known_names():
        from understudy.data.datasets import load_named

        if path.exists():
            raise _ambiguous(source, path)
        return _with_classes(load_named(source), classes)
    if path.is_dir():
        return _from_folder(path, classes, columns, folder_labels)
    suffix = path.suffix.lower()
    if suffix in tables.READERS and path.exists():
        return manifests.load_manifest(path, classes, columns)
    if suffix in arrays.SUFFIXES and path.exists():
        return arrays.load_arrays(path, classes)
    raise _unknown(str(source), path)


def _from_folder(
    folder: Path, classes: tuple[str, ...] | None, columns: Mapping[str, str] | None, folder_labels: bool
) -> Dataset:
    if (folder / EMBEDDED).is_file():
        from understudy.data.features import open_dataset

        return _with_classes(open_dataset(folder), classes)
    if hub.is_saved(folder):
        return hub.load_saved(folder, classes, columns)
    return folders.load_folder(folder, classes, folder_labels)


def known_names() -> tuple[str, ...]:
    # The sets by name bring their loaders along; a file needs none of them.
    from understudy.data.datasets import NAMES

    return NAMES


def _with_classes(found: Dataset, classes: tuple[str, ...] | None) -> Dataset:
    """The data set, which has classes already: others cannot be given to it."""
    if classes is not None and classes != found.pool.classes:
        raise UsageError(
            f"{found.name} has {len(found.pool.classes)} classes of its own, which stay; leave out classes= (--classes)"
        )
    return found


def _require_lookup(path: Path) -> None:
    """An error where the system will not even say whether there is such a file."""
    try:
        path.exists()
    except OSError as error:
        raise UsageError(f"{path} cannot be looked up ({error.strerror}); check the path") from error


def _ambiguous(name: str, path: Path) -> UnderstudyError:
    kind = "folder" if path.is_dir() else "file"
    return UsageError(
        f"{name} is the name of a data set and of a {kind} here; write ./{name} for the {kind}, "
        f"or rename it or work in another folder to get the data set"
    )


def _check_classes(classes: Sequence[str] | None) -> tuple[str, ...] | None:
    if classes is None:
        return None
    known = tuple(classes)
    if isinstance(classes, str) or not known or len(set(known)) < len(known) or "" in known:
        raise UsageError(f"classes must be a list of names that differ; got {classes!r}")
    return known


def _unknown(source: str, path: Path) -> UnderstudyError:
    if path.exists():
        return UsageError(f"{source}: a file of a kind that holds no pool; give {ACCEPTED}")
    beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = get_close_matches(source, known_names(), n=1) or get_close_matches(path.name, beside, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return UsageError(f"there is no {source}{hint}; give {ACCEPTED}")
