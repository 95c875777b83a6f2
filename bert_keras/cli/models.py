"""Defines the commands that take a model: convert, inspect, export and serve."""

import argparse
import os
from functools import partial
from pathlib import Path
from shlex import quote

from bert_keras.arguments import checked
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
from bert_keras.cli.tasks import CHANGES
from bert_keras.errors import check, printable, say
from bert_keras.files import atomic_folder, messages_beside, refuse_existing, text_lines
from bert_keras.renamed import warn_renamed
from bert_keras.runs.task_data import check_examples, variant_examples

FORMATS = ("bert-keras", "google", "huggingface", "sentence-transformers")
VARIANTS = ("float16", "bfloat16", "int8")


@command(
    MODEL,
    option("destination", "NEW_FOLDER", "folder to write", type=checked(refuse_existing)),
    option("--format", "FORMAT", f"format: {', '.join(FORMATS)}", "bert-keras", choices=FORMATS),
    option("--model-class", "CLASS", "class to write, such as BertEncoder or BertMaskedLM"),
    option("--layers", "N", "number of evenly spaced layers to keep, for a student", type=count),
    option("--extend-vocabulary", "FILE", "tokens to add to a WordPiece vocabulary, one a line"),
    option("--ignore", "NAME", "what to omit, by the name in an error", [], action="append"),
    flag("--pad-vocabulary", "add unused tokens if the embedding matrix has more rows"),
    examples="  bert-keras convert uncased_L-12_H-768_A-12 bert-base --format huggingface",
)
def convert(options: argparse.Namespace) -> None:
    """Convert a checkpoint from any format to another."""
    file = options.extend_vocabulary
    new_tokens = tuple(text_lines(file)) if file else ()
    check(new_tokens or not file, f"{file} is empty; write one token on each line")
    start_keras(options)
    from bert_keras.checkpoints.conversion import convert

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
    from bert_keras.reports.inspection import inspect_texts

    inspect_texts(options.model, options.texts, output=options.output, num_tokens=options.top_k)
    say("page", options.output, file=messages_beside(options.output))


@command(
    MODEL,
    option("name", "NAME", "name of the model on the server"),
    option("--model-version", "N", "number of the version (default: the next one)", type=count),
    option("--num-texts", "N", "number of texts of a classifier, 1 or 2", type=int, choices=(1, 2)),
    option("-o --output", "DIR", "folder of all exported models", "saved_models"),
    option("--serving-config", "DIR", "folder for files of Compose, Kubernetes, KServe and Vertex"),
    option("--variant", "NAME", "smaller model: float16, bfloat16 or int8", choices=VARIANTS),
    option("--data", "FILE", "examples that score the variant: file or folder of the task"),
    option("--task", "TASK", "task that scores the variant (default: that of the fine-tuning)"),
    CHANGES,
    option("--accept-loss", "POINTS", argparse.SUPPRESS, type=float),
    option("--max-score-drop", "POINTS", "largest drop of the score, of 100 points", 0.5),
    examples="""
  bert-keras export runs/sst2/model sst2
  bert-keras export runs/sst2/model sst2-int8 --variant int8 --data glue/SST-2""",
)
def export(options: argparse.Namespace) -> None:
    """Write a model as saved_models/NAME/VERSION and verify it with TF Serving's loader."""
    from bert_keras.exporting.version_folder import check_model_name, check_version, next_version
    from bert_keras.serving.container_files import check_name, instructions, write_container_files

    if options.accept_loss is not None:
        warn_renamed("--accept-loss", "--max-score-drop")
        options.max_score_drop = options.accept_loss
    check_model_name(options.name)
    found = "--variant requires --data, labelled examples to score the variant on"
    check(options.data or not options.variant, found)
    model_folder = os.path.join(options.output, options.name)
    path = Path(model_folder, str(options.model_version or next_version(model_folder)))
    check_version(path)
    arguments = values(options, "data", "task", "changes")
    is_used = options.variant or not any(arguments.values())
    check(is_used, "--data, --task and --set have no effect without a --variant; omit them")
    if options.variant:
        check_examples(variant_examples, options.model, **arguments)
    start_keras(options, backends=("tensorflow",))
    from bert_keras.exporting.export import export

    export_model = partial(
        export,
        options.model,
        path,
        **values(options, "num_texts", "variant", "max_score_drop"),
        **arguments,
    )
    if (config := options.serving_config) is None:
        written = export_model()
    else:
        check_name(options.name)
        with atomic_folder(config) as new_folder:  # fails before the long export
            written = export_model()
            write_container_files(model_folder, new_folder)
        say("compose", f"docker compose -f {quote(config)}/compose.yaml up")
    say("model", written)
    print(printable(instructions(written)))


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
    from bert_keras.exporting.version_folder import variant_of
    from bert_keras.serving.limits import Limits
    from bert_keras.serving.server import serve
    from bert_keras.serving.versions import chosen_versions

    folders = chosen_versions(options.model, options.versions).values()
    if set(map(variant_of, folders)) == {"bfloat16"}:
        # No weight changes in this process, so oneDNN may keep each kernel in its own layout.
        # Short texts take 0.7 of the time with it, in bfloat16 alone.
        os.environ.setdefault("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "1")
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # TensorFlow then imports no Keras: 2 s
    limits = Limits(**values(options, "max_batch_size", "seconds"))
    serve(options.model, **values(options, "port", "host", "versions"), limits=limits)
