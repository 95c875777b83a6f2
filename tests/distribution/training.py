"""A small pretrainer and ten uneven batches; as a script, the training of one worker.

TF_CONFIG=... python tests/distribution/training.py WEIGHTS.npz RUN NUM_STEPS [SIGNAL]
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np

from bert_keras.config import BertConfig
from bert_keras.data.batches import Batches
from bert_keras.distribution import strategy as strategies
from bert_keras.models.pretrainer import BertPretrainer
from bert_keras.training import sentence_losses
from bert_keras.training.callbacks import FitSettings
from bert_keras.training.loop import fit_resumable, for_devices
from bert_keras.training.losses import pretraining_losses, pretraining_metrics
from bert_keras.training.optimizer import BertAdamW

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


def batches_to_continue():
    """Returns the same batches, and reading can start at any of them."""
    spec = keras.tree.map_structure(keras.ops.convert_to_tensor, next(batches()))
    return Batches(lambda first: islice(batches(), first, None), spec=spec, num_batches=NUM_STEPS)


RANKING = sentence_losses.MultipleNegativesRankingLoss()
LOSSES = {
    "ranking": RANKING,
    "cosent": sentence_losses.CoSENTLoss(),
    "matryoshka": sentence_losses.MatryoshkaLoss(RANKING, dimensions=[16, 4]),
}
NUM_ROWS = 21  # in batches of 8; of the last 5 rows, the last of 4 replicas has none


def rows(name, *, length=6):
    random = np.random.default_rng(0)
    shape = NUM_ROWS, 2 if name == "cosent" else 3, length
    ids = random.integers(1, 50, shape, dtype="int32")
    mask = (np.arange(length) < random.integers(2, length + 1, ids.shape[:2])[..., None]) * 1
    x = {"input_ids": ids * mask, "input_mask": mask, "segment_ids": 0 * mask}
    return {key: array.astype("int32") for key, array in x.items()}, random.random(NUM_ROWS)


def data():
    return for_devices(batches_to_continue())


def compiled(strategy, *, changes=(), parts=1, optimizer=None, recomputes=False, **compiling):
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
    return model


def weights_of(model) -> dict[str, np.ndarray]:
    return {weight.path: np.array(weight) for weight in model.trainable_variables}


def trained(strategy, **options):
    """Returns the weights after ten steps, by path, and the logs of `fit`."""
    model = compiled(strategy, **options)
    logs = model.fit(data(), epochs=1, shuffle=False, verbose=0).history
    return weights_of(model), {name: values[0] for name, values in logs.items()}


def continued(strategy, output: Path, *, num_steps: int, board=(), **options):
    """Returns the step at which a run starts, or continues, and its weights at the last step."""
    lengths = {"num_steps": num_steps, "steps_per_epoch": 2, "epochs_per_checkpoint": 1}
    rows = {"batch_size": 16, "tokens_per_example": 12}
    settings = FitSettings(stage="test", output=output, keep_checkpoints=1, **lengths, **rows)
    with strategy.scope():
        model = compiled(strategy, **options)
        first_step = fit_resumable(model, batches_to_continue, settings, board=board)
    return first_step, weights_of(model)


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


def workers_of_jax(number: int, *, devices: int = 2) -> list[dict[str, str]]:
    """Returns the environments of processes on this machine that train together."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    flags |= {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "JAX_COORDINATOR_ADDRESS": address}
    flags["JAX_NUM_PROCESSES"] = str(number)
    return [os.environ | flags | {"JAX_PROCESS_ID": str(index)} for index in range(number)]


def run_workers(environments, *arguments) -> list[tuple[int, str]]:
    """Runs Python in all environments; {index} is the environment's. Returns codes and stderr."""
    workers = []
    for index, environment in enumerate(environments):
        command = [sys.executable, *(str(each).format(index=index) for each in arguments)]
        options = {"stderr": subprocess.PIPE, "env": environment, "text": True}
        workers.append(subprocess.Popen(command, **options))
    notes = [worker.communicate(timeout=300)[1] for worker in workers]
    return [(worker.returncode, note) for worker, note in zip(workers, notes, strict=True)]


def main(output: str, run: str, num_steps: str, signal_name: str = "") -> None:
    def end(epoch, logs):
        if signal_name and epoch == 2:
            if os.environ["JAX_PROCESS_ID"] == "1":
                os.kill(os.getpid(), signal.Signals[signal_name])
            time.sleep(3)  # JAX tells the other processes within a second

    options = {"board": [keras.callbacks.LambdaCallback(on_epoch_end=end)]}
    if keras.config.backend() == "tensorflow":
        strategy = strategies.named_strategy("auto")
        options["parts"] = 2
    else:
        strategies.HEARTBEAT_TIMEOUT = 5
        strategy = SimpleNamespace(scope=strategies.strategy_scope)
        options["changes"] = {"hidden_dropout_rate": 0.2}
    np.savez(output, **continued(strategy, Path(run), num_steps=int(num_steps), **options)[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
