"""Defines the commands that take a model: convert, inspect, export and serve."""

import argparse
import os
from contextlib import nullcontext
from pathlib import Path
from shlex import quote

from bert_keras.arguments import checked, count, flag, option, required
from bert_keras.checkpoints import native
from bert_keras.cli.program import MODEL, PAGE, command, start_keras, values
from bert_keras.cli.tasks import CHANGES
from bert_keras.errors import InputError, print_field, printable
from bert_keras.files import atomic_folder, messages_beside, refuse_existing, text_lines
from bert_keras.runs.settings import check_examples, variant_examples
from bert_keras.serving.version_folder import (
    FORMATS,
    check_model_name,
    check_version,
    next_version,
)

CHECKPOINTS = ("bert-keras", "google", "huggingface", "sentence-transformers")
FORMAT_HELP = "tf_saved_model (default) for TF Serving, litert for bert-keras serve, or both"


@command(
    MODEL,
    option("destination", "NEW_FOLDER", "folder to write", type=checked(refuse_existing)),
    option("--format", "FORMAT", ", ".join(CHECKPOINTS), "bert-keras", choices=CHECKPOINTS),
    option("--model-class", "CLASS", "class to write, such as BertEncoder or BertMaskedLM"),
    option("--layers", "N", "number of evenly spaced layers to keep, for a student", type=count),
    option("--extend-vocabulary", "FILE", "tokens to add to a WordPiece vocabulary, one a line"),
    option("--ignore", "NAME", "part to omit, by its name in an error", [], action="append"),
    flag("--pad-vocabulary", "add unused tokens if the embedding matrix has more rows"),
    examples="  bert-keras convert uncased_L-12_H-768_A-12 bert-base --format huggingface",
)
def convert(options: argparse.Namespace) -> None:
    """Convert a checkpoint from any format to another."""
    file = options.extend_vocabulary
    new_tokens = tuple(text_lines(file)) if file else ()
    start_keras(options)
    from bert_keras.runs.conversion import convert

    same = values(options, "format", "ignore", "pad_vocabulary")
    changes = {"model": options.model_class, "num_layers": options.layers, "new_tokens": new_tokens}
    print(printable(convert(options.model, options.destination, **changes, **same)))


@command(
    MODEL,
    option("texts", "TEXT", "text or pair; without [MASK], each token is masked", nargs="+"),
    required("-o --output", "PAGE", ".html file to write", type=PAGE),
    option("--top-k", "N", "number of tokens to show at each masked position", 10, type=count),
    examples='  bert-keras inspect runs/tiny/model "The capital of France is [MASK]." -o page.html',
)
def inspect(options: argparse.Namespace) -> None:
    """Write a page with the attention and the masked words of a text."""
    start_keras(options)
    from bert_keras.runs.inspection import inspect_texts

    inspect_texts(options.model, options.texts, output=options.output, num_tokens=options.top_k)
    print_field("page", options.output, file=messages_beside(options.output))


@command(
    MODEL,
    option("name", "NAME", "name of the model on the server"),
    option("--model-version", "N", "number of the version (default: the next one)", type=count),
    option("--num-texts", "N", "number of texts of a classifier, 1 or 2", type=int, choices=(1, 2)),
    option("-o --output", "DIR", "folder of all exported models", "saved_models"),
    option("--serving-config", "DIR", "folder for files of Compose, Kubernetes, KServe and Vertex"),
    option("--format", "FORMAT", FORMAT_HELP, nargs="+", choices=FORMATS),
    option("--variant", "NAME", "smaller and faster model: int8, of litert", choices=("int8",)),
    option("--data", "FILE", "examples that score the variant: file or folder of the task"),
    option("--task", "TASK", "task that scores the variant (default: the task of the model)"),
    CHANGES,
    option("--max-score-drop", "POINTS", "largest drop of the score, of 100 points", 0.5),
    examples="""
  bert-keras export runs/sst2/model sst2
  bert-keras export runs/sst2/model sst2 --format litert
  bert-keras export runs/sst2/model sst2-int8 --variant int8 --data glue/SST-2""",
)
def export(options: argparse.Namespace) -> None:
    """Write a model as saved_models/NAME/VERSION and verify it with TF Serving's loader."""
    from bert_keras.serving import container_files

    check_model_name(options.name)
    if options.serving_config:
        container_files.check_name_in_files(options.name)
    model_folder = os.path.join(options.output, options.name)
    path = Path(model_folder, str(options.model_version or next_version(model_folder)))
    check_version(path)
    arguments = values(options, "data", "task", "changes")
    if options.variant and not options.data:
        raise InputError("--variant needs --data, labelled examples to score the variant on")
    if options.variant:
        check_examples(variant_examples, options.model, **arguments)
    start_keras(options, backends=("tensorflow",))
    from bert_keras.runs.export import export

    arguments |= values(options, "format", "num_texts", "variant", "max_score_drop")
    config = options.serving_config
    with atomic_folder(config) if config else nullcontext() as folder:  # fails before the export
        written = export(options.model, path, **arguments)
        if folder:
            container_files.write_container_files(model_folder, folder)
    if config:
        print_field("compose", f"docker compose -f {quote(config)}/compose.yaml up")
    print_field("model", written)
    print(printable(container_files.instructions(written)))


def _check_exported(path: Path) -> None:
    """Raises InputError for a model that was not exported, and for a folder of several exports."""
    for model in (path, path / "model"):
        if native.recognises(model) or (model / "config.json").is_file():
            command = f"bert-keras export {quote(str(model))} NAME"
            raise InputError(f"{model} is a model for training; export it first: {command}")
    exported = sorted(str(each) for each in path.glob("*") if next_version(each) > 1)
    if exported and next_version(path) == 1:
        raise InputError(f"{path} contains several models; give {' or '.join(exported)}")


@command(
    option("model", "saved_models/NAME", "folder of the exported versions"),
    option("--port", "N", "TCP port", 8501),
    option("--host", "ADDRESS", "address to listen on", "127.0.0.1"),
    option("--versions", "N", "version numbers (default: the latest)", [], type=int, nargs="+"),
    option("--max-batch-size", "N", "maximum number of texts in a batch", 32, type=count),
    option("--timeout", "SECONDS", "time limit of a request", 30.0, dest="seconds"),
    examples="  bert-keras serve saved_models/sst2 --port 8501",
)
def serve(options: argparse.Namespace) -> None:
    """Serve saved_models/NAME on this machine with TF Serving's REST API."""
    _check_exported(Path(options.model))
    from bert_keras.serving.limits import Limits
    from bert_keras.serving.server import serve

    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # TensorFlow then imports no Keras: 2 s
    limits = Limits(**values(options, "max_batch_size", "seconds"))
    serve(options.model, **values(options, "port", "host", "versions"), limits=limits)
