"""[MASK] in a text, inside a graph."""

import random
import string
from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.export.text_ops.text_to_inputs import MaskedTextToInputs
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer, ids_with_masks
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary
from tests.unicode_texts import TEXTS

LETTERS = string.ascii_letters + string.punctuation + "éσς東ᄒ"
VOCABULARY = Vocabulary((*SPECIAL_PIECES, *LETTERS, *(f"##{letter}" for letter in LETTERS), "mask"))


def with_masks(text: str, pick: random.Random) -> str:
    places = sorted(pick.choices(range(len(text) + 1), k=pick.randrange(4)))
    bounds = [0, *places, len(text)]
    return "[MASK]".join(text[a:b] for a, b in pairwise(bounds))


@pytest.mark.parametrize("lowercase", [True, False])
def test_inputs_are_those_of_the_offline_code(tmp_path, lowercase):
    VOCABULARY.save(tmp_path / "vocab.txt")
    reader = MaskedTextToInputs(tmp_path / "vocab.txt", lowercase=lowercase, max_length=24)
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=lowercase)
    pick = random.Random(5)
    texts = [with_masks(text, pick) for text in TEXTS]
    texts += ["", "[MASK]", "[MASK][MASK]", "[mask] [ MASK]", "a [MASK", "Σ[MASK]ΑΣ", "x " * 40]
    ids = ids_with_masks(texts, tokenizer)
    assert sum(VOCABULARY.mask_id in each for each in ids) > 50
    assert tf.function(reader.pieces, autograph=False)(tf.constant(texts)).to_list() == ids
    found = tf.function(reader, autograph=False)(tf.constant(texts), tf.constant(texts[::-1]))
    expected = pack(ids, ids[::-1], vocabulary=VOCABULARY, max_length=24)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name].numpy(), array, err_msg=name)
    assert reader.pieces(tf.constant([""])).to_list() == [[]]
