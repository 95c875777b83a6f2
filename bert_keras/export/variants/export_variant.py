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

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.errors import InputError, check_name
from bert_keras.export.model_folder import export_model
from bert_keras.export.saved_model import METADATA, write_metadata
from bert_keras.export.variants.int8 import Int8
from bert_keras.export.variants.litert import litert_ask, write_litert
from bert_keras.export.variants.measuring import Ask, Figures, score, seconds
from bert_keras.export.variants.variant import Float16, Variant
from bert_keras.export.verify import loaded
from bert_keras.reports.page import Table
from bert_keras.storage import json_object, size_told, whole_folder
from bert_keras.tasks.catalog import TASKS, task_of
from bert_keras.tasks.task import Task

FLOAT32, LITERT = "float32", "litert"
SAVED_MODELS: dict[str, type[Variant]] = {
    "float16": Float16,
    "int8": Int8,
}
VARIANTS = (*SAVED_MODELS, LITERT)
NOT_SERVED = {  # variants that TF Serving cannot load
    LITERT: "a LiteRT interpreter answers with it, TF Serving does not",
}
USUAL_LOSS = 0.5  # points of the task's score
# A variant may take at most this fraction of the size or time of float32. A smaller gain can be
# noise of the measurement.
_GAIN = 0.95


def export_variant(
    model_folder: str | os.PathLike,
    folder: str | os.PathLike,
    *,
    variant: str,
    data: str,
    task: str | None = None,
    num_texts: int | None = None,
    most_lost: float = USUAL_LOSS,
) -> Path:
    """Exports a variant and prints its size, time and score next to those of float32.

    The function also exports the float32 model, to a temporary folder. It loads both models and
    sends the same requests to their signature `tensors`. SavedModels are loaded as TF Serving does.
    The measurements are stored in the metadata file of the variant.

    Args:
        model_folder: The folder of a fine-tuned model.
        folder: The version folder, saved_models/NAME/VERSION, which must not exist yet.
        variant: One of VARIANTS.
        data: A file with labelled examples of the task, or a data folder or tfds: name whose split
            "dev" is read.
        task: The name of the task; None takes the task that the model was fine-tuned on.
        num_texts: The number of texts that a classifier takes; see `export_model`.
        most_lost: The largest loss in points of the task's score that is accepted.

    Returns:
        The path of `folder`.

    Raises:
        InputError: The variant loses more than `most_lost` points or is not smaller or faster than
            float32 on this machine; no task scores the model; or `export_model` refuses it.
    """
    check_name(variant, VARIANTS, what="variant")
    if not (math.isfinite(most_lost) and most_lost >= 0):
        raise InputError(f"--accept-loss is {most_lost}; expected points, such as 0.5")
    folder, checkpoint = Path(folder), open_text_checkpoint(model_folder)
    asked = _task(checkpoint.card, model_folder, name=task)
    place = asked.files(data)["dev"] if os.path.isdir(data) or "tfds:" in data else data
    examples = asked.read(place, split="dev")
    asked.check_labels(examples)
    encoded = asked.encode(examples, checkpoint.tokenizer)
    with (
        whole_folder(folder) as beside,
        tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as scratch,
        contextlib.ExitStack() as open_models,
    ):
        # Warm-up requests contain the name of the model, which is that of the parent folder.
        named = Path(folder.resolve().parent.name, folder.name)
        export = partial(export_model, model_folder, num_texts=num_texts)
        whole, written = (Path(scratch, name, named) for name in (FLOAT32, variant))
        export(whole)
        if variant == LITERT:
            write_litert(whole, written)
        else:
            export(written, variant=SAVED_MODELS[variant])
        folders = {FLOAT32: whole, variant: written}
        asks = {n: open_models.enter_context(_opened(n, each)) for n, each in folders.items()}
        times = seconds(asks, task=asked, encoded=encoded)
        figures = {
            name: Figures(
                num_bytes=_num_bytes(folders[name]),
                seconds=times[name],
                score=score(ask, task=asked, examples=examples, encoded=encoded, stage=name),
            )
            for name, ask in asks.items()
        }
        print(table(figures, metric=asked.metric))
        _check(figures, variant, metric=asked.metric, most_lost=most_lost)
        found = {
            "name": variant,
            "figures": {name: dataclasses.asdict(each) for name, each in figures.items()},
            "scored_on": {"task": asked.name, "metric": asked.metric, "examples": len(examples)},
        }
        write_metadata(written, {**json_object(written / METADATA), "variant": found})
        os.replace(written, beside)
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
            size_told(each.num_bytes),
            *(f"{1000 * seconds:.1f} ms" for seconds in each.seconds.values()),
            f"{each.score:.2f}",
        )
        for name, each in figures.items()
    ]
    whole, small = figures.values()
    size = f"{small.num_bytes / whole.num_bytes:.2f}x"
    times = (f"{small.seconds[asked] / whole.seconds[asked]:.2f}x" for asked in whole.seconds)
    rows.append(("", size, *times, f"{small.score - whole.score:+.2f}"))
    return "\n".join(Table(("", "on disk", *whole.seconds, metric), rows).aligned())


def _task(card, model_folder: str | os.PathLike, *, name: str | None) -> Task:
    scored = {task.model for task in TASKS.values() if ARCHITECTURES[task.model].exporter}
    if card.model not in scored:
        raise InputError(
            f"{model_folder} holds a {card.model}, which no task scores; a variant needs one of "
            f"{', '.join(sorted(scored))}"
        )
    name = name or card.task.get("name")
    if name is None:
        raise InputError(
            f"{model_folder} does not say which task it was fine-tuned on; name it with --task"
        )
    return task_of(card, name=str(name), source=model_folder)


@contextlib.contextmanager
def _opened(variant: str, folder: Path) -> Iterator[Ask]:
    """Loads an exported model and yields a function that runs its signature `tensors`."""
    if variant == LITERT:
        yield litert_ask(folder)
    else:
        with loaded(folder) as answer:
            yield lambda inputs: answer({"signature": "tensors", "inputs": inputs})


def _check(figures: dict[str, Figures], variant: str, *, metric: str, most_lost: float) -> None:
    whole, small = figures[FLOAT32], figures[variant]
    lost = whole.score - small.score
    if not lost <= most_lost:
        raise InputError(
            f"{variant} loses {lost:.2f} points of {metric}, more than {most_lost:g}, and is not "
            "written; take another variant, or say with --accept-loss how many you accept"
        )
    saves = "size" if variant == LITERT else SAVED_MODELS[variant].saves
    if saves == "size":
        what, taken = "bytes", small.num_bytes / whole.num_bytes
    else:
        ratios = [small.seconds[asked] / whole.seconds[asked] for asked in whole.seconds]
        what, taken = "time", geometric_mean(ratios)
    if taken > _GAIN:
        raise InputError(
            f"{variant} takes {taken:.2f}x of float32's {what} on this machine, and is not written "
            "for so little; serve float32, or take another variant"
        )


def _num_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
