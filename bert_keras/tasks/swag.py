"""SWAG: chooses the ending that fits a sentence and the start of the next one."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import keras
import numpy as np

from bert_keras.architectures import MULTIPLE_CHOICE
from bert_keras.errors import InputError
from bert_keras.options import fixed
from bert_keras.storage import whole_file
from bert_keras.tasks.table import table_rows
from bert_keras.tasks.task import Encoded, Outputs, Task, data_files, nothing_to_score, softmax
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary

NUM_ENDINGS = 4
ENDINGS = tuple(f"ending{number}" for number in range(NUM_ENDINGS))
SPECIAL_PIECES = 3  # [CLS] and two [SEP]


@dataclass(frozen=True, slots=True)
class Situation:
    """`start` begins the sentence that each of the endings ends; it may be empty. `label` is the
    number of the right ending, None where it is not told. `place` is where it was read."""

    context: str
    start: str
    endings: tuple[str, ...]
    label: int | None
    place: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ChosenEnding:
    """`probabilities` are those of all endings, where a model was asked."""

    ending: int
    probabilities: tuple[float, ...] = ()


class EncodedSituations(Encoded):
    """Ids of N contexts and of 4N continuations, those of a situation one after the other."""

    def __init__(
        self,
        contexts: Sequence[Sequence[int]],
        continuations: Sequence[Sequence[int]],
        label_ids: np.ndarray,
        *,
        vocabulary: Vocabulary,
        max_length: int,
    ):
        self.contexts, self.continuations, self.label_ids = contexts, continuations, label_ids
        self.vocabulary, self.max_length = vocabulary, max_length
        lengths_NC = np.reshape([len(ids) for ids in continuations], (-1, NUM_ENDINGS))
        lengths = np.array([len(ids) for ids in contexts]) + lengths_NC.max(axis=1)
        self.lengths = np.minimum(lengths + vocabulary.num_specials(2), max_length)

    def batch(self, rows: np.ndarray) -> tuple:
        """Inputs int32 [B,4,T], labels int32 [B]."""
        choices = [NUM_ENDINGS * row + number for row in rows for number in range(NUM_ENDINGS)]
        inputs = pack(
            [self.contexts[choice // NUM_ENDINGS] for choice in choices],
            [self.continuations[choice] for choice in choices],
            vocabulary=self.vocabulary,
            max_length=self.max_length,
        )
        shape = (len(rows), NUM_ENDINGS, -1)
        return {name: ids.reshape(shape) for name, ids in inputs.items()}, self.label_ids[rows]


@dataclass(frozen=True, kw_only=True)
class SwagTask(Task[Situation, EncodedSituations, ChosenEnding]):
    """Section 4.4: four sequences `[CLS] sent1 [SEP] sent2 ending [SEP]`, scored by one vector.

    What is over `max_length` is cut from the end of the longer text first, as run_swag.py of
    PyTorch's BERT and of Hugging Face's Transformers do; the authors' own was not published.
    """

    name: str = fixed("swag")
    max_length: int = 128

    model: ClassVar[str] = MULTIPLE_CHOICE.name
    prediction_file: ClassVar[str] = "predictions.csv"

    def __post_init__(self):
        if self.max_length <= SPECIAL_PIECES:
            raise InputError(
                f"max_length is {self.max_length}; expected more than the {SPECIAL_PIECES} special "
                "pieces"
            )

    @property
    def metric(self) -> str:
        return "accuracy"

    @property
    def input_names(self) -> tuple[str, ...]:
        return ("sent1", "sent2", *ENDINGS)

    def files(self, data: str | os.PathLike) -> dict[str, str]:
        """The official train.csv, val.csv and test.csv, or .jsonl of one's own."""
        names = {"train": ("train",), "dev": ("val", "dev"), "test": ("test",)}
        return data_files(
            data,
            names={
                split: [f"{stem}{suffix}" for stem in stems for suffix in (".csv", ".jsonl")]
                for split, stems in names.items()
            },
        )

    def read(self, path: str | os.PathLike, *, split: str = "train") -> list[Situation]:
        """Of the columns sent1, sent2, ending0 to ending3 and label, which a test file lacks."""
        labelled = split in ("train", "dev")
        columns = (*self.input_names, "label") if labelled else self.input_names
        situations = []
        for place, row in table_rows(path, columns=columns):
            for column in ("sent1", *ENDINGS):
                if not row[column].strip():
                    raise InputError(f"{place} has an empty {column}; expected a text")
            situations.append(
                Situation(
                    row["sent1"],
                    row["sent2"],
                    tuple(row[column] for column in ENDINGS),
                    _label(row.get("label", ""), place) if labelled or row.get("label") else None,
                    place,
                )
            )
        return situations

    def encode(self, examples: Sequence[Situation], tokenizer: TextTokenizer) -> EncodedSituations:
        return EncodedSituations(
            tokenizer.ids_batch([each.context for each in examples]),
            tokenizer.ids_batch(
                [f"{each.start} {ending}" for each in examples for ending in each.endings]
            ),
            np.array([each.label or 0 for each in examples], np.int32),
            vocabulary=tokenizer.vocabulary,
            max_length=self.max_length,
        )

    def compile_arguments(self) -> dict:
        return {
            "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "metrics": ["accuracy"],
        }

    def predictions(
        self, examples: Sequence[Situation], encoded: EncodedSituations, outputs: Outputs
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
        """Of the place where the right ending most often stands in the training examples."""
        labels = [each.label for each in train if each.label is not None]
        ((majority, _),) = Counter(labels).most_common(1)
        scores = self.score(dev, [ChosenEnding(majority)] * len(dev))
        return {f"majority_{name}": value for name, value in scores.items()}

    def write_predictions(
        self,
        path: str | os.PathLike,
        examples: Sequence[Situation],
        predictions: Sequence[ChosenEnding],
    ) -> None:
        """Row number and ending, as csv_predict.py of rowanz/swagaf writes them."""
        with whole_file(path) as beside, beside.open("w", encoding="utf-8") as file:
            print(",pred", file=file)
            for number, chosen in enumerate(predictions):
                print(f"{number},{chosen.ending}", file=file)

    def read_predictions(
        self, path: str | os.PathLike, examples: Sequence[Situation]
    ) -> list[ChosenEnding]:
        chosen = []
        for place, row in table_rows(path, columns=("pred",)):
            if row.get("", str(len(chosen))) != str(len(chosen)):
                raise InputError(f"{place} is numbered {row['']!r}; expected {len(chosen)}")
            chosen.append(ChosenEnding(_label(row["pred"], place)))
        if len(chosen) != len(examples):
            raise InputError(
                f"{path} has {len(chosen)} predictions for {len(examples)} examples; expected one "
                "each, in the same order"
            )
        return chosen


def _label(text: str, place: str) -> int:
    if text not in [str(number) for number in range(NUM_ENDINGS)]:
        raise InputError(
            f"{place} has the label {text!r}; expected the number of an ending, 0 to "
            f"{NUM_ENDINGS - 1}"
        )
    return int(text)


SWAG_TASK = SwagTask()
