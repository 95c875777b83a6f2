"""Estimates the steps, tokens, time, memory and disk space of a pretraining from measured steps."""

import resource
import statistics
import sys
import time
from datetime import timedelta

import keras
import tensorflow as tf

from bert_keras.data.record_file import readable_records
from bert_keras.errors import counted
from bert_keras.files import StrPath, readable_size
from bert_keras.runs.distillation import Distillation
from bert_keras.runs.pretrain import compiled_pretrainer
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.recipes import PretrainRecipe
from bert_keras.training.loop import shard_rows

WARMUP_STEPS, MEASURED_STEPS = 2, 10


def forecast(
    recipe: PretrainRecipe,
    *,
    records: StrPath,
    start: StrPath | None = None,
    teacher: Distillation | None = None,
) -> str:
    """Returns a table of what `pretrain` with the same arguments needs on this machine.

    The time does not include the scoring of held-out records and the saving of states. Writes no
    files.
    """
    inputs = PretrainInputs(recipe, records=records, start=start, distillation=teacher)
    model = compiled_pretrainer(inputs)
    optimizer = model.optimizer
    steps = recipe.end - (optimizer.iterations.numpy().item() if optimizer.built else 0)
    with readable_records():
        first, *measured = step_seconds(model, inputs.training_batches())
    seconds, sequences = statistics.median(measured), steps * recipe.batch_size
    values = (weight.value for weight in (*model.weights, *optimizer.variables))
    state = sum(value.dtype.size * value.shape.num_elements() for value in values)
    replicas = model.distribute_strategy.num_replicas_in_sync
    rows = {
        "model": f"{model.count_params():,} parameters, {inputs.metadata.model}",
        "records": f"{counted(len(inputs.files), 'file')} of {inputs.schema}",
        "steps": f"{steps:,} of {counted(recipe.batch_size, 'sequence')} on "
        f"{counted(replicas, 'replica')}",
        "tokens": f"{sequences * inputs.tokens_per_example / 1e6:,.1f} million in {sequences:,} "
        "sequences, without padding",
        "step time": f"{seconds:.3g} s, the median of {MEASURED_STEPS} steps (from "
        f"{min(measured):.3g} to {max(measured):.3g}); first step, with tracing: {first:.3g} s",
        "time": f"{timedelta(seconds=round(steps * seconds))} (hours:minutes:seconds), "
        f"{recipe.batch_size / seconds:,.0f} sequences per second",
        "memory": _memory(),
        "disk": f"{readable_size(state)} for each of {recipe.keep_checkpoints} saved states",
    }
    return "\n".join(f"{name:<12}{value}" for name, value in rows.items())


def step_seconds(model: keras.Model, batches: tf.data.Dataset) -> list[float]:
    """Returns the seconds of the first step, with tracing, and of `MEASURED_STEPS` later steps."""
    times = []

    def measure(batch, logs):
        model.optimizer.gradient_norm.numpy().item()  # blocks until the step has ended
        times.append(time.perf_counter())

    clock = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: times.append(time.perf_counter()),
        on_train_batch_end=measure,
    )
    model.fit(
        shard_rows(batches),
        steps_per_epoch=WARMUP_STEPS + MEASURED_STEPS,
        shuffle=False,
        verbose=0,
        callbacks=[clock],
    )
    seconds = [end - start for start, end in zip(times[::2], times[1::2], strict=True)]
    return [seconds[0], *seconds[WARMUP_STEPS:]]


def _memory() -> str:
    gpus = tf.config.list_logical_devices("GPU")
    if gpus:
        peak = tf.config.experimental.get_memory_info(gpus[0].name.removeprefix("/device:"))["peak"]
        return f"at most {readable_size(peak)} on each GPU"
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return f"at most {readable_size(peak)} in this process"
