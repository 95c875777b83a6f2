import numpy as np
import pytest

from bert_keras.tasks.ner.files import Sentence
from bert_keras.tasks.ner.windows import (
    WordPieces,
    rows_around,
    word_pieces,
)
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_PIECES, "new", "york", "##er", "!"))
TOKENIZER = WordPieceTokenizer(VOCABULARY)


def of_lengths(sentences: list[list[int]]) -> WordPieces:
    """Sentences told by how many pieces each word has."""
    counts = np.concatenate(sentences)
    starts = np.concatenate([[0], np.cumsum(counts)])
    word_bounds = np.cumsum([0, *map(len, sentences)])
    return WordPieces(np.arange(starts[-1]), starts[:-1], starts[word_bounds], word_bounds)


def test_words_are_tokenized_by_themselves():
    """U+FE0F alone is no piece: Google's tokenizer drops it."""
    sentences = [
        Sentence(("New", "yorker", "\ufe0f"), None, 0, 1),
        Sentence(("\ufe0f", "!!", "?"), None, 0, 5),
    ]
    pieces = word_pieces(sentences, TOKENIZER)
    told = " ".join(VOCABULARY.pieces[number] for number in pieces.ids)
    assert told == "new york ##er [UNK] [UNK] ! ! [UNK]"
    assert pieces.firsts.tolist() == [0, 1, 3, 4, 5, 7]
    assert pieces.bounds.tolist() == [0, 4, 8]
    assert pieces.word_bounds.tolist() == [0, 3, 6]


def test_a_sentence_by_itself_is_a_row():
    pieces = of_lengths([[1, 2], [3], [1, 1, 1]])
    rows = rows_around(pieces, limit=3)
    assert rows.starts.tolist() == [0, 3, 6]
    assert rows.lengths.tolist() == [3, 3, 3]
    assert rows.word_rows.tolist() == [0, 0, 1, 2, 2, 2]
    assert rows.word_places.tolist() == [0, 1, 0, 0, 1, 2]


def test_a_long_sentence_has_windows():
    """Rows 0-3, 2-5, 4-7, 5-8; the middles are 1.5, 3.5, 5.5, 6.5, and a tie stays before."""
    pieces = of_lengths([[1] * 9])
    rows = rows_around(pieces, limit=4)
    assert rows.starts.tolist() == [0, 2, 4, 5]
    assert rows.lengths.tolist() == [4, 4, 4, 4]
    assert rows.word_rows.tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3]
    assert rows.word_places.tolist() == [0, 1, 2, 1, 2, 1, 2, 2, 3]


def test_rows_without_words_are_left_out():
    pieces = of_lengths([[1, 20, 1]])
    rows = rows_around(pieces, limit=4)
    assert rows.word_rows.tolist() == [0, 0, 1]
    assert rows.starts.tolist() == [0, 18]


@pytest.mark.parametrize(
    ("limit", "starts", "lengths"),
    [
        (4, [0, 1, 2, 6, 8], [4, 4, 4, 4, 4]),  # at the ends the other side gets what is left
        (5, [0, 1, 1, 6, 7], [5, 5, 5, 5, 5]),
        (100, [0, 0, 0, 6, 6], [6, 6, 6, 6, 6]),
    ],
)
def test_documents_fill_rows_on_both_sides(limit, starts, lengths):
    pieces = of_lengths([[1, 1], [1, 1], [2], [3], [3]])
    rows = rows_around(pieces, limit=limit, documents=np.array([1, 1, 1, 2, 2]))
    assert rows.starts.tolist() == starts
    assert rows.lengths.tolist() == lengths
    assert rows.word_rows.tolist() == [0, 0, 1, 1, 2, 3, 4]
    assert (rows.starts[rows.word_rows] + rows.word_places).tolist() == pieces.firsts.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_every_word_has_the_row_of_its_sentence_with_most_context(seed):
    rng = np.random.default_rng(seed)
    pieces = of_lengths([rng.integers(1, 5, rng.integers(1, 30)) for _ in range(20)])
    documents = np.sort(rng.integers(1, 5, 20))
    limit = int(rng.integers(6, 40))
    for owners in (np.arange(20), documents):
        begins, ends = (np.searchsorted(owners, owners, side=side) for side in ("left", "right"))
        reach = np.stack([pieces.bounds[begins], pieces.bounds[ends]], axis=1)
        rows = rows_around(pieces, limit=limit, documents=owners)
        ends = rows.starts + rows.lengths
        sentences = np.repeat(np.arange(20), np.diff(pieces.word_bounds))
        row_sentences = np.empty(len(rows.starts), int)
        row_sentences[rows.word_rows] = sentences
        assert rows.lengths.max() <= limit
        assert (np.diff(rows.word_rows) >= 0).all()
        assert (rows.starts >= reach[row_sentences, 0]).all()
        assert (ends <= reach[row_sentences, 1]).all()
        full = np.minimum(reach[:, 1] - reach[:, 0], limit)
        long = np.diff(pieces.bounds) > limit
        assert (rows.lengths == np.where(long, limit, full)[row_sentences]).all()
        for word, first in enumerate(pieces.firsts):
            context = np.minimum(first - rows.starts, ends - 1 - first)
            rivals = np.flatnonzero(row_sentences == sentences[word])
            assert context[rows.word_rows[word]] == context[rivals].max() >= 0
