"""Encoding texts as inputs of a model."""

import pytest

from bert_keras import encode, encode_masked
from bert_keras.errors import InputError
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

TOKENIZER = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, "red", "house", "[", "]", "mask")))


def test_pairs_are_truncated_and_padded():
    inputs = encode(TOKENIZER, ["red house red", "red"], ["house", "house"], max_length=6)
    assert inputs["input_ids"].tolist() == [[2, 5, 6, 3, 6, 3], [2, 5, 3, 6, 3, 0]]
    assert inputs["segment_ids"].tolist() == [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0]]
    assert inputs["input_mask"].tolist() == [[1] * 6, [1] * 5 + [0]]


def test_only_encode_masked_reads_mask_tokens():
    assert encode(TOKENIZER, ["[MASK]"], max_length=9)["input_ids"].tolist() == [[2, 7, 9, 8, 3]]
    inputs = encode_masked(TOKENIZER, ["red", "[MASK] house [MASK]"], max_length=9)
    assert inputs["input_ids"].tolist() == [[2, 5, 3, 0, 0], [2, 4, 6, 4, 3]]
    assert inputs["masked_lm_positions"].tolist() == [[0, 0], [1, 3]]
    assert encode_masked(TOKENIZER, ["red"], max_length=9)["masked_lm_positions"].shape == (1, 0)


@pytest.mark.parametrize("texts", [("red", None), (["red"], "house")])
def test_a_single_string_is_refused(texts):
    with pytest.raises(InputError, match="expected a list of strings"):
        encode(TOKENIZER, *texts, max_length=9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (7, "text 1 is '7'; expected a string"),
        ("red \ud83d", r"text 1, 'red \\ud83d', has half of a surrogate pair; expected valid"),
    ],
)
def test_texts_that_are_no_valid_strings_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        encode(TOKENIZER, ["é", text], max_length=9)
