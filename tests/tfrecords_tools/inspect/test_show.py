import io
import json
import re
from dataclasses import asdict

import numpy as np
import pytest

from bert_keras.data.schema import PretrainingSchema
from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.inspect.show import has_colours, record_text, record_texts
from tfrecords_tools.manifest import FORMAT, MANIFEST
from tfrecords_tools.records.writer import framed, serialized

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "a", "cat", "##s", "sat"))
COLOURS = re.compile(r"\x1b\[[0-9;]+m")


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


def test_control_characters_of_a_vocabulary_are_escaped():
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "\x1b[2Ja", "##\x9bb"))
    text = record_text(record(input_ids=[2, 5, 6, 3]), vocabulary=vocabulary)
    assert text.splitlines()[-1] == r"  [CLS] \x1b[2Ja\x9bb [SEP]"


@pytest.fixture
def files(tmp_path):
    """Two files of two records, labelled random, true, random, true."""
    for name, firsts in (("a", (5, 8)), ("b", (6, 5))):
        records = [serialized(masked(1 - n, first)) for n, first in enumerate(firsts)]
        (tmp_path / f"{name}.tfrecord").write_bytes(b"".join(map(framed, records)))
    return tmp_path


def test_records_are_printed_with_original_tokens(files):
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


def test_start_counts_over_all_files(files):
    _, text = record_texts(files, vocabulary=VOCABULARY, count=1, start=3)
    assert text.startswith("b.tfrecord, record 1: random next\n  [CLS] cat")
    _, text = record_texts(files, vocabulary=VOCABULARY, count=9, start=4)
    assert text.startswith("b.tfrecord, record 2: true next")


@pytest.mark.parametrize(
    ("start", "message"),
    [(5, ", but the number of records is 4"), (0, "; expected the number of a record")],
)
def test_invalid_start_is_refused(files, start, message):
    with pytest.raises(InputError, match=f"start is {start}{message}"):
        list(record_texts(files, vocabulary=VOCABULARY, count=1, start=start))


def test_label_names_depend_on_the_objective(files):
    schema = asdict(PretrainingSchema(10, 4))
    (files / MANIFEST).write_text(
        json.dumps(
            {
                "format": FORMAT,
                "settings": {"objective": "sop"},
                "schema": schema,
                "vocabulary": {"sha256": ""},
                "splits": {},
            }
        )
    )
    _, *texts = record_texts(files, vocabulary=VOCABULARY, count=2)
    assert [text.splitlines()[0] for text in texts] == [
        "a.tfrecord, record 1: changed order",
        "a.tfrecord, record 2: true order",
    ]


def test_masked_replaced_and_kept_have_different_colours(files):
    legend, plain = record_texts(files, vocabulary=VOCABULARY, count=1)
    coloured_legend, coloured = record_texts(
        files, vocabulary=VOCABULARY, count=1, is_coloured=True
    )
    assert COLOURS.sub("", coloured) == plain
    colour = {text: code for code, text in re.findall(r"\x1b\[([0-9;]+)m(.*?)\x1b\[0m", coloured)}
    assert colour.keys() == {"[CLS]", "[SEP]", "{[MASK]=cat}", "{sat=sat}", "{a=cat}", "[UNK]"}
    assert len(set(colour.values())) == 5  # [CLS] and [SEP] alike
    for mark, text in [("masked", "{[MASK]=cat}"), ("replaced", "{a=cat}"), ("kept", "{sat=sat}")]:
        assert re.search(rf"\x1b\[{colour[text]}m[^\x1b]* {mark}\x1b", coloured_legend)
    assert COLOURS.sub("", coloured_legend) == legend


def test_words_cut_by_masks_and_separators_stay_readable():
    text = record_text(
        record(
            input_ids=[2, 7, 5, 4, 8, 7, 3, 7, 3],
            masked_lm_positions=[3],
            masked_lm_ids=[7],
            masked_lm_weights=[1.0],
        ),
        vocabulary=VOCABULARY,
    )
    assert text == "9 tokens\n  [CLS] ##s a{[MASK]=##s} sats [SEP] ##s [SEP]"


def test_ids_without_masks_and_labels():
    text = record_text(record(input_ids=[2, 6, 7, 3, 0]), vocabulary=VOCABULARY)
    assert text == "4 tokens\n  [CLS] cats [SEP]"


def test_packed_sequences_are_printed_on_separate_lines():
    packed = record(
        input_ids=[2, 6, 7, 3, 2, 8, 3, 0],
        sequence_ids=[1, 1, 1, 1, 2, 2, 2, 0],
        next_sentence_labels=[0, 1, 0],
        next_sentence_weights=[1.0, 1.0, 0.0],
    )
    assert record_text(packed, vocabulary=VOCABULARY).splitlines() == [
        "2 sequences",
        "  sequence 1: 4 tokens, true next",
        "    [CLS] cats [SEP]",
        "  sequence 2: 3 tokens, random next",
        "    [CLS] sat [SEP]",
    ]


@pytest.mark.parametrize("width", [40, 100])
def test_escape_sequences_do_not_count_in_the_line_width(width):
    long = record(input_ids=[2, *[8] * 100, 3])
    text = record_text(long, vocabulary=VOCABULARY, is_coloured=True, width=width)
    lines = text.splitlines()[1:]
    seen = [COLOURS.sub("", line) for line in lines]
    assert all(len(line) <= width for line in seen)
    assert all(len(line) > width - 4 for line in seen[:-1])
    assert " ".join(" ".join(seen).split()) == "[CLS] " + "sat " * 100 + "[SEP]"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "expected"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_only_terminals_have_colours(stream, environment, expected, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert has_colours(stream) is expected
