"""Raw text comes in; WordPiece ids with their character offsets go out, as Google's BERT has them.

The behaviour kept is that of google-research/bert `tokenization.py` (FullTokenizer). Compared with
it over every code point, under Python's Unicode 14, this differs in

- private use characters, which are dropped; Google's keeps them;
- the 256 CJK characters U+2B820 to U+2B91F, which are not set apart as words of their own;
- about 560 characters, most of them rare marks and punctuation, that Unicode added or changed after
  the tables inside `tokenizers` were made;

and, between characters, in a capital sigma that ends a word: "σ" here, "ς" there.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from bert_keras.text.chunks import ChunkMemory
from bert_keras.text.vocab import Vocabulary

MAX_WORD_CHARACTERS = 200  # google-research/bert WordpieceTokenizer: longer words are [UNK]


class TokenizedText(NamedTuple):
    """Pieces of one text; `offsets` are [start, end) characters of the text as it was given."""

    ids: list[int]
    pieces: list[str]
    offsets: list[tuple[int, int]]


def normalizer(*, lowercase: bool) -> BertNormalizer:
    """Cleans, puts spaces around CJK characters; lower-cases and drops accents when asked to."""
    return BertNormalizer(
        clean_text=True,
        handle_chinese_chars=True,
        strip_accents=lowercase,
        lowercase=lowercase,
    )


class WordPieceTokenizer:
    """Tokenizes without adding [CLS] or [SEP]; "[MASK]" in a text is just brackets and a word."""

    def __init__(self, vocabulary: Vocabulary, *, lowercase: bool = True):
        self.vocabulary = vocabulary
        self.lowercase = lowercase
        # No special token is registered: one that a user writes stays plain text.
        self._tokenizer = Tokenizer(
            WordPiece(
                vocabulary.ids, unk_token="[UNK]", max_input_chars_per_word=MAX_WORD_CHARACTERS
            )
        )
        self._tokenizer.normalizer = normalizer(lowercase=lowercase)
        self._tokenizer.pre_tokenizer = BertPreTokenizer()
        self._memory = ChunkMemory(self.ids_batch)

    def encode(self, text: str) -> TokenizedText:
        encoding = self._tokenizer.encode(text)
        return TokenizedText(encoding.ids, encoding.tokens, encoding.offsets)

    def encode_batch(self, texts: Sequence[str]) -> list[TokenizedText]:
        encodings = self._tokenizer.encode_batch(list(texts))
        return [TokenizedText(each.ids, each.tokens, each.offsets) for each in encodings]

    def flat_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of long corpora: int32 [M] of all texts, and how many each has, int64 [N].

        Equal to those of `encode`, at several times its speed. It remembers words: one instance is
        not for several threads at once.
        """
        return self._memory.flat_ids(texts)

    def ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids alone, text by text."""
        return [each.ids for each in self._tokenizer.encode_batch_fast(list(texts))]

    def decode(self, ids: Sequence[int]) -> str:
        """Pieces joined to words: spaces between, "##" glued on."""
        pieces = self.vocabulary.pieces
        return " ".join(pieces[int(number)] for number in ids).replace(" ##", "")
