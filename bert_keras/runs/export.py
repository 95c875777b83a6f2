"""Exports a model as a SavedModel or in LiteRT's format, also in 8 bits."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.data.encoded import Encoded
from bert_keras.downstream.task import Task
from bert_keras.errors import InputError, check_name, suggest_keyword_names
from bert_keras.exporting.export import ExportPlan, export_plan, plan_of_model, write_version
from bert_keras.files import StrPath, atomic_folder, json_object, readable_size, write_json
from bert_keras.models.loading import load_model
from bert_keras.models.pretrained import Pretrained
from bert_keras.runs.settings import Changes, variant_examples
from bert_keras.serving.litert import ExportedModel
from bert_keras.serving.version_folder import FORMATS, LITERT, METADATA
from bert_keras.text.tokenizer import TextTokenizer

MAX_SCORE_DROP = 0.5  # points, of 100, by which the score may drop by default


@suggest_keyword_names
def export(  # noqa: PLR0913 - public; each argument is optional
    model: StrPath | Pretrained,
    path: StrPath,
    *,
    format: str | Sequence[str] | None = None,
    tokenizer: TextTokenizer | None = None,
    labels: Sequence[str] = (),
    max_length: int | None = None,
    num_texts: int | None = None,
    variant: str | None = None,
    data: StrPath | None = None,
    task: str | None = None,
    changes: Changes = (),
    max_score_drop: float = MAX_SCORE_DROP,
) -> Path:
    """Writes a model of any head as a SavedModel or in LiteRT's format, and verifies it.

    `bert-keras export` calls this function, and `model.export` does the same without variants. The
    SavedModel contains the text processing, its signatures and warm-up requests for TF Serving. A
    fresh process loads it as TF Serving does and compares its outputs with the Keras model's.

    Args:
        model: A folder with a vocabulary in any checkpoint format, or a model in memory.
        path: The version folder, saved_models/NAME/VERSION, which must not exist yet.
        format: "tf_saved_model" for TF Serving, "litert" for `bert-keras serve`, `load_exported`
            and devices, or a list of both; by default "tf_saved_model", or "litert" for a variant.
        tokenizer: The tokenizer of a model in memory; by default `model.tokenizer`.
        labels: The labels of a model in memory; by default the labels in its metadata.
        max_length: The largest number of tokens of a text or pair; by default the metadata's.
        num_texts: The number of texts that a classifier takes, 1 or 2; by default the number that
            the model was trained on, or 1 if its metadata does not state it.
        variant: "int8", in LiteRT's format; the sizes and scores of int8 and float32 are printed.
            By default the model is written in float32.
        data: Labelled examples to score the variant on: a file of the task, or a data folder or
            `tfds:NAME` with a split "dev".
        task: The name of the task that scores the variant; by default the task of the fine-tuning.
        changes: Settings of this task, such as `{"text_columns": ("review",)}`.
        max_score_drop: The points, of 100, by which the score of the variant may drop.

    Returns:
        The path of the version folder.

    Raises:
        InputError: An argument does not fit the model, or the variant loses too many points.
        RuntimeError: The SavedModel does not give the outputs of the Keras model.

    Example:

    ```python
    export("films", "saved_models/films/1")
    ```
    """
    format = format or (FORMATS[0] if variant is None else FORMATS[1])
    formats = (format,) if isinstance(format, str) else tuple(format)
    for each in formats:
        check_name(each, FORMATS, what="format")
    is_scored = data is not None or task is not None or changes or max_score_drop != MAX_SCORE_DROP
    is_int8 = variant == "int8" and formats == ("litert",) and data is not None
    if not is_int8 and (variant is not None or is_scored):
        raise InputError(
            f"the variant is {variant!r} of {', '.join(formats)}; expected 'int8' of litert with "
            "data, or None without data, task, changes and max_score_drop"
        )
    options = {"max_length": max_length, "num_texts": num_texts}
    source = "the model" if isinstance(model, Pretrained) else os.fspath(model)
    if isinstance(model, Pretrained):
        plan = plan_of_model(model, path, tokenizer=tokenizer, labels=labels, **options)
    else:
        if tokenizer is not None or labels:
            raise InputError("tokenizer and labels are for a model in memory; omit them")
        checkpoint = open_text_checkpoint(model)
        metadata = checkpoint.metadata
        plan = export_plan(metadata, checkpoint.tokenizer, path, source=source, **options)
    scored_on = None
    if is_int8:
        arguments = {"source": source, "task": task, "changes": changes}
        scored_on = variant_examples(plan.metadata, str(data), **arguments)
    loaded = model if isinstance(model, Pretrained) else load_model(model)
    if scored_on is None:
        return write_version(loaded, plan, path, formats=formats)
    int8_task, examples = scored_on
    return export_int8(
        loaded, plan, Path(path), task=int8_task, examples=examples, max_score_drop=max_score_drop
    )


def export_int8(
    model: Pretrained,
    plan: ExportPlan,
    folder: Path,
    *,
    task: Task,
    examples: Sequence,
    max_score_drop: float,
) -> Path:
    """Exports a model in int8, and prints the sizes and scores of int8 and float32.

    The metadata of the version stores these figures.

    Args:
        model: The model in memory.
        plan: How it is exported.
        folder: The version folder to write.
        task: The task that scores both models.
        examples: Labelled examples of this task.
        max_score_drop: The points, of 100, by which the score may drop without an InputError.
    """
    encoded, figures = task.encode(examples, plan.tokenizer), {}
    with atomic_folder(folder) as new_folder:
        for name in ("float32", "int8"):
            written = new_folder / name
            write_version(model, plan, written, formats=("litert",), is_int8=name == "int8")
            score = measure_score(ExportedModel(written), task, examples, encoded)
            figures[name] = {"num_bytes": (written / LITERT).stat().st_size, "score": score}
        compare_with_float32(figures, metric=task.metric, max_score_drop=max_score_drop)
        scored_on = {"task": task.name, "metric": task.metric, "examples": len(examples)}
        measurements = {"name": "int8", "figures": figures, "scored_on": scored_on}
        metadata = json_object(new_folder / "int8" / METADATA)
        write_json(new_folder / "int8" / METADATA, {**metadata, "variant": measurements})
        for file in (new_folder / "int8").iterdir():
            shutil.move(file, new_folder)
        shutil.rmtree(new_folder / "float32")
        (new_folder / "int8").rmdir()
    return folder


def measure_score(model: ExportedModel, task: Task, examples: Sequence, encoded: Encoded) -> float:
    """Returns the score of an exported model by the metric of the task, in points up to 100."""
    outputs = model.row_outputs(encoded, is_silent=False)
    return 100 * task.score(examples, task.predictions(examples, encoded, outputs))[task.metric]


def compare_with_float32(
    figures: Mapping[str, dict], *, metric: str, max_score_drop: float
) -> None:
    """Prints size and score of both models; raises InputError if int8 loses too many points."""
    for name, figure in figures.items():
        size = readable_size(figure["num_bytes"])
        print(f"{name + ':':9} {size} on disk; {metric} {figure['score'] / 100:.4f}")
    loss = round(figures["float32"]["score"] - figures["int8"]["score"], 2)  # as in the message
    if loss > max_score_drop:
        raise InputError(
            f"int8 loses {loss:.2f} points of {metric}, more than {max_score_drop:g} of 100; "
            "export float32, or allow it with --max-score-drop (max_score_drop)"
        )
