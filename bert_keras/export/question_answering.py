"""A trained question answering model and its settings come in; a folder for TF Serving goes out."""

import dataclasses
from collections.abc import Callable

import keras
import tensorflow as tf

from bert_keras.checkpoints.card import ModelCard
from bert_keras.export.passages_in_graph import best_spans, passages_of
from bert_keras.export.question_samples import samples
from bert_keras.export.servable import Exporter, Servable, tensor_specs, text_specs
from bert_keras.export.text_in_graph import TextToInputs
from bert_keras.tasks.catalog import task_of
from bert_keras.tasks.squad.task import SquadTask
from bert_keras.text.tokenizer import TextTokenizer


def served_question_answering(
    model: keras.Model, reader: TextToInputs, tokenizer: TextTokenizer, *, task: SquadTask
) -> Servable:
    """Of a model that takes and returns what a BertQuestionAnswering does, asked as `task` asks it,
    in windows of as many pieces as `reader` takes."""
    task = dataclasses.replace(task, max_length=reader.max_length)
    return Servable(
        signatures(model, reader=reader, task=task),
        samples(model, tokenizer=tokenizer, task=task),
    )


def signatures(model: keras.Model, *, reader: TextToInputs, task: SquadTask) -> dict[str, Callable]:
    """`serving_default`: `question` and `context`, string [B], to `answer` string [B], `start` and
    `end` int32 [B], `score` and `no_answer_score` float32 [B]. `tensors`: `input_ids`,
    `input_mask`, `segment_ids`, int32 [B,T], to `start_logits` and `end_logits` float32 [B,T], the
    lowest float where there is padding.
    """
    reader.check_knows_places()

    @tf.function
    def from_tensors(**inputs):
        logits, is_real_BT = model(inputs, training=False), inputs["input_mask"] > 0
        return {
            f"{end}_logits": tf.where(is_real_BT, logits[end], tf.float32.min)
            for end in ("start", "end")
        }

    logits_of = from_tensors.get_concrete_function(**tensor_specs(rank=2))

    @tf.function
    def from_text(question, context):
        passages = passages_of(
            question,
            context,
            reader=reader,
            stride=task.stride,
            max_question_length=task.max_question_length,
        )
        spans = best_spans(logits_of, passages, max_answer_length=task.max_answer_length)
        is_answer = spans.scores > float("-inf")
        if task.allows_no_answer:
            is_answer &= spans.null_scores - spans.scores <= task.null_threshold
        pieces, given = passages.pieces, passages.pieces.given
        contexts = tf.size(question) + tf.range(tf.size(context))
        starts, ends = (tf.pad(each, [[0, 1]]) for each in (pieces.starts, pieces.ends))
        start = tf.gather(starts, tf.where(is_answer, spans.firsts, 0))
        end = given.behind_marks(tf.gather(ends, tf.where(is_answer, spans.lasts, 0)))
        is_answer &= end > start  # a piece may be a blank
        end = tf.where(is_answer, end, start)
        return {
            "answer": given.cut(start, end),
            "start": tf.where(is_answer, given.in_text(start, contexts), -1),
            "end": tf.where(is_answer, given.in_text(end, contexts), -1),
            "score": tf.cast(tf.maximum(spans.scores, tf.float32.min), tf.float32),
            "no_answer_score": tf.cast(spans.null_scores, tf.float32),
        }

    return {
        "serving_default": from_text.get_concrete_function(**text_specs(("question", "context"))),
        "tensors": logits_of,
    }


def _settings(card: ModelCard) -> dict:
    """Returns the task that the model was trained on; SQuAD 1.1 for a model from elsewhere."""
    name = str(card.task.get("name", "squad1"))
    return {"task": task_of(card, name=name, source="the checkpoint")}


EXPORTER = Exporter(served_question_answering, settings=_settings)
