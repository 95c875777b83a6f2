"""Tokenizes text into WordPieces with character offsets, as Google's BERT does.

The tokens equal those of google-research/bert `tokenization.py` (FullTokenizer) with the Unicode
tables of the running Python, for every character. The fast library `tokenizers` handles most texts.
Texts with a character that it treats differently are split by `google_words` instead.
"""

import abc
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import chain, count
from typing import Any, NamedTuple, TypeVar

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from bert_keras.errors import LARGEST_COUNT, InputError, check, quoted, suggest_keyword_names
from bert_keras.text.google_words import google_words, with_small_sigmas
from bert_keras.text.packing import joined, span_indices
from bert_keras.text.vocab import Vocabulary

MAX_WORD_CHARACTERS = 200  # longer words are [UNK] (google-research/bert WordpieceTokenizer)
MAX_CACHED_WORDS = 400_000  # a larger cache is cleared; about 150 bytes each
PUNCTUATION = r"([!-/:-@\[-`{-~])"  # of ASCII; each mark is a word
MASK = "[MASK]"
# Includes the white space before "[MASK]", which RoBERTa would turn into tokens.
MASK_PATTERN = r"[\t-\r ]*\[MASK\]"
# Half of a pair, which has no UTF-8; a JSON escape can be one, as "\ud800".
_SURROGATE = re.compile("[\ud800-\udfff]")
_Result = TypeVar("_Result")


class TokenizedText(NamedTuple):
    """The tokens of one text."""

    ids: list[int]
    tokens: list[str]  # the tokens as strings
    # The [start, end) of each token in characters of the given text. The range includes dropped
    # marks and control characters inside the token. [UNK] spans its whole word.
    offsets: list[tuple[int, int]]


def check_column(column: object) -> None:
    """Raises InputError for what is no column of texts, such as a single string."""
    is_column = hasattr(column, "__iter__") or hasattr(column, "__array__")
    found = f"texts is {quoted(column)}; expected a list of strings"
    hint = "; give [text]" * isinstance(column, str)
    check(is_column and not isinstance(column, (str, bytes)), f"{found}{hint}")


def check_texts(texts: Sequence[Any]) -> None:
    """Raises InputError if a text is no string, or one that UTF-8 cannot encode."""
    for number, text in enumerate(texts):
        if not isinstance(text, str) or (not text.isascii() and _SURROGATE.search(text)):
            hint = "; pairs are (firsts, seconds)" * isinstance(text, (list, tuple))
            expected = "a string" + " of valid Unicode" * isinstance(text, str)
            raise InputError(f"text [{number}] is {quoted(text)}; expected {expected}{hint}")


def names_invalid_texts(method: Callable[..., _Result]) -> Callable[..., _Result]:
    """Lets a method of a tokenizer raise the InputError of `check_texts` if it fails."""

    @wraps(method)
    def checked(self, texts: Sequence[str]) -> _Result:
        check_column(texts)
        try:
            return method(self, texts)
        except (AttributeError, TypeError, UnicodeEncodeError):
            check_texts(texts)
            raise

    return checked


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
        """Returns the inputs of a model, the arrays of `bert_keras.encode`; see there."""
        from bert_keras.text.encode import encode

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
        """Returns the concatenated ids of all texts, int32 [M], and the ids per text, int64 [N]."""
        return joined(self.ids_batch(texts))

    @abc.abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of the tokens."""


def normalizer(*, lowercase: bool) -> BertNormalizer:
    """Returns a normalizer: clean text, spaces around CJK characters, perhaps lower case."""
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
        found = f"the vocabulary is a {type(vocabulary).__name__}; expected a Vocabulary"
        check(isinstance(vocabulary, Vocabulary), f"{found}, such as Vocabulary.from_file(PATH)")
        self.vocabulary = vocabulary
        self.lowercase = lowercase
        # No special token is registered, so "[SEP]" in a user's text stays plain text.
        most = MAX_WORD_CHARACTERS
        model = WordPiece(vocabulary.ids, unk_token="[UNK]", max_input_chars_per_word=most)
        self._tokenizer = Tokenizer(model)
        self._tokenizer.normalizer = normalizer(lowercase=lowercase)
        self._tokenizer.pre_tokenizer = BertPreTokenizer()
        self._exceptions = _ExceptionalCharacters(lowercase=lowercase)
        self._cache = WordCache(self._ids_of_words)

    @names_invalid_texts
    def encode_batch(self, texts: Sequence[str]) -> list[TokenizedText]:
        def fast(texts):
            encodings = self._tokenizer.encode_batch(list(map(self._with_sigmas, texts)))
            return [TokenizedText(each.ids, each.tokens, each.offsets) for each in encodings]

        return _split_map(texts, self._exceptions.are_in, self._exact, fast)

    @names_invalid_texts
    def flat_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Same as `TextTokenizer.flat_ids`, but several times as fast on a large corpus.

        It caches the ids of words. The cache is not thread-safe; use one instance for each thread.
        """
        return self._cache.flat_ids(list(map(self._with_sigmas, texts)))

    @names_invalid_texts
    def ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        def fast(texts):
            texts = list(map(self._with_sigmas, texts))
            return [each.ids for each in self._tokenizer.encode_batch_fast(texts)]

        return _split_map(texts, self._exceptions.are_in, lambda text: self._exact(text).ids, fast)

    def _exact(self, text: str) -> TokenizedText:
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

        return _split_map(
            words, lambda word: word.isascii() and word.isalnum(), word_ids, self.ids_batch
        )

    def decode(self, ids: Sequence[int]) -> str:
        tokens = self.vocabulary.tokens
        return " ".join(tokens[int(token_id)] for token_id in ids).replace(" ##", "")


def _split_map(
    texts: Sequence[str],
    condition: Callable[[str], bool],
    one: Callable[[str], _Result],
    many: Callable[[list[str]], list[_Result]],
) -> list[_Result]:
    """Applies `one` to each text that meets the condition, and `many` to all other texts."""
    flags = list(map(condition, texts))
    others = iter(many([text for text, flag in zip(texts, flags, strict=True) if not flag]))
    return [one(text) if flag else next(others) for text, flag in zip(texts, flags, strict=True)]


class WordCache:
    """Tokenizes many texts into flat ids, and each distinct word only once, by `tokenize`.

    BERT's WordPiece tokenizes words and ASCII punctuation marks by themselves, so their ids can be
    cached. The words of a corpus repeat, so that this is several times as fast.
    """

    def __init__(self, tokenize: Callable[[Sequence[str]], Sequence[Sequence[int]]]):
        self._tokenize = tokenize
        self._clear()

    def _clear(self) -> None:
        self._numbers = defaultdict(count().__next__)  # of the words, in the order of arrival
        self._ids = np.empty(0, np.int32)
        self._starts = self._lengths = np.zeros(0, np.int64)

    def flat_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns what `TextTokenizer.flat_ids` returns."""
        import pyarrow as pa  # slow to import
        import pyarrow.compute as pc

        if len(self._numbers) > MAX_CACHED_WORDS:
            self._clear()
        spaced = pc.replace_substring_regex(pa.array(texts, pa.string()), PUNCTUATION, r" \1 ")
        columns = pc.split_pattern(spaced, " ")
        encoded = columns.values.dictionary_encode()
        words, num_known = encoded.dictionary.to_pylist(), len(self._numbers)
        try:
            numbers = np.fromiter(map(self._numbers.__getitem__, words), np.int64, len(words))
            self._add([words[index] for index in np.flatnonzero(numbers >= num_known)])
        except BaseException:  # the dictionary may have words without ids
            self._clear()
            raise
        indices = numbers[encoded.indices.to_numpy()]
        lengths = self._lengths[indices]
        ids = self._ids[span_indices(self._starts[indices], lengths)]
        bounds = np.append(0, np.cumsum(lengths))[columns.offsets.to_numpy()]
        return ids, np.diff(bounds)

    def _add(self, words: list[str]) -> None:
        ids, lengths = joined(self._tokenize(words))
        starts = len(self._ids) + np.cumsum(lengths) - lengths
        self._ids = np.concatenate([self._ids, ids])
        self._starts = np.concatenate([self._starts, starts])
        self._lengths = np.concatenate([self._lengths, lengths])


def ids_with_masks(texts: Sequence[str], tokenizer: TextTokenizer) -> list[list[int]]:
    """Same as `tokenizer.ids_batch`, but each "[MASK]" in a text becomes the mask token."""
    parts = [re.split(MASK_PATTERN, text) for text in texts]
    ids = iter(tokenizer.ids_batch(list(chain.from_iterable(parts))))
    mask_id = tokenizer.vocabulary.mask_id
    return [list(chain.from_iterable((mask_id, *next(ids)) for _ in each))[1:] for each in parts]


class _ExceptionalCharacters:
    """Finds characters that `tokenizers` treats differently from Google's tokenizer.

    Each new character is given to both tokenizers once, and the result is cached. The differing
    characters are those of private use, which `tokenizers` drops; U+2B820 to U+2B91F, which it does
    not treat as CJK; and some hundreds that differ between its Unicode tables and Python's.
    """

    def __init__(self, *, lowercase: bool):
        self._lowercase = lowercase
        self._normalizer, self._splitter = normalizer(lowercase=lowercase), BertPreTokenizer()
        self._regular: set[str] = set()
        self._exceptional: set[str] = set()

    def are_in(self, text: str) -> bool:
        """Returns whether a text contains one of the characters."""
        if text.isascii():
            return False
        others = set(text) - self._regular
        for character in others - self._exceptional:
            is_exceptional = self._is_exceptional(character)
            (self._exceptional if is_exceptional else self._regular).add(character)
        return not self._exceptional.isdisjoint(others)

    def _is_exceptional(self, character: str) -> bool:
        if unicodedata.combining(character) and unicodedata.category(character) != "Mn":
            return True  # it remains, and reordering the marks also reorders their offsets
        text = f"a{character}B"
        fast = self._splitter.pre_tokenize_str(self._normalizer.normalize_str(text))
        exact = google_words(text, lowercase=self._lowercase)
        return [word for word, _ in fast] != [word.text for word in exact]
