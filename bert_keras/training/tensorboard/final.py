"""Writes the settings, scores and token embeddings of a finished run for TensorBoard."""

import os
import re
from collections.abc import Mapping
from numbers import Real
from pathlib import Path

import numpy as np
import tensorflow as tf

from bert_keras.files import write_text
from bert_keras.text.fast_tokenizer import readable_tokens
from bert_keras.text.vocab import Vocabulary


def write_hyperparameters(
    folder: str | os.PathLike,
    hyperparameters: Mapping[str, object],
    *,
    scores: Mapping[str, float],
    step: int,
) -> None:
    """Writes the hyperparameters and scores of a run for TensorBoard's HParams plugin.

    Args:
        folder: A folder that contains no other logs. TensorBoard uses the scalars in it,
            final/SCORE, as the metrics of the run.
        hyperparameters: The hyperparameters; values other than numbers and text are written as
            `str`.
        scores: The scores; only numbers are written.
        step: The last step of the run.
    """
    from tensorboard.plugins.hparams import api

    writer = tf.summary.create_file_writer(os.fspath(folder))
    with writer.as_default(step=step):
        api.hparams(
            {
                name: value if isinstance(value, bool | int | float | str) else str(value)
                for name, value in hyperparameters.items()
            }
        )
        for name, score in scores.items():
            if isinstance(score, Real):
                tf.summary.scalar(f"final/{name}", score)
    writer.close()


MAX_WORDS = 10_000  # a browser rotates more points too slowly


def write_projector(
    folder: str | os.PathLike, table: np.ndarray, *, vocabulary: Vocabulary
) -> None:
    """Writes the embeddings of the first 10,000 tokens that are whole words for TensorBoard's
    projector.

    Args:
        folder: The folder of the run's logs. TensorBoard finds the embeddings only if the folder
            also has event files.
        table: The token table [V, D].
        vocabulary: The vocabulary of the table.
    """
    from tensorboard.plugins import projector

    folder, tokens = Path(folder), readable_tokens(vocabulary)
    rows = [row for row, token in enumerate(tokens) if is_word(token)][:MAX_WORDS]
    vectors = np.asarray(table[rows], "float32")
    write_text(folder / "metadata.tsv", "".join(f"{tokens[row]}\n" for row in rows))
    vectors.tofile(folder / "tensors.bytes")
    config = projector.ProjectorConfig()
    config.embeddings.add(
        tensor_name="token_table",
        tensor_shape=vectors.shape,
        tensor_path="tensors.bytes",
        metadata_path="metadata.tsv",
    )
    projector.visualize_embeddings(os.fspath(folder), config)


def is_word(token: str) -> bool:
    """Returns whether a token is neither the continuation of a word nor a special token.

    Special tokens are [PAD], <s>, [unused1] and similar tokens.
    """
    return not token.startswith("##") and not re.fullmatch(r"\[\S+\]|<\S+>", token)
