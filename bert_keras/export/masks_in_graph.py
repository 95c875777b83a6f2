"""Raw text in which [MASK] is written comes in; inputs with that piece go out, in a TF graph."""

import tensorflow as tf

from bert_keras.export.text_in_graph import TextToInputs
from bert_keras.text.gaps import GAP, MASK


class MaskedTextToInputs(TextToInputs):
    """As `text.gaps.ids_with_masks`, then `pack`; to TextToInputs "[MASK]" is brackets and a word.

    No other text becomes the piece [MASK]: a bracket is always a word of its own.
    """

    @property
    def mask_id(self) -> int:
        return self._vocabulary.mask_id

    def pieces(self, text):
        parts = tf.strings.split(tf.strings.regex_replace(text, GAP, MASK), MASK)
        pieces = super().pieces(parts.values)
        masks = tf.fill([pieces.nrows(), 1], self.mask_id)
        with_masks = tf.concat([masks, pieces], axis=1)
        splits = tf.gather(with_masks.row_splits, parts.row_splits)
        rows = tf.RaggedTensor.from_row_splits(with_masks.values, splits, validate=False)
        return rows[:, 1:]
