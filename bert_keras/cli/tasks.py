"""Defines the commands that score and apply models, such as evaluate, predict and embed."""

import json
from argparse import REMAINDER
from dataclasses import dataclass
from typing import ClassVar

from bert_keras.commands import Command
from bert_keras.errors import counted, printable
from bert_keras.options import argument, option


@dataclass(frozen=True, kw_only=True)
class ExamplesOptions(Command):
    """A task and a file of its examples."""

    task: str = argument("TASK", help="a name of a task; an unknown name lists all tasks")
    data: str = option(
        metavar="FILE", help="a file of the task, or a folder or tfds:NAME with a --split"
    )
    split: str = option("dev", help="the split of the folder or of tfds:NAME")
    changes: tuple[str, ...] = option(
        (), flags=["--set"], metavar="FIELD=VALUE", help="change settings of the task"
    )


@dataclass(frozen=True, kw_only=True)
class Evaluate(ExamplesOptions):
    """Score a model, or a file of predictions, on labelled examples with the task's metrics."""

    examples: ClassVar[str] = (
        "bert-keras evaluate mrpc --model runs/mrpc/model --data glue/MRPC --report mrpc.html\n"
        "  bert-keras evaluate squad1 --predictions predictions.json --data dev-v1.1.json --json"
    )

    model: str = option(
        "", metavar="DIR", either="source", help="OUTPUT/model of a fine-tuning run"
    )
    predictions: str = option("", metavar="FILE", either="source", help="as written by predict")
    json: bool = option(False, help="print the scores as JSON")
    report: str | None = option(
        None, metavar="PAGE", help="write an HTML page with scores and errors"
    )

    def run(self) -> None:
        from bert_keras.runs.evaluate import evaluate

        scores = evaluate(
            self.task,
            data=self.data,
            model=self.model or None,
            predictions=self.predictions or None,
            split=self.split,
            report=self.report,
            changes=self.changes,
        )
        if self.json:
            print(json.dumps(scores, indent=2))
        else:
            print_table(scores)
            if self.report:
                print(f"report: {self.report}")


@dataclass(frozen=True, kw_only=True)
class Predict(ExamplesOptions):
    """Write the predictions of a model in the format of the task's official scorer or server."""

    examples: ClassVar[str] = (
        "bert-keras predict mrpc --model runs/mrpc/model --data glue/MRPC --output MRPC.tsv\n"
        "  bert-keras predict sst2 --server http://localhost:8501/v1/models/sst2 \\\n"
        "    --data glue/SST-2 --output SST-2.tsv"
    )

    split: str = option("test", help="the split of the folder or of tfds:NAME")
    model: str = option(
        "", metavar="DIR", either="source", help="OUTPUT/model of a fine-tuning run"
    )
    server: str = option(
        "",
        metavar="URL",
        either="source",
        help="http://HOST:PORT/v1/models/NAME of a served model that predicts classes or numbers",
    )
    output: str = option(metavar="FILE", help="the file of predictions to write")

    def run(self) -> None:
        from bert_keras.downstream.catalog import named_task
        from bert_keras.downstream.task import examples_file
        from bert_keras.files import check_output
        from bert_keras.runs.evaluate import model_predictions
        from bert_keras.serving.remote_predictions import server_predictions

        check_output(self.output)
        data = examples_file(named_task(self.task), self.data, split=self.split)
        source = {"data": data, "split": self.split, "changes": self.changes}
        if self.server:
            result = server_predictions(self.task, server=self.server, **source)
        else:
            result = model_predictions(self.task, model=self.model, **source)
        result.write(self.output)
        print(f"{counted(len(result.examples), 'prediction')}: {self.output}")


@dataclass(frozen=True, kw_only=True)
class Submission(Command):
    """Pack the eleven prediction files of GLUE into a zip file for its server."""

    examples: ClassVar[str] = "bert-keras submission predictions --output submission.zip"

    folder: str = argument("DIR", help="a folder with CoLA.tsv, SST-2.tsv, ... AX.tsv")
    output: str = option(metavar="FILE", help="the .zip file to write")

    def run(self) -> None:
        from bert_keras.downstream.glue.submission import submission_zip

        submission_zip(self.folder, self.output)
        print(self.output)


@dataclass(frozen=True, kw_only=True)
class Features(Command):
    """Write the encoder's vectors of each text of a file."""

    examples: ClassVar[str] = (
        "bert-keras features --from bert-base-uncased --texts lines.txt --output lines.npz\n"
        "  bert-keras features --from bert-base-uncased --texts lines.txt --output lines.jsonl \\\n"
        "    --layers -1 -2 -3 -4 --of words"
    )

    pretrained: str = option(
        flags=["--from"], metavar="DIR", help="a checkpoint of any format (see convert)"
    )
    texts: str = option(metavar="FILE", help="a UTF-8 file with one text on each line")
    output: str = option(
        metavar="FILE", help="an .npz file, or a .jsonl file as of Google's extract_features.py"
    )
    layers: tuple[int, ...] | None = option(
        None,
        metavar="N",
        help="layers to write: 0 is the embeddings, 1 the first layer, -1 the last layer",
        default_text="-1 -2 -3 -4, as far as they exist",
    )
    of: str = option(
        "tokens",
        metavar="UNIT",
        help="tokens (each token), words (the first token of each) or texts (mean of the tokens, "
        "or the embedding of a sentence encoder)",
    )

    def run(self) -> None:
        from bert_keras.runs.features import write_features

        write_features(self.pretrained, self.texts, self.output, layers=self.layers, of=self.of)
        print(self.output)


@dataclass(frozen=True, kw_only=True)
class Embed(Command):
    """Write the embedding of each line of a text file."""

    examples: ClassVar[str] = (
        "bert-keras embed lines.txt --model all-MiniLM-L6-v2 --output vectors.npy\n"
        "  bert-keras embed lines.txt --model all-MiniLM-L6-v2 --output vectors.parquet\n"
        "  bert-keras embed 'lines-*.txt' --model saved_models/minilm --output vectors --beam"
    )

    texts: str = argument("FILE", help="a UTF-8 file with one text on each line")
    model: str = option(
        metavar="DIR",
        help="a folder of sentence-transformers or a checkpoint of any format (see convert); with "
        "--beam saved_models/NAME",
    )
    output: str = option(
        metavar="FILE",
        help="a .npy file, or a .parquet file with the texts; with --beam a folder of .parquet "
        "files",
    )
    dimensions: int | None = option(
        None,
        metavar="N",
        help="keep the first N values of each embedding, and scale them to length 1 if the model "
        "does",
    )
    prompt: str | None = option(
        None,
        metavar="NAME",
        help="the prompt of the model to put before each text",
        default_text="the default prompt of the model, if it has one",
    )
    beam: tuple[str, ...] | None = option(
        None,
        nargs=REMAINDER,
        metavar="OPTION",
        help="run as an Apache Beam job; all arguments after it are options of Beam",
    )

    def run(self) -> None:
        if self.beam is not None:
            from bert_keras.serving.beam_embeddings import embed_on_beam

            self.check_unused("prompt", reason="with --beam, as the exported model puts its own")
            counts = embed_on_beam(
                self.texts,
                self.output,
                model=self.model,
                dimensions=self.dimensions,
                pipeline_options=self.beam,
            )
            print(*(f"{kind}: {count:,}" for kind, count in counts.items() if count), sep="; ")
            print(self.output)
            return
        from bert_keras.runs.embeddings import write_embeddings

        num_texts, size = write_embeddings(
            self.texts,
            self.output,
            model=self.model,
            dimensions=self.dimensions,
            prompt=self.prompt,
        )
        print(f"{counted(num_texts, 'embedding')} of {size} values: {self.output}")


def print_table(scores: dict) -> None:
    """Print one line for each score."""
    for name, value in scores.items():
        number = f"{value:>12,.4f}" if isinstance(value, float) else f"{value:>12,}"
        print(f"{printable(name):<34}{number}")
