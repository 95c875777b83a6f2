"""Ranks passages by their cosine to queries, and scores rankings and triplets."""

from collections.abc import Collection, Sequence

import numpy as np

MAX_COSINES = 2**24  # computed at once, which takes 64 MiB


def unit_vectors(vectors: np.ndarray, *, dimensions: int | None = None) -> np.ndarray:
    """Returns the first `dimensions` components of each vector, divided by their norm.

    Args:
        vectors: float32 [..., E].
        dimensions: The number of components to keep; None keeps all.
    """
    vectors = vectors[..., :dimensions]
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(norms, np.finfo(np.float32).tiny)


def ranked(
    queries_QE: np.ndarray, passages_PE: np.ndarray, *, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the nearest passages of each query.

    Args:
        queries_QE: Unit vectors of the queries.
        passages_PE: Unit vectors of the passages.
        most: The maximum number of passages of a query, K.

    Returns:
        The indices of the passages, int64 [Q, K], and their cosines, [Q, K], the largest first.
        Passages with equal cosines are in the order of their indices.
    """
    most = min(most, len(passages_PE))
    indices_QK, cosines_QK = [], []
    step = max(1, MAX_COSINES // len(passages_PE))
    for start in range(0, len(queries_QE), step):
        cosines_SP = queries_QE[start : start + step] @ passages_PE.T
        kth_S1 = -np.partition(-cosines_SP, most - 1, axis=1)[:, most - 1 : most]
        for cosines_P, kth in zip(cosines_SP, kth_S1, strict=True):
            candidates = np.flatnonzero(cosines_P >= kth)
            order = np.argsort(-cosines_P[candidates], kind="stable")[:most]
            indices_QK.append(candidates[order])
            cosines_QK.append(cosines_P[candidates[order]])
    return np.array(indices_QK), np.array(cosines_QK)


def ranking_scores(
    relevant: Sequence[Collection[str]], rankings: Sequence[Sequence[str]], *, cutoff: int
) -> dict[str, float]:
    """Scores the first `cutoff` passages of each ranking, with binary relevance.

    Args:
        relevant: The relevant passages of each query, at least one.
        rankings: The passages of each query, best first.
        cutoff: The number of passages that count.

    Returns:
        `ndcg@K` (normalised discounted cumulative gain), `mrr@K` (mean reciprocal rank of the first
        relevant passage), `recall@K`, and `accuracy@1` (queries whose first passage is relevant).
    """
    discounts = 1 / np.log2(np.arange(2, cutoff + 2))
    rows = []
    for wanted, ranking in zip(relevant, rankings, strict=True):
        hits = np.array([passage in wanted for passage in ranking[:cutoff]], bool)
        first = hits.argmax() if hits.any() else np.inf
        ideal = discounts[: len(wanted)].sum()
        gain = discounts[: len(hits)][hits].sum() / ideal
        rows.append((gain, 1 / (first + 1), hits.sum() / len(wanted), first == 0))
    names = (f"ndcg@{cutoff}", f"mrr@{cutoff}", f"recall@{cutoff}", "accuracy@1")
    return dict(zip(names, np.mean(rows, axis=0, dtype=float).tolist(), strict=True))


def triplet_accuracy(cosines: Sequence[Sequence[float]]) -> float:
    """Returns the fraction of negatives with a smaller cosine to the query than the positive.

    Args:
        cosines: For each example the cosine of the positive and of each negative.
    """
    return float(np.mean([positive > each for positive, *rest in cosines for each in rest]))
