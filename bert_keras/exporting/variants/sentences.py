"""Runs exported sentence encoders on groups of texts, and compares their embeddings."""

from collections.abc import Mapping

import numpy as np

from bert_keras.data.buckets import longest_first_batches
from bert_keras.downstream.task import Encoded
from bert_keras.exporting.variants.measuring import BATCH_SIZE, Run

MIN_COSINE = 0.99  # least mean cosine between the embeddings of a variant and those of float32


def on_groups(run: Run) -> Run:
    """Returns a function that runs a model of rows [B, T] on groups of texts, [B, G, T], too.

    Args:
        run: Returns `embedding`, float32 [B, E].
    """

    def run_groups(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        *groups, length = inputs["input_ids"].shape
        rows = {name: array.reshape(-1, length) for name, array in inputs.items()}
        return {"embedding": run(rows)["embedding"].reshape(*groups, -1)}

    return run_groups


def mean_cosine(one: Run, other: Run, *, encoded: Encoded) -> float:
    """Returns the mean cosine between the embeddings of two models for the same texts."""
    cosines = []
    for rows in longest_first_batches(encoded.lengths, batch_size=BATCH_SIZE):
        inputs = encoded.batch(rows)[0]
        a, b = (np.asarray(run(inputs)["embedding"]) for run in (one, other))
        lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
        cosines.append(((a * b).sum(axis=-1) / lengths).ravel())
    return float(np.concatenate(cosines).mean())
