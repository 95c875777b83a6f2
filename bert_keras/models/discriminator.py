"""Defines the discriminator of ELECTRA, which detects replaced tokens."""

import keras

from bert_keras.architectures import DISCRIMINATOR
from bert_keras.config import BertConfig
from bert_keras.layers.heads import ReplacedTokenHead
from bert_keras.models.task_models import TaskModel


@keras.saving.register_keras_serializable(package="bert_keras")
class BertDiscriminator(TaskModel):
    """Predicts for each token whether it was replaced (Clark et al. 2020).

    Args:
        config: The hyperparameters of the encoder.
        name: The name of the Keras model.

    Call arguments:
        inputs: A dict of `input_ids`, `input_mask` and `segment_ids`, int [B, T].

    Returns:
        A dict with `replaced_token`, logits [B, T], which are above 0 for a replaced token.

    Example:

    ```python
    model = BertDiscriminator(preset("electra-tiny", vocab_size=4_000))
    ```
    """

    architecture = DISCRIMINATOR

    def __init__(self, config: BertConfig, *, name: str = "discriminator", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.replaced_token = self.head(
            ReplacedTokenHead, activation=config.activation, name="replaced_token"
        )
        self.build()

    def call(self, inputs, training=False):
        hidden_BTD = self.encoder(inputs, training=training)["sequence_output"]
        return {"replaced_token": self.replaced_token(hidden_BTD)}
