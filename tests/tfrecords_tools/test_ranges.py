"""Ranges contain every document and sentence once; test_build.py tests splits."""

from itertools import pairwise

import numpy as np
import pytest

from tfrecords_tools import store as stores
from tfrecords_tools.store import TokenStore, TokenWriter, documents_of, ranges_of, token_dtype


@pytest.fixture
def store(tmp_path):
    """Document n has n % 7 + 1 sentences of n tokens."""
    with TokenWriter(tmp_path, dtype=token_dtype(1000)) as writer:
        for number in range(1, 40):
            lengths = np.array([number] * (number % 7 + 1))
            writer.add(np.full(lengths.sum(), number), lengths, np.arange(len(lengths)) == 0)
    return TokenStore(tmp_path)


@pytest.mark.parametrize("sentences", [1, 3, 10, 1000])
def test_ranges_contain_every_sentence_once_in_order(store, monkeypatch, sentences):
    monkeypatch.setattr(stores, "SENTENCES_PER_RANGE", sentences)
    ranges = list(ranges_of(store, [5, 0, 20, 14]))
    assert len({(each.unit, each.part) for each in ranges}) == len(ranges)
    assert {each.unit for each in ranges} == {0, 2, 3}
    assert {5, 25} < {each.last for each in ranges}
    assert (ranges[0].start, ranges[-1].end) == (0, store.num_sentences)
    assert all(before.end == after.start for before, after in pairwise(ranges))
    assert all(each.end - each.start < sentences + 7 for each in ranges)
    documents = [document for each in ranges for document in documents_of(store, each)]
    assert sorted({number for number, _ in documents}) == list(range(store.num_documents))
    sentences = [(number, pair) for number, bounds in documents for pair in pairwise(bounds)]
    assert [pair for _, pair in sentences] == list(
        pairwise(store.sentences(0, store.num_sentences).tolist())
    )
    for number, bounds in sentences:
        tokens = np.frombuffer(store.tokens(*bounds), store.dtype)
        assert set(tokens.tolist()) == {number + 1}
