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

FORMATS = ("bert-keras", "google", "huggingface", "sentence-transformers")
VARIANTS = ("float16", "bfloat16", "int8")


@command(
    MODEL,
    option("destination", "NEW_FOLDER", "the folder to write", type=checked(refuse_existing)),
    option("--format", "FORMAT", ", ".join(FORMATS), "bert-keras", choices=FORMATS),
    option("--model-class", "CLASS", "the part to convert, such as BertEncoder or BertMaskedLM"),
    option("--layers", "N", "N evenly spaced layers and no pooler, as a student", type=count),
    option("--extend-vocabulary", "FILE", "tokens, one a line, to add to a WordPiece vocabulary"),
    option("--ignore", "NAME", "what to omit, as an error names it", [], action="append"),
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
    option("texts", "TEXT", "a text or a pair; without [MASK], each token is masked", nargs="+"),
    required("-o --output", "PAGE", "the .html file to write", type=PAGE),
    option("--top-k", "N", "tokens to show at each masked position", 10, type=count),
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
    option("name", "NAME", "the name of the model on the server"),
    option("--model-version", "N", "the version (default: the latest version plus 1)", type=count),
    option("--num-texts", "N", "number of input texts of a classifier", type=int, choices=(1, 2)),
    option("-o --output", "DIR", "the folder of all exported models", "saved_models"),
    option("--serving-config", "DIR", "also write files for compose, Kubernetes, KServe, Vertex"),
    option("--variant", "NAME", f"{', '.join(VARIANTS)}; it needs --data", choices=VARIANTS),
    option("--data", "FILE", "the examples to score a variant on: a file, or a folder of the task"),
    option("--task", "TASK", "the task of the variant (default: that of its fine-tuning)"),
    CHANGES,
    option("--accept-loss", "POINTS", argparse.SUPPRESS, type=float),
    option("--max-score-drop", "POINTS", "the largest drop of the score, of 100 points", 0.5),
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
    check(
        options.data or not options.variant,
        "--variant requires --data, labelled examples to score the variant on",
    )
    model_folder = os.path.join(options.output, options.name)
    path = Path(model_folder, str(options.model_version or next_version(model_folder)))
    check_version(path)
    start_keras(options, backends=("tensorflow",))
    from bert_keras.exporting.export import export

    export_model = partial(
        export,
        options.model,
        path,
        **values(options, "num_texts", "variant", "data", "task", "changes", "max_score_drop"),
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
    option("model", "saved_models/NAME", "the folder of the exported versions"),
    option("--port", "N", "the TCP port", 8501),
    option("--host", "ADDRESS", "the address to listen on", "127.0.0.1"),
    option("--versions", "N", "the versions (default: the latest)", [], type=int, nargs="+"),
    option("--max-batch-size", "N", "the most texts in a batch, fewer if long", 32, type=count),
    option("--timeout", "SECONDS", "the time limit of a request", 30.0, dest="seconds"),
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
