import numpy as np
import pytest

from tfrecords_tools.inspect.forecast import forecast, original_forecast
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.store import TokenStore, TokenWriter, piece_dtype

DTYPE = piece_dtype(100)


@pytest.fixture
def store(tmp_path):
    """Makes a store of documents, each given by how many pieces its sentences have."""

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
    found = forecast(store([[20] * 100] * 10), settings(), objective="nsp")
    assert abs(2 * found.labels_one - found.records) <= 1
    assert found.sequences == found.records > 150
    assert found.padding < 0.03
    assert found.cut > 0.5  # seven sentences of 20 pieces do not fit into 125
    assert 0 < found.lost < 0.2


def test_documents_of_two_short_sentences_are_mostly_padding(store):
    found = forecast(store([[10, 10]] * 100), settings(), objective="doc-sentences")
    assert found.records == 100
    assert found.padding == pytest.approx(1 - 22 / 128)
    assert (found.labels_one, found.cut, found.lost) == (0, 0, 0)


def test_several_sequences_a_record_leave_little_padding(store):
    packed = settings(sequences_per_record=8)
    found = forecast(store([[10, 10]] * 100), packed, objective="doc-sentences")
    assert (found.sequences, found.records) == (100, 20)  # five times 22 pieces fit into 128
    assert found.padding == pytest.approx(1 - 5 * 22 / 128)


def test_the_original_calls_single_sentences_random(store):
    found = original_forecast(store([[30]] * 200), settings())
    assert found.labels_one == found.records == 200
    assert found.cut is None


def test_the_original_is_out_of_balance_where_documents_are_short(store):
    """Half of two-sentence documents are cut after the first, whose rest is then alone."""
    found = original_forecast(store([[30, 30]] * 3000), settings())
    assert found.labels_one / found.records == pytest.approx(2 / 3, abs=0.02)
