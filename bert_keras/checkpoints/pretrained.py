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

from bert_keras.checkpoints.checkpoint import Checkpoint, TrainingState, part
from bert_keras.checkpoints.formats import write_checkpoint
from bert_keras.checkpoints.tensors import StoredTensor, named_weights, of_array, stored_weight
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

    source: str  # path of the checkpoint
    loaded: tuple[str, ...]  # names of the weights that the checkpoint provides
    new: tuple[str, ...]  # names of the weights with random initial values
    unused: tuple[str, ...]  # names of the weights in the checkpoint that the model does not use
    notes: tuple[str, ...] = ()  # other differences, one sentence each

    def __str__(self) -> str:
        table = []
        for row in ("loaded", "new", "unused"):
            counts = Counter(map(part, getattr(self, row))).items()
            parts = ", ".join(f"{name} ({count})" for name, count in counts)
            table.append(f"{row:<12}{parts or 'none'}")
        table[0] = table[0].replace(")", " weights)", 1)
        notes = [f"{'note':<12}{note}" for note in self.notes]
        return printable("\n".join([self.source, *table, *notes]))


def metadata_for(
    cls: "type[Pretrained]",
    checkpoint: Checkpoint,
    *,
    labels: tuple[str, ...] = (),
    new: Collection[str] = (),
    embedding: EmbeddingConfig | None = None,
    config_changes: dict[str, Any],
) -> ModelMetadata:
    """Returns the metadata of a model of another class or configuration.

    Args:
        labels: Names of the labels of a new head.
        new: Parts that start with random weights.
        embedding: How to compute a sentence embedding; by default as in the checkpoint.
        config_changes: Fields of `BertConfig` that differ from the checkpoint's.
    """
    source, name = checkpoint.metadata, cls.kind.model
    config = BertConfig(**{**source.config.to_dict(), **config_changes})
    if cls.kind.reads_pooled_output:
        config = dataclasses.replace(config, has_pooler=True)
    has_same_head = name == source.model and {*cls.kind.heads}.isdisjoint(new)
    old_labels = source.labels if has_same_head else ()
    if old_labels and labels in ((), numbered_labels(len(old_labels))):
        labels = old_labels
    if cls.kind.is_labelled and not old_labels:
        cls.kind.check_new_labels(labels, source=source.model)
    if old_labels not in ((), labels, numbered_labels(len(labels))):
        names = ", ".join(old_labels)
        raise InputError(f"the head has the labels {names}; a new one: new={cls.kind.heads}")
    changes: dict[str, Any] = {"config": config, "labels": labels}
    if embedding is not None:
        changes["embedding"] = embedding
    return source.of_model(name, keeps_head=has_same_head, **changes)


def missing_parts(
    checkpoint: Checkpoint, *, heads: Iterable[str], metadata: ModelMetadata
) -> list[str]:
    """Returns the parts that a checkpoint lacks for a model with these heads and this metadata."""
    config, modules = metadata.config, metadata.embedding.modules if metadata.embedding else ()
    dense = any(isinstance(each, DenseModule) for each in modules)
    optional = {"pooler": config.has_pooler, "bilstm": config.num_lstm_layers, "sentence": dense}
    needed = (*heads, *filter(optional.get, optional))
    return [name for name in needed if name not in {*map(part, checkpoint.tensors)}]


def build_model(
    cls: type[Model],
    checkpoint: Checkpoint,
    *,
    metadata: ModelMetadata,
    source: StrPath,
    new: Collection[str] = (),
    name: str | None = None,
) -> Model:
    """Builds a model with the weights of a checkpoint.

    Args:
        metadata: The metadata of the model, which may differ from the checkpoint's.
        source: The path of the checkpoint, for the load report and errors.
        new: Parts that start with random weights.
        name: The name of the Keras model; by default the name of its class.
    """
    errors = []

    def loaded(tensor: StoredTensor, shape, dtype=None):
        try:
            array = tensor.read()
        except Exception as error:  # Keras would keep the other variables without values
            errors.append(error)
            array = np.zeros(shape, np.float32)
        return array if dtype == "float32" else keras.ops.cast(array, dtype)

    # Variables get their values when this scope ends, from the initializers that they have then.
    with keras.StatelessScope():
        model = cls.from_metadata(metadata, **({} if name is None else {"name": name}))
        if not model.built:
            model.build()
        weights = named_weights(model)
        shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
        report = _load_report(checkpoint, shapes, source=os.fspath(source), new=new)
        for each in report.loaded:
            weights[each]._initializer = partial(loaded, checkpoint.tensors[each])
    if errors:
        raise errors[0]
    model.metadata, model.tokenizer, model.load_report = metadata, checkpoint.tokenizer, report
    encoder: Any = getattr(model, "encoder", model)
    encoder.tokenizer = model.tokenizer
    return model


def _load_report(
    checkpoint: Checkpoint, shapes: dict[str, tuple[int, ...]], *, source: str, new: Collection[str]
) -> LoadReport:
    stored, parts = checkpoint.tensors, {*map(part, shapes)}
    for each in new:
        check_name(each, sorted(parts), what="part of the model")
    loaded = [name for name in shapes if part(name) not in new]
    unused = [name for name in stored if name not in loaded]
    problems = [
        f"{name} has the shape {stored[name].shape}, expected {shapes[name]}"
        if name in stored
        else f"{name} is missing"
        for name in loaded
        if name not in stored or stored[name].shape != shapes[name]
    ]
    problems += [f"{name} is unexpected" for name in unused if part(name) in parts - {*new}]
    if problems:
        raise InputError(f"{source} does not fit the model: {listed(problems)}")
    return LoadReport(
        source,
        tuple(loaded),
        new=tuple(name for name in shapes if part(name) in new),
        unused=(*unused, *checkpoint.unused),
        notes=checkpoint.notes,
    )


def checkpoint_of_model(
    model: keras.Model,
    *,
    metadata: ModelMetadata,
    vocabulary: Vocabulary | None,
    state: TrainingState | None = None,
) -> Checkpoint:
    """Returns a model as a checkpoint; the products of LoRA are added to the kernels.

    Args:
        model: The model, which must be built.
        vocabulary: Its vocabulary, if it has one.
        state: The state of its optimizer; None omits it.
    """
    tensors = {}
    adapted = {
        f"{layer.path}/kernel": layer
        for layer in model._flatten_layers()
        if getattr(layer, "lora_enabled", False)
    }
    for name, weight in named_weights(model).items():
        if layer := adapted.get(weight.path):
            kernel = partial(getattr, layer, "kernel")  # with the product
            tensors[name] = of_array(weight.shape, lambda k=kernel: keras.ops.convert_to_numpy(k()))
        elif not name.endswith(("/lora_kernel_a", "/lora_kernel_b")):
            tensors[name] = stored_weight(weight)
    return Checkpoint(metadata=metadata, tensors=tensors, vocabulary=vocabulary, state=state)


def save_model(  # noqa: PLR0913 - each argument after the metadata is optional
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
    """Writes a model folder with a README.md, and returns how readers of the format differ.

    Args:
        format: A name in `FORMATS`, except "keras-hub".
        overwrite: Whether to replace a "bert-keras" folder that contains nothing else.
        state: The state of its optimizer; None omits it.
        sections: Tables of the README.md by their headings.
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
