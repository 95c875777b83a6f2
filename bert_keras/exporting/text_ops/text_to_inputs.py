"""Tokenizes, divides and packs texts or pairs of texts inside a TF graph."""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from bert_keras.errors import InputError
from bert_keras.exporting.text_ops import words as word_ops
from bert_keras.exporting.text_ops.byte_pairs import BytePairs
from bert_keras.exporting.text_ops.unigrams import Unigrams
from bert_keras.files import StrPath
from bert_keras.text.fast_tokenizer import is_unigram, vocabulary_from
from bert_keras.text.packing import MASK, MASK_PATTERN
from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS

# The model computes this many rows at a time, so that a longer text does not need more memory.
WINDOWS_AT_ONCE = 8


class TextRows(NamedTuple):
    """Rows of one or two texts: text k of row b is `values[starts[k][b]:][: lengths[k][b]]`."""

    values: tf.Tensor  # int32 [tokens], the token ids of all texts
    starts: list[tf.Tensor]  # int64 [B] for each of the one or two texts; so are `lengths`
    lengths: list[tf.Tensor]


class UnitTokens(NamedTuple):
    """Tokens of the W units of B texts, with the positions of the units in the texts."""

    ids: tf.RaggedTensor  # int32 [B,(tokens)]
    first_tokens: tf.Tensor  # int64 [W], the index of each unit's first token
    splits: tf.Tensor  # int64 [B+1], the index of each text's first unit, then W
    starts: tf.Tensor  # int64 [W], the index in `source` of each unit's first character
    ends: tf.Tensor  # int64 [W], one more than the index of its last character
    source: word_ops.CodePoints  # all texts with a space after each


class TextToInputs(tf.Module):
    """Tokenizes and packs texts to the same ids as `bert_keras.text` and `pack`.

    Args:
        file: The file of `write_vocabulary`, which becomes an asset of the SavedModel.
        lowercase: Whether to lower-case texts. A tokenizer.json has its own rule instead.
        max_length: The most tokens of a row, special tokens included.
        shortens_first: The field of the vocabulary, which the file lacks.
    """

    def __init__(
        self, file: StrPath, *, lowercase: bool, max_length: int, shortens_first: bool = False
    ):
        super().__init__()
        self.vocabulary = vocabulary_from(file)
        self._shortens_first = shortens_first
        self.lowercase, self.max_length = lowercase, max_length
        self._rules_tokenizer = None
        if self.vocabulary.rules:
            self._asset = tf.saved_model.Asset(os.fspath(file))
            Rules = Unigrams if is_unigram(self.vocabulary) else BytePairs
            self._rules_tokenizer = Rules(self.vocabulary)
            return
        column = tf.lookup.TextFileIndex
        lines = tf.lookup.TextFileInitializer(
            os.fspath(file), tf.string, column.WHOLE_LINE, tf.int64, column.LINE_NUMBER
        )
        self._table = tf.lookup.StaticHashTable(lines, self.vocabulary.unk_id)
        max_bytes = 4 * MAX_WORD_CHARACTERS  # UTF-8 takes at most 4 bytes a character
        self._wordpiece = tf_text.WordpieceTokenizer(
            self._table, max_bytes_per_word=max_bytes, token_out_type=tf.int32
        )

    def __call__(self, text: tf.Tensor, text_pair: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """Converts texts, string [B], or pairs to inputs; long ones are cut as in `pack`."""
        texts = tf.stack([text] if text_pair is None else [text, text_pair])
        tokens = self.tokens(tf.reshape(texts, [-1]))
        starts = tf.unstack(tf.reshape(tokens.row_starts(), tf.shape(texts)))
        lengths = tf.unstack(tf.reshape(tokens.row_lengths(), tf.shape(texts)))
        return self.packed(TextRows(tokens.values, starts, self._truncated(lengths)))

    def _truncated(self, lengths: list[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the lengths that fit `max_length`, as `text.packing.truncated_lengths` does."""
        limit = self.max_length - self.vocabulary.num_specials(len(lengths))
        if len(lengths) == 1:
            return [tf.minimum(lengths[0], limit)]
        first, second = lengths
        gains = tf.cast(first > second, first.dtype) if self._shortens_first else 1
        first = tf.minimum(first, tf.maximum(limit - second, (limit + gains) // 2))
        return [first, tf.minimum(second, limit - first)]

    def packed(self, texts: TextRows) -> dict[str, tf.Tensor]:
        """Adds the special tokens and the padding to rows that fit `max_length`, int32 [B,T]."""
        specials, num_rows = self.vocabulary.specials, tf.size(texts.starts[0])
        sep = tf.fill([num_rows, 1], self.vocabulary.sep_id)
        parts = [tf.fill([num_rows, 1], self.vocabulary.cls_id)]
        for start, length in zip(texts.starts, texts.lengths, strict=True):
            if len(parts) > 1:
                parts += [sep] * (specials.num_separators - 1)
            indices = tf.ragged.range(start, start + length)
            parts += [indices.with_values(tf.gather(texts.values, indices.values)), sep]
        input_ids = tf.concat(parts, axis=1)
        mask = tf.sequence_mask(input_ids.row_lengths(), dtype=tf.int32)
        first = tf.sequence_mask(texts.lengths[0] + 2, tf.shape(mask)[1], tf.int32)
        return {
            "input_ids": input_ids.to_tensor(self.vocabulary.pad_id),
            "input_mask": mask,
            "segment_ids": specials.second_segment * (mask - first),
        }

    def tokens(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the token ids of texts, string [B], as int32 [B,(tokens)]."""
        return self.tokens_with_offsets(text).ids

    def check_has_offsets(self) -> None:
        """Raises InputError if `tokens_with_offsets` cannot locate tokens in the source text."""
        if not getattr(self._rules_tokenizer, "has_offsets", True):
            raise InputError("set add_prefix_space to false in tokenizer.json to locate tokens")

    def tokens_with_offsets(self, text: tf.Tensor) -> word_ops.TextTokens:
        """Returns the tokens of texts, string [B]; an [UNK] spans its whole word."""
        if self._rules_tokenizer is not None:
            return self._rules_tokenizer(text)
        words, source_indices, source = word_ops.split_words(text, lowercase=self.lowercase)
        tokens, byte_starts, _ = self._wordpiece.tokenize_with_offsets(_word_strings(words))
        with tf.device("CPU:0"):
            widths = word_ops.utf8_widths(words.flat_values)
            bytes_before = tf.pad(tf.cumsum(widths), [[1, 0]])
            word_bytes = tf.gather(bytes_before, words.values.row_starts())
            token_bytes = tf.gather(word_bytes, tokens.value_rowids()) + byte_starts.values
            starts = _lower_bounds(bytes_before, token_bytes)
            characters = word_ops.from_row_starts(source_indices.flat_values, starts)
            token_ids = word_ops.merge_rows(tokens, words.row_splits)
            return word_ops.TextTokens(token_ids, *_bounds_of(characters), source)

    def unit_tokens(self, text: tf.Tensor, *, unit: str) -> UnitTokens:
        """Returns the tokens of texts with the units of `kinds.words.tokenize_units`."""
        if unit == "word":
            return self._word_tokens(text)
        self.check_has_offsets()
        ids, starts, ends, source = self.tokens_with_offsets(text)
        with tf.device("CPU:0"):
            is_kept = tf.logical_not(source.has_any(word_ops.DROPPED))
            num_spaces = word_ops.num_before(is_kept & source.has_any(word_ops.SPACE))
            before = tf.gather(num_spaces, starts)
            is_first = tf.ones_like(starts, tf.bool)
            if unit == "eojeol":
                texts = ids.value_rowids()
                is_first = before != word_ops.previous(before, filler=-1)
                is_first |= texts != word_ops.previous(texts, filler=-1)
            with_text = tf.where(tf.gather(num_spaces, ends) - before < ends - starts)[:, 0]
            unit_numbers = word_ops.num_before(is_first)[1:]
            numbers, rows = tf.unique(tf.gather(unit_numbers, with_text), tf.int64)
            first_tokens = tf.gather(tf.where(is_first)[:, 0], numbers - 1)
            splits = _lower_bounds(first_tokens, ids.row_splits)
            unit_starts = tf.math.segment_min(tf.gather(starts, with_text), rows)
            unit_ends = tf.math.segment_max(tf.gather(ends, with_text), rows)
            return UnitTokens(ids, first_tokens, splits, unit_starts, unit_ends, source)

    def _word_tokens(self, text: tf.Tensor) -> UnitTokens:
        """Tokenizes each word by itself, as `kinds.words.tokenize_words` does."""
        lowercase = self.lowercase and self._rules_tokenizer is None
        words, indices, source = word_ops.split_words(text, lowercase=lowercase)
        if self._rules_tokenizer is None:
            tokens = self._wordpiece.tokenize(_word_strings(words))
        else:
            texts = tf.strings.unicode_encode(words.values, "UTF-8")
            tokens = self._rules_tokenizer(" " + texts)
            num_missing = tf.cast(tokens.ids.row_lengths() == 0, tf.int64)
            unknown = tf.fill([tf.reduce_sum(num_missing)], self.vocabulary.unk_id)
            unknown = word_ops.RaggedTensor.from_row_lengths(unknown, num_missing, validate=False)
            tokens: Any = tf.concat([tokens.ids, unknown], axis=1)
        with tf.device("CPU:0"):
            splits, ids = words.row_splits, word_ops.merge_rows(tokens, words.row_splits)
            return UnitTokens(ids, tokens.row_starts(), splits, *_bounds_of(indices.values), source)


class MaskedTextToInputs(TextToInputs):
    """A `TextToInputs` that reads "[MASK]" in texts as the mask token, as `ids_with_masks` does."""

    def tokens(self, text: tf.Tensor) -> tf.RaggedTensor:
        parts = tf.strings.split(tf.strings.regex_replace(text, MASK_PATTERN, MASK), MASK)
        tokens = super().tokens(parts.values)
        masks = tf.fill([tokens.nrows(), 1], self.vocabulary.mask_id)
        with_masks = tf.concat([masks, tokens], axis=1)
        return word_ops.merge_rows(with_masks, parts.row_splits)[:, 1:]


def in_batches(
    rows: dict[str, tf.Tensor], function: Callable[..., Mapping[str, tf.Tensor]]
) -> dict[str, tf.Tensor]:
    """Calls `function(**rows)` for WINDOWS_AT_ONCE rows at a time and concatenates its outputs."""
    traceable: Any = tf.function(function, autograph=False)
    of_batch = traceable.get_concrete_function(
        **{name: tf.TensorSpec([None, *each.shape[1:]], each.dtype) for name, each in rows.items()}
    )
    num_rows = tf.shape(next(iter(rows.values())))[0]
    num_batches = (num_rows + WINDOWS_AT_ONCE - 1) // WINDOWS_AT_ONCE
    outputs = {
        name: tf.TensorArray(spec.dtype, num_batches, infer_shape=False, element_shape=spec.shape)
        for name, spec in of_batch.structured_outputs.items()
    }

    def step(index, outputs):
        first = index * WINDOWS_AT_ONCE
        batch = of_batch(**{name: each[first:][:WINDOWS_AT_ONCE] for name, each in rows.items()})
        return index + 1, {name: array.write(index, batch[name]) for name, array in outputs.items()}

    _, outputs = tf.while_loop(
        lambda index, outputs: index < num_batches, step, (0, outputs), parallel_iterations=1
    )
    return {name: array.concat() for name, array in outputs.items()}


def _word_strings(words: tf.RaggedTensor) -> tf.Tensor:
    """Returns the text of each word, string [W]; words that are too long become [UNK]."""
    is_long = words.values.row_lengths() > MAX_WORD_CHARACTERS
    return tf.where(is_long, "[UNK]", tf.strings.unicode_encode(words.values, "UTF-8"))


def _bounds_of(indices: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the smallest index in each row, and the largest plus 1."""
    values, rows = indices.values, indices.value_rowids()
    return tf.math.segment_min(values, rows), tf.math.segment_max(values, rows) + 1


def _lower_bounds(sorted_values: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Does the same as `tf.searchsorted`, which refuses an empty tensor."""
    rows = {"sorted_inputs": sorted_values[None], "values": values[None]}
    return tf.raw_ops.LowerBound(**rows, out_type=tf.int64)[0]
