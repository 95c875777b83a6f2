import numpy as np
import pytest

from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.inspect.histograms import Histogram, text_bars
from tfrecords_tools.inspect.stats import record_histograms
from tfrecords_tools.records.writer import framed, serialized

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "a", "cat", "##s", "sat"))


def counts(**values):
    """A histogram in which value n occurs `values["n"]` times."""
    array = np.zeros(1 + max(int(name[1:]) for name in values), np.int64)
    for name, count in values.items():
        array[int(name[1:])] = count
    return Histogram("tokens in a record", "records", array)


def test_few_values_have_a_bar_each():
    assert counts(n3=1, n5=2).bars() == [("3", 1), ("4", 0), ("5", 2)]


def test_many_values_share_bars_of_round_ranges():
    bars = counts(n7=1, n19=2, n20=3, n128=4).bars(14)
    assert [bars[0], bars[1], bars[2], bars[-1]] == [
        ("7-9", 1), ("10-19", 2), ("20-29", 3), ("120-128", 4)
    ]  # fmt: skip
    assert len(bars) == 13
    assert sum(count for _, count in bars) == 10


def test_empty_histogram_has_no_bars():
    empty = Histogram("tokens in a record", "records", np.zeros(0, np.int64))
    assert empty.bars() == []
    assert text_bars(empty) == "tokens in a record (0 records)"


def test_bars_as_text():
    text = text_bars(Histogram("next sentence", "labels", np.array([300, 100]), ("true", "random")))
    assert text.splitlines() == [
        "next sentence (400 labels)",
        "    true " + "█" * 40 + "  75.00%          300",
        "  random " + "█" * 13 + "▍" + " " * 26 + "  25.00%          100",
    ]
    assert text_bars(counts(n2=1, n4=3)).startswith("tokens in a record (4 records, mean 3.5)\n")


@pytest.fixture
def records(tmp_path):
    """A record of 4 tokens, one masked; in a second file one of 5, one kept and one replaced."""
    first = {
        "input_ids": [[2, 4, 3, 3, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 0, 0]],
        "segment_ids": [[0, 0, 0, 1, 0, 0]],
        "masked_lm_positions": [[1, 0]],
        "masked_lm_ids": [[5, 0]],
        "masked_lm_weights": np.array([[1, 0]], np.float32),
        "next_sentence_labels": [[0]],
    }
    second = {
        "input_ids": [[2, 5, 8, 3, 3, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 0]],
        "segment_ids": [[0, 0, 0, 0, 1, 0]],
        "masked_lm_positions": [[1, 2]],
        "masked_lm_ids": [[5, 6]],
        "masked_lm_weights": np.ones((1, 2), np.float32),
        "next_sentence_labels": [[0]],
    }
    for name, record in (("a", first), ("b", second)):
        features = {feature: np.array(values) for feature, values in record.items()}
        (tmp_path / f"{name}.tfrecord").write_bytes(framed(serialized(features)))
    return tmp_path


def test_histograms_of_records(records):
    histograms = {each.title: each for each in record_histograms(records, vocabulary=VOCABULARY)}
    assert {
        title: [bar for bar in each.bars() if bar[1]] for title, each in histograms.items()
    } == {
        "tokens in a record": [("4", 1), ("5", 1)],
        "predictions in a record": [("1", 1), ("2", 1)],
        "position of predictions": [("1", 2), ("2", 1)],
        "input at predicted positions": [("[MASK]", 1), ("another token", 1), ("same token", 1)],
        "labels": [("true next", 2)],
    }
    assert histograms["labels"].bars()[1] == ("random next", 0)


def test_histograms_of_packed_plain_ids(tmp_path):
    packed = {
        "input_ids": [[2, 5, 3, 2, 5, 6, 3, 0], [2, 5, 6, 3, 0, 0, 0, 0]],
        "sequence_ids": [[1, 1, 1, 2, 2, 2, 2, 0], [1, 1, 1, 1, 0, 0, 0, 0]],
        "position_ids": [[0, 1, 2, 0, 1, 2, 3, 0], [0, 1, 2, 3, 0, 0, 0, 0]],
    }
    features = {name: np.array(values) for name, values in packed.items()}
    features["input_mask"] = (features["sequence_ids"] > 0).astype(int)
    features["segment_ids"] = np.zeros((2, 8), int)
    (tmp_path / "a.tfrecord").write_bytes(framed(serialized(features)))
    histograms = record_histograms(tmp_path, vocabulary=VOCABULARY)
    assert {each.title: [bar for bar in each.bars() if bar[1]] for each in histograms} == {
        "tokens in a record": [("4", 1), ("7", 1)],
        "sequences in a record": [("1", 1), ("2", 1)],
        "tokens in a sequence": [("3", 1), ("4", 2)],
    }
    assert histograms[2].of == "sequences"
