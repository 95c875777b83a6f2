"""Loads models from checkpoints of any format, and saves them."""

import dataclasses
import os
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import keras
from typing_extensions import deprecated

from bert_keras.architectures import ENCODER, Architecture
from bert_keras.checkpoints.checkpoint import Checkpoint, TrainingState
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.metadata import ModelMetadata, numbered_labels
from bert_keras.checkpoints.model_readme import Sections, model_readme
from bert_keras.checkpoints.tensors import StoredTensor, tensor
from bert_keras.config import BertConfig
from bert_keras.embedding import EmbeddingConfig
from bert_keras.errors import InputError, counted
from bert_keras.models.configured_model import ConfiguredModel
from bert_keras.models.load_report import LoadReport, load_report
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary


class Pretrained(ConfiguredModel):
    """The base class of all models, which loads them from checkpoints and saves them.

    The attributes `metadata`, `tokenizer` and `load_report` are None if the model was not loaded.
    """

    architecture: Architecture  # the entry of the class in ARCHITECTURES
    metadata: ModelMetadata | None = None  # metadata of the checkpoint
    tokenizer: TextTokenizer | None = None  # None also if the checkpoint has no vocabulary
    load_report: LoadReport | None = None

    @classmethod
    def from_pretrained(
        cls,
        path: str | os.PathLike,
        *,
        labels: Sequence[str] = (),
        new: Collection[str] = (),
        ignore: Collection[str] = (),
        pad_vocabulary: bool = False,
        embedding: EmbeddingConfig | None = None,
        **config_changes: Any,
    ) -> Self:
        """Builds the model with the weights of a checkpoint, and prints what was loaded.

        Args:
            path: A folder of any checkpoint format, or a preset of KerasHub; see `open_checkpoint`.
            labels: Names of the labels of a new head.
            new: Parts that start with random weights, such as "classification".
            ignore: Names to ignore in the checkpoint; see `open_checkpoint`.
            pad_vocabulary: Whether to append unused tokens if the token table has more rows than
                the vocabulary has tokens.
            embedding: How a BertSentenceEncoder computes an embedding; by default as the checkpoint
                says.
            **config_changes: Fields of `BertConfig`, such as `hidden_dropout_rate=0.0`.

        Returns:
            A model of this class.

        Raises:
            InputError: The checkpoint lacks a part that `new` does not name, or its labels differ.

        Example:

        ```python
        model = BertClassifier.from_pretrained(
            "bert-base-uncased", labels=("negative", "positive"), new=("classification",)
        )
        ```
        """
        new, labels = _names("new", new), _names("labels", labels)
        checkpoint = open_checkpoint(
            path, ignore=_names("ignore", ignore), pad_vocabulary=pad_vocabulary
        )
        source = checkpoint.metadata
        config = BertConfig.from_dict({**source.config.to_dict(), **config_changes})
        if cls.architecture.reads_pooled_output:
            config = dataclasses.replace(config, has_pooler=True)
        name, heads = cls.architecture.name, cls.architecture.heads
        has_same_head = name == source.model and set(heads).isdisjoint(new)
        old_labels = source.labels if has_same_head else ()
        if cls.architecture.is_labelled and not labels and not old_labels:
            raise InputError(f"a new head of {name} needs labels, such as ('no', 'yes')")
        if labels and old_labels and old_labels not in (labels, numbered_labels(len(labels))):
            raise InputError(
                f"the head of {os.fspath(path)} has the labels {', '.join(old_labels)}; omit "
                f"labels, or start with a new head: new={heads}"
            )
        metadata = source.of_model(
            name, keeps_head=has_same_head, config=config, labels=labels or old_labels
        )
        if embedding is not None:
            metadata = dataclasses.replace(metadata, embedding=embedding)
        model = cls.from_checkpoint(checkpoint, metadata=metadata, source=path, new=new)
        print(model.load_report)
        return model

    @classmethod
    def from_metadata(cls, metadata: ModelMetadata) -> Self:
        """Builds the model that `metadata` describes; random weights use Keras' global seed."""
        heads = {"num_labels": len(metadata.labels)} if metadata.labels else {}
        return cls(metadata.config, **heads)

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: Checkpoint,
        *,
        metadata: ModelMetadata,
        source: str | os.PathLike,
        new: Collection[str] = (),
    ) -> Self:
        """Builds a model with the weights of an open checkpoint.

        Args:
            checkpoint: The checkpoint.
            metadata: The metadata of the model, which may differ from that of the checkpoint.
            source: The path of the checkpoint, for messages.
            new: Parts (encoder, pooler, heads) that start with random weights; see `from_metadata`.

        Raises:
            InputError: A part is neither in the checkpoint nor in `new`, or weights are missing,
                unexpected or of another shape; the message names all of them.
        """
        report = load_report(checkpoint, metadata=metadata, source=os.fspath(source), new=new)
        with ThreadPoolExecutor() as pool:
            values = {name: pool.submit(checkpoint.tensors[name].read) for name in report.loaded}
            # Variables get their values when this scope ends, so `_loaded_array` replaces the
            # random initializers before they run.
            with keras.StatelessScope():
                model = cls.from_metadata(metadata)
                if not model.built:
                    model.build()
                weights = named_weights(model)
                for name in report.loaded:
                    weights[name]._initializer = partial(_loaded_array, values, name)
        model.metadata, model.tokenizer, model.load_report = metadata, checkpoint.tokenizer, report
        return model

    @property
    @deprecated("model.card is now model.metadata")
    def card(self) -> ModelMetadata | None:
        """Same as `metadata`; goes with version 0.3."""
        return self.metadata

    def __dir__(self):  # Keras reads every listed attribute of a model that it saves
        return [name for name in super().__dir__() if name != "card"]

    def new_metadata(self) -> ModelMetadata:
        """Returns the metadata of a model that was not loaded from a checkpoint."""
        is_labelled = self.architecture.is_labelled
        return ModelMetadata(
            model=self.architecture.name,
            config=self.config,
            lowercase=True,
            max_length=self.config.max_positions,
            labels=numbered_labels(self.num_labels) if is_labelled else (),
        )

    def stored_metadata(
        self, tokenizer: TextTokenizer | None, *, labels: Sequence[str] = ()
    ) -> ModelMetadata:
        """Returns the metadata with which the model is saved with a tokenizer and labels."""
        metadata = self.metadata or self.new_metadata()
        if labels := _names("labels", labels):
            if len(labels) != len(metadata.labels):
                raise InputError(
                    f"labels has {counted(len(labels), 'name')}; expected {len(metadata.labels)}, "
                    "the number of labels of the head"
                )
            metadata = dataclasses.replace(metadata, labels=labels)
        lowercase = metadata.lowercase if tokenizer is None else tokenizer.lowercase
        return dataclasses.replace(metadata, lowercase=lowercase)

    def save_pretrained(
        self,
        path: str | os.PathLike,
        *,
        format: str = "bert-keras",
        tokenizer: TextTokenizer | None = None,
        labels: Sequence[str] = (),
    ) -> Path:
        """Writes the model as a new folder, and prints what other programs compute differently.

        Args:
            path: The folder, which must not exist yet or be empty.
            format: "bert-keras", "google", "huggingface", "keras-hub" or "sentence-transformers".
            tokenizer: The tokenizer to save; by default the tokenizer of the checkpoint.
            labels: Names of the labels; by default those of the checkpoint.

        Returns:
            The path of the folder.
        """
        if not self.built:
            self.build()
        tokenizer = tokenizer or self.tokenizer
        metadata = self.stored_metadata(tokenizer, labels=labels)
        vocabulary = None if tokenizer is None else tokenizer.vocabulary
        for note in save_model(self, path, metadata=metadata, vocabulary=vocabulary, format=format):
            print(f"{'note':<12}{note}")
        return Path(path)

    def export(self, path: str | os.PathLike, **options: Any) -> Path:
        """Writes the model as a SavedModel that takes texts, as `bert_keras.export` does.

        This replaces `keras.Model.export`, whose SavedModel takes token ids.

        Args:
            path: The version folder, saved_models/NAME/VERSION, which must not exist yet.
            **options: Keyword arguments of `bert_keras.export`, such as `labels` and `max_length`,
                and `tokenizer` for a model that was not loaded with its vocabulary.

        Returns:
            The path of the folder.

        Raises:
            InputError: As `bert_keras.export` does.

        Example:

        ```python
        model = BertClassifier.from_pretrained("film-critic")
        model.export("saved_models/film-critic/1")
        ```
        """
        # The package exporting imports the models.
        return import_module("bert_keras.exporting.export").export(self, path, **options)


def named_weights(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns every weight by its public name, such as `encoder/layer_0/attention/query/kernel`.

    The names do not change between releases, because checkpoints store them.
    """
    prefix = f"{model.path or model.name}/"  # the path states where another model or scope built it
    part = "encoder/" if getattr(model, "architecture", None) is ENCODER else ""
    return {part + weight.path.removeprefix(prefix): weight for weight in model.weights}


def save_model(
    model: keras.Model,
    folder: str | os.PathLike,
    *,
    metadata: ModelMetadata,
    vocabulary: Vocabulary | None,
    format: str = "bert-keras",
    state: TrainingState | None = None,
    sections: Sections | None = None,
) -> tuple[str, ...]:
    """Writes a model folder with a README.md, and returns the notes of `write_checkpoint`.

    `sections` are the tables of the README.md; see `model_readme`.
    """
    tensors = {name: stored_weight(weight) for name, weight in named_weights(model).items()}
    checkpoint = Checkpoint(metadata=metadata, tensors=tensors, vocabulary=vocabulary, state=state)
    path = Path(folder)
    name = path.parent.name if path.name == "model" else path.name  # "tiny" for runs/tiny/model
    readme = model_readme(
        metadata, vocabulary=vocabulary, name=name, format=format, sections=sections or {}
    )
    return write_checkpoint(checkpoint, folder, format=format, readme=readme)


def stored_weight(weight: keras.Variable) -> StoredTensor:
    """Wraps a variable as a StoredTensor, whose `read` copies the values to NumPy."""
    return StoredTensor(tuple(weight.shape), lambda: keras.ops.convert_to_numpy(weight))


def _names(argument: str, names: Collection[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InputError(f"{argument} is {names!r}; expected a sequence, such as ({names!r},)")
    return tuple(names)


def _loaded_array(values: dict[str, Future], name: str, shape, dtype=None):
    """Keras initializer that returns a loaded array, whose memory the variable takes over."""
    return keras.ops.cast(tensor(values.pop(name).result()), dtype)
