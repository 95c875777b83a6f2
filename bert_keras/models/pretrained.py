"""Loads models from checkpoints of any format, and saves them."""

import dataclasses
import os
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import keras

from bert_keras.architectures import ENCODER, Architecture
from bert_keras.checkpoints.card import ModelCard, numbered_labels
from bert_keras.checkpoints.checkpoint import Checkpoint, TrainingState, part
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.mapping import rows
from bert_keras.checkpoints.model_readme import Sections, model_readme
from bert_keras.checkpoints.tensors import StoredTensor, tensor
from bert_keras.config import BertConfig
from bert_keras.errors import InputError, listed
from bert_keras.quiet import no_collection
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary


@dataclass(frozen=True)
class LoadReport:
    """Reports which weights of a model come from a checkpoint."""

    source: str  # path of the checkpoint
    loaded: tuple[str, ...]  # names of the weights that the checkpoint provides
    new: tuple[str, ...]  # names of the weights with random initial values
    left_over: tuple[str, ...]  # names of the weights in the checkpoint that the model does not use
    notes: tuple[str, ...] = ()  # other differences, one sentence each

    def __str__(self) -> str:
        rows = {"loaded": self.loaded, "new": self.new, "left over": self.left_over}
        table = [f"{name:<12}{_parts(names)}" for name, names in rows.items()]
        return "\n".join([self.source, *table, *(f"{'note':<12}{note}" for note in self.notes)])


def _parts(names: Sequence[str]) -> str:
    counts = Counter(part(name) for name in names)
    return ", ".join(f"{name} ({count})" for name, count in counts.items()) or "none"


class ConfiguredModel(keras.Model):
    """A Keras model whose `get_config` stores its BertConfig and its other arguments."""

    config: BertConfig
    arguments: tuple[str, ...] = ()  # constructor arguments that are also attributes

    def get_config(self):
        return {
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "config": self.config.to_dict(),
            **{name: getattr(self, name) for name in self.arguments},
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(BertConfig.from_dict(config.pop("config")), **config)


class Pretrained(ConfiguredModel):
    """The base class of all models, which loads them from checkpoints and saves them.

    The attributes `card`, `tokenizer` and `load_report` are None if the model was not loaded.
    """

    architecture: Architecture  # the entry of the class in ARCHITECTURES
    card: ModelCard | None = None  # metadata of the checkpoint
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
        **config_changes,
    ) -> Self:
        """Builds the model with the weights of a checkpoint, and prints what was loaded.

        Args:
            path: A folder of any checkpoint format.
            labels: Names of the labels of a new head.
            new: Parts that start with random weights, such as "classification".
            ignore: Names to ignore in the checkpoint; see `open_checkpoint`.
            pad_vocabulary: Whether to append unused tokens if the token table has more rows than
                the vocabulary has tokens.
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
        new, labels = _several("new", new), _several("labels", labels)
        checkpoint = open_checkpoint(
            path, ignore=_several("ignore", ignore), pad_vocabulary=pad_vocabulary
        )
        found = checkpoint.card
        config = BertConfig.from_dict({**found.config.to_dict(), **config_changes})
        if cls.architecture.reads_pooled_output:
            config = dataclasses.replace(config, has_pooler=True)
        name, heads = cls.architecture.name, cls.architecture.heads
        same_head = name == found.model and set(heads).isdisjoint(new)
        kept = found.labels if same_head else ()
        if cls.architecture.is_labelled and not labels and not kept:
            raise InputError(f"a new head of {name} needs labels, such as ('no', 'yes')")
        if labels and kept and kept not in (labels, numbered_labels(len(labels))):
            raise InputError(
                f"the head of {os.fspath(path)} has the labels {', '.join(kept)}; leave labels "
                f"out, or begin with a new head: new={heads}"
            )
        card = found.of_model(name, keeps_head=bool(kept), config=config, labels=labels or kept)
        model = cls.from_checkpoint(checkpoint, card=card, source=path, new=new)
        print(model.load_report)
        return model

    @classmethod
    def from_card(cls, card: ModelCard) -> Self:
        """Builds the model that `card` describes; random weights depend on Keras' global seed."""
        heads = {"num_labels": len(card.labels)} if card.labels else {}
        return cls(card.config, **heads)

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: Checkpoint,
        *,
        card: ModelCard,
        source: str | os.PathLike,
        new: Collection[str] = (),
    ) -> Self:
        """Builds a model with the weights of an open checkpoint.

        Args:
            checkpoint: The checkpoint.
            card: The metadata of the model, which may differ from that of the checkpoint.
            source: The path of the checkpoint, for messages.
            new: Parts (encoder, pooler, heads) that start with random weights; see `from_card`.

        Raises:
            InputError: A part is neither in the checkpoint nor in `new`, or weights are missing,
                unexpected or of another shape; the message names all of them.
        """
        report = load_report(checkpoint, card=card, source=os.fspath(source), new=new)
        with ThreadPoolExecutor() as pool, no_collection():
            values = {name: pool.submit(checkpoint.tensors[name].read) for name in report.loaded}
            # Variables get their values when this scope ends, so `_take` replaces the random
            # initializers before they run.
            with keras.StatelessScope():
                model = cls.from_card(card)
                if not model.built:
                    model.build()
                for name, weight in named_weights(model).items():
                    if name in values:
                        weight._initializer = partial(_take, values, name)
        model.card, model.tokenizer, model.load_report = card, checkpoint.tokenizer, report
        return model

    def new_card(self) -> ModelCard:
        """Returns the metadata of a model that was not loaded from a checkpoint."""
        is_labelled = self.architecture.is_labelled
        return ModelCard(
            model=self.architecture.name,
            config=self.config,
            lowercase=True,
            max_length=self.config.max_positions,
            labels=numbered_labels(self.num_labels) if is_labelled else (),
        )

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
            format: "bert-keras", "google", "huggingface" or "keras-hub".
            tokenizer: The tokenizer to save; by default the tokenizer of the checkpoint.
            labels: Names of the labels; by default those of the checkpoint.

        Returns:
            The path of the folder.
        """
        if not self.built:
            self.build()
        card, tokenizer = self.card or self.new_card(), tokenizer or self.tokenizer
        if labels := _several("labels", labels):
            if len(labels) != len(card.labels):
                raise InputError(f"{len(labels)} labels came for a head of {len(card.labels)}")
            card = dataclasses.replace(card, labels=labels)
        if tokenizer is not None:
            card = dataclasses.replace(card, lowercase=tokenizer.lowercase)
        vocabulary = None if tokenizer is None else tokenizer.vocabulary
        for note in save_model(self, path, card=card, vocabulary=vocabulary, format=format):
            print(f"{'note':<12}{note}")
        return Path(path)


def named_weights(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns every weight by its public name, such as `encoder/layer_0/attention/query/kernel`.

    The names do not change between releases, because checkpoints store them.
    """
    own = "" if getattr(model, "architecture", None) is ENCODER else f"{model.name}/"
    return {weight.path.removeprefix(own): weight for weight in model.weights}


def save_model(
    model: keras.Model,
    folder: str | os.PathLike,
    *,
    card: ModelCard,
    vocabulary: Vocabulary | None,
    format: str = "bert-keras",
    state: TrainingState | None = None,
    sections: Sections | None = None,
) -> tuple[str, ...]:
    """Writes a model folder with a README.md, and returns the notes of `write_checkpoint`.

    `sections` are the tables of the README.md; see `model_readme`.
    """
    tensors = {name: stored_weight(weight) for name, weight in named_weights(model).items()}
    checkpoint = Checkpoint(card=card, tensors=tensors, vocabulary=vocabulary, state=state)
    path = Path(folder)
    name = path.parent.name if path.name == "model" else path.name  # "tiny" for runs/tiny/model
    readme = model_readme(card, name=name, format=format, sections=sections or {})
    return write_checkpoint(checkpoint, folder, format=format, readme=readme)


def stored_weight(weight: keras.Variable) -> StoredTensor:
    """Wraps a variable as a StoredTensor, whose `read` copies the values to NumPy."""
    return StoredTensor(tuple(weight.shape), lambda: keras.ops.convert_to_numpy(weight))


def load_report(
    checkpoint: Checkpoint, *, card: ModelCard, source: str, new: Collection[str]
) -> LoadReport:
    """Checks the weights and returns the report of `from_checkpoint`, with the same errors."""
    wanted, stored = {row.name: row.shape for row in rows(card)}, checkpoint.tensors
    parts, found = set(map(part, wanted)), set(map(part, stored))
    if unknown := sorted(set(new) - parts):
        raise InputError(f"new names {', '.join(unknown)}; known: {', '.join(sorted(parts))}")
    if absent := sorted(parts - found - set(new)):
        raise InputError(
            f"{source} holds a {checkpoint.card.model} and no weights of {', '.join(absent)}; to "
            f"begin with fresh ones name them: new={tuple(sorted({*absent, *new}))}"
        )
    loaded = [name for name in wanted if part(name) not in new]
    left_over = [name for name in stored if name not in loaded]
    faults = [f"{name} is missing" for name in loaded if name not in stored]
    faults += [
        f"{name} is {stored[name].shape}, expected {wanted[name]}"
        for name in loaded
        if name in stored and stored[name].shape != wanted[name]
    ]
    faults += [f"{n} is unexpected" for n in left_over if part(n) in parts - set(new)]
    if faults:
        raise InputError(f"{source} does not fit the model: {listed(faults)}")
    fresh = tuple(name for name in wanted if part(name) in new)
    names = (*left_over, *checkpoint.left_over)
    return LoadReport(source, tuple(loaded), fresh, names, checkpoint.notes)


def _several(name: str, given: Collection[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InputError(f"{name} is {given!r}; expected several, such as ({given!r},)")
    return tuple(given)


def _take(values: dict[str, Future], name: str, shape, dtype=None):
    """Keras initializer that returns a loaded array, whose memory the variable takes over."""
    return keras.ops.cast(tensor(values.pop(name).result()), dtype)
