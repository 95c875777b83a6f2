from random import Random

import numpy as np
import pytest

from bert_keras.errors import InputError
from tfrecords_tools.documents import Documents
from tfrecords_tools.pairs import pairs_of


def documents(*sentence_lengths: list[int]) -> Documents:
    """Documents whose ids are their own places in the flat array."""
    bounds, place = [], 0
    for lengths in sentence_lengths:
        bounds.append([place, *(place + np.cumsum(lengths)).tolist()])
        place = bounds[-1][-1]
    return Documents(np.arange(place, dtype=np.int32), bounds)


def all_pairs(corpus, *, max_length=128, short=0.1, seed=1):
    random = Random(seed)
    return list(pairs_of(corpus, max_length=max_length, short_sequence_rate=short, random=random))


def many(seed=0, num_documents=60):
    random = Random(seed)
    return documents(
        *(
            [random.randint(3, 40) for _ in range(random.randint(1, 80))]
            for _ in range(num_documents)
        )
    )


def document_of(corpus, place):
    return next(n for n, bounds in enumerate(corpus.bounds) if bounds[0] <= place < bounds[-1])


def test_random_next_is_of_another_document_and_true_next_follows():
    corpus = many()
    starts = {place for bounds in corpus.bounds for place in bounds}
    for start_a, end_a, start_b, end_b, is_random in all_pairs(corpus):
        assert {start_a, end_a, start_b, end_b} <= starts
        assert start_a < end_a
        assert start_b < end_b
        first, second = document_of(corpus, start_a), document_of(corpus, start_b)
        assert document_of(corpus, end_a - 1) == first
        assert document_of(corpus, end_b - 1) == second
        assert (first != second) == is_random
        assert is_random or start_b == end_a


def test_labels_are_balanced_to_the_pair():
    for seed in range(5):
        labels = [pair[4] for pair in all_pairs(many(seed), seed=seed)]
        assert len(labels) > 300
        assert abs(2 * sum(labels) - len(labels)) <= 2


def test_every_sentence_is_used_and_unused_ones_are_put_back():
    corpus = many()
    pairs = all_pairs(corpus)
    used = set()
    for start_a, end_a, start_b, end_b, is_random in pairs:
        used.update(range(start_a, end_a))
        if not is_random:
            used.update(range(start_b, end_b))
    assert used == set(range(len(corpus.pieces)))
    ends = [end_a if is_random else end_b for _, end_a, _, end_b, is_random in pairs]
    same_document = [
        document_of(corpus, start - 1) == document_of(corpus, start) for start in ends[:-1]
    ]
    for follows, end, (start_a, *_) in zip(same_document, ends, pairs[1:], strict=False):
        assert not follows or start_a == end


def test_texts_fill_the_length_and_one_in_ten_is_short():
    corpus = documents(*([5] * 4000 for _ in range(3)))
    lengths = np.array([[b - a, d - c] for a, b, c, d, _ in all_pairs(corpus)]).sum(axis=1)
    assert lengths.max() <= 130
    full = np.mean(lengths >= 125)
    assert full == pytest.approx(0.9, abs=0.03)
    assert lengths.min() <= 15
    without = [d - c + b - a for a, b, c, d, _ in all_pairs(corpus, short=0.0)]
    assert np.mean(np.array(without) >= 125) > 0.99


def test_a_single_sentence_may_be_followed_by_its_true_next():
    corpus = documents(*([200] * 50 for _ in range(4)))
    pairs = all_pairs(corpus, short=0.0)
    assert sum(not is_random for *_, is_random in pairs) == pytest.approx(len(pairs) / 2, abs=1)


def test_documents_of_one_sentence_have_only_random_next_texts():
    assert all(is_random for *_, is_random in all_pairs(documents([5], [5], [5])))


def test_same_seed_same_pairs():
    assert all_pairs(many(), seed=3) == all_pairs(many(), seed=3) != all_pairs(many(), seed=4)


def test_one_document_is_not_enough():
    with pytest.raises(InputError, match=r"at least two documents.*put blank lines between doc"):
        all_pairs(documents([5, 5, 5]))
