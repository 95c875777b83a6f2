"""The base class of the losses of sentence embeddings, and their functions of vectors."""

import keras
from keras import ops

from bert_keras.distribution.reduction import SummedLoss
from bert_keras.errors import InputError


class SentenceLoss(SummedLoss):
    """The base class of losses of embeddings [B, G, E].

    Args:
        **kwargs: Arguments of `keras.losses.Loss`, such as `name` and `reduction`.
    """

    arguments: tuple[str, ...] = ()  # constructor arguments that are also attributes
    texts = ""  # the texts of an example, as an error message names them
    num_texts = (2, 2)  # the fewest and the most texts of an example; None for any number

    def get_config(self):
        return {**super().get_config(), **{name: getattr(self, name) for name in self.arguments}}

    def columns(self, y_pred):
        """Returns the embeddings of each text in float32 or wider, [G, B, E].

        Raises:
            InputError: `y_pred` has not three dimensions, or another number of texts.
        """
        shape, (fewest, most) = tuple(y_pred.shape), self.num_texts
        size = shape[1] if len(shape) == 3 else 0
        if size is not None and not fewest <= size <= (most or size):
            texts = fewest if fewest == most else f"{fewest} or more"
            raise InputError(
                f"{type(self).__name__} received embeddings of the shape {shape}; expected "
                f"[examples, {texts}, size]: {self.texts}"
            )
        return ops.moveaxis(widened(y_pred), 1, 0)

    def scores(self, y_true, y_pred):
        """Returns one target for each example, [B].

        Raises:
            InputError: `y_true` has other than one value for each example.
        """
        rest = tuple(y_true.shape)[1:]
        if rest not in ((), (1,)):
            raise InputError(
                f"{type(self).__name__} received targets of the shape {tuple(y_true.shape)}; "
                "expected [examples]: one number for each example"
            )
        return ops.reshape(ops.cast(y_true, widened(y_pred).dtype), (-1,))


def widened(values):
    """Converts floats narrower than float32 to float32."""
    return ops.cast(values, keras.backend.result_type(values.dtype, "float32"))


def unit(vectors):
    """Normalises vectors [..., E] to length 1; vectors shorter than 1e-12 are divided by 1e-12."""
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    return vectors * ops.rsqrt(ops.maximum(squares, 1e-24))  # has a gradient at 0


def cosine(a, b):
    """Returns the cosine of vectors [..., E], as [...]."""
    return ops.sum(unit(a) * unit(b), axis=-1)


def length(vectors):
    """Returns the euclidean length of vectors [..., E]; its gradient at 0 is 0."""
    squares = ops.sum(ops.square(vectors), axis=-1)
    is_zero = squares == 0
    return ops.where(is_zero, 0.0, ops.sqrt(ops.where(is_zero, 1.0, squares)))
