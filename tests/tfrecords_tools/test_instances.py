from bisect import bisect_left
from random import Random

import numpy as np
import pytest

from tfrecords_tools import instances


def documents(*sentence_lengths: list[int]):
    """Returns (number, bounds) of adjacent documents."""
    corpus, start = [], 0
    for number, lengths in enumerate(sentence_lengths):
        corpus.append((number, [start, *(start + np.cumsum(lengths)).tolist()]))
        start = corpus[-1][1][-1]
    return corpus


def many(seed=0, num_documents=60, most_sentences=80):
    random = Random(seed)
    sizes = (random.randint(1, most_sentences) for _ in range(num_documents))
    return documents(*([random.randint(3, 40) for _ in range(size)] for size in sizes))


def draws(corpus, *, max_length=128, short=0.1, seed=1, fills_records=False):
    random = Random(seed)

    def other_text(number, num_tokens):
        other = random.choice([each for each in range(len(corpus)) if each != number])
        bounds = corpus[other][1]
        first = random.randrange(len(bounds) - 1)
        last = bisect_left(bounds, bounds[first] + num_tokens, first + 1, len(bounds) - 1)
        return bounds[first], bounds[last]

    return instances.PairChoices(random, max_length, short, other_text, fills_records)


def draw_instances(objective, corpus, **settings):
    return list(objective(corpus, draws(corpus, **settings)))


def document_of(corpus, position):
    return next(n for n, bounds in corpus if bounds[0] <= position < bounds[-1])


def positions(spans):
    return [position for start, end in spans for position in range(start, end)]


def test_random_next_is_of_another_document_and_true_next_follows():
    corpus = many()
    bounds = {position for _, bounds in corpus for position in bounds}
    for (text_a, text_b), label in draw_instances(instances.next_sentence, corpus):
        assert {*text_a, *text_b} <= bounds
        assert text_a[0] < text_a[1] and text_b[0] < text_b[1]
        first, second = document_of(corpus, text_a[0]), document_of(corpus, text_b[0])
        last = document_of(corpus, text_a[1] - 1), document_of(corpus, text_b[1] - 1)
        assert last == (first, second) and (first != second) == bool(label)
        assert label or text_b[0] == text_a[1]


@pytest.mark.parametrize("objective", [instances.next_sentence, instances.sentence_order])
def test_labels_are_balanced_to_the_pair(objective):
    for seed in range(8):
        labels = [label for _, label in draw_instances(objective, many(seed), seed=seed)]
        assert 2 * sum(labels) == len(labels) > 200


def test_sentence_order_pairs_adjacent_texts():
    corpus, used = many(), set()
    for (text_a, text_b), label in draw_instances(instances.sentence_order, corpus):
        before, after = (text_b, text_a) if label else (text_a, text_b)
        assert before[1] == after[0]
        assert document_of(corpus, before[0]) == document_of(corpus, after[1] - 1)
        used.update(positions([before, after]))
    alone = positions([tuple(bounds) for _, bounds in corpus if len(bounds) == 2])
    assert used == set(range(corpus[-1][1][-1])) - set(alone)


@pytest.mark.parametrize("fills_records", [False, True])
@pytest.mark.parametrize("objective", [instances.full_sentences, instances.doc_sentences])
def test_full_sentences_use_every_token_once_in_order(objective, fills_records):
    corpus = many(num_documents=200, most_sentences=9)
    bounds = {position for _, bounds in corpus for position in bounds}
    ends = {bounds[-1] for _, bounds in corpus}
    drawn = draw_instances(objective, corpus, max_length=64, fills_records=fills_records)
    spans = [span for instance in drawn for span in instance.spans]
    assert positions(spans) == list(range(corpus[-1][1][-1]))
    for instance in drawn:
        assert 1 + sum(end - start + 1 for start, end in instance.spans) <= 64
        assert all(end in ends for _, end in instance.spans[:-1]), "a span ends inside a document"
        assert objective is instances.full_sentences or len(instance.spans) == 1
    assert {*sum(spans, ())} <= bounds or fills_records
    if objective is instances.full_sentences:
        assert max(len(instance.spans) for instance in drawn) > 1
