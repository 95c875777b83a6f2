from itertools import islice

import numpy as np

from bert_keras.data.buckets import length_grouped_batches

LENGTHS = np.random.default_rng(0).integers(5, 60, 1000)


def first(count: int, *, seed: int = 1) -> list[np.ndarray]:
    return list(islice(length_grouped_batches(LENGTHS, batch_size=32, seed=seed), count))


def test_each_epoch_contains_every_row_once():
    batches = first(64)  # 1000 rows make 32 batches
    for epoch in (batches[:32], batches[32:]):
        assert sorted(np.concatenate(epoch)) == list(range(1000))


def test_batches_contain_similar_lengths():
    padded = sum(len(batch) * LENGTHS[batch].max() for batch in first(32))
    assert padded < 1.1 * LENGTHS.sum()


def test_the_order_depends_on_the_seed_and_the_epoch():
    ours, again, other = first(64), first(64), first(64, seed=2)
    assert all(np.array_equal(a, b) for a, b in zip(ours, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(ours, other, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(ours[:32], ours[32:], strict=True))
    longest = [int(LENGTHS[batch].max()) for batch in ours[:32]]
    assert longest != sorted(longest) and longest != sorted(longest, reverse=True)
