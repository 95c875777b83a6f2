"""Converts texts to the inputs of a model, at once or inside a tf.data pipeline."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from bert_keras.data.schema import SEQUENCE_FEATURES
from bert_keras.errors import InputError
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
            longest row.
        """
        columns = texts if isinstance(texts, tuple) else (texts,)
        if any(hasattr(column, "graph") for column in columns):
            return self._in_graph(texts, columns)
        return encode(self.tokenizer, *map(_strings, columns), max_length=self.max_length)

    def _in_graph(self, texts, columns: Sequence[Any]) -> dict[str, Any]:
        import tensorflow as tf

        def arrays(*columns):
            inputs = self(columns if isinstance(texts, tuple) else columns[0])
            return [inputs[name] for name in SEQUENCE_FEATURES]

        dtypes = [tf.int32] * len(SEQUENCE_FEATURES)
        tensors = tf.numpy_function(arrays, columns, dtypes, stateful=False)
        for tensor in tensors:
            tensor.set_shape([columns[0].shape[0], *self._row_shape(texts)])
        return dict(zip(SEQUENCE_FEATURES, tensors, strict=True))

    def _row_shape(self, texts) -> tuple[int | None, ...]:
        """Returns the shape of the inputs of one example."""
        return (None,)


@dataclass(frozen=True)
class GroupPreprocessor(Preprocessor):
    """Converts each text to a row of its own, for a model that embeds texts separately.

    Raises:
        InputError: On a call, a value that is not a string, or columns of different lengths.
    """

    def __call__(self, texts) -> dict[str, Any]:
        """Returns the arrays of `encode`.

        Args:
            texts: B strings as a list, a NumPy array or a tensor, or a tuple of G such columns,
                whose texts at the same position belong together.

        Returns:
            `input_ids`, `input_mask` and `segment_ids`, int32 [B,T], or [B,G,T] for a tuple.
        """
        if not isinstance(texts, tuple) or any(hasattr(column, "graph") for column in texts):
            return super().__call__(texts)
        columns = [_strings(column) for column in texts]
        sizes = [len(column) for column in columns]
        if len(set(sizes)) > 1:
            raise InputError(f"the columns have {sizes} texts; expected equal numbers")
        rows = [text for group in zip(*columns, strict=True) for text in group]
        inputs = encode(self.tokenizer, rows, max_length=self.max_length)
        return {name: a.reshape(sizes[0], len(sizes), a.shape[1]) for name, a in inputs.items()}

    def _row_shape(self, texts) -> tuple[int | None, ...]:
        return (len(texts), None) if isinstance(texts, tuple) else (None,)


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
    if isinstance(column, str):
        raise InputError(f"the texts are the string {column[:40]!r}; expected a list of strings")
    values = column if isinstance(column, list) else column.__array__().tolist()
    texts = [each.decode("utf-8", "ignore") if isinstance(each, bytes) else each for each in values]
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"text {number} is {str(text)[:40]!r}; expected a string (give pairs of texts as a "
                "tuple of two lists)"
            )
    return texts
