import random
import string
import unicodedata
from pathlib import Path

import pytest

from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

SHARED = Path(__file__).parents[3] / "shared/data/vocab"
LETTERS = string.ascii_letters + string.digits + "éÉßﬁıİабσςΣ日本한"
VOCABULARY = Vocabulary(
    (
        *SPECIAL_PIECES,
        *LETTERS,
        *(f"##{letter}" for letter in LETTERS),
        *string.punctuation,
        *("cafe", "café", "##fe", "mask", "the", "##the", "hello", "x" * 150, "##" + "x" * 50),
    )
)
TRICKY = [
    "",
    " \t\r\n ",
    "Hello, the café!",
    "a\u200bb",
    "İstanbul ısı",
    "Straße ß ẞ",
    "ﬁne ﬁ",
    "日本the한국 日",
    "x\ufffdy \ufffd",
    "a\x00b \x00 c",
    "x" * 200,
    "x" * 201,
    "x" * 250,
    "a 😀 b😀c",
    "[MASK] [CLS][SEP] [PAD] [unused1]",
    "don't--stop... $5.00 ^_^ `a`",
    "e\u0301 E\u0301 caf\u0065\u0301",
    "a\u00a0b\u3000c\u2009d",
    "a\u2028b\u2029c\x85d\x1cd\x0be",
    "a\u00adb\ufeffc\u200dd",
    "¿que? «the» “the” the…the—the",
    "𠀀𠀁 \u2f800",
    "абв АБВ",
]


def google_pieces(text: str, vocabulary: Vocabulary, *, lowercase: bool) -> list[str]:
    """What google-research/bert's FullTokenizer does, told independently and slowly."""
    cleaned = ""
    for character in text:
        category = unicodedata.category(character)
        if character in " \t\n\r" or category == "Zs":
            cleaned += " "
        elif character in "\0\ufffd" or category in ("Cc", "Cf"):
            continue
        else:
            cleaned += f" {character} " if is_cjk(ord(character)) else character
    words = []
    for word in cleaned.split():
        if lowercase:
            decomposed = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        words += "".join(f" {c} " if is_punctuation(c) else c for c in word).split()
    return [piece for word in words for piece in longest_first(word, vocabulary)]


def longest_first(word: str, vocabulary: Vocabulary) -> list[str]:
    pieces, start = [], 0
    while start < len(word) <= 200:
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if prefix + word[start:end] in vocabulary.ids), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces or ["[UNK]"]


def is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character)[0] == "P"


def is_cjk(point: int) -> bool:
    ranges = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)]
    ranges += [(0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
    return any(first <= point <= last for first, last in ranges)


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("text", TRICKY, ids=ascii)
def test_tricky_text_as_google(text, lowercase):
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=lowercase)
    assert tokenizer.encode(text).pieces == google_pieces(text, VOCABULARY, lowercase=lowercase)


@pytest.mark.parametrize("lowercase", [True, False])
def test_random_text_as_google(lowercase):
    pick = random.Random(7)
    pool = LETTERS + string.punctuation + "   \t\u0301\u200b\ufffd\xa0’“日İẞ😀\u0308ªºÀŁø\u1e9e"
    texts = ["".join(pick.choices(pool, k=pick.randrange(40))) for _ in range(3000)]
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=lowercase)
    for text, given in zip(texts, tokenizer.encode_batch(texts), strict=True):
        assert given.pieces == google_pieces(text, VOCABULARY, lowercase=lowercase), ascii(text)


@pytest.mark.parametrize("name", ["uncased", "cased"])
def test_real_vocabulary_as_google(name):
    path = SHARED / f"bert-base-{name}-vocab.txt"
    if not path.is_file():
        pytest.skip("the published BERT vocabularies are not beside this checkout")
    vocabulary = Vocabulary.from_file(path)
    tokenizer = WordPieceTokenizer(vocabulary, lowercase=name == "uncased")
    corpus = (SHARED.parent / "corpus/sample_text.txt").read_text("utf-8").splitlines()
    for text in [*TRICKY, *corpus]:
        expected = google_pieces(text, vocabulary, lowercase=name == "uncased")
        assert tokenizer.encode(text).pieces == expected, ascii(text)


def test_what_the_docstring_says_still_differs():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    for text, pieces, google in [
        ("a\ue000b", ["a", "##b"], ["[UNK]"]),
        ("a\U0002b820", ["[UNK]"], ["a", "[UNK]"]),
        ("a\u2e5d", ["[UNK]"], ["a", "[UNK]"]),  # a dash since Unicode 14
    ]:
        assert tokenizer.encode(text).pieces == pieces, ascii(text)
        assert google_pieces(text, VOCABULARY, lowercase=True) == google, ascii(text)


def test_special_pieces_in_text_are_plain_text():
    tokens = WordPieceTokenizer(VOCABULARY).encode("[MASK]")
    assert tokens.pieces == ["[", "mask", "]"]
    assert VOCABULARY.mask_id not in tokens.ids


def test_offsets_are_characters_of_the_given_text():
    text = "Ünïted  CAFÉ\u200b 日本, e\u0301x 😀the"
    tokens = WordPieceTokenizer(VOCABULARY).encode(text)
    assert len(tokens.ids) == len(tokens.pieces) == len(tokens.offsets)
    spans = dict(
        zip(tokens.pieces, (text[start:end] for start, end in tokens.offsets), strict=True)
    )
    assert spans["cafe"] == "CAFÉ"
    assert (spans["日"], spans["本"], spans[","]) == ("日", "本", ",")
    assert spans["##x"] == "x"
    assert tokens.offsets[-1][1] == len(text)


def test_batch_ids_and_decoding():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    texts = ["hello the", "", "cafefe 5"]
    ids = [tokens.ids for tokens in tokenizer.encode_batch(texts)]
    assert ids == [tokenizer.encode(text).ids for text in texts] == tokenizer.ids_batch(texts)
    assert [tokenizer.decode(each) for each in ids] == texts
    assert (tokenizer.vocabulary, tokenizer.lowercase) == (VOCABULARY, True)
