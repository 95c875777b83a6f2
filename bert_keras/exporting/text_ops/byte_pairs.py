"""Tokenizes text with byte-level BPE inside a TF graph.

GPT-2's pattern (Radford et al. 2019) splits text into words. The kind of each character (letter,
number, space, other) is the one that the library `tokenizers` assigns. The merges of all words of a
batch run in one loop: each step applies the next merge of every word.
"""

import json
from functools import cache

import numpy as np
import tensorflow as tf
from tokenizers.pre_tokenizers import ByteLevel

from bert_keras.errors import InputError
from bert_keras.exporting.text_ops.added_tokens import (
    NONE,
    AddedTokens,
    added_ids,
    unmatched_tokens,
)
from bert_keras.exporting.text_ops.composition import Composition
from bert_keras.exporting.text_ops.flat import (
    RaggedTensor,
    every_second,
    following,
    num_before,
    previous,
    regrouped,
)
from bert_keras.exporting.text_ops.unicode_tables import PointTable, table_of, without_surrogates
from bert_keras.exporting.text_ops.words import (
    Points,
    TextTokens,
    looked_up,
    points_of,
    utf8_widths,
)
from bert_keras.text.vocab import Vocabulary

_END, _LETTER, _NUMBER, _OTHER, _SPACE = range(5)  # kinds of characters
_SPACE_POINT, _APOSTROPHE = map(ord, " '")
# An apostrophe and one of these endings form a word.
_ENDINGS = ("s", "t", "m", "d", "re", "ve", "ll")
# Options of the BPE model that must be unset.
_UNSUPPORTED = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
_SPLITTER = ByteLevel(add_prefix_space=False)
_NO_MERGE = np.iinfo(np.int32).max
_UTF8_BYTES = (*range(0xC0), *range(0xC2, 0xF5))  # no text in UTF-8 has the other bytes


class BytePairs(tf.Module):
    """Tokenizes texts, string [B], with the same ids and offsets as `FastTokenizer`.

    If `has_offsets` is False, the tokenizer adds a space before each text (add_prefix_space), and
    the offsets refer to the text with this space. Bytes that are not valid UTF-8 are dropped.

    Args:
        vocabulary: A vocabulary with the rules of a RoBERTa or ModernBERT tokenizer.json.

    Raises:
        InputError: The rules are not those of RoBERTa or ModernBERT.
    """

    def __init__(self, vocabulary: Vocabulary):
        super().__init__()
        rules = json.loads(vocabulary.rules)
        ids, merges = _checked(rules)
        self.has_offsets = not rules["pre_tokenizer"]["add_prefix_space"]
        self._composition = Composition() if rules["normalizer"] else None
        self._added = AddedTokens(added_ids(rules))
        self._byte_ids = np.array([ids.get(symbol, 0) for symbol in byte_symbols()], np.int32)
        self._size = len(vocabulary)
        self._num_bytes = np.array([*map(len, vocabulary.tokens)], np.int64)
        for token, token_id in added_ids(rules).items():
            self._num_bytes[token_id] = len(token.encode())
        pairs = np.array([(ids[a], ids[b]) for a, b in merges], np.int64).reshape(-1, 2)
        self._merged = np.array([*(ids[a + b] for a, b in merges), 0], np.int32)
        ranks = np.arange(len(pairs), dtype=np.int32)
        pairs = tf.lookup.KeyValueTensorInitializer(pairs @ [self._size, 1], ranks)
        self._ranks = tf.lookup.StaticHashTable(pairs, default_value=_NO_MERGE)

    def __call__(self, text: tf.Tensor) -> TextTokens:
        with tf.device("CPU:0"):
            source = _source(text)
            if not self.has_offsets:
                lacks_space = tf.gather(source.values, source.splits[:-1]) != _SPACE_POINT
                lacks_space &= source.splits[1:] - source.splits[:-1] > 1  # it is not empty
                source = _source(tf.where(lacks_space, " ", "") + text)
            points = self._composition(source) if self._composition else source
            kinds = looked_up(_kinds(), points.values)
            ends = points.splits[1:, None] - 1
            kinds = tf.tensor_scatter_nd_update(kinds, ends, tf.fill(tf.shape(ends)[:1], _END))
            ids = self._ids(points, kinds)
            widths = utf8_widths(points.values) * tf.cast(kinds != _END, tf.int64)
            point_indices = tf.repeat(tf.range(tf.size(widths, tf.int64)), widths)
            byte_ends = tf.cumsum(tf.gather(self._num_bytes, ids.values))
            starts = tf.gather(point_indices, previous(byte_ends, 1))
            ends = tf.gather(point_indices, byte_ends - 1) + 1
            # Offsets exclude the spaces at both ends of a token, as with `trim_offsets`.
            is_visible = points.values != _SPACE_POINT
            visible, before = tf.where(is_visible)[:, 0], num_before(is_visible)
            starts = tf.minimum(tf.gather(visible, tf.gather(before, starts)), ends)
            visible_ends = tf.pad(visible + 1, [[1, 0]])
            ends = tf.maximum(starts, tf.gather(visible_ends, tf.gather(before, ends)))
            source_ends = tf.gather(points.source_indices, ends - 1) + 1
            source_starts = tf.gather(points.source_indices, starts)
            source_starts = tf.where(starts == ends, source_ends, source_starts)
            return TextTokens(ids, source_starts, source_ends, source)

    def _ids(self, points: Points, kinds: tf.Tensor) -> tf.RaggedTensor:
        """Returns token ids, int32 [B,(tokens)], of texts and the kinds of their characters."""
        added_ids, is_inside = self._added(points)
        is_added, is_end = added_ids != NONE, kinds == _END
        # The text ends before an added token, and another one begins after it.
        starts_word = _starts_word(
            tf.where(is_added, 0, points.values), tf.where(is_added, _END, kinds)
        ) & tf.logical_not(is_inside)
        words = RaggedTensor.from_row_starts(
            points.values, tf.where(starts_word)[:, 0], validate=False
        )
        is_word = tf.logical_not(tf.boolean_mask(is_end, starts_word))
        words = tf.boolean_mask(tf.strings.unicode_encode(words, "UTF-8"), is_word)
        added_ids = tf.boolean_mask(tf.boolean_mask(added_ids, starts_word), is_word)
        # An added token becomes one symbol, so that it takes part in no merge.
        words = tf.where(added_ids == NONE, words, " ")
        symbols = tf.strings.bytes_split(words)
        byte_values = tf.reshape(tf.io.decode_raw(symbols.values, tf.uint8), [-1])
        ids = tf.gather(self._byte_ids, tf.cast(byte_values, tf.int32))
        added_ids = tf.gather(added_ids, symbols.value_rowids())
        ids = tf.where(added_ids == NONE, ids, added_ids)
        ids, word_ids = self._merge(ids, symbols.value_rowids())
        num_words = tf.size(words, tf.int64)
        of_words = RaggedTensor.from_value_rowids(ids, word_ids, nrows=num_words, validate=False)
        splits = tf.gather(num_before(starts_word & tf.logical_not(is_end)), points.splits)
        return regrouped(of_words, splits)

    def _merge(self, ids: tf.Tensor, word_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Merges tokens until no pair can be merged.

        Args:
            ids: int32 [N], the token ids of all words.
            word_ids: int64 [N], the index of the word that each token belongs to.

        Returns:
            The token ids and the word indices after all merges.
        """

        def ranks_of(ids, word_ids):
            pairs = tf.cast(ids[:-1], tf.int64) * self._size + tf.cast(ids[1:], tf.int64)
            ranks = tf.where(word_ids[:-1] == word_ids[1:], self._ranks.lookup(pairs), _NO_MERGE)
            return tf.pad(ranks, [[0, 1]], constant_values=_NO_MERGE)[: tf.size(ids)]

        def step(ids, word_ids, ranks):
            lowest = tf.gather(tf.math.segment_min(ranks, word_ids), word_ids)
            is_left = every_second((ranks == lowest) & (ranks < _NO_MERGE))
            merged = tf.gather(self._merged, tf.minimum(ranks, len(self._merged) - 1))
            is_kept = tf.logical_not(previous(is_left, 1))
            ids = tf.boolean_mask(tf.where(is_left, merged, ids), is_kept)
            word_ids = tf.boolean_mask(word_ids, is_kept)
            return ids, word_ids, ranks_of(ids, word_ids)

        ids, word_ids, _ = tf.while_loop(
            lambda ids, word_ids, ranks: tf.reduce_any(ranks < _NO_MERGE),
            step,
            (ids, word_ids, ranks_of(ids, word_ids)),
            shape_invariants=3 * (tf.TensorShape([None]),),
        )
        return ids, word_ids


def _source(text: tf.Tensor) -> Points:
    """Decodes texts, string [B], and appends an end character to each."""
    points = tf.strings.unicode_decode(text + "\n", "UTF-8", errors="ignore")
    return points_of(points.values, points.row_splits)


def _starts_word(points: tf.Tensor, kinds: tf.Tensor) -> tf.Tensor:
    """Returns whether a word begins at each code point, bool [N].

    The pattern is 's|'t|'re|'ve|'m|'ll|'d| ?L+| ?N+| ?[^\\sLN]+|\\s+(?!\\S)|\\s+

    A word begins where the kind of character changes. A word that follows a space (U+0020) begins
    with this space. The last of several white space characters is separate from the preceding ones
    unless the text ends after it.
    """
    changes = kinds != previous(kinds, 1)
    starts_word = tf.where(
        kinds == _SPACE,
        changes | following((kinds != _END) & (kinds != _SPACE), 1),
        (changes & tf.logical_not(previous(points == _SPACE_POINT, 1))) | (kinds == _END),
    )
    for ending in _ENDINGS:
        is_contraction = starts_word & (points == _APOSTROPHE)
        for distance, letter in enumerate(ending, start=1):
            is_contraction &= following(points == ord(letter), distance)
        starts_word &= tf.logical_not(previous(is_contraction, 1))
        starts_word |= previous(is_contraction, 1 + len(ending))
    return starts_word


@cache
def _kinds() -> PointTable:
    """Returns the kind that `tokenizers` assigns to each character.

    The library does not expose the kinds. A character has the kind of a letter, number or
    punctuation mark if the splitter leaves both in one word.
    """

    def of_block(block: str) -> np.ndarray:
        block, kinds = without_surrogates(block), np.full(len(block), _SPACE, np.int32)
        for kind, neighbor in ((_OTHER, "!"), (_LETTER, "a"), (_NUMBER, "1")):
            if len(_SPLITTER.pre_tokenize_str(neighbor + block)) == 1:
                return np.full(len(block), kind, np.int32)
            words = _SPLITTER.pre_tokenize_str("".join(f"{neighbor}{each}\n" for each in block))
            spans = np.array([span for _, span in words])
            is_joined = (spans[:, 0] % 3 == 0) & (spans[:, 1] == spans[:, 0] + 2)
            kinds[spans[is_joined, 0] // 3] = kind
        return kinds

    return table_of(of_block)


def byte_symbols() -> list[str]:
    """Returns the characters that represent bytes 0 to 255 (Radford et al. 2019, encoder.py)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(0x100)]


def _checked(rules: dict) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Returns the ids of the tokens, and the merges in order of their rank."""
    model, splitter = rules["model"], rules["pre_tokenizer"]
    ids, merges = model["vocab"], [tuple(pair) for pair in model["merges"]]
    unsupported = [name for name in _UNSUPPORTED if model.get(name)]
    if splitter["type"] != "ByteLevel" or not splitter.get("use_regex", True):
        unsupported.append("pre_tokenizer")
    if rules["normalizer"] not in (None, {"type": "NFC"}):
        unsupported.append("a normalizer other than NFC")
    if missing := [each for byte in _UTF8_BYTES if (each := byte_symbols()[byte]) not in ids]:
        unsupported.append(f"a vocabulary without {missing[0]!r}")
    if added_ids(rules) and splitter.get("add_prefix_space"):
        unsupported.append("add_prefix_space with added tokens")
    unsupported += [f"the added token {token!r} with options" for token in unmatched_tokens(rules)]
    # A step merges all occurrences of a word's lowest-ranked pair at once. This equals BPE only if
    # a merge never creates a pair of lower rank.
    ranks = {a + b: rank for rank, (a, b) in enumerate(merges)}
    if len(ranks) < len(merges) or any(
        max(ranks.get(a, -1), ranks.get(b, -1)) >= rank for rank, (a, b) in enumerate(merges)
    ):
        unsupported.append("merges of tokens that later merges create")
    if unsupported:
        raise InputError(
            f"the tokenizer has {', '.join(unsupported)}, which an exported graph does not "
            "support; expected the rules of the tokenizer of RoBERTa or ModernBERT"
        )
    return ids, merges
