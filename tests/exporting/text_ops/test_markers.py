"""Conversion of marked entities inside a graph."""

import random

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.text.encode import encode
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.markers import MARKERS
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.unicode_texts import TEXTS, random_parts

LETTERS = "abcdefgh<>/.,조지는가나ᄒ東"
VOCABULARY = Vocabulary(
    (*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS[:-4]), *MARKERS)
)


def with_markers(text: str, rng: random.Random) -> str:
    parts = random_parts(text, rng, most=6)
    ends = ("", " ", "가", "가나", "지는 ", "a", ".")
    return "".join(part + rng.choice(MARKERS) + rng.choice(ends) for part in parts)


@pytest.mark.parametrize("lowercase", [True, False])
def test_inputs_equal_those_of_the_offline_code(tmp_path, lowercase):
    VOCABULARY.save(tmp_path / "vocab.txt")
    reader = TextToInputs(tmp_path / "vocab.txt", lowercase=lowercase, max_length=24)
    tokenizer = tokenizer_of(VOCABULARY, lowercase=lowercase)
    rng = random.Random(5)
    texts = [with_markers(text, rng) for text in TEXTS]
    texts += ["", "</subj>", "<subj></obj>는", "<subj", "조지</subj>는</obj>", "는", "</obj> 는"]
    ids = tokenizer.ids_batch(texts)
    if not lowercase:  # lower-casing decomposes syllables
        assert sum(VOCABULARY.ids["##는"] in each for each in ids) > 20
    assert tf.function(reader.tokens, autograph=False)(tf.constant(texts)).to_list() == ids
    inputs = tf.function(reader, autograph=False)(tf.constant(texts))
    for name, array in encode(tokenizer, texts, max_length=24).items():
        np.testing.assert_array_equal(inputs[name].numpy(), array, err_msg=name)
