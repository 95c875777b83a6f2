"""Windows over the contexts of questions, and best spans in them, inside a TF graph.

The rules are those of tasks/squad/windows.py and tasks/squad/answers.py, in float64 as there.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from bert_keras.export.text_ops.text_to_inputs import TextToInputs
from bert_keras.export.text_ops.windows import Texts, WindowRows, in_parts, window_rows
from bert_keras.export.text_ops.words import Tokens

_LOW = float("-inf")


class Passages(NamedTuple):
    """`inputs` int32 [X,T] by name, of the `rows` of all questions; `pieces` are those of all
    questions, then of all contexts; `num_between` are [CLS] and the [SEP]s before a passage."""

    inputs: dict[str, tf.Tensor]
    rows: WindowRows
    pieces: Tokens
    num_between: int


class Spans(NamedTuple):
    """One a question: `scores` float64 [Q], -inf where there is no span; its `firsts` and `lasts`
    int64 [Q] among all pieces; `null_scores` float64 [Q], the least of its windows."""

    scores: tf.Tensor
    firsts: tf.Tensor
    lasts: tf.Tensor
    null_scores: tf.Tensor


def passages_of(
    question: tf.Tensor,
    context: tf.Tensor,
    *,
    reader: TextToInputs,
    stride: int,
    max_question_length: int,
) -> Passages:
    """Of strings [Q]. A context without a piece has one window, and that no passage."""
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
    """`logits_of(**inputs)` gives `start_logits` and `end_logits` [X,T] of a few windows."""
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
    """[X,T] to each with those behind it, [X,T,count]."""
    beyond = tf.pad(values, [[0, 0], [0, count - 1]], constant_values=_LOW)
    places = tf.range(tf.shape(values)[1])[:, None] + tf.range(count)
    return tf.gather(beyond, places, axis=1)


def _first_place(chosen: tf.Tensor) -> tf.Tensor:
    """bool [X,N] to int64 [X]; `tf.argmax` does not promise the first."""
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
    """bool [X,T], as `tasks.squad.windows.max_context` has it, of places in the windows' passages.

    All windows of a context but the last are of one length, so of these the one whose middle is
    nearest shows most; it has yet to be compared with the last.
    """
    piece = place + number * step
    nearest = -((room - 1 + step - 2 * piece) // (2 * step))  # of two as near, the earlier
    nearest = tf.clip_by_value(nearest, 0, tf.maximum(last - 1, 0))

    def shown(window: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        left = piece - window * step
        least = tf.minimum(left, length - 1 - left)
        value = tf.cast(least, tf.float64) + 0.01 * tf.cast(length, tf.float64)
        return tf.where(least >= 0, value, _LOW)

    return number == tf.where(shown(last, last_length) > shown(nearest, room), last, nearest)
