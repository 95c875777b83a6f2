"""A token store is read as it was written, and ranges contain every document and sentence once."""

from itertools import pairwise

import numpy as np
import pytest

from tfrecords_tools import store as stores
from tfrecords_tools.store import TokenStore, TokenWriter, documents_of, ranges_of, token_dtype

DTYPE = token_dtype(1000)
CORPUS = [[[1, 2, 3], [4]], [[5, 6]], [[7], [8, 9], [999]]]


def written(folder, documents):
    with TokenWriter(folder, dtype=DTYPE) as writer:
        for sentences in documents:
            for number, sentence in enumerate(sentences):
                ids, is_first = np.array(sentence, np.int32), np.array([number == 0])
                writer.add(ids, np.array([len(sentence)]), is_first)
    return folder


def read(folder):
    """Returns documents as lists of sentences of ids."""
    store = TokenStore(folder)
    documents = []
    for number in range(store.num_documents):
        first, last = store.documents(number, number + 1)
        bounds = pairwise(store.sentences(first, last).tolist())
        documents.append([np.frombuffer(store.tokens(*b), store.dtype).tolist() for b in bounds])
    assert store.num_sentences == sum(map(len, documents))
    return documents


def test_a_store_is_read_as_it_was_written(tmp_path):
    assert read(written(tmp_path / "a", CORPUS)) == CORPUS
    assert read(written(tmp_path / "b", [[], [[], [1], []], [[]], [[2]]])) == [[[1]], [[2]]]
    assert read(written(tmp_path / "c", [])) == []
    store = TokenStore(tmp_path / "a")
    ids = store.tokens_of_spans(np.array([7, 0, 3, 2]), np.array([3, 2, 0, 3]))
    assert ids.tolist() == [8, 9, 999, 1, 2, 3, 4, 5] and ids.dtype == DTYPE
    assert (token_dtype(65_536), token_dtype(65_537)) == (np.uint16, np.uint32)


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_joined_stores_contain_all_documents(tmp_path, cut):
    parts = [CORPUS[:cut], [], CORPUS[cut:], CORPUS]
    folders = [written(tmp_path / str(n), part) for n, part in enumerate(parts)]
    stores.join_stores(folders, tmp_path / "whole")
    assert read(tmp_path / "whole") == CORPUS * 2


@pytest.mark.parametrize("sentences", [1, 3, 10, 1000])
def test_ranges_contain_every_sentence_once_in_order(tmp_path, monkeypatch, sentences):
    documents = [[[number] * number] * (number % 7 + 1) for number in range(1, 40)]
    store = TokenStore(written(tmp_path, documents))
    monkeypatch.setattr(stores, "SENTENCES_PER_RANGE", sentences)
    ranges = list(ranges_of(store, [5, 0, 20, 14]))
    assert len({(each.unit, each.part) for each in ranges}) == len(ranges)
    assert {each.unit for each in ranges} == {0, 2, 3} and {5, 25} < {r.last for r in ranges}
    assert (ranges[0].start, ranges[-1].end) == (0, store.num_sentences)
    assert all(before.end == after.start for before, after in pairwise(ranges))
    assert all(each.end - each.start < sentences + 7 for each in ranges)
    documents = [document for each in ranges for document in documents_of(store, each)]
    assert sorted({number for number, _ in documents}) == list(range(store.num_documents))
    sentences = [(number, pair) for number, bounds in documents for pair in pairwise(bounds)]
    bounds = store.sentences(0, store.num_sentences).tolist()
    assert [pair for _, pair in sentences] == list(pairwise(bounds))
    for number, bounds in sentences:
        tokens = np.frombuffer(store.tokens(*bounds), store.dtype)
        assert set(tokens.tolist()) == {number + 1}
