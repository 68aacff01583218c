"""A pretrained model of texts or images is fine-tuned whenever a learner is trained, by transformers' own Trainer."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.learners.tiny_models import Breaking, coloured_images, reviews, tiny_bert, tiny_resnet
from understudy import ActiveLoop, UnderstudyError, load
from understudy.data.encoders.extras import import_library
from understudy.data.items import ImageFiles
from understudy.data.pool import Pool
from understudy.errors import UsageError
from understudy.experiments.compare import compare, replay
from understudy.learners.finetuning import FineTune, PooledClassifier, save_finetuned
from understudy.learners.own_models import ModuleModel
from understudy.learners.protocol import Learner, Model
from understudy.learners.registry import make_learner

TEXTS, LABELS = reviews(48)
ASKED, ANSWERS = reviews(40, seed=1)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_resnet(tmp_path_factory.mktemp("resnet"))


@pytest.fixture(scope="module")
def learner(bert: Path) -> FineTune:
    return FineTune(str(bert), epochs=10, learning_rate=3e-3, batch_size=8)


@pytest.fixture(scope="module")
def model(learner: FineTune) -> ModuleModel:
    return learner.fit(TEXTS, LABELS, 3, seed=1)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_model_of_texts_is_fine_tuned(learner: FineTune, model: ModuleModel) -> None:
    assert isinstance(learner, Learner)
    assert isinstance(model, Model)
    probs = model.predict_proba(ASKED)
    assert probs.shape == (40, 3)  # a class without labels is a column too
    assert (probs.argmax(1) == ANSWERS).mean() > 0.95
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-5)
    assert not model.interrupted


def test_the_same_seed_gives_the_same_model_and_leaves_the_generators_alone(
    learner: FineTune, model: ModuleModel, own_cache: Path
) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    again = learner.fit(TEXTS, LABELS, 3, seed=1)
    assert torch.equal(torch.rand(3), expected)
    assert (again.predict_proba(ASKED) == model.predict_proba(ASKED)).all()
    assert not list((own_cache / "checkpoints").iterdir())  # nothing is left behind


def test_the_features_are_what_the_last_layer_makes_logits_of(model: ModuleModel) -> None:
    hidden, last = model.features(ASKED), model.last_layer
    assert isinstance(last, torch.nn.Linear)
    made = hidden @ last.weight.numpy().T + last.bias.numpy()
    np.testing.assert_allclose(made, model.logits(ASKED), atol=1e-5)
    shuffled = [3, 1, 2]
    np.testing.assert_allclose(model.features([ASKED[row] for row in shuffled]), hidden[shuffled], atol=1e-5)


def test_a_model_of_images_of_any_size_is_fine_tuned(resnet: Path, tmp_path: Path) -> None:
    images, labels = coloured_images(24)
    learner = FineTune(str(resnet), epochs=4, learning_rate=1e-2, batch_size=8)
    for row, image in enumerate(images):
        (tmp_path / "photos").mkdir(exist_ok=True)
        image.save(tmp_path / "photos" / f"{row:02}.png")
    files = sorted((tmp_path / "photos").iterdir())
    pool = Pool(tuple(file.name for file in files), ImageFiles(files), classes=("red", "blue"))
    loop = ActiveLoop(pool, learner, "margin", schedule=[16])
    loop.tell(np.arange(16), labels[:16])
    assert (loop.predict_classes(np.arange(16, 24)) == labels[16:]).all()
    assert loop.model.features(pool.raw_items()[:3]).shape == (3, 16)  # type: ignore[attr-defined]


def test_a_loop_asks_for_texts_and_fine_tunes_on_them(bert: Path, tmp_path: Path) -> None:
    table = tmp_path / "reviews.csv"
    table.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in zip(TEXTS, LABELS, strict=True)))
    pool = load(table, classes=("0", "1")).pool
    loop = ActiveLoop(pool, f"finetune:{bert}?epochs=1&learning_rate=0.001", "badge", schedule=[4, 8])
    for _ in range(8):
        row = loop.ask(1)
        loop.tell(row, LABELS[row])
    assert loop.round == 2
    assert loop.model.predict_proba(pool.raw_items()).shape == (48, 2)


def test_strategies_are_compared_by_a_fine_tuned_model(bert: Path, tmp_path: Path) -> None:
    table = tmp_path / "reviews.csv"
    table.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in zip(TEXTS, LABELS, strict=True)))
    learner = f"finetune:{bert}?epochs=1"
    comparison = compare(
        table, "margin", learner=learner, schedule="4,8", repeats=1, controls=False, out=tmp_path / "r"
    )
    outcome = comparison.run(jobs=1, progress=False)
    assert not outcome.failed
    assert outcome.results.table.num_rows == 2
    assert replay(tmp_path / "r", table, learner).task.store.folder.parent == tmp_path / "r"


@pytest.mark.filterwarnings("ignore:mtime may not be reliable:UserWarning")  # so short are epochs here
def test_a_broken_training_goes_on_from_its_last_epoch_to_the_same_model(resnet: Path, tmp_path: Path) -> None:
    images, labels = coloured_images(24)
    learner = FineTune(str(resnet), 4, batch_size=8, checkpoints=tmp_path / "kept", seconds_between_checkpoints=0)
    with pytest.raises(OSError, match="unplugged"):
        learner.fit(Breaking(images, 2 * 24 + 9, OSError("unplugged")), labels, 2, seed=3)
    (kept,) = (tmp_path / "kept").glob("*/checkpoint-*")
    assert kept.name == "checkpoint-6"  # two epochs of three steps
    kept.with_name("checkpoint-9").mkdir()  # one that was being written
    again = Breaking(images, 1000, OSError())
    resumed = learner.fit(again, labels, 2, seed=3)
    assert 1000 - again.reads_left < 3 * 24  # two epochs were left
    whole = replace(learner, checkpoints=tmp_path / "other").fit(images, labels, 2, seed=3)
    np.testing.assert_array_equal(resumed.predict_proba(images), whole.predict_proba(images))
    assert not list((tmp_path / "kept").iterdir())


def test_ctrl_c_ends_a_training_with_what_was_learnt(resnet: Path, tmp_path: Path) -> None:
    images, labels = coloured_images(16)
    learner = FineTune(str(resnet), 3, batch_size=8, checkpoints=tmp_path, seconds_between_checkpoints=0)
    stopped = learner.fit(Breaking(images, 30, KeyboardInterrupt()), labels, 2)
    assert stopped.interrupted
    assert stopped.predict_proba(images).shape == (16, 2)
    assert len(list(tmp_path.glob("*/checkpoint-*"))) == 1  # the same training would go on


def test_a_fine_tuned_model_is_written_as_transformers_reads_it(model: ModuleModel, tmp_path: Path) -> None:
    transformers = import_library("transformers", "finetune")
    save_finetuned(model, tmp_path / "mine", classes=("poor", "good", "odd"))
    read = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "mine")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "mine")
    assert read.config.id2label == {0: "poor", 1: "good", 2: "odd"}
    with torch.no_grad():
        logits = read(**tokenizer(ASKED, return_tensors="pt", padding=True)).logits
    np.testing.assert_allclose(logits.numpy(), model.logits(ASKED), atol=1e-5)
    with pytest.raises(UnderstudyError, match="3 classes; got 1 names"):
        save_finetuned(model, tmp_path / "mine", classes=("poor",))


def test_a_model_of_sentences_is_classified_by_its_mean_token_and_written_as_it_was(bert: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bert, tmp_path / "sentences"))
    (folder / "modules.json").write_text("[]")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    model = FineTune(str(folder), epochs=5, learning_rate=3e-3, batch_size=8).fit(TEXTS, LABELS, 2)
    assert isinstance(model.net, PooledClassifier)
    assert (model.predict_proba(ASKED).argmax(1) == ANSWERS).mean() > 0.95
    save_finetuned(model, tmp_path / "mine", classes=("poor", "good"))
    sentences = import_library("sentence_transformers", "text")
    read = sentences.SentenceTransformer(str(tmp_path / "mine"), device="cpu")
    np.testing.assert_allclose(read.encode(ASKED), model.logits(ASKED), atol=1e-5)
    again = FineTune(str(tmp_path / "mine"), epochs=1).fit(TEXTS, LABELS, 2)
    assert again.features(ASKED).shape == (40, 32)


def test_the_name_of_a_learner_has_its_options() -> None:
    learner = make_learner("finetune:some/model?epochs=3&learning_rate=1e-4&batch_size=8&max_length=99&warmup=0")
    assert learner == FineTune("some/model", 3, 1e-4, 8, 99, warmup=0.0)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("finetune:", "name a model or a folder"),
        ("finetune:a/b?epoch=3", "no option epoch; its options are epochs, learning_rate"),
        ("finetune:a/b?epochs=three", "is not a number"),
        ("finetune:a/b?epochs", "options are written"),
        ("finetune:a/b?epochs=0", "epochs must be"),
    ],
)
def test_names_that_make_no_learner_are_refused(name: str, complaint: str) -> None:
    with pytest.raises(UnderstudyError, match=complaint):
        make_learner(name)


def test_what_cannot_be_fine_tuned_is_said_in_a_line(learner: FineTune, tmp_path: Path) -> None:
    images, labels = coloured_images(4)
    for what, inputs, complaint in [
        (learner, images, "give a folder or the name of a model of images"),
        (
            FineTune(str(tmp_path / "none")),
            TEXTS[:4],
            "could not be had.*give a folder or the name of a model of texts",
        ),
        (replace(learner, training={"learnin_rate": 1}), TEXTS[:4], "does not accept these training arguments"),
    ]:
        with pytest.raises(UnderstudyError, match=complaint) as error:
            what.fit(inputs, labels, 2)
        assert "\n" not in str(error.value)


def test_a_pool_without_items_is_refused() -> None:
    with pytest.raises(UsageError, match="needs the items themselves, but this pool has none"):
        ActiveLoop(np.zeros((3, 2)), FineTune("any"), n_classes=2)
