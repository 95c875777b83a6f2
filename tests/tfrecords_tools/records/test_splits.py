from array import array
from itertools import pairwise

import numpy as np
import pytest

from bert_keras.errors import InputError
from tfrecords_tools.records import splits
from tfrecords_tools.records.splits import (
    documents_of,
    ranges_of,
    split_size,
    splits_of,
)
from tfrecords_tools.text.store import TokenStore, TokenWriter, token_dtype


@pytest.fixture
def store(tmp_path):
    """Document n has n % 7 + 1 sentences of n tokens."""
    writer = TokenWriter(tmp_path, dtype=token_dtype(1000))
    for number in range(1, 40):
        lengths = np.array([number] * (number % 7 + 1))
        writer.add(np.full(lengths.sum(), number), lengths, np.arange(len(lengths)) == 0)
    writer.close()
    return TokenStore(tmp_path)


def test_every_document_has_one_split_and_one_number():
    train, held_out = splits_of(100, held_out_rate=0.1, seed=5)
    assert (train.num_documents, held_out.num_documents) == (90, 10)
    for split, other in ((train, held_out), (held_out, train)):
        documents = [split.document(number) for number in range(split.num_documents)]
        assert documents == sorted(set(documents))
        assert [split.number(each) for each in documents] == list(range(split.num_documents))
        assert all(other.number(each) is None for each in documents)


def test_the_seed_decides_the_held_out_documents():
    first, again, other = (splits_of(100, held_out_rate=0.1, seed=seed) for seed in (5, 5, 6))
    assert first == again
    assert first != other
    (train,) = splits_of(100, held_out_rate=0, seed=5)
    assert train.held_out == array("q")
    assert [train.document(number) for number in range(100)] == list(range(100))


def test_too_few_documents_are_refused():
    with pytest.raises(InputError, match=r"has 3 documents, too few to hold some out"):
        splits_of(3, held_out_rate=0.5, seed=1)


@pytest.mark.parametrize("sentences", [1, 3, 10, 1000])
def test_ranges_contain_every_sentence_once_in_order(store, monkeypatch, sentences):
    monkeypatch.setattr(splits, "SENTENCES_PER_RANGE", sentences)
    ranges = list(ranges_of(store, [5, 0, 20, 14]))
    assert len({(each.unit, each.part) for each in ranges}) == len(ranges)
    assert {each.unit for each in ranges} == {0, 2, 3}
    assert {5, 25} < {each.last for each in ranges}
    assert ranges[0].start == 0
    assert ranges[-1].end == store.num_sentences
    assert all(before.end == after.start for before, after in pairwise(ranges))
    assert all(each.end - each.start < sentences + 7 for each in ranges)
    numbers = [number for each in ranges for number, _ in documents_of(store, each)]
    assert sorted(set(numbers)) == list(range(store.num_documents))
    bounds = [pair for each in ranges for _, b in documents_of(store, each) for pair in pairwise(b)]
    assert bounds == list(pairwise(store.sentences(0, store.num_sentences).tolist()))
    for each in ranges:
        for number, bounds in documents_of(store, each):
            tokens = np.frombuffer(store.tokens(bounds[0], bounds[-1]), store.dtype)
            assert set(tokens.tolist()) == {number + 1}


def test_sizes_of_splits_add_up(store):
    train, held_out = splits_of(store.num_documents, held_out_rate=0.2, seed=1)
    sizes = split_size(train, store), split_size(held_out, store)
    assert np.sum(sizes, axis=0).tolist() == [store.num_sentences, store.num_tokens]
    held_out_ids = [number + 1 for number in held_out.held_out]
    assert sizes[1] == (
        sum(n % 7 + 1 for n in held_out_ids),
        sum(n * (n % 7 + 1) for n in held_out_ids),
    )
