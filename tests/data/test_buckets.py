from itertools import islice

import keras
import numpy as np

from bert_keras.data.encoded import distinct_batches, length_grouped_batches, num_columns

LENGTHS = np.random.default_rng(0).integers(5, 60, 1000)


def first(count: int, *, seed: int = 1) -> list[np.ndarray]:
    return list(islice(length_grouped_batches(LENGTHS, batch_size=32, seed=seed), count))


def test_each_epoch_contains_every_row_once_among_rows_of_similar_lengths():
    batches = first(64)  # 1000 rows make 32 batches
    for epoch in (batches[:32], batches[32:]):
        assert sorted(np.concatenate(epoch)) == list(range(1000))
        padded = sum(len(batch) * LENGTHS[batch].max() for batch in epoch)
        assert padded < 1.1 * LENGTHS.sum()


def test_the_order_depends_on_the_seed_and_the_epoch():
    ours = first(64)
    rows, again, other = ([b.tolist() for b in first(64, seed=seed)] for seed in (1, 1, 2))
    assert rows == again != other and rows[:32] != rows[32:]
    longest = [int(LENGTHS[batch].max()) for batch in ours[:32]]
    assert longest != sorted(longest) and longest != sorted(longest, reverse=True)


def test_no_text_occurs_twice_in_a_batch_and_each_epoch_contains_every_row_once():
    random = np.random.default_rng(1)
    texts_NG = np.stack([random.integers(0, 150, 1000), np.arange(1000, 2000)], axis=1)
    stream = distinct_batches(LENGTHS, texts_NG, batch_size=32, seed=1)
    again = distinct_batches(LENGTHS, texts_NG, batch_size=32, seed=1)
    for _ in range(2):
        epoch, num_rows = [], 0
        while num_rows < 1000:
            epoch.append(next(stream))
            assert np.array_equal(epoch[-1], next(again))
            num_rows += len(epoch[-1])
        assert sorted(np.concatenate(epoch)) == list(range(1000))
        assert all(len(batch) <= 32 for batch in epoch) and len(epoch) <= 34
        assert all(len({*texts_NG[batch, 0]}) == len(batch) for batch in epoch)
        assert sum(len(b) * LENGTHS[b].max() for b in epoch) < 1.15 * LENGTHS.sum()


def test_pools_are_joined_without_small_batches():
    lengths, texts_N1 = np.full(4 * 50 * 3 + 1, 7), np.arange(601)[:, None] % 300
    batches = list(islice(distinct_batches(lengths, texts_N1, batch_size=4, seed=1), 151))
    assert sorted(map(len, batches)) == [1] + 150 * [4]


def test_xla_compiles_at_most_eight_lengths(monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    for limit in (16, 100, 128, 384, 512, 520):
        columns = [num_columns(length, limit) for length in range(1, limit + 1)]
        assert all(length <= each <= limit for length, each in enumerate(columns, 1))
        assert len({*columns}) <= 8
        long = [(length, each) for length, each in enumerate(columns, 1) if length > limit // 8]
        assert all(each <= max(16, 1.5 * length) for length, each in long)
