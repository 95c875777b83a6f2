"""Defines the SWAG task: choose the most plausible ending of a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import keras
import numpy as np

from bert_keras.architectures import MULTIPLE_CHOICE
from bert_keras.downstream.label_scores import majority_accuracy
from bert_keras.downstream.table import read_numbered, table_rows, write_numbered
from bert_keras.downstream.task import (
    Outputs,
    Task,
    data_files,
    needs_labels,
    no_labels_error,
    softmax,
)
from bert_keras.downstream.texts import EncodedGroups, num_tokens
from bert_keras.downstream.tfds import is_tfds, tfds_files
from bert_keras.errors import InputError, check_least
from bert_keras.files import StrPath
from bert_keras.options import fixed
from bert_keras.text.tokenizer import TextTokenizer

NUM_ENDINGS = 4
ENDINGS = tuple(f"ending{number}" for number in range(NUM_ENDINGS))
PREDICTIONS_HEADER = ("", "pred")
# The possible file names of each split.
FILES = {
    "train": ("train.csv", "train.jsonl"),
    "dev": ("val.csv", "val.jsonl", "dev.csv", "dev.jsonl"),
    "test": ("test.csv", "test.jsonl"),
}


@dataclass(frozen=True, slots=True)
class SwagExample:
    """One example of SWAG."""

    context: str  # the first sentence
    start: str  # the start of the second sentence; it may be empty
    endings: tuple[str, ...]  # the possible ends of the second sentence
    label: int | None  # the index of the right ending; None if unknown
    location: str = field(default="", compare=False)  # where it was read, as "FILE, line N"


@dataclass(frozen=True, slots=True)
class ChosenEnding:
    """The predicted ending of an example."""

    ending: int  # the index of the ending
    # One for each ending; () for a prediction that was read from a file.
    probabilities: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SwagTask(Task[SwagExample, EncodedGroups, ChosenEnding]):
    """The SWAG task (BERT paper, section 4.4).

    Each ending gives a sequence `[CLS] sent1 [SEP] sent2 ending [SEP]`, and one vector scores the
    four sequences. A sequence that is too long loses tokens at the end of its longer text, as in
    run_swag.py of PyTorch's BERT and of Hugging Face's Transformers. The script of BERT's authors
    was not published.

    Raises:
        InputError: `max_length` is less than 4.
    """

    name: str = fixed("swag")
    max_length: int = 128  # maximum number of tokens of a sequence, special tokens included

    model: ClassVar[str] = MULTIPLE_CHOICE.name
    metric: ClassVar[str] = "accuracy"
    input_names: ClassVar[tuple[str, ...]] = ("sent1", "sent2", *ENDINGS)
    prediction_file: ClassVar[str] = "predictions.csv"

    def __post_init__(self):
        check_least(self, 4, "max_length")  # [CLS], two [SEP] and a token

    def files(self, data: StrPath) -> dict[str, str]:
        """Returns the files of the splits: the official train.csv, val.csv and test.csv, or .jsonl.

        The file of "dev" may be named "val" or "dev".
        """
        return tfds_files(data) if is_tfds(data) else data_files(data, names=FILES)

    def read(self, path: StrPath, *, split: str = "train") -> list[SwagExample]:
        """Reads the columns sent1, sent2, ending0 to ending3 and label; test files have no label.

        Raises:
            InputError: A text except sent2 is empty, or a label is missing or invalid.
        """
        is_labelled = needs_labels(split)
        columns = (*self.input_names, "label") if is_labelled else self.input_names
        examples = []
        for location, row in table_rows(path, columns=columns):
            for column in ("sent1", *ENDINGS):
                if not row[column].strip():
                    raise InputError(f"{location} has an empty {column}; expected a text")
            text = row.get("label", "")
            label = _label(text, location) if is_labelled or text else None
            endings = tuple(row[column] for column in ENDINGS)
            examples.append(SwagExample(row["sent1"], row["sent2"], endings, label, location))
        return examples

    def encode(self, examples: Sequence[SwagExample], tokenizer: TextTokenizer) -> EncodedGroups:
        """Encodes the examples; a batch has inputs of shape [B, 4, T]."""
        contexts = tokenizer.ids_batch([each.context for each in examples])
        texts = (
            [ids for ids in contexts for _ in ENDINGS],
            tokenizer.ids_batch(
                [f"{each.start} {ending}" for each in examples for ending in each.endings]
            ),
        )
        lengths_NC = num_tokens(texts, tokenizer.vocabulary).reshape(-1, NUM_ENDINGS)
        return EncodedGroups(
            texts,
            np.array([each.label or 0 for each in examples], np.int32),
            self.max_length,
            tokenizer.vocabulary,
            np.minimum(lengths_NC.max(axis=1), self.max_length),
            NUM_ENDINGS * np.arange(len(examples) + 1),
        )

    def compile_arguments(self) -> dict:
        return {
            "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "metrics": ["accuracy"],
        }

    def predictions(
        self, examples: Sequence[SwagExample], encoded: EncodedGroups, outputs: Outputs
    ) -> list[ChosenEnding]:
        probabilities_NC = softmax(np.asarray(outputs, np.float64))
        return [ChosenEnding(int(row.argmax()), tuple(row.tolist())) for row in probabilities_NC]

    def check_labels(self, examples: Sequence[SwagExample]) -> None:
        for each in examples:
            if each.label is None:
                raise no_labels_error(each.location)

    def score(
        self, examples: Sequence[SwagExample], predictions: Sequence[ChosenEnding]
    ) -> dict[str, float]:
        self.check_labels(examples)
        pairs = zip(examples, predictions, strict=True)
        return {"accuracy": float(np.mean([each.label == chosen.ending for each, chosen in pairs]))}

    def baseline(
        self, train: Sequence[SwagExample], dev: Sequence[SwagExample]
    ) -> dict[str, float]:
        return {"majority_accuracy": majority_accuracy(train, dev)}

    def write_predictions(
        self, path: StrPath, examples: Sequence[SwagExample], predictions: Sequence[ChosenEnding]
    ) -> None:
        """Writes the row number and the ending, like csv_predict.py of rowanz/swagaf."""
        rows = [[str(chosen.ending)] for chosen in predictions]
        write_numbered(path, rows, header=PREDICTIONS_HEADER, separator=",")

    def read_predictions(
        self, path: StrPath, examples: Sequence[SwagExample]
    ) -> list[ChosenEnding]:
        rows = read_numbered(path, header=PREDICTIONS_HEADER, num_rows=len(examples), separator=",")
        return [ChosenEnding(_label(columns[0], location)) for location, columns in rows]


def _label(text: str, location: str) -> int:
    if text not in map(str, range(NUM_ENDINGS)):
        expected = f"the index of an ending, 0 to {NUM_ENDINGS - 1}"
        raise InputError(f"{location} has the label {text!r}; expected {expected}")
    return int(text)


SWAG_TASK = SwagTask()
