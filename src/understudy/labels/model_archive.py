"""The last model as a zip: its weights, what is known about it, and a loader that needs numpy and safetensors only."""

import json
import zipfile
from collections.abc import Iterator
from typing import Any

from understudy.errors import NotFound
from understudy.labels.export_data import ExportData
from understudy.labels.streams import encode_utf8, zip_stream


def write_model(data: ExportData) -> Iterator[bytes]:
    """The zip; an error at once where there is no model."""
    # Imported here so that an export of labels does not wait for torch.
    from understudy.learners.model_files import LOADER, exported_bytes

    if data.model_file is None:
        raise NotFound("there is no model yet; label items of two classes first, or train one")
    calibration = data.calibration.to_json()
    kept, content = exported_bytes(data.model_file, data.model_outputs, None if data.is_raw else calibration)
    about: dict[str, Any] = {**kept, "model": data.model, **data.about_model, "calibration": calibration}
    files = {
        "model.json": encode_utf8(json.dumps(about, indent=1, ensure_ascii=False)),
        "load_model.py": encode_utf8(LOADER),
        "model.safetensors": content,
    }
    return zip_stream((name, content, zipfile.ZIP_DEFLATED) for name, content in files.items())
