import json
from pathlib import Path

import numpy as np
from PIL import Image

from tests.benchmarks.scripts import script

first_minute = script("first_minute")
CURVE = [(2, 0.5), (4, 0.72), (8, 0.69), (20, 0.91)]


def test_labels_are_counted_at_the_first_model_that_is_good_enough() -> None:
    assert [first_minute.labels_to(CURVE, goal) for goal in (0.4, 0.7, 0.9, 0.95)] == [2, 4, 20, None]
    assert [first_minute.accuracy_at(CURVE, budget) for budget in (1, 5, 8, 25, 50)] == [None, 0.72, 0.69, 0.91, None]


def test_the_table_says_what_was_not_reached() -> None:
    runs = [
        {"task": "images", "classes": "a,b,c", "encoder": name, "seed": seed, "curve": curve}
        for name, curves in {"onnx": [CURVE, CURVE], "pixels": [CURVE[:3], CURVE], "words": [CURVE[:2]] * 2}.items()
        for seed, curve in enumerate(curves)
    ]
    lines = first_minute.table(runs)
    assert lines[0].startswith("| a,b,c | seeds | to 80% | to 90% | at 25 |")
    assert lines[2:] == [
        "| `onnx` | 2 | 20 (20 to 20) | 20 (20 to 20) | 91.0 |  |  |  |",
        "| `pixels` | 2 | 20 to 20, in 1 of 2 | 20 to 20, in 1 of 2 |  |  |  |  |",
        "| `words` | 2 | not within 4 | not within 4 |  |  |  |  |",
        "",
    ]


def test_pictures_are_cut_from_the_strip_with_their_classes(tmp_path: Path) -> None:
    labels = np.arange(90) % 10
    strip = np.repeat(labels[:, None], 32 * 32 * 3, axis=1).astype(np.uint8).reshape(90, 32 * 32, 3)
    Image.fromarray(strip).save(tmp_path / "test_batch.png")
    (tmp_path / "test_lables.json").write_text(json.dumps(labels.tolist()))
    found = first_minute.write_pictures(tmp_path, tmp_path / "pictures", ["cat", "dog"])
    files = sorted((tmp_path / "pictures").iterdir())
    assert len(files) == len(found) == 18
    seen = [{3: 0, 5: 1}[int(np.asarray(Image.open(file))[0, 0, 0])] for file in files]
    assert seen == found
