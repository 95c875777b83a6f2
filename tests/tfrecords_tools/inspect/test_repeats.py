import numpy as np
import pytest

from tfrecords_tools.inspect.repeats import Repeats, text_numbers


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


def test_masks_do_not_make_another_text():
    generator = np.random.default_rng(1)
    ids = generator.integers(5, 1000, 16)
    numbers = {int(text_numbers(masked_record(generator, ids))[0]) for _ in range(20)}
    assert numbers == {int(text_numbers({"input_ids": ids[None]})[0])}
    others = {int(text_numbers({"input_ids": (ids + np.eye(16, dtype=int)[n])[None]})[0])
              for n in range(16)}  # fmt: skip
    assert len(others | numbers) == 17


def numbered(texts):
    return text_numbers({"input_ids": np.stack([texts % 30_000, texts // 30_000], axis=1)})


def added(texts, most_texts):
    repeats = Repeats(most_texts=most_texts)
    for batch in np.array_split(numbered(texts), 50):
        repeats.add(batch)
    return repeats


def test_repeats_are_counted_across_batches():
    texts = np.arange(10_000) % 9_000
    assert added(texts, 1 << 20).counts() == (1_000, 10_000)


def test_a_full_memory_becomes_a_sample_with_the_same_share():
    texts = np.random.default_rng(2).permutation(np.arange(100_000) % 80_000)
    repeats = added(texts, 2_000)
    repeated, compared = repeats.counts()
    assert repeats.sampled_bits == 6
    assert 1_000 < compared < 2_500
    assert repeated / compared == pytest.approx(0.2, abs=0.04)  # 4 standard deviations


def test_one_text_forever_needs_no_memory():
    assert added(np.zeros(50_000, int), 100).counts() == (49_999, 50_000)


def test_texts_of_two_sets_meet_in_the_common_sample():
    train, held_out = added(np.arange(50_000), 2_000), added(np.arange(40_000, 60_000), 1 << 20)
    shared, compared = held_out.shared_with(train)
    assert compared < 1_000
    assert shared / compared == pytest.approx(0.5, abs=0.1)
