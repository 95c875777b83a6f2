"""The pretraining models: a masked-LM head, with or without a next-sentence head."""

from typing import Any

import keras
import numpy as np
from keras import ops

from bert_keras.config import BertConfig
from bert_keras.errors import InputError, quoted
from bert_keras.kinds.masked_lm import MaskedLM, Pretraining
from bert_keras.layers.heads import ClassificationHead, MaskedLMHead
from bert_keras.layers.primitives import states_at
from bert_keras.models.task_models import TaskModel
from bert_keras.text.columns import checked_columns, columns_of, is_text


class MaskedLMModel(TaskModel):
    """The base class of the models with a masked-LM head."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.masked_lm = self.head(
            MaskedLMHead,
            config.vocab_size,
            activation=config.masked_lm_activation or config.activation,
            layer_norm_epsilon=config.masked_lm_epsilon or config.layer_norm_epsilon,
            has_biases=config.has_biases,
            ties_decoder=config.ties_decoder,
            name="masked_lm",
        )

    def call(self, inputs: dict, training: bool = False):
        return self.logits(self.encoder(inputs, training=training), inputs, training=training)

    def logits(self, encoded: dict, inputs: dict, training: bool = False) -> dict:
        """Returns the logits for `encoded`, the outputs of the encoder for `inputs`."""
        positions, table = inputs["masked_lm_positions"], self.encoder.token_table
        return {"masked_lm": self.masked_lm(encoded["sequence_output"], positions, table)}

    def predict(self, x: Any, *args, **kwargs):
        """Returns `tokens` and `probabilities` of each [MASK] in texts; else predicts as Keras."""
        if self.tokenizer is None or not is_text(x):
            return super().predict(x, *args, **kwargs)
        (texts,) = columns = checked_columns(*columns_of(x))
        for text in texts:
            if "[MASK]" not in text:
                raise InputError(f"{quoted(text)} has no [MASK] in place of a word to predict")
        kind, outputs = self.kind(self.stored_metadata(None), self.tokenizer), []
        rows = kind.encoded(columns)
        for index in range(len(rows)):
            logits_PV = self(*rows.batch(np.array([index])), training=False)["masked_lm"][0]
            outputs.append({"masked_lm": np.asarray(ops.cast(logits_PV, "float32"))})
        return kind.answers(columns, rows, outputs)


@keras.saving.register_keras_serializable(package="bert_keras")
class BertMaskedLM(MaskedLMModel):
    """The encoder with a masked-LM head, without next-sentence prediction (Liu et al. 2019).

    With a causal configuration it is a left-to-right language model: the logits at a position
    predict the following token.

    Args:
        config: The hyperparameters of the encoder.
        name: The name of the Keras model.

    Call arguments:
        inputs: The arrays that `BertEncoder` takes, and `masked_lm_positions` int [B, P].

    Returns:
        A dict with `masked_lm`, logits [B, P, V].

    Example:

    ```python
    model = BertMaskedLM.from_pretrained("google-bert/bert-base-uncased")
    print(model.predict(["a [MASK] film"])[0]["tokens"])
    ```
    """

    kind = MaskedLM

    def __init__(self, config: BertConfig, *, name: str = "masked_lm_model", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.build()


@keras.saving.register_keras_serializable(package="bert_keras")
class BertPretrainer(MaskedLMModel):
    """The encoder with the heads of pretraining: masked LM and next sentence.

    Source: Devlin et al. 2018, section 3.1. The configuration must not be causal, because its
    `[CLS]` would attend only to itself.

    Args:
        config: The hyperparameters of the encoder.
        name: The name of the Keras model.

    Call arguments:
        inputs: The arrays that `BertEncoder` takes, and `masked_lm_positions` int [B, P]. If
            several sequences share a row, also `next_sentence_positions` int [B, S], the positions
            of their `[CLS]`.

    Returns:
        A dict: `masked_lm`, logits [B, P, V], and `next_sentence`, logits [B, 2] or, if several
        sequences share a row, [B, S, 2]. Class 1 means that the second text is a random one, as in
        the training records.

    Example:

    ```python
    model = BertPretrainer(preset("tiny", vocab_size=4_000))
    ```
    """

    kind = Pretraining

    def __init__(self, config: BertConfig, *, name: str = "pretrainer", **kwargs):
        if config.is_causal or config.pooling != "cls":
            found = f"is_causal is {config.is_causal} and pooling is {config.pooling!r}"
            raise InputError(f"{found}; next-sentence prediction needs False and 'cls'")
        super().__init__(config, name=name, **kwargs)
        self.next_sentence = self.head(
            ClassificationHead, 2, dropout_rate=0.0, name="next_sentence"
        )
        self.build()

    def logits(self, encoded: dict, inputs: dict, training: bool = False) -> dict:
        if "next_sentence_positions" in inputs:
            positions = inputs["next_sentence_positions"]
            pooled_XD = self.encoder.pooler(states_at(encoded["sequence_output"], positions))
            labels_X2 = self.next_sentence(pooled_XD, training=training)
            next_sentence = ops.reshape(labels_X2, (-1, ops.shape(positions)[1], 2))
        else:
            next_sentence = self.next_sentence(encoded["pooled_output"], training=training)
        return super().logits(encoded, inputs) | {"next_sentence": next_sentence}
