"""Compares learning a vocabulary on all cores and tokenization on one core: MB of text a second.

Lines are counted for which a tokenizer differs from google-research/bert (in the folder
`--original`) or, without that folder, from ours.
"""

import argparse
import os
import statistics
import sys
import time
import unicodedata
from collections.abc import Callable, Sequence

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.trainers import WordPieceTrainer

from bert_keras.text.tokenizer import WordPieceTokenizer, normalizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.corpus import corpus_files, read_documents
from tfrecords_tools.vocab import train_vocabulary

LINES_PER_CALL = 1000
VOCABULARY_SIZE = 30_522
Ids = tuple[np.ndarray, np.ndarray]  # of all lines, and the number of each line
Tokenize = Callable[[Sequence[str]], Ids]


def train_with_tokenizers(paths: list[str], *, lowercase: bool) -> None:
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    trainer = WordPieceTrainer(
        vocab_size=VOCABULARY_SIZE, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    tokenizer.train(paths, trainer)


def flat(ids: Sequence[Sequence[int]]) -> Ids:
    return np.concatenate([np.array(each, np.int32) for each in ids]), np.array(list(map(len, ids)))


def lowered(text: str) -> str:
    """Normalizes a text as the original does before it splits punctuation."""
    decomposed = unicodedata.normalize("NFD", text.lower())
    return "".join(each for each in decomposed if unicodedata.category(each) != "Mn")


def fast_bert(vocabulary: Vocabulary, *, lowercase: bool) -> Tokenize:
    tokenizer = tf_text.FastBertTokenizer(
        list(vocabulary.tokens), token_out_type=tf.int32, lower_case_nfd_strip_accents=lowercase
    )

    def tokenize(texts: Sequence[str]) -> Ids:
        ids = tokenizer.tokenize(tf.constant(texts))
        return ids.flat_values.numpy(), ids.row_lengths().numpy()

    return tokenize


def tokenizers_of(vocabulary_file: str, *, lowercase: bool) -> dict[str, Callable[[], Tokenize]]:
    """Returns a factory of each tokenizer; each round uses a new one, because ours caches words."""
    vocabulary = Vocabulary.from_file(vocabulary_file)

    rust = WordPieceTokenizer(vocabulary, lowercase=lowercase)
    lowering = fast_bert(vocabulary, lowercase=lowercase)
    factories = {
        "ours": lambda: WordPieceTokenizer(vocabulary, lowercase=lowercase).flat_ids,
        "tokenizers": lambda: lambda texts: flat(rust.ids_batch(texts)),
        "FastBertTokenizer": lambda: lowering,
    }
    if lowercase:
        no_lowering = fast_bert(vocabulary, lowercase=False)
        factories["FastBertTokenizer, lowered"] = lambda: (
            lambda texts: no_lowering(list(map(lowered, texts)))
        )
    return factories


def original(folder: str, vocabulary_file: str, *, lowercase: bool) -> Tokenize:
    sys.modules["tensorflow"] = tf.compat.v1  # the original needs TensorFlow 1
    sys.path.insert(0, folder)
    import tokenization

    sys.modules["tensorflow"] = tf
    tokenizer = tokenization.FullTokenizer(vocabulary_file, do_lower_case=lowercase)
    return lambda texts: flat(
        [tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)) for text in texts]
    )


def tokenized(texts: list[str], tokenize: Tokenize) -> tuple[Ids, float]:
    """Returns the ids and the processor seconds, which depend least on other processes."""
    start = time.process_time()
    chunks = range(0, len(texts), LINES_PER_CALL)
    parts = [tokenize(texts[first : first + LINES_PER_CALL]) for first in chunks]
    seconds = time.process_time() - start
    ids, lengths = zip(*parts, strict=True)
    return (np.concatenate(ids), np.concatenate(lengths)), seconds


def num_different(ours: Ids, theirs: Ids) -> int:
    ends = [np.cumsum(lengths) for _, lengths in (ours, theirs)]
    (ids_a, lengths_a), (ids_b, lengths_b) = ours, theirs
    bounds = zip(ends[0] - lengths_a, ends[0], ends[1] - lengths_b, ends[1], strict=True)
    return sum(not np.array_equal(ids_a[a:b], ids_b[c:d]) for a, b, c, d in bounds)


def compare_training(paths: list[str], *, megabytes: float, lowercase: bool, rounds: int) -> None:
    runs = {
        "ours": lambda: train_vocabulary(paths, size=VOCABULARY_SIZE, lowercase=lowercase),
        "tokenizers": lambda: train_with_tokenizers(paths, lowercase=lowercase),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    print(f"\n{f'vocabulary of {VOCABULARY_SIZE:,}':<30}{'seconds':>9}{'MB/s':>8}")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        print(f"{name:<30}{median:>9.1f}{megabytes / median:>8.1f}", flush=True)


def compare_tokenizers(
    texts: list[str], factories: dict[str, Callable[[], Tokenize]], reference: Ids, *, rounds: int
) -> None:
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    times: dict[str, list[float]] = {name: [] for name in factories}
    different = {}
    for _ in range(rounds):
        for name, make in factories.items():
            ids, seconds = tokenized(texts, make())
            times[name].append(seconds)
            different[name] = num_different(ids, reference)
    print(f"\n{'tokenize, one core':<30}{'seconds':>9}{'MB/s':>8}{'lines that differ':>20}")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        print(
            f"{name:<30}{median:>9.1f}{megabytes / median:>8.1f}{different[name]:>12,} of "
            f"{len(texts):,}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="+", help="files, folders or globs")
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--cased", action="store_true")
    parser.add_argument("--original", help="a folder with google-research/bert")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    lowercase, rounds = not arguments.cased, arguments.rounds
    paths = corpus_files(arguments.text)
    megabytes = sum(os.path.getsize(path) for path in paths) / 1e6
    compare_training(paths, megabytes=megabytes, lowercase=lowercase, rounds=rounds)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    texts = [line for document in read_documents(paths, stage="read") for line in document]
    factories = tokenizers_of(arguments.vocab, lowercase=lowercase)
    if arguments.original:
        theirs = original(arguments.original, arguments.vocab, lowercase=lowercase)
        reference, seconds = tokenized(texts, theirs)
        print(f"\nthe original tokenizer: {megabytes / seconds:.1f} MB/s")
    else:
        reference, _ = tokenized(texts, factories["ours"]())
        print("\nno --original: lines are compared with ours")
    compare_tokenizers(texts, factories, reference, rounds=rounds)


if __name__ == "__main__":
    main()
