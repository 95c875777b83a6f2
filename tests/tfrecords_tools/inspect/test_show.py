import io
import json
import re
from dataclasses import asdict

import numpy as np
import pytest

from bert_keras.data.schema import PretrainingSchema
from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary
from tfrecords_tools.inspect.show import shown, takes_colour, text_of
from tfrecords_tools.manifest import FORMAT, MANIFEST
from tfrecords_tools.records.writer import framed, serialized

VOCABULARY = Vocabulary((*SPECIAL_PIECES, "a", "cat", "##s", "sat"))
COLOURS = re.compile(r"\x1b\[[0-9;]+m")


def masked(label=1, first=5):
    """One record: "[CLS] a [MASK]##s [SEP] sat a [UNK] [SEP] [PAD]", three pieces predicted."""
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
        records = [serialized(masked(1 - n, first)) for n, first in enumerate(firsts)]
        (tmp_path / f"{name}.tfrecord").write_bytes(b"".join(map(framed, records)))
    return tmp_path


def test_records_read_as_words_with_their_answers(files):
    marks, *texts = shown(files, vocabulary=VOCABULARY, count=3)
    assert marks == "{[MASK]=answer} masked, {other=answer} replaced, {answer=answer} kept"
    assert texts == [
        f"{name}: {label} next\n  [CLS] {first} {{[MASK]=cat}}s [SEP] {{sat=sat}} {{a=cat}} [UNK] "
        "[SEP]"
        for name, label, first in [
            ("a.tfrecord, record 1", "random", "a"),
            ("a.tfrecord, record 2", "true", "sat"),
            ("b.tfrecord, record 1", "random", "cat"),
        ]
    ]


def test_a_start_counts_through_all_files(files):
    _, text = shown(files, vocabulary=VOCABULARY, count=1, start=3)
    assert text.startswith("b.tfrecord, record 1: random next\n  [CLS] cat")
    _, text = shown(files, vocabulary=VOCABULARY, count=9, start=4)
    assert text.startswith("b.tfrecord, record 2: true next")


@pytest.mark.parametrize(("start", "told"), [(5, "there are 4"), (0, "expected 1 or more")])
def test_a_start_that_is_not_there(files, start, told):
    with pytest.raises(InputError, match=f"record {start} was asked for; {told}"):
        list(shown(files, vocabulary=VOCABULARY, count=1, start=start))


def test_labels_are_called_by_the_objective_of_the_manifest(files):
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
    _, *texts = shown(files, vocabulary=VOCABULARY, count=2)
    assert [text.splitlines()[0] for text in texts] == [
        "a.tfrecord, record 1: changed order",
        "a.tfrecord, record 2: true order",
    ]


def test_colours_tell_masked_replaced_and_kept_apart(files):
    legend, plain = shown(files, vocabulary=VOCABULARY, count=1)
    coloured_legend, coloured = shown(files, vocabulary=VOCABULARY, count=1, is_coloured=True)
    assert COLOURS.sub("", coloured) == plain
    colour = {text: code for code, text in re.findall(r"\x1b\[([0-9;]+)m(.*?)\x1b\[0m", coloured)}
    assert colour.keys() == {"[CLS]", "[SEP]", "{[MASK]=cat}", "{sat=sat}", "{a=cat}", "[UNK]"}
    assert len(set(colour.values())) == 5  # [CLS] and [SEP] alike
    for mark, text in [("masked", "{[MASK]=cat}"), ("replaced", "{a=cat}"), ("kept", "{sat=sat}")]:
        assert re.search(rf"\x1b\[{colour[text]}m[^\x1b]* {mark}\x1b", coloured_legend)
    assert COLOURS.sub("", coloured_legend) == legend


def test_words_cut_by_masks_and_borders_stay_readable():
    text = text_of(
        record(
            input_ids=[2, 7, 5, 4, 8, 7, 3, 7, 3],
            masked_lm_positions=[3],
            masked_lm_ids=[7],
            masked_lm_weights=[1.0],
        ),
        vocabulary=VOCABULARY,
    )
    assert text == "9 pieces\n  [CLS] ##s a{[MASK]=##s} sats [SEP] ##s [SEP]"


def test_plain_ids():
    text = text_of(record(input_ids=[2, 6, 7, 3, 0]), vocabulary=VOCABULARY)
    assert text == "4 pieces\n  [CLS] cats [SEP]"


def test_packed_sequences_stand_one_under_the_other():
    packed = record(
        input_ids=[2, 6, 7, 3, 2, 8, 3, 0],
        sequence_ids=[1, 1, 1, 1, 2, 2, 2, 0],
        next_sentence_labels=[0, 1, 0],
        next_sentence_weights=[1.0, 1.0, 0.0],
    )
    assert text_of(packed, vocabulary=VOCABULARY).splitlines() == [
        "2 sequences",
        "  sequence 1: 4 pieces, true next",
        "    [CLS] cats [SEP]",
        "  sequence 2: 3 pieces, random next",
        "    [CLS] sat [SEP]",
    ]


@pytest.mark.parametrize("width", [40, 100])
def test_lines_wrap_by_what_is_seen(width):
    long = record(input_ids=[2, *[8] * 100, 3])
    text = text_of(long, vocabulary=VOCABULARY, is_coloured=True, width=width)
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
def test_colours_are_for_terminals(stream, environment, expected, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert takes_colour(stream) is expected
