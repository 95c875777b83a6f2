"""An output of both sides in, how far they are apart out."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

PRECISION = 1e-5  # asked of float32, relative and absolute


class Difference(NamedTuple):
    """`relative` is max |ours - theirs| / max |theirs|; `margin` the largest
    |ours - theirs| / (1e-5 + 1e-5 |theirs|): allclose holds up to 1."""

    relative: float
    margin: float


def difference(ours: np.ndarray, theirs: np.ndarray, *, scale: float = 0.0) -> Difference:
    """`scale` stands in for max |theirs|."""
    if ours.shape != theirs.shape:
        raise AssertionError(f"ours is {ours.shape}, theirs {theirs.shape}")
    apart, size = np.abs(np.float64(ours) - theirs), np.abs(theirs)
    margin = (apart / (PRECISION + PRECISION * size)).max()
    return Difference(float(apart.max() / (scale or size.max())), float(margin))


def worst(differences: Iterable[Difference]) -> Difference:
    relative, margin = zip(*differences, strict=True)
    return Difference(max(relative), max(margin))


def at(is_compared_BT: np.ndarray, name: str, array: np.ndarray) -> np.ndarray:
    """What stands at these places, bool [B, T], of an output of `our_side` or `their_side`: rows of
    attention maps, tokens of others; of one vector a sequence all."""
    if name.startswith("attentions/"):
        return np.moveaxis(array, 1, 2)[is_compared_BT]
    return array[is_compared_BT] if array.shape[:2] == is_compared_BT.shape else array


def gradient_differences(
    ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]
) -> dict[str, Difference]:
    """The keys' biases move no softmax: their gradients are nothing but rounding, and are measured
    by those of the queries' biases."""
    return {
        name: difference(
            ours[name],
            array,
            scale=float(np.abs(theirs[name.replace("/key/bias", "/query/bias")]).max()),
        )
        for name, array in theirs.items()
    }
