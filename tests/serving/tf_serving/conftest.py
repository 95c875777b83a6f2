"""Small SavedModels with warm-up requests, and a measurement of a larger model."""

import functools

import pytest
import tensorflow as tf

from bert_keras.exporting.warmup import warmup_requests_for, write_warmup
from bert_keras.serving.tf_serving.measurement import Measurement
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

CLS = SPECIAL_TOKENS.index("[CLS]")


class Words(tf.Module):
    """The signatures return the number of tokens or words of each text.

    The sum of the mask includes the padding of TF Serving; with `has_mask`, the [CLS] tokens at the
    end of a row, which are the padding, are not counted.
    """

    def __init__(self, *, has_mask=False, per_word=False, one_row=False):
        super().__init__()
        self.has_mask, self.per_word, self.one_row = has_mask, per_word, one_row

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def of_text(self, text):
        words = tf.strings.split(text)
        if self.per_word:
            return {"words": words.to_tensor()}
        counts = words.row_lengths()
        return {"count": tf.cast(counts[:1] if self.one_row else counts, tf.float32)}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, "input_ids"),
            tf.TensorSpec([None, None], tf.int32, "input_mask"),
        ]
    )
    def of_token_ids(self, input_ids, input_mask):
        mask = input_mask
        if self.has_mask:
            mask *= 1 - tf.math.cumprod(tf.cast(input_ids == CLS, tf.int32), axis=1, reverse=True)
        return {"count": tf.cast(tf.reduce_sum(mask, axis=1), tf.float32)}


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A function that returns saved_models/words/1 of such a model, written once."""

    @functools.cache
    def written(**kind):
        module, folder = Words(**kind), tmp_path_factory.mktemp("saved_models") / "words" / "1"
        signatures = {"serving_default": module.of_text, "tensors": module.of_token_ids}
        tf.saved_model.save(module, str(folder), signatures=signatures)
        tokenizer = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, "the", "film")))
        requests = warmup_requests_for(folder, tokenizer=tokenizer, max_length=48)
        write_warmup(folder, requests, name="words")
        return folder

    return written


@pytest.fixture
def figures():
    """A function that returns a plausible measurement."""

    def made(**changes):
        fields = {
            "num_cores": 4,
            "num_words": 30,
            "num_longest": 110,
            "warm_up_seconds": 4.0,
            "seconds": {1: 0.02, 2: 0.03, 4: 0.05, 8: 0.08, 16: 0.155},
            "longest": 0.07,
            "rates": {1: 99.0, 2: 125.0, 4: 127.0},
            "initial_memory": 400 * 2**20,
            "peak_memory": 900 * 2**20,
            "can_split": True,
            "can_pad": False,
        }
        return Measurement(**{**fields, **changes})

    return made
