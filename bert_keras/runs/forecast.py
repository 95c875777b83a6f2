"""A recipe and records in; steps, tokens, time, memory and disk of the whole run out, measured."""

import os
import resource
import statistics
import sys
import time
from datetime import timedelta

import keras
import tensorflow as tf

from bert_keras.data.records import readable_records
from bert_keras.distribution.replicas import number
from bert_keras.runs.distillation import Distillation
from bert_keras.runs.pretrain import compiled_pretrainer
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.recipes import PretrainRecipe
from bert_keras.storage import size_told
from bert_keras.training.loop import spread

WARMUP_STEPS, MEASURED_STEPS = 2, 10


def forecast(
    recipe: PretrainRecipe,
    *,
    records: str | os.PathLike,
    start: str | os.PathLike | None = None,
    distillation: Distillation | None = None,
) -> str:
    """What `pretrain` with the same arguments will take on this machine, of ten measured steps; the
    held-out records and the saving of states not counted. Writes nothing.
    """
    inputs = PretrainInputs(recipe, records=records, start=start, distillation=distillation)
    model = compiled_pretrainer(inputs, resumes=False)
    first_step = number(model.optimizer.iterations) if model.optimizer.built else 0
    with readable_records():
        first, *measured = step_seconds(model, inputs.training_batches())
    seconds = statistics.median(measured)
    steps = recipe.end - first_step
    sequences = steps * recipe.batch_size
    state = sum(weight.value.dtype.size * weight.value.shape.num_elements() for weight in
                (*model.weights, *model.optimizer.variables))  # fmt: skip
    replicas = model.distribute_strategy.num_replicas_in_sync
    rows = {
        "model": f"{model.count_params():,} parameters, {inputs.card.model}",
        "records": f"{len(inputs.files):,} files of {inputs.schema}",
        "steps": f"{steps:,} of {recipe.batch_size:,} sequences on {replicas} replicas",
        "tokens": f"{sequences * inputs.tokens_per_example / 1e6:,.1f} million in {sequences:,} "
        "sequences, padding not counted",
        "a step": f"{seconds:.3g} s, the median of {MEASURED_STEPS} (from "
        f"{min(measured):.3g} to {max(measured):.3g}); "
        f"the first, with tracing, {first:.3g} s",
        "time": f"{timedelta(seconds=round(steps * seconds))} (hours:minutes:seconds), "
        f"{recipe.batch_size / seconds:,.0f} sequences a second",
        "memory": _memory(),
        "disk": f"{size_told(state)} a state, of which {recipe.keep_checkpoints} are kept",
    }
    return "\n".join(f"{name:<12}{told}" for name, told in rows.items())


def step_seconds(model: keras.Model, batches: tf.data.Dataset) -> list[float]:
    """Of a compiled model: the first step's, in which it is traced, then MEASURED_STEPS of those
    that follow."""
    clock = _Clock()
    model.fit(
        spread(batches),
        steps_per_epoch=WARMUP_STEPS + MEASURED_STEPS,
        shuffle=False,
        verbose=0,
        callbacks=[clock],
    )
    return [clock.seconds[0], *clock.seconds[WARMUP_STEPS:]]


class _Clock(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_train_batch_begin(self, batch, logs=None):
        self.begin = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        number(self.model.optimizer.gradient_norm)  # waits for the step
        self.seconds.append(time.perf_counter() - self.begin)


def _memory() -> str:
    gpus = tf.config.list_logical_devices("GPU")
    if gpus:
        peak = tf.config.experimental.get_memory_info(gpus[0].name.removeprefix("/device:"))["peak"]
        return f"{size_told(peak)} at most on each GPU"
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return f"{size_told(peak)} at most in this process"
