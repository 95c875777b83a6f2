"""Exports a smaller or faster variant of a fine-tuned model and compares it with float32."""

import contextlib
import dataclasses
import math
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import geometric_mean

from bert_keras.config import ModelMetadata
from bert_keras.downstream.catalog import TASKS, task_of
from bert_keras.downstream.classification import ClassificationTask
from bert_keras.downstream.sentences.pairs import SENTENCE_PAIRS_TASK
from bert_keras.downstream.task import Task, examples_file
from bert_keras.errors import InputError, check_name
from bert_keras.exporting.model_folder import EXPORTERS, TextModel, export_model
from bert_keras.exporting.saved_model import write_metadata
from bert_keras.exporting.variants.bfloat16 import Bfloat16
from bert_keras.exporting.variants.int8 import Int8
from bert_keras.exporting.variants.litert import litert_run, write_litert
from bert_keras.exporting.variants.measuring import Figures, Run, score, seconds
from bert_keras.exporting.variants.sentences import MIN_COSINE, mean_cosine, on_groups
from bert_keras.exporting.variants.variant import Float16, Variant
from bert_keras.exporting.verify import loaded
from bert_keras.exporting.version_folder import METADATA
from bert_keras.files import StrPath, atomic_folder, json_object, readable_size
from bert_keras.reports.page import Table

FLOAT32, LITERT = "float32", "litert"
SAVED_MODELS: dict[str, type[Variant]] = {
    "float16": Float16,
    "bfloat16": Bfloat16,
    "int8": Int8,
}
VARIANTS = (*SAVED_MODELS, LITERT)
NOT_SERVED = {  # variants that TF Serving cannot load
    LITERT: "TF Serving cannot load a LiteRT model; run it with a LiteRT interpreter",
}
MAX_SCORE_LOSS = 0.5  # points, of 100, by which the score may drop by default
# A variant may take at most this fraction of the size or time of float32. A smaller gain can be
# noise of the measurement.
_MAX_RATE = 0.95


def export_variant(  # noqa: PLR0913 - each argument is an option of `export`
    model: TextModel,
    folder: StrPath,
    *,
    variant: str,
    data: str,
    task: str | None = None,
    num_texts: int | None = None,
    dimensions: int | None = None,
    max_score_loss: float = MAX_SCORE_LOSS,
) -> Path:
    """Exports a variant and prints its size, time and score next to those of float32.

    The function also exports the float32 model, to a temporary folder. It loads both models and
    sends the same requests to their signature `tensors`. SavedModels are loaded as TF Serving does.
    The measurements are stored in the metadata file of the variant.

    Args:
        model: A fine-tuned model.
        folder: The version folder, saved_models/NAME/VERSION, which must not exist yet.
        variant: One of VARIANTS.
        data: A file with labelled examples of the task, or a data folder or tfds: name whose split
            "dev" is read.
        task: The name of the task; None takes the task that the model was fine-tuned on.
        num_texts: The number of texts that a classifier takes; see `export_model`.
        dimensions: The number of values to keep of each embedding; see `export_model`.
        max_score_loss: The largest loss in points of the task's score that is accepted.

    Returns:
        The path of `folder`.

    Raises:
        InputError: The variant loses more than `max_score_loss` points; it is not smaller or faster
            than float32 on this machine; no task scores the model; or `export_model` refuses it.
    """
    check_name(variant, VARIANTS, what="variant")
    if not (math.isfinite(max_score_loss) and max_score_loss >= 0):
        raise InputError(
            f"--accept-loss is {max_score_loss}; expected a number of points, such as 0.5"
        )
    folder, scored_task = Path(folder), _task(model.metadata, model.source, name=task)
    file = examples_file(scored_task, data, split="dev")
    examples = scored_task.read(file, split="dev")
    scored_task.check_labels(examples)
    encoded = scored_task.encode(examples, model.tokenizer)
    with (
        atomic_folder(folder) as new_folder,
        tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=new_folder.parent) as scratch,
        contextlib.ExitStack() as open_models,
    ):
        # Warm-up requests contain the name of the model, which is that of the parent folder.
        named = Path(folder.resolve().parent.name, folder.name)
        export = partial(export_model, model, num_texts=num_texts, dimensions=dimensions)
        folders = {name: Path(scratch, name, named) for name in (FLOAT32, variant)}
        export(folders[FLOAT32])
        if variant == LITERT:
            write_litert(folders[FLOAT32], folders[LITERT])
        else:
            export(folders[variant], variant=SAVED_MODELS[variant])
        models = {n: open_models.enter_context(_opened(n, path)) for n, path in folders.items()}
        is_sentence_encoder = model.metadata.embedding is not None
        if is_sentence_encoder:
            models = {name: on_groups(run) for name, run in models.items()}
        times = seconds(models, task=scored_task, encoded=encoded)
        figures = {
            name: Figures(
                num_bytes=_num_bytes(folders[name]),
                seconds=times[name],
                score=score(run, task=scored_task, examples=examples, encoded=encoded, stage=name),
            )
            for name, run in models.items()
        }
        metric = scored_task.metric
        print(table(figures, metric=metric))
        _check(figures, variant, metric=metric, max_score_loss=max_score_loss)
        cosine = None
        if is_sentence_encoder:
            cosine = _checked_cosine(mean_cosine(*models.values(), encoded=encoded), variant)
        written = folders[variant]
        measurements = {
            "name": variant,
            "figures": {name: dataclasses.asdict(each) for name, each in figures.items()},
            "scored_on": {"task": scored_task.name, "metric": metric, "examples": len(examples)},
            **({} if cosine is None else {"cosine": cosine}),
        }
        write_metadata(written, {**json_object(written / METADATA), "variant": measurements})
        os.replace(written, new_folder)
    return folder


def table(figures: dict[str, Figures], *, metric: str) -> str:
    """Formats the measurements of two models as a text table.

    Args:
        figures: The measurements by name, float32 first.
        metric: The name of the task's metric.

    Returns:
        A header, a line for each model, and a line that compares the second model with the first.
    """
    rows = [
        (
            name,
            readable_size(each.num_bytes),
            *(f"{1000 * seconds:.1f} ms" for seconds in each.seconds.values()),
            f"{each.score:.2f}",
        )
        for name, each in figures.items()
    ]
    float32, variant = figures.values()
    times = (f"{rate:.2f}x" for rate in variant.time_rates(float32))
    size, score = f"{variant.size_rate(float32):.2f}x", f"{variant.score - float32.score:+.2f}"
    rows.append(("", size, *times, score))
    # The metadata keeps the word of earlier versions.
    sizes = (size.replace("pieces", "tokens") for size in float32.seconds)
    return "\n".join(Table(("", "on disk", *sizes, metric), rows).aligned())


def _task(metadata: ModelMetadata, source: str, *, name: str | None) -> Task:
    """Returns the task that scores a model; it cuts long texts where the exported model does."""
    scored = {task.model for task in TASKS.values() if task.model in EXPORTERS}
    if metadata.model not in scored:
        raise InputError(
            f"{source} is a {metadata.model}, which no task scores; expected one of "
            f"{', '.join(sorted(scored))}"
        )
    name = name or metadata.task.get("name")
    if metadata.embedding is not None:
        if name not in (None, SENTENCE_PAIRS_TASK.name):
            raise InputError(
                f"the task {name} does not score a variant of a {metadata.model}; set --task "
                f"{SENTENCE_PAIRS_TASK.name}, and --data to pairs of texts with scores"
            )
        name = SENTENCE_PAIRS_TASK.name
    if name is None:
        raise InputError(
            f"{source} does not state the task that it was fine-tuned on; set it with --task or "
            "task=..."
        )
    task = task_of(metadata, name=str(name), source=source)
    task = dataclasses.replace(task, max_length=metadata.max_length)
    if isinstance(task, ClassificationTask) and task.long_texts == "error":
        return dataclasses.replace(task, long_texts="truncate")
    return task


@contextlib.contextmanager
def _opened(variant: str, folder: Path) -> Iterator[Run]:
    """Loads an exported model and yields a function that runs its signature `tensors`."""
    if variant == LITERT:
        yield litert_run(folder)
    else:
        with loaded(folder) as run:
            yield lambda inputs: run({"signature": "tensors", "inputs": inputs})


def _check(figures: dict[str, Figures], name: str, *, metric: str, max_score_loss: float) -> None:
    float32, variant = figures.values()
    loss = round(float32.score - variant.score, 2)  # as in the message, which recommends it
    if not loss <= max_score_loss:
        raise InputError(
            f"{name} loses {loss:.2f} points of {metric}, more than {max_score_loss:g}, and is not "
            "written; choose another variant, or set --accept-loss (max_score_loss) to the points "
            "that it may lose"
        )
    if name == LITERT or SAVED_MODELS[name].saves == "size":
        unit, rate = "bytes", variant.size_rate(float32)
    else:
        unit, rate = "time", geometric_mean(variant.time_rates(float32))
    if rate > _MAX_RATE:
        raise InputError(
            f"{name} takes {rate:.2f}x of float32's {unit} on this machine, more than "
            f"{_MAX_RATE}x, and is not written; serve float32, or choose another variant"
        )


def _checked_cosine(cosine: float, name: str) -> float:
    print(f"mean cosine between the embeddings of {name} and float32: {cosine:.4f}")
    if cosine < MIN_COSINE:
        raise InputError(
            f"the embeddings of {name} have the mean cosine {cosine:.4f} with those of float32, "
            f"less than {MIN_COSINE}, and are not written; serve float32, or choose another variant"
        )
    return cosine


def _num_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
