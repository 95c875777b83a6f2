"""Learns a vocabulary from a corpus; the same text gives the same vocabulary.

Words are counted first. This module learns WordPiece, `subwords` learns the other models. The
WordPiece trainer of `tokenizers` numbers characters in the order of a hash map and breaks ties
between equally frequent pairs by these numbers, so its results differ from run to run. This module
passes all characters in a fixed order, so that every number and every tie depends on the text
alone.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.trainers import WordPieceTrainer

from bert_keras.errors import InputError
from bert_keras.progress import progress
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary
from tfrecords_tools.vocab.subwords import (
    FEWEST_BYTE_PAIRS,
    FEWEST_UNIGRAMS,
    byte_words_of,
    plain_words_of,
    trained_byte_pairs,
    trained_unigram,
)
from tfrecords_tools.vocab.word_counts import (
    MIN_COUNT,
    Reading,
    count_words,
    most_frequent,
    repeated,
    words_of,
)

FIRST_UNUSED = 99  # slots between [PAD] and [UNK], as in the vocabularies of Google's BERT


def train_vocabulary(
    places: Sequence[str | os.PathLike],
    *,
    size: int,
    model: str = "wordpiece",
    lowercase: bool = True,
    unused: int = 0,
    reading: Reading = Reading(),  # noqa: B008 - it is frozen
    tell: Callable[[str], object] = lambda remark: None,
) -> Vocabulary:
    """Counts the words of a corpus and learns a vocabulary from them.

    Args:
        places: Files, folders, glob patterns or TFDS builders.
        size: The largest number of tokens.
        model: A key of `MODELS`.
        lowercase: Lower-cases the text. Byte-level BPE ignores it and keeps case.
        unused: The number of [unusedN] tokens; WordPiece only.
        reading: How the corpus is read.
        tell: Receives a sentence about each kind of sampling, dropped words and repairs.

    Raises:
        InputError: `size` is too small, `unused` does not fit the model, or the corpus has no text.
    """
    words_of, learn, fewest = MODELS[model]
    if model == "wordpiece":
        reserved(unused, size=size)
        learn = partial(learn, unused=unused)
    elif unused:
        raise InputError(f"unused slots are WordPiece's; leave them out of a {model} vocabulary")
    elif size < fewest:
        raise InputError(f"a vocabulary of {size} pieces is too small; expected at least {fewest}")
    else:
        learn = partial(learn, lowercase=lowercase)
    counted = count_words(places, words_of=words_of, lowercase=lowercase, reading=reading)
    for remark in counted.remarks():
        tell(remark)
    return learn(counted.counts, size=size)


def reserved(unused: int, *, size: int) -> list[str]:
    """Returns the special tokens and [unused0] to [unusedN-1] in the order of their ids.

    As in the vocabularies of Google's BERT, up to 99 unused tokens follow [PAD] and the others
    follow [MASK]. With 99 or more of them, [UNK], [CLS], [SEP] and [MASK] have the ids 100 to 103.

    Raises:
        InputError: A vocabulary of `size` is too small for these tokens, or `unused` is negative.
    """
    if unused < 0 or size < len(SPECIAL_PIECES) + unused + 2:
        slots = f" with {unused} unused slots" if unused else ""
        raise InputError(
            f"a vocabulary of {size} pieces{slots} is too small; expected at least "
            f"{len(SPECIAL_PIECES) + max(0, unused) + 2}, and no negative number of slots"
        )
    slots = [f"[unused{number}]" for number in range(unused)]
    pad, *others = SPECIAL_PIECES
    return [pad, *slots[:FIRST_UNUSED], *others, *slots[FIRST_UNUSED:]]


def trained(words: Mapping[str, int], *, size: int, unused: int = 0) -> Vocabulary:
    """Learns a WordPiece vocabulary of at most `size` tokens from counted words.

    Its order: the `reserved` tokens, characters, "##" characters, merges in the order of learning.
    """
    first = reserved(unused, size=size)
    alphabet, continuations = characters(words, room=(size - len(first)) // 2)
    kept = set(alphabet)
    words = most_frequent({w: n for w, n in words.items() if kept.issuperset(w)})
    trainer = WordPieceTrainer(
        vocab_size=size,
        min_frequency=MIN_COUNT,
        special_tokens=[*first, *alphabet, *continuations],  # numbers them in this order
        limit_alphabet=0,
        show_progress=False,
    )
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    total = sum(words.values())
    with progress(stage="learn pieces", unit="word", total=total) as bar:
        tokenizer.train_from_iterator(repeated(words, bar), trainer)
    ids = tokenizer.get_vocab()
    return Vocabulary(tuple(sorted(ids, key=ids.__getitem__)))


def characters(words: Mapping[str, int], *, room: int) -> tuple[list[str], list[str]]:
    """Returns the most frequent characters that fit into `room` tokens, and their "##" forms.

    Both lists are sorted. A character that occurs inside words takes two of the `room` tokens.
    """
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


# The function that counts words, the function that learns, and the smallest number of tokens.
# `reserved` checks the number for WordPiece.
MODELS = {
    "wordpiece": (words_of, trained, len(SPECIAL_PIECES)),
    "bpe": (byte_words_of, trained_byte_pairs, FEWEST_BYTE_PAIRS),
    "unigram": (plain_words_of, trained_unigram, FEWEST_UNIGRAMS),
}
