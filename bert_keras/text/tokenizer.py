"""Tokenizes text into WordPieces with character offsets, as Google's BERT does.

The tokens equal the output of google-research/bert `tokenization.py` (FullTokenizer) with the
Unicode tables of the running Python. The library `tokenizers` handles most texts; `google_words`,
which is slow, splits texts with a character that the library treats differently.
"""

import abc
import re
import string
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count, groupby
from typing import NamedTuple, TypeVar

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from bert_keras.errors import LARGEST_COUNT, InputError, suggest_keyword_names
from bert_keras.text.columns import checked_list
from bert_keras.text.packing import encode, flatten, span_indices
from bert_keras.text.vocab import Vocabulary

MAX_WORD_CHARACTERS = 200  # longer words are [UNK] (google-research/bert WordpieceTokenizer)
MAX_CACHED_WORDS = 400_000  # a larger cache is cleared; a word takes about 150 bytes
PUNCTUATION = r"([!-/:-@\[-`{-~])"  # ASCII punctuation; each mark is a word
# Characters that `str.translate` removes.
_CONTROLS = dict.fromkeys({*range(32), *range(0x7F, 0xA0), 0xFFFD} - set(map(ord, "\t\n\r")))
_CJK = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]"
)
# A character, and the index of its source character in the text.
_IndexedCharacter = tuple[str, int]
_Result = TypeVar("_Result")


class TokenizedText(NamedTuple):
    """The tokens of one text."""

    ids: list[int]
    tokens: list[str]  # the tokens as strings
    # The [start, end) of each token in characters of the given text. The range includes dropped
    # marks and control characters inside the token. [UNK] spans its whole word.
    offsets: list[tuple[int, int]]


class TextTokenizer(abc.ABC):
    """Tokenizes texts without adding special tokens.

    The name of a special token in a text, such as "[SEP]", is treated as plain text.
    """

    vocabulary: Vocabulary
    lowercase: bool

    @suggest_keyword_names
    def __call__(
        self,
        texts: Sequence[str],
        text_pairs: Sequence[str] | None = None,
        *,
        max_length: int = LARGEST_COUNT,
    ) -> dict[str, np.ndarray]:
        """Returns the inputs of a model; see `bert_keras.encode` for the arguments and arrays."""
        return encode(self, texts, text_pairs, max_length=max_length)

    def encode(self, text: str) -> TokenizedText:
        """Returns the ids, tokens and offsets of a text."""
        return self.encode_batch([text])[0]

    @abc.abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[TokenizedText]:
        """Returns the ids, tokens and offsets of each text."""

    @abc.abstractmethod
    def ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the token ids of each text."""

    def flat_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the concatenated ids of all texts, int32 [M], and their lengths, int64 [N]."""
        return flatten(self.ids_batch(texts))

    @abc.abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of the tokens."""

    def _tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns the token of each id."""
        tokens = self.vocabulary.tokens
        if wrong := [each for each in ids if not 0 <= each < len(tokens)]:
            raise InputError(f"{wrong[0]} is not the id of a token: 0 to {len(tokens) - 1}")
        return [tokens[int(token_id)] for token_id in ids]


def wordpiece(vocabulary: Vocabulary, *, lowercase: bool) -> Tokenizer:
    """Returns BERT's tokenizer of the library `tokenizers`, without special tokens."""
    limit = MAX_WORD_CHARACTERS
    model = WordPiece(vocabulary.ids, unk_token="[UNK]", max_input_chars_per_word=limit)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def normalizer(*, lowercase: bool) -> BertNormalizer:
    """Returns the normalizer of BERT: it cleans text and puts spaces around CJK characters.

    With `lowercase`, it also lower-cases text and strips accents.
    """
    return BertNormalizer(strip_accents=lowercase, lowercase=lowercase)


class WordPieceTokenizer(TextTokenizer):
    """The tokenizer of BERT and DistilBERT, with the ids of google-research/bert.

    Args:
        vocabulary: The tokens of the model.
        lowercase: Whether to lower-case texts and strip accents.

    Example:

    ```python
    tokenizer = WordPieceTokenizer(Vocabulary.from_file("vocab.txt"))
    ids = tokenizer.ids_batch(["a good film"])
    ```
    """

    @suggest_keyword_names
    def __init__(self, vocabulary: Vocabulary, *, lowercase: bool = True):
        self.vocabulary = vocabulary
        self.lowercase = lowercase
        self._tokenizer = wordpiece(vocabulary, lowercase=lowercase)
        self._exceptions = _ExceptionalCharacters(lowercase=lowercase)
        self._cache = WordCache(self._ids_of_words)

    def encode_batch(self, texts: Sequence[str]) -> list[TokenizedText]:
        texts = checked_list(texts)

        def encode_fast(texts):
            encodings = self._tokenizer.encode_batch(list(map(self._with_sigmas, texts)))
            return [TokenizedText(each.ids, each.tokens, each.offsets) for each in encodings]

        return _convert(texts, self._exceptions.are_in, self._encode_by_words, encode_fast)

    def flat_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Same as `TextTokenizer.flat_ids`, but with a cache of words, which is not thread-safe."""
        return self._cache.flat_ids(list(map(self._with_sigmas, checked_list(texts))))

    def ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        texts = checked_list(texts)

        def ids_fast(texts):
            texts = list(map(self._with_sigmas, texts))
            return [each.ids for each in self._tokenizer.encode_batch_fast(texts)]

        def ids_by_words(text):
            return self._encode_by_words(text).ids

        return _convert(texts, self._exceptions.are_in, ids_by_words, ids_fast)

    def _encode_by_words(self, text: str) -> TokenizedText:
        """Encodes a text with `google_words`, which is slow but right for all characters."""
        result = TokenizedText([], [], [])
        for word in google_words(text, lowercase=self.lowercase):
            end = 0
            for token in self._tokenizer.model.tokenize(word.text):
                start = end
                end += len(token.value) - (2 if start else 0)  # later tokens begin with "##"
                is_unknown = token.id == self.vocabulary.unk_id
                indices = word.indices if is_unknown else word.indices[start:end]
                result.ids.append(token.id)
                result.tokens.append(token.value)
                result.offsets.append((min(indices), max(indices) + 1))
        return result

    def _with_sigmas(self, text: str) -> str:
        """Lower-cases capital sigmas, whose small form depends on the word around them."""
        # `tokenizers` lower-cases each character by itself.
        return with_small_sigmas(text) if self.lowercase and "Σ" in text else text

    def _ids_of_words(self, words: Sequence[str]) -> list[list[int]]:
        """Same as `ids_batch`, but faster for words of ASCII letters and digits."""
        # These words need no normalization except lower-casing.
        ids, model = self.vocabulary.ids, self._tokenizer.model

        def word_ids(word: str) -> list[int]:
            word = word.lower() if self.lowercase else word
            if len(word) <= MAX_WORD_CHARACTERS and word in ids:
                return [ids[word]]
            return [token.id for token in model.tokenize(word)]

        def is_simple(word: str) -> bool:
            return word.isascii() and word.isalnum()

        return _convert(words, is_simple, word_ids, self.ids_batch)

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self._tokens(ids)).replace(" ##", "")


def _convert(
    texts: Sequence[str],
    is_alone: Callable[[str], bool],
    convert_one: Callable[[str], _Result],
    convert_batch: Callable[[list[str]], list[_Result]],
) -> list[_Result]:
    """Converts each text for which `is_alone` is true by itself, and all other texts together."""
    flags = list(map(is_alone, texts))
    batch = [text for text, flag in zip(texts, flags, strict=True) if not flag]
    results = iter(convert_batch(batch))
    return [
        convert_one(text) if flag else next(results)
        for text, flag in zip(texts, flags, strict=True)
    ]


class WordCache:
    """Tokenizes texts; calls `tokenize` only once for each distinct word."""

    def __init__(self, tokenize: Callable[[Sequence[str]], Sequence[Sequence[int]]]):
        self._tokenize = tokenize
        self._clear()

    def _clear(self) -> None:
        self._indices = defaultdict(count().__next__)  # word -> its index; a new word gets the next
        self._ids = np.empty(0, np.int32)  # the ids of all words, concatenated
        # For each word, int64: the index in `_ids` of its first id, and the number of its ids.
        self._starts = self._lengths = np.zeros(0, np.int64)

    def flat_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns what `TextTokenizer.flat_ids` returns."""
        import pyarrow as pa  # slow to import
        import pyarrow.compute as pc

        if len(self._indices) > MAX_CACHED_WORDS:
            self._clear()
        # `pa.array` would import pandas, if it is installed, which takes longer than pyarrow.
        raw = [text.encode() for text in texts]
        ends = np.cumsum([0, *map(len, raw)], dtype=np.int64)
        buffers = map(pa.py_buffer, (ends, b"".join(raw)))
        array = pa.LargeStringArray.from_buffers(len(raw), *buffers)
        spaced = pc.replace_substring_regex(array, PUNCTUATION, r" \1 ")
        words_of_texts = pc.split_pattern(spaced, " ")  # N lists of words
        encoded = words_of_texts.values.dictionary_encode()  # each word as an index of `distinct`
        distinct, num_known = encoded.dictionary.to_pylist(), len(self._indices)
        try:
            cached = np.fromiter(map(self._indices.__getitem__, distinct), np.int64, len(distinct))
            self._add([distinct[index] for index in np.flatnonzero(cached >= num_known)])
        except BaseException:  # the cache may have words without ids
            self._clear()
            raise
        # `to_numpy` of pyarrow would import pandas too. The words of text n are those from
        # first_words[n] to first_words[n + 1] - 1.
        arrays = (encoded.indices, words_of_texts.offsets)
        words, first_words = (np.asarray(np.from_dlpack(each), np.int64) for each in arrays)
        words = cached[words]  # the index in the cache of each word of all texts
        lengths = self._lengths[words]
        ids = self._ids[span_indices(self._starts[words], lengths)]
        num_before = np.append(0, np.cumsum(lengths))  # the number of ids before each word
        return ids, np.diff(num_before[first_words])

    def _add(self, words: list[str]) -> None:
        """Tokenizes new words, whose indices are the next ones."""
        ids, lengths = flatten(self._tokenize(words))
        starts = len(self._ids) + np.cumsum(lengths) - lengths
        self._ids = np.concatenate([self._ids, ids])
        self._starts = np.concatenate([self._starts, starts])
        self._lengths = np.concatenate([self._lengths, lengths])


class _ExceptionalCharacters:
    """Finds characters that `tokenizers` and Google's code treat differently."""

    # The library drops characters of private use, does not treat U+2B820 to U+2B91F as CJK, and
    # has other Unicode tables than Python for some hundred characters.

    def __init__(self, *, lowercase: bool):
        self._lowercase = lowercase
        self._normalizer, self._splitter = normalizer(lowercase=lowercase), BertPreTokenizer()
        self._regular: set[str] = set()
        self._exceptional: set[str] = set()

    def are_in(self, text: str) -> bool:
        """Returns whether a text contains one of the characters."""
        if text.isascii():
            return False
        characters = set(text) - self._regular
        for character in characters - self._exceptional:  # each character is tested once
            is_exceptional = self._is_exceptional(character)
            (self._exceptional if is_exceptional else self._regular).add(character)
        return not self._exceptional.isdisjoint(characters)

    def _is_exceptional(self, character: str) -> bool:
        if unicodedata.combining(character) and unicodedata.category(character) != "Mn":
            return True  # no accent, so it is kept; NFD can reorder it together with its offset
        text = f"a{character}B"
        theirs = self._splitter.pre_tokenize_str(self._normalizer.normalize_str(text))
        ours = google_words(text, lowercase=self._lowercase)
        return [word for word, _ in theirs] != [word.text for word in ours]


class GoogleWord(NamedTuple):
    """One word of a text."""

    text: str
    indices: tuple[int, ...]  # for each character, the index of its source character


def google_words(text: str, *, lowercase: bool) -> list[GoogleWord]:
    """Splits text into words as google-research/bert `tokenization.py` (BasicTokenizer) does."""
    words: list[list[_IndexedCharacter]] = [[]]
    for character, index in _lower_case(text) if lowercase else _clean(text):
        if character.isspace():
            words.append([])
        elif is_alone(character):
            words += [[(character, index)], []]
        else:
            words[-1].append((character, index))
    return [
        GoogleWord("".join(characters), indices)
        for characters, indices in (zip(*word, strict=True) for word in words if word)
    ]


def is_dropped(character: str) -> bool:
    """Returns whether a character is a control or format character, which is removed."""
    return ord(character) in _CONTROLS or unicodedata.category(character) == "Cf"


def is_alone(character: str) -> bool:
    """Returns whether a character is a word of its own: punctuation, an ASCII symbol, or CJK."""
    return (
        unicodedata.category(character)[0] == "P"
        or character in string.punctuation
        or _CJK.match(character) is not None
    )


def with_small_sigmas(text: str) -> str:
    """Replaces each capital sigma of a text by ς at the end of a word, otherwise by σ."""
    cleaned = text.translate(_CONTROLS).replace("İ", "i")  # "İ".lower() has two characters
    sigmas = (small for large, small in zip(cleaned, cleaned.lower(), strict=True) if large == "Σ")
    return re.sub("Σ", lambda _: next(sigmas), text)


def _clean(text: str) -> list[_IndexedCharacter]:
    return [(character, index) for index, character in enumerate(text) if not is_dropped(character)]


def _lower_case(text: str) -> list[_IndexedCharacter]:
    """Returns the characters of the text's NFD, in lower case and without accents."""
    decomposed = [
        (part, index)
        for character, index in _clean(with_small_sigmas(text))
        for part in unicodedata.normalize("NFD", character.lower())
    ]
    ordered: list[_IndexedCharacter] = []
    for is_mark, run in groupby(decomposed, lambda pair: unicodedata.combining(pair[0]) > 0):
        pairs = list(run)
        ordered += sorted(pairs, key=lambda p: unicodedata.combining(p[0])) if is_mark else pairs
    return [pair for pair in ordered if unicodedata.category(pair[0]) != "Mn"]
