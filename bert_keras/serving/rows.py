"""Runs joined requests, and checks that a signature answers row by row, so that they can be."""

import logging
from collections import Counter

import numpy as np

from bert_keras.serving.model import ServedModel, Tensors

_MAX_CHECKS = 8  # of joined runs whose rows are all alike, which prove little
_BYTES_PER_POSITION = 4  # of text, about, for one subword
_TOLERANCE = 1e-2  # another padding moves a quantized model's outputs by up to about 1e-3


class Rows:
    """The runs of one model, and which of its signatures answer row by row.

    Not every output with a row an instance depends on that row alone: a mean over the batch may be
    subtracted. So the first joined run of a signature is compared with two runs of half its rows,
    and a signature that fails is never joined again.
    """

    def __init__(self, model: ServedModel):
        self._model = model
        self._apart: set[str] = set()
        self._checks: Counter[str] = Counter()

    def can_join(self, signature_name: str, tensors: Tensors) -> bool:
        """Whether such a request may share a run, as far as is known."""
        return signature_name not in self._apart and self._model.declares_rows(
            signature_name, tensors
        )

    def run_whole(self, signature_name: str, tensors: Tensors) -> Tensors:
        """The outputs for one request as it came."""
        outputs = self._model.predict(signature_name, tensors)
        if self.can_join(signature_name, tensors) and num_rows(outputs) != num_rows(tensors):
            self._keep_apart(signature_name)
        return outputs

    def run_rows(self, signature_name: str, tensors: Tensors) -> Tensors | None:
        """The outputs for rows of several requests, or of a part of one; None where the signature
        turns out not to answer row by row."""
        if signature_name in self._apart:
            return None
        outputs, count = self._model.predict(signature_name, tensors), num_rows(tensors)
        if num_rows(outputs) != count:
            return self._keep_apart(signature_name)
        if count and count > 1 and self._checks[signature_name] < _MAX_CHECKS:
            middle = count // 2
            halves = [
                self._model.predict(
                    signature_name, {name: array[part] for name, array in tensors.items()}
                )
                for part in (slice(middle), slice(middle, None))
            ]
            if None in map(num_rows, halves) or not are_close(outputs, joined(halves)):
                return self._keep_apart(signature_name)
            self._checks[signature_name] += 1 if are_close(*halves) else _MAX_CHECKS
        return outputs

    def _keep_apart(self, signature_name: str) -> None:
        self._apart.add(signature_name)
        logging.getLogger(__name__).warning(
            "signature %s does not answer row by row: its requests run one by one", signature_name
        )


def num_rows(tensors: Tensors) -> int | None:
    """The first dimension that all have; None where they differ or one has none."""
    sizes = {array.shape[:1] for array in tensors.values()}
    return next(iter(sizes.pop()), None) if len(sizes) == 1 else None


def row_length(tensors: Tensors) -> int:
    """Positions of the longest row, at least 1; a text counts one for four bytes."""
    lengths = [
        _longest_text(array) // _BYTES_PER_POSITION + 1
        if array.dtype == object
        else int(np.prod(array.shape[1:]))
        for array in tensors.values()
    ]
    return max(1, *lengths)


def same_shape_key(tensors: Tensors) -> tuple:
    """Equal for tensors that can be joined along their rows and whose texts are of about one
    length: a short text that is joined with a long one runs at its length."""
    return tuple(
        (name, array.dtype, array.shape[1:], _length_class(array))
        for name, array in sorted(tensors.items())
    )


def joined(tensors: list[Tensors]) -> Tensors:
    """All rows, in order."""
    if len(tensors) == 1:
        return tensors[0]
    return {name: np.concatenate([each[name] for each in tensors]) for name in tensors[0]}


def _longest_text(array: np.ndarray) -> int:
    return max(map(len, array.flat), default=0)


def _length_class(array: np.ndarray) -> int:
    """Binary digits of the longest text's length; all below 64 bytes are one class."""
    return max(_longest_text(array).bit_length(), 6) if array.dtype == object else 0


def are_close(some: Tensors, others: Tensors, *, tolerance: float = _TOLERANCE) -> bool:
    """Whether the outputs are equal, numbers with a fraction within an absolute and relative
    `tolerance`."""
    return all(
        np.allclose(array, others[name], rtol=tolerance, atol=tolerance, equal_nan=True)
        if array.shape == others[name].shape and array.dtype.kind == "f"
        else np.array_equal(array, others[name])
        for name, array in some.items()
    )
