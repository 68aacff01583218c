"""A model's predictions for a whole pool, with the probability of every class.

Out: those of the last model, as CSV, JSONL or Parquet. In: those of a model one already has, from which the surrogate
starts, as an array (items, classes) or as a table: a column of ids and one a class, or a row for each item and class
with its probability. Rows are matched by id and columns by name, where the file has them.
"""

import logging
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.numpy import load_file

from understudy.data.class_names import text_of
from understudy.data.columns import quote_names, usual_column
from understudy.data.items import make_printable
from understudy.data.tables import READERS, read_table
from understudy.errors import UnderstudyError, UsageError
from understudy.frames import cells_of
from understudy.labels.export_data import ExportData
from understudy.labels.matching import Matcher
from understudy.labels.streams import ROWS_PER_BATCH, csv_stream, jsonl_stream, parquet_stream, unescape_formulas
from understudy.messages import count_of, list_some, reason_of

DECIMALS: Final = 6  # of probabilities that are written as text
CLASS_PREFIX: Final = "p_"  # of columns, since a class may be called id or label
TEXT: Final = "text"  # the last column of a pool of texts: ids such as "line 4" say little
BY_CLASS: Final = "probabilities"  # the field of a JSON line that holds them by class
ARRAY_SUFFIXES: Final = (".npy", ".npz", ".safetensors")
TABLE_SUFFIXES: Final = tuple(suffix for suffix in READERS if suffix != ".txt")  # which has no columns
PROBABILITY_COLUMNS: Final = ("probability", "confidence", "score", "prob", "p")
TOLERANCE: Final = 1e-3  # how far from 1 probabilities may sum without a note
MAX_NAMES: Final = 3  # in a note
log = logging.getLogger(__name__)


# -- out --------------------------------------------------------------------------------------------------


def write_csv(data: ExportData) -> Iterator[bytes]:
    names = _columns(data)
    return csv_stream(names, _rows(data, DECIMALS))


def write_jsonl(data: ExportData) -> Iterator[bytes]:
    classes = data.known_classes
    return jsonl_stream(
        {
            "id": name,
            "predicted": best,
            "confidence": confidence,
            "label": label,
            BY_CLASS: dict(zip(classes, probs, strict=True)),
            **({TEXT: data.text(row)} if data.kind == "text" else {}),
        }
        for row, ((name, best, confidence, label), probs) in enumerate(_predictions(data, DECIMALS))
    )


def write_parquet(data: ExportData) -> Iterator[bytes]:
    names = _columns(data)
    kinds = [pyarrow.string(), pyarrow.string(), pyarrow.float32(), pyarrow.string()]
    kinds += [pyarrow.string() if name == TEXT else pyarrow.float32() for name in names[len(kinds) :]]
    return parquet_stream(_rows(data), pyarrow.schema(list(zip(names, kinds, strict=True))))


def _rows(data: ExportData, decimals: int | None = None) -> Iterator[tuple[Any, ...]]:
    """The cells of each item; in a pool of texts the text comes last."""
    for row, (start, probs) in enumerate(_predictions(data, decimals)):
        yield (*start, *probs, data.text(row)) if data.kind == "text" else (*start, *probs)


def _columns(data: ExportData) -> list[str]:
    """The names of the columns."""
    return [
        "id",
        "predicted",
        "confidence",
        "label",
        *(f"{CLASS_PREFIX}{name}" for name in data.known_classes),
        *([TEXT] if data.kind == "text" else []),
    ]


def _predictions(
    data: ExportData, decimals: int | None = None
) -> Iterator[tuple[tuple[str, str, float, str | None], list[float]]]:
    """Each item: its id, likeliest class, confidence and label if it has one; and all probabilities."""
    probs, classes = data.require_probs(), data.known_classes
    for start in range(0, len(probs), ROWS_PER_BATCH):
        block = np.asarray(probs[start : start + ROWS_PER_BATCH], dtype=np.float64)
        block = block if decimals is None else block.round(decimals)
        best = block.argmax(1).tolist()
        for row, (values, label) in enumerate(zip(block.tolist(), best, strict=True), start):
            yield (data.ids[row], classes[label], values[label], data.effective.get(row)), values


# -- in ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GivenPredictions:
    """Probabilities for a whole pool, and notes on them for people."""

    probs: Float[np.ndarray, "n c"]
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class FileScores:
    """What a file has: a score for each of its rows and columns, NaN where there is none."""

    values: np.ndarray  # (m, k)
    ids: Sequence[str] | None  # of its rows; None: they are those of the pool
    classes: Sequence[str] | None  # of its columns; None: they are those of the project
    spreads: bool = False  # what is missing to 1 is shared by the classes that are not named
    notes: tuple[str, ...] = ()


def read_predictions(path: Path, ids: Sequence[str], classes: Sequence[str]) -> Float[np.ndarray, "n c"]:
    """The probabilities in a file for the items and classes of a project; notes on them are logged."""
    given = read_with_notes(path, ids, classes)
    for note in given.notes:
        log.warning("%s: %s", path, note)
    return given.probs


def read_with_notes(path: Path, ids: Sequence[str], classes: Sequence[str]) -> GivenPredictions:
    """The same, with the notes."""
    if not classes:
        raise UsageError("predictions need classes; add them first, with --classes")
    suffix = path.suffix.lower()
    if suffix in ARRAY_SUFFIXES:
        scores = _read_arrays(path)
    elif suffix in TABLE_SUFFIXES:
        scores = _read_scores(path, classes)
    else:
        known = ", ".join((*ARRAY_SUFFIXES, *TABLE_SUFFIXES))
        raise UsageError(f"{path} is not a file that predictions can be read from; give one of {known}")
    if scores.values.ndim != 2 or scores.values.dtype.kind not in "fiub":
        raise UnderstudyError(
            f"{path} must hold numbers of shape (items, classes); got {scores.values.dtype} of shape "
            f"{scores.values.shape}"
        )
    return _to_probabilities(scores, ids, classes, path)


def probabilities_of(
    values: np.ndarray, ids: Sequence[str], classes: Sequence[str], *, source: str, columns: Sequence[str] | None = None
) -> GivenPredictions:
    """The same for an array that a program made: a row for each of the ids, NaN where it predicts nothing.

    `columns` names the classes of its columns, by default all in their order; `source` names it in messages.
    """
    values = np.asarray(values)
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise UnderstudyError(
            f"{source} must give numbers of shape (items, classes); got {values.dtype} of shape {values.shape}"
        )
    if columns is not None and len(columns) != values.shape[1]:
        raise UnderstudyError(f"{source} has {len(columns):,} classes for predictions of shape {values.shape}")
    return _to_probabilities(FileScores(values, None, columns), ids, classes, source)


def probabilities_in_frame(frame: Any, ids: Sequence[str], classes: Sequence[str], *, source: str) -> GivenPredictions:
    """The same for a frame: columns are found by the names of classes, as in a file, and rows by a column of ids.

    Where no column is named for a class, all are those of the classes in their order; without ids, so are the rows.
    """
    columns = {str(column): column for column in frame.columns}
    of_class = {name: columns[column] for name in classes if (column := _column_of(name, list(columns)))}
    if not of_class:
        found = probabilities_of(np.asarray(frame), ids, classes, source=source)
        named = [name for name in frame.columns if isinstance(name, str)]
        note = (
            f"no column is called like a class; {list_some(named)} were taken for {list_some(classes)}, in this order"
        )
        return replace(found, notes=(*found.notes, note)) if named else found
    rows = [f"row {row}" for row in range(len(frame))]
    values = np.column_stack([_numbers(cells_of(frame, column), rows, source) for column in of_class.values()])
    identity = usual_column("id", list(columns))
    names = None if identity is None else [text_of(cell) or "" for cell in cells_of(frame, columns[identity])]
    return _to_probabilities(FileScores(values, names, list(of_class)), ids, classes, source)


def _to_probabilities(
    scores: FileScores, ids: Sequence[str], classes: Sequence[str], source: Path | str
) -> GivenPredictions:
    notes = list(scores.notes)
    placed = _arrange_columns(scores, classes, source, notes)
    placed = _arrange_rows(placed, scores.ids, ids, source, notes)
    return GivenPredictions(_normalise(placed, scores.spreads, ids, source, notes), tuple(notes))


def check_predictions(path: Path, ids: Sequence[str], classes: Sequence[str]) -> None:
    """Raise what `read_predictions` would, before there is a project.

    Some items may turn out to be unusable. So a file without names may have fewer rows than there are items now.
    """
    if not path.is_file():
        raise UsageError(
            f"{path} is not a file; give a file of predictions: .npy, .npz, .safetensors, .csv, .jsonl or .parquet"
        )
    known = list(ids)
    if path.suffix.lower() in ARRAY_SUFFIXES:
        scores = _read_arrays(path)
        known = known[: len(scores.values)] if scores.ids is None and scores.values.ndim else known
    read_with_notes(path, known, classes)


def _read_arrays(path: Path) -> FileScores:
    """`probs`, or the only array there is; `ids` and `classes` beside it, if there are any."""
    try:
        if path.suffix.lower() == ".safetensors":
            found: Mapping[str, np.ndarray] = load_file(path)
        else:
            with path.open("rb") as file:
                loaded = np.load(file, allow_pickle=False)
                found = {"probs": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, SafetensorError) as error:
        reason = reason_of(error)
        raise UnderstudyError(f"{path} cannot be read ({reason}); write it again, without Python objects") from error
    others = [name for name in found if name not in ("ids", "classes")]
    name = "probs" if "probs" in found else others[0] if len(others) == 1 else None
    if name is None:
        raise UnderstudyError(f"{path} has no array probs; it has {quote_names(list(found))}: name one of them probs")
    ids, classes = (
        [text_of(value) or "" for value in found[key].ravel().tolist()] if key in found else None
        for key in ("ids", "classes")
    )
    values = found[name]
    for what, names, axis in (("ids", ids, 0), ("classes", classes, 1)):
        if names is not None and values.ndim == 2 and len(names) != values.shape[axis]:
            raise UnderstudyError(f"{path} has {len(names):,} {what} for predictions of shape {values.shape}")
    return FileScores(values, ids, classes)


def _read_scores(path: Path, classes: Sequence[str]) -> FileScores:
    """A table: one column a class, or one row a class."""

    def choose(there: Sequence[str], _named: Mapping[str, str], source: str) -> dict[str, str]:
        wide = {f"class {name}": column for name in classes if (column := _column_of(name, there))}
        if BY_CLASS in there:
            wide = {BY_CLASS: BY_CLASS}
        identity = usual_column("id", there) or usual_column("path", there)
        label, probability = usual_column("label", there), _first_of(PROBABILITY_COLUMNS, there)
        if not wide and label is not None and probability is not None:
            wide = {"label": label, "probability": probability}
        if identity is None or not wide:
            raise UnderstudyError(
                f"{source} needs a column id and one for each class ({list_some(classes, 5)}), or the columns id, "
                f"label and probability; it has {quote_names(there)}"
            )
        return {"id": identity, **wide}

    table = read_table(path, {}, choose)
    broken = [fault for fault in table.faults if not fault.used]
    notes = tuple(f"{len(broken)} lines could not be read, the first: {fault}" for fault in broken[:1])
    notes += tuple(str(fault) for fault in table.faults if fault.used)
    names = [text_of(cell) or "" for cell in table.values["id"]]
    if "probability" in table.values:
        return _long_scores(path, names, table.values, classes, table.names, notes)
    if BY_CLASS in table.values:
        maps = [cell if isinstance(cell, dict) else {} for cell in table.values[BY_CLASS]]
        known = list(dict.fromkeys(str(name) for each in maps for name in each))
        columns = [[each.get(name) for each in maps] for name in known]
    else:
        known = [role.removeprefix("class ") for role in table.values if role != "id"]
        columns = [list(table.values[f"class {name}"]) for name in known]
    values = np.array([_numbers(cells, table.names, path) for cells in columns]).reshape(len(known), len(names)).T
    return FileScores(values, names, known, notes=notes)


def _long_scores(
    path: Path,
    names: Sequence[str],
    values: Mapping[str, Sequence[Any]],
    classes: Sequence[str],
    lines: Sequence[str],
    notes: tuple[str, ...],
) -> FileScores:
    """A row for each item and class; where only some classes of an item are named, the others share the rest."""
    labels = [text_of(cell) or "" for cell in values["label"]]
    if are_numbers := not set(labels) & set(classes) and all(label.isdecimal() for label in labels):
        labels = [classes[int(label)] if int(label) < len(classes) else label for label in labels]
    probs = _numbers(values["probability"], lines, path)
    row_of = {name: row for row, name in enumerate(dict.fromkeys(names))}
    column_of_label = {name: column for column, name in enumerate(dict.fromkeys(labels))}
    found = np.full((len(row_of), len(column_of_label)), np.nan)
    for name, label, value, line in zip(names, labels, probs, lines, strict=True):
        place = row_of[name], column_of_label[label]
        if not np.isnan(found[place]):
            raise UnderstudyError(f"{path}, {line}: {make_printable(name)!r} has {label!r} twice; keep one of them")
        found[place] = value
    if are_numbers:
        notes = (*notes, f"labels are numbers and were taken as numbers in the list of classes, 0 for {classes[0]}")
    return FileScores(found, list(row_of), list(column_of_label), spreads=True, notes=notes)


def _numbers(cells: Sequence[Any], lines: Sequence[str], path: Path | str) -> np.ndarray:
    """A column of scores; NaN for empty cells."""
    found = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        if cell is None or (isinstance(cell, str) and not cell.strip()):
            continue
        try:
            found[row] = float(unescape_formulas(cell) if isinstance(cell, str) else cell)
        except (TypeError, ValueError) as error:
            shown = make_printable(str(cell))[:40]
            raise UnderstudyError(f"{path}, {lines[row]}: {shown!r} is not a number; give probabilities") from error
    return found


def _column_of(name: str, there: Sequence[str]) -> str | None:
    """The column of a class: by its name, or as it is exported."""
    return next((column for column in there if column in (name, CLASS_PREFIX + name)), None)


def _first_of(names: Sequence[str], there: Sequence[str]) -> str | None:
    lower = {name.strip().lower(): name for name in reversed(there)}
    return next((lower[name] for name in names if name in lower), None)


def _arrange_columns(scores: FileScores, classes: Sequence[str], source: Path | str, notes: list[str]) -> np.ndarray:
    """The scores in the order of the project's classes; NaN for those that the file does not name."""
    values = scores.values.astype(np.float64)
    if scores.classes is None:
        if values.shape[1] != len(classes):
            named = f"{count_of(classes, 'class', 'classes')} ({list_some(classes, 5)})"
            raise UnderstudyError(
                f"{source} has {values.shape[1]} columns for {named}; give one a class in this order, or name them"
            )
        return values
    place = {name: column for column, name in enumerate(classes)}
    known = [(i, place[name]) for i, name in enumerate(scores.classes) if name in place]
    if not known:
        raise UnderstudyError(
            f"{source} names the classes {quote_names(list(scores.classes)[:5])}, the project has "
            f"{quote_names(classes[:5])}; none is in both: rename them"
        )
    others = [name for name in scores.classes if name not in place]
    missing = [name for name in classes if name not in set(scores.classes)]
    _note(notes, others, "classes of the file are not in the project and were left out")
    if not scores.spreads:
        _note(notes, missing, "classes have no prediction in the file and start at 0")
    placed = np.full((len(values), len(classes)), np.nan)
    placed[:, [column for _, column in known]] = values[:, [i for i, _ in known]]
    return placed


def _arrange_rows(
    placed: np.ndarray, names: Sequence[str] | None, ids: Sequence[str], source: Path | str, notes: list[str]
) -> np.ndarray:
    """The scores in the order of the pool; NaN for items that the file does not name."""
    if names is None:
        if len(placed) != len(ids):
            raise UnderstudyError(
                f"{source} has {len(placed):,} rows for {len(ids):,} items; give one an item in the pool's order, or "
                "name them in a column id"
            )
        return placed
    found = np.full((len(ids), placed.shape[1]), np.nan)
    matcher, taken, unknown = Matcher(ids), dict[int, str](), list[str]()
    for name, scores in zip(names, placed, strict=True):
        rows = matcher.by_name(name) or matcher.by_name(unescape_formulas(name))
        if len(rows) != 1:
            unknown.append(name)
            continue
        (row,) = rows
        if row in taken:
            raise UnderstudyError(f"{source} has more than one row for {make_printable(ids[row])!r}; keep one of them")
        taken[row] = name
        found[row] = scores
    if not taken:
        theirs, ours = (quote_names([make_printable(name) for name in names[:2]]) for names in (unknown, ids))
        raise UnderstudyError(
            f"{source} names items such as {theirs}, the pool such as {ours}; none is in both: check the column id"
        )
    _note(notes, unknown, "items of the file are not in the pool and were left out")
    _note(
        notes,
        [name for row, name in enumerate(ids) if row not in taken],
        "items have no prediction and start uniform",
    )
    return found


def _normalise(
    placed: np.ndarray, spreads: bool, ids: Sequence[str], source: Path | str, notes: list[str]
) -> Float[np.ndarray, "n c"]:
    """Scores as probabilities: no less than 0, and 1 in sum."""

    def refuse(bad: np.ndarray, problem: Callable[[float], str]) -> None:
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            raise UnderstudyError(f"{source}: {make_printable(ids[row])!r} has {problem(placed[row, column])}")

    is_known = ~np.isnan(placed)
    refuse(placed < 0, lambda score: f"the score {score:g}, below 0, so it is not a probability: apply a softmax first")
    refuse(np.isinf(placed), lambda score: f"the score {score:g}; leave it out, or mend what computed it")
    probs = np.where(is_known, placed, 0.0)
    sums = probs.sum(1)
    if spreads:
        unnamed = (~is_known).sum(1)
        rest = np.where(unnamed > 0, np.clip(1 - sums, 0, 1) / np.maximum(unnamed, 1), 0.0)
        probs = np.where(is_known, probs, rest[:, None])
        sums = probs.sum(1)
    is_empty, is_off = sums == 0, np.abs(sums - 1) > TOLERANCE
    for which, what in (
        (is_empty & is_known.any(1), "items have only zeros and start uniform"),
        (is_off & ~is_empty, "items had scores that were scaled to sum to 1"),
    ):
        _note(notes, [ids[row] for row in np.flatnonzero(which).tolist()], what)
    probs[is_empty] = 1.0
    return (probs / probs.sum(1, keepdims=True)).astype(np.float32)


def _note(notes: list[str], names: Sequence[str], what: str) -> None:
    """Add a note on some names, with the first of them."""
    if names:
        notes.append(f"{len(names):,} {what}: {list_some([make_printable(name) for name in names], MAX_NAMES)}")
