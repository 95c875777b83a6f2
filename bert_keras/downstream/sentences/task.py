"""The base class of tasks whose model embeds each text separately."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from bert_keras.architectures import SENTENCE_ENCODER
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.downstream.task import Encoded, Example, Prediction, Task
from bert_keras.embedding import EmbeddingConfig
from bert_keras.errors import InputError, check_choice, check_least
from bert_keras.training.base_sentence_loss import SentenceLoss
from bert_keras.training.matryoshka import MatryoshkaLoss

Losses = Mapping[str, type[SentenceLoss]]  # name of a loss -> its class


@dataclass(frozen=True, kw_only=True)
class SentenceTask(Task[Example, Encoded, Prediction]):
    """A task whose examples are groups of texts, and whose scores are those of their cosines.

    Raises:
        InputError: A field has an impossible value; the message names it.
    """

    max_length: int = 128  # maximum number of tokens of a text; longer texts lose their end
    loss: str  # a name in `losses`
    # Trains and scores embeddings that are cut to these sizes, the largest of which is the complete
    # size (Kusupati et al. 2022, "Matryoshka Representation Learning").
    dimensions: tuple[int, ...] = ()
    # How the hidden states of a text become one vector, such as "cls"; several are concatenated.
    # Without a value, the pooling of the checkpoint, or the mean if it has none.
    pooling: tuple[str, ...] = ()

    model: ClassVar[str] = SENTENCE_ENCODER.name
    scores_other_tasks: ClassVar[bool] = True
    losses: ClassVar[Losses]

    def __post_init__(self):
        check_least(self, 3, "max_length")
        check_choice(self, "loss", self.losses)
        for dimension in self.dimensions:
            if dimension < 1 or self.dimensions.count(dimension) > 1:
                raise InputError(
                    f"dimensions has {dimension}; expected numbers of at least 1, each once"
                )

    def compile_arguments(self) -> dict:
        loss = self.losses[self.loss]()
        if self.dimensions:
            loss = MatryoshkaLoss(loss, dimensions=self.dimensions)
        return {"loss": loss}

    def embedding(self, source: ModelMetadata) -> EmbeddingConfig:
        """Returns the embedding of the model: that of the checkpoint with the task's pooling.

        Args:
            source: The metadata of the checkpoint.

        Raises:
            InputError: The largest of `dimensions` is not the size of the embedding.
        """
        embedding = source.embedding or EmbeddingConfig()
        embedding = dataclasses.replace(
            embedding, pooling=self.pooling or embedding.pooling, default_prompt_name=None
        )
        size = embedding.sizes(source.config.hidden_size)[-1]
        if self.dimensions and max(self.dimensions) != size:
            raise InputError(
                f"the largest of dimensions is {max(self.dimensions)}; expected {size}, the size "
                "of the embeddings"
            )
        return embedding

    def smaller_dimensions(self, size: int) -> list[int]:
        """Returns those of `dimensions` that are smaller than the complete embedding.

        Args:
            size: The size of the complete embedding.

        Raises:
            InputError: One of `dimensions` is larger.
        """
        if max(self.dimensions, default=0) > size:
            raise InputError(
                f"dimensions has {max(self.dimensions)}; expected at most {size}, the size of the "
                "embeddings"
            )
        return [each for each in self.dimensions if each < size]


def score_name(name: str, dimension: int) -> str:
    """Returns the name of a score of embeddings that are cut to `dimension` components."""
    return f"{name}_{dimension}d"


def required_text(values: Mapping[str, str], column: str, *, location: str) -> str:
    """Returns the text of a column.

    Raises:
        InputError: The text is empty.
    """
    if not values[column].strip():
        raise InputError(f"{location} has an empty {column}; expected a text")
    return values[column]
