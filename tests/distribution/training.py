"""A small pretrainer and ten uneven batches; as a script, the training of one worker.

TF_CONFIG=... python tests/distribution/training.py OUTPUT.npz PARTS
"""

import json
import os
import socket
import sys

import numpy as np

CONFIG = {
    **{"vocab_size": 50, "hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_positions": 16},
    **{"intermediate_size": 32, "hidden_dropout_rate": 0.0, "attention_dropout_rate": 0.0},
    "initializer_stddev": 0.2,
}
MODERN = {
    **{"num_layers": 2, "norm_position": "pre", "position_kind": "rotary", "is_gated": True},
    **{"has_biases": False, "ties_decoder": False, "local_window": 4, "global_every": 2},
}
NUM_STEPS = 10


def batches(size=16, length=12, predictions=4):
    """The rows of the first half have one prediction in total, so the counts of replicas differ."""
    random = np.random.default_rng(0)
    for _ in range(NUM_STEPS):
        mask = np.arange(length) < random.integers(4, length + 1, size)[:, None]
        counts = random.integers(0, predictions + 1, size)
        counts[: size // 2] = 0
        counts[0] = 1
        yield (
            {
                "input_ids": random.integers(1, 50, (size, length)) * mask,
                "input_mask": mask.astype("int32"),
                "segment_ids": (np.arange(length) > 5)[None].repeat(size, 0).astype("int32"),
                "masked_lm_positions": random.integers(1, 4, (size, predictions)),
            },
            {
                "masked_lm": random.integers(1, 50, (size, predictions)),
                "next_sentence": random.integers(0, 2, size),
            },
            {
                "masked_lm": (np.arange(predictions) < counts[:, None]).astype("float32"),
                "next_sentence": np.ones(size, "float32"),
            },
        )


def data():
    import tensorflow as tf

    signature = tf.nest.map_structure(lambda a: tf.TensorSpec(a.shape, a.dtype), next(batches()))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
    return dataset.apply(tf.data.experimental.assert_cardinality(NUM_STEPS)).with_options(options)


def trained(strategy, *, changes=(), parts=1, optimizer=None, recomputes=False, **compiling):
    """Returns the weights after ten steps, by path, and the logs of `fit`."""
    import keras

    from bert_keras import BertConfig
    from bert_keras.models.pretrainer import BertPretrainer
    from bert_keras.training.losses import pretraining_losses, pretraining_metrics
    from bert_keras.training.optimizer import BertAdamW

    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = BertPretrainer(BertConfig(**CONFIG | dict(changes)))
        model.encoder.gradient_checkpointing = recomputes
        model.compile(
            optimizer or BertAdamW(2e-4),  # the key biases, of gradient 0, drift by rounding
            loss=pretraining_losses(),
            weighted_metrics=pretraining_metrics(),
            gradient_accumulation_steps=parts,
            **compiling,
        )
    logs = model.fit(data(), epochs=1, shuffle=False, verbose=0).history
    weights = {weight.path: np.array(weight) for weight in model.trainable_variables}
    return weights, {name: values[0] for name, values in logs.items()}


def two_workers() -> list[dict[str, str]]:
    """Returns the environments of two workers on this machine."""
    with socket.socket() as first, socket.socket() as second:
        sockets = (first, second)
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    environments = []
    for index in range(2):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environments.append(os.environ | {"TF_CONFIG": json.dumps(task)})
    return environments


def main(output: str, parts: str) -> None:
    from bert_keras.distribution.strategy import named_strategy

    weights, logs = trained(named_strategy("auto"), parts=int(parts))
    np.savez(output, **weights, **{f"log {name}": value for name, value in logs.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
