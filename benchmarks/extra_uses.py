"""One use of each extra, small and whole: run by `install.py` where that extra alone is installed.

    python benchmarks/extra_uses.py excel

PostgreSQL is the server in UNDERSTUDY_POSTGRES, an address such as postgresql://USER@HOST/NAME.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, Final

from understudy import Pool, load

TEXTS: Final = ("a good film", "a bad film", "good and long", "bad and short") * 5
LABELS: Final = ("good", "bad") * 10


def compare_digits(folder: Path, *options: str) -> None:
    """A comparison of two strategies on the digits, by the command."""
    from understudy.cli import main

    few = ("--strategies", "margin,random", "--learner", "logistic", "--schedule", "10,20", "--repeats", "2")
    with suppress(SystemExit):  # with which every command ends
        main(["compare", "digits", *few, "--no-controls", "--jobs", "1", "--out", str(folder / "compared"), *options])
    assert (folder / "compared" / "report.html").is_file()


def use_plot(folder: Path) -> None:
    compare_digits(folder)
    figures = sorted(path.suffix for path in (folder / "compared").rglob("*.*"))
    assert ".pdf" in figures or ".png" in figures or ".svg" in figures, figures


def use_cluster(folder: Path) -> None:
    compare_digits(folder, "--engine", "ray")


def check_encoders(*kinds: str) -> None:
    """A tiny model of each kind is loaded as any other and encodes an item."""
    from understudy.data.encoders.trials import try_encoders

    trials, torchvision_fault = try_encoders()
    for kind in kinds:
        assert trials[kind].outcome == "works", (kind, trials[kind], torchvision_fault)
    if torchvision_fault:
        print(f"went on without it: {torchvision_fault}")


def first_item(pool: Pool) -> Any:
    assert pool.items is not None
    return pool.items.decode(0, pool.items.read(0))[0]


def use_hub(folder: Path) -> None:
    from datasets import Dataset

    table = Dataset.from_dict({"text": list(TEXTS), "label": list(LABELS)})
    table.save_to_disk(str(folder / "saved"))
    for source in (table, folder / "saved"):
        pool = load(source).pool
        assert first_item(pool) == TEXTS[0]
        assert (len(pool), pool.classes) == (len(TEXTS), ("bad", "good"))


def use_heic(folder: Path) -> None:
    import pillow_heif
    from PIL import Image

    pillow_heif.register_heif_opener()
    (folder / "photos").mkdir()
    Image.new("RGB", (40, 30), (200, 30, 90)).save(folder / "photos" / "one.heic")
    assert first_item(load(folder / "photos").pool).size == (40, 30)


def use_excel(folder: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    for row in (("text", "label"), *zip(TEXTS, LABELS, strict=True)):
        sheet.append(row)
    book.save(folder / "reviews.xlsx")
    assert len(load(folder / "reviews.xlsx").pool) == len(TEXTS)


def use_postgres(folder: Path) -> None:
    """A label that is stored in a database, and is there when the project is opened again."""
    from understudy.projects.opening import create_or_open
    from understudy.sessions.opening import open_session

    url = os.environ["UNDERSTUDY_POSTGRES"]
    for n_before in (0, 1):
        project = create_or_open(demo=True, project=folder / "digits", store=url, basis_size=20)
        session = open_session(project)
        try:
            assert session.status().labelled == n_before
            question = session.next("ann")
            assert question.item is not None
            session.label(question.item, 3, "ann", f"key {n_before}")
        finally:
            session.close()


def use_labelstudio(_: Path) -> None:
    """Where nobody answers, that is said in a line with the address."""
    from understudy.cli import main

    address = "http://127.0.0.1:9"
    told = StringIO()
    with redirect_stdout(told), suppress(SystemExit):
        main(["labelstudio", "doctor", "--url", address, "--project", "1", "--token", "none"])
    assert told.getvalue().startswith("wrong"), told.getvalue()
    assert address in told.getvalue()


def use_skactiveml(_: Path) -> None:
    import numpy as np
    from skactiveml.classifier import SklearnClassifier
    from sklearn.linear_model import LogisticRegression

    features, labels = load("digits").pool.arrays()
    features, known = features[:300], np.where(np.arange(300) < 40, labels[:300], np.nan)
    query = import_module("understudy.integrations.skactiveml").UnderstudyQuery(random_state=0)
    classifier = SklearnClassifier(LogisticRegression(max_iter=200), classes=range(10))
    (row,) = query.query(X=features, y=known, clf=classifier)
    assert row >= 40


def use_finetune(folder: Path) -> None:
    made = tiny_models()
    texts, labels = made.reviews(24)
    learner = import_module("understudy.learners.finetuning").FineTune(str(made.tiny_bert(folder / "bert")), epochs=2)
    assert learner.fit(texts, labels, 2).predict_proba(texts).shape == (24, 2)


def use_lightning(_: Path) -> None:
    import lightning.pytorch as lightning
    import numpy as np
    import torch

    class Linear(lightning.LightningModule):
        def __init__(self, n_classes: int) -> None:
            super().__init__()
            self.last = torch.nn.Linear(3, n_classes)

        def forward(self, batch: torch.Tensor) -> Any:
            return self.last(batch)

        def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=0.1)

    def mean_colours(images: list[Any]) -> torch.Tensor:
        return torch.tensor(np.stack([np.asarray(image).mean((0, 1)) / 255 for image in images]), dtype=torch.float32)

    images, labels = tiny_models().coloured_images(24)
    learner = import_module("understudy.learners.lightning_models").LightningLearner(Linear, mean_colours, epochs=2)
    assert learner.fit(images, labels, 2).predict_proba(images).shape == (24, 2)


def tiny_models() -> Any:
    """Models and items that are small enough to be trained in a test."""
    sys.path.append(str(Path(__file__).parents[1]))
    return import_module("tests.learners.tiny_models")


def use_tracker(folder: Path, place: str) -> None:
    """A comparison that is tracked; whoever opens its run again finds both trainings."""
    compare_digits(folder, "--track", place)
    make_tracker = import_module("understudy.integrations.trackers").make_tracker
    again = make_tracker(place, str((folder / "compared").resolve()))
    assert sorted(again.part("margin/1").logged_at()) == [10, 20], "it failed, and warned"
    again.close()


USES: Final[Mapping[str, Callable[[Path], Any]]] = {
    "plot": use_plot,
    "vision": lambda _: check_encoders("timm", "hf"),
    "text": lambda _: check_encoders("text"),
    "onnx": lambda _: check_encoders("onnx"),
    "hub": use_hub,
    "cluster": use_cluster,
    "postgres": use_postgres,
    "heic": use_heic,
    "excel": use_excel,
    "labelstudio": use_labelstudio,
    "skactiveml": use_skactiveml,
    "finetune": use_finetune,
    "lightning": use_lightning,
    "mlflow": lambda folder: use_tracker(folder, f"mlflow:sqlite:///{folder}/mlflow.db"),
    "tensorboard": lambda folder: use_tracker(folder, f"tensorboard:{folder}/runs"),
}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        USES[sys.argv[1]](Path(scratch))
    print(f"used: {sys.argv[1]}")
