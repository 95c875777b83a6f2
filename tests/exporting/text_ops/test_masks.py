"""Conversion of [MASK] in a text inside a graph."""

import random
import string

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.exporting.text_ops.text_to_inputs import MaskedTextToInputs
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer, ids_with_masks
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.unicode_texts import TEXTS, random_parts

LETTERS = string.ascii_letters + string.punctuation + "éσς東ᄒ"
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "mask"))


def with_masks(text: str, rng: random.Random) -> str:
    return "[MASK]".join(random_parts(text, rng, most=4))


@pytest.mark.parametrize("lowercase", [True, False])
def test_inputs_equal_those_of_the_offline_code(tmp_path, lowercase):
    VOCABULARY.save(tmp_path / "vocab.txt")
    reader = MaskedTextToInputs(tmp_path / "vocab.txt", lowercase=lowercase, max_length=24)
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=lowercase)
    rng = random.Random(5)
    texts = [with_masks(text, rng) for text in TEXTS]
    texts += ["", "[MASK]", "[MASK][MASK]", "[mask] [ MASK]", "a [MASK", "Σ[MASK]ΑΣ", "x " * 40]
    ids = ids_with_masks(texts, tokenizer)
    assert sum(VOCABULARY.mask_id in each for each in ids) > 50
    assert tf.function(reader.tokens, autograph=False)(tf.constant(texts)).to_list() == ids
    inputs = tf.function(reader, autograph=False)(tf.constant(texts), tf.constant(texts[::-1]))
    expected = pack(ids, ids[::-1], vocabulary=VOCABULARY, max_length=24)
    for name, array in expected.items():
        np.testing.assert_array_equal(inputs[name].numpy(), array, err_msg=name)
    assert reader.tokens(tf.constant([""])).to_list() == [[]]
