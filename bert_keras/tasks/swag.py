"""Defines the SWAG task: choose the most plausible ending of a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import keras
import numpy as np

from bert_keras.architectures import MULTIPLE_CHOICE
from bert_keras.errors import InputError
from bert_keras.options import check_least, fixed
from bert_keras.storage import StrPath
from bert_keras.tasks.label_scores import majority_accuracy
from bert_keras.tasks.table import read_numbered, table_rows, write_numbered
from bert_keras.tasks.task import Outputs, Task, data_files, needs_labels, nothing_to_score, softmax
from bert_keras.tasks.texts import EncodedGroups, num_tokens
from bert_keras.text.tokenizer import TextTokenizer

NUM_ENDINGS = 4
ENDINGS = tuple(f"ending{number}" for number in range(NUM_ENDINGS))
PREDICTIONS_HEADER = ("", "pred")


@dataclass(frozen=True, slots=True)
class Situation:
    """One example of SWAG."""

    context: str  # the first sentence
    start: str  # the start of the second sentence; it may be empty
    endings: tuple[str, ...]  # the possible ends of the second sentence
    label: int | None  # the index of the right ending; None if unknown
    place: str = field(default="", compare=False)  # where it was read, as "FILE, line N"


@dataclass(frozen=True, slots=True)
class ChosenEnding:
    """The predicted ending of an example."""

    ending: int  # the index of the ending
    # One for each ending; () for a prediction that was read from a file.
    probabilities: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SwagTask(Task[Situation, EncodedGroups, ChosenEnding]):
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
        stems = {"train": ("train",), "dev": ("val", "dev"), "test": ("test",)}
        return data_files(
            data,
            names={
                split: [f"{stem}{suffix}" for stem in names for suffix in (".csv", ".jsonl")]
                for split, names in stems.items()
            },
        )

    def read(self, path: StrPath, *, split: str = "train") -> list[Situation]:
        """Reads the columns sent1, sent2, ending0 to ending3 and label; test files have no label.

        Raises:
            InputError: A text except sent2 is empty, or a label is missing or invalid.
        """
        is_labelled = needs_labels(split)
        columns = (*self.input_names, "label") if is_labelled else self.input_names
        situations = []
        for place, row in table_rows(path, columns=columns):
            for column in ("sent1", *ENDINGS):
                if not row[column].strip():
                    raise InputError(f"{place} has an empty {column}; expected a text")
            label = row.get("label", "")
            situations.append(
                Situation(
                    row["sent1"],
                    row["sent2"],
                    tuple(row[column] for column in ENDINGS),
                    _label(label, place) if is_labelled or label else None,
                    place,
                )
            )
        return situations

    def encode(self, examples: Sequence[Situation], tokenizer: TextTokenizer) -> EncodedGroups:
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
        self, examples: Sequence[Situation], encoded: EncodedGroups, outputs: Outputs
    ) -> list[ChosenEnding]:
        shares_NC = softmax(np.asarray(outputs, np.float64))
        return [ChosenEnding(int(shares.argmax()), tuple(shares.tolist())) for shares in shares_NC]

    def check_labels(self, examples: Sequence[Situation]) -> None:
        for each in examples:
            if each.label is None:
                raise nothing_to_score(each.place)

    def score(
        self, examples: Sequence[Situation], predictions: Sequence[ChosenEnding]
    ) -> dict[str, float]:
        self.check_labels(examples)
        pairs = zip(examples, predictions, strict=True)
        return {"accuracy": float(np.mean([each.label == chosen.ending for each, chosen in pairs]))}

    def baseline(self, train: Sequence[Situation], dev: Sequence[Situation]) -> dict[str, float]:
        return {"majority_accuracy": majority_accuracy(train, dev)}

    def write_predictions(
        self, path: StrPath, examples: Sequence[Situation], predictions: Sequence[ChosenEnding]
    ) -> None:
        """Writes the row number and the ending, like csv_predict.py of rowanz/swagaf."""
        rows = [[str(chosen.ending)] for chosen in predictions]
        write_numbered(path, rows, header=PREDICTIONS_HEADER, separator=",")

    def read_predictions(self, path: StrPath, examples: Sequence[Situation]) -> list[ChosenEnding]:
        rows = read_numbered(path, header=PREDICTIONS_HEADER, num_rows=len(examples), separator=",")
        return [ChosenEnding(_label(columns[0], place)) for place, columns in rows]


def _label(text: str, place: str) -> int:
    if text not in (known := [str(number) for number in range(NUM_ENDINGS)]):
        raise InputError(
            f"{place} has the label {text!r}; expected the number of an ending, 0 to {known[-1]}"
        )
    return int(text)


SWAG_TASK = SwagTask()
