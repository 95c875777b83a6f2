"""Defines the commands that score and apply models: evaluate, predict and embed."""

import argparse
import json
import os
import sys

from bert_keras.cli.listing import task_names
from bert_keras.cli.program import command, flag, one_of, option, required
from bert_keras.errors import counted, printable

TASK = option("task", "TASK", "see bert-keras list tasks", type=one_of(task_names, what="task"))
DATA = required("--data", "FILE", "a file of the task, or a folder or tfds:NAME with a --split")
CHANGES = option("--set", "FIELD=VALUE", "settings of the task", [], dest="changes", nargs="+")


def print_table(scores: dict) -> None:
    """Prints one line for each score."""
    for name, value in scores.items():
        number = f"{value:>12,.4f}" if isinstance(value, float) else f"{value:>12,}"
        print(f"{printable(name):<34}{number}")


@command(
    TASK,
    required("--model", "DIR", "OUTPUT/model of a fine-tuning run"),
    DATA,
    option("--split", "NAME", "the split of the folder or of tfds:NAME", "dev"),
    CHANGES,
    flag("--json", "print the scores as JSON"),
    option("--report", "PAGE", "write an HTML page with scores and errors"),
    examples="""
  bert-keras evaluate mrpc --model runs/mrpc/model --data glue/MRPC --report mrpc.html""",
)
def evaluate(options: argparse.Namespace) -> None:
    """Score a model on labelled examples with the task's metrics."""
    from bert_keras.runs.evaluate import evaluate

    scores = evaluate(
        options.task,
        data=options.data,
        model=options.model,
        split=options.split,
        report=options.report,
        changes=options.changes,
    )
    if options.json:
        print(json.dumps(scores, indent=2))
        return
    print_table(scores)
    if options.report:
        print(f"report: {options.report}")


@command(
    TASK,
    required("--model", "DIR", "OUTPUT/model of a fine-tuning run"),
    DATA,
    option("--split", "NAME", "the split of the folder or of tfds:NAME", "test"),
    CHANGES,
    required("--output", "FILE", "the file of predictions to write"),
    option("--submission", "ZIP", "also pack the folder of --output for the server of GLUE"),
    examples="""
  bert-keras predict mrpc --model runs/mrpc/model --data glue/MRPC --output MRPC.tsv
  bert-keras predict mnli --model runs/mnli/model --data glue/MNLI --split ax \\
    --output predictions/AX.tsv --submission submission.zip""",
)
def predict(options: argparse.Namespace) -> None:
    """Write the predictions of a model in the format of the task's official scorer or server."""
    from bert_keras.downstream.catalog import named_task
    from bert_keras.downstream.glue import check_submission, submission_zip
    from bert_keras.downstream.task import examples_file
    from bert_keras.files import check_output, is_stdout
    from bert_keras.runs.evaluate import model_predictions

    check_output(options.output)
    folder, file = os.path.split(os.path.abspath(options.output))
    if options.submission:
        check_submission(folder, new=file)
    data = examples_file(named_task(options.task), options.data, split=options.split)
    result = model_predictions(
        options.task, model=options.model, data=data, split=options.split, changes=options.changes
    )
    result.write(options.output)
    counts = f"{counted(len(result.examples), 'prediction')}: {options.output}"
    print(counts, file=sys.stderr if is_stdout(options.output) else None)
    if options.submission:
        submission_zip(folder, options.submission)
        print(options.submission)


@command(
    option("texts", "FILE", "a UTF-8 file with one text on each line"),
    required("--model", "DIR", "a folder of sentence-transformers, or a checkpoint of any format"),
    required("--output", "FILE", "a .npy file, or a .parquet file with the texts"),
    option("--dimensions", "N", "values of each embedding to keep (default: all)", type=int),
    option("--prompt", "NAME", "the prompt before each text (default: that of the model)"),
    examples="  bert-keras embed lines.txt --model all-MiniLM-L6-v2 --output vectors.npy",
)
def embed(options: argparse.Namespace) -> None:
    """Write the embedding of each line of a text file."""
    from bert_keras.runs.embeddings import write_embeddings

    num_texts, size = write_embeddings(
        options.texts,
        options.output,
        model=options.model,
        dimensions=options.dimensions,
        prompt=options.prompt,
    )
    print(f"{counted(num_texts, 'embedding')} of {size} values: {options.output}")
