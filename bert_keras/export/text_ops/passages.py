"""Divides the contexts of questions into windows and finds the best spans, inside a TF graph.

The rules are those of tasks/squad/windows.py and tasks/squad/predictions.py. Scores are float64, as
in those files.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from bert_keras.export.text_ops.text_to_inputs import TextToInputs
from bert_keras.export.text_ops.windows import Texts, WindowRows, in_parts, window_rows
from bert_keras.export.text_ops.words import Tokens

_LOW = float("-inf")


class Passages(NamedTuple):
    """X windows over the contexts of Q questions."""

    inputs: dict[str, tf.Tensor]  # the model's inputs, int32 [X,T] by name
    rows: WindowRows  # the windows of all questions
    pieces: Tokens  # the tokens of all questions, then of all contexts
    num_between: int  # number of special tokens ([CLS], [SEP]) that precede a passage


class Spans(NamedTuple):
    """The best span of each of Q questions."""

    scores: tf.Tensor  # float64 [Q], start logit + end logit; -inf where no span exists
    firsts: tf.Tensor  # int64 [Q], the index of the first token in `Passages.pieces`
    lasts: tf.Tensor  # int64 [Q], the index of the last token
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
    pieces = reader.placed_pieces(tf.concat([question, context], axis=0))
    sizes = [tf.shape(question)[0], tf.shape(context)[0]]
    lengths = tf.split(pieces.ids.row_lengths(), sizes, num=2)
    rows = window_rows(
        Texts(
            pieces.ids.values,
            tf.split(pieces.ids.row_starts(), sizes, num=2),
            [tf.minimum(lengths[0], max_question_length), lengths[1]],
        ),
        limit=reader.max_length - reader.vocabulary.num_specials(2),
        stride=stride,
    )
    return Passages(reader.packed(rows.texts), rows, pieces, reader.vocabulary.num_specials(2) - 1)


def best_spans(
    logits_of: Callable[..., dict[str, tf.Tensor]], passages: Passages, *, max_answer_length: int
) -> Spans:
    """Finds the span with the highest score for each question.

    Args:
        logits_of: Takes the model's inputs as keyword arguments and returns `start_logits` and
            `end_logits`, float32 [X,T]. It is called for at most WINDOWS_AT_ONCE windows.
        passages: The windows.
        max_answer_length: Largest number of tokens of a span.
    """
    rows, owners = passages.rows, passages.rows.owners
    before, length = rows.texts.lengths
    last = tf.gather(tf.math.segment_max(tf.range(tf.size(owners)), owners), owners)
    of_windows = {
        "before": before + passages.num_between,
        "length": length,
        "number": rows.numbers,
        "step": rows.steps,
        "room": rows.rooms,
        "last": tf.gather(rows.numbers, last),
        "last_length": tf.gather(length, last),
    }

    def best(before, length, **others):
        inputs = {name: others.pop(name) for name in passages.inputs}
        logits = logits_of(**inputs)
        start = tf.cast(logits["start_logits"], tf.float64)
        end = tf.cast(logits["end_logits"], tf.float64)
        column = tf.range(tf.shape(start, tf.int64)[1])
        place = column - before[:, None]
        is_inside = (place >= 0) & (place < length[:, None])
        shows_best = _shows_best(place, **{name: each[:, None] for name, each in others.items()})
        scores = tf.where(is_inside & shows_best, start, _LOW)[:, :, None] + _next(
            tf.where(is_inside, end, _LOW), max_answer_length
        )
        scores = tf.reshape(scores, [tf.shape(start)[0], -1])
        score = tf.reduce_max(scores, axis=1)
        at = _first_place(scores == score[:, None])
        return {
            "score": score,
            "first": at // max_answer_length - before,
            "more": tf.math.floormod(at, max_answer_length),
            "null": start[:, 0] + end[:, 0],
        }

    found = in_parts({**passages.inputs, **of_windows}, best)
    scores = tf.math.segment_max(found["score"], owners)
    best_windows = tf.where(found["score"] == tf.gather(scores, owners))[:, 0]
    window = tf.math.unsorted_segment_min(
        best_windows, tf.gather(owners, best_windows), tf.size(scores)
    )
    first = tf.gather(rows.texts.starts[1] + found["first"], window)
    null_scores = tf.math.segment_min(found["null"], owners)
    return Spans(scores, first, first + tf.gather(found["more"], window), null_scores)


def _next(values: tf.Tensor, count: int) -> tf.Tensor:
    """Returns, for each position of [X,T], its value and the following ones: [X,T,count]."""
    beyond = tf.pad(values, [[0, 0], [0, count - 1]], constant_values=_LOW)
    places = tf.range(tf.shape(values)[1])[:, None] + tf.range(count)
    return tf.gather(beyond, places, axis=1)


def _first_place(chosen: tf.Tensor) -> tf.Tensor:
    """Returns the index of the first True element of each row of bool [X,N], int64 [X].

    `tf.argmax` does not guarantee the first of several maxima.
    """
    places = tf.range(tf.shape(chosen, tf.int64)[1])
    return tf.reduce_min(tf.where(chosen, places, places[-1]), axis=1)


def _shows_best(
    place: tf.Tensor,
    *,
    number: tf.Tensor,
    step: tf.Tensor,
    room: tf.Tensor,
    last: tf.Tensor,
    last_length: tf.Tensor,
) -> tf.Tensor:
    """Returns whether no other window gives a token more context, bool [X,T].

    The rule is that of `tasks.squad.windows.max_context`. All windows of a context except the last
    have the same length. Among these, the window whose middle is nearest to the token gives it the
    most context. The function compares this window with the last one.

    Args:
        place: int64 [X,T], the index of each token in the passage of its window.
        number: int64 [X,1], the index of the window among those of its context.
        step: int64 [X,1], the number of tokens between the starts of windows.
        room: int64 [X,1], the length of every passage except the last.
        last: int64 [X,1], the index of the context's last window.
        last_length: int64 [X,1], the length of the last passage.
    """
    piece = place + number * step
    nearest = -((room - 1 + step - 2 * piece) // (2 * step))  # a tie takes the earlier
    nearest = tf.clip_by_value(nearest, 0, tf.maximum(last - 1, 0))

    def shown(window: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        left = piece - window * step
        least = tf.minimum(left, length - 1 - left)
        value = tf.cast(least, tf.float64) + 0.01 * tf.cast(length, tf.float64)
        return tf.where(least >= 0, value, _LOW)

    return number == tf.where(shown(last, last_length) > shown(nearest, room), last, nearest)
