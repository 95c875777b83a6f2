"""Finds added tokens in texts inside a TF graph, such as the runs of spaces of ModernBERT.

An added token of a tokenizer.json is found in the normalized text before it is split into words.
Special tokens, such as [SEP], are not: text never becomes a special token.
"""

import re

import tensorflow as tf
from tokenizers.normalizers import NFC

from bert_keras.exporting.text_ops.flat import RaggedTensor, previous
from bert_keras.exporting.text_ops.words import Points

NONE = -1
_MARK = b"\xff"  # separates added tokens from other text; no text in UTF-8 contains this byte


def added_ids(rules: dict) -> dict[str, int]:
    """Returns the ids of the added tokens that are not special."""
    return {each["content"]: each["id"] for each in rules["added_tokens"] if not each["special"]}


def unmatched_tokens(rules: dict) -> list[str]:
    """Returns the added tokens that `AddedTokens` does not find as `tokenizers` does."""
    return [
        each["content"]
        for each in rules["added_tokens"]
        if not each["special"]
        and (
            not each["normalized"]
            or any(each[option] for option in ("single_word", "lstrip", "rstrip"))
            or NFC().normalize_str(each["content"]) != each["content"]
        )
    ]


class AddedTokens(tf.Module):
    """Finds added tokens; of those that begin at the same character, the longest.

    Args:
        ids: The id of each token.
    """

    def __init__(self, ids: dict[str, int]):
        super().__init__()
        tokens = sorted(ids, key=len, reverse=True)
        self._pattern = "|".join(map(re.escape, tokens))
        if not tokens:
            return
        self._ids = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant(tokens, tf.string),
                tf.constant([ids[token] for token in tokens], tf.int32),
            ),
            default_value=NONE,
        )

    def __call__(self, points: Points) -> tuple[tf.Tensor, tf.Tensor]:
        """Finds the tokens in texts with one more character after each, which is in no token.

        Returns:
            The id of the added token that each code point belongs to, or NONE, int32 [N], and
            whether the code point is not the first one of this token, bool [N].
        """
        if not self._pattern:
            return tf.fill(tf.shape(points.values), NONE), points.values < 0
        texts = RaggedTensor.from_row_splits(points.values, points.splits, validate=False)
        texts = tf.strings.unicode_encode(texts[:, :-1], "UTF-8")
        marked = tf.strings.regex_replace(texts, self._pattern, _MARK + rb"\0" + _MARK)
        parts = tf.strings.split(marked, _MARK)
        ends = tf.ones([parts.nrows(), 1], tf.int32)
        lengths = tf.concat([tf.strings.length(parts, unit="UTF8_CHAR"), ends], axis=1).values
        ids = tf.concat([self._ids.lookup(parts), NONE * ends], axis=1).values
        parts = tf.repeat(tf.range(tf.size(lengths)), lengths)
        ids = tf.gather(ids, parts)
        return ids, (ids != NONE) & (parts == previous(parts, 1, filler=NONE))
