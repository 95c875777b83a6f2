"""Pretrains a model on a folder of records, or estimates the cost of it."""

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

from bert_keras.checkpoints.pretrained import save_model
from bert_keras.data.batches import Batches, input_errors
from bert_keras.distribution.strategy import check_one_machine, is_chief, num_devices
from bert_keras.downstream.minimal_pairs import read_pairs
from bert_keras.errors import answers_typos, check, counted
from bert_keras.files import StrPath, readable_size
from bert_keras.models.distiller import Distiller
from bert_keras.models.initial_weights import start_with_local_attention
from bert_keras.models.pretrainer import MaskedLMModel
from bert_keras.models.task_models import TaskModel
from bert_keras.renamed import accepts_former_names
from bert_keras.runs import outcome
from bert_keras.runs.distillation import Distillation
from bert_keras.runs.evaluate import evaluate
from bert_keras.runs.objectives import evaluate_pretrainer
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.recipes import FORMER_NAMES, PretrainRecipe
from bert_keras.runs.settings import first_part, pretrain_settings
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.training.callbacks import FitSettings, wait_for
from bert_keras.training.loop import fit_resumable, for_devices
from bert_keras.training.optimizer import OPTIMIZERS
from bert_keras.training.performance import flops_per_example
from bert_keras.training.schedule import SCHEDULES
from bert_keras.training.states import load_training_state, training_state
from bert_keras.training.tensorboard import NormsByLayer, write_hyperparameters

FIRST = "first"  # folder of the first steps within that of a run
WARMUP_STEPS, MEASURED_STEPS = 2, 10  # of `forecast`


@accepts_former_names(start="pretrained", **FORMER_NAMES)
@answers_typos
def pretrain(
    recipe: str | PretrainRecipe,
    *,
    records: StrPath,
    output: StrPath,
    pretrained: StrPath | None = None,
    teacher: StrPath | Distillation | None = None,
    blimp: StrPath | None = None,
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
        records: The folder that `bert-tfrecords build` wrote, or another one with record files of
            google-research/bert and their vocabulary.
        output: The folder of the run.
        pretrained: A checkpoint of any format, whose size replaces that of the recipe. Heads that
            it lacks start with random weights. With a training state the run continues at its step,
            which `num_steps` includes, and reads the records from their beginning.
        teacher: A model from which to distil. It is not saved.
        blimp: A folder of minimal pairs, such as BLiMP's, that the trained model scores.
        **changes: New values of fields of the recipe and the distillation, such as
            `num_steps=20_000` or `temperature=1.5`.

    Returns:
        The scores and the folder of the model. Only the first worker writes files and returns
        scores.

    Raises:
        InputError: The arguments are invalid or do not fit together, `output` belongs to another
            run, or the training diverges.

    Example:

    ```python
    result = pretrain(
        "demo", records="records", output="runs/tiny", num_steps=4, num_warmup_steps=1
    )
    print(result.scores, result.model)
    ```
    """
    recipe, distillation = pretrain_settings(recipe, teacher=teacher, changes=changes)
    inputs = PretrainInputs(recipe, records=records, start=pretrained, distillation=distillation)
    if (first := first_part(recipe)) is not None:  # reports errors before the run is claimed
        check_one_machine()  # other workers would read the first model before it is written
        part = PretrainInputs(first, records=records, start=pretrained, distillation=distillation)
        check(
            part.objective.is_causal == inputs.objective.is_causal,
            f"first_changes has the objective {first.objective}, from which the objective "
            f"{recipe.objective} cannot continue; choose two that read in the same directions",
        )
    claimed = {"records": os.path.realpath(records)}
    if (starting_point := inputs.starting_point) is not None:
        claimed |= {"start": starting_point.path, "start_step": str(starting_point.step)}
    if blimp is not None:
        found = f"the objective {recipe.objective} trains no language model"
        check(issubclass(inputs.objective.model, MaskedLMModel), f"{found}; omit --blimp (blimp=)")
        read_pairs(blimp)  # reports invalid files before the training
        claimed["blimp"] = os.path.realpath(blimp)
    teaching = {"distillation": dataclasses.asdict(distillation)} if distillation else {}
    claim = outcome.claimed_output(
        output, recipe=recipe, files=inputs.file_states(), **claimed, **teaching
    )
    with claim as folder:
        scores = outcome.finished_scores(folder)
        if scores is None:
            if first is not None:
                model = pretrain(
                    first,
                    records=records,
                    output=folder / FIRST,
                    pretrained=pretrained,
                    teacher=distillation,
                ).model
                other = dataclasses.replace(recipe, seed=recipe.seed + 1)  # another order of rows
                inputs = PretrainInputs(
                    other, records=records, start=model, distillation=distillation
                )
            hyperparameters = dataclasses.asdict(recipe) | teaching
            scores = _train(inputs, folder, hyperparameters=hyperparameters, blimp=blimp)
    return outcome.RunResult(scores, folder / outcome.MODEL)


def _train(
    inputs: PretrainInputs, output: Path, *, hyperparameters: dict, blimp: StrPath | None
) -> dict:
    """Trains in a claimed output folder; returns the scores as `pretrain` does."""
    recipe = inputs.recipe
    trained = compiled_pretrainer(inputs)
    model = trained.student if isinstance(trained, Distiller) else trained
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
        flops_per_example=_flops_per_example(inputs, model),
        max_skipped=recipe.max_skipped,
    )
    with input_errors():
        fit_resumable(
            trained, inputs.training_batches, settings, held_out=held_out, board=[NormsByLayer()]
        )
        scores = {"parameters": model.count_params(), "steps": recipe.end}
        if held_out is not None:
            scores |= evaluate_pretrainer(model, held_out, objective=inputs.objective)
        if not is_chief():
            return {}
        if held_out is not None:
            scores |= inputs.baselines()
    if blimp is not None:
        settings = inputs.metadata.tokenizer_settings
        model.metadata = inputs.metadata
        model.tokenizer = tokenizer_of(inputs.vocabulary, **settings)
        found, kinds = evaluate(model, task="blimp", data=blimp), ("accuracy", "field ")
        scores |= {f"blimp {name}": found[name] for name in found if name.startswith(kinds)}
    save_model(
        model,
        outcome.model_folder(output),
        metadata=inputs.metadata,
        vocabulary=inputs.vocabulary,
        state=training_state(trained) if recipe.last_step else None,
        sections={
            "Data": {"records": inputs.records.name},
            "Recipe": dataclasses.asdict(recipe),
            "Scores on held-out records": scores,
        },
    )
    write_hyperparameters(output / "logs", hyperparameters)
    return outcome.write_scores(output, scores)


def _flops_per_example(inputs: PretrainInputs, model: TaskModel) -> int:
    """Counts the operations of model and teacher's forward pass; 0 without predictions."""
    # Of several encoders, the last one predicts the masked tokens; other heads are not counted.
    features, targets, *_ = inputs.sample_batch()
    if "masked_lm" not in targets:
        return 0
    sizes = features["input_ids"].shape[1], targets["masked_lm"].shape[1]
    *others, encoder = model.encoders
    flops = flops_per_example(encoder.config, *sizes)
    flops += sum(flops_per_example(each.config, sizes[0], 0) for each in others)
    if inputs.teacher is not None:
        flops += flops_per_example(inputs.teacher.checkpoint.metadata.config, *sizes) // 3
    return flops


def compiled_pretrainer(inputs: PretrainInputs) -> TaskModel | Distiller:
    """Returns the compiled model of a pretraining, in a Distiller if there is a teacher."""
    recipe, metadata, start = inputs.recipe, inputs.metadata, inputs.starting_point
    keras.utils.set_random_seed(recipe.seed)
    if start is None:
        model = inputs.objective.model.from_metadata(metadata)
        if recipe.initial_weights == "local-attention":
            for encoder in model.encoders:
                start_with_local_attention(encoder)
    else:
        model = inputs.objective.model.from_checkpoint(
            start.checkpoint, metadata=metadata, source=start.path, new=start.new
        )
        print(model.load_report, start, sep="\n")
    for encoder in model.encoders:
        encoder.gradient_checkpointing = recipe.gradient_checkpointing
    trained: TaskModel | Distiller = model
    if inputs.teacher is not None:
        trained = inputs.teacher.teach(model, metadata=metadata)
    trained.compile(
        optimizer=OPTIMIZERS[recipe.optimizer](
            SCHEDULES[recipe.schedule](
                recipe.learning_rate,
                num_steps=recipe.num_steps,
                num_warmup_steps=recipe.num_warmup_steps,
            ),
            weight_decay_rate=recipe.weight_decay_rate,
            beta_2=recipe.beta_2,
            bias_correction=recipe.bias_correction,
            max_gradient_norm=recipe.max_gradient_norm,
        ),
        loss=inputs.objective.losses(),
        loss_weights=inputs.objective.loss_weights,
        weighted_metrics=inputs.objective.metrics(),
        gradient_accumulation_steps=recipe.gradient_accumulation_steps,
    )
    if start is not None and start.state is not None:
        load_training_state(trained, start.state, new=start.new)
    return trained


def forecast(
    recipe: PretrainRecipe,
    *,
    records: StrPath,
    pretrained: StrPath | None = None,
    teacher: Distillation | None = None,
) -> str:
    """Returns a table of what `pretrain` needs on this machine, without scoring and saving."""
    part = first_part(recipe) or recipe  # the time of a step is that of the first part
    inputs = PretrainInputs(part, records=records, start=pretrained, distillation=teacher)
    model = compiled_pretrainer(inputs)
    optimizer = model.optimizer
    steps = recipe.end - (int(optimizer.iterations.numpy()) if optimizer.built else 0)
    with input_errors():
        first, *measured = _step_seconds(model, inputs.training_batches())
    seconds, sequences = statistics.median(measured), steps * recipe.batch_size
    variables = (*model.weights, *optimizer.variables)
    state = sum(np.dtype(each.dtype).itemsize * math.prod(each.shape) for each in variables)
    rows = {
        "model": f"{model.count_params():,} parameters, {inputs.metadata.model}",
        "records": f"{counted(len(inputs.files), 'file')} of {inputs.schema}",
        "steps": f"{steps:,} of {counted(recipe.batch_size, 'sequence')} on "
        f"{counted(num_devices(), 'replica')}",
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


def _step_seconds(model: keras.Model, batches: Batches) -> list[float]:
    """Returns the seconds of the first step, with tracing, and of `MEASURED_STEPS` later steps."""
    times = []

    def measure(batch, logs):
        wait_for(logs)
        times.append(time.perf_counter())

    clock = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: times.append(time.perf_counter()),
        on_train_batch_end=measure,
    )
    model.fit(
        for_devices(batches),
        steps_per_epoch=WARMUP_STEPS + MEASURED_STEPS,
        shuffle=False,
        verbose=0,
        callbacks=[clock],
    )
    seconds = [end - start for start, end in zip(times[::2], times[1::2], strict=True)]
    return [seconds[0], *seconds[WARMUP_STEPS:]]


def _memory() -> str:
    if peak := _peak_of_accelerator():
        return f"at most {readable_size(peak)} on each device"
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return f"at most {readable_size(peak)} in this process"


def _peak_of_accelerator() -> int:
    """Returns the peak of the bytes in use on the first GPU or TPU, 0 without them."""
    if keras.config.backend() == "jax":
        import jax

        return (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    import tensorflow as tf

    gpus = tf.config.list_logical_devices("GPU")
    info = tf.config.experimental.get_memory_info
    return info(gpus[0].name.removeprefix("/device:"))["peak"] if gpus else 0
