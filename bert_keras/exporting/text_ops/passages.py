"""Divides the contexts of questions into windows and finds the best spans, inside a TF graph.

The rules are those of downstream/squad/windows.py and downstream/squad/answers.py. Scores are
float64, as in those files.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from bert_keras.exporting.text_ops import unicode_tables as tables
from bert_keras.exporting.text_ops.flat import num_before
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.exporting.text_ops.windows import TextRows, WindowRows, in_batches, window_rows
from bert_keras.exporting.text_ops.words import TextTokens

_LOW = float("-inf")


class Passages(NamedTuple):
    """X windows over the contexts of Q questions."""

    inputs: dict[str, tf.Tensor]  # the model's inputs, int32 [X,T] by name
    rows: WindowRows  # the windows of all questions
    tokens: TextTokens  # the tokens of all questions, then of all contexts
    num_between: int  # number of special tokens ([CLS], [SEP]) that precede a passage


class BestSpans(NamedTuple):
    """The best span of each of Q questions."""

    scores: tf.Tensor  # float64 [Q], start logit + end logit; -inf where no span exists
    first_tokens: tf.Tensor  # int64 [Q], the index of the first token in `Passages.tokens`
    last_tokens: tf.Tensor  # int64 [Q], the index of the last token
    null_scores: tf.Tensor  # float64 [Q], the lowest "no answer" score of the question's windows


def passages_of(
    question: tf.Tensor,
    context: tf.Tensor,
    *,
    reader: TextToInputs,
    stride: int,
    max_question_length: int,
) -> Passages:
    """Tokenizes questions and contexts and divides the contexts into windows.

    A context without tokens gives one window with an empty passage.

    Args:
        question: string [Q].
        context: string [Q].
        reader: Tokenizes and packs texts. Its `max_length` limits the tokens of a window.
        stride: Number of tokens between the starts of consecutive windows.
        max_question_length: Number of tokens after which a question is cut.
    """
    tokens = reader.tokens_with_offsets(tf.concat([question, context], axis=0))
    sizes = [tf.shape(question)[0], tf.shape(context)[0]]
    lengths = tf.split(tokens.ids.row_lengths(), sizes, num=2)
    rows = window_rows(
        TextRows(
            tokens.ids.values,
            tf.split(tokens.ids.row_starts(), sizes, num=2),
            [tf.minimum(lengths[0], max_question_length), lengths[1]],
        ),
        limit=reader.max_length - reader.vocabulary.num_specials(2),
        stride=stride,
    )
    return Passages(reader.packed(rows.texts), rows, tokens, reader.vocabulary.num_specials(2) - 1)


def best_spans(
    logits_of: Callable[..., dict[str, tf.Tensor]], passages: Passages, *, max_answer_length: int
) -> BestSpans:
    """Finds the span with the highest score for each question.

    Args:
        logits_of: Takes the model's inputs as keyword arguments and returns `start_logits` and
            `end_logits`, float32 [X,T]. It is called for at most WINDOWS_AT_ONCE windows.
        passages: The windows.
        max_answer_length: Largest number of tokens of a span.
    """
    rows, row_ids = passages.rows, passages.rows.row_ids
    question_length, length = rows.texts.lengths
    last = tf.gather(tf.math.segment_max(tf.range(tf.size(row_ids)), row_ids), row_ids)
    of_windows = {
        "passage_start": question_length + passages.num_between,
        "first_token": rows.texts.starts[1],
        "length": length,
        "index": rows.indices,
        "step": rows.steps,
        "size": rows.sizes,
        "last": tf.gather(rows.indices, last),
        "last_length": tf.gather(length, last),
    }

    starts, ends, source = passages.tokens.starts, passages.tokens.ends, passages.tokens.source
    num_visible = num_before(tf.logical_not(source.has_any(tables.SPACE)))
    # A position after the last token has the value of padding.
    is_visible = tf.pad(tf.gather(num_visible, ends) > tf.gather(num_visible, starts), [[0, 1]])

    def best(passage_start, first_token, length, **others):
        logits = logits_of(**{name: others.pop(name) for name in passages.inputs})
        start, end = (tf.cast(logits[f"{end}_logits"], tf.float64) for end in ("start", "end"))
        position = tf.range(tf.shape(start, tf.int64)[1]) - passage_start[:, None]
        token = tf.clip_by_value(first_token[:, None] + position, 0, tf.size(starts, tf.int64))
        is_inside = (position >= 0) & (position < length[:, None]) & tf.gather(is_visible, token)
        columns = {name: each[:, None] for name, each in others.items()}
        can_start = is_inside & _has_max_context(position, **columns)
        scores = tf.where(can_start, start, _LOW)[:, :, None] + _with_following(
            tf.where(is_inside, end, _LOW), max_answer_length
        )
        scores = tf.reshape(scores, [tf.shape(start)[0], -1])
        score = tf.reduce_max(scores, axis=1)
        index = _first_index(scores == score[:, None])
        return {
            "score": score,
            "first": index // max_answer_length - passage_start,
            "num_following": tf.math.floormod(index, max_answer_length),
            "null": start[:, 0] + end[:, 0],
        }

    spans = in_batches({**passages.inputs, **of_windows}, best)
    scores = tf.math.segment_max(spans["score"], row_ids)
    best_windows = tf.where(spans["score"] == tf.gather(scores, row_ids))[:, 0]
    window = tf.math.unsorted_segment_min(
        best_windows, tf.gather(row_ids, best_windows), tf.size(scores)
    )
    first = tf.gather(rows.texts.starts[1] + spans["first"], window)
    null_scores = tf.math.segment_min(spans["null"], row_ids)
    return BestSpans(scores, first, first + tf.gather(spans["num_following"], window), null_scores)


def _with_following(values: tf.Tensor, count: int) -> tf.Tensor:
    """Returns, for each position of [X,T], its value and the following ones: [X,T,count]."""
    padded = tf.pad(values, [[0, 0], [0, count - 1]], constant_values=_LOW)
    positions = tf.range(tf.shape(values)[1])[:, None] + tf.range(count)
    return tf.gather(padded, positions, axis=1)


def _first_index(is_chosen: tf.Tensor) -> tf.Tensor:
    """Returns the index of the first True element of each row of bool [X,N], int64 [X].

    `tf.argmax` does not guarantee the first of several maxima.
    """
    indices = tf.range(tf.shape(is_chosen, tf.int64)[1])
    return tf.reduce_min(tf.where(is_chosen, indices, indices[-1]), axis=1)


def _has_max_context(
    position: tf.Tensor,
    *,
    index: tf.Tensor,
    step: tf.Tensor,
    size: tf.Tensor,
    last: tf.Tensor,
    last_length: tf.Tensor,
) -> tf.Tensor:
    """Returns whether no other window gives a token more context, bool [X,T].

    The rule is that of `downstream.squad.windows.max_context`. All windows of a context except the
    last have the same length. Among these, the window whose middle is nearest to the token gives it
    the most context. The function compares this window with the last one.

    Args:
        position: int64 [X,T], the position of each token in the passage of its window.
        index: int64 [X,1], the index of the window among those of its context.
        step: int64 [X,1], the number of tokens between the starts of windows.
        size: int64 [X,1], the length of every passage except the last.
        last: int64 [X,1], the index of the context's last window.
        last_length: int64 [X,1], the length of the last passage.
    """
    token = position + index * step
    nearest = -((size - 1 + step - 2 * token) // (2 * step))  # a tie takes the earlier
    nearest = tf.clip_by_value(nearest, 0, tf.maximum(last - 1, 0))

    def context(window: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        num_before = token - window * step
        smaller = tf.minimum(num_before, length - 1 - num_before)
        value = tf.cast(smaller, tf.float64) + 0.01 * tf.cast(length, tf.float64)
        return tf.where(smaller >= 0, value, _LOW)

    return index == tf.where(context(last, last_length) > context(nearest, size), last, nearest)
