"""Configures AdamW of Keras as in BERT: no decay of biases and norms, clipped gradients."""

import keras
from train_batches import MAX_NORM, WEIGHT_DECAY


def keras_adamw(rate) -> keras.optimizers.Optimizer:
    optimizer = keras.optimizers.AdamW(
        rate, weight_decay=WEIGHT_DECAY, epsilon=1e-6, global_clipnorm=MAX_NORM
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer
