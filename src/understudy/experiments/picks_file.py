"""All picks of a comparison in one file, so that its folder may be kept without them."""

import json
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from understudy.data.files import write_atomically
from understudy.errors import UnderstudyError, UsageError
from understudy.experiments.provenance import digest_of_files
from understudy.experiments.results import CEILING, Results, RoundStore, name_write_errors

NOTED: Final = "picks"  # in experiment.json: name and digest of the file
COLUMNS: Final = pa.schema(
    [("strategy", pa.string()), ("repeat", pa.int32()), ("labels", pa.int32()), ("picks", pa.list_(pa.int32()))]
)
COMPRESSION: Final = 19  # the level of zstd; the file is written once and kept


def write_picks(results: Results, path: Path) -> str:
    """Write the picks of every round, and note the file's digest in the folder of the comparison."""
    table = results.table.select(COLUMNS.names)
    table = table.filter(pc.field("strategy") != CEILING)
    if not any(table["picks"].to_pylist()):
        raise UsageError(f"{results.folder} holds no picks; take the folder that its comparison was run in")
    told = {"understudy": json.dumps({name: results.settings["plan"][name] for name in ("dataset", "digest", "seed")})}
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.cast(COLUMNS).combine_chunks().replace_schema_metadata(told),
        sink,
        compression="zstd",
        compression_level=COMPRESSION,
    )
    with name_write_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, sink.getvalue().to_pybytes())
    digest = digest_of_files(path)
    RoundStore(results.folder).note(NOTED, {"file": path.name, "sha256": digest})
    return digest


def read_picks(results: Results, path: Path | None) -> dict[tuple[str, int], tuple[int, ...]]:
    """The rows of every run in the order they were labelled, from the folder itself or from its file of picks."""
    table = results.table if path is None else _read_noted(results, path)
    found: dict[tuple[str, int], dict[int, list[int]]] = {}
    for row in table.select(COLUMNS.names).to_pylist():
        if row["strategy"] != CEILING:
            found.setdefault((row["strategy"], row["repeat"]), {})[row["labels"]] = row["picks"] or []
    picks = {run: tuple(row for labels in sorted(rounds) for row in rounds[labels]) for run, rounds in found.items()}
    if path is None and not any(picks.values()):
        noted = results.settings.get(NOTED, {}).get("file", "FILE")
        raise UsageError(f"{results.folder} was kept without picks; pass the file that has them: --picks {noted}")
    return picks


def _read_noted(results: Results, path: Path) -> pa.Table:
    """The table in the file; raises an error if it is not the one that the comparison noted."""
    noted = results.settings.get(NOTED)
    if noted is None:
        raise UsageError(
            f"{results.folder} notes no file of picks; write one with: understudy picks {results.folder} --out FILE"
        )
    if not path.is_file():
        raise UsageError(f"there is no file {path}; {results.folder} notes one called {noted['file']}")
    if (digest := digest_of_files(path)) != noted["sha256"]:
        raise UsageError(
            f"{path} has the SHA-256 {digest[:16]}..., but {results.folder} notes {noted['sha256'][:16]}...; "
            f"pass the file that was last written as {noted['file']}"
        )
    try:
        return pq.read_table(path, schema=COLUMNS)
    except (OSError, pa.ArrowException) as error:
        raise UnderstudyError(
            f"{path} cannot be read as a Parquet file ({type(error).__name__}); restore it"
        ) from error


def replayed_rows(picks: dict[tuple[str, int], tuple[int, ...]], strategy: str, repeat: int, n: int) -> tuple[int, ...]:
    """The first n rows of a run; raises an error if there are fewer."""
    rows = picks.get((strategy, repeat), ())
    if len(rows) < n or len(np.unique(rows[:n])) < n:
        raise UnderstudyError(f"there are {len(rows):,} picks of {strategy}, repetition {repeat}, and {n:,} are needed")
    return rows
