"""Labels, predictions and models out: every format by its name, each written piece by piece."""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from understudy.errors import NotFound, UsageError
from understudy.labels.class_folder_files import class_folders_zip, member
from understudy.labels.label_files import labels_csv, labels_jsonl, labels_parquet, labels_prodigy
from understudy.labels.label_studio_files import labels_label_studio
from understudy.labels.outgoing import Outgoing
from understudy.labels.prediction_files import predictions_csv, predictions_jsonl, predictions_parquet
from understudy.labels.streams import Drain, encoded


@dataclass(frozen=True)
class Format:
    """How something leaves a project: the usual name of its file, its media type, and what writes it."""

    file_name: str
    media_type: str
    write: Callable[[Outgoing], Iterator[bytes]]


def _model_zip(out: Outgoing) -> Iterator[bytes]:
    """The last model, what is known of it, and a file that loads it with numpy and safetensors alone."""
    # Only here: labels are exported without waiting for torch.
    from understudy.learners.model_files import LOADER, about_model

    if out.model_file is None:
        raise NotFound("there is no model yet; label items of two classes first, or train one")
    about: dict[str, Any] = {**about_model(out.model_file), "model": out.model, **out.about_model}
    return _zipped(
        {
            "model.json": encoded(json.dumps(about, indent=1, ensure_ascii=False)),
            "load_model.py": encoded(LOADER),
            "model.safetensors": out.model_file.read_bytes(),
        }
    )


def _zipped(files: Mapping[str, bytes]) -> Iterator[bytes]:
    drain = Drain()
    with zipfile.ZipFile(drain, "w") as archive:
        for name, content in files.items():
            archive.writestr(member(name), content, zipfile.ZIP_DEFLATED)
            yield drain.taken()
    yield drain.taken()


CSV: Final = "text/csv; charset=utf-8"
LINES: Final = "application/x-ndjson"
PARQUET: Final = "application/vnd.apache.parquet"
ZIP: Final = "application/zip"

FORMATS: Final[Mapping[str, Format]] = {
    "csv": Format("labels.csv", CSV, labels_csv),
    "jsonl": Format("labels.jsonl", LINES, labels_jsonl),
    "parquet": Format("labels.parquet", PARQUET, labels_parquet),
    "labelstudio": Format("labels.json", "application/json", labels_label_studio),
    "prodigy": Format("labels-prodigy.jsonl", LINES, labels_prodigy),
    "folders": Format("labels.zip", ZIP, class_folders_zip),
    "predictions-csv": Format("predictions.csv", CSV, predictions_csv),
    "predictions-jsonl": Format("predictions.jsonl", LINES, predictions_jsonl),
    "predictions-parquet": Format("predictions.parquet", PARQUET, predictions_parquet),
    "model": Format("model.zip", ZIP, _model_zip),
}


def format_named(name: str) -> Format:
    if name not in FORMATS:
        raise UsageError(f"there is no format {name!r}; choose one of {', '.join(FORMATS)}")
    return FORMATS[name]
