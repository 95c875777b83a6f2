import numpy as np
import pytest

from bert_keras.data.masking import MaskingPolicy
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary
from tfrecords_tools.instances import Pairs, cut, features


def test_cutting_takes_from_both_ends_of_the_longer():
    rows = np.array([[100, 200, 500, 520, 1]] * 1000)
    pairs = cut(rows, max_length=63, generator=np.random.default_rng(1))
    assert (pairs.length_a == 40).all()
    assert (pairs.length_b == 20).all()
    assert (pairs.start_b == 500).all()
    assert pairs.start_a.min() > 110
    assert pairs.start_a.max() < 150
    assert pairs.start_a.mean() == pytest.approx(130, abs=1)


def test_features_of_a_pair():
    vocabulary = Vocabulary((*SPECIAL_PIECES, *map(str, range(5, 50))))
    pairs = Pairs(*(np.array([number]) for number in (2, 3, 10, 2, 1)))
    record = features(
        pairs,
        np.arange(5, 50, dtype=np.int32),
        vocabulary=vocabulary,
        length=10,
        policy=MaskingPolicy(max_predictions=4, mask_share=1.0, random_share=0.0),
        replacements=np.array([5]),
        generator=np.random.default_rng(1),
    )
    position = int(record["masked_lm_positions"][0, 0])
    answer = int(record["masked_lm_ids"][0, 0])
    whole = [2, 7, 8, 9, 3, 15, 16, 3, 0, 0]
    assert record["masked_lm_weights"].tolist() == [[1, 0, 0, 0]]  # round(8 * .15)
    assert answer == whole[position]
    assert position in (1, 2, 3, 5, 6)
    whole[position] = vocabulary.mask_id
    assert record["input_ids"].tolist() == [whole]
    assert record["segment_ids"].tolist() == [[0, 0, 0, 0, 0, 1, 1, 1, 0, 0]]
    assert record["next_sentence_labels"].tolist() == [[1]]
