"""Compares the time of `BertSentenceEncoder.encode` with sentence-transformers.

Both sides load the same folder and embed the same texts with batches of 32 on the threads of this
machine. In each round every side runs once for each number of texts, and the side that begins
changes from round to round. The table has the medians and the ratio theirs / ours, where more than
1 means that ours is faster. A ratio is computed in each round, and its range covers the middle half
of the rounds. A line above the table states the largest difference of the embeddings.

    python benchmarks/encode.py all-MiniLM-L6-v2 --texts glue/STS-B/dev.tsv
"""

import argparse
import csv
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


import numpy as np
import sentence_transformers
import tensorflow as tf
import torch

from bert_keras import BertSentenceEncoder
from bert_keras.reports.page import Table

NUM_TEXTS = (1, 32, 1_000)
COLUMNS = ("sentence1", "sentence2")


def read_texts(path: Path, *, num_texts: int) -> list[str]:
    """Returns different lines of a text file, or the sentences of a file of STS-B."""
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".tsv":
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            texts = [row[column] for row in rows for column in COLUMNS]
        else:
            texts = [line.strip() for line in file if line.strip()]
    texts = list(dict.fromkeys(texts))[:num_texts]
    if len(texts) < num_texts:
        raise SystemExit(f"{path} has {len(texts)} different texts; expected {num_texts}")
    return texts


def seconds(run, texts: list[str]) -> float:
    start = time.perf_counter()
    run(texts)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="a folder of sentence-transformers")
    parser.add_argument("--texts", type=Path, required=True, help="text lines, or a TSV of STS-B")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    texts = read_texts(arguments.texts, num_texts=max(NUM_TEXTS))
    ours = BertSentenceEncoder.from_pretrained(arguments.folder)
    theirs = sentence_transformers.SentenceTransformer(arguments.folder, device="cpu")
    sides = {
        "bert_keras": ours.encode,
        "sentence-transformers": lambda texts: theirs.encode(texts, show_progress_bar=False),
    }
    vectors = [run(texts) for run in sides.values()]  # the first run of a side is not timed
    vectors = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in vectors]
    print(
        f"TensorFlow {tf.__version__}, PyTorch {torch.__version__} with {torch.get_num_threads()} "
        f"threads, sentence-transformers {sentence_transformers.__version__}; largest difference "
        f"of embeddings of length 1: {np.abs(vectors[0] - vectors[1]).max():.1e}"
    )
    times = {(side, num): [] for num in NUM_TEXTS for side in sides}
    for number in range(arguments.rounds):
        order = [*sides.items()][:: 1 if number % 2 else -1]
        for num in NUM_TEXTS:
            # Another text in each round, because the length of a single text varies.
            chosen = [texts[number % len(texts)]] if num == 1 else texts[:num]
            for side, run in order:
                times[side, num].append(seconds(run, chosen))
    rows = []
    for num in NUM_TEXTS:
        mine, other = (np.array(times[side, num]) for side in sides)
        low, middle, high = np.quantile(other / mine, (0.25, 0.5, 0.75))
        medians = [f"{1000 * np.median(each):.1f} ms" for each in (mine, other)]
        rows.append((f"{num:,}", *medians, f"{middle:.2f} ({low:.2f} to {high:.2f})"))
    print("\n".join(Table(("texts", *sides, "theirs / ours"), rows).aligned()))


if __name__ == "__main__":
    main()
