"""Learns a vocabulary from a corpus; the same text gives the same vocabulary.

The WordPiece trainer of `tokenizers` numbers characters in the order of a hash map and breaks ties
between equally frequent pairs by these numbers, so it receives all characters in a fixed order
here. The Unigram trainer of `tokenizers` gives other tokens in every process, so SentencePiece
learns Unigram, on one thread and from words in a fixed order.
"""

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from random import Random

from tokenizers import Tokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.pre_tokenizers import ByteLevel, WhitespaceSplit
from tokenizers.trainers import BpeTrainer, WordPieceTrainer
from tqdm import tqdm

from bert_keras.errors import LARGEST_SIZE, InputError, check, check_name
from bert_keras.files import StrPath
from bert_keras.text.fast_tokenizer import ALBERT_SPECIALS, rules_vocabulary
from bert_keras.text.rules import byte_pair_rules, unigram_rules
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.text.sentences import TextParts, import_function, part_starts
from tfrecords_tools.vocab.words import (
    Reading,
    byte_words_of,
    count_words,
    most_frequent,
    plain_words_of,
    repeated_words,
    words_of,
)

MIN_COUNT = 2  # characters and pairs that occur once are not learnt
NUM_UNUSED_BEFORE_UNK = 99  # as in the vocabularies of Google's BERT
BYTE_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]  # as RoBERTa numbers the first four
LETTERS = sorted(ByteLevel.alphabet())
# The marks and the coverage of characters of ALBERT's spm_train (google-research/albert README).
MARKS = ["(", ")", '"', "-", ".", "–", "£", "€"]
COVERAGE = 0.99995
MAX_CHARACTERS = 1 << 23  # passed to SentencePiece
WORDS_PER_LINE = 100
MAX_LINE_BYTES = 1 << 20  # bytes; SentencePiece skips longer lines, its default is 4,192
_JAMO = re.compile("[\u1100-\u11ff]")
# The "##" of a part that is not the first of its word is learnt as a token of two characters.
_WORDPIECE_MARKS = {"##", "###"}


def train_vocabulary(  # noqa: PLR0913 - each argument is an option of the command
    paths: Sequence[StrPath],
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
        paths: Files, folders, glob patterns or TFDS names.
        size: The largest number of tokens.
        model: A key of `MODELS`.
        lowercase: Lower-cases the text. Byte-level BPE ignores it and keeps case.
        unused: The number of [unusedN] tokens; WordPiece only.
        segmenter: "module:function" that divides a word into parts, such as morphemes; no token
            crosses their limits. WordPiece only.
        reading: How the corpus is read.
        log: Receives a sentence about each kind of dropped words and repairs.

    Raises:
        InputError: `size` is too small, `unused` or `segmenter` does not fit the model or fails,
            or the corpus has no text.
    """
    check_name(model, MODELS, what="model")
    words_of, learn, min_size = MODELS[model]
    is_wordpiece = model == "wordpiece"
    check(
        is_wordpiece or not (unused or segmenter),
        f"unused tokens and a segmenter do not fit the model {model}; expected wordpiece",
    )
    check(unused >= 0, f"unused is {unused}; expected 0 or more")
    check(
        min_size + unused <= size <= LARGEST_SIZE,
        f"size is {size}; expected {min_size + unused} to {LARGEST_SIZE} tokens for {model}"
        + f" with {unused} unused tokens" * is_wordpiece,
    )
    segment = import_function(segmenter) if segmenter else None
    words, remarks = count_words(paths, words_of=words_of, lowercase=lowercase, reading=reading)
    for remark in remarks:
        log(remark)
    if lowercase and is_wordpiece and any(map(_JAMO.search, words)):
        log(
            "Hangul is learnt as jamo, because lower-casing strips accents and so decomposes "
            "syllables; add --cased to learn syllables"
        )
    options = {"unused": unused} if is_wordpiece else {"lowercase": lowercase}
    return learn(divided(words, segment) if segment else words, size=size, **options)


def divided(words: Counter[str], segment: TextParts) -> Counter[str]:
    """Replaces each counted word by its parts; "##" precedes all parts of a word but the first."""
    parts: Counter[str] = Counter()
    for word, count in words.items():
        starts = part_starts(word, segment(word))
        for start, end in zip(starts, [*starts[1:], len(word)], strict=True):
            parts[f"{'##' if start else ''}{word[start:end]}"] += count
    return parts


def reserved_tokens(unused: int) -> list[str]:
    """Returns the special tokens and [unused0] to [unusedN-1] in the order of Google's BERT.

    Up to 99 unused tokens follow [PAD], so that [UNK], [CLS], [SEP] and [MASK] are 100 to 103.
    """
    tokens = [f"[unused{number}]" for number in range(unused)]
    pad, *others = SPECIAL_TOKENS
    return [pad, *tokens[:NUM_UNUSED_BEFORE_UNK], *others, *tokens[NUM_UNUSED_BEFORE_UNK:]]


def train_wordpiece(words: Mapping[str, int], *, size: int, unused: int = 0) -> Vocabulary:
    """Learns WordPiece; its order: `reserved_tokens`, characters, "##" characters, the merges.

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
        vocab_size=size + len(_WORDPIECE_MARKS),
        min_frequency=MIN_COUNT,
        special_tokens=first,  # numbers them in this order
        limit_alphabet=0,
        show_progress=False,
    )
    ids = _trained(Tokenizer(WordPiece(unk_token="[UNK]")), trainer, words).get_vocab()
    tokens = sorted(ids.keys() - _WORDPIECE_MARKS, key=ids.__getitem__)
    return tokens[:size]


def _trained(tokenizer: Tokenizer, trainer, words: Mapping[str, int]) -> Tokenizer:
    tokenizer.pre_tokenizer = WhitespaceSplit()
    total = sum(words.values())
    with tqdm(desc="learn tokens", unit=" word", unit_scale=True, total=total) as bar:
        tokenizer.train_from_iterator(repeated_words(words, bar), trainer)
    return tokenizer


def alphabet_of(words: Mapping[str, int], *, num_tokens: int) -> tuple[list[str], list[str]]:
    """Returns the most frequent characters whose forms fit into `num_tokens`, and "##" forms."""
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


def train_byte_pairs(words: Mapping[str, int], *, size: int, lowercase: bool) -> Vocabulary:
    """Learns byte-level BPE; its order: special tokens, a letter for each byte, the merges."""
    trainer = BpeTrainer(
        vocab_size=size,
        min_frequency=MIN_COUNT,
        special_tokens=BYTE_SPECIALS,
        initial_alphabet=LETTERS,
        show_progress=False,
    )
    tokenizer = _trained(Tokenizer(BPE()), trainer, most_frequent(words))
    return rules_vocabulary(byte_pair_rules(tokenizer.model))


def train_unigram(words: Mapping[str, int], *, size: int, lowercase: bool) -> Vocabulary:
    """Learns Unigram; its order: special tokens, `MARKS`, the others by probability."""
    from sentencepiece import SentencePieceTrainer
    from sentencepiece.sentencepiece_model_pb2 import (
        ModelProto,  # pyright: ignore[reportAttributeAccessIssue] - made at run time
    )

    written = io.BytesIO()
    pad, unk, *others = ALBERT_SPECIALS.tokens
    try:
        SentencePieceTrainer.train(
            sentence_iterator=_shuffled_lines(most_frequent(words)),
            model_writer=written,
            vocab_size=size,
            pad_id=0,
            pad_piece=pad,
            unk_id=1,
            unk_piece=unk,
            bos_id=-1,
            eos_id=-1,
            control_symbols=others,
            user_defined_symbols=MARKS,
            character_coverage=COVERAGE,
            hard_vocab_limit=False,
            max_sentence_length=MAX_LINE_BYTES,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise InputError(
            f"SentencePiece cannot learn {size:,} tokens from the corpus ({error}); give a larger "
            "size, or more text if there is almost none"
        ) from error
    model = ModelProto.FromString(written.getvalue())
    return rules_vocabulary(unigram_rules(model, lowercase=lowercase, keeps_accents=not lowercase))


def _shuffled_lines(words: Mapping[str, int]) -> Iterator[str]:
    """Yields lines of shuffled words: SentencePiece needs quadratic time for a repeated word.

    If the words have more than `MAX_CHARACTERS`, each occurs a fraction of its count, but once.
    """
    size = sum((len(word) + 1) * count for word, count in words.items())
    rate = min(1.0, MAX_CHARACTERS / max(size, 1))
    shuffled = [word for word in sorted(words) for _ in range(max(1, round(words[word] * rate)))]
    Random(1).shuffle(shuffled)
    for start in range(0, len(shuffled), WORDS_PER_LINE):
        yield " ".join(shuffled[start : start + WORDS_PER_LINE])


# The function that counts words, the function that learns, and the smallest number of tokens,
# without [unusedN] tokens.
MODELS = {
    "wordpiece": (words_of, train_wordpiece, len(SPECIAL_TOKENS) + 2),
    "bpe": (byte_words_of, train_byte_pairs, len(BYTE_SPECIALS) + len(LETTERS) + 1),
    "unigram": (plain_words_of, train_unigram, len(ALBERT_SPECIALS.tokens) + len(MARKS) + 2),
}
