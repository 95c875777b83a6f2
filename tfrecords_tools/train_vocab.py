"""Corpus files come in; a WordPiece vocabulary, the same for the same text, goes out.

The trainer of the `tokenizers` library numbers characters in the order of a hash map, and breaks
ties between equally frequent pairs by those numbers, so its results differ from run to run. Here
words and characters are counted first and the trainer is given all characters in a fixed order:
every number, and with it every tie, is then decided by the text alone.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer, WhitespaceSplit
from tokenizers.trainers import WordPieceTrainer

from bert_keras.errors import InputError
from bert_keras.progress import progress
from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS, normalizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary
from tfrecords_tools.corpus import lines

MIN_COUNT = 2  # a character or pair seen once teaches nothing
REPEATS_PER_TEXT = 1000  # how a word count is handed to the trainer


def train_vocabulary(
    files: Iterable[str | os.PathLike], *, size: int, lowercase: bool = True
) -> Vocabulary:
    """At most `size` pieces: the five specials, characters, "##" characters, then merges."""
    if size < len(SPECIAL_PIECES) + 2:
        raise InputError(f"a vocabulary of {size} pieces is too small; expected at least 7")
    return trained(count_words(files, lowercase=lowercase), size=size)


def count_words(files: Iterable[str | os.PathLike], *, lowercase: bool) -> Counter[str]:
    """How often each normalised word stands in the corpus."""
    normalize = normalizer(lowercase=lowercase).normalize_str
    chunks: Counter[str] = Counter()
    for line in lines(files, stage="count words"):
        chunks.update(normalize(line).split())
    split = BertPreTokenizer().pre_tokenize_str
    words: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word, _ in split(chunk):
            words[word] += count
    return words


def trained(words: Counter[str], *, size: int) -> Vocabulary:
    """The vocabulary of at most `size` pieces that WordPiece training makes of counted words."""
    alphabet, continuations = characters(words, room=(size - len(SPECIAL_PIECES)) // 2)
    kept = set(alphabet)
    words = {
        word: count
        for word, count in words.items()
        if len(word) <= MAX_WORD_CHARACTERS and kept.issuperset(word)
    }
    fixed = [*SPECIAL_PIECES, *alphabet, *continuations]
    trainer = WordPieceTrainer(
        vocab_size=size,
        min_frequency=MIN_COUNT,
        special_tokens=fixed,  # numbers them in this order
        limit_alphabet=0,
        show_progress=False,
    )
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    total = sum(words.values())
    with progress(stage="learn pieces", unit="word", total=total) as bar:
        tokenizer.train_from_iterator(_repeated(words, bar), trainer)
    ids = tokenizer.get_vocab()
    return Vocabulary(tuple(sorted(ids, key=ids.__getitem__)))


def characters(words: Counter[str], *, room: int) -> tuple[list[str], list[str]]:
    """The most frequent characters that fit into `room` pieces, and their "##" forms, sorted."""
    counts: Counter[str] = Counter()
    inside: set[str] = set()
    for word, count in words.items():
        for character in word:
            counts[character] += count
        inside.update(word[1:])
    alphabet = []
    for character in sorted(counts, key=lambda each: (-counts[each], each)):
        room -= 2 if character in inside else 1
        if room < 0 or counts[character] < MIN_COUNT:
            break
        alphabet.append(character)
    return sorted(alphabet), sorted(f"##{each}" for each in alphabet if each in inside)


def _repeated(words: dict[str, int], bar) -> Iterator[str]:
    """Every word as often as it was counted."""
    for word in sorted(words):
        count = words[word]
        bar.update(count)
        for start in range(0, count, REPEATS_PER_TEXT):
            yield f"{word} " * min(REPEATS_PER_TEXT, count - start)
