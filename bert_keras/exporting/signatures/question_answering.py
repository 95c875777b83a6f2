"""Builds the SavedModel signatures for questions; kinds/windows.py and kinds/span.py in a graph."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_keras.exporting.servable import Exporter, ServableModel, tensor_specs, text_specs, traced
from bert_keras.exporting.text_ops.text_to_inputs import TextRows, TextToInputs, in_batches
from bert_keras.exporting.text_ops.words import SPACE, TextTokens, num_before
from bert_keras.kinds.span import SpanSettings

_LOW = float("-inf")


class Passages(NamedTuple):
    """X windows over the contexts of Q questions."""

    inputs: dict[str, tf.Tensor]  # the model's inputs, int32 [X,T] by name
    texts: TextRows  # the question and the window of each row
    row_ids: tf.Tensor  # int64 [X], the question of each row
    tokens: TextTokens  # the tokens of all questions, then of all contexts
    num_specials: int  # number of special tokens of a window


class BestSpans(NamedTuple):
    """The best span of each of Q questions, as indices of tokens in `Passages.tokens`."""

    scores: tf.Tensor  # float64 [Q], start logit + end logit; -inf where no span exists
    first_tokens: tf.Tensor  # int64 [Q]
    last_tokens: tf.Tensor  # int64 [Q]
    null_scores: tf.Tensor  # float64 [Q], the lowest "no answer" score of the question's windows


def served_question_answering(
    model: keras.Model, reader: TextToInputs, *, settings: SpanSettings
) -> ServableModel:
    """Builds the signatures of a question answering model.

    `serving_default` takes `question` and `context`, string [B]. It returns `answer`, string [B];
    `start` and `end`, int32 [B], the characters [start, end) of the answer in the context; `score`
    and `no_answer_score`, float32 [B]. Without an answer, `answer` is "", and `start` and `end` are
    -1. `tensors` takes `input_ids`, `input_mask` and `segment_ids`, int32 [B,T]. It returns
    `start_logits` and `end_logits`, float32 [B,T], which are the lowest float32 at padding.
    """
    settings.check_max_length(reader.max_length)
    reader.check_has_offsets()

    def from_tensors(**inputs):
        logits, is_real_BT = model(inputs, training=False), inputs["input_mask"] > 0
        ends = ("start", "end")
        return {f"{end}_logits": tf.where(is_real_BT, logits[end], tf.float32.min) for end in ends}

    tensors = traced(from_tensors, **tensor_specs(rank=2))

    def from_text(question, context):
        passages = passages_of(question, context, reader=reader, settings=settings)
        best = best_spans(tensors, passages, max_answer_length=settings.max_answer_length)
        is_answer = best.scores > _LOW
        if settings.allows_no_answer:
            is_answer &= best.null_scores - best.scores <= settings.null_threshold
        tokens, source = passages.tokens, passages.tokens.source
        contexts = tf.size(question) + tf.range(tf.size(context))
        starts, ends = (tf.pad(each, [[0, 1]]) for each in (tokens.starts, tokens.ends))
        start = tf.gather(starts, tf.where(is_answer, best.first_tokens, 0))
        end = source.after_marks(tf.gather(ends, tf.where(is_answer, best.last_tokens, 0)))
        end = tf.where(is_answer, end, start)
        return {
            "answer": source.span_texts(start, end),
            "start": tf.where(is_answer, source.in_text(start, contexts), -1),
            "end": tf.where(is_answer, source.in_text(end, contexts), -1),
            "score": tf.cast(tf.maximum(best.scores, tf.float32.min), tf.float32),
            "no_answer_score": tf.cast(best.null_scores, tf.float32),
        }

    from_texts = traced(from_text, **text_specs(["question", "context"]))
    return ServableModel({"serving_default": from_texts, "tensors": tensors}, from_tensors)


def passages_of(
    question: tf.Tensor, context: tf.Tensor, *, reader: TextToInputs, settings: SpanSettings
) -> Passages:
    """Tokenizes questions and contexts and divides the contexts into windows.

    Args:
        question: The questions, string [Q].
        context: The context of each question, string [Q].
        reader: Tokenizes the texts and packs the windows.
        settings: The limit of a question and the stride of the windows, in tokens.
    """
    tokens = reader.tokens_with_offsets(tf.concat([question, context], axis=0))
    sizes = [tf.shape(question)[0], tf.shape(context)[0]]
    starts = tf.split(tokens.ids.row_starts(), sizes, num=2)
    lengths = tf.split(tokens.ids.row_lengths(), sizes, num=2)
    lengths[0] = tf.minimum(lengths[0], settings.max_question_length)
    num_specials = reader.vocabulary.num_specials(2)
    texts = TextRows(tokens.ids.values, starts, lengths)
    rows, row_ids = window_rows(
        texts, limit=reader.max_length - num_specials, stride=settings.stride
    )
    return Passages(reader.packed(rows), rows, row_ids, tokens, num_specials)


def window_rows(texts: TextRows, *, limit: int, stride: int) -> tuple[TextRows, tf.Tensor]:
    """Divides the last text of each row into windows; each window keeps the whole first text.

    A window begins `stride` tokens after the preceding window, or where that window ends if it has
    fewer tokens. Both texts have `limit` tokens at most. Returns X rows, and the index of the row
    of `texts` from which each comes, int64 [X].
    """
    *first_lengths, length = texts.lengths
    size = limit - tf.add_n([tf.zeros_like(length), *first_lengths])
    step = tf.clip_by_value(size, 1, stride)  # `size` is 0 if the first text fills the row
    indices = tf.ragged.range(1 + tf.maximum(-((size - length) // step), 0))
    row_ids = indices.value_rowids()
    of_windows = partial(tf.gather, indices=row_ids)
    offsets = indices.values * of_windows(step)
    *first_starts, starts = map(of_windows, texts.starts)
    last_lengths = tf.minimum(of_windows(length) - offsets, of_windows(size))
    lengths = [*map(of_windows, first_lengths), last_lengths]
    return TextRows(texts.values, [*first_starts, starts + offsets], lengths), row_ids


def best_spans(
    logits_of: Callable[..., dict[str, tf.Tensor]], passages: Passages, *, max_answer_length: int
) -> BestSpans:
    """Finds the best span of up to `max_answer_length` tokens for each question.

    Shapes: X windows, T positions of a window, L = `max_answer_length`.
    """
    inputs, row_ids, tokens = passages.inputs, passages.row_ids, passages.tokens
    question_length, length = passages.texts.lengths
    passage_start = question_length + passages.num_specials - 1  # the last [SEP] follows
    position = tf.range(tf.shape(inputs["input_ids"], tf.int64)[1]) - passage_start[:, None]
    num_tokens = tf.size(tokens.ids.values, tf.int64)
    token = tf.clip_by_value(passages.texts.starts[1][:, None] + position, 0, num_tokens)
    is_inside = (position >= 0) & (position < length[:, None])
    num_visible = num_before(tf.logical_not(tokens.source.has_any(SPACE)))
    # A position after the last token has the value of padding.
    is_visible = tf.gather(num_visible, tokens.ends) > tf.gather(num_visible, tokens.starts)
    is_inside &= tf.gather(tf.pad(is_visible, [[0, 1]]), token)
    can_start = is_inside & _has_max_context(
        position, length[:, None], token, num_tokens=num_tokens + 1
    )

    def best(can_start, can_end, passage_start, **inputs):
        logits = logits_of(**inputs)
        start, end = (tf.cast(logits[f"{end}_logits"], tf.float64) for end in ("start", "end"))
        # The end logits of each position and of the following ones, [X,T,max_answer_length].
        padding = [[0, 0], [0, max_answer_length - 1]]
        ends_XT = tf.pad(tf.where(can_end, end, _LOW), padding, constant_values=_LOW)
        following = tf.range(tf.shape(start)[1])[:, None] + tf.range(max_answer_length)
        ends_XTL = tf.gather(ends_XT, following, axis=1)
        scores = tf.where(can_start, start, _LOW)[:, :, None] + ends_XTL
        scores = tf.reshape(scores, [tf.shape(start)[0], -1])
        # Of equal scores, it returns the first, which `tf.argmax` does not guarantee.
        score, index = tf.math.top_k(scores, 1, index_type=tf.int64)
        index = index[:, 0]
        return {
            "score": score[:, 0],
            "first": index // max_answer_length - passage_start,
            "num_following": tf.math.floormod(index, max_answer_length),
            "null": start[:, 0] + end[:, 0],
        }

    of_windows = {"can_start": can_start, "can_end": is_inside, "passage_start": passage_start}
    spans = in_batches({**inputs, **of_windows}, best)
    scores = tf.math.segment_max(spans["score"], row_ids)
    best_windows = tf.where(spans["score"] == tf.gather(scores, row_ids))[:, 0]
    window = tf.math.unsorted_segment_min(
        best_windows, tf.gather(row_ids, best_windows), tf.size(scores)
    )
    first = tf.gather(passages.texts.starts[1] + spans["first"], window)
    null_scores = tf.math.segment_min(spans["null"], row_ids)
    return BestSpans(scores, first, first + tf.gather(spans["num_following"], window), null_scores)


def _has_max_context(
    position: tf.Tensor, length: tf.Tensor, token: tf.Tensor, *, num_tokens: tf.Tensor
) -> tf.Tensor:
    """Returns the windows of `kinds.windows.find_max_context` for each token, bool [X,T]."""
    smaller = tf.minimum(position, length - 1 - position)
    context = tf.cast(smaller, tf.float64) + 0.01 * tf.cast(length, tf.float64)
    context = tf.where(smaller >= 0, context, _LOW)
    most = tf.math.unsorted_segment_max(context, token, num_tokens)
    is_most = (smaller >= 0) & (context == tf.gather(most, token))
    window = tf.range(tf.shape(token, tf.int64)[0])[:, None]
    earliest = tf.where(is_most, window, tf.int64.max)
    earliest = tf.math.unsorted_segment_min(earliest, token, num_tokens)
    return is_most & (window == tf.gather(earliest, token))


EXPORTER = Exporter(
    served_question_answering, lambda metadata: {"settings": SpanSettings.of_model(metadata)}
)
