"""Converts texts to the inputs of a model, at once or inside a tf.data pipeline."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from bert_keras.data.encoded import EncodedTexts
from bert_keras.data.record_file import SEQUENCE_FEATURES
from bert_keras.errors import LARGEST_COUNT, suggest_keyword_names
from bert_keras.text.columns import check_num_columns, checked_columns, columns_of
from bert_keras.text.tokenizer import TextTokenizer


@suggest_keyword_names
@dataclass(frozen=True)
class Preprocessor:
    """Converts texts, or pairs of texts, to the inputs of a model.

    Attributes:
        tokenizer: The tokenizer of the model.
        max_length: Maximum number of tokens of a row, special tokens included.

    Raises:
        InputError: A call receives a value that is not a string, or columns of different lengths.

    Example:

    ```python
    tokenizer = WordPieceTokenizer(Vocabulary.from_file("vocab.txt"))
    preprocessor = Preprocessor(tokenizer, max_length=64)
    inputs = preprocessor(["a good film"])
    pairs = preprocessor((["a good film"], ["two hours of nothing"]))
    ```
    """

    tokenizer: TextTokenizer
    _: KW_ONLY
    max_length: int
    _fewest_columns: ClassVar[int] = 1
    _most_columns: ClassVar[int] = 2

    def __call__(self, texts: Any) -> dict[str, Any]:
        """Returns the arrays of `encode`.

        Args:
            texts: B strings as a list, a NumPy array or a tensor, or a tuple of B first texts and
                B second texts. In `tf.data.Dataset.map`, it is an element of a batched data set.

        Returns:
            `input_ids`, `input_mask` and `segment_ids`, int32 [B,T], where T is the length of the
            longest row. With JAX, T is the next power of two, so that XLA compiles few shapes.
        """
        columns = texts if isinstance(texts, tuple) else (texts,)
        if not any(hasattr(column, "graph") for column in columns):
            rows = self.encoded(columns_of(texts))
            return rows.batch(np.arange(len(rows)))[0]
        import tensorflow as tf

        def arrays(*columns):
            inputs = self(columns)
            return [inputs[name] for name in SEQUENCE_FEATURES]

        dtypes = [tf.int32] * len(SEQUENCE_FEATURES)
        tensors = tf.numpy_function(arrays, columns, dtypes, stateful=False)
        num_sequences = self._num_sequences(len(columns))
        sequences = [num_sequences] if num_sequences > 1 else []
        for tensor in tensors:
            tensor.set_shape([columns[0].shape[0], *sequences, None])
        return dict(zip(SEQUENCE_FEATURES, tensors, strict=True))

    def encoded(self, columns: Sequence[list[str]]) -> EncodedTexts:
        """Returns the rows of columns, each of B texts, without targets."""
        columns = checked_columns(*columns)
        check_num_columns(columns, self._fewest_columns, self._most_columns)
        return EncodedTexts(
            texts=tuple(map(self.tokenizer.ids_batch, self._texts(columns))),
            max_length=self.max_length,
            vocabulary=self.tokenizer.vocabulary,
            num_sequences=self._num_sequences(len(columns)),
        )

    def _texts(self, columns: list[list[str]]) -> list[list[str]]:
        """Returns the one or two texts of each sequence."""
        return columns

    def _num_sequences(self, num_columns: int) -> int:
        """Returns the number of sequences of an example."""
        return 1


@dataclass(frozen=True)
class GroupPreprocessor(Preprocessor):
    """Converts each text of G columns to a row of its own: [B,G,T], or [B,T] for one column."""

    _most_columns = LARGEST_COUNT

    def _texts(self, columns):
        return [list(chain.from_iterable(zip(*columns, strict=True)))]

    def _num_sequences(self, num_columns):
        return num_columns


@dataclass(frozen=True)
class ChoicePreprocessor(Preprocessor):
    """Converts contexts and at least two columns of choices to one row for each choice, [B,C,T]."""

    _fewest_columns, _most_columns = 3, LARGEST_COUNT

    def _texts(self, columns):
        contexts, *choices = columns
        texts = list(chain.from_iterable(zip(*choices, strict=True)))
        return [[context for context in contexts for _ in choices], texts]

    def _num_sequences(self, num_columns):
        return num_columns - 1
