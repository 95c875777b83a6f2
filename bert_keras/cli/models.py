"""Defines the commands that take a model: convert, inspect, export and serve."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from bert_keras.errors import InputError
from bert_keras.options import Command, argument, option
from bert_keras.storage import whole_folder

_MODEL = "OUTPUT/model of a run, or a checkpoint of any format (see convert)"


@dataclass(frozen=True, kw_only=True)
class Convert(Command):
    """Write a checkpoint of any format as a folder of another, then read it back and compare."""

    examples: ClassVar[str] = (
        "bert-keras convert uncased_L-12_H-768_A-12 bert-base --to huggingface\n"
        "  bert-keras convert bert-base-uncased runs/base"
    )

    source: str = argument(
        "SRC",
        help="a folder of Google's, Hugging Face's, KerasHub's or ours, or a TF1 checkpoint's path "
        "without .index",
    )
    destination: str = argument("DST", help="a new folder")
    to: str = option(
        "bert-keras", metavar="FORMAT", help="bert-keras, google, huggingface or keras-hub"
    )
    model: str | None = option(
        None,
        metavar="NAME",
        help="take this part of SRC, such as the BertEncoder or BertMaskedLM of a BertPretrainer",
        told="all",
    )
    layers: int | None = option(
        None,
        metavar="N",
        help="take N layers, from the first to the last, and no pooler: a student for --teacher",
    )
    ignore: tuple[str, ...] = option(
        (),
        action="append",
        metavar="NAME",
        help="a tensor of SRC to leave out, or a rule that an error names; may be repeated",
    )
    pad_vocabulary: bool = option(
        False,
        help="add unused pieces where the token table has more rows than the vocabulary has lines",
    )

    def run(self) -> None:
        from bert_keras.checkpoints.conversion import convert

        table = convert(
            self.source,
            self.destination,
            format=self.to,
            model=self.model,
            num_layers=self.layers,
            ignore=self.ignore,
            pad_vocabulary=self.pad_vocabulary,
        )
        print(table)


@dataclass(frozen=True, kw_only=True)
class Inspect(Command):
    """Write a page of a text's attention and masked words, and of a word's vectors."""

    examples: ClassVar[str] = (
        'bert-keras inspect runs/tiny/model "The capital of France is [MASK]." -o page.html\n'
        '  bert-keras inspect minilm "He sat by the river." "The water was cold." -o page.html\n'
        "  bert-keras inspect minilm --word bank --sentences banks.txt -o page.html"
    )

    model: str = argument("MODEL_DIR", help=_MODEL)
    texts: tuple[str, ...] = argument(
        "TEXT",
        (),
        nargs="*",
        help="one, or the two of a pair; without a [MASK] each piece is masked in turn",
    )
    output: str = option(flags=["-o", "--output"], metavar="PAGE", help="an .html file")
    top_k: int = option(10, metavar="N", help="the most probable pieces at each masked position")
    word: str | None = option(None, metavar="WORD", help="compare its vectors; with --sentences")
    sentences: str | None = option(
        None, metavar="FILE", help="UTF-8, one sentence a line, WORD in each"
    )

    def run(self) -> None:
        from bert_keras.reports.inspection import inspect_texts

        inspect_texts(
            self.model,
            self.texts,
            output=self.output,
            word=self.word,
            sentences=self.sentences,
            num_pieces=self.top_k,
        )
        print(f"page: {self.output}")


@dataclass(frozen=True, kw_only=True)
class Export(Command):
    """Write a model as saved_models/NAME/VERSION, verified through TF Serving's loader."""

    examples: ClassVar[str] = (
        "bert-keras export runs/sst2/model sst2\n"
        "  bert-keras export runs/sst2/model sst2-int8 --variant int8 --data glue/SST-2"
    )

    model: str = argument("MODEL_DIR", help=_MODEL)
    name: str = argument("NAME", help="the model's name on the server")
    version: int | None = option(None, metavar="N", told="one more than the newest")
    texts: int | None = option(
        None,
        choices=(1, 2),
        help="of a classifier: one text or a pair",
        told="as the model says; one where it does not",
    )
    to: str = option("saved_models", metavar="DIR")
    serving_config: str | None = option(
        None,
        metavar="DIR",
        help="measure the model and write a folder that starts TF Serving with it, in Docker or "
        "Kubernetes",
    )
    variant: str | None = option(
        None,
        metavar="VARIANT",
        help="a smaller or faster one: float16, int8 or litert, compared with float32; "
        "not written where it gains nothing",
    )
    data: str | None = option(
        None,
        metavar="DIR",
        help="what a variant is scored on: the task's files, of which dev is taken, or one file",
    )
    task: str | None = option(
        None, metavar="TASK", help="of a variant's model", told="the one that it was fine-tuned on"
    )
    accept_loss: float = option(
        0.5, metavar="POINTS", help="of the score that a variant may lose, of a hundred"
    )

    def run(self) -> None:
        from bert_keras.export.variants.export_variant import NOT_SERVED
        from bert_keras.export.version_folder import check_model_name, next_version

        check_model_name(self.name)
        place = os.path.join(self.to, self.name)
        version = next_version(place) if self.version is None else self.version
        folder = os.path.join(place, str(version))
        export = partial(self._exporter(), self.model, folder, num_texts=self.texts)
        config = self.serving_config
        note = NOT_SERVED.get(self.variant) if self.variant else None
        if config is None:
            serve = note or f"serve it:  bert-keras serve {place} --port 8501"
            print(f"{export()}\n{serve}")
            return
        if note:
            raise InputError(f"--serving-config does not go with {self.variant}: {note}")
        from bert_keras.serving.tf_serving.config_files import check_name, write_config

        check_name(self.name)
        with whole_folder(config) as beside:  # reports an existing folder before the long export
            written = export()
            write_config(written, beside)
        print(f"{written}\n{config}\nserve it:  docker compose -f {config}/compose.yaml up")

    def _exporter(self) -> Callable:
        from bert_keras.export.model_folder import export_model
        from bert_keras.export.variants.export_variant import export_variant

        if self.variant is None:
            return export_model
        if self.data is None:
            raise InputError("--variant came without --data; name labelled examples to score it on")
        return partial(
            export_variant,
            variant=self.variant,
            data=self.data,
            task=self.task,
            most_lost=self.accept_loss,
        )


@dataclass(frozen=True, kw_only=True)
class Serve(Command):
    """Answer TF Serving's REST API for saved_models/NAME on this machine."""

    examples: ClassVar[str] = (
        "bert-keras serve saved_models/sst2 --port 8501\n"
        "  bert-keras serve saved_models/sst2 --versions 3 4 --label stable=3 --label canary=4"
    )

    model: str = argument("saved_models/NAME")
    port: int = option(8501)
    host: str = option("127.0.0.1", told="127.0.0.1, this machine only")
    versions: tuple[int, ...] = option(
        (), metavar="N", help="serve these", told="always the newest, which replaces the one before"
    )
    label: tuple[str, ...] = option(
        (),
        action="append",
        metavar="NAME=N",
        help="serve version N at /labels/NAME too; may be repeated",
    )
    max_batch_size: int = option(
        32, metavar="N", help="rows of waiting requests in one run; fewer of long texts"
    )
    timeout: float = option(30, metavar="SECONDS", help="of one request")

    def run(self) -> None:
        from bert_keras.serving.limits import Limits
        from bert_keras.serving.server import serve

        serve(
            self.model,
            port=self.port,
            host=self.host,
            versions=self.versions,
            labels=dict(map(_label, self.label)),
            limits=Limits(max_batch_size=self.max_batch_size, seconds=self.timeout),
        )


def _label(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name or not (number.isascii() and number.isdigit()):
        raise InputError(f"--label {text} is no NAME=N; give a name and a version's number")
    return name, int(number)
