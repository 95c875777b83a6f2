"""The base class of tasks whose model embeds each text separately, and the encoding of texts."""

import abc
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from bert_keras.config import EmbeddingConfig, ModelMetadata
from bert_keras.data.encoded import Encoded, EncodedTexts
from bert_keras.downstream.task import Example, Outputs, Prediction, Task
from bert_keras.errors import InputError, check_choice, check_least
from bert_keras.fields import setting
from bert_keras.text.tokenizer import TextTokenizer


@dataclass(frozen=True, kw_only=True)
class SentenceTask(Task[Example, Encoded, Prediction]):
    """A task whose examples are groups of texts; it scores the cosines of their embeddings."""

    max_length: int = setting(128, "maximum number of tokens of a text; the rest is cut")
    loss: str = field(metadata={"help": "name of the loss"})
    dimensions: tuple[int, ...] = setting((), "Matryoshka sizes to train together")
    truncate_dim: int = setting(0, "size to which scored embeddings are cut; 0 keeps their size")
    pooling: tuple[str, ...] = setting((), 'such as "cls" (default: as in the checkpoint)')

    model: ClassVar[str] = "BertSentenceEncoder"
    scores_other_tasks: ClassVar[bool] = True
    losses: ClassVar[tuple[str, ...]]  # names in `training.sentence_losses.LOSSES`

    def __post_init__(self):
        check_least(self, 3, "max_length")
        check_least(self, 0, "truncate_dim")
        check_choice(self, "loss", self.losses)

    def compile_arguments(self) -> dict:
        from bert_keras.training.sentence_losses import LOSSES, MatryoshkaLoss

        loss = LOSSES[self.loss]()
        if self.dimensions:
            loss = MatryoshkaLoss(loss, dimensions=self.dimensions)
        return {"loss": loss}

    def embedding(self, source: ModelMetadata) -> EmbeddingConfig:
        """Returns the checkpoint's embedding with the task's pooling."""
        embedding = source.embedding or EmbeddingConfig()
        changes = {"pooling": self.pooling or embedding.pooling, "default_prompt_name": None}
        embedding = dataclasses.replace(embedding, **changes)
        size = embedding.sizes(source.config.hidden_size)[-1]
        if self.dimensions and max(self.dimensions) != size:
            raise InputError(f"dimensions are {self.dimensions}; the largest must be {size}")
        return embedding

    def encode_groups(
        self,
        groups: Sequence[Sequence[str]],
        tokenizer: TextTokenizer,
        *,
        layout: type[EncodedTexts] = EncodedTexts,
        **fields: Any,
    ) -> Any:
        """Encodes groups of texts, one in each row; a batch has inputs of shape [B, G, T].

        Args:
            groups: N groups of G texts.
            tokenizer: The tokenizer of the model.
            layout: The class of the result.
            **fields: Values of its other fields, such as `targets`.
        """
        texts = [text for group in groups for text in group]
        distinct = list(dict.fromkeys(texts))  # each text is tokenized once
        ids = dict(zip(distinct, tokenizer.ids_batch(distinct), strict=True))
        return layout(
            texts=([ids[text] for text in texts],),
            max_length=self.max_length,
            vocabulary=tokenizer.vocabulary,
            num_sequences=len(groups[0]),
            **fields,
        )

    @abc.abstractmethod
    def compare(
        self, examples: Sequence[Example], encoded: Any, units: np.ndarray
    ) -> Sequence[Prediction]:
        """Returns the predictions from rows and their unit vectors, float [N, E] or [N, G, E]."""

    def predictions(
        self, examples: Sequence[Example], encoded: Encoded, outputs: Outputs
    ) -> Sequence[Prediction]:
        vectors = np.asarray(outputs)
        if self.truncate_dim > (size := vectors.shape[-1]):
            raise InputError(f"truncate_dim is {self.truncate_dim}; embeddings have {size} values")
        vectors = vectors[..., : self.truncate_dim or size]
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
        units = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
        return self.compare(examples, encoded, units)
