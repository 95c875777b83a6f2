"""Learns a vocabulary from a corpus; the same text gives the same vocabulary.

With the counts of the trainers of `tokenizers`, ties between equally frequent pairs differ from run
to run, so words are counted here. WordPiece's trainer receives all characters in a fixed order, and
SentencePiece learns Unigram, on one thread and from words in a fixed order.
"""

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from random import Random

from tokenizers import Tokenizer, normalizers
from tokenizers.models import BPE, WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel, WhitespaceSplit
from tokenizers.trainers import BpeTrainer, WordPieceTrainer
from tqdm import tqdm

from bert_keras.errors import LARGEST_SIZE, InputError, check_name
from bert_keras.files import StrPath
from bert_keras.text import fast_tokenizer
from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS, normalizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.build import Workers, num_workers
from tfrecords_tools.corpus import divide_into_units, lines_of
from tfrecords_tools.readers import Unit, group_items, num_bytes_of
from tfrecords_tools.store import check_has_text
from tfrecords_tools.tokens import find_part_starts, import_function

UNIT_BYTES = 4 << 20
MAX_WORDS = 1_000_000  # about 150 bytes each; if there are more, the rarest are dropped
MAX_LEARNT_WORDS = 400_000  # the trainer reads the most frequent ones and takes 1.2 kB for each
MIN_COUNT = 2  # characters and pairs that occur once are not learnt
BYTE_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]  # the first four in RoBERTa's order
LETTERS = sorted(ByteLevel.alphabet())
# Punctuation and character coverage of ALBERT's spm_train (google-research/albert README).
MARKS = ["(", ")", '"', "-", ".", "–", "£", "€"]
COVERAGE = 0.99995
MAX_CHARACTERS = 1 << 23  # passed to SentencePiece
WORDS_PER_LINE = 100
MAX_LINE_BYTES = 1 << 20  # SentencePiece skips longer lines; its default is 4,192
_REPEATS_PER_TEXT = 1000  # a trainer receives texts of one word, repeated up to this many times
_JAMO = re.compile("[\u1100-\u11ff]")
# The words of printable ASCII text: each punctuation mark is one.
_ASCII_WORDS = re.compile(r"[!-/:-@\[-`{-~]|[^ !-/:-@\[-`{-~]+")
# Tokens that the trainer learns from the "##" of `_split_words`; they are removed.
_WORDPIECE_MARKS = {"##", "###"}


def train_vocabulary(  # noqa: PLR0913 - each argument is an option of the command
    paths: Sequence[StrPath],
    *,
    size: int,
    model: str = "wordpiece",
    lowercase: bool = True,
    unused: int = 0,
    segmenter: str | None = None,
    workers: int = 1,
    text_field: str = "text",
    log: Callable[[str], object] = lambda sentence: None,
) -> Vocabulary:
    """Counts the words of a corpus and learns a vocabulary.

    Args:
        paths: The corpus; see `corpus_files`.
        model: "wordpiece", "bpe" or "unigram".
        lowercase: Whether to lower-case the words. Byte-level BPE keeps upper case.
        unused: The number of [unusedN] tokens (only for WordPiece).
        segmenter: A "module:function" that divides a word into parts whose limits no token crosses
            (only for WordPiece).
        workers: The maximum number of processes; the vocabulary does not depend on it.
        text_field: The field of JSON or parquet with the text.
        log: Receives a sentence about dropped words and about Hangul.
    """
    check_name(model, MODELS, what="model")
    count_words, learn, min_size = MODELS[model]
    if model != "wordpiece" and (unused or segmenter):
        raise InputError(f"unused tokens and a segmenter need the model wordpiece, not {model}")
    if not min_size + unused <= size <= LARGEST_SIZE:
        raise InputError(f"size is {size}; expected {min_size + unused} to {LARGEST_SIZE} tokens")
    segment = import_function(segmenter) if segmenter else None
    corpus = divide_into_units(paths, unit_bytes=UNIT_BYTES, text_field=text_field)
    count = partial(_count_unit, count_words=count_words, lowercase=lowercase)
    words, num_dropped, total = Counter(), 0, sum(map(num_bytes_of, corpus))
    bar = tqdm(desc="count words", unit=" B", unit_scale=True, total=total)
    with Workers(num_workers(workers, num_bytes=total)) as pool, bar:
        for unit, counted in zip(corpus, pool.map(count, corpus), strict=True):
            words.update(counted)
            if len(words) > MAX_WORDS:
                num_dropped += len(words) - MAX_WORDS // 2
                words = Counter(dict(words.most_common(MAX_WORDS // 2)))
            bar.update(num_bytes_of(unit))
    check_has_text(len(words))
    if num_dropped:
        log(f"dropped {num_dropped:,} rare words")
    if model != "wordpiece":
        return learn(words, size=size, lowercase=lowercase)
    if lowercase and any(map(_JAMO.search, words)):
        log("Hangul is learnt as jamo: lower-casing decomposes it; --cased keeps syllables")
    return learn(_split_words(words, segment) if segment else words, size=size, unused=unused)


def _split_words(words: Mapping[str, int], segment: Callable[[str], list[str]]) -> Counter[str]:
    """Returns the counts of the parts of words; a part inside a word begins with "##"."""
    parts = Counter()
    for word, count in words.items():
        starts = find_part_starts(word, segment(word))
        for start, end in zip(starts, [*starts[1:], len(word)], strict=True):
            parts[f"{'##' if start else ''}{word[start:end]}"] += count
    return parts


def _count_unit(unit: Unit, *, count_words: Callable, lowercase: bool) -> Counter[str]:
    words = Counter()
    for lines in group_items(lines_of(unit), size_of=lambda line: len(line) + 1, most=UNIT_BYTES):
        words.update(count_words(lines, lowercase=lowercase))
    return words


def count_bert_words(lines: Sequence[str], *, lowercase: bool) -> Counter[str]:
    """Counts the words that BERT's tokenizer finds in lines."""
    normalize = normalizer(lowercase=lowercase).normalize_str
    split = BertPreTokenizer().pre_tokenize_str

    def words_in(chunk: str) -> list[str]:
        if chunk.isascii() and chunk.isprintable():  # three times as fast as the tokenizer
            return _ASCII_WORDS.findall(chunk.lower() if lowercase else chunk)
        return [word for word, _ in split(normalize(chunk))]

    chunks = Counter(chain.from_iterable(line.split(" ") for line in lines))
    return _word_counts(chunks, words_in)


def count_byte_words(lines: Sequence[str], *, lowercase: bool) -> Counter[str]:
    """Counts words with the preceding blank, written in byte-level letters; case is kept."""
    split = ByteLevel(add_prefix_space=False).pre_tokenize_str
    chunks = Counter(part for line in lines for part in re.findall("^[^ ]*| [^ ]*", line))
    return _word_counts(chunks, lambda chunk: [word for word, _ in split(chunk)])


def count_plain_words(lines: Sequence[str], *, lowercase: bool) -> Counter[str]:
    """Counts the words between blanks after the normalization that ALBERT applies."""
    steps = fast_tokenizer.unigram_steps(lowercase=lowercase, keeps_accents=not lowercase)
    normalize = normalizers.Sequence(steps).normalize_str
    chunks = Counter(chain.from_iterable(map(str.split, lines)))
    return _word_counts(chunks, lambda chunk: normalize(chunk).split())


def _word_counts(chunks: Counter[str], split: Callable[[str], list[str]]) -> Counter[str]:
    """Splits each distinct chunk of text into words, and returns the counts of the words."""
    words: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word in split(chunk):
            words[word] += count
    return words


def most_frequent(words: Mapping[str, int]) -> dict[str, int]:
    """Returns the `MAX_LEARNT_WORDS` most frequent words, without words that are too long."""
    words = {word: n for word, n in words.items() if len(word) <= MAX_WORD_CHARACTERS}
    if len(words) <= MAX_LEARNT_WORDS:
        return words
    return dict(sorted(words.items(), key=lambda each: (-each[1], each[0]))[:MAX_LEARNT_WORDS])


def reserved_tokens(unused: int) -> list[str]:
    """Returns the special tokens and [unused0] to [unusedN-1] in the order of Google's BERT."""
    tokens = [f"[unused{index}]" for index in range(unused)]
    # Up to 99 unused tokens follow [PAD], so that [UNK], [CLS], [SEP] and [MASK] are 100 to 103.
    return [SPECIAL_TOKENS[0], *tokens[:99], *SPECIAL_TOKENS[1:], *tokens[99:]]


def train_wordpiece(words: Mapping[str, int], *, size: int, unused: int = 0) -> Vocabulary:
    """Learns WordPiece; its order: `reserved_tokens`, characters, "##" characters, the merges."""
    reserved = reserved_tokens(unused)
    # Characters take at most half of the tokens that are not reserved. If the words give too few
    # merges for the other half, it trains again with more characters.
    alphabet = alphabet_of(words, num_tokens=(size - len(reserved)) // 2)
    while True:
        first = [*reserved, *chain(*alphabet)]
        characters = set(first)
        known = {word: n for word, n in words.items() if characters.issuperset(word)}
        trainer = WordPieceTrainer(
            vocab_size=size + len(_WORDPIECE_MARKS),
            min_frequency=MIN_COUNT,
            special_tokens=first,  # their ids are in this order
            limit_alphabet=0,
            show_progress=False,
        )
        tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
        ids = _train(tokenizer, trainer, most_frequent(known)).get_vocab()
        tokens = sorted(ids.keys() - _WORDPIECE_MARKS, key=ids.__getitem__)[:size]
        num_missing = size - len(tokens)
        num_characters = len(first) - len(reserved) + num_missing
        larger = alphabet_of(words, num_tokens=num_characters) if num_missing else alphabet
        if larger == alphabet:
            return Vocabulary(tuple(tokens))
        alphabet = larger


def _train(tokenizer: Tokenizer, trainer, words: Mapping[str, int]) -> Tokenizer:
    """Trains with each word as often as it was counted."""

    def texts() -> Iterator[str]:
        for word in tqdm(sorted(words), desc="learn tokens", unit=" word", unit_scale=True):
            for start in range(0, words[word], _REPEATS_PER_TEXT):
                yield f"{word} " * min(_REPEATS_PER_TEXT, words[word] - start)

    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.train_from_iterator(texts(), trainer)
    return tokenizer


def alphabet_of(words: Mapping[str, int], *, num_tokens: int) -> tuple[list[str], list[str]]:
    """Returns the most frequent characters, and those inside of words with "##".

    Both lists together have at most `num_tokens` tokens.
    """
    counts, inside = Counter(), set()
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
    trainer = BpeTrainer(vocab_size=size, min_frequency=MIN_COUNT, show_progress=False)
    trainer.special_tokens, trainer.initial_alphabet = BYTE_SPECIALS, LETTERS
    tokenizer = _train(Tokenizer(BPE()), trainer, most_frequent(words))
    return fast_tokenizer.rules_vocabulary(fast_tokenizer.byte_pair_rules(tokenizer.model))


def train_unigram(words: Mapping[str, int], *, size: int, lowercase: bool) -> Vocabulary:
    """Learns Unigram; its order: special tokens, `MARKS`, the others by probability."""
    from sentencepiece import SentencePieceTrainer

    words = most_frequent(words)
    # If there are more than `MAX_CHARACTERS`, each word occurs less often, but at least once.
    num_characters = sum((len(word) + 1) * count for word, count in words.items())
    rate = min(1.0, MAX_CHARACTERS / max(num_characters, 1))
    shuffled = [word for word in sorted(words) for _ in range(max(1, round(words[word] * rate)))]
    Random(1).shuffle(shuffled)  # SentencePiece needs quadratic time for a repeated word
    starts = range(0, len(shuffled), WORDS_PER_LINE)
    written = io.BytesIO()
    pad, unk, *others = fast_tokenizer.ALBERT_SPECIALS.tokens
    SentencePieceTrainer.train(
        sentence_iterator=(" ".join(shuffled[start : start + WORDS_PER_LINE]) for start in starts),
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
    model = fast_tokenizer.sentencepiece_proto(written.getvalue())
    return fast_tokenizer.rules_vocabulary(
        fast_tokenizer.unigram_rules(model, lowercase=lowercase, keeps_accents=not lowercase)
    )


# Model -> the function that counts words, the function that learns, and the smallest size without
# [unusedN] tokens.
MODELS = {
    "wordpiece": (count_bert_words, train_wordpiece, len(SPECIAL_TOKENS) + 2),
    "bpe": (count_byte_words, train_byte_pairs, len(BYTE_SPECIALS) + len(LETTERS) + 1),
    "unigram": (count_plain_words, train_unigram, 5 + len(MARKS) + 2),
}
