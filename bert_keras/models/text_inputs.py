"""Lets `fit`, `evaluate` and `predict` of a model take texts."""

import dataclasses
from typing import TYPE_CHECKING

import keras
import numpy as np

from bert_keras.errors import InputError, check
from bert_keras.models.pretrained import Pretrained

if TYPE_CHECKING:
    from bert_keras.data.preprocessor import Preprocessor


class TextInputs(Pretrained):
    """The base class of models that, like their `fit`, `evaluate` and `predict`, also take texts.

    Texts are a list, an array or a tensor of strings, or a `tf.data.Dataset` of batches of them. A
    tuple of columns means texts that belong together: pairs, or for a sentence encoder any number.
    `preprocessor` converts them to the inputs of the model. Other inputs reach Keras unchanged;
    PyDatasets and generators yield what `preprocessor(texts)` returns.
    """

    groups_texts = False  # whether each text has a row of its own

    @property
    def preprocessor(self) -> "Preprocessor | None":
        """Converts texts to the inputs of the model; `save_pretrained` saves an assigned one.

        It is None without a tokenizer.
        """
        from bert_keras.data.preprocessor import GroupPreprocessor, Preprocessor

        if self.tokenizer is None:
            return None
        kind = GroupPreprocessor if self.groups_texts else Preprocessor
        return kind(self.tokenizer, max_length=self.stored_metadata(None).max_length)

    @preprocessor.setter
    def preprocessor(self, preprocessor: "Preprocessor") -> None:
        metadata = self.stored_metadata(preprocessor.tokenizer)
        self.metadata = dataclasses.replace(metadata, max_length=preprocessor.max_length)
        self.tokenizer = preprocessor.tokenizer

    def fit(self, x=None, y=None, *args, validation_data=None, **kwargs):
        """Trains the model as `keras.Model.fit` does; see the class for texts."""
        if isinstance(kwargs.get("sample_weight"), list):
            kwargs["sample_weight"] = np.asarray(kwargs["sample_weight"])
        if isinstance(validation_data, (tuple, list)):
            validation_data = (*self._encoded(*validation_data[:2]), *validation_data[2:])
        elif validation_data is not None:
            validation_data, _ = self._encoded(validation_data)
        x, y = self._encoded(x, y)
        self._renew("train_function", x)
        return super().fit(x, y, *args, validation_data=validation_data, **kwargs)

    def evaluate(self, x=None, y=None, *args, **kwargs):
        """Scores the model as `keras.Model.evaluate` does; see the class for texts."""
        x, y = self._encoded(x, y)
        self._renew("test_function", x)
        return super().evaluate(x, y, *args, **kwargs)

    def predict(self, x, *args, **kwargs):
        """Returns outputs as `keras.Model.predict` does; see the class for texts."""
        x, _ = self._encoded(x)
        self._renew("predict_function", x)
        return super().predict(x, *args, **kwargs)

    def train_on_batch(self, x, y=None, *args, **kwargs):
        """Trains on one batch as `keras.Model.train_on_batch` does; see the class for texts."""
        return super().train_on_batch(*self._encoded(x, y), *args, **kwargs)

    def test_on_batch(self, x, y=None, *args, **kwargs):
        """Scores one batch as `keras.Model.test_on_batch` does; see the class for texts."""
        return super().test_on_batch(*self._encoded(x, y), *args, **kwargs)

    def predict_on_batch(self, x):
        """Returns outputs as `keras.Model.predict_on_batch` does; see the class for texts."""
        return super().predict_on_batch(self._encoded(x)[0])

    def __call__(self, inputs, *args, **kwargs):
        return super().__call__(self._encoded(inputs)[0], *args, **kwargs)

    def _renew(self, function: str, x) -> None:
        """Discards a compiled function of Keras if its latest inputs had another rank.

        One function for inputs of ranks 2 and 3 would have inputs of an unknown rank.
        """
        first = next(iter(keras.tree.flatten(getattr(x, "element_spec", x))), None)
        shape = getattr(first, "shape", None)
        rank = None if shape is None else len(shape)  # None: unknown to Keras, too
        ranks = self.__dict__.setdefault("_ranks", {})  # not tracked by Keras
        if ranks.setdefault(function, rank) != rank:
            setattr(self, function, None)
            ranks[function] = rank

    def _encoded(self, x, y=None):
        """Returns the inputs of the model for texts and labels, or other data unchanged."""
        from bert_keras.data.preprocessor import is_text

        if hasattr(x, "element_spec"):
            return self._encoded_dataset(x), y
        check(not isinstance(x, list) or x, "the texts are an empty list; expected at least one")
        if not is_text(x):
            return x, y
        check(y is None or not is_text(y), "the labels are texts; expected numbers from 0")
        return self._checked_preprocessor()(x), np.asarray(y) if isinstance(y, list) else y

    def _encoded_dataset(self, dataset):
        from bert_keras.data.preprocessor import is_text

        spec = dataset.element_spec
        texts, labels, _ = keras.utils.unpack_x_y_sample_weight(spec)
        if not is_text(texts):
            return dataset
        if labels is not None and is_text(labels):
            raise InputError(
                "the data set yields two texts and no label; expected ((text, text_pair), label), "
                "or ((text, text_pair),) without labels"
            )
        if any(column.shape.rank == 0 for column in keras.tree.flatten(texts)):
            raise InputError("the data set yields single texts; batch it: dataset.batch(32)")
        preprocessor = self._checked_preprocessor()

        def encoded(*element):
            texts, labels, weights = keras.utils.unpack_x_y_sample_weight(element)
            return keras.utils.pack_x_y_sample_weight(preprocessor(texts), labels, weights)

        return dataset.map(encoded)

    def _checked_preprocessor(self) -> "Preprocessor":
        if (preprocessor := self.preprocessor) is None:
            raise InputError(
                f"this {type(self).__name__} has no tokenizer, so it cannot take texts; set "
                "model.preprocessor = Preprocessor(tokenizer, max_length=128), or give input_ids, "
                "input_mask and segment_ids"
            )
        return preprocessor
