"""Tokenizes text with a Unigram model inside a TF graph.

A Viterbi search finds the best tokens of all words of a batch together. It adds scores in float64,
as `tokenizers` does. The op of tensorflow-text adds float32, so equal scores could differ.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.exporting.text_ops import words as word_ops
from bert_keras.exporting.text_ops.normalization import Normalization
from bert_keras.text.fast_tokenizer import rules_of
from bert_keras.text.vocab import WORD_MARK, Vocabulary

# The score of an unknown letter is this much lower than the lowest score of a token (`tokenizers`).
_UNKNOWN_PENALTY = 10.0
_POINTS = 1 << 21  # exceeds the largest code point
_MAX_LETTERS = 4096  # of a word; 65,536 letters without a space would take a second
_NONE = -1


class Unigrams(tf.Module):
    """Tokenizes texts, string [B], with the same ids and offsets as `FastTokenizer`.

    Bytes that are not valid UTF-8 are dropped. The search has a step for each letter of the longest
    word; a word is divided after each 4,096 letters, and no token goes from one part to the next.
    """

    def __init__(self, vocabulary: Vocabulary):
        super().__init__()
        rules = rules_of(vocabulary)
        splitter = rules["pre_tokenizer"]
        splits = [each["type"] for each in splitter.get("pretokenizers", (splitter,))]
        if not (
            splits == ["WhitespaceSplit", "Metaspace"]
            and splitter["pretokenizers"][1]["prepend_scheme"] == "always"
            and not rules["model"].get("byte_fallback")
            and all(each["special"] for each in rules["added_tokens"])
        ):
            raise InputError(
                "an exported graph supports only Unigram with WhitespaceSplit, then Metaspace with "
                f"prepend_scheme always, without byte_fallback and added tokens, not {splits}"
            )
        self._normalization = Normalization(rules["normalizer"] or {})
        self.tree = _Tree(rules["model"], vocabulary)

    def __call__(self, text: tf.Tensor) -> word_ops.TextTokens:
        with tf.device("CPU:0"):
            source = word_ops.decode_points(text)
            points = self._normalization(source)
            is_letter = tf.logical_not(points.has_any(word_ops.SPACE))
            is_first = is_letter & tf.logical_not(word_ops.previous(is_letter))
            words = points.words(is_first=is_first, is_space=tf.logical_not(is_letter))
            # The word mark "▁" has the position of the word's first letter.
            letters = tf.concat([words.values[:, :1], words.values], axis=1)
            marks = tf.fill([letters.nrows(), 1], ord(WORD_MARK))
            word_letters = words.values.with_values(tf.gather(points.values, words.flat_values))
            marked: Any = tf.concat([marks, word_letters], axis=1)
            tokens, starts, word_ids = self.tree.best_tokens(marked)
            of_words = word_ops.from_value_rowids(tokens, word_ids, nrows=letters.nrows())
            source_indices = tf.gather(points.source_indices, letters.values)
            ends = tf.concat([starts, [tf.size(source_indices, tf.int64)]], axis=0)[1:]
            return word_ops.TextTokens(
                word_ops.merge_rows(of_words, words.row_splits),
                tf.gather(source_indices, starts),
                tf.gather(source_indices, ends - 1) + 1,
                source,
            )


class _Tree(tf.Module):
    """A trie of the tokens; a state is a prefix of a token. Shapes: X letters, L token lengths."""

    def __init__(self, model: dict, vocabulary: Vocabulary):
        super().__init__()
        hidden = (*vocabulary.specials.tokens, *vocabulary.specials.unused)
        pieces = enumerate(model["vocab"])
        tokens = [(token, n, score) for n, (token, score) in pieces if token not in hidden]
        self.unk_id = model["unk_id"]
        self.unknown_score = min(score for _, score in model["vocab"]) - _UNKNOWN_PENALTY
        self.longest = max(len(token) for token, _, _ in tokens)
        states = {"": 0}
        for token, _, _ in tokens:
            for end in range(1, len(token) + 1):
                states.setdefault(token[:end], len(states))
        numbers = np.zeros(len(states) + 1, np.int32)  # the last row stands for _NONE
        scores = np.full(len(states) + 1, -np.inf)
        for token, number, score in tokens:
            numbers[states[token]], scores[states[token]] = number, score
        with tf.device("CPU:0"):  # a graph stores a tensor once, but an array at each use
            self.tokens, self.scores = tf.constant(numbers), tf.constant(scores)
        steps = {states[p[:-1]] * _POINTS + ord(p[-1]): n for p, n in states.items() if p}
        keys, values = np.array([*steps], np.int64), np.array([*steps.values()], np.int32)
        self._steps = word_ops.make_hash_table(keys, values, default=_NONE)

    def best_tokens(self, words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Finds the tokens with the best total score for each word, int32 [W,(letters)] (Viterbi).

        Returns the id of each token, int32 [tokens], the index of its first letter and of its word.
        """
        letters, of_words = tf.range(tf.size(words.values, tf.int64)), words.value_rowids()
        is_start = (letters - tf.gather(words.row_starts(), of_words)) % _MAX_LETTERS == 0
        parts = word_ops.from_row_starts(words.values, tf.where(is_start)[:, 0])
        scores_XL, tokens_XL, lengths_L = self._tokens_ending(parts)
        part_ids, chosen = parts.value_rowids(), _best_lengths(parts, scores_XL)
        first = letters + 1 - tf.gather(lengths_L, chosen)
        # The last letter of the preceding token; the first token of a part precedes itself.
        preceding = tf.where(first > tf.gather(parts.row_starts(), part_ids), first - 1, letters)
        is_last = letters == tf.gather(parts.row_splits[1:], part_ids) - 1

        def backward(distance, preceding, is_last):
            # Marks the last letters of up to 2 * `distance` tokens before the last one.
            found = tf.gather(preceding, tf.where(is_last))
            ends = tf.fill(tf.shape(found)[:1], True)
            is_last = tf.tensor_scatter_nd_update(is_last, found, ends)
            return 2 * distance, tf.gather(preceding, preceding), is_last

        *_, is_last = tf.while_loop(
            lambda distance, *_: distance < parts.bounding_shape(axis=1),
            backward,
            (tf.constant(1, tf.int64), preceding, is_last),
        )
        last = tf.where(is_last)[:, 0]
        tokens = tf.gather_nd(tokens_XL, tf.stack([last, tf.gather(chosen, last)], axis=1))
        first, word_ids = tf.gather(first, last), tf.gather(of_words, last)
        # Adjacent unknown letters form one unknown token.
        is_unknown = tokens == self.unk_id
        is_repeated = is_unknown & word_ops.previous(is_unknown)
        is_repeated &= word_ids == word_ops.previous(word_ids)
        indices = tf.where(tf.logical_not(is_repeated))[:, 0]
        return tf.gather(tokens, indices), tf.gather(first, indices), tf.gather(word_ids, indices)

    def _tokens_ending(self, words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns scores and ids [X,L] of the tokens that end at each letter, and lengths [L]."""
        # The score is -inf where no token has this length. The longest one first: it wins a tie.
        letters, word_ends = words.values, tf.gather(words.row_splits[1:], words.value_rowids())
        num_remaining = word_ends - tf.range(tf.size(letters, tf.int64))
        states, scores, tokens = tf.zeros_like(letters), [], []
        for length in range(1, self.longest + 1):
            next_letters = tf.cast(word_ops.following(letters, length - 1), tf.int64)
            next_states = self._steps.lookup(tf.cast(states, tf.int64) * _POINTS + next_letters)
            has_next = (states != _NONE) & (num_remaining >= length)
            states = tf.where(has_next, next_states, _NONE)
            state = tf.math.floormod(states, tf.size(self.scores))
            score, token = tf.gather(self.scores, state), tf.gather(self.tokens, state)
            if length == 1:
                is_known = score > -np.inf
                score = tf.where(is_known, score, self.unknown_score)
                token = tf.where(is_known, token, self.unk_id)
            scores.insert(0, word_ops.previous(score, length - 1, filler=-np.inf))
            tokens.insert(0, word_ops.previous(token, length - 1))
        lengths = tf.range(self.longest, 0, -1, tf.int64)
        return tf.stack(scores, axis=1), tf.stack(tokens, axis=1), lengths


def _best_lengths(words: tf.RaggedTensor, scores_XL: tf.Tensor) -> tf.Tensor:
    """Returns the best token that ends at each letter, as a column of `scores_XL`, int64 [X]."""
    longest = tf.cast(words.bounding_shape(axis=1), tf.int32)
    order = tf.argsort(words.row_lengths(), direction="DESCENDING")
    starts = tf.gather(words.row_starts(), order)
    lengths = tf.cast(words.row_lengths(), tf.int32)
    # The number of words that have a letter for each step; these are the first ones of `order`.
    counts = tf.cumsum(tf.math.bincount(lengths), exclusive=True, reverse=True)
    chosen = tf.TensorArray(tf.int64, longest, element_shape=[None], infer_shape=False)

    def forward(number, best_WL, chosen):
        # `best_WL` holds the highest scores up to each of the L letters before this one.
        count = counts[number]
        letters = starts[:count] + tf.cast(number, tf.int64)
        best_WL = best_WL[:count]
        sums_WL = best_WL + tf.gather(scores_XL, letters)
        best_WL = tf.concat([best_WL[:, 1:], tf.reduce_max(sums_WL, axis=1)[:, None]], axis=1)
        return number + 1, best_WL, chosen.write(number, tf.argmax(sums_WL, axis=1))

    best_WL = tf.zeros([words.nrows(), tf.shape(scores_XL)[1]], tf.float64)
    *_, chosen = tf.while_loop(
        lambda number, *_: number < longest,
        forward,
        (tf.constant(0), best_WL, chosen),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None]), None),
    )
    of_steps = tf.ragged.range(counts, row_splits_dtype=tf.int64)
    letters = tf.gather(starts, of_steps.values) + of_steps.value_rowids()
    return tf.scatter_nd(letters[:, None], chosen.concat(), tf.shape(words.values, tf.int64))
