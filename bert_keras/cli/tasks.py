"""Defines the commands that score and apply models: evaluate, predict and embed."""

import argparse
import contextlib
import json
import os
from functools import partial

from bert_keras.arguments import checked, one_of
from bert_keras.cli.answers import answers, check_texts, lines
from bert_keras.cli.program import (
    MODEL,
    PAGE,
    command,
    count,
    flag,
    option,
    required,
    start_keras,
    values,
)
from bert_keras.downstream.names import task_names
from bert_keras.errors import InputError, check, printable, say
from bert_keras.files import check_no_table, check_output, messages_beside, refuse_existing
from bert_keras.runs.task_data import check_examples, task_examples

TASKS = "name of a task, see bert-keras list tasks"
TASK_NAME = one_of(task_names, what="task")
TASK = option("--task", "TASK", f"{TASKS} (default: that of the model)", type=TASK_NAME)
EXAMPLES_OF = "file of the task, or its folder or tfds:NAME, of which a --split is read"
EXAMPLES = ("data", "task", "split", "changes")  # arguments of `evaluate`
VECTORS = checked(partial(check_output, suffix=(".npy", ".parquet")))
FILE = checked(check_output)
CHANGES = option(
    "--set", "FIELD=VALUE", "settings, see finetune TASK --help", [], dest="changes", nargs="+"
)


def print_table(scores: dict) -> None:
    """Prints one line for each score, and for the three scores of each type of entities."""
    width = max([34, *(len(name) + 1 for name in scores)])
    for name, value in scores.items():
        kind, _, score = name.rpartition(" ")
        if kind and score in ("precision", "recall"):
            continue
        number = f"{value:>12,.4f}" if isinstance(value, float) else f"{value:>12,}"
        if kind and score == "f1":
            others = (f"{each} {scores[f'{kind} {each}']:.4f}" for each in ("precision", "recall"))
            number = "   ".join([number, *others])
        print(f"{printable(name):<{width}}{number}")


def _choose_split(options: argparse.Namespace, default: str) -> None:
    is_file = os.path.isfile(options.data or "")
    check(not (is_file and options.split), f"--data {options.data} is a file; omit --split")
    options.split = options.split or default


@command(
    MODEL,
    required("--data", "FILE", EXAMPLES_OF),
    TASK,
    option("--split", "NAME", "split of a folder or of tfds:NAME (default: dev)"),
    CHANGES,
    flag("--json", "print the scores as JSON"),
    option("--report", "PAGE", "HTML page of scores and errors to write", type=PAGE),
    examples="""
  bert-keras evaluate runs/mrpc/model --data glue/MRPC --report mrpc.html
  bert-keras evaluate runs/tiny/model --task blimp --data blimp""",
)
def evaluate(options: argparse.Namespace) -> None:
    """Score a model on labelled examples with the task's metrics."""
    _choose_split(options, "dev")
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
            say("report", options.report)


@command(
    MODEL,
    option("texts", "[TEXT ...]", "texts, two for a model of pairs; none with --data", nargs="*"),
    flag("--json", "print the answers to texts as JSON"),
    option("--data", "FILE", EXAMPLES_OF),
    TASK,
    option("--split", "NAME", "split of a folder or of tfds:NAME (default: test)"),
    CHANGES,
    option("-o --output", "FILE", "file for predictions of --data (default: stdout)", type=FILE),
    option("--submission", "ZIP", "zip of --output's folder for the server of GLUE", type=FILE),
    examples="""
  bert-keras predict runs/sst2/model "a good film"
  bert-keras predict google-bert/bert-base-uncased "The capital of France is [MASK]."
  bert-keras predict runs/mrpc/model --data glue/MRPC --output MRPC.tsv
  bert-keras predict runs/mnli/model --data glue/MNLI --split ax \\
    --output predictions/AX.tsv --submission submission.zip""",
)
def predict(options: argparse.Namespace) -> None:
    """Print the answers of a model to texts, or its predictions for a file."""
    is_file = bool(options.data or options.output)
    check(not (is_file and options.texts), "texts and --data or --output are given; give one")
    expected = 'expected texts, such as predict MODEL "a text", or --data FILE'
    check(options.data or options.texts, f"{'--data is missing; ' * is_file}{expected}")
    check(options.output or not options.submission, "--submission needs an --output")
    options.output = options.output or "-"
    check(not (is_file and options.json), "--json is for texts; --data gives a table")
    is_same = is_file and os.path.realpath(options.data) == os.path.realpath(options.output)
    check(not is_same, f"--output {options.output} is the file of --data; name another one")
    for text in filter(os.path.isfile, options.texts):
        raise InputError(f"{text} is a file; give it as --data {text}")
    _choose_split(options, "test")
    unused = [f"--{name}" for name in ("task", "submission") if getattr(options, name)]
    unused += ["--set"] * bool(options.changes)
    check(is_file or not unused, f"{' and '.join(unused)} is for --data; omit it with texts")
    check(all(map(str.strip, options.texts)), "a text is empty; expected words")
    if is_file:
        check_examples(task_examples, **values(options, "model", *EXAMPLES))
    else:
        check_texts(options.model, options.texts)
    start_keras(options)
    if options.texts:
        found = answers(options.model, options.texts)
        as_json = json.dumps([answer for _, answer in found], indent=2, ensure_ascii=False)
        print(printable(as_json if options.json else "\n".join(lines(found))))
        return
    from bert_keras.downstream.glue import check_submission, submission_zip
    from bert_keras.runs.evaluate import predict_examples

    folder, file = os.path.split(os.path.abspath(options.output))
    if options.submission:
        check_submission(folder, new=file)
    task, examples, predicted = predict_examples(options.model, **values(options, *EXAMPLES))
    replaced = " (replaced)" if os.path.isfile(options.output) else ""
    task.write_predictions(options.output, examples, predicted)
    where = {"-": "the standard output"}.get(options.output, f"{options.output}{replaced}")
    counts = f"{len(examples):,} in {where}"
    say("predictions", counts, file=messages_beside(options.output))
    if options.submission:
        submission_zip(folder, options.submission)
        say("submission", options.submission)


@command(
    MODEL,
    required("--data", "FILE", "UTF-8 file with a text on each line", type=checked(check_no_table)),
    required("-o --output", "FILE", "a .npy file, or a .parquet file with the texts", type=VECTORS),
    option("--dimensions", "N", "number of values of each embedding (default: all)", type=count),
    option("--prompt", "NAME", "name of the prompt before each text (default: that of the model)"),
    examples="  bert-keras embed runs/sts/model --data lines.txt --output vectors.npy",
)
def embed(options: argparse.Namespace) -> None:
    """Write the embedding of each line of a text file; the same command continues a stopped run."""
    refuse_existing(options.output)
    start_keras(options)
    from bert_keras.runs.embeddings import write_embeddings

    arguments = values(options, "model", "dimensions", "prompt")
    num_texts, size = write_embeddings(options.data, options.output, **arguments)
    say("embeddings", f"{num_texts:,} of {size} values in {options.output}")
