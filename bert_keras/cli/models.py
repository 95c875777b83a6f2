"""Defines the commands that take a model: convert, inspect, export and serve."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from shlex import quote
from typing import ClassVar

from bert_keras.commands import Command
from bert_keras.errors import InputError, printable
from bert_keras.files import atomic_folder, text_lines
from bert_keras.options import argument, option

_MODEL = "OUTPUT/model of a run, or a checkpoint of any format (see convert)"


@dataclass(frozen=True, kw_only=True)
class Convert(Command):
    """Convert a checkpoint from any format to another, then read it back and compare."""

    examples: ClassVar[str] = (
        "bert-keras convert uncased_L-12_H-768_A-12 bert-base --to huggingface\n"
        "  bert-keras convert bert-base-uncased runs/base\n"
        "  bert-keras convert bert-base-uncased medical --extend-vocabulary new-tokens.txt"
    )

    source: str = argument(
        "SRC",
        help="a checkpoint folder of bert-keras, Google, Hugging Face or KerasHub, the path of a "
        "TF1 checkpoint without .index, or a preset of KerasHub: bert_base_en_uncased, hf://...",
    )
    destination: str = argument("DST", help="a new folder")
    to: str = option(
        "bert-keras",
        metavar="FORMAT",
        help="bert-keras, google, huggingface, keras-hub or sentence-transformers",
    )
    model: str | None = option(
        None,
        metavar="NAME",
        help="the part of SRC to convert, such as BertEncoder or BertMaskedLM of a BertPretrainer",
        default_text="all parts",
    )
    layers: int | None = option(
        None,
        metavar="N",
        help="convert N evenly spaced layers and no pooler, as a student for --teacher",
    )
    extend_vocabulary: str | None = option(
        None,
        metavar="FILE",
        help="add the tokens of FILE, one on each line, to a WordPiece vocabulary; the embedding "
        "of each is the mean of those of its former subtokens",
    )
    ignore: tuple[str, ...] = option(
        (),
        action="append",
        metavar="NAME",
        help="a tensor of SRC to omit, or a rule that an error message names; may be repeated",
    )
    pad_vocabulary: bool = option(
        False,
        help="add unused tokens if the token table has more rows than the vocabulary",
    )

    def run(self) -> None:
        from bert_keras.checkpoints.conversion import convert

        new_tokens = tuple(text_lines(self.extend_vocabulary)) if self.extend_vocabulary else ()
        if self.extend_vocabulary and not new_tokens:
            raise InputError(f"{self.extend_vocabulary} is empty; write one token on each line")
        table = convert(
            self.source,
            self.destination,
            format=self.to,
            model=self.model,
            num_layers=self.layers,
            new_tokens=new_tokens,
            ignore=self.ignore,
            pad_vocabulary=self.pad_vocabulary,
        )
        print(printable(table))


@dataclass(frozen=True, kw_only=True)
class Inspect(Command):
    """Write a page with the attention and masked words of a text, and the vectors of a word."""

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
        help="one text or a pair; without a [MASK], each token is masked in turn",
    )
    output: str = option(flags=["-o", "--output"], metavar="PAGE", help="the .html file to write")
    top_k: int = option(10, metavar="N", help="tokens to show at each masked position")
    word: str | None = option(None, metavar="WORD", help="compare its vectors in --sentences")
    sentences: str | None = option(
        None, metavar="FILE", help="a UTF-8 file with a sentence that contains WORD on each line"
    )

    def run(self) -> None:
        from bert_keras.reports.inspection import inspect_texts

        if not self.texts:
            self.check_unused("top_k", reason="without a TEXT")
        inspect_texts(
            self.model,
            self.texts,
            output=self.output,
            word=self.word,
            sentences=self.sentences,
            num_tokens=self.top_k,
        )
        print(f"page: {self.output}")


@dataclass(frozen=True, kw_only=True)
class Export(Command):
    """Write a model as saved_models/NAME/VERSION and verify it with TF Serving's loader."""

    examples: ClassVar[str] = (
        "bert-keras export runs/sst2/model sst2\n"
        "  bert-keras export runs/sst2/model sst2-int8 --variant int8 --data glue/SST-2"
    )

    model: str = argument("MODEL_DIR", help=_MODEL)
    name: str = argument("NAME", help="the name of the model on the server")
    version: int | None = option(None, metavar="N", default_text="the latest version plus 1")
    texts: int | None = option(
        None,
        choices=(1, 2),
        help="number of input texts of a classifier",
        default_text="as in the model metadata, or else 1",
    )
    dimensions: int | None = option(
        None,
        metavar="N",
        help="values to keep of each embedding of a sentence encoder",
        default_text="all",
    )
    to: str = option("saved_models", metavar="DIR", help="the folder of all exported models")
    serving_config: str | None = option(
        None,
        metavar="DIR",
        help="measure the model and write the files that run TF Serving with it in Docker or "
        "Kubernetes",
    )
    variant: str | None = option(
        None,
        metavar="VARIANT",
        help="a smaller or faster variant: float16, bfloat16, int8 or litert; written only if it "
        "improves on float32",
    )
    data: str | None = option(
        None,
        metavar="DIR",
        help="the examples to score a variant on: a file, or a folder of the task with a dev split",
    )
    task: str | None = option(
        None,
        metavar="TASK",
        help="the task of the variant",
        default_text="the task of its fine-tuning",
    )
    accept_loss: float = option(
        0.5, metavar="POINTS", help="the points, of 100, by which the score may drop"
    )

    def run(self) -> None:
        from bert_keras.exporting.export import export
        from bert_keras.exporting.variants.export_variant import NOT_SERVED
        from bert_keras.exporting.version_folder import check_model_name, export_next_version

        check_model_name(self.name)
        if self.variant is None:
            self.check_unused("data", "task", "accept_loss", reason="without --variant")
        elif self.data is None:
            raise InputError("--variant requires --data, labelled examples to score the variant on")
        model_folder = os.path.join(self.to, self.name)
        export_to = partial(
            export,
            self.model,
            num_texts=self.texts,
            dimensions=self.dimensions,
            variant=self.variant,
            data=self.data,
            task=self.task,
            max_score_loss=self.accept_loss,
        )
        if self.version is None:
            export_model = partial(export_next_version, export_to, model_folder)
        else:
            export_model = partial(export_to, os.path.join(model_folder, str(self.version)))
        config = self.serving_config
        note = NOT_SERVED.get(self.variant) if self.variant else None
        if config is None:
            serve = note or f"serve it:  bert-keras serve {quote(model_folder)} --port 8501"
            print(f"{export_model()}\n{serve}")
            return
        if note:
            raise InputError(f"--serving-config cannot be used with {self.variant}: {note}")
        from bert_keras.serving.tf_serving.config_files import check_name, write_config

        check_name(self.name)
        with atomic_folder(config) as new_folder:  # fails before the long export
            written = export_model()
            write_config(written, new_folder)
        print(f"{written}\n{config}\nserve it:  docker compose -f {quote(config)}/compose.yaml up")


@dataclass(frozen=True, kw_only=True)
class Serve(Command):
    """Serve saved_models/NAME on this machine with TF Serving's REST API."""

    examples: ClassVar[str] = (
        "bert-keras serve saved_models/sst2 --port 8501\n"
        "  bert-keras serve saved_models/sst2 --versions 3 4 --label stable=3 --label canary=4"
    )

    model: str = argument("saved_models/NAME", help="a folder with one folder for each version")
    port: int = option(8501, help="the TCP port")
    host: str = option("127.0.0.1", help="the address to listen on; 127.0.0.1 is this machine only")
    versions: tuple[int, ...] = option(
        (),
        metavar="N",
        help="the versions to serve",
        default_text="always the latest version",
    )
    label: tuple[str, ...] = option(
        (),
        action="append",
        metavar="NAME=N",
        help="also serve version N at /labels/NAME; may be repeated",
    )
    max_batch_size: int = option(
        32, metavar="N", help="the most rows of a batch; fewer if they are long"
    )
    timeout: float = option(30, metavar="SECONDS", help="the time limit of a request")

    def run(self) -> None:
        from bert_keras.exporting.version_folder import variant_of
        from bert_keras.serving.limits import Limits
        from bert_keras.serving.server import serve
        from bert_keras.serving.version_folders import chosen_versions

        folders = chosen_versions(self.model, self.versions).values()
        if set(map(variant_of, folders)) == {"bfloat16"}:
            # No weight changes in this process, so oneDNN may keep each kernel in its own layout.
            # Short texts take 0.7 of the time with it, in bfloat16 alone.
            os.environ.setdefault("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "1")
        serve(
            self.model,
            port=self.port,
            host=self.host,
            versions=self.versions,
            labels=_labels(self.label),
            limits=Limits(max_batch_size=self.max_batch_size, seconds=self.timeout),
        )


def _labels(texts: Iterable[str]) -> dict[str, int]:
    labels: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not name or not (number.isascii() and number.isdigit()):
            raise InputError(f"--label is {text!r}; expected NAME=N, such as stable=3")
        if name in labels:
            raise InputError(f"--label {name} is given twice; expected one version for each name")
        labels[name] = int(number)
    return labels
