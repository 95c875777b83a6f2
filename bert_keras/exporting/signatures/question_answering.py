"""Builds the SavedModel signatures of a question answering model.

The graph divides contexts into windows and finds the best spans by the rules of
downstream/squad/windows.py and downstream/squad/answers.py. Scores are float64, as in those
files.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_keras.config import ModelMetadata
from bert_keras.downstream.catalog import task_of
from bert_keras.downstream.squad.task import SquadTask
from bert_keras.exporting.servable import (
    Exporter,
    ServableModel,
    tensor_specs,
    text_specs,
    traced,
)
from bert_keras.exporting.text_ops import unicode_tables as tables
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.exporting.text_ops.windows import TextRows, WindowRows, in_batches, window_rows
from bert_keras.exporting.text_ops.words import TextTokens, num_before

_LOW = float("-inf")


class Passages(NamedTuple):
    """X windows over the contexts of Q questions."""

    inputs: dict[str, tf.Tensor]  # the model's inputs, int32 [X,T] by name
    rows: WindowRows  # the windows of all questions
    tokens: TextTokens  # the tokens of all questions, then of all contexts
    num_specials: int  # number of special tokens of a window


class BestSpans(NamedTuple):
    """The best span of each of Q questions, as indices of tokens in `Passages.tokens`."""

    scores: tf.Tensor  # float64 [Q], start logit + end logit; -inf where no span exists
    first_tokens: tf.Tensor  # int64 [Q]
    last_tokens: tf.Tensor  # int64 [Q]
    null_scores: tf.Tensor  # float64 [Q], the lowest "no answer" score of the question's windows


def served_question_answering(
    model: keras.Model, reader: TextToInputs, *, task: SquadTask
) -> ServableModel:
    """Builds the signatures of a question answering model.

    `serving_default` takes `question` and `context`, string [B]. It returns `answer`, string [B];
    `start` and `end`, int32 [B], the characters [start, end) of the answer in the context; `score`
    and `no_answer_score`, float32 [B]. Without an answer, `answer` is "", and `start` and `end` are
    -1.

    `tensors` takes `input_ids`, `input_mask` and `segment_ids`, int32 [B,T]. It returns
    `start_logits` and `end_logits`, float32 [B,T], which are the lowest float32 at padding.

    Raises:
        InputError: `reader` cannot locate tokens in the given text, or a window has no space for a
            passage.
    """
    dataclasses.replace(task, max_length=reader.max_length)  # checks max_question_length
    reader.check_has_offsets()

    def from_tensors(**inputs):
        logits, is_real_BT = model(inputs, training=False), inputs["input_mask"] > 0
        return {
            f"{end}_logits": tf.where(is_real_BT, logits[end], tf.float32.min)
            for end in ("start", "end")
        }

    tensors = traced(from_tensors, **tensor_specs(rank=2))

    def from_text(question, context):
        passages = passages_of(question, context, reader=reader, task=task)
        best = best_spans(tensors, passages, max_answer_length=task.max_answer_length)
        is_answer = best.scores > _LOW
        if task.allows_no_answer:
            is_answer &= best.null_scores - best.scores <= task.null_threshold
        tokens, source = passages.tokens, passages.tokens.source
        contexts = tf.size(question) + tf.range(tf.size(context))
        starts, ends = (tf.pad(each, [[0, 1]]) for each in (tokens.starts, tokens.ends))
        start = tf.gather(starts, tf.where(is_answer, best.first_tokens, 0))
        end = source.after_marks(tf.gather(ends, tf.where(is_answer, best.last_tokens, 0)))
        end = tf.where(is_answer, end, start)
        return {
            "answer": source.cut(start, end),
            "start": tf.where(is_answer, source.in_text(start, contexts), -1),
            "end": tf.where(is_answer, source.in_text(end, contexts), -1),
            "score": tf.cast(tf.maximum(best.scores, tf.float32.min), tf.float32),
            "no_answer_score": tf.cast(best.null_scores, tf.float32),
        }

    signatures = {
        "serving_default": traced(from_text, **text_specs(["question", "context"])),
        "tensors": tensors,
    }
    return ServableModel(signatures, from_tensors)


def passages_of(
    question: tf.Tensor, context: tf.Tensor, *, reader: TextToInputs, task: SquadTask
) -> Passages:
    """Tokenizes questions and contexts, string [Q], and divides the contexts into windows."""
    tokens = reader.tokens_with_offsets(tf.concat([question, context], axis=0))
    sizes = [tf.shape(question)[0], tf.shape(context)[0]]
    starts = tf.split(tokens.ids.row_starts(), sizes, num=2)
    lengths = tf.split(tokens.ids.row_lengths(), sizes, num=2)
    lengths[0] = tf.minimum(lengths[0], task.max_question_length)
    num_specials = reader.vocabulary.num_specials(2)
    texts = TextRows(tokens.ids.values, starts, lengths)
    rows = window_rows(texts, limit=reader.max_length - num_specials, stride=task.stride)
    return Passages(reader.packed(rows.texts), rows, tokens, num_specials)


def best_spans(
    logits_of: Callable[..., dict[str, tf.Tensor]], passages: Passages, *, max_answer_length: int
) -> BestSpans:
    """Finds the span of up to `max_answer_length` tokens with the highest score of each question.

    `logits_of` takes the model's inputs and returns `start_logits` and `end_logits`, float32 [X,T].
    """
    rows, row_ids = passages.rows, passages.rows.row_ids
    question_length, length = rows.texts.lengths
    last = tf.gather(tf.math.segment_max(tf.range(tf.size(row_ids)), row_ids), row_ids)
    of_windows = {
        "passage_start": question_length + passages.num_specials - 1,  # the last [SEP] follows
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
        # The end logits of each position and of the following ones, [X,T,max_answer_length].
        padding = [[0, 0], [0, max_answer_length - 1]]
        ends_XT = tf.pad(tf.where(is_inside, end, _LOW), padding, constant_values=_LOW)
        following = tf.range(tf.shape(start)[1])[:, None] + tf.range(max_answer_length)
        ends_XTL = tf.gather(ends_XT, following, axis=1)
        scores = tf.where(can_start, start, _LOW)[:, :, None] + ends_XTL
        scores = tf.reshape(scores, [tf.shape(start)[0], -1])
        score = tf.reduce_max(scores, axis=1)
        # `tf.argmax` does not guarantee the first of several maxima.
        indices = tf.range(tf.shape(scores, tf.int64)[1])
        index = tf.reduce_min(tf.where(scores == score[:, None], indices, indices[-1]), axis=1)
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


def _settings(metadata: ModelMetadata, source: str) -> dict:
    """Returns the task that the model was fine-tuned on; SQuAD 1.1 if the metadata has none."""
    name = str(metadata.task.get("name", "squad1"))
    return {"task": task_of(metadata, name=name, source="the checkpoint")}


EXPORTER = Exporter(served_question_answering, _settings)
