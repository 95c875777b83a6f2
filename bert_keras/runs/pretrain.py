"""Pretrains a model on a folder of records, or estimates the cost of a pretraining run."""

import dataclasses
import math
import os
import resource
import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_keras.checkpoints.pretrained import build_model, save_model
from bert_keras.config import BertConfig
from bert_keras.data.batches import Batches, input_errors
from bert_keras.distribution.strategy import is_chief, num_devices
from bert_keras.errors import counted, suggest_keyword_names
from bert_keras.files import StrPath, readable_size
from bert_keras.models.distiller import Distiller
from bert_keras.models.initial_weights import start_with_local_attention
from bert_keras.models.task_models import TaskModel
from bert_keras.runs import outcome
from bert_keras.runs.distillation import Distillation, check_fit
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.pretraining_tasks import evaluate_pretrainer
from bert_keras.runs.recipes import PretrainRecipe
from bert_keras.runs.settings import first_part, pretrain_settings
from bert_keras.training.callbacks import FitSettings, wait_for
from bert_keras.training.loop import fit_resumable, for_devices
from bert_keras.training.optimizer import OPTIMIZERS, SCHEDULES
from bert_keras.training.states import load_training_state, training_state
from bert_keras.training.tensorboard import NormsByLayer

WARMUP_STEPS, MEASURED_STEPS = 2, 10  # steps that `forecast` trains


@suggest_keyword_names
def pretrain(
    recipe: str | PretrainRecipe,
    *,
    records: StrPath,
    output: StrPath,
    pretrained: StrPath | None = None,
    teacher: StrPath | Distillation | None = None,
    **changes: Any,
) -> outcome.RunResult:
    """Pretrains a model on `records`/train*.tfrecord.

    `bert-keras pretrain` calls this function. It writes `output`/model, logs, checkpoints and
    scores.json. A second call with the same arguments continues an interrupted run. The function
    trains with the distribution strategy in whose scope it is called and with Keras' dtype policy.

    Records of plain ids are masked as the recipe says, with new masks in each epoch. The objective
    "bert" trains only the masked LM on records without next-sentence labels. Files
    held-out*.tfrecord are scored at every checkpoint and at the end.

    Args:
        recipe: The hyperparameters, or the name of a recipe in `recipes`. If its `last_step` ends
            the run before the end of the schedule, the model is saved with its training state.
        records: The folder that `bert-tfrecords build` wrote, or a folder with record files of
            google-research/bert and their vocabulary.
        output: The folder of the run.
        pretrained: A checkpoint of any format, whose size replaces the recipe's size. Heads that
            it lacks start with random weights. With a training state the run continues at its step,
            which `num_steps` includes, and reads the records from their beginning.
        teacher: A model from which to distil. It is not saved.
        **changes: New values of fields of the recipe and the distillation, such as
            `num_steps=20_000` or `temperature=1.5`.

    Returns:
        The scores and the folder of the model. Only the first worker writes files and returns
        scores.

    Raises:
        InputError: An argument is invalid, `output` is another run's, or the training diverges.

    Example:

    ```python
    result = pretrain(
        "demo", records="records", output="runs/tiny", num_steps=4, num_warmup_steps=1
    )
    print(result.scores, result.model)
    ```
    """
    recipe, distillation = pretrain_settings(recipe, teacher=teacher, changes=changes)
    sources = {"records": records, "teacher": distillation}
    inputs = PretrainInputs(recipe, pretrained=pretrained, **sources)
    if (first_recipe := first_part(recipe)) is not None:  # errors before the run claims a folder
        first_inputs = PretrainInputs(first_recipe, pretrained=pretrained, **sources)
        is_causal = (first_inputs.task.is_causal, inputs.task.is_causal)
        check_fit({"is_causal": is_causal}, source="first_changes", remedy="change the objective")
    settings = {"files": inputs.file_states(), "records": os.path.realpath(records)}
    if (starting_point := inputs.starting_point) is not None:
        settings |= {"start": starting_point.path, "start_step": str(starting_point.step)}
    if distillation:
        settings["distillation"] = dataclasses.asdict(distillation)
    settings |= dataclasses.asdict(recipe)
    with outcome.claimed_output(output, settings) as folder:
        scores = outcome.finished_scores(folder)
        if scores is None and first_recipe is not None:
            paths = {"records": records, "output": folder / "first", "pretrained": pretrained}
            model = pretrain(first_recipe, **paths, teacher=distillation).model
            seed = (recipe.seed + 1) % 2**32  # another order of rows
            second = dataclasses.replace(recipe, seed=seed)
            inputs = PretrainInputs(second, pretrained=model, **sources)
        if scores is None:
            scores = _train(inputs, folder)
    return outcome.RunResult(scores, folder / outcome.MODEL)


def _train(inputs: PretrainInputs, output: Path) -> dict:
    """Trains in a claimed output folder; returns the scores as `pretrain` does."""
    recipe = inputs.recipe
    pretrainer = build_pretrainer(inputs)
    model = pretrainer.student if isinstance(pretrainer, Distiller) else pretrainer
    held_out = inputs.held_out_batches()
    settings = FitSettings(
        stage="pretrain",
        output=output,
        num_steps=recipe.end,
        steps_per_epoch=recipe.steps_per_log,
        epochs_per_checkpoint=recipe.logs_per_checkpoint,
        keep_checkpoints=recipe.keep_checkpoints,
        batch_size=recipe.batch_size,
        tokens_per_example=inputs.tokens_per_example,
        flops_per_example=_model_flops(inputs, model),
        max_skipped=recipe.max_skipped,
    )
    board = [NormsByLayer()]
    with input_errors():
        fit_resumable(pretrainer, inputs.training_batches, settings, held_out=held_out, board=board)
        scores = {"parameters": model.count_params(), "steps": recipe.end}
        if held_out is not None:
            scores |= evaluate_pretrainer(model, held_out, task=inputs.task)
        if not is_chief():
            return {}
        scores |= inputs.baselines()
    sections = {"Data": {"records": inputs.records.name}, "Recipe": dataclasses.asdict(recipe)}
    save_model(
        model,
        output / outcome.MODEL,
        metadata=inputs.metadata,
        vocabulary=inputs.vocabulary,
        overwrite=True,  # a run that was killed may have written it
        state=training_state(pretrainer) if recipe.last_step else None,
        sections=sections | {"Scores on held-out records": scores},
    )
    return outcome.write_scores(output, scores)


def _model_flops(inputs: PretrainInputs, model: TaskModel) -> int:
    """Returns the operations of model and teacher for a record; 0 (no curve) without masked LM."""
    sizes = inputs.schema.max_length, inputs.num_predictions
    if not inputs.num_predictions:
        return 0
    *others, encoder = model.encoders  # the last encoder predicts masked tokens
    flops = flops_per_example(encoder.config, *sizes)
    flops += sum(flops_per_example(each.config, sizes[0], 0) for each in others)
    if inputs.teacher is not None:  # it computes only the forward pass, a third of a step
        flops += flops_per_example(inputs.teacher.checkpoint.metadata.config, *sizes) // 3
    return flops


def build_pretrainer(inputs: PretrainInputs) -> TaskModel | Distiller:
    """Returns the compiled model of a run, in a Distiller if there is a teacher."""
    recipe, metadata, start = inputs.recipe, inputs.metadata, inputs.starting_point
    keras.utils.set_random_seed(recipe.seed)
    if start is None:
        model = inputs.task.model.from_metadata(metadata)
        if recipe.initial_weights == "local-attention":
            for encoder in model.encoders:
                start_with_local_attention(encoder)
    else:
        origin = {"source": start.path, "new_parts": start.new_parts}
        model = build_model(inputs.task.model, start.checkpoint, metadata=metadata, **origin)
        print(model.load_report, start, sep="\n")
    for encoder in model.encoders:
        encoder.gradient_checkpointing = recipe.gradient_checkpointing
    pretrainer: TaskModel | Distiller = model
    if inputs.teacher is not None:
        pretrainer = inputs.teacher.teach(model, metadata=metadata)
    steps = {"num_steps": recipe.num_steps, "num_warmup_steps": recipe.num_warmup_steps}
    pretrainer.compile(
        optimizer=OPTIMIZERS[recipe.optimizer](
            SCHEDULES[recipe.schedule](recipe.learning_rate, **steps),
            weight_decay_rate=recipe.weight_decay_rate,
            beta_2=recipe.beta_2,
            bias_correction=recipe.bias_correction,
            max_gradient_norm=recipe.max_gradient_norm,
        ),
        loss=inputs.task.losses(),
        loss_weights=inputs.task.loss_weights,
        weighted_metrics=inputs.task.metrics(),
        gradient_accumulation_steps=recipe.gradient_accumulation_steps,
    )
    if start is not None and start.state is not None:
        load_training_state(pretrainer, start.state, new=start.new_parts)
    return pretrainer


def forecast(recipe: PretrainRecipe, **sources: Any) -> str:
    """Returns a table of the time, memory and disk space that `pretrain` needs on this machine.

    It trains a few steps of the first part of the recipe and writes nothing. Scoring and saving
    take extra time. `sources` are arguments of `PretrainInputs`.
    """
    inputs = PretrainInputs(first_part(recipe) or recipe, **sources)
    model = build_pretrainer(inputs)
    optimizer = model.optimizer
    steps = recipe.end - (int(optimizer.iterations.numpy()) if optimizer.built else 0)
    with input_errors():
        first, *measured = _step_seconds(model, inputs.training_batches())
    seconds, sequences = statistics.median(measured), steps * recipe.batch_size
    variables = (*model.weights, *optimizer.variables)
    state = sum(np.dtype(each.dtype).itemsize * math.prod(each.shape) for each in variables)
    batch, replicas = counted(recipe.batch_size, "sequence"), counted(num_devices(), "replica")
    tokens = sequences * inputs.tokens_per_example / 1e6
    spread = f"from {min(measured):.3g} to {max(measured):.3g}"
    time, speed = timedelta(seconds=round(steps * seconds)), recipe.batch_size / seconds
    return f"""\
model       {model.count_params():,} parameters, {inputs.metadata.model}
records     {counted(len(inputs.files), "file")} of {inputs.schema}
steps       {steps:,} of {batch} on {replicas}
tokens      {tokens:,.1f} million in {sequences:,} sequences, without padding
step time   {seconds:.3g} s, the median of {MEASURED_STEPS} steps ({spread}); first step, with \
tracing: {first:.3g} s
time        {time} (hours:minutes:seconds), {speed:,.0f} sequences per second
memory      {_memory()}
disk        {readable_size(state)} for each of {recipe.keep_checkpoints} saved states"""


def _step_seconds(model: keras.Model, batches: Batches) -> list[float]:
    """Returns the seconds of the first step (with tracing) and of `MEASURED_STEPS` later steps."""
    times = []

    def measure(_, logs):
        wait_for(logs)
        times.append(time.perf_counter())

    clock = keras.callbacks.LambdaCallback(on_train_batch_begin=measure, on_train_batch_end=measure)
    steps = WARMUP_STEPS + MEASURED_STEPS
    options = {"steps_per_epoch": steps, "shuffle": False, "verbose": 0, "callbacks": [clock]}
    model.fit(for_devices(batches), **options)
    seconds = [end - start for start, end in zip(times[::2], times[1::2], strict=True)]
    return [seconds[0], *seconds[WARMUP_STEPS:]]


def _memory() -> str:
    """Describes the peak memory of the first GPU or TPU, or of this process if there is none."""
    peak = 0
    if keras.config.backend() == "jax":
        import jax

        peak = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    else:
        import tensorflow as tf

        for gpu in tf.config.list_logical_devices("GPU")[:1]:
            name = gpu.name.removeprefix("/device:")
            peak = tf.config.experimental.get_memory_info(name)["peak"]
    if peak:
        return f"at most {readable_size(peak)} on each device"
    unit = 1 if sys.platform == "darwin" else 1024
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return f"at most {readable_size(used)} in this process"


def flops_per_example(config: BertConfig, length: int, num_predictions: int) -> int:
    """Counts the operations of the forward and backward pass for one row of `length` positions.

    Only matrix products count, with 2 operations for an addition and a multiplication, and padding
    counts like tokens. The backward pass has twice as many operations as the forward pass.
    Operations that are repeated to save memory count once (Chowdhery et al. 2022, appendix B).
    """
    size, intermediate = config.hidden_size, config.intermediate_size
    dense = length * (8 * size**2 + (6 if config.is_gated else 4) * size * intermediate)
    forward = config.num_layers * dense
    for index in range(config.num_layers):
        context = min(length, config.local_window + 1) if config.is_local(index) else length
        forward += 4 * length * context * size
    if config.has_pooler:
        forward += 2 * size**2 + 4 * size  # the pooler and the two logits of the next sentence
    embedding = config.embedding_size or size
    forward += num_predictions * (2 * size * embedding + 2 * embedding * config.vocab_size)
    if config.embedding_size:
        forward += 2 * length * embedding * size
    return 3 * forward
