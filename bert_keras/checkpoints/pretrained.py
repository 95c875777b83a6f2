"""Builds models with the weights of checkpoints, and saves models."""

import dataclasses
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import jinja2
import keras
import numpy as np

from bert_keras.checkpoints.checkpoint import Checkpoint, TrainingState, weight_part
from bert_keras.checkpoints.formats import write_checkpoint
from bert_keras.checkpoints.tensors import StoredTensor, named_weights, stored_weight
from bert_keras.config import (
    BertConfig,
    DenseModule,
    EmbeddingConfig,
    ModelMetadata,
    numbered_labels,
)
from bert_keras.errors import InputError, check_name, listed, printable
from bert_keras.families import family_of
from bert_keras.files import StrPath
from bert_keras.text.vocab import Vocabulary

if TYPE_CHECKING:
    from bert_keras.models.pretrained import Pretrained

Model = TypeVar("Model", bound="Pretrained")


@dataclass(frozen=True)
class LoadReport:
    """Reports which weights of a model come from a checkpoint."""

    source: str  # path or name of the checkpoint
    loaded: tuple[str, ...]  # names of the weights that the checkpoint provides
    new: tuple[str, ...]  # names of the weights with random initial values
    unused: tuple[str, ...]  # names of the weights in the checkpoint that the model does not use
    notes: tuple[str, ...] = ()  # other differences, one sentence each

    def __str__(self) -> str:
        table = []
        for row in ("loaded", "new", "unused"):
            counts = Counter(map(weight_part, getattr(self, row))).items()
            parts = ", ".join(f"{name} ({count})" for name, count in counts)
            table.append(f"{row:<12}{parts or 'none'}")
        table[0] = table[0].replace(")", " weights)", 1)  # "encoder (12)" -> "encoder (12 weights)"
        notes = [f"{'note':<12}{note}" for note in self.notes]
        return printable("\n".join([self.source, *table, *notes]))


def metadata_for(
    cls: "type[Pretrained]",
    checkpoint: Checkpoint,
    *,
    labels: tuple[str, ...] = (),
    new_parts: Collection[str] = (),
    embedding: EmbeddingConfig | None = None,
    config_changes: dict[str, Any],
) -> ModelMetadata:
    """Returns the metadata of a model whose class or configuration is not the checkpoint's.

    Args:
        labels: Names of the labels of a new head.
        new_parts: Parts that start with random weights.
        embedding: How to compute a sentence embedding; by default as in the checkpoint.
        config_changes: Fields of `BertConfig` that differ from the checkpoint's.
    """
    source_metadata, name = checkpoint.metadata, cls.kind.model
    config = BertConfig(**{**source_metadata.config.to_dict(), **config_changes})
    if cls.kind.reads_pooled_output:
        config = dataclasses.replace(config, has_pooler=True)
    has_same_head = name == source_metadata.model and set(cls.kind.heads).isdisjoint(new_parts)
    old_labels = source_metadata.labels if has_same_head else ()
    if cls.kind.is_labelled and not old_labels:
        cls.kind.check_new_labels(labels, source=source_metadata.model)
    # An existing head keeps its names if no names, or only placeholders (LABEL_0), are given. Given
    # names may replace as many placeholders, but not real names.
    keeps_old_names = labels == old_labels or labels in ((), numbered_labels(len(old_labels)))
    if old_labels and keeps_old_names:
        labels = old_labels
    elif old_labels and old_labels != numbered_labels(len(labels)):
        hint = f"to start a new head, pass new={cls.kind.heads}"
        raise InputError(f"the head has the labels {', '.join(old_labels)}; {hint}")
    changes: dict[str, Any] = {"config": config, "labels": labels}
    if embedding is not None:
        changes["embedding"] = embedding
    return source_metadata.of_model(name, keeps_head=has_same_head, **changes)


def missing_parts(
    checkpoint: Checkpoint, *, heads: Iterable[str], metadata: ModelMetadata
) -> list[str]:
    """Returns the parts that a checkpoint lacks for a model with these heads and this metadata."""
    config, modules = metadata.config, metadata.embedding.modules if metadata.embedding else ()
    has_dense = any(isinstance(each, DenseModule) for each in modules)
    is_needed = dict.fromkeys(heads, True) | {"pooler": config.has_pooler}
    is_needed |= {"bilstm": config.num_lstm_layers > 0, "sentence": has_dense}
    stored = set(map(weight_part, checkpoint.tensors))
    return [part for part, needed in is_needed.items() if needed and part not in stored]


def build_model(
    cls: type[Model],
    checkpoint: Checkpoint,
    *,
    metadata: ModelMetadata,
    source: StrPath,
    new_parts: Collection[str] = (),
    name: str | None = None,
) -> Model:
    """Builds a model with the weights of a checkpoint.

    Args:
        metadata: The metadata of the model, which may differ from the checkpoint's.
        source: The path of the checkpoint, for the load report and errors.
        new_parts: Parts that start with random weights.
        name: The name of the Keras model; by default the name of its class.
    """
    errors = []

    def read_tensor(name: str, shape, dtype=None):
        try:
            array = checkpoint.tensors[name].read()
            if not np.isfinite(np.vdot(array, array)):  # which numbers from 2e19 overflow
                raise _misfit(source, [f"{name} has NaN, infinite or huge numbers"])
        except Exception as error:
            # Raised below; here, Keras would keep other variables in its global list of unset ones.
            errors.append(error)
            array = np.zeros(shape, np.float32)
        return array if dtype == "float32" else keras.ops.cast(array, dtype)

    # Variables call their initializers when this scope ends. Replaced initializers read the
    # checkpoint, without drawing random values first.
    with keras.StatelessScope():
        model = cls.from_metadata(metadata, **({} if name is None else {"name": name}))
        if not model.built:
            model.build()
        weights = named_weights(model)
        shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
        report = _make_report(checkpoint, shapes, source=os.fspath(source), new_parts=new_parts)
        for each in report.loaded:
            weights[each]._initializer = partial(read_tensor, each)
    if errors:
        raise errors[0]
    model.metadata, model.tokenizer, model.load_report = metadata, checkpoint.tokenizer, report
    encoder: Any = getattr(model, "encoder", model)
    encoder.tokenizer = model.tokenizer
    return model


def _make_report(
    checkpoint: Checkpoint, shapes: dict[str, tuple], *, source: str, new_parts: Collection[str]
) -> LoadReport:
    stored, parts = checkpoint.tensors, set(map(weight_part, shapes))
    for part in new_parts:
        check_name(part, sorted(parts), what="part of the model")
    expected_names = [name for name in shapes if weight_part(name) not in new_parts]
    unused = [name for name in stored if name not in expected_names]
    problems = []
    for name in expected_names:
        if name not in stored:
            problems.append(f"{name} is missing")
        elif (shape := stored[name].shape) != shapes[name]:
            problems.append(f"{name} has the shape {shape}, expected {shapes[name]}")
    loaded_parts = parts - set(new_parts)
    problems += [f"{name} is unexpected" for name in unused if weight_part(name) in loaded_parts]
    if problems:
        raise _misfit(source, problems)
    return LoadReport(
        source,
        loaded=tuple(expected_names),
        new=tuple(name for name in shapes if weight_part(name) in new_parts),
        unused=(*unused, *checkpoint.unused),
        notes=checkpoint.notes,
    )


def _misfit(source: StrPath, problems: list[str]) -> InputError:
    return InputError(f"{source} does not fit the model: {listed(problems)}")


def checkpoint_of_model(
    model: keras.Model,
    *,
    metadata: ModelMetadata,
    vocabulary: Vocabulary | None,
    state: TrainingState | None = None,
) -> Checkpoint:
    """Returns a model as a checkpoint; LoRA updates are merged into the kernels.

    Args:
        model: The model, which must be built.
        metadata: The metadata of the model.
        vocabulary: The vocabulary of the model, or None if it has none.
        state: The state of its optimizer; None omits it.
    """
    with_lora = [each for each in model._flatten_layers() if getattr(each, "lora_enabled", False)]
    layers = {f"{each.path}/kernel": each for each in with_lora}
    tensors = {}
    for name, weight in named_weights(model).items():
        if layer := layers.get(weight.path):  # `layer.kernel` is the sum of kernel and update
            read = partial(lambda each: keras.ops.convert_to_numpy(each.kernel), layer)
            tensors[name] = StoredTensor(weight.shape, read)
        elif not name.endswith(("/lora_kernel_a", "/lora_kernel_b")):
            tensors[name] = stored_weight(weight)
    return Checkpoint(metadata=metadata, tensors=tensors, vocabulary=vocabulary, state=state)


def save_model(  # noqa: PLR0913 - most arguments are optional
    model: keras.Model,
    folder: StrPath,
    *,
    metadata: ModelMetadata,
    vocabulary: Vocabulary | None,
    format: str = "bert-keras",
    overwrite: bool = False,
    state: TrainingState | None = None,
    sections: Mapping[str, Mapping[str, Any]] | None = None,
) -> tuple[str, ...]:
    """Writes a model folder with a README.md.

    Args:
        format: A name in `FORMATS`, except "keras-hub".
        overwrite: Whether to replace a "bert-keras" folder that contains nothing else.
        state: The state of its optimizer; None omits it.
        sections: Maps a heading of the README.md to a table of names and values.

    Returns:
        A sentence for each difference between this model and the folder as other programs read it.
    """
    checkpoint = checkpoint_of_model(model, metadata=metadata, vocabulary=vocabulary, state=state)
    path, family = Path(folder), family_of(metadata.config, vocabulary)
    template = Path(__file__).with_name("model_card.md").read_text("utf-8")
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    readme = environment.from_string(template).render(
        metadata=metadata,
        name=path.parent.name if path.name == "model" else path.name,  # "tiny" for runs/tiny/model
        family=family.kind if family else "",
        numbered=metadata.labels == numbered_labels(len(metadata.labels)),
        sections=sections or {},
    )
    return write_checkpoint(checkpoint, folder, format=format, overwrite=overwrite, readme=readme)
