"""Measures how far the outputs of two packages are apart."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

PRECISION = 1e-5  # tolerance in float32, relative and absolute


class Difference(NamedTuple):
    """`relative` is max |ours - theirs| / max |theirs|. `margin` is the largest
    |ours - theirs| / (1e-5 + 1e-5 |theirs|); up to 1, allclose is true."""

    relative: float
    margin: float


def difference(ours: np.ndarray, theirs: np.ndarray, *, scale: float = 0.0) -> Difference:
    """Compares two arrays; a `scale` replaces max |theirs|."""
    if ours.shape != theirs.shape:
        raise AssertionError(f"ours is {ours.shape}, theirs {theirs.shape}")
    apart, size = np.abs(np.float64(ours) - theirs), np.abs(theirs)
    margin = (apart / (PRECISION + PRECISION * size)).max()
    return Difference(float(apart.max() / (scale or size.max())), float(margin))


def worst(differences: Iterable[Difference]) -> Difference:
    relative, margin = zip(*differences, strict=True)
    return Difference(max(relative), max(margin))


def at(is_compared_BT: np.ndarray, name: str, array: np.ndarray) -> np.ndarray:
    """Selects positions, bool [B, T], of an output of `our_side` or `their_side`: the rows of an
    attention map, the tokens of a sequence, or all of an output with one vector a sequence."""
    if name.startswith("attentions/"):
        return np.moveaxis(array, 1, 2)[is_compared_BT]
    return array[is_compared_BT] if array.shape[:2] == is_compared_BT.shape else array


def gradient_differences(
    ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]
) -> dict[str, Difference]:
    """Compares gradients by name. The keys' biases do not change the softmax: their gradients are
    rounding errors, which are compared with the size of the queries' gradients."""
    return {
        name: difference(
            ours[name],
            array,
            scale=float(np.abs(theirs[name.replace("/key/bias", "/query/bias")]).max()),
        )
        for name, array in theirs.items()
    }
