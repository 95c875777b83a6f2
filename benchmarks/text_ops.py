"""Compares the text processing of exported graphs with the tokenizers of tensorflow-text.

python benchmarks/text_ops.py CORPUS.txt VOCAB.txt

The reference is the tokenizer of training. `lines` counts lines of the corpus whose token ids
differ from the reference, and `characters` the code points of Unicode whose ids differ between two
letters. The last column is the time of one line in a batch of 64, the shortest of five passes.
"""

import sys
import tempfile
import time
import unicodedata
from collections import Counter
from pathlib import Path

import tensorflow as tf
import tensorflow_text as tf_text

from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.text.fast_tokenizer import tokenizer_of, write_vocabulary
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.vocab import train_unigram

NUM_LINES, BATCH, NUM_TOKENS = 4_000, 64, 8_000


def main(corpus: str, vocabulary: str) -> None:
    lines = [line.strip() for line in Path(corpus).read_text("utf-8").splitlines() if line.strip()]
    lines = lines[:: max(1, len(lines) // NUM_LINES)][:NUM_LINES]
    points = (chr(p) for p in range(sys.maxunicode + 1) if not 0xD800 <= p < 0xE000)
    characters = [f"a{c}b" for c in points if unicodedata.category(c) not in ("Cn", "Co")]
    words = Counter(word for line in lines for word in line.lower().split())
    wordpiece = Vocabulary.from_file(vocabulary)
    unigram = train_unigram(words, size=NUM_TOKENS, lowercase=True)
    with tempfile.TemporaryDirectory() as folder:
        for kind, tokens in (("WordPiece", wordpiece), ("Unigram", unigram)):
            file = write_vocabulary(tokens, Path(folder))
            reader = TextToInputs(file, lowercase=True, max_length=512)
            tokenizers = {"graph of bert_keras": reader.tokens}
            if kind == "WordPiece":
                options = {"lower_case": True, "token_out_type": tf.int32}
                bert = tf_text.BertTokenizer(str(file), **options)
                fast = tf_text.FastBertTokenizer(
                    [*tokens.tokens], lower_case_nfd_strip_accents=True, token_out_type=tf.int32
                )
                merged = lambda op: lambda text: op.tokenize(text).merge_dims(-2, -1)  # noqa: E731
                tokenizers |= {"BertTokenizer": merged(bert), "FastBertTokenizer": fast.tokenize}
            reference = tokenizer_of(tokens, lowercase=True)
            for name, tokenize in tokenizers.items():
                print(f"{kind}, {name}: {row(tokenize, reference, lines, characters)}", flush=True)


def row(tokenize, reference, lines: list[str], characters: list[str]) -> str:
    spec = tf.TensorSpec([None], tf.string)
    function = tf.function(tokenize, autograph=False).get_concrete_function(spec)
    batches = [tf.constant(lines[i : i + BATCH]) for i in range(0, len(lines), BATCH)]
    function(batches[0])
    seconds = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for batch in batches:
            function(batch)
        seconds = min(seconds, time.perf_counter() - start)
    counts = [
        sum(
            ids != expected
            for i in range(0, len(texts), 4_096)
            for ids, expected in zip(
                function(tf.constant(texts[i : i + 4_096])).to_list(),
                reference.ids_batch(texts[i : i + 4_096]),
                strict=True,
            )
        )
        for texts in (lines, characters)
    ]
    return (
        f"{counts[0]:,} of {len(lines):,} lines, {counts[1]:,} of {len(characters):,} characters, "
        f"{1e6 * seconds / len(lines):.0f} us"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
