import numpy as np
import pytest

from tfrecords_tools.inspect.repeats import Repeats, text_hashes


def masked_record(generator, ids, num_predictions=3):
    """A record of these ids, other masks every time."""
    positions = np.sort(generator.permutation(len(ids))[:num_predictions])
    masked = ids.copy()
    masked[positions] = 4
    return {
        "input_ids": masked[None],
        "masked_lm_positions": positions[None],
        "masked_lm_ids": ids[positions][None],
        "masked_lm_weights": np.ones((1, num_predictions), np.float32),
    }


def test_masks_do_not_change_the_hash():
    generator = np.random.default_rng(1)
    ids = generator.integers(5, 1000, 16)
    numbers = {int(text_hashes(masked_record(generator, ids))[0]) for _ in range(20)}
    assert numbers == {int(text_hashes({"input_ids": ids[None]})[0])}
    others = {int(text_hashes({"input_ids": (ids + np.eye(16, dtype=int)[n])[None]})[0])
              for n in range(16)}  # fmt: skip
    assert len(others | numbers) == 17


def numbered(texts):
    return text_hashes({"input_ids": np.stack([texts % 30_000, texts // 30_000], axis=1)})


def added(texts, max_texts):
    repeats = Repeats(max_texts=max_texts)
    for batch in np.array_split(numbered(texts), 50):
        repeats.add(batch)
    return repeats


def test_repeats_are_counted_across_batches():
    texts = np.arange(10_000) % 9_000
    assert added(texts, 1 << 20).counts() == (1_000, 10_000)


def test_sample_estimates_the_rate_of_repeats():
    texts = np.random.default_rng(2).permutation(np.arange(100_000) % 80_000)
    repeats = added(texts, 2_000)
    repeated, compared = repeats.counts()
    assert repeats.sampled_bits == 6
    assert 1_000 < compared < 2_500
    assert repeated / compared == pytest.approx(0.2, abs=0.04)  # 4 standard deviations


def test_equal_texts_need_constant_memory():
    assert added(np.zeros(50_000, int), 100).counts() == (49_999, 50_000)


def test_shared_texts_are_estimated_from_the_common_sample():
    train, held_out = added(np.arange(50_000), 2_000), added(np.arange(40_000, 60_000), 1 << 20)
    shared, compared = held_out.shared_with(train)
    assert compared < 1_000
    assert shared / compared == pytest.approx(0.5, abs=0.1)
