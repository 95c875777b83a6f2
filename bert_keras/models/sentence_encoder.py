"""Defines the sentence encoder, which computes one embedding for each text."""

import dataclasses

import keras
from keras import ops

from bert_keras.architectures import SENTENCE_ENCODER
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.config import BertConfig
from bert_keras.embedding import EmbeddingConfig
from bert_keras.layers.sentence import SentenceHead
from bert_keras.models.task_models import TaskModel, flat_rows

_DEFAULT = EmbeddingConfig()


@keras.saving.register_keras_serializable(package="bert_keras")
class BertSentenceEncoder(TaskModel):
    """Computes one embedding for each text, for search, clustering and similarity.

    Reimers and Gurevych 2019. `from_pretrained` reads the folders of sentence-transformers with
    their pooling, dense layers and prompts. From any other checkpoint the embedding is the mean of
    the hidden states, scaled to length 1, unless `embedding` says otherwise.

    Args:
        config: The hyperparameters of the encoder.
        embedding: How an embedding is computed from hidden states.
        name: The name of the Keras model.

    Call arguments:
        inputs: A dict of `input_ids`, `input_mask` and `segment_ids`, int [B, T], or [B, G, T] for
            G texts of each example, such as a query and its passages. `pooling_mask` of the same
            shape is optional: 1 for the tokens that are pooled; by default all but padding.

    Returns:
        Embeddings [B, E] or [B, G, E].

    Example:

    ```python
    model = BertSentenceEncoder.from_pretrained("all-MiniLM-L6-v2")
    ```
    """

    architecture = SENTENCE_ENCODER

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

    def build(self, input_shape=None):
        super().build()
        self.sentence.build((None, None, self.config.hidden_size))

    def call(self, inputs, training=False):
        is_grouped = len(inputs["input_ids"].shape) == 3
        rows = flat_rows(inputs) if is_grouped else inputs
        hidden_XTD = self.encoder(rows, training=training)["sequence_output"]
        vectors_XE = self.sentence(hidden_XTD, rows["input_mask"], rows.get("pooling_mask"))
        if not is_grouped:
            return vectors_XE
        num_texts = ops.shape(inputs["input_ids"])[1]
        return ops.reshape(vectors_XE, (-1, num_texts, self.embedding_size))

    @classmethod
    def from_metadata(cls, metadata: ModelMetadata):
        return cls(metadata.config, embedding=metadata.embedding or _DEFAULT)

    def new_metadata(self) -> ModelMetadata:
        """Returns the metadata of a model that was not loaded from a checkpoint."""
        return dataclasses.replace(super().new_metadata(), embedding=self.embedding)

    def get_config(self):
        return {**super().get_config(), "embedding": self.embedding.to_dict()}
