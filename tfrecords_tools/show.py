"""Record files and their vocabulary come in; a few records go out as text with their answers."""

import os
import textwrap
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from bert_keras.data.records import common_schema
from bert_keras.data.schema import LABEL_FEATURE
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.check import every_file, parsed_batches, verify

WIDTH = 100


def shown(
    records: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    vocabulary: Vocabulary,
    count: int,
) -> Iterator[str]:
    """The first `count` records, one text each; a predicted piece reads `{shown=answer}`."""
    files = every_file(records)
    return islice(_texts(files, vocabulary), count)


def _texts(files: list[str], vocabulary: Vocabulary) -> Iterator[str]:
    schema = common_schema(files)
    for file in files:
        first = 0
        for features in parsed_batches(file, schema=schema):
            verify(features, file=file, first=first, vocabulary=vocabulary)
            for row in range(len(features["input_ids"])):
                record = {name: values[row] for name, values in features.items()}
                name = f"{os.path.basename(file)}, record {first + row + 1}"
                yield f"{name}: {text_of(record, vocabulary=vocabulary)}"
            first += len(features["input_ids"])


def text_of(record: dict[str, np.ndarray], *, vocabulary: Vocabulary) -> str:
    """One record, features [n], wrapped: label, then pieces joined to words."""
    words = [vocabulary.pieces[number] for number in record["input_ids"]]
    for position, answer, weight in zip(
        record["masked_lm_positions"],
        record["masked_lm_ids"],
        record["masked_lm_weights"],
        strict=True,
    ):
        if weight > 0:
            words[position] = f"{{{words[position]}={vocabulary.pieces[answer]}}}"
    label = "random next" if record[LABEL_FEATURE][0] else "true next"
    text = " ".join(words[: int(record["input_mask"].sum())]).replace(" ##", "")
    wrapped = textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    return f"{label}\n{textwrap.indent(wrapped, '  ')}"
