"""Runs joined requests and checks that each output row depends only on its own input row."""

import logging
from collections import Counter

import numpy as np

from bert_keras.serving.model import ServedModel, Tensors

_MAX_CHECKS = 8  # checks while all rows of a batch are alike, which proves little
_BYTES_PER_POSITION = 4  # average bytes of text for one subword
_TOLERANCE = 1e-2  # another padding changes the outputs of a quantized model by up to about 1e-3


class RowModel:
    """Runs a model and tracks which of its signatures compute each row independently.

    An output with one row for each instance may still depend on the other rows, for example if the
    model subtracts the mean of the batch. Therefore the first joined run of a signature is compared
    with two runs of half its rows. The requests of a signature that fails are never joined again.

    Args:
        model: The model to run.
    """

    def __init__(self, model: ServedModel):
        self._model = model
        self._not_joinable: set[str] = set()
        self._checks: Counter[str] = Counter()

    def can_join(self, signature_name: str, tensors: Tensors) -> bool:
        """Whether such a request may share a run, as far as the checks so far show.

        Args:
            signature_name: Name of the signature.
            tensors: Input arrays by name.
        """
        is_joinable = signature_name not in self._not_joinable
        return is_joinable and self._model.is_row_wise(signature_name, tensors)

    def is_checked(self, signature_name: str) -> bool:
        """Whether runs have shown that each row of a signature depends only on itself."""
        return self._checks[signature_name] >= _MAX_CHECKS

    def run_request(self, signature_name: str, tensors: Tensors) -> Tensors:
        """Run all rows of one request without other rows.

        Args:
            signature_name: Name of the signature.
            tensors: Input arrays by name.

        Returns:
            Output arrays by name.

        Raises:
            Refusal: As `ServedModel.predict` does.
        """
        outputs = self._model.predict(signature_name, tensors)
        if self.can_join(signature_name, tensors) and num_rows(outputs) != num_rows(tensors):
            self._stop_joining(signature_name)
        return outputs

    def run_batch(self, signature_name: str, tensors: Tensors) -> Tensors | None:
        """Run rows of several requests, or some rows of one request.

        Args:
            signature_name: Name of the signature.
            tensors: Input arrays by name.

        Returns:
            Output arrays by name; None if the rows turn out to depend on each other.

        Raises:
            Refusal: As `ServedModel.predict` does.
        """
        if signature_name in self._not_joinable:
            return None
        outputs, count = self._model.predict(signature_name, tensors), num_rows(tensors)
        if num_rows(outputs) != count:
            return self._stop_joining(signature_name)
        if count and count > 1 and not self.is_checked(signature_name):
            middle = count // 2
            halves = [
                self._model.predict(
                    signature_name, {name: array[part] for name, array in tensors.items()}
                )
                for part in (slice(middle), slice(middle, None))
            ]
            if None in map(num_rows, halves) or not are_close(outputs, joined(halves)):
                return self._stop_joining(signature_name)
            # The second half has one more row if the count is odd.
            first, second = halves[0], {n: array[:middle] for n, array in halves[1].items()}
            self._checks[signature_name] += 1 if are_close(first, second) else _MAX_CHECKS
        return outputs

    def _stop_joining(self, signature_name: str) -> None:
        self._not_joinable.add(signature_name)
        logging.getLogger(__name__).warning(
            "the rows of signature %s depend on each other: its requests run one by one",
            signature_name,
        )


def num_rows(tensors: Tensors) -> int | None:
    """Return the first dimension of the arrays; None if they differ or one is a scalar."""
    sizes = {array.shape[:1] for array in tensors.values()}
    return next(iter(sizes.pop()), None) if len(sizes) == 1 else None


def row_length(tensors: Tensors) -> int:
    """Return the estimated positions of the longest row, at least 1.

    A text counts one position for every `_BYTES_PER_POSITION` bytes.
    """
    return max(int(_lengths(array).max(initial=1)) for array in tensors.values())


def row_lengths(tensors: Tensors) -> np.ndarray:
    """Return `row_length` of each row as an int array [R]; all arrays have R rows."""
    return np.maximum.reduce([_lengths(array) for array in tensors.values()])


def _lengths(array: np.ndarray) -> np.ndarray:
    """Return the estimated positions of each row of an array, int [R]; a scalar is one row."""
    array = np.atleast_1d(array)
    if array.dtype != object:
        return np.full(len(array), max(1, int(np.prod(array.shape[1:]))))
    num_bytes = np.fromiter(map(len, array.flat), int, array.size)
    longest = num_bytes.reshape(array.shape).max(axis=tuple(range(1, array.ndim)), initial=0)
    return longest // _BYTES_PER_POSITION + 1


def batch_key(tensors: Tensors) -> tuple:
    """Return a key that is equal for tensors that may share a batch.

    Such tensors have the same names, dtypes and row shapes, and texts of similar length. A batch
    is padded to its longest text, so a long text would slow down a short one.
    """
    return tuple(
        (name, array.dtype, array.shape[1:], _length_class(array))
        for name, array in sorted(tensors.items())
    )


def joined(tensors: list[Tensors]) -> Tensors:
    """Concatenate the arrays of each name along the first dimension."""
    if len(tensors) == 1:
        return tensors[0]
    return {name: np.concatenate([each[name] for each in tensors]) for name in tensors[0]}


def _longest_text(array: np.ndarray) -> int:
    return max(map(len, array.flat), default=0)


def _length_class(array: np.ndarray) -> int:
    """Return the bit length of the longest text's length; texts under 64 bytes share a class."""
    return max(_longest_text(array).bit_length(), 6) if array.dtype == object else 0


def are_close(outputs: Tensors, others: Tensors, *, tolerance: float = _TOLERANCE) -> bool:
    """Whether two sets of outputs are equal.

    Args:
        outputs: Output arrays by name.
        others: Output arrays of the same names.
        tolerance: Absolute and relative tolerance of floating-point outputs.
    """
    return all(
        np.allclose(array, others[name], rtol=tolerance, atol=tolerance, equal_nan=True)
        if array.shape == others[name].shape and array.dtype.kind == "f"
        else np.array_equal(array, others[name])
        for name, array in outputs.items()
    )
