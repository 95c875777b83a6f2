"""Raw text comes in; WordPiece ids with their character offsets go out, as Google's BERT has them.

The behaviour kept is that of google-research/bert `tokenization.py` (FullTokenizer). Compared with
it over every code point, under Python's Unicode 14, this differs in

- private use characters, which are dropped; Google's keeps them;
- the 256 CJK characters U+2B820 to U+2B91F, which are not set apart as words of their own;
- about 560 characters, most of them rare marks and punctuation, that Unicode added or changed after
  the tables inside `tokenizers` were made.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from bert_keras.text.chunks import ChunkMemory
from bert_keras.text.vocab import Vocabulary

_WORD_WITH_SIGMA = re.compile(r"\S*Σ\S*")
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
        self._memory = ChunkMemory(self._ids_of_parts)

    def encode(self, text: str) -> TokenizedText:
        encoding = self._tokenizer.encode(self._with_sigmas(text))
        return TokenizedText(encoding.ids, encoding.tokens, encoding.offsets)

    def encode_batch(self, texts: Sequence[str]) -> list[TokenizedText]:
        encodings = self._tokenizer.encode_batch(list(map(self._with_sigmas, texts)))
        return [TokenizedText(each.ids, each.tokens, each.offsets) for each in encodings]

    def flat_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of long corpora: int32 [M] of all texts, and how many each has, int64 [N].

        Equal to those of `encode`, at several times its speed. It remembers words: one instance is
        not for several threads at once.
        """
        return self._memory.flat_ids(list(map(self._with_sigmas, texts)))

    def ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids alone, text by text."""
        texts = list(map(self._with_sigmas, texts))
        return [each.ids for each in self._tokenizer.encode_batch_fast(texts)]

    def _with_sigmas(self, text: str) -> str:
        """The capital sigmas of words in lower case, which `tokenizers` does by single characters:
        at the end of a word it is another letter than within."""
        if not self.lowercase or "Σ" not in text:
            return text
        return _WORD_WITH_SIGMA.sub(_lowered_sigmas, text)

    def _ids_of_parts(self, parts: Sequence[str]) -> list[Sequence[int]]:
        """As `ids_batch`; words of ASCII letters and digits need no normalising but their case."""
        ids, words = self.vocabulary.ids, self._tokenizer.model
        found: list[Sequence[int] | None] = []
        for part in parts:
            if part.isascii() and part.isalnum():
                word = part.lower() if self.lowercase else part
                number = ids.get(word) if len(word) <= MAX_WORD_CHARACTERS else None
                found.append(
                    [token.id for token in words.tokenize(word)] if number is None else [number]
                )
            else:
                found.append(None)
        others = iter(
            self.ids_batch([p for p, each in zip(parts, found, strict=True) if each is None])
        )
        return [next(others) if each is None else each for each in found]

    def decode(self, ids: Sequence[int]) -> str:
        """Pieces joined to words: spaces between, "##" glued on."""
        pieces = self.vocabulary.pieces
        return " ".join(pieces[int(number)] for number in ids).replace(" ##", "")


def _lowered_sigmas(word: re.Match) -> str:
    """Python's `lower` knows final sigmas but lengthens other letters, so each is asked alone."""
    text = word[0]
    return "".join(
        letter if letter != "Σ" else _lowered_sigma(text[:place], text[place + 1 :])
        for place, letter in enumerate(text)
    )


def _lowered_sigma(before: str, behind: str) -> str:
    is_last = f"AΣ{behind}".lower()[1] == "ς"
    return "ς" if is_last and f"{before}Σ".lower()[-1] == "ς" else "σ"
