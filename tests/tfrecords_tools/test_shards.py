"""Instances are cut, shuffled and packed into records, one or several in a record."""

import numpy as np
import pytest

from bert_keras.data.record_file import PretrainingSchema
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.shards import arrange_sequences, record_features
from tfrecords_tools.store import SpanTable

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *map(str, range(5, 50)), "##s"))
TOKENS = np.arange(100, dtype=np.uint16) % 45 + 5


def table(*instances):
    """Of (label, spans)."""
    rows = [(n, label, *span) for n, (label, spans) in enumerate(instances) for span in spans]
    return SpanTable(*np.array(rows, np.int64).T)


def test_features_of_several_pairs_in_a_record():
    schema, generator = PretrainingSchema(10, 0, max_sequences=3), np.random.default_rng(1)
    instances = [(1, [(0, 1), (5, 6)]), (0, [(10, 11), (11, 12)])]
    sequences = arrange_sequences(table(*instances), schema=schema, generator=generator)
    spans = zip(sequences.starts, sequences.lengths, strict=True)
    tokens = np.concatenate([TOKENS[start : start + length] for start, length in spans])
    options = {"schema": schema, "vocabulary": VOCABULARY, "masker": None, "generator": generator}
    record = record_features(sequences, tokens, **options)
    first, second = [2, 5, 3, 10, 3], [2, 15, 3, 16, 3]
    is_turned = record["input_ids"][0, 1] == 15
    assert record["input_ids"].tolist() == [second + first if is_turned else first + second]
    assert record["segment_ids"].tolist() == [[0, 0, 0, 1, 1] * 2]
    assert record["position_ids"].tolist() == [[0, 1, 2, 3, 4] * 2]
    assert record["sequence_ids"].tolist() == [[1] * 5 + [2] * 5]
    assert record["next_sentence_positions"].tolist() == [[0, 5, 0]]
    assert record["next_sentence_weights"].tolist() == [[1, 1, 0]]
    assert record["next_sentence_labels"].tolist() == [[0, 1, 0] if is_turned else [1, 0, 0]]


def test_shortening_removes_tokens_at_both_ends_of_the_longer_text():
    pairs = table(*[(0, [(100, 200), (500, 520)])] * 1000)
    generator = np.random.default_rng(1)
    sequences = arrange_sequences(pairs, schema=PretrainingSchema(63, 0), generator=generator)
    starts = sequences.starts
    assert (sequences.lengths.reshape(-1, 2) == [40, 20]).all() and (starts[1::2] == 500).all()
    assert 110 < starts[::2].min() < starts[::2].max() < 150
    # 60 tokens are cut, each at the start with p = 1/2: five standard errors of the mean
    assert starts[::2].mean() == pytest.approx(130, abs=5 * (60 / 4 / 1000) ** 0.5)


def filled(sizes, *, most=8, seed=1):
    """Returns the order of sequences of these sizes, and the row and the column of each."""
    spans = [(1000 * number, 1000 * number + size - 2) for number, size in enumerate(sizes)]
    schema, generator = PretrainingSchema(128, 0, max_sequences=most), np.random.default_rng(seed)
    alone = table(*((0, [span]) for span in spans))
    sequences = arrange_sequences(alone, schema=schema, generator=generator)
    return sequences.starts // 1000, sequences.rows, sequences.columns


@pytest.mark.parametrize("most", [2, 8])
def test_every_sequence_has_a_position_without_overlap(most):
    sizes = np.random.default_rng(0).integers(3, 129, 500)
    order, rows, columns = filled(sizes, most=most)
    assert sorted(order.tolist()) == list(range(500))
    assert (np.diff(rows) >= 0).all() and {*np.bincount(rows)} <= {*range(1, most + 1)}
    ends, follows = columns + sizes[order], np.diff(rows) == 0
    assert ends.max() <= 128
    assert (columns[1:][follows] == ends[:-1][follows]).all()
    assert (columns[1:][~follows] == 0).all()
    small = np.random.default_rng(0).integers(3, 65, 5000)
    assert 1 - small.sum() / (128 * (filled(small)[1][-1] + 1)) < 0.03
    assert filled(sizes, most=most, seed=2)[0].tolist() != order.tolist() != list(range(500))
