"""Initial weights with local attention."""

import keras
import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.families import preset
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.initial_weights import start_with_local_attention

LENGTH = 64


@pytest.mark.parametrize("hidden_size, num_heads", [(64, 2), (128, 4), (256, 4), (96, 3)])
def test_each_head_of_the_first_block_attends_around_the_token_at_its_offset(
    hidden_size, num_heads
):
    keras.utils.set_random_seed(1)
    sizes = {"hidden_size": hidden_size, "intermediate_size": hidden_size, "num_heads": num_heads}
    encoder = BertEncoder(preset("tiny", **sizes, initializer_stddev=hidden_size**-0.5))
    encoder.build()
    start_with_local_attention(encoder)
    ids = np.random.default_rng(0).integers(5, 30_000, (4, LENGTH))
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
    attention_BNTT = np.array(encoder.states(inputs).attentions[0])
    for head, offset in enumerate((-1, 1, -2, 2)[:num_heads]):
        rows = np.arange(2, LENGTH - 2)
        distances_BR = attention_BNTT[:, head, rows].argmax(axis=-1) - (rows + offset)
        assert abs(distances_BR).max() <= 1
        assert (distances_BR == 0).mean() > 0.6
        assert attention_BNTT[:, head, rows, rows + offset].mean() > 0.3


def test_sizes_without_local_attention_are_refused():
    for size in ("modern-tiny", "albert-tiny", "L-2_H-128_A-1", "L-2_H-36_A-4", "L-2_H-30_A-3"):
        with pytest.raises(InputError):
            start_with_local_attention(BertEncoder(preset(size, vocab_size=9)))
