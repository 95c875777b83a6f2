"""WordPiece equals Google's tokenizer, for every character and with all offsets."""

import random
import string
import unicodedata
from collections import defaultdict, deque
from itertools import groupby

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.packing import ids_with_masks
from bert_keras.text.tokenizer import WordCache, WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.unicode_texts import SUITE, characters_in_any_order, some_characters

LETTERS = string.ascii_letters + string.digits + "éÉßﬁıİабσςΣᄒ日本한𐐨\ue000"
WORDS = ("cafe", "café", "##fe", "mask", "the", "##the", "hello", "x" * 150, "##" + "x" * 50)
PARTS = (*LETTERS, *(f"##{letter}" for letter in LETTERS), *string.punctuation)
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *PARTS, *WORDS))
LOWERCASE = pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])


def google_tokens(text: str, vocabulary: Vocabulary, *, lowercase: bool):
    """An independent, slow version of google-research/bert's FullTokenizer.

    Each character keeps the index of its source. Returns tokens and offsets.
    """
    cleaned = []
    for index, character in enumerate(text):
        category = unicodedata.category(character)
        if character in " \t\n\r" or category == "Zs":
            cleaned.append((" ", index))
        elif character in "\0\ufffd" or category in ("Cc", "Cf"):
            continue
        elif is_cjk(ord(character)):
            cleaned += [(" ", index), (character, index), (" ", index)]
        else:
            cleaned.append((character, index))
    tokens, offsets = [], []
    for word in split_words(cleaned):
        for part in split_words(separate_punctuation(without_accents(word) if lowercase else word)):
            indices = [index for _, index in part]
            for token, start, end in longest_first("".join(c for c, _ in part), vocabulary):
                tokens.append(token)
                offsets.append((min(indices[start:end]), max(indices[start:end]) + 1))
    return tokens, offsets


def split_words(indexed):
    groups = groupby(indexed, lambda each: bool(each[0].split()))
    return [[*group] for is_word, group in groups if is_word]


def separate_punctuation(word):
    separated = []
    for character, index in word:
        alone = is_punctuation(character)
        separated += [(" ", index)] * alone + [(character, index)] + [(" ", index)] * alone
    return separated


def without_accents(word):
    small = "".join(character for character, _ in word).lower()
    indices = [index for character, index in word for _ in character.lower()]
    waiting = defaultdict(deque)  # decomposing reorders marks, but never two of the same
    for character, index in zip(small, indices, strict=True):
        for part in unicodedata.normalize("NFD", character):
            waiting[part].append(index)
    decomposed = [(part, waiting[part].popleft()) for part in unicodedata.normalize("NFD", small)]
    return [(part, index) for part, index in decomposed if unicodedata.category(part) != "Mn"]


def longest_first(word: str, vocabulary: Vocabulary):
    tokens, start = [], 0
    while start < len(word) <= 200:
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if prefix + word[start:end] in vocabulary.ids), None)
        if end is None:
            return [("[UNK]", 0, len(word))]
        tokens.append((prefix + word[start:end], start, end))
        start = end
    return tokens or [("[UNK]", 0, len(word))]


def is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character)[0] == "P"


def is_cjk(point: int) -> bool:
    ranges = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)]
    ranges += [(0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
    return any(first <= point <= last for first, last in ranges)


def assert_as_google(texts, vocabulary, *, lowercase):
    """Compares ids and offsets of all four methods with Google's."""
    tokenizer = WordPieceTokenizer(vocabulary, lowercase=lowercase)
    batch = tokenizer.encode_batch(texts)
    for text, tokens in zip(texts, batch, strict=True):
        expected = google_tokens(text, vocabulary, lowercase=lowercase)
        assert (tokens.tokens, tokens.offsets) == expected, ascii(text)
        assert tokens.ids == [vocabulary.ids[token] for token in tokens.tokens]
    ids = [tokens.ids for tokens in batch]
    assert list(map(tokenizer.encode, texts[:1000])) == batch[:1000]
    assert tokenizer.ids_batch(texts) == ids
    flat, lengths = tokenizer.flat_ids(texts)
    assert (flat.dtype, lengths.dtype) == (np.int32, np.int64)
    assert lengths.tolist() == list(map(len, ids))
    assert flat.tolist() == [number for each in ids for number in each]


@LOWERCASE
@pytest.mark.parametrize("name", SUITE)
def test_unicode_suite_as_google(name, lowercase):
    assert_as_google(SUITE[name], VOCABULARY, lowercase=lowercase)


@LOWERCASE
def test_white_space_marks_and_long_words_as_google(lowercase):
    """Also marks, dropped characters and others that have no token, at the ends of words."""
    long = "a" * 250
    texts = ["", " ", "  a  ", "\ta\nb\r", f"{long} {long[:200]}.{long}", "[CLS] a", "\n c", "\n"]
    texts += ["xe\u0301 x", "cafe\u0301 \u0301cafe", "c\u200ba\x00fé", "\ufffdca\u00adfe\u200b"]
    texts += ["\u200bжé\u200bж\u0301.", "aİx", "aﬁx", "\u1112한", "a\u302e\U0001d165b"]
    texts += [f"{long}\u0301 x"]
    texts += [f"{text} \U0002b820" for text in texts]  # word by word
    for some in (texts, ["\n"], [""], []):
        assert_as_google(some, VOCABULARY, lowercase=lowercase)


@pytest.mark.parametrize("count", [400, pytest.param(1500, marks=pytest.mark.slow)])
@LOWERCASE
def test_characters_of_the_suite_in_any_order_as_google(lowercase, count):
    """Some texts contain exceptional characters, such as those of private use; others do not."""
    pick = random.Random(7)
    few = " ,.'aBxΣσİß日한e\u0301\u200b\x00\ufffd\u302e\U0001d165\u0323\ue000\U0002b830"
    texts = ["".join(pick.choices(few, k=pick.randrange(20))) for _ in range(count)]
    assert_as_google([*texts, *characters_in_any_order(count)], VOCABULARY, lowercase=lowercase)


@pytest.mark.parametrize("step", [20, pytest.param(1, marks=pytest.mark.slow)])
@LOWERCASE
def test_every_character_as_google(lowercase, step):
    texts = [f"a{each}B {each},c'{each} .{each}" for each in some_characters(step)]
    assert_as_google(texts, VOCABULARY, lowercase=lowercase)


def test_decoding():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    texts = ["hello the", "", "cafefe 5"]
    assert [tokenizer.decode(each) for each in tokenizer.ids_batch(texts)] == texts
    with pytest.raises(InputError):
        tokenizer.decode([-1])


def test_an_interrupted_call_leaves_no_wrong_ids_in_the_cache():
    interrupts = [KeyboardInterrupt]

    def tokenize(texts):
        if "bb" in texts and interrupts:
            raise interrupts.pop()
        return [[len(text)] for text in texts]

    cache = WordCache(tokenize)
    cache.flat_ids(["a"])
    with pytest.raises(KeyboardInterrupt):
        cache.flat_ids(["bb ccc"])
    assert cache.flat_ids(["ccc a bb dddd"])[0].tolist() == [3, 1, 2, 4]


MASK_TOKENIZER = WordPieceTokenizer(
    Vocabulary((*SPECIAL_TOKENS, "the", "cafe", "##s", "[", "]", "mask", ".")), lowercase=True
)

MASKED = {
    "The [MASK].": ["the", "[MASK]", "."],
    "[MASK]": ["[MASK]"],
    "the[MASK][MASK]Cafés": ["the", "[MASK]", "[MASK]", "cafe", "##s"],
    "[[MASK]]": ["[", "[MASK]", "]"],
    "[mask] [ MASK] [MASK": ["[", "mask", "]", "[", "mask", "]", "[", "mask"],
    "the cafe": ["the", "cafe"],
    "": [],
}


def test_only_mask_in_capitals_is_the_mask_token():
    ids = ids_with_masks([*MASKED], MASK_TOKENIZER)
    tokens = [[MASK_TOKENIZER.vocabulary.tokens[each] for each in row] for row in ids]
    assert tokens == [*MASKED.values()]
    assert ids_with_masks([], MASK_TOKENIZER) == []


@pytest.mark.parametrize("name", ["klue-bert", "roberta", "xlm-roberta"])
@pytest.mark.parametrize("method", ["encode_batch", "ids_batch", "flat_ids"])
@pytest.mark.parametrize("text", ["red \ud83d", "\udfff", 5])
def test_texts_without_utf8_are_named(vocabulary_of, name, method, text):
    tokenizer = tokenizer_of(vocabulary_of(name), lowercase=False)
    with pytest.raises(InputError, match=r"\[1\]"):
        getattr(tokenizer, method)(["é", text])
