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
from bert_keras.errors import InputError, check, check_choice, check_least
from bert_keras.fields import setting
from bert_keras.text.tokenizer import TextTokenizer


@dataclass(frozen=True, kw_only=True)
class SentenceTask(Task[Example, Encoded, Prediction]):
    """A task whose examples are groups of texts, and whose scores are those of their cosines."""

    max_length: int = setting(128, "maximum number of tokens of a text; the rest is cut")
    loss: str = field(metadata={"help": "name of the loss"})
    dimensions: tuple[int, ...] = setting((), "Matryoshka sizes to train together")
    truncate_dim: int = setting(0, "size to which scored embeddings are cut; 0 for all of it")
    pooling: tuple[str, ...] = setting((), 'such as "cls" (default: as in the checkpoint)')

    model: ClassVar[str] = "BertSentenceEncoder"
    scores_other_tasks: ClassVar[bool] = True
    losses: ClassVar[tuple[str, ...]]  # names in `training.sentence_losses.LOSSES`

    def __post_init__(self):
        check_least(self, 3, "max_length")
        check_least(self, 0, "truncate_dim")
        check_choice(self, "loss", self.losses)
        sizes = {size for size in self.dimensions if size > 0}
        is_valid = len(sizes) == len(self.dimensions)
        check(is_valid, f"dimensions are {self.dimensions}; expected numbers above 0, each once")

    def compile_arguments(self) -> dict:
        from bert_keras.training.sentence_losses import LOSSES, MatryoshkaLoss

        loss = LOSSES[self.loss]()
        if self.dimensions:
            loss = MatryoshkaLoss(loss, dimensions=self.dimensions)
        return {"loss": loss}

    def embedding(self, source: ModelMetadata) -> EmbeddingConfig:
        """Returns the embedding of the model: that of the checkpoint with the task's pooling."""
        embedding = source.embedding or EmbeddingConfig()
        embedding = dataclasses.replace(
            embedding, pooling=self.pooling or embedding.pooling, default_prompt_name=None
        )
        size = embedding.sizes(source.config.hidden_size)[-1]
        if self.dimensions and max(self.dimensions) != size:
            found = f"the largest of dimensions is {max(self.dimensions)}"
            raise InputError(f"{found}; expected {size}, the size of the embeddings")
        return embedding

    def encoded(
        self,
        groups: Sequence[Sequence[str]],
        tokenizer: TextTokenizer,
        *,
        layout: type[EncodedTexts] = EncodedTexts,
        **fields: Any,
    ) -> Any:
        """Encodes N groups of G texts as `layout`; equal texts are tokenized once."""
        texts = [text for group in groups for text in group]
        distinct = list(dict.fromkeys(texts))
        ids = dict(zip(distinct, tokenizer.ids_batch(distinct), strict=True))
        return layout(
            texts=([ids[text] for text in texts],),
            max_length=self.max_length,
            vocabulary=tokenizer.vocabulary,
            num_sequences=len(groups[0]),
            **fields,
        )

    @abc.abstractmethod
    def compared(
        self, examples: Sequence[Example], encoded: Any, units: np.ndarray
    ) -> Sequence[Prediction]:
        """Returns the predictions from the rows of `encode_to_score` and their embeddings.

        The embeddings are divided by their norms, [N, (G,) E].
        """

    def predictions(
        self, examples: Sequence[Example], encoded: Encoded, outputs: Outputs
    ) -> Sequence[Prediction]:
        vectors = np.asarray(outputs)
        size, wanted = vectors.shape[-1], self.truncate_dim
        check(wanted <= size, f"truncate_dim is {wanted}, but embeddings have {size} values")
        vectors = vectors[..., : wanted or size]
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
        units = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
        return self.compared(examples, encoded, units)
