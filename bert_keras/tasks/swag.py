"""SWAG: chooses the ending that fits a sentence and the start of the next one."""

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


@dataclass(frozen=True, kw_only=True)
class SwagTask(Task[Situation, EncodedGroups, ChosenEnding]):
    """Section 4.4: four sequences `[CLS] sent1 [SEP] sent2 ending [SEP]`, scored by one vector.

    What is over `max_length` is cut from the end of the longer text first, as run_swag.py of
    PyTorch's BERT and of Hugging Face's Transformers do; the authors' own was not published.
    """

    name: str = fixed("swag")
    max_length: int = 128

    model: ClassVar[str] = MULTIPLE_CHOICE.name
    metric: ClassVar[str] = "accuracy"
    input_names: ClassVar[tuple[str, ...]] = ("sent1", "sent2", *ENDINGS)
    prediction_file: ClassVar[str] = "predictions.csv"

    def __post_init__(self):
        check_least(self, 4, "max_length")  # [CLS], two [SEP] and a token

    def files(self, data: StrPath) -> dict[str, str]:
        """The official train.csv, val.csv and test.csv, or .jsonl of one's own."""
        stems = {"train": ("train",), "dev": ("val", "dev"), "test": ("test",)}
        return data_files(
            data,
            names={
                split: [f"{stem}{suffix}" for stem in names for suffix in (".csv", ".jsonl")]
                for split, names in stems.items()
            },
        )

    def read(self, path: StrPath, *, split: str = "train") -> list[Situation]:
        """Of the columns sent1, sent2, ending0 to ending3 and label, which a test file lacks."""
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
        """Inputs [B, 4, T]."""
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
        """Row number and ending, as csv_predict.py of rowanz/swagaf writes them."""
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
