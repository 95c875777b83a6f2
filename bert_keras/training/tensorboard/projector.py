"""The table of tokens and its vocabulary in, what TensorBoard's projector reads out."""

import os
import re
from pathlib import Path

import numpy as np

from bert_keras.storage import write_text
from bert_keras.text.fast_tokenizer import legible_pieces
from bert_keras.text.vocab import Vocabulary

MOST_WORDS = 10_000  # more of them a browser turns too slowly


def write_projector(
    folder: str | os.PathLike, table: np.ndarray, *, vocabulary: Vocabulary
) -> None:
    """The rows of the first 10,000 pieces that are whole words, of [V, D], into `folder`, which
    TensorBoard finds where there are events in it too."""
    from tensorboard.plugins import projector

    folder, pieces = Path(folder), legible_pieces(vocabulary)
    rows = [row for row, piece in enumerate(pieces) if is_word(piece)][:MOST_WORDS]
    vectors = np.asarray(table[rows], "float32")
    write_text(folder / "metadata.tsv", "".join(f"{pieces[row]}\n" for row in rows))
    vectors.tofile(folder / "tensors.bytes")
    config = projector.ProjectorConfig()
    config.embeddings.add(
        tensor_name="token_table",
        tensor_shape=vectors.shape,
        tensor_path="tensors.bytes",
        metadata_path="metadata.tsv",
    )
    projector.visualize_embeddings(os.fspath(folder), config)


def is_word(piece: str) -> bool:
    """Neither the rest of a word nor one of [PAD], <s>, [unused1], ..."""
    return not piece.startswith("##") and not re.fullmatch(r"\[\S+\]|<\S+>", piece)
