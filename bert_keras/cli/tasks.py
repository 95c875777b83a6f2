"""Defines the commands that score and apply models: evaluate, predict and embed."""

import argparse
import contextlib
import json
import os
from functools import partial
from typing import Any

from bert_keras.arguments import checked, count, flag, option, required
from bert_keras.cli.program import (
    FILE,
    MODEL,
    PAGE,
    TASK_HELP,
    TASK_NAME,
    command,
    print_table,
    start_keras,
    values,
)
from bert_keras.errors import InputError, print_field, printable
from bert_keras.files import (
    check_exists,
    check_no_table,
    check_output,
    messages_beside,
    refuse_existing,
)
from bert_keras.kinds.kind import Kind
from bert_keras.runs.settings import check_examples, task_examples
from bert_keras.serving.version_folder import METADATA, exported_folder

TASK = option("--task", "TASK", f"{TASK_HELP} (default: the task of the model)", type=TASK_NAME)
DATA = "file of the task, or a folder or tfds:NAME from which --split is read"
EXAMPLES = ("data", "task", "split", "changes")  # arguments of `evaluate`
VECTORS = checked(partial(check_output, suffix=".npy"))
CHANGES = option(
    "--set", "FIELD=VALUE", "settings, see finetune TASK --help", [], dest="changes", nargs="+"
)


def _check_no_file(text: str) -> None:
    if os.path.isfile(text):
        raise InputError(f"{text} is a file; give it as --data {text}")


@command(
    MODEL,
    required("--data", "FILE", DATA),
    TASK,
    option("--split", "NAME", "split of a folder or of tfds:NAME", "dev"),
    CHANGES,
    flag("--json", "print the scores as JSON"),
    option("--report", "PAGE", "HTML page of scores and errors to write", type=PAGE),
    examples="""
  bert-keras evaluate runs/mrpc/model --data glue/MRPC --report mrpc.html
  bert-keras evaluate runs/tiny/model --task blimp --data blimp""",
)
def evaluate(options: argparse.Namespace) -> None:
    """Score a model on labelled examples with the task's metrics."""
    check_examples(task_examples, **values(options, "model", *EXAMPLES))
    start_keras(options)
    from bert_keras.runs.evaluate import evaluate

    scores = evaluate(options.model, report=options.report, **values(options, *EXAMPLES))
    with contextlib.redirect_stdout(messages_beside(options.report)):
        if options.json:
            print(json.dumps(scores, indent=2))
            return
        print_table(scores)
        if options.report:
            print_field("report", options.report)


@command(
    MODEL,
    option(
        *("texts", "[TEXT ...]", "texts, two for a model of pairs; none with --data", []),
        nargs="+",
        is_optional=True,
        type=checked(_check_no_file),
    ),
    flag("--json", "print the answers to texts as JSON"),
    option("--data", "FILE", DATA),
    TASK,
    option("--split", "NAME", "split of a folder or of tfds:NAME", "test"),
    CHANGES,
    option("-o --output", "FILE", "file of predictions for --data (default: stdout)", type=FILE),
    examples="""
  bert-keras predict runs/sst2/model "a good film"
  bert-keras predict saved_models/sst2 "a good film"
  bert-keras predict google-bert/bert-base-uncased "The capital of France is [MASK]."
  bert-keras predict runs/mrpc/model --data glue/MRPC --output MRPC.tsv
  bert-keras predict runs/mnli/model --data glue/MNLI --split ax --output AX.tsv""",
)
def predict(options: argparse.Namespace) -> None:
    """Print the answers of a model to texts, or its predictions for a file."""
    if bool(options.texts) == bool(options.data):
        raise InputError('give either texts, such as predict MODEL "a text", or --data FILE')
    unused = ("json",) if options.data else ("task", "changes", "output")
    for name in unused:
        if getattr(options, name):
            given = "--set" if name == "changes" else f"--{name}"
            raise InputError(f"{given} has no effect with {'--data' if options.data else 'texts'}")
    if options.data:
        _predict_file(options)
        return
    kind, answers = _ask_model(options)
    if options.json:
        text = json.dumps([answer for _, answer in answers], indent=2, ensure_ascii=False)
        print(printable(text))
        return
    for asked, answer in answers:
        for line in kind.lines(answer):
            print(printable(line if len(answers) == 1 else f"{line}    {asked}"))


def _ask_model(options: argparse.Namespace) -> tuple[type[Kind], list]:
    """Returns the kind of a model, and its answer for each text, pair or question."""
    name, texts = options.model, options.texts
    is_exported = (exported_folder(name) / METADATA).is_file()
    if is_exported:
        from bert_keras.serving.litert import load_exported

        model: Any = load_exported(name)
        kind, metadata = type(model.kind), model.metadata
    else:
        start_keras(options)
        from bert_keras.checkpoints.checkpoint import require_vocabulary
        from bert_keras.models.loading import load_model

        model = load_model(name)
        tokenizer = require_vocabulary(model.tokenizer, source=name)
        kind, metadata = model.kind, model.stored_metadata(tokenizer)
    if not kind.answers_texts:
        raise InputError(f"{name} is a {kind.model}, which predicts nothing; fine-tune it")
    columns = kind.columns_of_arguments(texts, num_columns=len(metadata.text_columns), source=name)
    return kind, kind.ask(model, columns)


def _predict_file(options: argparse.Namespace) -> None:
    output = options.output or "-"  # the standard output
    if os.path.realpath(options.data) == os.path.realpath(output):
        raise InputError(f"--output {output} is the file of --data; name another file")
    check_examples(task_examples, **values(options, "model", *EXAMPLES))
    start_keras(options)
    from bert_keras.runs.evaluate import predict_examples

    task, examples, predicted = predict_examples(options.model, **values(options, *EXAMPLES))
    place = "the standard output" if output == "-" else output
    replaced = " (replaced)" if os.path.isfile(output) else ""
    task.write_predictions(output, examples, predicted)
    counts = f"{len(examples):,} in {place}{replaced}"
    print_field("predictions", counts, file=messages_beside(output))


@command(
    MODEL,
    required("--data", "FILE", "UTF-8 file with a text on each line", type=checked(check_no_table)),
    required("-o --output", "FILE", ".npy file to write", type=VECTORS),
    option("--dimensions", "N", "number of values of each embedding (default: all)", type=count),
    option("--prompt", "NAME", "prompt before each text (default: the prompt of the model)"),
    examples="  bert-keras embed runs/sts/model --data lines.txt --output vectors.npy",
)
def embed(options: argparse.Namespace) -> None:
    """Write the embedding of each line of a text file."""
    check_exists(options.data, expected="a file with a text on each line")
    refuse_existing(options.output)
    start_keras(options)
    from bert_keras.runs.embeddings import write_embeddings

    arguments = values(options, "model", "dimensions", "prompt")
    num_texts, size = write_embeddings(options.data, options.output, **arguments)
    print_field("embeddings", f"{num_texts:,} of {size} values in {options.output}")
