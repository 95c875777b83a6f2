"""Defines the SWAG task: choose the most plausible ending of a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bert_keras.data.encoded import EncodedTexts
from bert_keras.downstream.classification import accuracy
from bert_keras.downstream.table import required_text, table_rows
from bert_keras.downstream.task import Outputs, Scores, Task, fixed, needs_labels
from bert_keras.errors import check_least
from bert_keras.fields import setting
from bert_keras.files import StrPath, write_text
from bert_keras.kinds.choice import ChoicePrediction, choose
from bert_keras.kinds.classifier import SINGLE_LABEL
from bert_keras.text.tokenizer import TextTokenizer

NUM_ENDINGS = 4
ENDINGS = tuple(f"ending{index}" for index in range(NUM_ENDINGS))


@dataclass(frozen=True, slots=True)
class SwagExample:
    """One example of SWAG."""

    context: str  # the first sentence
    start: str  # the start of the second sentence; it may be empty
    endings: tuple[str, ...]  # the possible ends of the second sentence
    label: int | None  # the index of the right ending; None if unknown
    location: str = field(default="", compare=False)  # where it was read, as "FILE, line N"


Examples = Sequence[SwagExample]


@dataclass(frozen=True, kw_only=True)
class SwagTask(Task[SwagExample, EncodedTexts, ChoicePrediction]):
    """The SWAG task (BERT paper, section 4.4).

    Each ending gives a sequence `[CLS] sent1 [SEP] sent2 ending [SEP]`, and one vector scores the
    four sequences. A sequence that is too long loses tokens at the end of its longer text, as in
    run_swag.py of Hugging Face's Transformers. Prediction files are as in rowanz/swagaf.
    """

    name: str = fixed("swag")
    max_length: int = setting(128, "maximum number of tokens of a row, special tokens included")

    model: ClassVar[str] = "BertMultipleChoice"
    metric: ClassVar[str] = "accuracy"
    input_names: ClassVar[tuple[str, ...]] = ("sent1", "sent2", *ENDINGS)
    file_names: ClassVar = {
        "train": ("train.csv", "train.jsonl"),
        "dev": ("val.csv", "val.jsonl", "dev.csv", "dev.jsonl"),
        "test": ("test.csv", "test.jsonl"),
    }
    prediction_file: ClassVar[str] = "predictions.csv"

    def __post_init__(self):
        check_least(self, 4, "max_length")  # [CLS], two [SEP]s and a token

    def read(self, path: StrPath, *, split: str = "train") -> list[SwagExample]:
        """Reads the columns sent1, sent2, ending0 to ending3 and label; only sent2 may be empty."""
        is_labelled = needs_labels(split)
        columns = (*self.input_names, "label") if is_labelled else self.input_names
        examples = []
        for location, row in table_rows(path, columns=columns, keeps_blank=not is_labelled):
            context, *endings = (
                required_text(row, column, location=location) for column in ("sent1", *ENDINGS)
            )
            text, label = row.get("label", ""), None
            if text or is_labelled:
                SINGLE_LABEL.check(text, list(map(str, range(NUM_ENDINGS))), location=location)
                label = int(text)
            examples.append(SwagExample(context, row["sent2"], tuple(endings), label, location))
        return examples

    def encode(self, examples: Examples, tokenizer: TextTokenizer) -> EncodedTexts:
        """Encodes the examples; a batch has inputs of shape [B, 4, T]."""
        contexts = tokenizer.ids_batch([each.context for each in examples])
        endings = [f"{each.start} {ending}" for each in examples for ending in each.endings]
        return EncodedTexts(
            texts=([ids for ids in contexts for _ in ENDINGS], tokenizer.ids_batch(endings)),
            targets=np.array([each.label or 0 for each in examples], np.int32),
            max_length=self.max_length,
            vocabulary=tokenizer.vocabulary,
            num_sequences=NUM_ENDINGS,
        )

    def predictions(
        self, examples: Examples, encoded: EncodedTexts, outputs: Outputs
    ) -> list[ChoicePrediction]:
        return choose(np.asarray(outputs, np.float64))

    def score(self, examples: Examples, predictions: Sequence[ChoicePrediction]) -> Scores:
        gold = [each.label for each in examples]
        return {"accuracy": accuracy(gold, [each.choice for each in predictions])}

    def write_predictions(
        self, path: StrPath, examples: Examples, predictions: Sequence[ChoicePrediction]
    ) -> None:
        rows = (f"{index},{each.choice}\n" for index, each in enumerate(predictions))
        write_text(path, ",pred\n" + "".join(rows))


SWAG_TASK = SwagTask()
