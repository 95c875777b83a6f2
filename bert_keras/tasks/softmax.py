"""Logits in, probabilities out, outside of any graph."""

import numpy as np


def softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis, in the dtype of the logits."""
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)
