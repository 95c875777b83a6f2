"""Learns a vocabulary from a corpus; the same text gives the same vocabulary.

Words are counted first. This module learns WordPiece, `subwords` learns the other models. The
WordPiece trainer of `tokenizers` numbers characters in the order of a hash map and breaks ties
between equally frequent pairs by these numbers, so its results differ from run to run. This module
passes all characters in a fixed order, so that every number and every tie depends on the text
alone.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.trainers import WordPieceTrainer

from bert_keras.errors import LARGEST_SIZE, InputError
from bert_keras.progress import progress
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.text.plugins import TextParts, import_function, part_starts
from tfrecords_tools.vocab.subwords import (
    MIN_BYTE_PAIRS,
    MIN_UNIGRAMS,
    byte_words_of,
    plain_words_of,
    train_byte_pairs,
    train_unigram,
)
from tfrecords_tools.vocab.word_counts import (
    MIN_COUNT,
    Reading,
    count_words,
    most_frequent,
    repeated_words,
    words_of,
)

_JAMO = re.compile("[\u1100-\u11ff]")
# The "##" of a part that is not the first of its word is learnt as a token of two characters.
_MARKS = ("##", "###")
NUM_UNUSED_BEFORE_UNK = 99  # as in the vocabularies of Google's BERT


def train_vocabulary(  # noqa: PLR0913 - each argument is an option of the command
    paths: Sequence[str | os.PathLike],
    *,
    size: int,
    model: str = "wordpiece",
    lowercase: bool = True,
    unused: int = 0,
    segmenter: str | None = None,
    reading: Reading = Reading(),  # noqa: B008 - it is frozen
    log: Callable[[str], object] = lambda sentence: None,
) -> Vocabulary:
    """Counts the words of a corpus and learns a vocabulary from them.

    Args:
        paths: Files, folders, glob patterns or TFDS builders.
        size: The largest number of tokens.
        model: A key of `MODELS`.
        lowercase: Lower-cases the text. Byte-level BPE ignores it and keeps case.
        unused: The number of [unusedN] tokens; WordPiece only.
        segmenter: "module:function" that divides a word into parts, such as morphemes; no token
            crosses their limits. WordPiece only.
        reading: How the corpus is read.
        log: Receives a sentence about each kind of sampling, dropped words and repairs.

    Raises:
        InputError: `size` is too small, `unused` or `segmenter` does not fit the model or fails,
            or the corpus has no text.
    """
    words_of, learn, min_size = MODELS[model]
    is_wordpiece = model == "wordpiece"
    if unused < 0 or (unused and not is_wordpiece):
        expected = "0 or more" if is_wordpiece else f"0: {model} has no [unusedN] tokens"
        raise InputError(f"unused is {unused}; expected {expected}")
    if segmenter and not is_wordpiece:
        raise InputError(f"segmenter is {segmenter}, but the model is {model}; expected wordpiece")
    segment = import_function(segmenter) if segmenter else None
    if size > LARGEST_SIZE:
        raise InputError(f"size is {size}; expected at most {LARGEST_SIZE} tokens")
    if size < min_size + unused:
        raise InputError(
            f"size is {size}; expected at least {min_size + unused} tokens for {model} "
            f"with {unused} unused tokens"
        )
    words = count_words(paths, words_of=words_of, lowercase=lowercase, reading=reading)
    for remark in words.remarks():
        log(remark)
    if lowercase and is_wordpiece and any(_JAMO.search(word) for word in words.counts):
        log(
            "Hangul is learnt as jamo, because lower-casing strips accents and so decomposes "
            "syllables; add --cased to learn syllables"
        )
    options = {"unused": unused} if is_wordpiece else {"lowercase": lowercase}
    return learn(divided(words.counts, segment), size=size, **options)


def divided(words: Counter[str], segment: TextParts | None) -> Counter[str]:
    """Replaces each counted word by its parts; "##" precedes all parts of a word but the first.

    Args:
        words: The counts of the words.
        segment: The function that divides a word; None divides none.

    Raises:
        InputError: The parts differ from the word.
    """
    if segment is None:
        return words
    parts: Counter[str] = Counter()
    for word, count in words.items():
        starts = part_starts(word, segment(word))
        for start, end in zip(starts, [*starts[1:], len(word)], strict=True):
            parts[f"{'##' if start else ''}{word[start:end]}"] += count
    return parts


def reserved_tokens(unused: int) -> list[str]:
    """Returns the special tokens and [unused0] to [unusedN-1] in the order of their ids.

    As in the vocabularies of Google's BERT, up to 99 unused tokens follow [PAD] and the others
    follow [MASK]. With 99 or more of them, [UNK], [CLS], [SEP] and [MASK] have the ids 100 to 103.
    """
    tokens = [f"[unused{number}]" for number in range(unused)]
    pad, *others = SPECIAL_TOKENS
    return [pad, *tokens[:NUM_UNUSED_BEFORE_UNK], *others, *tokens[NUM_UNUSED_BEFORE_UNK:]]


def train_wordpiece(words: Mapping[str, int], *, size: int, unused: int = 0) -> Vocabulary:
    """Learns a WordPiece vocabulary of at most `size` tokens from counted words.

    Its order: `reserved_tokens`, characters, "##" characters, merges in the order of learning.
    Characters take at most half of the other tokens, or more if there are fewer merges than that.
    """
    reserved = reserved_tokens(unused)
    alphabet = alphabet_of(words, num_tokens=(size - len(reserved)) // 2)
    while True:
        first = [*reserved, *chain(*alphabet)]
        tokens = _learned_tokens(words, first, size=size)
        num_others = len(first) - len(reserved) + size - len(tokens)
        larger = alphabet if len(tokens) == size else alphabet_of(words, num_tokens=num_others)
        if larger == alphabet:
            return Vocabulary(tuple(tokens))
        alphabet = larger


def _learned_tokens(words: Mapping[str, int], first: list[str], *, size: int) -> list[str]:
    """Returns the tokens `first` and the merges of words that have only characters in `first`."""
    letters = set(first)
    words = most_frequent({word: n for word, n in words.items() if letters.issuperset(word)})
    trainer = WordPieceTrainer(
        vocab_size=size + len(_MARKS),
        min_frequency=MIN_COUNT,
        special_tokens=first,  # numbers them in this order
        limit_alphabet=0,
        show_progress=False,
    )
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    with progress(stage="learn tokens", unit="word", total=sum(words.values())) as bar:
        tokenizer.train_from_iterator(repeated_words(words, bar), trainer)
    ids = tokenizer.get_vocab()
    tokens = [token for token in sorted(ids, key=ids.__getitem__) if token not in _MARKS]
    return tokens[:size]


def alphabet_of(words: Mapping[str, int], *, num_tokens: int) -> tuple[list[str], list[str]]:
    """Returns the most frequent characters that fit into `num_tokens` tokens, and their "##" forms.

    Both lists are sorted. A character that occurs inside words needs two of these tokens.
    """
    counts: Counter[str] = Counter()
    inside: set[str] = set()
    for word, count in words.items():
        for character in word:
            counts[character] += count
        inside.update(word[1:])
    alphabet = []
    for character in sorted(counts, key=lambda each: (-counts[each], each)):
        num_tokens -= 2 if character in inside else 1
        if num_tokens < 0 or counts[character] < MIN_COUNT:
            break
        alphabet.append(character)
    return sorted(alphabet), sorted(f"##{each}" for each in alphabet if each in inside)


# The function that counts words, the function that learns, and the smallest number of tokens,
# without [unusedN] tokens.
MODELS = {
    "wordpiece": (words_of, train_wordpiece, len(SPECIAL_TOKENS) + 2),
    "bpe": (byte_words_of, train_byte_pairs, MIN_BYTE_PAIRS),
    "unigram": (plain_words_of, train_unigram, MIN_UNIGRAMS),
}
