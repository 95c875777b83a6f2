"""Learns byte-level BPE and Unigram vocabularies from counted words.

The same words give the same vocabulary. Byte-level BPE is learnt by `tokenizers`: its 256 letters
are numbered by their code and its merges by their order, and smaller numbers win ties, so the
result depends on the text alone. The Unigram trainer of `tokenizers` gives different tokens in
every process, so Unigram is learnt by SentencePiece, on one thread and from words in a fixed order.
"""

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from random import Random

from tokenizers import Tokenizer, normalizers
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, WhitespaceSplit
from tokenizers.trainers import BpeTrainer

from bert_keras.errors import InputError
from bert_keras.progress import progress
from bert_keras.text.fast_tokenizer import ALBERT_SPECIALS, rules_vocabulary
from bert_keras.text.rules import byte_pair_rules, unigram_rules, unigram_steps
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.vocab.word_counts import MIN_COUNT, most_frequent, repeated_words

BYTE_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]  # as RoBERTa numbers the first four
LETTERS = sorted(ByteLevel.alphabet())
MIN_BYTE_PAIRS = len(BYTE_SPECIALS) + len(LETTERS) + 1
# The marks and the coverage of characters of ALBERT's spm_train (google-research/albert README).
MARKS = ["(", ")", '"', "-", ".", "–", "£", "€"]
MIN_UNIGRAMS = len(ALBERT_SPECIALS.tokens) + len(MARKS) + 2
COVERAGE = 0.99995
MAX_CHARACTERS = 1 << 23  # passed to SentencePiece
WORDS_PER_LINE = 100
MAX_LINE_BYTES = 1 << 20  # bytes; SentencePiece skips longer lines, its default is 4,192


def byte_words_of(lines: Sequence[str], *, lowercase: bool) -> Counter[str]:
    """Counts words with the preceding blank, written in byte-level letters; case is kept."""
    split = ByteLevel(add_prefix_space=False).pre_tokenize_str
    chunks = Counter(chain.from_iterable(_with_blanks(line) for line in lines))
    return _word_counts(([word for word, _ in split(chunk)], n) for chunk, n in chunks.items())


def plain_words_of(lines: Sequence[str], *, lowercase: bool) -> Counter[str]:
    """Counts the words between blanks after the normalization that ALBERT applies."""
    steps = unigram_steps(lowercase=lowercase, keeps_accents=not lowercase)
    normalize = normalizers.Sequence(steps).normalize_str
    chunks = Counter(chain.from_iterable(map(str.split, lines)))
    return _word_counts((normalize(chunk).split(), n) for chunk, n in chunks.items())


def train_byte_pairs(words: Mapping[str, int], *, size: int, lowercase: bool) -> Vocabulary:
    """Learns a byte-level BPE vocabulary of at most `size` tokens.

    Its order: special tokens, a letter for each byte, merges in the order of learning.
    """
    trainer = BpeTrainer(
        vocab_size=size,
        min_frequency=MIN_COUNT,
        special_tokens=BYTE_SPECIALS,
        initial_alphabet=LETTERS,
        show_progress=False,
    )
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = WhitespaceSplit()
    words = most_frequent(words)
    with progress(stage="learn tokens", unit="word", total=sum(words.values())) as bar:
        tokenizer.train_from_iterator(repeated_words(words, bar), trainer)
    if tokenizer.get_vocab_size() == MIN_BYTE_PAIRS - 1:
        raise InputError("no pair of letters occurs twice in the corpus; give more text")
    return rules_vocabulary(byte_pair_rules(tokenizer.model))


def train_unigram(words: Mapping[str, int], *, size: int, lowercase: bool) -> Vocabulary:
    """Learns a Unigram vocabulary of at most `size` tokens.

    Its order: special tokens, `MARKS`, which are always single tokens, the others by probability.
    """
    from sentencepiece import SentencePieceTrainer
    from sentencepiece.sentencepiece_model_pb2 import (
        ModelProto,  # pyright: ignore[reportAttributeAccessIssue] - made at run time
    )

    words, written = most_frequent(words), io.BytesIO()
    pad, unk, *others = ALBERT_SPECIALS.tokens
    with progress(stage="learn tokens", unit="word", total=sum(words.values())) as bar:
        try:
            SentencePieceTrainer.train(
                sentence_iterator=_lines(words, bar),
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
                f"SentencePiece cannot learn {size:,} tokens from the corpus ({error}); give a "
                "larger size, or more text if there is almost none"
            ) from error
    model = ModelProto.FromString(written.getvalue())
    return rules_vocabulary(unigram_rules(model, lowercase=lowercase, keeps_accents=not lowercase))


def _with_blanks(line: str) -> list[str]:
    first, *others = line.split(" ")
    return [first, *(f" {word}" for word in others)]


def _word_counts(chunks: Iterable[tuple[list[str], int]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for words, count in chunks:
        for word in words:
            counts[word] += count
    return counts


def _lines(words: Mapping[str, int], bar) -> Iterator[str]:
    """Yields lines of shuffled words; each word occurs as often as it was counted.

    The words are shuffled because SentencePiece needs quadratic time for a repeated word. If the
    words have more than `MAX_CHARACTERS`, each occurs the same fraction of its count, at least
    once.
    """
    size = sum((len(word) + 1) * count for word, count in words.items())
    rate = min(1.0, MAX_CHARACTERS / max(size, 1))
    shuffled = [word for word in sorted(words) for _ in range(max(1, round(words[word] * rate)))]
    Random(1).shuffle(shuffled)
    bar.total = len(shuffled)
    for start in range(0, len(shuffled), WORDS_PER_LINE):
        line = shuffled[start : start + WORDS_PER_LINE]
        bar.update(len(line))
        yield " ".join(line)
