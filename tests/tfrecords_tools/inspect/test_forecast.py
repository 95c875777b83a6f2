import numpy as np
import pytest

from tfrecords_tools.inspect.forecast import forecast, original_forecast
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.store import TokenStore, TokenWriter, token_dtype

DTYPE = token_dtype(100)


@pytest.fixture
def store(tmp_path):
    """Makes a store of documents, each given by the numbers of tokens of its sentences."""

    def made(documents):
        writer = TokenWriter(tmp_path, dtype=DTYPE)
        for lengths in documents:
            opens = np.arange(len(lengths)) == 0
            writer.add(np.zeros(sum(lengths), int), np.array(lengths), opens)
        writer.close()
        return TokenStore(tmp_path)

    return made


def settings(max_length=128, **changes):
    return BuildSettings(max_length=max_length, short_sequence_rate=0.0, **changes)


def test_next_sentence_prediction_is_balanced_and_full(store):
    counts = forecast(store([[20] * 100] * 10), settings(), objective="nsp")
    assert abs(2 * counts.labels_one - counts.records) <= 1
    assert counts.sequences == counts.records > 150
    assert counts.padding_rate < 0.03
    assert counts.cut_rate > 0.5  # seven sentences of 20 tokens do not fit into 125
    assert 0 < counts.lost_rate < 0.2


def test_documents_of_two_short_sentences_are_mostly_padding(store):
    counts = forecast(store([[10, 10]] * 100), settings(), objective="doc-sentences")
    assert counts.records == 100
    assert counts.padding_rate == pytest.approx(1 - 22 / 128)
    assert (counts.labels_one, counts.cut_rate, counts.lost_rate) == (0, 0, 0)


def test_packing_reduces_padding(store):
    packed = settings(sequences_per_record=8)
    counts = forecast(store([[10, 10]] * 100), packed, objective="doc-sentences")
    assert (counts.sequences, counts.records) == (100, 20)  # five times 22 tokens fit into 128
    assert counts.padding_rate == pytest.approx(1 - 5 * 22 / 128)


def test_original_labels_single_sentences_random(store):
    counts = original_forecast(store([[30]] * 200), settings())
    assert counts.labels_one == counts.records == 200
    assert counts.cut_rate is None


def test_original_labels_of_short_documents_are_unbalanced(store):
    """Half of two-sentence documents are cut after the first, whose rest is then alone."""
    counts = original_forecast(store([[30, 30]] * 3000), settings())
    assert counts.labels_one / counts.records == pytest.approx(2 / 3, abs=0.02)
