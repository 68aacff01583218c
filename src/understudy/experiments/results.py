"""Results: every round is a small file, written as soon as it ends, and all of them are merged into one table.

    DIR/experiment.json      what is compared; two experiments cannot share a folder
    DIR/rounds/…/*.parquet   one file per strategy, repetition and number of labels: the source of truth
    DIR/results.parquet      one row per round, with everything that is reproducible
    DIR/timings.parquet      one row per round, with what is not: seconds, memory, versions

Files are written atomically, so that a process may be killed at any moment.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from understudy.data.files import write_atomically
from understudy.errors import UnderstudyError, UsageError
from understudy.experiments.curves import CEILING as CEILING
from understudy.experiments.curves import CONTROLS as CONTROLS
from understudy.experiments.curves import OFTEN as OFTEN
from understudy.experiments.curves import ORACLE as ORACLE
from understudy.experiments.curves import SELECTION_ONLY as SELECTION_ONLY
from understudy.experiments.curves import Curves
from understudy.experiments.curves_card import draw_comparison
from understudy.experiments.metrics import ACCURACY, metric_named
from understudy.experiments.plan import Plan
from understudy.notebook import draw_safely

EXPERIMENT, RESULTS, TIMINGS, ROUNDS = "experiment.json", "results.parquet", "timings.parquet", "rounds"
FORMAT: Final = 1
# Of all processes so far; rounding in a round may depend on them.
MADE_WITH: Final = ("devices", "versions", "processors", "commits")
CONSEQUENCES: Final = ("pool_rows", "schedule")  # settings of a plan that may follow from others

KEY_COLUMNS: Final = ("dataset", "strategy", "repeat", "round", "labels")
PICKS: Final = "picks"
RESULT_COLUMNS: Final = pa.schema(
    [
        ("dataset", pa.string()),
        ("strategy", pa.string()),
        ("repeat", pa.int32()),
        ("round", pa.int32()),
        ("labels", pa.int32()),
        ("accuracy", pa.float64()),
        ("class_accuracy", pa.list_(pa.float64())),
        ("ece", pa.float64()),
        ("brier", pa.float64()),
        ("log_loss", pa.float64()),
        ("asked_accuracy", pa.float64()),
        ("class_counts", pa.list_(pa.int32())),
        (PICKS, pa.list_(pa.int32())),
        ("scores", pa.list_(pa.float32())),
        ("was_right", pa.list_(pa.bool_())),
        ("memory", pa.string()),
    ]
)
TIMING_COLUMNS: Final = pa.schema(
    [
        *(RESULT_COLUMNS.field(name) for name in KEY_COLUMNS),
        ("train_seconds", pa.float64()),
        ("predict_seconds", pa.float64()),
        ("choose_seconds", pa.float64()),
        ("peak_memory", pa.int64()),
        ("peak_device_memory", pa.int64()),
        ("together", pa.int32()),
        ("device", pa.string()),
        ("versions", pa.string()),
        ("finished", pa.string()),
    ]
)
ROUND_COLUMNS: Final = pa.schema(
    [*RESULT_COLUMNS, *(field for field in TIMING_COLUMNS if field.name not in KEY_COLUMNS)]
)


@dataclass(frozen=True, eq=False)
class Round:
    """One training of a run, how good its model is, and the picks that led to it."""

    dataset: str
    strategy: str
    repeat: int
    round: int
    labels: int
    accuracy: float
    class_accuracy: list[float | None]  # None for a class without test items
    ece: float
    brier: float
    log_loss: float
    asked_accuracy: float | None  # the paper's P
    class_counts: list[int]  # of all labelled rows
    picks: list[int]  # rows labelled since the previous round, in the order of choice
    scores: list[float] | None
    was_right: list[bool] | None  # whether the learner predicted the label of each pick
    memory: str  # JSON: the state that the strategy keeps for the next round
    train_seconds: float
    predict_seconds: float  # for the learner's outputs that the strategy is shown
    choose_seconds: float  # for all picks of this round
    peak_memory: int  # bytes
    peak_device_memory: int
    together: int  # models that were trained at once
    device: str
    versions: str  # JSON
    finished: str


ROUND_FIELDS: Final = tuple(field.name for field in fields(Round))
MAX_NAME_BYTES: Final = 255  # of a file name
ENDING_BYTES: Final = 20  # reserved after the name of a strategy


@dataclass(frozen=True)
class RoundStore:
    """The folder of one comparison."""

    folder: Path

    @property
    def settings(self) -> dict[str, Any]:
        path = self.folder / EXPERIMENT
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            raise UsageError(
                f"{self.folder} is not a comparison ({EXPERIMENT} is missing); start one with: understudy compare"
            ) from None
        except (OSError, ValueError) as error:
            raise UnderstudyError(f"{path} cannot be read ({error}); restore it, or choose another folder") from error
        if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("plan"), dict):
            raise UsageError(f"{path} was written by another version of understudy; choose another folder")
        return found

    def begin(self, plan: Plan, also: dict[str, Any]) -> list[str]:
        """Start a comparison in this folder, or resume it if the plan is the same. `also` is stored and may change.

        Returns what may make new rounds differ from stored ones, one line each.
        """
        wanted = {"format": FORMAT, "plan": plan.as_json()}
        notes: list[str] = []
        with name_write_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            if (self.folder / EXPERIMENT).exists():
                before = self.settings
                self._require(before["plan"], plan.as_json())
                self._require_code(before.get("code", {}), also.get("code", {}), plan.learner)
                if any(self._files()):
                    notes = [
                        f"{self.folder} has {line}; rounds may differ by rounding" for line in _new_tools(before, also)
                    ]
                else:
                    before = {name: value for name, value in before.items() if name not in MADE_WITH}
                also = {**before, **also, **_merge_notes(before, also)}
            elif (self.folder / ROUNDS).exists():
                raise UsageError(f"{self.folder} has rounds but no {EXPERIMENT}; choose another folder with --out")
            write_atomically(self.folder / EXPERIMENT, json.dumps({**also, **wanted}, indent=1).encode())
        return notes

    def note(self, name: str, value: Any) -> None:
        """Store one more setting, which changes no result."""
        with self._locked():
            content = {**self.settings, name: value}
            write_atomically(self.folder / EXPERIMENT, json.dumps(content, indent=1).encode())

    def _require_code(self, before: dict[str, str], wanted: dict[str, str], learner: str) -> None:
        """Raise if a user's own strategy or learner was edited since its rounds were stored."""
        for spec, digest in wanted.items():
            if before.get(spec, digest) == digest:
                continue
            folders = [self.folder / ROUNDS / file_name(name, 0) for name in (spec, spec + SELECTION_ONLY)]
            stored = [folder for folder in folders if any(folder.glob("*/*.parquet"))]
            if spec == learner and any(self._files()):
                stored = [self.folder / ROUNDS]
            if stored:
                raise UsageError(
                    f"{spec} was changed since its rounds were stored; choose another folder with --out, or delete "
                    f"{' and '.join(map(str, stored))}"
                )

    def _require(self, before: dict[str, Any], wanted: dict[str, Any]) -> None:
        for name in sorted({**wanted, **before}, key=CONSEQUENCES.__contains__):  # the cause is the one to show
            if before.get(name) != wanted.get(name):
                raise UsageError(
                    f"{self.folder} is of another experiment: {name} was {_short_text(before.get(name))} and is now "
                    f"{_short_text(wanted.get(name))}; choose another folder with --out"
                )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the folder; other processes that share it wait."""
        lock = FileLock(self.folder / ".lock")
        with name_write_errors(self.folder):
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def path(self, strategy: str, repeat: int, labels: int) -> Path:
        return self.folder / ROUNDS / file_name(strategy, 0) / f"{repeat:03}" / f"{labels:07}.parquet"

    def has(self, strategy: str, repeat: int, labels: int) -> bool:
        return self.path(strategy, repeat, labels).exists()

    def add(self, rounds: Sequence[Round]) -> None:
        for one in rounds:
            columns = {name: [getattr(one, name)] for name in ROUND_FIELDS}
            sink = pa.BufferOutputStream()
            pq.write_table(pa.table(columns, schema=ROUND_COLUMNS), sink, compression="zstd")
            path = self.path(one.strategy, one.repeat, one.labels)
            with name_write_errors(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, sink.getvalue().to_pybytes())

    def rounds_of(self, strategy: str, repeat: int, schedule: Sequence[int]) -> list[Round]:
        """The stored rounds of a run, up to the first that is missing."""
        found = []
        for labels in schedule:
            if not self.has(strategy, repeat, labels):
                break
            found.append(Round(**_read_round(self.path(strategy, repeat, labels)).to_pylist()[0]))
        return found

    def check(self) -> None:
        """Raise if a stored round cannot be read."""
        for path in sorted(self._files()):
            _read_round(path)

    def _files(self) -> Iterator[Path]:
        return (self.folder / ROUNDS).glob("*/*/*.parquet")

    def merge(self) -> None:
        """Merge all stored rounds into the tables, in an order that does not depend on which came first."""
        with self._locked():  # otherwise a process that saw fewer rounds might write last
            tables = [_read_round(path) for path in sorted(self._files())]
            whole = pa.concat_tables(tables) if tables else ROUND_COLUMNS.empty_table()
            whole = whole.sort_by([(name, "ascending") for name in ("strategy", "repeat", "labels")])
            for name, schema in ((RESULTS, RESULT_COLUMNS), (TIMINGS, TIMING_COLUMNS)):
                sink = pa.BufferOutputStream()
                pq.write_table(whole.select(schema.names).combine_chunks(), sink, compression="zstd")
                write_atomically(self.folder / name, sink.getvalue().to_pybytes())


@dataclass(frozen=True, eq=False)
class Results:
    """The stored results of a comparison, finished or not."""

    folder: Path
    settings: dict[str, Any]
    table: pa.Table
    timings: pa.Table

    @classmethod
    def open(cls, folder: str | Path, *, with_timings: bool = True) -> "Results":
        """Open a folder: from its rounds if they exist, else from the merged tables.

        Without timings their table is empty, and its file need not be there.
        """
        store = RoundStore(Path(folder))
        settings = store.settings
        if (store.folder / ROUNDS).is_dir():
            store.merge()
        for name in (RESULTS, TIMINGS) if with_timings else (RESULTS,):
            if not (store.folder / name).exists():
                raise UnderstudyError(f"{store.folder} has no {name} yet; run its comparison first")
        table = _read_table(store.folder / RESULTS)
        if not len(table):
            raise UnderstudyError(f"{store.folder} has no finished round yet; run its comparison first")
        if PICKS not in table.column_names:  # kept without them
            table = table.append_column(
                RESULT_COLUMNS.field(PICKS), pa.nulls(len(table), RESULT_COLUMNS.field(PICKS).type)
            )
        timings = _read_table(store.folder / TIMINGS) if with_timings else TIMING_COLUMNS.empty_table()
        return cls(store.folder, settings, table, timings)

    @property
    def strategies(self) -> list[str]:
        """The strategies in the order they were requested; the controls come last."""
        found = list(dict.fromkeys(self.table["strategy"].to_pylist()))
        wanted = [name for spec in self.settings.get("strategies", []) for name in (spec, spec + SELECTION_ONLY)]
        order = {name: place for place, name in enumerate([*wanted, *CONTROLS])}
        return sorted(found, key=lambda name: (order.get(name, len(wanted)), name))

    def curves(self, strategies: Sequence[str] | None = None, metric: str = ACCURACY) -> Curves:
        """The values of a metric at the budgets and repetitions that all these strategies have."""
        names = [name for name in self.strategies if name != CEILING] if strategies is None else list(strategies)
        found: dict[str, dict[int, dict[int, float]]] = {name: {} for name in names}
        columns = (self.table[name].to_pylist() for name in ("strategy", "repeat", "labels"))
        for strategy, repeat, labels, value in zip(*columns, self.measured(metric), strict=True):
            if strategy in found:
                found[strategy].setdefault(repeat, {})[labels] = value
        if missing := [name for name in names if not found[name]]:
            raise UnderstudyError(f"there is no round of {missing[0]} in {self.folder}")
        # A run that has only begun would leave nothing to compare: only those that got furthest count.
        budgets = sorted({labels for runs in found.values() for run in runs.values() for labels in run})
        budgets = [at for at in budgets if all(any(at in run for run in runs.values()) for runs in found.values())]
        repeats = sorted({repeat for runs in found.values() for repeat in runs})
        whole = [
            repeat for repeat in repeats
            if all(repeat in runs and all(at in runs[repeat] for at in budgets) for runs in found.values())
        ]  # fmt: skip
        if not budgets or not whole:
            raise UnderstudyError(f"no repetition in {self.folder} is finished for all strategies; finish it first")
        values = {
            name: np.array([[runs[repeat][at] for at in budgets] for repeat in whole]) for name, runs in found.items()
        }
        return Curves(self.table["dataset"][0].as_py(), tuple(budgets), values, metric)

    def measured(self, metric: str) -> list[float]:
        """The value of a metric in each row of the table; an error if a round lacks it."""
        measure = metric_named(metric)
        values = self.table[measure.column].to_pylist() if measure.column in self.table.column_names else [None]
        if any(value is None for value in values):
            raise UnderstudyError(f"rounds in {self.folder} have no {measure.title}; choose another metric")
        return [measure.read(value) for value in values]

    def _repr_html_(self) -> str | None:
        return draw_safely(lambda: draw_comparison(self.curves()))

    def ceiling(self, repeats: Collection[int] | None = None, metric: str = ACCURACY) -> np.ndarray | None:
        """(r,): the values of a metric with all labels, in these repetitions or in all."""
        measure = metric_named(metric)
        rows = self._rows_of(CEILING, "repeat", measure.column)
        values = [measure.read(row[measure.column]) for row in rows if repeats is None or row["repeat"] in repeats]
        return np.array(values) if values else None

    def picks(self, strategy: str, repeat: int) -> list[np.ndarray]:
        """The rows of each round, the initial ones first."""
        rows = [row for row in self._rows_of(strategy, "repeat", "labels", "picks") if row["repeat"] == repeat]
        if not rows:
            raise UnderstudyError(f"there is no repetition {repeat} of {strategy} in {self.folder}")
        return [np.array(row["picks"], dtype=np.int64) for row in sorted(rows, key=lambda row: row["labels"])]

    def _rows_of(self, strategy: str, *columns: str) -> list[dict[str, Any]]:
        # Only these columns become Python objects: all picks and scores would be millions of them.
        return self.table.filter(pc.field("strategy") == strategy).select(columns).to_pylist()


def _read_table(path: Path) -> pa.Table:
    try:
        return pq.read_table(path, partitioning=None)
    except (OSError, pa.ArrowException):
        derived = path.name in (RESULTS, TIMINGS)
        remedy = "restore it from a copy" if derived else "delete it, and run the same command again"
        raise UnderstudyError(f"{path} is truncated or not a Parquet file; {remedy}") from None


def _read_round(path: Path) -> pa.Table:
    found = _read_table(path)
    if len(found) != 1 or not found.schema.equals(ROUND_COLUMNS):
        raise UnderstudyError(f"{path} is not a round of a comparison; delete it, and run the same command again")
    return found


@contextmanager
def name_write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into a one-line error that names the path."""
    try:
        yield
    except Timeout:  # another process holds it; a subclass of OSError
        raise
    except OSError as error:
        said = error.strerror or type(error).__name__
        raise UnderstudyError(f"cannot write to {path}: {said}; choose another folder") from error


def file_name(strategy: str, ending: int = ENDING_BYTES) -> str:
    """A file name for a strategy, with space for an ending; a long name is truncated and made unique by a digest."""
    name = quote(strategy, safe=" ()=,'")
    if len(name) <= MAX_NAME_BYTES - ending:
        return name
    digest = hashlib.sha256(strategy.encode()).hexdigest()[:16]
    return f"{name[: MAX_NAME_BYTES - ending - len(digest) - 1]}~{digest}"


def _merge_notes(before: dict[str, Any], also: dict[str, Any]) -> dict[str, Any]:
    """The strategies, devices, versions and repetitions of all runs so far, including this one."""
    both = {name: [*before.get(name, ()), *also.get(name, ())] for name in ("strategies", *MADE_WITH)}
    lists = {name: list(dict.fromkeys(values)) for name, values in both.items() if values or name == "strategies"}
    code = {**before.get("code", {}), **also.get("code", {})}
    repeats = max(before.get("repeats", 0), also.get("repeats", 0))
    return {**lists, "repeats": repeats, **({"code": code} if code else {})}


def _new_tools(before: dict[str, Any], also: dict[str, Any]) -> list[str]:
    """Current devices and versions that the stored rounds were not made with."""
    found = []
    for name in MADE_WITH:
        then, now = before.get(name, []), also.get(name, [])
        new = [value for value in now if value not in then]
        if name == "versions":  # earlier ones recorded fewer packages
            known = {text.partition(" ")[0] for text in then}
            new = [text for text in new if text.partition(" ")[0] in known]
        if then and new:
            found.append(f"rounds made with {tools_in_line(name, then)}, and continues with {tools_in_line(name, new)}")
    return found


def tools_in_line(name: str, values: Sequence[str | None]) -> str:
    """What results were made with, in a line; a commit is shortened, and none is said."""
    if name != "commits":
        return ", ".join(map(str, values))
    shown = ("no commit" if one is None else f"commit {one[:10]}{one[40:]}" for one in values)
    return ", ".join(shown)


def _short_text(value: Any) -> str:
    if value is None:
        return "not given"
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
