"""Raw text comes in; WordPiece ids with their character offsets go out, as Google's BERT has them.

The behaviour kept is that of google-research/bert `tokenization.py` (FullTokenizer). It differs in

- characters without a meaning of their own (unassigned, private use): Google's keeps them and the
  word becomes [UNK]; here they are dropped;
- a capital sigma that ends a word: Google's lower-cases it to "ς", here it becomes "σ";
- characters newer than the Unicode version of the Python that ran Google's code, for both use the
  tables that they were built with.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

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

    def encode(self, text: str) -> TokenizedText:
        encoding = self._tokenizer.encode(text)
        return TokenizedText(encoding.ids, encoding.tokens, encoding.offsets)

    def encode_batch(self, texts: Sequence[str]) -> list[TokenizedText]:
        encodings = self._tokenizer.encode_batch(list(texts))
        return [TokenizedText(each.ids, each.tokens, each.offsets) for each in encodings]

    def ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids alone, for long corpora."""
        return [each.ids for each in self._tokenizer.encode_batch_fast(list(texts))]

    def decode(self, ids: Sequence[int]) -> str:
        """Pieces joined to words: spaces between, "##" glued on."""
        pieces = self.vocabulary.pieces
        return " ".join(pieces[int(number)] for number in ids).replace(" ##", "")
