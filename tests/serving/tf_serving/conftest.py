"""Small SavedModels with warm-up requests, and figures as they are measured of larger ones."""

import functools

import pytest
import tensorflow as tf

from bert_keras.export.warmup import warmup_requests_for, write_warmup
from bert_keras.serving.tf_serving.measurement import Measured
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

CLS = SPECIAL_PIECES.index("[CLS]")


class Words(tf.Module):
    """`serving_default` and `tensors` answer with how many pieces or words there are. The sum of
    the mask counts what TF Serving fills up; `knows_padding` leaves the last [CLS] of a row out."""

    def __init__(self, *, knows_padding=False, per_word=False, one_row=False):
        super().__init__()
        self.knows_padding, self.per_word, self.one_row = knows_padding, per_word, one_row

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
    def of_pieces(self, input_ids, input_mask):
        mask = input_mask
        if self.knows_padding:
            mask *= 1 - tf.math.cumprod(tf.cast(input_ids == CLS, tf.int32), axis=1, reverse=True)
        return {"count": tf.cast(tf.reduce_sum(mask, axis=1), tf.float32)}


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A function that gives saved_models/words/1 of such a model, written once."""

    @functools.cache
    def written(**kind):
        module, folder = Words(**kind), tmp_path_factory.mktemp("saved_models") / "words" / "1"
        signatures = {"serving_default": module.of_text, "tensors": module.of_pieces}
        tf.saved_model.save(module, str(folder), signatures=signatures)
        tokenizer = WordPieceTokenizer(Vocabulary((*SPECIAL_PIECES, "the", "film")))
        requests = warmup_requests_for(folder, tokenizer=tokenizer, max_length=48)
        write_warmup(folder, requests, name="words")
        return folder

    return written


@pytest.fixture
def figures():
    """A function that gives what might be measured of a model."""

    def made(**changes):
        found = {
            "num_cores": 4,
            "num_words": 30,
            "num_longest": 110,
            "warm": 4.0,
            "seconds": {1: 0.02, 2: 0.03, 4: 0.05, 8: 0.08, 16: 0.155},
            "longest": 0.07,
            "rates": {1: 99.0, 2: 125.0, 4: 127.0},
            "before": 400 * 2**20,
            "peak": 900 * 2**20,
            "splits": True,
            "pads": False,
        }
        return Measured(**{**found, **changes})

    return made
