import json
import random
import string
import sys
import unicodedata
from collections import defaultdict, deque
from pathlib import Path

import pytest

from bert_keras.text.tokenizer import WordPieceTokenizer, ids_with_masks
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

SUITE = json.loads((Path(__file__).parent / "unicode_suite.json").read_text("utf-8"))
TEXTS = [text for texts in SUITE.values() for text in texts]
LETTERS = string.ascii_letters + string.digits + "éÉßﬁıİабσςΣᄒ日本한𐐨\ue000"
VOCABULARY = Vocabulary(
    (
        *SPECIAL_PIECES,
        *LETTERS,
        *(f"##{letter}" for letter in LETTERS),
        *string.punctuation,
        *("cafe", "café", "##fe", "mask", "the", "##the", "hello", "x" * 150, "##" + "x" * 50),
    )
)
LOWERCASE = pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])


def google_tokens(text: str, vocabulary: Vocabulary, *, lowercase: bool):
    """What google-research/bert's FullTokenizer does, told independently and slowly; each
    character is led along with the place that it comes from. Returns pieces, offsets."""
    cleaned = []
    for place, character in enumerate(text):
        category = unicodedata.category(character)
        if character in " \t\n\r" or category == "Zs":
            cleaned.append((" ", place))
        elif character in "\0\ufffd" or category in ("Cc", "Cf"):
            continue
        elif is_cjk(ord(character)):
            cleaned += [(" ", place), (character, place), (" ", place)]
        else:
            cleaned.append((character, place))
    pieces, offsets = [], []
    for word in split(cleaned):
        for part in split(apart(without_accents(word) if lowercase else word)):
            places = [place for _, place in part]
            for piece, start, end in longest_first("".join(c for c, _ in part), vocabulary):
                pieces.append(piece)
                offsets.append((min(places[start:end]), max(places[start:end]) + 1))
    return pieces, offsets


def split(placed):
    words = [[]]
    for character, place in placed:
        if character.split():
            words[-1].append((character, place))
        else:
            words.append([])
    return [word for word in words if word]


def apart(word):
    found = []
    for character, place in word:
        alone = is_punctuation(character)
        found += [(" ", place)] * alone + [(character, place)] + [(" ", place)] * alone
    return found


def without_accents(word):
    small = "".join(character for character, _ in word).lower()
    places = [place for character, place in word for _ in character.lower()]
    waiting = defaultdict(deque)  # decomposing reorders marks, but never two of the same
    for character, place in zip(small, places, strict=True):
        for part in unicodedata.normalize("NFD", character):
            waiting[part].append(place)
    decomposed = [(part, waiting[part].popleft()) for part in unicodedata.normalize("NFD", small)]
    return [(part, place) for part, place in decomposed if unicodedata.category(part) != "Mn"]


def longest_first(word: str, vocabulary: Vocabulary):
    pieces, start = [], 0
    while start < len(word) <= 200:
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if prefix + word[start:end] in vocabulary.ids), None)
        if end is None:
            return [("[UNK]", 0, len(word))]
        pieces.append((prefix + word[start:end], start, end))
        start = end
    return pieces or [("[UNK]", 0, len(word))]


def is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character)[0] == "P"


def is_cjk(point: int) -> bool:
    ranges = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)]
    ranges += [(0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
    return any(first <= point <= last for first, last in ranges)


def assert_as_google(texts, vocabulary, *, lowercase):
    """Ids and offsets, by all four ways of asking."""
    tokenizer = WordPieceTokenizer(vocabulary, lowercase=lowercase)
    batch = tokenizer.encode_batch(texts)
    for text, tokens in zip(texts, batch, strict=True):
        expected = google_tokens(text, vocabulary, lowercase=lowercase)
        assert (tokens.pieces, tokens.offsets) == expected, ascii(text)
        assert tokens.ids == [vocabulary.ids[piece] for piece in tokens.pieces]
    ids = [tokens.ids for tokens in batch]
    assert list(map(tokenizer.encode, texts[:1000])) == batch[:1000]
    assert tokenizer.ids_batch(texts) == ids
    flat, lengths = tokenizer.flat_ids(texts)
    assert lengths.tolist() == list(map(len, ids))
    assert flat.tolist() == [number for each in ids for number in each]


@LOWERCASE
@pytest.mark.parametrize("name", SUITE)
def test_unicode_suite_as_google(name, lowercase):
    assert_as_google(SUITE[name], VOCABULARY, lowercase=lowercase)


@pytest.mark.parametrize("count", [400, pytest.param(1500, marks=pytest.mark.slow)])
@LOWERCASE
def test_characters_of_the_suite_in_any_order_as_google(lowercase, count):
    """Some hold private use and the like and are read word by word, some do not."""
    pick = random.Random(7)
    characters = sorted(set("".join(TEXTS)))
    few = " ,.'aBxΣσİß日한e\u0301\u200b\x00\ufffd\u302e\U0001d165\u0323\ue000\U0002b830"
    texts = ["".join(pick.choices(few, k=pick.randrange(20))) for _ in range(count)]
    for _ in range(count):
        some = pick.sample(characters, 12) + list("aB Σ.")
        texts.append("".join(pick.choices(some, k=pick.randrange(30))))
    assert_as_google(texts, VOCABULARY, lowercase=lowercase)


@pytest.mark.parametrize("stride", [61, pytest.param(1, marks=pytest.mark.slow)])
@LOWERCASE
def test_every_character_as_google(lowercase, stride):
    """One out of a hundred ideographs, syllables and private ones; all others, a few a text. With a
    stride: the first 512, those of the suite, and every so many of the rest."""
    blocks = [(0x3400, 0xD7FF), (0xE000, 0xF8FF), (0x17000, 0x18CFF), (0x20000, sys.maxunicode)]
    known = set("".join(TEXTS))
    some = {*range(512), *map(ord, known), *range(0, sys.maxunicode + 1, stride)}
    points = [
        point
        for point in sorted(some)
        if not 0xD800 <= point < 0xE000
        and (chr(point) in known or point % 101 == 0 or not in_any(point, blocks))
        and (unicodedata.category(chr(point)) != "Cn" or point % 101 == 0)
    ]
    texts = [f"a{chr(point)}B {chr(point)}, c" for point in points]
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=lowercase)
    for text, tokens in zip(texts, tokenizer.encode_batch(texts), strict=True):
        expected = google_tokens(text, VOCABULARY, lowercase=lowercase)
        assert (tokens.pieces, tokens.offsets) == expected, ascii(text)


def in_any(point: int, ranges) -> bool:
    return any(first <= point <= last for first, last in ranges)


@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_real_text_as_google(shared_data, case):
    vocabulary = Vocabulary.from_file(shared_data / f"vocab/bert-base-{case}-vocab.txt")
    lines = (shared_data / "corpus/wiki.txt").read_text("utf-8").split("\n")[::1000]
    lines += (shared_data / "corpus/sample_text.txt").read_text("utf-8").split("\n")
    assert_as_google([*TEXTS, *lines], vocabulary, lowercase=case == "uncased")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_every_corpus_as_google(shared_data, case):
    """Lines of all of each; what is rare in them, beyond ASCII, eight times as often."""
    vocabulary = Vocabulary.from_file(shared_data / f"vocab/bert-base-{case}-vocab.txt")
    tokenizer = WordPieceTokenizer(vocabulary, lowercase=case == "uncased")
    for path in sorted(path for path in (shared_data / "corpus").rglob("*") if path.is_file()):
        lines = path.read_text("utf-8").split("\n")
        rare = [line for line in lines if not line.isascii()]
        some = lines[::40] + rare[::5]
        for line, tokens in zip(some, tokenizer.encode_batch(some), strict=True):
            expected = google_tokens(line, vocabulary, lowercase=tokenizer.lowercase)
            assert (tokens.pieces, tokens.offsets) == expected, ascii(line)


@pytest.mark.parametrize(
    ("text", "pieces", "places"),
    [
        ("xe\u0301 x", ["x", "##e", "x"], ["x", "e", "x"]),  # the mark behind belongs to none
        ("e\u0301e", ["e", "##e"], ["e", "e"]),
        ("cafe\u0301 \u0301cafe", ["cafe", "cafe"], ["cafe", "cafe"]),
        ("c\u200ba\x00fé", ["cafe"], ["c\u200ba\x00fé"]),  # what was dropped within, within
        ("\ufffdca\u00adfe\u200b", ["cafe"], ["ca\u00adfe"]),
        ("\u200bжé\u200bж\u0301.", ["[UNK]", "."], ["жé\u200bж", "."]),  # the whole word
        ("aİx", ["a", "##i", "##x"], ["a", "İ", "x"]),  # its small form is two characters
        ("aﬁx", ["a", "##ﬁ", "##x"], ["a", "ﬁ", "x"]),
        ("\u1112한", ["ᄒ", "##ᄒ", "##ᅡ", "##ᆫ"], ["ᄒ", "한", "한", "한"]),
        ("a\ue000\u0301b", ["a", "##\ue000", "##b"], ["a", "\ue000", "b"]),
        # NFD puts the second mark, of class 216, before the first, of 224.
        ("a\u302e\U0001d165b", ["a", "##\U0001d165", "##\u302e", "##b"], [*"a\U0001d165\u302eb"]),
        ("x" * 201 + "\u0301 x", ["[UNK]", "x"], ["x" * 201, "x"]),
    ],
    ids=ascii,
)
def test_offsets_are_characters_of_the_given_text(text, pieces, places):
    extra = ("##ᅡ", "##ᆫ", "##\U0001d165", "##\u302e")
    tokenizer = WordPieceTokenizer(Vocabulary((*VOCABULARY.pieces, *extra)))
    for given in (text, f"{text} \U0002b820"):  # fast, and word by word
        tokens = tokenizer.encode(given)
        assert tokens.pieces[: len(pieces)] == pieces
        spans = [given[start:end] for start, end in tokens.offsets[: len(pieces)]]
        assert spans == places


def test_special_pieces_in_text_are_plain_text():
    tokens = WordPieceTokenizer(VOCABULARY).encode("[MASK]")
    assert tokens.pieces == ["[", "mask", "]"]
    assert VOCABULARY.mask_id not in tokens.ids


def test_batch_ids_and_decoding():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    texts = ["hello the", "", "cafefe 5"]
    ids = [tokens.ids for tokens in tokenizer.encode_batch(texts)]
    assert ids == [tokenizer.encode(text).ids for text in texts] == tokenizer.ids_batch(texts)
    assert [tokenizer.decode(each) for each in ids] == texts
    assert (tokenizer.vocabulary, tokenizer.lowercase) == (VOCABULARY, True)


MASK_TOKENIZER = WordPieceTokenizer(
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
    (ids,) = ids_with_masks([text], MASK_TOKENIZER)
    assert [MASK_TOKENIZER.vocabulary.pieces[each] for each in ids] == pieces


def test_texts_keep_their_own_pieces():
    texts = ["[MASK] the", "", "cafe", "the [MASK]", "[MASK]"]
    assert ids_with_masks(texts, MASK_TOKENIZER) == [
        ids_with_masks([t], MASK_TOKENIZER)[0] for t in texts
    ]
    assert ids_with_masks([], MASK_TOKENIZER) == []
