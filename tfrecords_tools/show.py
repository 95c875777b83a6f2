"""Shows records as text with the original tokens of masked positions."""

import os
import textwrap
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from bert_keras.data.record_file import LABEL_FEATURE, WEIGHTS_FEATURE, common_schema
from bert_keras.errors import counted, printable
from bert_keras.files import StrPath
from bert_keras.text.fast_tokenizer import readable_tokens
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.check import Features, every_file, is_labelled, verified_batches
from tfrecords_tools.settings import LABEL_NAMES, NEXT_SENTENCE, read_manifest


def record_texts(
    records: StrPath | Sequence[StrPath], *, vocabulary: Vocabulary, count: int, start: int = 1
) -> Iterator[str]:
    """Yields a legend of the masks, and then the text of each record.

    Args:
        records: A folder, or record files.
        count: The number of records to show.
        start: The first record to show, counted from 1 over all files.
    """
    files = every_file(records)
    manifest = read_manifest(Path(files[0]).parent) or {"settings": {}}
    labels = LABEL_NAMES[manifest["settings"].get("objective", "nsp")] or NEXT_SENTENCE
    if common_schema(files).max_predictions:
        yield "{[MASK]=original} masked, {other=original} replaced, {original=original} kept"
    indexed = (
        (file, first + row + 1, {name: values[row] for name, values in features.items()})
        for file, first, features in verified_batches(files, vocabulary=vocabulary, stage="")
        for row in range(len(features["input_ids"]))
    )
    for file, position, record in islice(indexed, start - 1, start - 1 + count):
        text = record_text(record, vocabulary=vocabulary, labels=labels)
        yield f"{printable(os.path.basename(file))}, record {position}: {text}"


def record_text(
    record: Features, *, vocabulary: Vocabulary, labels: Sequence[str] = NEXT_SENTENCE
) -> str:
    """Formats one record, features [n]: its label, then the words of each sequence."""
    length, names = int(record["input_mask"].sum()), []
    if LABEL_FEATURE in record:
        names = [labels[label] for label in record[LABEL_FEATURE][is_labelled(record)]]
    tokens = _token_texts(record, length, vocabulary)
    if "sequence_ids" not in record:
        return f"{names[0] if names else f'{length} tokens'}\n{_wrap(tokens, '  ')}"
    sequence_ids = record["sequence_ids"][:length]
    num_sequences = int(sequence_ids.max(initial=0))
    text = [counted(num_sequences, "sequence")]
    for sequence_id in range(1, num_sequences + 1):
        in_sequence = [tokens[position] for position in np.nonzero(sequence_ids == sequence_id)[0]]
        label = f", {names[sequence_id - 1]}" if names else ""
        text.append(f"  sequence {sequence_id}: {len(in_sequence)} tokens{label}")
        text.append(_wrap(in_sequence, "    "))
    return "\n".join(text)


def _token_texts(record: Features, length: int, vocabulary: Vocabulary) -> list[str]:
    """Returns the text of each token with a blank before it, unless it continues a word."""
    original_ids = {}
    if WEIGHTS_FEATURE in record:
        is_counted = record[WEIGHTS_FEATURE] > 0
        positions = record["masked_lm_positions"][is_counted].tolist()
        labels = record["masked_lm_ids"][is_counted].tolist()
        original_ids = dict(zip(positions, labels, strict=True))
    tokens, texts, can_continue = readable_tokens(vocabulary), [], False
    for position, token_id in enumerate(record["input_ids"][:length].tolist()):
        original = tokens[original_ids.get(position, token_id)]
        is_continued = can_continue and original.startswith("##")
        text = tokens[token_id]
        if position in original_ids:
            text = f"{{{text}={original}}}"
        elif is_continued or vocabulary.rules:  # a text without a blank starts with "##"
            text = text.removeprefix("##")
        texts.append(" " * (not is_continued) + printable(text))
        can_continue = token_id not in (vocabulary.cls_id, vocabulary.sep_id)
    return texts


def _wrap(tokens: Sequence[str], indent: str) -> str:
    wrapper = textwrap.TextWrapper(100, indent, indent, break_long_words=False)
    wrapper.break_on_hyphens = False
    return wrapper.fill("".join(tokens).strip())
