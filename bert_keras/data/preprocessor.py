"""Converts texts to the inputs of a model, at once or inside a tf.data pipeline."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

from bert_keras.data.buckets import num_columns
from bert_keras.data.schema import SEQUENCE_FEATURES
from bert_keras.errors import check
from bert_keras.text.encode import encode
from bert_keras.text.tokenizer import TextTokenizer


@dataclass(frozen=True)
class Preprocessor:
    """Converts texts, or pairs of texts, to the inputs of a model.

    Raises:
        InputError: On a call, a value that is not a string, or columns of different lengths.

    Example:

    ```python
    tokenizer = WordPieceTokenizer(Vocabulary.from_file("vocab.txt"))
    preprocessor = Preprocessor(tokenizer, max_length=64)
    inputs = preprocessor(["a good film"])
    pairs = preprocessor((["a good film"], ["two hours of nothing"]))
    ```
    """

    tokenizer: TextTokenizer  # the tokenizer of the model
    _: KW_ONLY
    max_length: int  # maximum number of tokens of a row, special tokens included

    def __call__(self, texts) -> dict[str, Any]:
        """Returns the arrays of `encode`.

        Args:
            texts: B strings as a list, a NumPy array or a tensor, or a tuple of B first texts and
                B second texts. In `tf.data.Dataset.map`, an element of a batched data set.

        Returns:
            `input_ids`, `input_mask` and `segment_ids`, int32 [B,T], where T is the length of the
            longest row, or with JAX the next power of two, so that XLA compiles few shapes.
        """
        columns = texts if isinstance(texts, tuple) else (texts,)
        if not any(hasattr(column, "graph") for column in columns):
            return self._encoded(*map(_strings, columns))
        import tensorflow as tf

        def arrays(*columns):
            inputs = self._encoded(*map(_strings, columns))
            return [inputs[name] for name in SEQUENCE_FEATURES]

        dtypes = [tf.int32] * len(SEQUENCE_FEATURES)
        tensors = tf.numpy_function(arrays, columns, dtypes, stateful=False)
        for tensor in tensors:
            tensor.set_shape([columns[0].shape[0], *self._row_shape(len(columns))])
        return dict(zip(SEQUENCE_FEATURES, tensors, strict=True))

    def _encoded(self, *columns: list[str]) -> dict[str, Any]:
        length = self.max_length
        return encode(self.tokenizer, *columns, max_length=length, num_columns=num_columns)

    def _row_shape(self, num_columns: int) -> tuple[int | None, ...]:
        """Returns the shape of the inputs of one example."""
        return (None,)


@dataclass(frozen=True)
class GroupPreprocessor(Preprocessor):
    """Converts each text to a row of its own, for a model that embeds texts separately.

    It takes any number G of columns, whose texts at the same position belong together. The inputs
    of several columns are [B,G,T], those of one are [B,T].
    """

    def _encoded(self, *columns: list[str]) -> dict[str, Any]:
        sizes = [len(column) for column in columns]
        check(len({*sizes}) == 1, f"the columns have {sizes} texts; expected equal numbers")
        rows = [text for group in zip(*columns, strict=True) for text in group]
        inputs, shape = super()._encoded(rows), (len(columns[0]), *self._row_shape(len(columns)))
        return {name: a.reshape(*shape[:-1], a.shape[1]) for name, a in inputs.items()}

    def _row_shape(self, num_columns: int) -> tuple[int | None, ...]:
        return (None,) if num_columns == 1 else (num_columns, None)


def is_text(data) -> bool:
    """Returns whether `data` is a column of strings or a tuple of such columns.

    The columns may also be the specs of tensors, as in `tf.data.Dataset.element_spec`.
    """
    if isinstance(data, tuple):
        return bool(data) and all(map(is_text, data))
    if isinstance(data, (str, bytes)):
        return True
    dtype = getattr(data, "dtype", None)
    if isinstance(data, list) or str(dtype) == "object":
        first = next(iter(data), None)
        if isinstance(first, (tuple, list)):  # a list of pairs, which `Preprocessor` refuses
            return any(isinstance(each, str) for each in first)
        return isinstance(first, (str, bytes))
    return "str" in str(dtype) or getattr(dtype, "kind", "") in ("S", "U")


def _strings(column) -> list[str]:
    """Returns a column as a list of Python strings; bytes that are not UTF-8 are dropped."""
    check(not isinstance(column, str), f"texts is {column!r:.40}; expected a list of strings")
    values = column if isinstance(column, list) else column.__array__().tolist()
    return [each.decode("utf-8", "ignore") if isinstance(each, bytes) else each for each in values]
