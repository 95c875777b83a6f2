"""Defines the sentence encoder, which computes one embedding for each text."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property, partial

import keras
import numpy as np
from keras import ops
from tqdm import tqdm

from bert_keras.config import BertConfig, EmbeddingConfig, ModelMetadata
from bert_keras.data.encoded import longest_first_batches
from bert_keras.data.record_file import SEQUENCE_FEATURES
from bert_keras.distribution.model import compile_call
from bert_keras.errors import InputError, check_count, suggest_keyword_names
from bert_keras.kinds.embedder import Embedder
from bert_keras.layers.heads import SentenceHead
from bert_keras.models.task_models import TaskModel, flat_rows
from bert_keras.models.text_inputs import TextInputs
from bert_keras.text.columns import checked_columns

_DEFAULT = EmbeddingConfig()
CHUNK_SIZE = 8_192  # texts that `encode` tokenizes together and sorts by length
NUM_SILENT = 1_000  # for more texts, `encode` shows a progress bar


@keras.saving.register_keras_serializable(package="bert_keras")
class BertSentenceEncoder(TextInputs, TaskModel):
    """Computes one embedding for each text, for search, clustering and similarity.

    Reimers and Gurevych 2019. `from_pretrained` reads the folders of sentence-transformers with
    their pooling, dense layers and prompts. From any other checkpoint the embedding is the mean of
    the hidden states, scaled to length 1, unless `embedding` says otherwise.

    `fit`, `evaluate` and `predict` also take texts; a tuple of G columns means groups, such as
    (queries, documents). They put no prompt before a text.

    Args:
        config: The hyperparameters of the encoder.
        embedding: How an embedding is computed from hidden states.
        name: The name of the Keras model.

    Call arguments:
        inputs: A dict of `input_ids`, `input_mask` and `segment_ids`, int [B, T], or [B, G, T] for
            G texts of each example, such as a query and its passages.

    Returns:
        Embeddings [B, E] or [B, G, E].

    Example:

    ```python
    model = BertSentenceEncoder.from_pretrained("sentence-transformers/all-MiniLM-L6-v2")
    embeddings = model.encode(["Where can I moor a boat?", "A landing stage is below the bridge."])
    ```
    """

    kind = Embedder

    def __init__(
        self,
        config: BertConfig,
        *,
        embedding: EmbeddingConfig = _DEFAULT,
        name: str = "sentence_encoder",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.sentence = self.head(SentenceHead, embedding, name="sentence")
        self.build()

    @property
    def embedding(self) -> EmbeddingConfig:
        """How an embedding is computed from hidden states."""
        return self.sentence.embedding

    @property
    def embedding_size(self) -> int:
        """The size E of an embedding."""
        return self.embedding.sizes(self.config.hidden_size)[-1]

    def build(self, input_shape: tuple | None = None):
        super().build()
        self.sentence.build((None, None, self.config.hidden_size))

    def call(self, inputs: dict, training: bool = False):
        is_grouped = len(inputs["input_ids"].shape) == 3
        rows = flat_rows(inputs) if is_grouped else inputs
        hidden_XTD = self.encoder(rows, training=training)["sequence_output"]
        vectors_XE = self.sentence(hidden_XTD, rows["input_mask"])
        if not is_grouped:
            return vectors_XE
        num_texts = ops.shape(inputs["input_ids"])[1]
        return ops.reshape(vectors_XE, (-1, num_texts, self.embedding_size))

    @suggest_keyword_names
    def encode(
        self,
        texts: Sequence[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        batch_size: int = 32,
        dimensions: int | None = None,
    ) -> np.ndarray:
        """Returns the embeddings of texts.

        A text with more tokens than the metadata's `max_length` is truncated. Texts of similar
        length share a batch.

        Args:
            texts: N texts.
            prompt: A text to put before each text, such as "query: ".
            prompt_name: The name of a prompt in `embedding.prompts`. Without a prompt, the default
                prompt of the model is used; `prompt=""` omits it.
            batch_size: Texts per batch.
            dimensions: The number of values to keep of each embedding, for models that were trained
                with a Matryoshka loss. If the model scales embeddings to length 1, the kept values
                are scaled again.

        Returns:
            Float32 [N, E] or [N, dimensions], in the order of `texts`.
        """
        preprocessor = self._text_kind().preprocessor
        (texts,) = checked_columns(texts)
        check_count("batch_size", batch_size)
        check_count("dimensions", dimensions)
        size = self.embedding_size
        if dimensions is not None and dimensions > size:
            raise InputError(f"dimensions is {dimensions}; expected 1 to {size}")
        prompt = self.embedding.prompt(prompt, name=prompt_name)
        forward, vectors_NE = self._forward, np.empty((len(texts), size), np.float32)
        is_silent = len(texts) <= NUM_SILENT
        with tqdm(desc="encode", unit=" texts", total=len(texts), disable=is_silent) as bar:
            for start in range(0, len(texts), CHUNK_SIZE):
                chunk = [prompt + text for text in texts[start : start + CHUNK_SIZE]]
                encoded = preprocessor.encoded([chunk])
                for rows in longest_first_batches(encoded.full_lengths, batch_size=batch_size):
                    (inputs,) = encoded.batch(rows)
                    vectors_NE[start + rows] = forward(inputs)
                    bar.update(len(rows))
        if dimensions is None:
            return vectors_NE
        vectors_NE = np.ascontiguousarray(vectors_NE[:, :dimensions])
        if self.embedding.is_normalized:
            lengths_N1 = np.linalg.norm(vectors_NE, axis=1, keepdims=True)
            vectors_NE /= np.maximum(lengths_N1, np.finfo(np.float32).tiny)
        return vectors_NE

    @cached_property
    def _forward(self) -> Callable:
        return compile_call(partial(self, training=False), self, names=SEQUENCE_FEATURES)

    @classmethod
    def from_metadata(cls, metadata: ModelMetadata, **options):
        return super().from_metadata(metadata, embedding=metadata.embedding or _DEFAULT, **options)

    def new_metadata(self) -> ModelMetadata:
        return dataclasses.replace(super().new_metadata(), embedding=self.embedding)

    def get_config(self):
        return {**super().get_config(), "embedding": self.embedding.to_dict()}
