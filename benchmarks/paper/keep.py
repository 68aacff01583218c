"""From the folder of a comparison to what is kept of it here: its tables and small results.

    python benchmarks/paper/keep.py FOLDER... --data pool.npz [--into benchmarks/paper] [--note WORDS]

Run it in the repository. What was picked, its scores and what strategies carry along are left out: with the command on
the page they come again. `understudy report` and the scripts here work from what is left. The page itself is not kept,
since `understudy report` makes it. Seconds are kept, but they were taken while several comparisons shared a GPU, so
they do not measure speed.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from understudy import load
from understudy.data.pool import Dataset
from understudy.experiments.report import write_report
from understudy.experiments.results import EXPERIMENT, RESULT_COLUMNS, RESULTS, TIMINGS, Results

SEVERAL: Final = "seconds were taken while several comparisons shared one GPU, and say nothing of speed"


def keep(folder: Path, into: Path, dataset: Dataset | None, note: str) -> Path:
    """What is kept of one comparison, in a folder of the same name."""
    full = Results.open(folder)
    target = into / folder.name
    target.mkdir(parents=True, exist_ok=True)
    settings = {**full.settings, "source": Path(full.settings["source"]).name, "note": note}
    small = replace(full, folder=target, settings=settings, table=slim(full.table))
    write_report(small, dataset, with_figures=False).unlink()  # the command makes the page whenever it is wanted
    (target / "figures").rmdir()
    (target / EXPERIMENT).write_text(json.dumps(settings, indent=1) + "\n")
    pq.write_table(small.table, target / RESULTS, compression="zstd", compression_level=19)
    pq.write_table(full.timings, target / TIMINGS, compression="zstd", compression_level=19)
    return target


def slim(table: pa.Table) -> pa.Table:
    """The same rows and columns without what was picked."""
    nothing = {
        "picks": pa.array([[]] * len(table), RESULT_COLUMNS.field("picks").type),
        "memory": pa.array(["{}"] * len(table), pa.string()),
        "scores": pa.nulls(len(table), RESULT_COLUMNS.field("scores").type),
        "was_right": pa.nulls(len(table), RESULT_COLUMNS.field("was_right").type),
    }
    for name, values in nothing.items():
        table = table.set_column(table.schema.get_field_index(name), RESULT_COLUMNS.field(name), values)
    return table


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--data", help="the data set, for the classes of the pool")
    parser.add_argument("--into", type=Path, default=Path("benchmarks/paper"))
    parser.add_argument("--note", default=SEVERAL)
    given = parser.parse_args(arguments)
    dataset = None if given.data is None else load(given.data)
    for folder in given.folders:
        target = keep(folder, given.into, dataset, given.note)
        sizes = {file.name: file.stat().st_size for file in sorted(target.iterdir()) if file.is_file()}
        print(target, *(f"{name} {size / 1000:.0f} kB" for name, size in sizes.items()), sep="  ")


if __name__ == "__main__":
    main()
