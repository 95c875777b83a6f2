"""`bert-keras`: one verb a run; parses, calls, prints."""

import argparse
import contextlib
import os
from collections.abc import Callable, Sequence
from functools import partial

from bert_keras.cli import tasks
from bert_keras.cli.experiments import add_reproduce
from bert_keras.cli.inspection import add_inspect
from bert_keras.cli.pretraining import add_pretrain
from bert_keras.errors import InputError, run_command
from bert_keras.quiet import import_tensorflow
from bert_keras.storage import whole_folder


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    arguments = parser.parse_args(argv)

    def run() -> None:
        is_server = arguments.verb == "serve"
        import_tensorflow(without=("keras", "jax", "scipy", "h5py") if is_server else ())
        if not is_server and vars(arguments).get("strategy") != "tpu":
            from bert_keras.distribution.numerics import add_in_one_order

            add_in_one_order()
        try:
            with _devices(arguments):
                arguments.run(arguments)
        except KeyboardInterrupt:
            if arguments.verb not in ("finetune", "pretrain", "reproduce"):
                raise
            raise KeyboardInterrupt("the same command continues") from None

    return run_command(f"{parser.prog} {arguments.verb}", run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bert-keras",
        description="BERT's whole life: pretrain on records, fine-tune, export, serve.",
        epilog="Records are written with bert-tfrecords. Try `bert-keras demo` first.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, run, summary: str, example: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(run=run)
        return sub

    sub = verb(
        "demo",
        _demo,
        "Text in, a served answer out: every stage once, in minutes on two cores.",
        "bert-keras demo --corpus wiki.txt books.txt --output demo",
    )
    sub.add_argument("--corpus", nargs="+", default=(), metavar="FILE", help="UTF-8 text, one "
                     "paragraph a line, a blank line between documents (default: CPython's "
                     "language reference)")  # fmt: skip
    sub.add_argument("--output", default="demo", metavar="DIR", help="default: demo")
    sub.add_argument("--seed", type=int, default=1, help="default: 1")

    add_pretrain(verb)
    tasks.add_finetune(verb)
    tasks.add_evaluate(verb)
    tasks.add_predict(verb)
    tasks.add_submission(verb)
    tasks.add_features(verb)
    add_inspect(verb)
    add_reproduce(verb)

    sub = verb(
        "convert",
        _convert,
        "Write a checkpoint of any format as a folder of another; read back and compared.",
        "bert-keras convert uncased_L-12_H-768_A-12 bert-base --to huggingface\n"
        "  bert-keras convert bert-base-uncased runs/base",
    )
    sub.add_argument("source", metavar="SRC", help="a folder of Google's, Hugging Face's, "
                     "KerasHub's or ours, or a TF1 checkpoint's path without .index")  # fmt: skip
    sub.add_argument("destination", metavar="DST", help="a new folder")
    sub.add_argument("--to", default="bert-keras", metavar="FORMAT", help="bert-keras (default), "
                     "google, huggingface or keras-hub")  # fmt: skip
    sub.add_argument("--model", metavar="NAME", help="take this much of SRC, such as the "
                     "BertEncoder or BertMaskedLM of a BertPretrainer (default: all)")  # fmt: skip
    sub.add_argument("--layers", type=int, metavar="N", help="take N layers, from the first to "
                     "the last, and no pooler: a student for --teacher")  # fmt: skip
    sub.add_argument("--ignore", action="append", default=[], metavar="NAME", help="a tensor of "
                     "SRC to leave behind, or a rule that an error names; may be "
                     "repeated")  # fmt: skip
    sub.add_argument("--pad-vocabulary", action="store_true", help="add unused pieces where the "
                     "token table has more rows than the vocabulary has lines")  # fmt: skip

    sub = verb(
        "curves",
        _curves,
        "Draw the losses and accuracies of a run's TensorBoard logs into a picture.",
        "bert-keras curves runs/tiny/logs curves.png",
    )
    sub.add_argument("logs", metavar="LOGS", help="OUTPUT/logs of a run")
    sub.add_argument("picture", metavar="PICTURE", help=".png or .svg")

    sub = verb(
        "export",
        _export,
        "Write a model as saved_models/NAME/VERSION, verified through TF Serving's loader.",
        "bert-keras export runs/sst2/model sst2\n"
        "  bert-keras export runs/sst2/model sst2-int8 --variant int8 --data glue/SST-2",
    )
    sub.add_argument("model", metavar="MODEL_DIR", help="OUTPUT/model of a run, or a "
                     "checkpoint of any format (see convert)")  # fmt: skip
    sub.add_argument("name", metavar="NAME", help="what the server calls it")
    sub.add_argument("--version", type=int, metavar="N", help="default: one more than the newest")
    sub.add_argument("--texts", type=int, choices=(1, 2), help="of a classifier: one text or a "
                     "pair (default: as the model says; one where it does not)")  # fmt: skip
    sub.add_argument("--to", default="saved_models", metavar="DIR", help="default: saved_models")
    sub.add_argument("--serving-config", metavar="DIR", help="measure the model and write a folder "
                     "that starts TF Serving with it, in Docker or Kubernetes")  # fmt: skip
    sub.add_argument("--variant", metavar="VARIANT", help="a smaller or faster one: float16, int8, "
                     "folded, xla or litert, weighed against float32; not written where it gains "
                     "nothing")  # fmt: skip
    sub.add_argument("--data", metavar="DIR", help="what a variant is scored on: the task's files, "
                     "of which dev is taken, or one file")  # fmt: skip
    sub.add_argument("--task", metavar="TASK", help="of a variant's model (default: the one that "
                     "it was fine-tuned on)")  # fmt: skip
    sub.add_argument("--accept-loss", type=float, default=0.5, metavar="POINTS", help="of the "
                     "score that a variant may lose, of a hundred (default: 0.5)")  # fmt: skip

    sub = verb(
        "serve",
        _serve,
        "Answer TF Serving's REST API for saved_models/NAME on this machine.",
        "bert-keras serve saved_models/sst2 --port 8501\n"
        "  bert-keras serve saved_models/sst2 --versions 3 4 --label stable=3 --label canary=4",
    )
    sub.add_argument("model", metavar="saved_models/NAME")
    sub.add_argument("--port", type=int, default=8501, help="default: 8501")
    sub.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1, this machine only")
    sub.add_argument("--versions", type=int, nargs="+", default=(), metavar="N",
                     help="serve these (default: always the newest, which replaces the one "
                     "before)")  # fmt: skip
    sub.add_argument("--label", action="append", default=[], metavar="NAME=N", help="answer for "
                     "version N at /labels/NAME too; may be repeated")  # fmt: skip
    sub.add_argument("--max-batch-size", type=int, default=32, metavar="N", help="rows of "
                     "waiting requests in one run; fewer of long texts (default: 32)")  # fmt: skip
    sub.add_argument("--timeout", type=float, default=30, metavar="SECONDS",
                     help="of one request (default: 30)")  # fmt: skip
    return parser


def _devices(arguments) -> contextlib.AbstractContextManager:
    if "strategy" not in arguments:
        return contextlib.nullcontext()
    import keras

    from bert_keras.distribution.numerics import named_policy
    from bert_keras.distribution.strategy import named_strategy

    strategy = named_strategy(arguments.strategy)
    keras.config.set_dtype_policy(named_policy(arguments.precision))
    if strategy.num_replicas_in_sync > 1:
        print(f"{strategy.num_replicas_in_sync} replicas: {type(strategy).__name__}")
    return strategy.scope()


def _demo(arguments) -> None:
    from bert_keras.demo import demo

    demo(corpus=arguments.corpus, output=arguments.output, seed=arguments.seed)


def _convert(arguments) -> None:
    from bert_keras.checkpoints.conversion import convert

    table = convert(
        arguments.source,
        arguments.destination,
        format=arguments.to,
        model=arguments.model,
        num_layers=arguments.layers,
        ignore=arguments.ignore,
        pad_vocabulary=arguments.pad_vocabulary,
    )
    print(table)


def _curves(arguments) -> None:
    from bert_keras.training.curves import plot_curves

    plot_curves(arguments.logs, arguments.picture)
    print(arguments.picture)


def _export(arguments) -> None:
    from bert_keras.export.names import check_model_name, next_version
    from bert_keras.export.variant_folder import NOT_SERVED

    check_model_name(arguments.name)
    place = os.path.join(arguments.to, arguments.name)
    version = next_version(place) if arguments.version is None else arguments.version
    folder = os.path.join(place, str(version))
    export = partial(_exporter(arguments), arguments.model, folder, num_texts=arguments.texts)
    config, note = arguments.serving_config, NOT_SERVED.get(arguments.variant)
    if config is None:
        serve = note or f"serve it:  bert-keras serve {place} --port 8501"
        print(f"{export()}\n{serve}")
        return
    if note:
        raise InputError(f"--serving-config does not go with {arguments.variant}: {note}")
    from bert_keras.serving.tf_serving.folder import check_name, write_config

    check_name(arguments.name)
    with whole_folder(config) as beside:  # refused before the model is exported
        written = export()
        write_config(written, beside)
    print(f"{written}\n{config}\nserve it:  docker compose -f {config}/compose.yaml up")


def _exporter(arguments) -> Callable:
    from bert_keras.export.model_folder import export_model
    from bert_keras.export.variant_folder import export_variant

    if arguments.variant is None:
        return export_model
    if arguments.data is None:
        raise InputError("--variant came without --data; name labelled examples to score it on")
    return partial(
        export_variant,
        variant=arguments.variant,
        data=arguments.data,
        task=arguments.task,
        most_lost=arguments.accept_loss,
    )


def _serve(arguments) -> None:
    from bert_keras.serving.limits import Limits
    from bert_keras.serving.server import serve

    serve(
        arguments.model,
        port=arguments.port,
        host=arguments.host,
        versions=arguments.versions,
        labels=dict(map(_label, arguments.label)),
        limits=Limits(max_batch_size=arguments.max_batch_size, seconds=arguments.timeout),
    )


def _label(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name or not (number.isascii() and number.isdigit()):
        raise InputError(f"--label {text} is no NAME=N; give a name and a version's number")
    return name, int(number)
