"""Scores of models without context, compared with counts of single predictions."""

import math
from collections import Counter

import numpy as np
import pytest

from bert_keras.runs.pretraining_tasks import score_baselines

VOCAB_SIZE, MASK = 7, 6


def random_batches(seed: int, *, same: float) -> list:
    """Returns two batches of rows with four tokens and predictions of tokens 0 to 5 at positions 1
    and 2. The second prediction of the last row has no weight."""
    random, batches = np.random.default_rng(seed), []
    for _ in range(2):
        targets = random.choice(6, size=(20, 2), p=[0.4, 0.2, 0.2, 0.1, 0.1, 0])
        is_same, is_other = random.random((2, 20, 2)) < [[[same]], [[0.1]]]
        others = np.where(is_other, random.integers(0, 6, (20, 2)), MASK)
        input_ids = np.pad(np.where(is_same, targets, others), ((0, 0), (1, 1)), constant_values=5)
        weights = np.ones((20, 2), np.float32)
        weights[-1, 1] = 0
        inputs = {"input_ids": input_ids, "masked_lm_positions": np.tile([1, 2], (20, 1))}
        batches.append((inputs, {"masked_lm": targets}, {"masked_lm": weights}))
    return batches


def predictions(batches) -> list[tuple[int, int]]:
    """Returns (input token, target) of each prediction."""
    return [
        (int(inputs["input_ids"][row, slot + 1]), int(targets["masked_lm"][row, slot]))
        for inputs, targets, weights in batches
        for row in range(20)
        for slot in range(2)
        if weights["masked_lm"][row, slot] > 0
    ]


@pytest.mark.parametrize("same", [0.0, 0.3])
def test_baselines(same):
    training, held_out = random_batches(1, same=same), random_batches(2, same=same)
    pairs, held_out_pairs = predictions(training), predictions(held_out)
    inputs, targets = Counter(v for v, _ in pairs), Counter(a for _, a in pairs)
    equal = Counter(v for v, a in pairs if v == a)
    unigram = [(targets[token] + 1) / (len(pairs) + VOCAB_SIZE) for token in range(VOCAB_SIZE)]

    def copying(token: int, target: int) -> float:
        """Returns the probability of a target at an input token."""
        copied = (equal[token] + unigram[token]) / (inputs[token] + 1)
        return copied if token == target else (1 - copied) * unigram[target] / (1 - unigram[token])

    for token in range(VOCAB_SIZE):
        assert sum(copying(token, target) for target in range(VOCAB_SIZE)) == pytest.approx(1)
    assert len(held_out_pairs) == 2 * 39
    frequent, _ = targets.most_common(1)[0]
    scores = score_baselines(training, held_out, vocab_size=VOCAB_SIZE)
    expected = {
        "unigram_masked_lm_loss": np.mean([-math.log(unigram[a]) for _, a in held_out_pairs]),
        "unigram_masked_lm_accuracy": np.mean([a == frequent for _, a in held_out_pairs]),
        "copying_masked_lm_loss": np.mean([-math.log(copying(*p)) for p in held_out_pairs]),
    }
    assert scores == pytest.approx(expected)
    gain = scores["unigram_masked_lm_loss"] - scores["copying_masked_lm_loss"]
    assert gain > 0.2 if same else abs(gain) < 0.1
