"""Text in which [MASK] is written comes in; ids with that piece in its place go out."""

from collections.abc import Sequence
from itertools import chain

from bert_keras.text.tokenizer import WordPieceTokenizer

MASK = "[MASK]"


def ids_with_masks(texts: Sequence[str], tokenizer: WordPieceTokenizer) -> list[list[int]]:
    """As `tokenizer.ids_batch` of what stands between the [MASK]s, in capitals, of each text."""
    parts = [text.split(MASK) for text in texts]
    ids = iter(tokenizer.ids_batch(list(chain.from_iterable(parts))))
    mask_id = tokenizer.vocabulary.mask_id
    return [list(chain.from_iterable((mask_id, *next(ids)) for _ in each))[1:] for each in parts]
