"""Text in which [MASK] is written comes in; ids with the piece of a mask in its place go out."""

import re
from collections.abc import Sequence
from itertools import chain

from bert_keras.text.tokenizer import TextTokenizer

MASK = "[MASK]"
GAP = r"[\t-\r ]*\[MASK\]"  # the blank before it goes with it, as in RoBERTa, where one counts


def ids_with_masks(texts: Sequence[str], tokenizer: TextTokenizer) -> list[list[int]]:
    """As `tokenizer.ids_batch` of what stands between the [MASK]s, in capitals, of each text."""
    parts = [re.split(GAP, text) for text in texts]
    ids = iter(tokenizer.ids_batch(list(chain.from_iterable(parts))))
    mask_id = tokenizer.vocabulary.mask_id
    return [list(chain.from_iterable((mask_id, *next(ids)) for _ in each))[1:] for each in parts]
