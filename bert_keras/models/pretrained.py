"""Defines the base class of all models: their configuration, loading and saving."""

import dataclasses
import functools
import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import keras
import numpy as np

from bert_keras.checkpoints.tensors import named_weights as named_weights
from bert_keras.config import BertConfig, EmbeddingConfig, ModelMetadata, numbered_labels
from bert_keras.data.record_file import PACKING_FEATURES, SEQUENCE_FEATURES
from bert_keras.errors import (
    InputError,
    check_argument,
    check_count,
    counted,
    print_field,
    quoted,
    suggest_keyword_names,
)
from bert_keras.files import StrPath, json_object, refuse_existing, write_json
from bert_keras.kinds.kind import Kind
from bert_keras.layers.embeddings import SharedEmbeddings

if TYPE_CHECKING:
    from bert_keras.checkpoints.pretrained import LoadReport
    from bert_keras.text.tokenizer import TextTokenizer

_METADATA = "metadata.json"  # name of a file in a .keras file


class ConfiguredModel(keras.Model):
    """A Keras model whose `get_config` stores its arguments and what is frozen."""

    config: BertConfig
    arguments: tuple[str, ...] = ()  # constructor arguments that are also attributes

    def __new__(cls, *args, **kwargs):
        config = args[0] if args else kwargs.get("config")
        if config is not None and not isinstance(config, BertConfig):
            raise InputError(
                f"config is {quoted(config)}; expected a BertConfig; "
                f"{cls.__name__}.from_pretrained loads a checkpoint"
            )
        model = super().__new__(cls, *args, **kwargs)
        build = model.build

        @functools.wraps(build)
        def build_once(*args, **options):  # Keras' functional models, too, can be built again
            if not model.built:
                build(*args, **options)

        model.build = build_once
        return model

    def get_config(self):
        """Returns the configuration; raises InputError if Keras could not rebuild the model."""
        is_quantized = any(weight.path.endswith("_scale") for weight in self.weights)
        embeddings = getattr(getattr(self, "encoder", self), "embeddings", None)
        if is_quantized or isinstance(embeddings, SharedEmbeddings):
            raise InputError(
                f"{self.name} is quantized or shares embeddings, which cannot be loaded again; use "
                "export --variant int8, or before quantize save_pretrained, which copies embeddings"
            )
        return {
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "config": self.config.to_dict(),
            **{name: getattr(self, name) for name in self.arguments},
            "frozen": [path for path, layer in _layers(self) if not layer.trainable],
        }

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None):
        arguments = {**config}
        frozen = arguments.pop("frozen", None)
        model = cls(BertConfig(**arguments.pop("config")), **arguments)
        if frozen is not None:
            if frozen and not model.built:  # layers that are built later would be trainable
                model.build()
            for path, layer in _layers(model):
                layer.trainable = path not in frozen
        return model


_ALIASES = {"attention_mask": "input_mask", "token_type_ids": "segment_ids"}  # transformers' names
_TOKEN_FEATURES = {*SEQUENCE_FEATURES, *PACKING_FEATURES, *_ALIASES}  # one value for each token


def check_inputs(inputs: Any, config: BertConfig) -> None:
    """Raises InputError for wrong names or shapes, and for unknown ids in NumPy arrays."""
    named = inputs if isinstance(inputs, Mapping) else {}
    has_lists = any(isinstance(each, list) for each in named.values())
    is_unique = len({_ALIASES.get(name, name) for name in named}) == len(named)
    if "input_ids" not in named or has_lists or not is_unique:
        found = ", ".join(f"{name}: {type(each).__name__}" for name, each in named.items())
        raise InputError(
            f"the inputs are {found or f'a {type(inputs).__name__}'}; expected a dict of different "
            "arrays, as tokenizer(texts) returns"
        )
    shapes = {}  # None stands for any size, and () for an unknown shape
    for name, array in inputs.items():
        if name in _TOKEN_FEATURES:
            shape = getattr(array, "shape", ())
            shapes[name] = () if getattr(shape, "rank", 0) is None else tuple(shape)
    shape = shapes["input_ids"]
    if not shape:
        return
    for other in shapes.values():
        pairs = zip(shape, other, strict=False)
        is_equal = len(other) in (0, len(shape)) and all(a == b or None in (a, b) for a, b in pairs)
        if len(shape) < 2 or not is_equal:
            raise InputError(f"the inputs have the shapes {shapes}; expected [texts, tokens]")
    length = shape[-1] if isinstance(shape[-1], int) else 1
    if length < 1 or (length > config.max_positions and "position_ids" not in inputs):
        limit = f"expected 1 to {config.max_positions}"
        raise InputError(f"a sequence has {length} tokens, {limit}; change max_length")
    _check_ids(inputs, "input_ids", end=config.vocab_size)
    for name in ("segment_ids", "token_type_ids"):
        _check_ids(inputs, name, end=max(2, config.num_segments))


def _check_ids(inputs: Mapping, name: str, *, end: int) -> None:
    ids = inputs.get(name)
    if isinstance(ids, np.ndarray) and ids.size:
        is_integer = ids.dtype.kind in "iu" or name != "input_ids"
        if not (is_integer and 0 <= ids.min() <= ids.max() < end):
            values = f"{ids.dtype} of {ids.min()} to {ids.max()}"
            raise InputError(f"{name} are {values}; expected integers of 0 to {end - 1}")


def named_inputs(inputs: Mapping) -> dict:
    """Returns inputs under our names; without masks, all positions are tokens of segment 0."""
    named = {_ALIASES.get(name, name): array for name, array in inputs.items()}
    if "input_mask" not in named:
        named["input_mask"] = keras.ops.ones_like(named["input_ids"], dtype="int32")
    if "segment_ids" not in named:
        named["segment_ids"] = keras.ops.zeros_like(named["input_ids"], dtype="int32")
    return named


class Pretrained(ConfiguredModel):
    """The base class of all models, which loads them from checkpoints and saves them.

    Inputs may have the names of transformers, `attention_mask` and `token_type_ids`. Without them
    every position is a token of segment 0.

    The attributes `metadata`, `tokenizer` and `load_report` are None if the model was not loaded.
    """

    kind: type[Kind]
    metadata: ModelMetadata | None = None  # metadata of the checkpoint
    tokenizer: "TextTokenizer | None" = None  # None also if the checkpoint has no vocabulary
    load_report: "LoadReport | None" = None

    def __call__(self, inputs, *args, **kwargs):
        check_inputs(inputs, self.config)
        return super().__call__(named_inputs(inputs), *args, **kwargs)

    @classmethod
    @suggest_keyword_names
    def from_pretrained(  # noqa: PLR0913 - public; most arguments are optional
        cls,
        name_or_folder: StrPath,
        *,
        labels: Sequence[str] | int = (),
        num_labels: int | None = None,
        max_length: int | None = None,
        revision: str | None = None,
        new: Collection[str] = (),
        ignore: Collection[str] = (),
        pad_vocabulary: bool = False,
        embedding: EmbeddingConfig | None = None,
        name: str | None = None,
        **config_changes: Any,
    ) -> Self:
        """Builds the model with the weights of a checkpoint; `load_report` says what was loaded.

        Args:
            name_or_folder: A folder of any checkpoint format, a name of Hugging Face such as
                "klue/bert-base" or "NAME@REVISION", a preset of KerasHub, or "kaggle://...".
            labels: Names of the labels of a new head, or their number for "LABEL_0" and so on; 1 is
                a regression.
            num_labels: The same as a number for `labels`.
            max_length: The maximum number of tokens of a text or pair, with special tokens; by
                default as the checkpoint says.
            revision: A branch, tag or commit of a model on Hugging Face.
            new: Parts to start with random weights, such as "classification". Parts that the
                checkpoint lacks are always new, and the load report notes it.
            ignore: Names of tensors, configuration keys and tokenizer rules of the checkpoint to
                ignore. Error messages state the name if something can be ignored.
            pad_vocabulary: Whether to append unused tokens if the embedding matrix has more rows
                than the vocabulary has tokens.
            embedding: How a BertSentenceEncoder computes an embedding; by default as the checkpoint
                says.
            name: The name of the Keras model; by default the name of its class.
            **config_changes: Fields of `BertConfig`, such as `hidden_dropout_rate=0.0`.

        Returns:
            A model. Its `load_report` is printed if a part is new or unused, or if it has a note.

        Raises:
            InputError: The checkpoint lacks weights of the encoder, or its labels differ.

        Example:

        ```python
        model = BertClassifier.from_pretrained(
            "google-bert/bert-base-uncased", labels=["negative", "positive"]
        )
        ```
        """
        from bert_keras.checkpoints.formats import open_checkpoint
        from bert_keras.checkpoints.pretrained import build_model, metadata_for, missing_parts

        check_count("max_length", max_length)
        new, ignore = _check_names("new", new), _check_names("ignore", ignore)
        if num_labels is not None and labels:
            raise InputError("labels and num_labels are both given; give only one of them")
        labels = labels if num_labels is None else num_labels
        known = list(inspect.signature(cls.from_pretrained).parameters)
        known += [each.name for each in dataclasses.fields(BertConfig)]
        for each in config_changes:
            check_argument(each, known, function="from_pretrained")
        if "pooling" in config_changes and cls.kind.model == "BertSentenceEncoder":
            raise InputError('expected embedding=EmbeddingConfig(pooling=("cls",)), not pooling')
        is_number = isinstance(labels, (int, np.integer))
        check_count("labels", labels if is_number else None)
        labels = numbered_labels(int(labels)) if is_number else _check_names("labels", labels)
        checkpoint = open_checkpoint(
            name_or_folder, revision=revision, ignore=ignore, pad_vocabulary=pad_vocabulary
        )
        options = {"labels": labels, "new_parts": new, "embedding": embedding}
        metadata = metadata_for(cls, checkpoint, config_changes=config_changes, **options)
        metadata = dataclasses.replace(metadata, max_length=max_length or metadata.max_length)
        missing = missing_parts(checkpoint, heads=cls.kind.heads, metadata=metadata)
        if unasked := [part for part in missing if part not in new]:
            note = f"the weights of {' and '.join(unasked)} are random: train the model before use"
            checkpoint = dataclasses.replace(checkpoint, notes=(*checkpoint.notes, note))
        options = {"new_parts": {*new, *missing}, "name": name}
        model = build_model(cls, checkpoint, metadata=metadata, source=name_or_folder, **options)
        report = model.load_report
        if report and (report.new or report.unused or report.notes):
            print(report)
        return model

    @classmethod
    def from_metadata(cls, metadata: ModelMetadata, **options: Any) -> Self:
        """Builds the model that `metadata` describes; random weights use Keras' global seed."""
        if cls.kind.is_labelled:
            options["num_labels"] = len(metadata.labels)
        return cls(metadata.config, **options)

    def new_metadata(self) -> ModelMetadata:
        """Returns the metadata of a model that was not loaded from a checkpoint."""
        return ModelMetadata(
            model=self.kind.model,
            config=self.config,
            lowercase=True,
            max_length=self.config.max_positions,
            labels=numbered_labels(self.num_labels) if self.kind.is_labelled else (),
        )

    def stored_metadata(
        self, tokenizer: "TextTokenizer | None", *, labels: Sequence[str] = ()
    ) -> ModelMetadata:
        """Returns the metadata with which the model is saved with a tokenizer and labels."""
        metadata = self.metadata or self.new_metadata()
        if labels := _check_names("labels", labels):
            if len(labels) != len(metadata.labels):
                names = counted(len(labels), "name")
                raise InputError(f"labels has {names}; the head has {len(metadata.labels)}")
            metadata = dataclasses.replace(metadata, labels=labels)
        if tokenizer is None:
            return metadata
        options = {"shortens_first": tokenizer.vocabulary.shortens_first}
        return dataclasses.replace(metadata, lowercase=tokenizer.lowercase, **options)

    @suggest_keyword_names
    def save_pretrained(
        self,
        path: StrPath,
        *,
        format: str = "bert-keras",
        tokenizer: "TextTokenizer | None" = None,
        labels: Sequence[str] = (),
        overwrite: bool = False,
    ) -> Path:
        """Writes the model as a new folder, and prints what other programs compute differently.

        Args:
            path: The folder, which must not exist yet or be empty.
            format: "bert-keras", "google", "huggingface" or "sentence-transformers".
            tokenizer: The tokenizer to save; by default the tokenizer of the checkpoint.
            labels: Names of the labels; by default the checkpoint's.
            overwrite: Whether to replace a folder that this method wrote as "bert-keras", after the
                new one is complete.
        """
        from bert_keras.checkpoints.pretrained import save_model

        if not self.built:
            self.build()
        tokenizer = tokenizer or self.tokenizer
        metadata = self.stored_metadata(tokenizer, labels=labels)
        vocabulary = None if tokenizer is None else tokenizer.vocabulary
        if any(weight.path.endswith("_scale") for weight in self.weights):  # after `quantize`
            self.get_config()  # raises InputError
        if not overwrite:
            refuse_existing(path, remedy="pass overwrite=True")
        options = {"format": format, "overwrite": overwrite}
        for note in save_model(self, path, metadata=metadata, vocabulary=vocabulary, **options):
            print_field("note", note)
        return Path(path)

    def save(self, filepath: StrPath, *args, **kwargs):
        """Writes a .keras file as `keras.Model.save` does, with the tokenizer and the metadata."""
        self.get_config()  # raises InputError before Keras creates the file
        super().save(filepath, *args, **kwargs)

    def save_assets(self, dir_path: str) -> None:
        """Writes the tokenizer and the metadata, for `keras.Model.save`."""
        from bert_keras.text.fast_tokenizer import write_vocabulary

        if self.tokenizer is not None:
            write_vocabulary(self.tokenizer.vocabulary, Path(dir_path))
            write_json(Path(dir_path, _METADATA), self.stored_metadata(self.tokenizer).to_dict())

    def load_assets(self, dir_path: str | None) -> None:
        """Reads the files of `save_assets`, which earlier versions did not write."""
        from bert_keras.text.fast_tokenizer import tokenizer_of, vocabulary_in

        if dir_path and (vocabulary := vocabulary_in(Path(dir_path))) is not None:
            self.metadata = ModelMetadata.from_dict(json_object(Path(dir_path, _METADATA)))
            self.tokenizer = tokenizer_of(vocabulary, **self.metadata.tokenizer_settings)

    def export(
        self, path: StrPath, *, format: str | Sequence[str] = "tf_saved_model", **options: Any
    ) -> Path:
        """Writes the model as a SavedModel that takes texts, as `bert_keras.export` does.

        This replaces `keras.Model.export`, whose SavedModel takes token ids. For other formats use
        `keras.Model(inputs, model(inputs)).export(path, format=...)`.

        Args:
            path: The version folder, saved_models/NAME/VERSION, which must not exist yet.
            format: "tf_saved_model", "litert", or a list of both.
            **options: `labels`, `max_length`, `num_texts`, and `tokenizer` for a model that was not
                loaded with its vocabulary; see `bert_keras.export`, which also writes variants.

        Example:

        ```python
        model = BertClassifier.from_pretrained("films")
        model.export("saved_models/films/1")
        ```
        """
        from bert_keras.exporting.export import plan_of_model, write_version

        formats = (format,) if isinstance(format, str) else tuple(format)
        return write_version(self, plan_of_model(self, path, **options), path, formats=formats)


def _layers(layer: keras.Layer, path: str = ".") -> Iterator[tuple[str, keras.Layer]]:
    """Yields paths and layers: the layer itself, and recursively the layers of trainable models."""
    yield path, layer
    if isinstance(layer, keras.Model) and layer.trainable:
        for inner in layer.layers:
            yield from _layers(inner, f"{path}/{inner.name}")


def _check_names(argument: str, names: Collection[str]) -> tuple[str, ...]:
    # The order of the labels determines their ids, and a set has no order.
    refused = (str, Mapping, Set) if argument == "labels" else (str, Mapping)
    is_listed = isinstance(names, Iterable) and not isinstance(names, refused)
    if not is_listed or not all(isinstance(each, str) for each in names):
        raise InputError(f"{argument} is {quoted(names)}; expected a list of names")
    return tuple(map(str, names))
