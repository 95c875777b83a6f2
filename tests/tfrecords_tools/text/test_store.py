from itertools import pairwise

import numpy as np
import pytest

from tfrecords_tools.text.store import TokenStore, TokenWriter, join_stores, token_dtype

DTYPE = token_dtype(1000)


def written(folder, documents, dtype=DTYPE):
    folder.mkdir()
    writer = TokenWriter(folder, dtype=dtype)
    for sentences in documents:
        for number, sentence in enumerate(sentences):
            ids, is_first = np.array(sentence, np.int32), np.array([number == 0])
            writer.add(ids, np.array([len(sentence)]), is_first)
    writer.close()
    return folder


def read(folder, dtype=DTYPE):
    store = TokenStore(folder)
    documents = []
    for number in range(store.num_documents):
        first, last = store.documents(number, number + 1)
        bounds = store.sentences(first, last).tolist()
        documents.append(
            [
                np.frombuffer(store.tokens(start, end), dtype).tolist()
                for start, end in pairwise(bounds)
            ]
        )
    counts = (store.num_documents, store.num_sentences, store.num_tokens)
    return documents, counts


CORPUS = [[[1, 2, 3], [4]], [[5, 6]], [[7], [8, 9], [999]]]


def test_a_store_is_read_as_it_was_written(tmp_path):
    assert read(written(tmp_path / "a", CORPUS)) == (CORPUS, (3, 6, 10))


def test_spans_are_read_together(tmp_path):
    store = TokenStore(written(tmp_path / "a", CORPUS))
    ids = store.tokens_of_spans(np.array([7, 0, 3, 2]), np.array([3, 2, 0, 3]))
    assert ids.tolist() == [8, 9, 999, 1, 2, 3, 4, 5]
    assert ids.dtype == DTYPE
    store.release()
    assert store.tokens_of_spans(np.array([7]), np.array([1])).tolist() == [8]
    empty = TokenStore(written(tmp_path / "empty", []))
    assert len(empty.tokens_of_spans(np.array([], int), np.array([], int))) == 0


def test_empty_sentences_and_documents_are_dropped(tmp_path):
    documents = [[], [[], [1], []], [[]], [[2]]]
    assert read(written(tmp_path / "a", documents)) == ([[[1]], [[2]]], (2, 2, 2))
    assert read(written(tmp_path / "b", [])) == ([], (0, 0, 0))


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_joined_stores_contain_all_documents(tmp_path, cut):
    parts = [CORPUS[:cut], [], CORPUS[cut:]]
    folders = [written(tmp_path / str(n), part) for n, part in enumerate(parts)]
    join_stores(folders, tmp_path / "whole")
    assert read(tmp_path / "whole") == (CORPUS, (3, 6, 10))


def test_long_stores_are_joined_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("tfrecords_tools.text.store._COPY_SIZE", 3)
    documents = [[[number]] * (number % 5 + 1) for number in range(40)]
    folders = [written(tmp_path / "0", documents[:7]), written(tmp_path / "1", documents[7:])]
    join_stores(folders, tmp_path / "whole")
    assert read(tmp_path / "whole")[0] == documents


def test_the_dtype_is_the_smallest_that_fits():
    assert token_dtype(65_536) == np.uint16
    assert token_dtype(65_537) == np.uint32


@pytest.mark.parametrize("batch_size", [1, 2, 3, 8])
def test_several_documents_are_added_in_one_call(tmp_path, batch_size):
    sentences = [[1, 2], [], [3], [], [], [4, 5, 6], [7]]
    is_first = np.array([True, False, False, True, True, False, True])
    (tmp_path / "a").mkdir()
    writer = TokenWriter(tmp_path / "a", dtype=DTYPE)
    for start in range(0, len(sentences), batch_size):
        part = sentences[start : start + batch_size]
        ids = np.array([number for sentence in part for number in sentence], np.int32)
        writer.add(
            ids, np.array([len(each) for each in part]), is_first[start : start + batch_size]
        )
    writer.close()
    assert read(tmp_path / "a") == ([[[1, 2], [3]], [[4, 5, 6]], [[7]]], (3, 4, 7))
