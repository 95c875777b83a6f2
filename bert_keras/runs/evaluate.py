"""Scores a model on the examples of a task, and predicts them."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from bert_keras.checkpoints.checkpoint import require_vocabulary
from bert_keras.data.encoded import print_num_truncated
from bert_keras.downstream.catalog import ZERO_SHOT
from bert_keras.downstream.minimal_pairs import (
    log_likelihoods,
    pair_findings,
    pair_scores,
    read_pairs,
)
from bert_keras.downstream.predictor import Predictor
from bert_keras.downstream.table import is_tfds
from bert_keras.downstream.task import Task
from bert_keras.errors import print_field, suggest_keyword_names
from bert_keras.files import StrPath, check_exists, check_output
from bert_keras.models.loading import load_model
from bert_keras.models.pretrained import Pretrained
from bert_keras.reports.evaluation import evaluation_page
from bert_keras.runs.distillation import check_fit
from bert_keras.runs.settings import Changes, task_examples, with_changes


@suggest_keyword_names
def evaluate(
    model: StrPath | Pretrained,
    *,
    data: StrPath,
    task: str | None = None,
    split: str = "dev",
    report: StrPath | None = None,
    changes: Changes = (),
) -> dict[str, float]:
    """Scores a model on labelled examples with the metrics of the task.

    `bert-keras evaluate` calls this function.

    Args:
        model: A model or its folder.
        data: A file of the task, or a folder of its official files or `tfds:NAME` from which
            `split` is read.
        task: The name of the task; None takes the task on which the model was fine-tuned. "blimp"
            scores a pretrained model on the minimal pairs of a file, or of all files of a folder.
        split: The split of a folder or of `tfds:NAME`.
        report: The HTML page with scores and errors to write; None writes no page.
        changes: New values of settings of the task, such as `{"max_length": 64}`.

    Returns:
        The scores by name, as fractions of 1.

    Raises:
        InputError: An example has no label, or an argument is invalid or does not fit the model.

    Example:

    ```python
    model = BertClassifier.from_pretrained("google-bert/bert-base-uncased", labels=2)
    scores = evaluate(model, task="mrpc", data="glue/MRPC")
    print(scores["accuracy"])
    ```
    """
    if report is not None:
        check_output(report, suffix=".html")
    if task in ZERO_SHOT:
        with_changes(changes=changes)  # raises InputError for any change
        name, findings, examples = str(task), pair_findings, read_pairs(data)
        loaded = model if isinstance(model, Pretrained) else load_model(model)
        values = log_likelihoods(loaded, [text for pair in examples for text in pair.texts])
        predicted = [good - bad for good, bad in zip(values[::2], values[1::2], strict=True)]
        scores = pair_scores(examples, predicted)
    else:
        options = {"task": task, "split": split, "changes": changes}
        scored, examples, predicted = predict_examples(model, data, is_scored=True, **options)
        name, findings, scores = scored.name, scored.findings, scored.score(examples, predicted)
    print_field("examples", f"{len(examples):,}", file=sys.stderr)
    if report is not None:
        is_loaded = isinstance(model, Pretrained)
        source = [f"Model: {f'a {type(model).__name__} in memory' if is_loaded else model}"]
        source.append(f"Data: {data}" if os.path.isfile(data) else f"Data: {data}, split {split}")
        found = findings(examples, predicted)
        counts = {"num_examples": len(examples), "scores": scores}
        evaluation_page(name, found, source=source, **counts, path=report)
    return scores


def predict_examples(
    model: StrPath | Pretrained, data: StrPath, *, is_scored: bool = False, **options: Any
) -> tuple[Task, Sequence, Sequence]:
    """Returns the task, the examples and their predictions; `is_scored` requires their labels."""
    if not is_tfds(data):
        check_exists(data, expected="data to read")
    loaded = model if isinstance(model, Pretrained) else load_model(model)
    source = "the model" if isinstance(model, Pretrained) else model
    tokenizer = require_vocabulary(loaded.tokenizer, source=source)
    metadata = loaded.stored_metadata(tokenizer)
    task, examples = task_examples(metadata, data, source=source, **options)
    if is_scored:
        task.check_labels(examples)
    pooling, embedding = getattr(task, "pooling", ()), getattr(loaded, "embedding", None)
    if pooling and embedding is not None:
        needed = {"pooling": (embedding.pooling, pooling)}
        check_fit(needed, source=source, remedy="leave pooling out, or set the model's")
    encoded = task.encode_to_score(examples, tokenizer)
    print_num_truncated(encoded, max_length=task.max_length)
    outputs, _ = Predictor(loaded)(encoded)
    return task, examples, task.predictions(examples, encoded, outputs)
