"""Fine-tuning a model of Hugging Face, of texts or images, by the Trainer of `transformers` (the extra `finetune`)."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from understudy.checks import check_number, check_whole_number
from understudy.core.checks import check_device
from understudy.data.encoders.extras import (
    explain_hub_errors,
    explain_import_errors,
    import_library,
    one_line,
    quiet_transformers,
)
from understudy.data.encoders.hub_models import folder_or_name
from understudy.data.encoders.model_configs import pooling_in
from understudy.errors import UnderstudyError, UsageError
from understudy.learners.checkpoints import SECONDS_BETWEEN
from understudy.learners.own_models import ModuleModel, OwnTraining, begin_training
from understudy.learners.protocol import Offer, Takes, TrainingDiverged
from understudy.learners.registry import FINETUNE
from understudy.learners.training import with_gradients

EXTRA: Final = "finetune"
SENTENCES: Final = "modules.json"  # which sentence-transformers leaves in a folder
LAST_STATE: Final = "trainer_state.json"  # which the Trainer writes last
ANY_LENGTH: Final = 1_000_000  # of a tokeniser that sets no limit


@dataclass(frozen=True)
class FineTune:
    """A pretrained model of texts or images with a new classifier on top, all of it trained.

    `model` is a folder that `save_pretrained` or sentence-transformers wrote, or a name on the hub. Whether it is one
    of texts or of images, the items say. A model of sentences is classified by the mean of its tokens, or by the first,
    as it was trained to be used; others by the classifier that transformers has for them. `learning_rate` rises over
    the first `warmup` of all steps and then falls to zero. Texts are cut at `max_length` tokens. `training` are further
    arguments of transformers' `TrainingArguments`.
    """

    model: str
    epochs: int = 10
    learning_rate: float = 5e-5
    batch_size: int = 16
    max_length: int = 256
    weight_decay: float = 0.01
    warmup: float = 0.1
    training: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    checkpoints: Path | None = field(default=None, repr=False)
    seconds_between_checkpoints: float = field(default=SECONDS_BETWEEN, repr=False)

    takes: Takes = field(default="items", init=False)
    offers: frozenset[Offer] = field(default=frozenset({"logits", "features"}), init=False)

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "max_length"):
            check_whole_number(name, getattr(self, name), 1)
        check_number("learning_rate", self.learning_rate, above=0)
        check_number("weight_decay", self.weight_decay, least=0)
        check_number("warmup", self.warmup, least=0, below=1)
        check_device(self.device)
        if not self.model:
            raise UsageError(f"name a model or a folder, as in {FINETUNE}NAME_OR_FOLDER")

    @with_gradients
    def fit(
        self, inputs: Any, labels: np.ndarray, n_classes: int, *, seed: int = 0, progress: bool = False
    ) -> ModuleModel:
        """The model fine-tuned from its pretrained weights on these items."""
        transformers = import_library("transformers", EXTRA, "fine-tuning")
        import_library("accelerate", EXTRA, "fine-tuning")
        with (
            begin_training(self, inputs, labels, n_classes=n_classes, seed=seed, progress=progress) as training,
            quiet_transformers(EXTRA),
        ):
            is_text = isinstance(training.inputs[0], str)
            net, prepare = _load(transformers, self, is_text, n_classes)
            interrupted = _train(transformers, self, net, prepare, training)
        net.eval().requires_grad_(False).to(self.device)
        if not all(parameter.isfinite().all() for parameter in net.parameters()):
            raise TrainingDiverged(f"{self.model} has diverged at learning rate {self.learning_rate:g}; lower it")
        return ModuleModel(net, n_classes, prepare, _find_last_layer(net, n_classes), interrupted, self.device)


@dataclass(frozen=True, eq=False)
class ItemProcessor:
    """Texts or images as tensors, by the tokeniser or the image processor that belongs to a model."""

    processor: Any
    max_length: int | None  # None: of images

    def __call__(self, items: list[Any]) -> Mapping[str, Tensor]:
        if self.max_length is None:
            return {"pixel_values": self.processor(images=items, return_tensors="pt")["pixel_values"]}
        settings = {"truncation": True, "max_length": self.max_length, "padding": True, "return_tensors": "pt"}
        return dict(self.processor(items, **settings))


class PooledClassifier(nn.Module):
    """An encoder of sentences, and a linear classifier on one row for each: the mean of its tokens, or the first."""

    def __init__(self, encoder: Any, pooling: str, n_classes: int) -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling
        self.dropout = nn.Dropout(getattr(encoder.config, "hidden_dropout_prob", 0.1))
        self.classifier = nn.Linear(encoder.config.hidden_size, n_classes)
        nn.init.normal_(self.classifier.weight, std=0.02)
        nn.init.zeros_(self.classifier.bias)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> dict[str, Tensor]:
        kinds = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        tokens = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **kinds).last_hidden_state
        mask = attention_mask[:, :, None].to(tokens.dtype)
        pooled = tokens[:, 0] if self.pooling == "cls" else (tokens * mask).sum(1) / mask.sum(1)
        logits = self.classifier(self.dropout(pooled))
        return {"logits": logits} if labels is None else {"loss": cross_entropy(logits, labels), "logits": logits}


def _pooling_of(folder: Path) -> str | None:
    """How a model of sentence-transformers makes one row of a text; None where it is not one, or does it otherwise."""
    if not (folder / SENTENCES).is_file():
        return None
    try:
        return pooling_in([folder])
    except UnderstudyError:
        return None


def _load(transformers: Any, learner: FineTune, is_text: bool, n_classes: int) -> tuple[nn.Module, ItemProcessor]:
    """The pretrained model with a new classifier, and what prepares its items."""
    kind = "texts" if is_text else "images"
    folder = folder_or_name(learner.model, "hf")
    remedy = f"give a folder or the name of a model of {kind} that transformers can load"
    with explain_hub_errors(f"the model {learner.model}", remedy):
        if is_text:
            models, processors = transformers.AutoModelForSequenceClassification, transformers.AutoTokenizer
        else:
            with explain_import_errors("transformers", EXTRA, "fine-tuning on images"):
                models, processors = transformers.AutoModelForImageClassification, transformers.AutoImageProcessor
        processor = processors.from_pretrained(folder)
        pooling = _pooling_of(Path(folder)) if is_text else None
        if pooling is not None:
            encoder = transformers.AutoModel.from_pretrained(folder)
            net: Any = PooledClassifier(encoder, pooling, n_classes)
        else:  # a classifier that came with the weights has other classes, or another number of them
            net = encoder = models.from_pretrained(
                folder, num_labels=n_classes, ignore_mismatched_sizes=True, problem_type="single_label_classification"
            )
    if not is_text:
        return net, ItemProcessor(processor, None)
    if processor.pad_token is None:  # of models that only ever continued a text
        processor.pad_token = processor.eos_token
    encoder.config.pad_token_id = processor.pad_token_id
    longest = min(learner.max_length, processor.model_max_length, _positions_of(encoder.config))
    return net, ItemProcessor(processor, int(longest))


def _positions_of(config: Any) -> int:
    """How many tokens a model has places for. RoBERTa's family leaves the first two of its own unused."""
    positions = getattr(config, "max_position_embeddings", None) or ANY_LENGTH
    return positions - 2 if "roberta" in config.model_type or config.model_type == "camembert" else positions


def _train(transformers: Any, learner: FineTune, net: nn.Module, prepare: ItemProcessor, training: OwnTraining) -> bool:
    """Train by transformers' Trainer, from the last checkpoint if there is one; whether the user interrupted."""
    folder = training.checkpoints.folder
    given = {
        "output_dir": str(folder),
        "num_train_epochs": learner.epochs,
        "learning_rate": learner.learning_rate,
        "per_device_train_batch_size": learner.batch_size,
        "weight_decay": learner.weight_decay,
        "warmup_steps": learner.warmup,  # below 1 it is a share of all steps
        "seed": training.seed % 2**32,
        "use_cpu": torch.device(learner.device).type == "cpu",
        "disable_tqdm": True,
        "report_to": "none",
        "logging_strategy": "no",
        "save_strategy": "no",  # our own callback saves, where it is time
        "save_total_limit": 1,
        "remove_unused_columns": False,
        **learner.training,
    }
    try:
        arguments = transformers.TrainingArguments(**given)
    except (TypeError, ValueError) as error:
        raise UsageError(f"transformers does not accept these training arguments: {one_line(error)}") from error
    arguments._n_gpu = min(arguments.n_gpu, 1)  # it would split batches among all GPUs, and the model depend on them
    trainer = transformers.Trainer(
        model=net,
        args=arguments,
        train_dataset=range(len(training.labels)),  # rows; the collator reads their items
        data_collator=_collator(prepare, training),
        callbacks=[_reporter(transformers, training)],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    try:
        trainer.train(resume_from_checkpoint=_last_checkpoint(folder))
    except KeyboardInterrupt:
        training.checkpoints.is_complete = False
        return True
    return False


def _collator(prepare: ItemProcessor, training: OwnTraining) -> Callable[[Sequence[int]], dict[str, Tensor]]:
    """Rows as a batch of what the model is called with, and their classes. Items are read as they are needed."""

    def collate(rows: Sequence[int]) -> dict[str, Tensor]:
        batch = prepare([training.inputs[row] for row in rows])
        return {**batch, "labels": torch.from_numpy(training.labels[list(rows)])}

    return collate


def _reporter(transformers: Any, training: OwnTraining) -> Any:
    """A callback that moves the progress bar after every epoch, and has a checkpoint written where it is time."""

    class TrainerReporter(transformers.TrainerCallback):  # type: ignore[misc]
        def on_epoch_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            training.report(round(state.epoch), int(args.num_train_epochs))
            control.should_save = training.checkpoints.is_due

        def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            training.checkpoints.note_saved()

    return TrainerReporter()


def _last_checkpoint(folder: Path) -> str | None:
    """The newest checkpoint that is whole. One that was being written when the process was killed is not."""
    found = []
    for path in folder.glob("checkpoint-*"):
        try:
            state = json.loads((path / LAST_STATE).read_text(encoding="utf-8"))
            found.append((int(state["global_step"]), str(path)))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return max(found)[1] if found else None


def _find_last_layer(net: nn.Module, n_classes: int) -> nn.Module | None:
    """The layer that makes logits of features: the last linear one with an output for every class."""
    linear = [part for part in net.modules() if isinstance(part, nn.Linear) and part.out_features == n_classes]
    return linear[-1] if linear else None


def save_finetuned(model: ModuleModel, folder: str | Path, classes: Sequence[str] = ()) -> None:
    """Write a fine-tuned model as a folder that transformers reads, or sentence-transformers, as it read the first.

    `from_pretrained` and pipelines of transformers give classes by name; a SentenceTransformer gives logits. `classes`
    are the names of the outputs.
    """
    if not isinstance(model.collate, ItemProcessor):
        raise UnderstudyError("only a fine-tuned model is written as a folder of Hugging Face; save others yourself")
    if classes and len(classes) != model.n_classes:
        raise UnderstudyError(f"this model has {model.n_classes} classes; got {len(classes)} names")
    net: Any = model.net.encoder if isinstance(model.net, PooledClassifier) else model.net
    if classes:
        net.config.id2label = dict(enumerate(classes))
        net.config.label2id = {name: number for number, name in enumerate(classes)}
    with quiet_transformers(EXTRA):
        net.save_pretrained(folder)
        model.collate.processor.save_pretrained(folder)
    if isinstance(model.net, PooledClassifier):
        _save_steps(model.net, Path(folder), model.collate.max_length)


def _save_steps(net: PooledClassifier, folder: Path, max_length: int | None) -> None:
    """What sentence-transformers does after the encoder, as it writes that: pooling, and a layer without activation."""
    steps = {"": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense"}
    files: dict[str, Any] = {
        SENTENCES: [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for number, (path, kind) in enumerate(steps.items())
        ],
        "sentence_bert_config.json": {"max_seq_length": max_length},
        "1_Pooling/config.json": {
            "word_embedding_dimension": net.classifier.in_features,
            "pooling_mode_cls_token": net.pooling == "cls",
            "pooling_mode_mean_tokens": net.pooling == "mean",
        },
        "2_Dense/config.json": {
            "in_features": net.classifier.in_features,
            "out_features": net.classifier.out_features,
            "bias": True,
            "activation_function": "torch.nn.modules.linear.Identity",
        },
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content, indent=1), encoding="utf-8")
    weights = {f"linear.{name}": value.cpu() for name, value in net.classifier.state_dict().items()}
    save_file(weights, folder / "2_Dense" / "model.safetensors")


def finetune_learner(name: str, device: str = "cpu") -> FineTune:
    """The learner of `finetune:NAME_OR_FOLDER?epochs=5&learning_rate=3e-5`."""
    model, _, query = name.removeprefix(FINETUNE).partition("?")
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else {}
    except ValueError as error:
        raise UsageError(f"options are written ?key=value&key=value; got ?{query}") from error
    kinds: dict[str, Callable[[str], Any]] = {
        "epochs": int, "learning_rate": float, "batch_size": int, "max_length": int, "weight_decay": float,
        "warmup": float,
    }  # fmt: skip
    if unknown := sorted(options.keys() - kinds.keys()):
        raise UsageError(f"fine-tuning has no option {', '.join(unknown)}; its options are {', '.join(kinds)}")
    try:
        settings = {option: kinds[option](value) for option, value in options.items()}
    except ValueError as error:
        raise UsageError(f"an option of {name} is not a number: {error}") from error
    return FineTune(str(Path(model).expanduser()) if model.startswith("~") else model, **settings, device=device)
