"""`bert-keras`: one verb a run; parses, calls, prints."""

import argparse
import contextlib
import os
from collections.abc import Sequence

from bert_keras.cli import tasks
from bert_keras.errors import run_command
from bert_keras.quiet import import_tensorflow


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    arguments = parser.parse_args(argv)

    def run() -> None:
        import_tensorflow()
        try:
            with _devices(arguments):
                arguments.run(arguments)
        except KeyboardInterrupt:
            if arguments.verb not in ("finetune", "pretrain"):
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

    sub = verb(
        "pretrain",
        _pretrain,
        "Train on records by a named recipe; the same command continues an interrupted run.",
        "bert-keras pretrain tiny-hour --records records --output runs/tiny",
    )
    sub.add_argument("recipe", metavar="RECIPE", help="see PRETRAIN in bert_keras/runs/recipes.py; "
                     "a wrong name lists them")  # fmt: skip
    sub.add_argument("--set", nargs="+", default=(), dest="changes", metavar="FIELD=VALUE",
                     help="change the recipe, such as seed=2 num_steps=1000")  # fmt: skip
    sub.add_argument("--records", required=True, metavar="DIR", help="record files and vocab.txt, "
                     "as bert-tfrecords build writes them")  # fmt: skip
    sub.add_argument("--from", dest="start", metavar="DIR", help="go on from a checkpoint of any "
                     "format (see convert), at its step where it has a training state")  # fmt: skip
    sub.add_argument("--output", required=True, metavar="DIR")
    tasks.add_devices(sub)

    tasks.add_finetune(verb)
    tasks.add_evaluate(verb)
    tasks.add_predict(verb)
    tasks.add_submission(verb)
    tasks.add_features(verb)

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
        "Write a classifier as saved_models/NAME/VERSION, verified through TF Serving's loader.",
        "bert-keras export runs/sst2/model sst2",
    )
    sub.add_argument("model", metavar="MODEL_DIR", help="OUTPUT/model of a fine-tuning run")
    sub.add_argument("name", metavar="NAME", help="what the server calls it")
    sub.add_argument("--version", type=int, metavar="N", help="default: one more than the newest")
    sub.add_argument("--texts", type=int, choices=(1, 2), help="one text or a pair (default: as "
                     "the model says; one where it does not)")  # fmt: skip
    sub.add_argument("--to", default="saved_models", metavar="DIR", help="default: saved_models")

    sub = verb(
        "serve",
        _serve,
        "Answer TF Serving's REST API for saved_models/NAME on this machine.",
        "bert-keras serve saved_models/sst2 --port 8501",
    )
    sub.add_argument("model", metavar="saved_models/NAME")
    sub.add_argument("--port", type=int, default=8501, help="default: 8501")
    sub.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1, this machine only")
    return parser


def _devices(arguments) -> contextlib.AbstractContextManager:
    if "strategy" not in arguments:
        return contextlib.nullcontext()
    import keras

    from bert_keras.devices.precision import named_policy
    from bert_keras.devices.strategy import named_strategy

    strategy = named_strategy(arguments.strategy)
    keras.config.set_dtype_policy(named_policy(arguments.precision))
    if strategy.num_replicas_in_sync > 1:
        print(f"{strategy.num_replicas_in_sync} replicas: {type(strategy).__name__}")
    return strategy.scope()


def _demo(arguments) -> None:
    from bert_keras.demo import demo

    demo(corpus=arguments.corpus, output=arguments.output, seed=arguments.seed)


def _pretrain(arguments) -> None:
    from bert_keras.runs.pretrain import pretrain
    from bert_keras.runs.recipes import PRETRAIN, named_recipe

    scores = pretrain(
        named_recipe(PRETRAIN, arguments.recipe, changes=arguments.changes),
        records=arguments.records,
        output=arguments.output,
        start=arguments.start,
    )
    tasks.print_scores(scores, arguments.output)


def _convert(arguments) -> None:
    from bert_keras.convert.conversion import convert

    table = convert(
        arguments.source,
        arguments.destination,
        format=arguments.to,
        model=arguments.model,
        ignore=arguments.ignore,
        pad_vocabulary=arguments.pad_vocabulary,
    )
    print(table)


def _curves(arguments) -> None:
    from bert_keras.training.curves import plot_curves

    plot_curves(arguments.logs, arguments.picture)
    print(arguments.picture)


def _export(arguments) -> None:
    from bert_keras.export.model_folder import export_model, next_version

    place = os.path.join(arguments.to, arguments.name)
    version = next_version(place) if arguments.version is None else arguments.version
    folder = os.path.join(place, str(version))
    written = export_model(arguments.model, folder, num_texts=arguments.texts)
    print(f"{written}\nserve it:  bert-keras serve {place} --port 8501")


def _serve(arguments) -> None:
    from bert_keras.serving.server import serve

    serve(arguments.model, port=arguments.port, host=arguments.host)
