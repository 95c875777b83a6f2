"""Defines the task `simcse`: embeddings that are trained on plain sentences, without labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from bert_keras.downstream.classification import FILES
from bert_keras.downstream.sentences.encoding import (
    DistinctSentenceGroups,
    encoded_groups,
    encoded_sentences,
)
from bert_keras.downstream.sentences.pairs import SentencePair, SentencePairsTask
from bert_keras.downstream.sentences.task import Losses, required_text
from bert_keras.downstream.table import table_rows
from bert_keras.downstream.task import Encoded, data_files
from bert_keras.downstream.tfds import is_tfds, tfds_files
from bert_keras.errors import InputError
from bert_keras.files import StrPath, text_lines
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.training.sentence_losses import MultipleNegativesRankingLoss


@dataclass(frozen=True, kw_only=True)
class SimcseTask(SentencePairsTask):
    """Unsupervised SimCSE (Gao et al. 2021): the positive of a sentence is the sentence itself.

    The model embeds each training sentence twice, and dropout makes the two embeddings different.
    The other sentences of the batch are the negatives. Examples of "dev" are scored pairs, as in
    `sentence-pairs`.
    """

    max_length: int = 32  # maximum number of tokens of a text; longer texts lose their end
    text_column: str = "text"  # of a training table; a .txt file has a sentence on each line
    loss: str = "ranking"

    losses: ClassVar[Losses] = {"ranking": MultipleNegativesRankingLoss}

    def files(self, data: StrPath) -> dict[str, str]:
        """Returns the files of the splits; that of "train" may also end in .txt."""
        if is_tfds(data):
            return tfds_files(data)
        return data_files(data, names={**FILES, "train": ["train.txt", *FILES["train"]]})

    def read(self, path: StrPath, *, split: str = "train") -> list[SentencePair]:
        """Reads sentences for "train", and otherwise pairs.

        Raises:
            InputError: A text is empty, or a score is missing or invalid.
        """
        if split != "train":
            return super().read(path, split=split)
        rows = sentences(path, column=self.text_column)
        return [SentencePair((text, text), None, location) for location, text in rows]

    def encode(self, examples: Sequence[SentencePair], tokenizer: TextTokenizer) -> Encoded:
        return encoded_groups(
            [each.texts for each in examples],
            np.zeros(len(examples), np.float32),
            tokenizer,
            max_length=self.max_length,
            layout=DistinctSentenceGroups,
        )

    def encode_to_score(
        self, examples: Sequence[SentencePair], tokenizer: TextTokenizer
    ) -> Encoded:
        """Encodes each text of the pairs as a row; the rows have no loss."""
        texts = [text for each in examples for text in each.texts]
        return encoded_sentences(texts, tokenizer, max_length=self.max_length)


def sentences(path: StrPath, *, column: str) -> list[tuple[str, str]]:
    """Returns the location and the text of each row of a table, or of each line of a .txt file.

    Args:
        path: The file. Empty lines of a .txt file are skipped.
        column: The column of the texts in a table.

    Raises:
        InputError: The file has no text, or a text of the table is empty.
    """
    if Path(path).suffix != ".txt" or is_tfds(path):
        return [
            (location, required_text(values, column, location=location))
            for location, values in table_rows(path, columns=[column])
        ]
    lines = enumerate(text_lines(path), start=1)
    rows = [(f"{path}, line {number}", line) for number, line in lines if line.strip()]
    if not rows:
        raise InputError(f"{path} is empty; expected one text on each line")
    return rows


SIMCSE_TASK = SimcseTask(name="simcse")
