"""Memory does not grow with the corpus: every process has a hard limit, and the corpus is twice as
large as the memory that remains after the imports. Mapped files do not count."""

import json
import os
import subprocess
import sys
from random import Random

import pytest

from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

LIMIT = 320 << 20  # bytes, for each process; the imports and pyarrow use 200 MB
CORPUS_BYTES = 240 << 20
DOCUMENT_BYTES = 1 << 20
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}  # each thread uses memory
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]


def write_corpus(folder):
    """Writes some hundred megabyte-long documents, and a vocabulary for them."""
    tokens = (*SPECIAL_TOKENS, ".", *SYLLABLES, *(f"##{each}" for each in SYLLABLES))
    Vocabulary(tokens).save(folder / "vocab.txt")
    random = Random(1)
    words = ["".join(random.choices(SYLLABLES, k=random.randint(1, 4))) for _ in range(20_000)]
    sizes = [random.randint(4, 30) for _ in range(20_000)]
    lines = [" ".join(random.choices(words, k=size)) + ".\n" for size in sizes]
    with (folder / "corpus.txt").open("w") as file:
        while file.tell() < CORPUS_BYTES:
            start = file.tell()
            while file.tell() - start < DOCUMENT_BYTES:
                file.writelines(random.choices(lines, k=1000))
            file.write("\n")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path):
    write_corpus(tmp_path)
    command = [
        *("build", tmp_path / "corpus.txt", "--vocab", tmp_path / "vocab.txt"),
        *("--output", tmp_path / "records", "--splitter", "lines", "--duplicates", 1),
        *("--max-predictions", 0, "--workers", 2, "--held-out", 0.1),
    ]
    limited = f'ulimit -d {LIMIT >> 10}; exec "$@"'
    program = ["bash", "-c", limited, "bash", sys.executable, "-m", "tfrecords_tools.cli"]
    program += map(str, command)
    environment = os.environ | ONE_THREAD
    done = subprocess.run(program, env=environment, capture_output=True, text=True)
    (tmp_path / "corpus.txt").unlink()
    assert done.returncode == 0, done.stderr[-2000:]
    manifest = json.loads((tmp_path / "records/manifest.json").read_text())
    assert manifest["inputs"][0]["bytes"] >= CORPUS_BYTES
    for split in manifest["splits"].values():
        assert 2 * split["labels_one"] == split["records"] > 0
