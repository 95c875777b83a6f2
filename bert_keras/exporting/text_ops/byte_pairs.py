"""Tokenizes text with byte-level BPE, or with Gemma's BPE of characters, inside a TF graph.

First, added tokens are found in the text, such as ModernBERT's runs of spaces. Then GPT-2's pattern
(Radford et al. 2019) splits the rest into words, or each space begins one. Each step merges the
next pair of every word.
"""

import re
from functools import cache

import numpy as np
import tensorflow as tf
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import ByteLevel

from bert_keras.errors import InputError
from bert_keras.exporting.text_ops import words as word_ops
from bert_keras.exporting.text_ops.normalization import Composition
from bert_keras.text.fast_tokenizer import MARK_SPACES, marks_spaces, rules_of
from bert_keras.text.vocab import WORD_MARK, Vocabulary

_END, _LETTER, _NUMBER, _OTHER, _SPACE = range(5)  # kinds of characters
_SPACE_POINT, _APOSTROPHE, _MARK_POINT = map(ord, f" '{WORD_MARK}")
# Options of the BPE model and of an added token that must be unset.
_UNSUPPORTED = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
_UNSUPPORTED_OF_ADDED = ("single_word", "lstrip", "rstrip")
_NO_MERGE = np.iinfo(np.int32).max
_NONE = -1
_MARK = b"\xff"  # separates added tokens from other text; no text in UTF-8 contains this byte
_UTF8_BYTES = (*range(0xC0), *range(0xC2, 0xF5))  # no text in UTF-8 has the other bytes


class BytePairs(tf.Module):
    """Tokenizes texts, string [B], with the same ids and offsets as `FastTokenizer`.

    If `has_offsets` is False, the tokenizer adds a space before each text (add_prefix_space), and
    the offsets refer to the text with this space, or are 0 in Gemma's BPE. Bytes that are not valid
    UTF-8 are dropped.
    """

    def __init__(self, vocabulary: Vocabulary):
        super().__init__()
        rules = rules_of(vocabulary)
        ids, merges = rules["model"]["vocab"], [tuple(pair) for pair in rules["model"]["merges"]]
        added = [each for each in rules["added_tokens"] if not each["special"]]
        model, splitter = rules["model"], rules["pre_tokenizer"] or {}
        self._has_marks = has_marks = marks_spaces(rules)
        symbols = [f"<0x{n:02X}>" for n in range(0x100)] if has_marks else _byte_symbols()
        # A step of byte-level BPE merges all occurrences of a word's lowest-ranked pair at once.
        # This equals BPE only if a merge never creates a pair of lower rank.
        rank_of = {a + b: rank for rank, (a, b) in enumerate(merges)}
        if not (
            (has_marks or splitter["type"] == "ByteLevel")
            and splitter.get("use_regex", True)
            and not (added and splitter.get("add_prefix_space"))
            and rules["normalizer"] in (None, MARK_SPACES if has_marks else {"type": "NFC"})
            and bool(model.get("byte_fallback")) == has_marks
            # Added tokens are found before spaces become marks.
            and not any({*e["content"]} & {*" ▁"} for e in added if has_marks and e["normalized"])
            and not any(map(model.get, _UNSUPPORTED))
            and not any(each[option] for each in added for option in _UNSUPPORTED_OF_ADDED)
            # NFC joins only U+0338 to the last character of tokens such as "<|endoftext|>".
            and all(NFC().normalize_str(each["content"]) == each["content"] for each in added)
            and ids.keys() >= {symbols[byte] for byte in _UTF8_BYTES}
            and (has_marks or len(rank_of) == len(merges))
            and all(
                has_marks or max(rank_of.get(a, -1), rank_of.get(b, -1)) < n
                for n, (a, b) in enumerate(merges)
            )
        ):
            raise InputError(
                "an exported graph supports only the BPE of RoBERTa, ModernBERT and mmBERT"
            )
        self._prepends = splitter.get("prepend_scheme", "never")  # a mark
        self.has_offsets = not splitter.get("add_prefix_space") and self._prepends == "never"
        self._composition = Composition() if rules["normalizer"] and not has_marks else None
        self._byte_ids = np.array([ids.get(symbol, 0) for symbol in symbols], np.int32)
        self._size = len(vocabulary)
        self._num_bytes = np.array([*map(len, vocabulary.tokens)], np.int64)
        if has_marks:
            # Each mark begins a word, or marks in a row do so together, or marks begin no words,
            # because a token has one after another character.
            self._has_word_each = splitter.get("split", False)
            is_inner = any(WORD_MARK in (a + b).lstrip(WORD_MARK) for a, b in merges)
            self._has_words = self._has_word_each or not is_inner
            known = {token: n for token, n in ids.items() if len(token) == 1}
            self._known_ids = word_ops.make_hash_table([*known], [*known.values()], default=_NONE)
            widths = [1 if t in {*symbols} else len(t.encode()) for t in vocabulary.tokens]
            self._num_bytes = np.array(widths, np.int64)
        tokens, token_ids = [e["content"] for e in added], [e["id"] for e in added]
        self._num_bytes[token_ids] = [len(token.encode()) for token in tokens]
        # The longest alternative comes first, because the pattern finds the first that matches.
        self._added_pattern = "|".join(map(re.escape, sorted(tokens, key=len, reverse=True)))
        if added:
            self._added_ids = word_ops.make_hash_table(tokens, token_ids, default=_NONE)
        pairs = np.array([(ids[a], ids[b]) for a, b in merges], np.int64).reshape(-1, 2)
        self._merged = np.array([*(ids[a + b] for a, b in merges), 0], np.int32)
        ranks = np.arange(len(pairs), dtype=np.int32)
        self._ranks = word_ops.make_hash_table(pairs @ [self._size, 1], ranks, default=_NO_MERGE)

    def __call__(self, text: tf.Tensor) -> word_ops.TextTokens:
        with tf.device("CPU:0"):
            source = word_ops.decode_points(text, end="\n")
            if not (self.has_offsets or self._has_marks):
                lacks_space = tf.gather(source.values, source.splits[:-1]) != _SPACE_POINT
                lacks_space &= source.splits[1:] - source.splits[:-1] > 1  # it is not empty
                source = word_ops.decode_points(tf.where(lacks_space, " ", "") + text, end="\n")
            points = self._composition(source) if self._composition else source
            kinds = word_ops.look_up(_kinds(), points.values)
            ends = points.splits[1:, None] - 1
            kinds = tf.tensor_scatter_nd_update(kinds, ends, tf.fill(tf.shape(ends)[:1], _END))
            ids = self._ids(points, kinds)
            if self._prepends != "never":
                zeros = tf.zeros_like(ids.values, tf.int64)
                return word_ops.TextTokens(ids, zeros, zeros, source)
            values = self._with_marks(points.values)
            widths = word_ops.utf8_widths(values) * tf.cast(kinds != _END, tf.int64)
            point_indices = tf.repeat(tf.range(tf.size(widths, tf.int64)), widths)
            byte_ends = tf.cumsum(tf.gather(self._num_bytes, ids.values))
            starts = tf.gather(point_indices, word_ops.previous(byte_ends))
            ends = tf.gather(point_indices, byte_ends - 1) + 1
            # Offsets exclude the spaces at both ends of a token, as with `trim_offsets`.
            is_visible = points.values != _SPACE_POINT
            visible, before = tf.where(is_visible)[:, 0], word_ops.num_before(is_visible)
            starts = tf.minimum(tf.gather(visible, tf.gather(before, starts)), ends)
            visible_ends = tf.pad(visible + 1, [[1, 0]])
            ends = tf.maximum(starts, tf.gather(visible_ends, tf.gather(before, ends)))
            source_ends = tf.gather(points.source_indices, ends - 1) + 1
            source_starts = tf.gather(points.source_indices, starts)
            source_starts = tf.where(starts == ends, source_ends, source_starts)
            return word_ops.TextTokens(ids, source_starts, source_ends, source)

    def _ids(self, points: word_ops.CodePoints, kinds: tf.Tensor) -> tf.RaggedTensor:
        """Returns token ids, int32 [B,(tokens)], of texts and the kinds of their characters."""
        added_ids, is_inside = self._added(points)
        is_added, is_end = added_ids != _NONE, kinds == _END
        # An added token divides its text into two, which are split into words separately.
        values, kinds = tf.where(is_added, 0, points.values), tf.where(is_added, _END, kinds)
        starts_word = (self._starts_marked_word if self._has_marks else _starts_word)(values, kinds)
        starts_word &= tf.logical_not(is_inside)
        values = self._with_marks(points.values)
        words = word_ops.from_row_starts(values, tf.where(starts_word)[:, 0])
        is_word = tf.logical_not(tf.boolean_mask(is_end, starts_word))
        words = tf.boolean_mask(tf.strings.unicode_encode(words, "UTF-8"), is_word)
        added_ids = tf.boolean_mask(tf.boolean_mask(added_ids, starts_word), is_word)
        # An added token becomes one symbol, so that it takes part in no merge.
        words = tf.where(added_ids == _NONE, words, " ")
        parts, known_ids, word_ids = words, added_ids, tf.range(tf.size(words, tf.int64))
        if self._has_marks:  # symbols are the known characters and the bytes of the others
            if self._prepends != "never":
                is_first = word_ops.previous(
                    is_end if self._prepends == "first" else kinds == _END, filler=True
                )
                is_first = tf.boolean_mask(tf.boolean_mask(is_first, starts_word), is_word)
                lacks_mark = (
                    is_first & (added_ids == _NONE) & (tf.strings.substr(words, 0, 3) != WORD_MARK)
                )
                words = tf.where(lacks_mark, WORD_MARK, "") + words
            characters = tf.strings.unicode_split(words, "UTF-8")
            parts, word_ids = characters.values, characters.value_rowids()
            added_ids = tf.gather(added_ids, word_ids)
            known_ids = tf.where(added_ids == _NONE, self._known_ids.lookup(parts), added_ids)
            parts = tf.where(known_ids == _NONE, parts, " ")
        symbols = tf.strings.bytes_split(parts)
        byte_values = tf.reshape(tf.io.decode_raw(symbols.values, tf.uint8), [-1])
        ids = tf.gather(self._byte_ids, tf.cast(byte_values, tf.int32))
        known_ids = tf.gather(known_ids, symbols.value_rowids())
        ids = tf.where(known_ids == _NONE, ids, known_ids)
        ids, word_ids = self._merge(ids, tf.gather(word_ids, symbols.value_rowids()))
        of_words = word_ops.from_value_rowids(ids, word_ids, nrows=tf.size(words, tf.int64))
        splits = tf.gather(word_ops.num_before(starts_word & tf.logical_not(is_end)), points.splits)
        return word_ops.merge_rows(of_words, splits)

    def _with_marks(self, values: tf.Tensor) -> tf.Tensor:
        return tf.where((values == _SPACE_POINT) & self._has_marks, _MARK_POINT, values)

    def _starts_marked_word(self, values: tf.Tensor, kinds: tf.Tensor) -> tf.Tensor:
        """Returns whether a word of Gemma's BPE begins at each code point, bool [N]."""
        is_mark = self._with_marks(values) == _MARK_POINT
        follows_mark = word_ops.previous(is_mark) & (not self._has_word_each)
        starts_word = is_mark & tf.logical_not(follows_mark) & self._has_words
        return starts_word | (kinds == _END) | (word_ops.previous(kinds, filler=_END) == _END)

    def _added(self, points: word_ops.CodePoints) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the added token at each code point, or _NONE, and whether it began before."""
        if not self._added_pattern:
            return tf.fill(tf.shape(points.values), _NONE), points.values < 0
        texts = word_ops.from_row_splits(points.values, points.splits)
        texts = tf.strings.unicode_encode(texts[:, :-1], "UTF-8")
        marked = tf.strings.regex_replace(texts, self._added_pattern, _MARK + rb"\0" + _MARK)
        parts = tf.strings.split(marked, _MARK)
        ends = tf.ones([parts.nrows(), 1], tf.int32)
        lengths = tf.concat([tf.strings.length(parts, unit="UTF8_CHAR"), ends], axis=1).values
        ids = tf.concat([self._added_ids.lookup(parts), _NONE * ends], axis=1).values
        parts = tf.repeat(tf.range(tf.size(lengths)), lengths)
        ids = tf.gather(ids, parts)
        return ids, (ids != _NONE) & (parts == word_ops.previous(parts, filler=_NONE))

    def _merge(self, ids: tf.Tensor, word_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Merges tokens, int32 [N], of words, int64 [N], until no pair can be merged."""

        def ranks_of(ids, word_ids):
            pairs = tf.cast(ids[:-1], tf.int64) * self._size + tf.cast(ids[1:], tf.int64)
            ranks = tf.where(word_ids[:-1] == word_ids[1:], self._ranks.lookup(pairs), _NO_MERGE)
            return tf.pad(ranks, [[0, 1]], constant_values=_NO_MERGE)[: tf.size(ids)]

        def step(ids, word_ids, ranks):
            lowest = tf.gather(tf.math.segment_min(ranks, word_ids), word_ids)
            is_left = word_ops.every_second((ranks == lowest) & (ranks < _NO_MERGE))
            if self._has_marks:  # only the first pair: its merge may create a pair of lower rank
                index = tf.where(is_left, tf.range(tf.size(ids)), _NO_MERGE)
                is_left &= index == tf.gather(tf.math.segment_min(index, word_ids), word_ids)
            merged = tf.gather(self._merged, tf.minimum(ranks, len(self._merged) - 1))
            is_kept = tf.logical_not(word_ops.previous(is_left))
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


def _starts_word(values: tf.Tensor, kinds: tf.Tensor) -> tf.Tensor:
    """Returns whether a word begins at each code point, bool [N]."""
    # The pattern is 's|'t|'re|'ve|'m|'ll|'d| ?L+| ?N+| ?[^\sLN]+|\s+(?!\S)|\s+
    changes = kinds != word_ops.previous(kinds)
    starts_word = tf.where(
        kinds == _SPACE,
        changes | word_ops.following((kinds != _END) & (kinds != _SPACE)),
        (changes & tf.logical_not(word_ops.previous(values == _SPACE_POINT))) | (kinds == _END),
    )
    for ending in ("s", "t", "m", "d", "re", "ve", "ll"):  # after an apostrophe
        is_contraction = starts_word & (values == _APOSTROPHE)
        for distance, letter in enumerate(ending, start=1):
            is_contraction &= word_ops.following(values == ord(letter), distance)
        starts_word &= tf.logical_not(word_ops.previous(is_contraction))
        starts_word |= word_ops.previous(is_contraction, 1 + len(ending))
    return starts_word


@cache
def _kinds() -> word_ops.CodePointTable:
    """Returns the kind of each character: `tokenizers` joins neighbors of one kind to a word."""
    split = ByteLevel(add_prefix_space=False).pre_tokenize_str

    def kinds_of(block: str) -> np.ndarray:
        block, kinds = word_ops.replace_surrogates(block), np.full(len(block), _SPACE, np.int32)
        for kind, neighbor in ((_OTHER, "!"), (_LETTER, "a"), (_NUMBER, "1")):
            if len(split(neighbor + block)) == 1:
                return np.full(len(block), kind, np.int32)
            words = split("".join(f"{neighbor}{each}\n" for each in block))
            spans = np.array([span for _, span in words])
            is_joined = (spans[:, 0] % 3 == 0) & (spans[:, 1] == spans[:, 0] + 2)
            kinds[spans[is_joined, 0] // 3] = kind
        return kinds

    return word_ops.make_table(kinds_of)


def _byte_symbols() -> list[str]:
    """Returns the characters that represent bytes 0 to 255 (Radford et al. 2019, encoder.py)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(0x100)]
