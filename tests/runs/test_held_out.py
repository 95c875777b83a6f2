"""What no context gives, counted one prediction at a time."""

import math
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.runs.objectives import baselines

VOCAB_SIZE, MASK = 7, 6


def drawn(seed: int, *, same: float) -> list:
    """Two batches: answers 0 to 5 at the second and third of four places, [MASK] or they there; of
    the last row one prediction counts."""
    random = np.random.default_rng(seed)
    batches = []
    for _ in range(2):
        answers = random.choice(6, size=(20, 2), p=[0.4, 0.2, 0.2, 0.1, 0.1, 0])
        is_same, is_other = random.random((2, 20, 2)) < [[[same]], [[0.1]]]
        shown = np.where(is_same, answers, np.where(is_other, random.integers(0, 6, (20, 2)), MASK))
        input_ids = np.concatenate([np.full((20, 1), 5), shown, np.full((20, 1), 5)], axis=1)
        weights = np.ones((20, 2), np.float32)
        weights[-1, 1] = 0
        inputs = {"input_ids": input_ids, "masked_lm_positions": np.tile([1, 2], (20, 1))}
        batches.append((inputs, {"masked_lm": answers}, {"masked_lm": weights}))
    return [tf.nest.map_structure(tf.constant, batch) for batch in batches]


def predictions(batches) -> list[tuple[int, int]]:
    """(piece at the place, answer)"""
    return [
        (int(inputs["input_ids"][row, slot + 1]), int(targets["masked_lm"][row, slot]))
        for inputs, targets, weights in batches
        for row in range(20)
        for slot in range(2)
        if weights["masked_lm"][row, slot] > 0
    ]


@pytest.mark.parametrize("same", [0.0, 0.3])
def test_baselines(same):
    training, held_out = drawn(1, same=same), drawn(2, same=same)
    seen = predictions(training)
    answers, places = Counter(a for _, a in seen), Counter(v for v, _ in seen)
    kept = Counter(v for v, a in seen if v == a)
    share = [(answers[piece] + 1) / (len(seen) + VOCAB_SIZE) for piece in range(VOCAB_SIZE)]

    def copying(shown: int) -> list[float]:
        """The probability of each answer."""
        copied = (kept[shown] + share[shown]) / (places[shown] + 1)
        others = [0.0 if piece == shown else share[piece] for piece in range(VOCAB_SIZE)]
        answer = [(1 - copied) * other / sum(others) for other in others]
        answer[shown] = copied
        assert sum(answer) == pytest.approx(1)
        return answer

    asked = predictions(held_out)
    assert len(asked) == 2 * 39
    found = baselines(training, held_out, vocab_size=VOCAB_SIZE)
    assert found == {
        "unigram_masked_lm_loss": pytest.approx(
            -sum(math.log(share[a]) for _, a in asked) / len(asked)
        ),
        "unigram_masked_lm_accuracy": pytest.approx(
            sum(a == answers.most_common(1)[0][0] for _, a in asked) / len(asked)
        ),
        "copying_masked_lm_loss": pytest.approx(
            -sum(math.log(copying(v)[a]) for v, a in asked) / len(asked)
        ),
    }
    gain = found["unigram_masked_lm_loss"] - found["copying_masked_lm_loss"]
    assert gain > 0.2 if same else abs(gain) < 0.1
