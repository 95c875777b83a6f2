"""Tokenizes texts with marked entities inside a TF graph, as `text.markers` does outside of it."""

from collections.abc import Callable
from typing import cast

import tensorflow as tf

from bert_keras.exporting.text_ops.flat import RaggedTensor, previous, regrouped
from bert_keras.text.markers import END_MARKERS, MARKER_PATTERN, MARKERS, continuing_ids
from bert_keras.text.vocab import Vocabulary

_MARK = b"\xff"  # separates markers from other text; no text in UTF-8 contains this byte


def marked_tokens(
    text: tf.Tensor, tokens_of: Callable[[tf.Tensor], tf.RaggedTensor], *, vocabulary: Vocabulary
) -> tf.RaggedTensor:
    """Returns the ids of texts, string [B], as int32 [B,(tokens)]; see `MarkedTokenizer`.

    Args:
        text: The texts, which may contain markers.
        tokens_of: Returns the ids of texts without markers, string [P], as int32 [P,(tokens)].
        vocabulary: A vocabulary with the markers.
    """
    marked = tf.strings.regex_replace(text, MARKER_PATTERN, _MARK + rb"\0" + _MARK)
    parts = tf.strings.split(marked, _MARK)
    is_marker_PM = parts.values[:, None] == tf.constant(MARKERS)
    is_marker_P = tf.reduce_any(is_marker_PM, axis=1)
    tokens = tokens_of(tf.where(is_marker_P, "", parts.values))
    is_end_M = tf.constant([marker in END_MARKERS for marker in MARKERS])
    is_after_end_P = previous(tf.reduce_any(is_marker_PM & is_end_M, axis=1), 1)
    continues_P = is_after_end_P & (tf.strings.substr(parts.values, 0, 1) != b" ")
    rows = tokens.value_rowids()
    continues = (rows != previous(rows, 1, filler=-1)) & tf.gather(continues_P, rows)
    ids = tf.gather(tf.constant(continuing_ids(vocabulary)), tokens.values)
    tokens = tokens.with_values(tf.where(continues, ids, tokens.values))
    marker_ids = tf.constant([vocabulary.ids[marker] for marker in MARKERS])
    markers = RaggedTensor.from_row_lengths(
        tf.gather(marker_ids, tf.where(is_marker_PM)[:, 1]),
        tf.cast(is_marker_P, tf.int64),
        validate=False,
    )
    return regrouped(cast(tf.RaggedTensor, tf.concat([markers, tokens], axis=1)), parts.row_splits)
