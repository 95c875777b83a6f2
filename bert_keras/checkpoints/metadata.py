"""Defines the metadata of a model, which a checkpoint stores with the vocabulary and weights."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bert_keras.architectures import ARCHITECTURES, SENTENCE_ENCODER
from bert_keras.config import BertConfig
from bert_keras.embedding import EmbeddingConfig
from bert_keras.errors import InputError, check_name, counted
from bert_keras.text.vocab import Vocabulary

_HANGUL_SYLLABLE = re.compile("[가-힣]")


@dataclass(frozen=True, kw_only=True)
class ModelMetadata:
    """Metadata of one model.

    Raises:
        InputError: Fields contradict each other, or a value is impossible.
    """

    model: str  # name of the model class, a key of architectures.ARCHITECTURES
    config: BertConfig  # hyperparameters of the encoder
    lowercase: bool  # whether the tokenizer lower-cases text
    max_length: int  # maximum length of an input sequence in tokens, special tokens included
    text_columns: tuple[str, ...] = ()  # names of the one or two texts of a training example
    labels: tuple[str, ...] = ()  # names of the labels, in the order of the logits
    # A problem_type of Hugging Face, such as "regression"; "" if unknown.
    problem_type: str = ""
    # Name and settings of the task that the model was fine-tuned on, or the size of a generator; {}
    # without both.
    task: Mapping[str, Any] = field(default_factory=dict)
    # How a BertSentenceEncoder computes an embedding from hidden states, where None means
    # EmbeddingConfig(); None for other models.
    embedding: EmbeddingConfig | None = None

    def __post_init__(self) -> None:
        check_name(self.model, ARCHITECTURES, what="model")
        if not 3 <= self.max_length <= self.config.max_positions:
            raise InputError(
                f"max_length is {self.max_length}; expected 3 to {self.config.max_positions}, "
                "the number of positions of the encoder"
            )
        if any(not isinstance(label, str) or not label for label in self.labels):
            raise InputError(f"the labels are {self.labels}; expected texts that are not empty")
        if len(set(self.labels)) < len(self.labels):
            raise InputError(f"the labels are {self.labels}; expected each label once")
        if ARCHITECTURES[self.model].is_labelled != bool(self.labels):
            expected = "none" if self.labels else "at least one"
            raise InputError(
                f"{self.model} has {counted(len(self.labels), 'label')}; expected {expected}"
            )
        if self.model == SENTENCE_ENCODER.name:
            object.__setattr__(self, "embedding", self.embedding or EmbeddingConfig())
        elif self.embedding is not None:
            raise InputError(f"{self.model} has the embedding {self.embedding}; expected None")

    def of_model(self, model: str, *, keeps_head: bool, **changes: Any) -> "ModelMetadata":
        """Returns the metadata of another model with the same encoder.

        Args:
            model: The name of the other model class.
            keeps_head: Whether the other model has the same trained head. If not, the fields that
                describe the head (labels, text columns, problem type, task) are reset.
            **changes: Values of other fields.
        """
        embedding = self.embedding if model == SENTENCE_ENCODER.name else None
        reset: dict[str, Any] = {"labels": (), "text_columns": (), "problem_type": "", "task": {}}
        reset = {} if keeps_head else reset
        return dataclasses.replace(self, model=model, **{"embedding": embedding} | reset | changes)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as values that JSON can store, without an `embedding` of None."""
        values = dataclasses.asdict(self)
        if self.embedding is None:
            del values["embedding"]
        else:
            values["embedding"] = self.embedding.to_dict()
        return values


def numbered_labels(count: int) -> tuple[str, ...]:
    """Returns Hugging Face's default label names, "LABEL_0" and so on, for `count` labels."""
    return tuple(f"LABEL_{index}" for index in range(count))


def seems_lowercase(vocabulary: Vocabulary | None) -> bool:
    """Estimates from the vocabulary whether a tokenizer lower-cases text.

    Use it for checkpoints that do not state the letter case. Tokens in brackets, such as [MASK] and
    the <S> of Google's Chinese model, do not count.

    Returns:
        True if no token has a capital letter or a Hangul syllable, which a tokenizer that
        lower-cases decomposes. Also True without a vocabulary, because most BERT models are
        uncased.
    """
    tokens = () if vocabulary is None else vocabulary.tokens
    return all(
        token == token.lower() or (token[0], token[-1]) in {("[", "]"), ("<", ">")}
        for token in tokens
    ) and not any(_HANGUL_SYLLABLE.search(token) for token in tokens)
