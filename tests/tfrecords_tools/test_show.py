"""Records as text."""

import numpy as np
import pytest

from bert_keras.data.record_file import frame, serialize
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.show import record_text, record_texts

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "a", "cat", "##s", "sat"))


def masked(label=1, first=5):
    """One record: "[CLS] a [MASK]##s [SEP] sat a [UNK] [SEP] [PAD]", three tokens predicted."""
    return {
        "input_ids": np.array([[2, first, 4, 7, 3, 8, 5, 1, 3, 0]]),
        "input_mask": np.array([[1, 1, 1, 1, 1, 1, 1, 1, 1, 0]]),
        "segment_ids": np.array([[0, 0, 0, 0, 0, 1, 1, 1, 1, 0]]),
        "masked_lm_positions": np.array([[2, 5, 6, 0]]),
        "masked_lm_ids": np.array([[6, 8, 6, 0]]),
        "masked_lm_weights": np.array([[1, 1, 1, 0]], np.float32),
        "next_sentence_labels": np.array([[label]]),
    }


def record(*, input_ids, **others):
    """The features of one record, [n], with a mask and segments that fit."""
    input_ids = np.array(input_ids)
    return {
        "input_ids": input_ids,
        "input_mask": (input_ids > 0).astype(int),
        "segment_ids": np.zeros_like(input_ids),
        **{name: np.array(values) for name, values in others.items()},
    }


@pytest.fixture
def files(tmp_path):
    """Two files of two records, labelled random, true, random, true."""
    for name, firsts in (("a", (5, 8)), ("b", (6, 5))):
        records = [serialize(masked(1 - n, first)) for n, first in enumerate(firsts)]
        (tmp_path / f"{name}.tfrecord").write_bytes(b"".join(map(frame, records)))
    return tmp_path


def test_records_are_numbered_over_all_files_and_printed_with_original_tokens(files):
    marks, *texts = record_texts(files, vocabulary=VOCABULARY, count=3)
    assert marks == "{[MASK]=original} masked, {other=original} replaced, {original=original} kept"
    assert texts == [
        f"{name}: {label} next\n  [CLS] {first} {{[MASK]=cat}}s [SEP] {{sat=sat}} {{a=cat}} [UNK] "
        "[SEP]"
        for name, label, first in [
            ("a.tfrecord, record 1", "random", "a"),
            ("a.tfrecord, record 2", "true", "sat"),
            ("b.tfrecord, record 1", "random", "cat"),
        ]
    ]
    assert [*record_texts(files, vocabulary=VOCABULARY, count=1, start=3)] == [marks, texts[2]]
    _, text = record_texts(files, vocabulary=VOCABULARY, count=9, start=4)
    assert text.startswith("b.tfrecord, record 2: true next")


ONE_MASK = {"masked_lm_positions": [3], "masked_lm_ids": [7], "masked_lm_weights": [1.0]}
PACKED = {"input_ids": [2, 6, 7, 3, 2, 8, 3, 0], "sequence_ids": [1, 1, 1, 1, 2, 2, 2, 0]}
PACKED |= {"next_sentence_labels": [0, 1, 0], "next_sentence_weights": [1.0, 1.0, 0.0]}
PACKED_LINES = ["  sequence 1: 4 tokens, true next", "    [CLS] cats [SEP]"]
PACKED_LINES += ["  sequence 2: 3 tokens, random next", "    [CLS] sat [SEP]"]


@pytest.mark.parametrize(
    ("features", "lines"),
    [
        ({"input_ids": [2, 6, 7, 3, 0]}, ["4 tokens", "  [CLS] cats [SEP]"]),
        (
            {"input_ids": [2, 7, 5, 4, 8, 7, 3, 7, 3], **ONE_MASK},
            ["9 tokens", "  [CLS] ##s a{[MASK]=##s} sats [SEP] ##s [SEP]"],
        ),
        (PACKED, ["2 sequences", *PACKED_LINES]),
    ],
    ids=["plain ids", "words cut by masks and separators", "packed"],
)
def test_text_of_a_record(features, lines):
    assert record_text(record(**features), vocabulary=VOCABULARY).splitlines() == lines


def test_long_lines_are_wrapped_and_control_characters_escaped():
    lines = record_text(record(input_ids=[2, *[8] * 100, 3]), vocabulary=VOCABULARY)
    seen = lines.splitlines()[1:]
    assert all(96 < len(line) <= 100 for line in seen[:-1])
    assert " ".join(" ".join(seen).split()) == "[CLS] " + "sat " * 100 + "[SEP]"
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "\x1b[2Ja", "##\x9bb"))
    text = record_text(record(input_ids=[2, 5, 6, 3]), vocabulary=vocabulary)
    assert text.splitlines()[-1] == r"  [CLS] \u001b[2Ja\u009bb [SEP]"
