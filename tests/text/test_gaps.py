"""[MASK] in a text."""

import pytest

from bert_keras.text.gaps import ids_with_masks
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

TOKENIZER = WordPieceTokenizer(
    Vocabulary((*SPECIAL_PIECES, "the", "cafe", "##s", "[", "]", "mask", ".")), lowercase=True
)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("The [MASK].", ["the", "[MASK]", "."]),
        ("[MASK]", ["[MASK]"]),
        ("the[MASK][MASK]Cafés", ["the", "[MASK]", "[MASK]", "cafe", "##s"]),
        ("[[MASK]]", ["[", "[MASK]", "]"]),
        ("[mask] [ MASK] [MASK", ["[", "mask", "]", "[", "mask", "]", "[", "mask"]),
        ("the cafe", ["the", "cafe"]),
        ("", []),
    ],
)
def test_what_is_written_in_capitals_is_the_piece(text, pieces):
    (ids,) = ids_with_masks([text], TOKENIZER)
    assert [TOKENIZER.vocabulary.pieces[each] for each in ids] == pieces


def test_texts_keep_their_own_pieces():
    texts = ["[MASK] the", "", "cafe", "the [MASK]", "[MASK]"]
    assert ids_with_masks(texts, TOKENIZER) == [ids_with_masks([t], TOKENIZER)[0] for t in texts]
    assert ids_with_masks([], TOKENIZER) == []
