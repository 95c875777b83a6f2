"""Defines the models for classification, multiple choice, tagging and question answering."""

from collections.abc import Callable
from typing import TypeVar

import keras
from keras import ops

from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.distribution.model import GlobalBatchModel
from bert_keras.errors import InputError
from bert_keras.kinds.choice import Choice
from bert_keras.kinds.classifier import Classifier
from bert_keras.kinds.span import Span
from bert_keras.kinds.tagger import Tagger
from bert_keras.layers.embeddings import SharedEmbeddings
from bert_keras.layers.heads import ClassificationHead, SpanHead, TokenLabelsHead
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.pretrained import Pretrained
from bert_keras.models.text_inputs import TextInputs

Head = TypeVar("Head", bound=keras.layers.Layer)


class TaskModel(GlobalBatchModel, Pretrained):
    """The base class of models that consist of an encoder and heads.

    A subclass defines `call`, one attribute for each name in `kind.heads` and the other attributes
    of `Pretrained`. Its constructor ends with `self.build()`. Its own subclasses add layers in
    `build`: they create and build them before `super().build()`. A pooler that no head reads is not
    trained. `embeddings` are shared with another encoder.
    """

    def __init__(self, config: BertConfig, *, embeddings: SharedEmbeddings | None = None, **kwargs):
        super().__init__(**kwargs)
        if self.kind.reads_pooled_output and not config.has_pooler:
            raise InputError(f"has_pooler is False, but {self.kind.model} reads the pooled output")
        self.config = config
        self.encoder = BertEncoder(config, embeddings=embeddings, dtype=self.dtype_policy)
        if self.encoder.pooler is not None:
            self.encoder.pooler.trainable = self.kind.reads_pooled_output

    @property
    def encoders(self) -> list[BertEncoder]:
        """All encoders of the model."""
        return [self.encoder]

    def enable_lora(self, rank: int) -> None:
        """Freezes the embeddings and blocks, and trains updates of the query and value kernels.

        Call it before `compile`. A saved or exported model has the updates added to its kernels, so
        after loading it, all weights are trainable (Hu et al. 2021, "LoRA", sections 4.1 and 5.1).

        Args:
            rank: The rank of the updates, such as 8.
        """
        for encoder in self.encoders:
            for layer in (encoder.embeddings, *encoder.blocks):
                for weight in layer.weights:
                    weight.trainable = False
            for block in encoder.blocks:
                block.attention.query_dense.enable_lora(rank)
                block.attention.value_dense.enable_lora(rank)

    def head(self, layer: Callable[..., Head], *args, **options) -> Head:
        """Builds a head of the class `layer` with the initializer and the dtype of the model."""
        stddev = self.config.initializer_stddev
        return layer(*args, initializer_stddev=stddev, dtype=self.dtype_policy, **options)

    def token_head(self, layer: Callable[..., Head], *args, **options) -> Head:
        """Same as `head`, for a head that reads tokens and may begin with a LayerNorm."""
        if self.config.has_head_norm:
            options["activation"] = self.config.pooler_activation or self.config.activation
            options["layer_norm_epsilon"] = self.config.layer_norm_epsilon
            options["has_biases"] = self.config.has_biases
        return self.head(layer, *args, **options)

    def build(self, input_shape: tuple | None = None):
        self.encoder.build()
        for name in self.kind.heads:
            # The masked-LM head uses the token embedding table as its decoder.
            table = (None, self.encoder.token_table.shape) if name == "masked_lm" else ()
            getattr(self, name).build((None, None, self.config.hidden_size), *table)


def flat_rows(inputs: dict) -> dict:
    """Reshapes the arrays [B, C, T] of `inputs` to [B x C, T] for the encoder; drops others."""
    length = ops.shape(inputs["input_ids"])[2]
    arrays = {name: array for name, array in inputs.items() if len(array.shape) == 3}
    return {name: ops.reshape(array, (-1, length)) for name, array in arrays.items()}


@keras.saving.register_keras_serializable(package="bert_keras")
class BertClassifier(TextInputs, TaskModel):
    """Classifies texts or text pairs, or predicts numbers (Devlin et al. 2018, section 4.1).

    `fit`, `evaluate` and `predict` also take texts; a tuple of two columns means pairs.

    Args:
        config: The hyperparameters of the encoder.
        num_labels: The number of labels.
        dropout_rate: Dropout before the head; by default `config.dropout_of_heads`.
        name: The name of the Keras model.

    Call arguments:
        inputs: A dict of `input_ids`, `input_mask` and `segment_ids`, int [B, T].

    Returns:
        Logits [B, num_labels].

    Example:

    ```python
    model = BertClassifier.from_pretrained("films")
    model.fit(["a good film", "two hours of nothing"], ["good", "bad"], epochs=3)
    print(model.predict(["a fine film"]))
    ```
    """

    kind = Classifier
    arguments = ("num_labels", "dropout_rate")

    def __init__(
        self,
        config: BertConfig,
        *,
        num_labels: int,
        dropout_rate: float | None = None,
        name: str = "classifier",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.num_labels = num_labels
        self.dropout_rate = config.dropout_of_heads if dropout_rate is None else dropout_rate
        self.classification = self.head(
            ClassificationHead, num_labels, dropout_rate=self.dropout_rate, name="classification"
        )
        self.build()

    def call(self, inputs: dict, training: bool = False):
        encoded = self.encoder(inputs, training=training)
        return self.classification(encoded["pooled_output"], training=training)

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None):
        """Builds the model; `window_pooling`, an argument until 0.2.0, is ignored."""
        arguments = {name: value for name, value in config.items() if name != "window_pooling"}
        return super().from_config(arguments, custom_objects)

    @classmethod
    def from_metadata(cls, metadata: ModelMetadata, **options):
        """Builds the model; refuses one that 0.2.0 fine-tuned on windows of long texts."""
        long_texts = metadata.task.get("long_texts")
        if long_texts in ("mean", "max"):
            raise InputError(f"long_texts={long_texts} was removed; fine-tune the model again")
        return super().from_metadata(metadata, **options)


@keras.saving.register_keras_serializable(package="bert_keras")
class BertMultipleChoice(TextInputs, TaskModel):
    """Chooses one of several endings or answers (Devlin et al. 2018, section 4.4).

    Args:
        config: The hyperparameters of the encoder.
        dropout_rate: Dropout before the head; by default `config.dropout_of_heads`.
        name: The name of the Keras model.

    `fit((contexts, choices_0, choices_1, ...), labels)` takes texts and, for each context, the
    index of the right choice.

    Call arguments:
        inputs: A dict of `input_ids`, `input_mask` and `segment_ids`, int [B, C, T]: each of the C
            choices, packed with the same context. C may differ from call to call.

    Returns:
        Logits [B, C].

    Example:

    ```python
    model = BertMultipleChoice.from_pretrained("google-bert/bert-base-uncased")
    model.fit((["a film of"] * 8, ["two hours"] * 8, ["good bad"] * 8), [0] * 8)
    print(model.predict((["a film of"], ["two hours"], ["good bad"]))[0]["choice"])
    ```
    """

    kind = Choice
    arguments = ("dropout_rate",)

    def __init__(
        self,
        config: BertConfig,
        *,
        dropout_rate: float | None = None,
        name: str = "multiple_choice_model",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.dropout_rate = config.dropout_of_heads if dropout_rate is None else dropout_rate
        self.multiple_choice = self.head(
            ClassificationHead, 1, dropout_rate=self.dropout_rate, name="multiple_choice"
        )
        self.build()

    def call(self, inputs: dict, training: bool = False):
        shape = tuple(inputs["input_ids"].shape)
        if len(shape) != 3:
            raise InputError(f"input_ids has the shape {shape}; expected examples, choices, tokens")
        choices = ops.shape(inputs["input_ids"])[1]
        pooled_XD = self.encoder(flat_rows(inputs), training=training)["pooled_output"]
        return ops.reshape(self.multiple_choice(pooled_XD, training=training), (-1, choices))


@keras.saving.register_keras_serializable(package="bert_keras")
class BertTokenClassifier(TextInputs, TaskModel):
    """Predicts a label for each token, for named entity recognition.

    Source: Devlin et al. 2018, section 5.3.

    `fit(texts, tags)` takes lists of words or texts, and lists with one tag for each word.

    Args:
        config: The hyperparameters of the encoder.
        num_labels: The number of labels.
        dropout_rate: Dropout before the head; by default `config.dropout_of_heads`.
        name: The name of the Keras model.

    Call arguments:
        inputs: A dict of `input_ids`, `input_mask` and `segment_ids`, int [B, T].

    Returns:
        Logits [B, T, num_labels].

    Example:

    ```python
    model = BertTokenClassifier.from_pretrained(
        "google-bert/bert-base-cased", labels=["O", "B-PER", "I-PER"]
    )
    model.fit([["Anna", "won", "."], ["It", "rains", "."]], [["B-PER", "O", "O"], ["O"] * 3])
    ```
    """

    kind = Tagger
    arguments = ("num_labels", "dropout_rate")

    def __init__(
        self,
        config: BertConfig,
        *,
        num_labels: int,
        dropout_rate: float | None = None,
        name: str = "token_classifier",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.num_labels = num_labels
        self.dropout_rate = config.dropout_of_heads if dropout_rate is None else dropout_rate
        self.token_labels = self.token_head(
            TokenLabelsHead, num_labels, dropout_rate=self.dropout_rate, name="token_labels"
        )
        self.build()

    def call(self, inputs: dict, training: bool = False):
        hidden_BTD = self.encoder(inputs, training=training)["sequence_output"]
        return self.token_labels(hidden_BTD, training=training)


@keras.saving.register_keras_serializable(package="bert_keras")
class BertQuestionAnswering(TextInputs, TaskModel):
    """Predicts the start and the end of an answer in a passage (Devlin et al. 2018, section 4.2).

    `fit((questions, passages), answers)` takes texts of any length. An answer is (first character,
    text), a dict in SQuAD's form, or None if there is no answer.

    Args:
        config: The hyperparameters of the encoder.
        name: The name of the Keras model.

    Call arguments:
        inputs: A dict of `input_ids`, `input_mask` and `segment_ids`, int [B, T], with the
            question as text A and the passage as text B.

    Returns:
        A dict of logits: `start` [B, T] and `end` [B, T]. With JAX they are -1e9 in columns that
            are padding in every row.

    Example:

    ```python
    model = BertQuestionAnswering.from_pretrained("google-bert/bert-base-uncased")
    texts = ["Where is the pier?"] * 8, ["The pier is at the bridge."] * 8
    model.fit(texts, [(12, "at the bridge")] * 8)
    print(model.predict((["Where is the pier?"], ["The pier is at the bridge."])))
    ```
    """

    kind = Span

    def __init__(self, config: BertConfig, *, name: str = "question_answering", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.span = self.token_head(SpanHead, name="span")
        self.build()

    def call(self, inputs: dict, training: bool = False):
        logits = self.span(self.encoder(inputs, training=training)["sequence_output"])
        if keras.config.backend() != "jax":
            return logits
        # The softmax over a row counts padding. This excludes the padding that batches have with
        # JAX in addition to what the longest row needs.
        is_padding_T = ops.logical_not(ops.any(inputs["input_mask"], axis=0))
        return {name: ops.where(is_padding_T, -1e9, each) for name, each in logits.items()}
