"""Tokenizes text with a Unigram model inside a TF graph.

A table normalizes each character as the library `tokenizers` does. A Viterbi search then finds the
best tokens of all words of a batch together. tensorflow-text's SentencePiece tokenizer adds scores
in float32. `tokenizers` adds them in float64, which can give another result where two sequences
have equal scores ("ww" "w" and "w" "ww").
"""

import json
from collections.abc import Sequence
from functools import partial
from typing import cast

import numpy as np
import tensorflow as tf
from tokenizers import Tokenizer
from tokenizers.normalizers import Normalizer

from bert_keras.errors import InputError
from bert_keras.export.text_ops.flat import (
    RaggedTensor,
    every_second,
    following,
    previous,
)
from bert_keras.export.text_ops.unicode_tables import spellings_of, without_surrogates
from bert_keras.export.text_ops.words import Points, Tokens, given_points, respelled
from bert_keras.text.vocab import Vocabulary

# The normalizers of which ALBERT's rules consist. They drop accents, so the normal form of a
# character does not depend on its neighbours.
_NORMALIZERS = ("Replace", "NFKD", "StripAccents", "Lowercase", "Precompiled")
_NEEDED = ("NFKD", "StripAccents")
_BLANK, _DOUBLE_QUOTE, _WORD = map(ord, ' "▁')
_QUOTES = tuple(map(ord, "`'"))  # two equal ones become a double quote
# The score of an unknown letter is this much lower than the lowest score of a token (`tokenizers`).
_UNKNOWN_PENALTY = 10.0
_POINTS = 1 << 21  # exceeds the largest code point
_NONE = -1


class Unigrams(tf.Module):
    """Tokenizes texts, string [B], with the same ids and offsets as `FastTokenizer`.

    Bytes that are not valid UTF-8 are dropped.

    Args:
        vocabulary: A vocabulary with the rules of an ALBERT tokenizer.json.

    Raises:
        InputError: The rules are not those of ALBERT.
    """

    knows_places = True

    def __init__(self, vocabulary: Vocabulary):
        super().__init__()
        rules = json.loads(vocabulary.rules)
        _check(rules)
        self._spellings = spellings_of(partial(_normalised, Tokenizer.from_str(vocabulary.rules)))
        self._tree = _Tree(rules["model"], vocabulary)

    def __call__(self, text: tf.Tensor) -> Tokens:
        with tf.device("CPU:0"):
            given = given_points(text)
            read = respelled(_with_double_quotes(given), self._spellings)
            is_letter = read.points != _BLANK
            words = read.words(
                is_first=is_letter & tf.logical_not(previous(is_letter, 1)),
                is_space=tf.logical_not(is_letter),
            )
            # The word mark "▁" has the position of the word's first letter.
            letters = tf.concat([words.values[:, :1], words.values], axis=1)
            marks = tf.fill([letters.nrows(), 1], _WORD)
            spelled = words.values.with_values(tf.gather(read.points, words.flat_values))
            pieces, firsts, owners = _best_pieces(
                cast(tf.RaggedTensor, tf.concat([marks, spelled], axis=1)), self._tree
            )
            of_words = RaggedTensor.from_value_rowids(
                pieces, owners, nrows=letters.nrows(), validate=False
            )
            splits = tf.gather(of_words.row_splits, words.row_splits)
            places = tf.gather(read.places, letters.values)
            next_firsts = tf.concat([firsts, [tf.size(places, tf.int64)]], axis=0)[1:]
            return Tokens(
                RaggedTensor.from_row_splits(pieces, splits, validate=False),
                tf.gather(places, firsts),
                tf.gather(places, next_firsts - 1) + 1,
                given,
            )


class _Tree(tf.Module):
    """A trie of the tokens. Each state is a prefix of a token."""

    def __init__(self, model: dict, vocabulary: Vocabulary):
        super().__init__()
        pieces = [
            (piece, number, score)
            for number, (piece, score) in enumerate(model["vocab"])
            if piece not in vocabulary.specials.pieces
        ]
        self.unk_id = model["unk_id"]
        self.unknown = min(score for _, score in model["vocab"]) - _UNKNOWN_PENALTY
        self.longest = max(len(piece) for piece, _, _ in pieces)
        states = {"": 0}
        for piece, _, _ in pieces:
            for end in range(1, len(piece) + 1):
                states.setdefault(piece[:end], len(states))
        self.pieces = np.zeros(len(states) + 1, np.int32)  # the last row stands for _NONE
        self.scores = np.full(len(states) + 1, -np.inf)
        for piece, number, score in pieces:
            self.pieces[states[piece]], self.scores[states[piece]] = number, score
        steps = {states[p[:-1]] * _POINTS + ord(p[-1]): n for p, n in states.items() if p}
        self._steps = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                np.array([*steps], np.int64), np.array([*steps.values()], np.int32)
            ),
            default_value=_NONE,
        )

    def step(self, states: tf.Tensor, letters: tf.Tensor) -> tf.Tensor:
        """Returns the state after each state and letter, int32 [N]; _NONE if there is none."""
        keys = tf.cast(states, tf.int64) * _POINTS + tf.cast(letters, tf.int64)
        return tf.where(states == _NONE, _NONE, self._steps.lookup(keys))


def _with_double_quotes(read: Points) -> Points:
    """Replaces two equal quotes by one double quote, as `tokenizers` does.

    The double quote has the index of the second quote.
    """
    is_quote = [read.points == quote for quote in _QUOTES]
    is_left = every_second(tf.reduce_any([each & following(each, 1) for each in is_quote], axis=0))
    points = tf.where(previous(is_left, 1), _DOUBLE_QUOTE, read.points)
    return read._replace(points=points).those(tf.logical_not(is_left))


def _best_pieces(words: tf.RaggedTensor, tree: _Tree) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Finds the sequence of tokens with the highest total score for each word (Viterbi).

    Args:
        words: int32 [W,(letters)], the code points of each word.
        tree: The trie of the tokens.

    Returns:
        For each of P tokens its id, int32 [P], the index of its first letter, int64 [P], and the
        index of its word, int64 [P].
    """
    scores_XL, pieces_XL, lengths_L = _pieces_ending(words, tree)
    firsts, lengths = words.row_starts(), words.row_lengths()
    # `best` holds the highest score up to each letter. Each word has one more entry, for the
    # position before its first letter.
    befores = firsts + tf.range(words.nrows())
    best = tf.zeros([tf.size(words.values, tf.int64) + words.nrows()], tf.float64)

    def forward(number, best, chosen):
        of_words = tf.where(lengths > number)[:, 0]
        letter = tf.gather(firsts, of_words) + number
        place = tf.gather(befores, of_words) + number + 1
        before_XL = tf.gather(best, tf.maximum(place[:, None] - lengths_L, 0))
        sums_XL = before_XL + tf.gather(scores_XL, letter)
        best = tf.tensor_scatter_nd_update(best, place[:, None], tf.reduce_max(sums_XL, axis=1))
        choice = tf.argmax(sums_XL, axis=1)
        return number + 1, best, tf.tensor_scatter_nd_update(chosen, letter[:, None], choice)

    longest = tf.reduce_max(tf.pad(lengths, [[0, 1]]))
    _, _, chosen = tf.while_loop(
        lambda number, best, chosen: number < longest,
        forward,
        (tf.constant(0, tf.int64), best, tf.zeros_like(words.value_rowids())),
    )

    def backward(ends, pieces):
        of_words = tf.where(ends > firsts)[:, 0]
        letter = tf.gather(ends, of_words) - 1
        choice = tf.gather(chosen, letter)
        start = letter + 1 - tf.gather(lengths_L, choice)
        piece = tf.gather_nd(pieces_XL, tf.stack([letter, choice], axis=1))
        pieces = tf.tensor_scatter_nd_update(pieces, start[:, None], piece)
        return tf.tensor_scatter_nd_update(ends, of_words[:, None], start), pieces

    _, pieces = tf.while_loop(
        lambda ends, pieces: tf.reduce_any(ends > firsts),
        backward,
        (words.row_splits[1:], tf.fill(tf.shape(chosen), _NONE)),
    )
    first = tf.where(pieces != _NONE)[:, 0]
    owners, pieces = tf.gather(words.value_rowids(), first), tf.gather(pieces, first)
    # Adjacent unknown letters form one unknown token.
    is_unknown = pieces == tree.unk_id
    follows = tf.pad((owners[1:] == owners[:-1]) & is_unknown[:-1], [[1, 0]])[: tf.size(pieces)]
    kept = tf.where(tf.logical_not(is_unknown & follows))[:, 0]
    return tf.gather(pieces, kept), tf.gather(first, kept), tf.gather(owners, kept)


def _pieces_ending(words: tf.RaggedTensor, tree: _Tree) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Finds the tokens that can end at each of X letters, one for each of L lengths.

    The longest token comes first: of tokens with equal total scores, the first is chosen.

    Returns:
        The scores, float64 [X,L], -inf where no token exists; the ids, int32 [X,L]; the lengths in
        letters, int64 [L].
    """
    letters, num_letters = words.values, tf.size(words.values, tf.int64)
    room = tf.gather(words.row_splits[1:], words.value_rowids()) - tf.range(num_letters)
    states, scores, pieces = tf.zeros_like(letters), [], []
    for length in range(1, tree.longest + 1):
        following = tf.pad(letters[length - 1 :], [[0, length - 1]])[:num_letters]
        states = tf.where(room >= length, tree.step(states, following), _NONE)
        state = tf.math.floormod(states, len(tree.scores))
        score, piece = tf.gather(tree.scores, state), tf.gather(tree.pieces, state)
        if length == 1:
            is_known = score > -np.inf
            score = tf.where(is_known, score, tree.unknown)
            piece = tf.where(is_known, piece, tree.unk_id)
        before = [[length - 1, 0]]
        scores.insert(0, tf.pad(score, before, constant_values=-np.inf)[:num_letters])
        pieces.insert(0, tf.pad(piece, before)[:num_letters])
    lengths = tf.range(tree.longest, 0, -1, tf.int64)
    return tf.stack(scores, axis=1), tf.stack(pieces, axis=1), lengths


def _check(rules: dict) -> None:
    normalizer, splitter = rules["normalizer"] or {}, rules["pre_tokenizer"]
    steps = [each["type"] for each in normalizer.get("normalizers", ())]
    splits = [each["type"] for each in splitter.get("pretokenizers", ())]
    if (
        not set(_NEEDED) <= set(steps) <= set(_NORMALIZERS)
        or splits != ["WhitespaceSplit", "Metaspace"]
        or splitter["pretokenizers"][1]["prepend_scheme"] != "always"
        or rules["model"].get("byte_fallback")
    ):
        raise InputError(
            f"the tokenizer normalises by {', '.join(steps)} and splits by {', '.join(splits)}; "
            "a graph here does what ALBERT's does, which drops accents (keep_accents false)"
        )


def _normalised(tokenizer: Tokenizer, block: str) -> Sequence[str]:
    """Normalizes each character of a block; white space becomes a space, where words are split."""
    block, normalizer = without_surrogates(block), cast(Normalizer, tokenizer.normalizer)
    joined = "a".join(block)
    if normalizer.normalize_str(joined) == joined:
        return block
    return [
        "".join(" " if part.isspace() else part for part in normalizer.normalize_str(each))
        for each in block
    ]
