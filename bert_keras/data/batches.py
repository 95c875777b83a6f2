"""Batches in a fixed order, which `fit` reads with every backend of Keras."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import keras
import numpy as np
from keras import ops, tree

from bert_keras.data.encoded import Encoded
from bert_keras.errors import InputError

_reading_errors: list[InputError] = []  # raised while TensorFlow read batches


class Batches(keras.utils.PyDataset):
    """Batches in a fixed order.

    Args:
        read: A function of the index of a batch; it yields this batch and all later ones.
        spec: A batch of `keras.KerasTensor`, with None for sizes that differ between batches.
        num_batches: The number of batches; None if they are endless.
    """

    def __init__(
        self, read: Callable[[int], Iterator], *, spec: Any, num_batches: int | None = None
    ):
        super().__init__()
        self._read, self._spec, self._num_batches = read, spec, num_batches
        self._next, self._iterator = 0, read(0)

    @property
    def num_batches(self) -> int | None:
        return self._num_batches

    def __iter__(self) -> Iterator:
        return self._read(0)

    def __getitem__(self, index: int):
        if index != self._next:
            self._iterator = self._read(index)
        self._next = index + 1
        return next(self._iterator)

    def skip(self, count: int) -> "Batches":
        """Returns the batches without the first `count` of them."""
        left = None if self._num_batches is None else max(0, self._num_batches - count)
        return Batches(lambda first: self._read(count + first), spec=self._spec, num_batches=left)

    def fill(self, batch_size: int = 1, *, multiple: int = 1) -> "Batches":
        """Returns batches of at least `batch_size` rows, and no fewer than the batch before.

        Their number of rows is a multiple of `multiple`; see `fill_batch`.
        """

        def read(first: int) -> Iterator[tuple]:
            size = batch_size
            for batch in self._read(first):
                size = max(size, len(tree.flatten(batch)[0]))
                yield fill_batch(batch, size + -size % multiple)

        return Batches(read, spec=None, num_batches=self._num_batches)

    def for_fit(self):
        """Returns a `tf.data.Dataset` if TensorFlow is the backend, otherwise `self`."""
        if keras.config.backend() != "tensorflow":
            return self
        import tensorflow as tf

        signature = tree.map_structure(
            lambda each: tf.TensorSpec(each.shape, each.dtype), self._spec
        )

        def copy_batches() -> Iterator:  # TensorFlow may write to the memory of the arrays
            try:
                for batch in self:
                    yield tree.map_structure(np.array, batch)
            except InputError as error:
                _reading_errors.append(error)
                raise

        dataset = tf.data.Dataset.from_generator(copy_batches, output_signature=signature)
        # If Keras does not know the number of batches, it runs one step too many and includes it in
        # the mean losses.
        count = tf.data.INFINITE_CARDINALITY if self._num_batches is None else self._num_batches
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(count))
        # With autotuning, the end of an iterator can wait for a sleeping thread, for up to ten
        # seconds in long runs.
        options = tf.data.Options()
        options.autotune.enabled = False
        return dataset.prefetch(2).with_options(options)


def fill_batch(batch: tuple, size: int) -> tuple:
    """Appends copies of rows to (inputs, targets, weights), and marks them in the weights.

    The weights of a copy are -0.0. If there are no weights, they become bool [B], False for a copy.
    """
    inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(batch)
    num_rows = len(tree.flatten(inputs)[0])
    rows, is_row_B = np.arange(size) % num_rows, np.arange(size) < num_rows

    def fill(weights):
        factors = np.where(is_row_B, np.float32(1), np.float32(-0.0))
        return weights[rows] * factors.reshape(-1, *(len(weights.shape) - 1) * (1,))

    inputs, targets = tree.map_structure(
        lambda each: None if each is None else each[rows], (inputs, targets)
    )
    if weights is not None:
        weights = tree.map_structure(fill, weights)
    elif targets is not None:
        weights = tree.map_structure(lambda _: is_row_B, targets)
    return keras.utils.pack_x_y_sample_weight(inputs, targets, weights)


def copied_rows(weights: Any):
    """Returns which rows of weights [B, ...] `fill_batch` has copied, bool [B]."""
    is_bool = keras.backend.standardize_dtype(weights.dtype) == "bool"
    is_copy = ops.logical_not(weights) if is_bool else ops.signbit(weights)
    return ops.all(ops.reshape(is_copy, (ops.shape(weights)[0], -1)), axis=1)


def batches_of(
    encoded: Encoded,
    row_batches: Callable[[], Iterable[np.ndarray]],
    *,
    num_batches: int | None = None,
) -> Batches:
    """Returns the batches of encoded rows.

    Args:
        encoded: The rows.
        row_batches: Yields the indices of the rows of each batch, int [B].
        num_batches: The number of batches; None if they are endless.
    """

    def read(first: int) -> Iterator[tuple]:
        return map(encoded.batch, islice(row_batches(), first, None))

    def spec(array):
        # These axes have the same size in every batch: G of [B, G, T], and the layers and the
        # hidden size of the features of a frozen encoder, [B, W, K, D].
        fixed = {3: (1,), 4: (2, 3)}.get(array.ndim, ())
        shape = [size if axis in fixed else None for axis, size in enumerate(array.shape)]
        return keras.KerasTensor(shape, array.dtype.name)

    def spec_of_rows(array):
        return keras.KerasTensor((None, *array.shape[1:]), array.dtype.name)

    inputs, *targets = encoded.batch(np.arange(1))  # `targets` may include their weights
    has_token_targets = len(targets) == 2 and targets[1].ndim == 2
    target_spec = spec if has_token_targets else spec_of_rows
    specs = (tree.map_structure(spec, inputs), *tree.map_structure(target_spec, targets))
    return Batches(read, spec=specs, num_batches=num_batches)


def training_batches(encoded: Encoded, *, batch_size: int, seed: int) -> Batches:
    """Returns endless shuffled batches; the rows of a batch have similar lengths."""
    return batches_of(encoded, lambda: encoded.shuffled_batches(batch_size=batch_size, seed=seed))


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
    """Raises the InputError of a file that TensorFlow read, instead of TensorFlow's own error."""
    _reading_errors.clear()
    try:
        yield
    except Exception as error:
        if isinstance(error, InputError) or not _reading_errors:
            raise
        raise _reading_errors[0] from error
