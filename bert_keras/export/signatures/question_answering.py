"""Signatures of a question answering model, and samples made by the code of training."""

import dataclasses
from collections.abc import Sequence
from itertools import islice

import keras
import numpy as np
import tensorflow as tf

from bert_keras.checkpoints.card import ModelCard
from bert_keras.export.servable import (
    Sample,
    Servable,
    Signature,
    eager_outputs,
    tensor_specs,
    tensors_sample,
    text_specs,
    traced,
)
from bert_keras.export.signatures.exporter import Exporter
from bert_keras.export.text_ops.passages import best_spans, passages_of
from bert_keras.export.text_ops.text_to_inputs import TextToInputs
from bert_keras.export.text_ops.windows import WINDOWS_AT_ONCE
from bert_keras.tasks.catalog import task_of
from bert_keras.tasks.squad.predictions import spans
from bert_keras.tasks.squad.questions import Question
from bert_keras.tasks.squad.task import SquadTask
from bert_keras.tasks.squad.windows import Windows
from bert_keras.text.tokenizer import TextTokenizer

# Samples leave out a best span that leads by less: rounding may put another first in the graph.
_LEAST_LEAD = 1e-3
_SHORT = (
    ("Who wrote it?", "A short sentence by Anna Lee."),
    ("", "x"),
    (
        "東京 cafe\u0301?",
        "Cafe\u0301 [MASK] İSTANBUL ß ﬁ ΟΔΟΣ 東京 한국 a\u200bb \x00\ufffd 😀\tend\n",
    ),
)


def served_question_answering(
    model: keras.Model, reader: TextToInputs, tokenizer: TextTokenizer, *, task: SquadTask
) -> Servable:
    """Serves a model with the inputs and outputs of a BertQuestionAnswering, with the settings of
    `task`, in windows of as many tokens as `reader` takes."""
    task = dataclasses.replace(task, max_length=reader.max_length)
    return Servable(
        signatures(model, reader, task=task), _samples(model, tokenizer=tokenizer, task=task)
    )


def signatures(
    model: keras.Model, reader: TextToInputs, *, task: SquadTask
) -> dict[str, Signature]:
    """`serving_default` takes `question` and `context`, string [B], and returns `answer` string
    [B], `start` and `end` int32 [B], `score` and `no_answer_score` float32 [B].

    `tensors` takes `input_ids`, `input_mask`, `segment_ids`, int32 [B,T], and returns
    `start_logits` and `end_logits` float32 [B,T], the lowest float where there is padding.

    Raises:
        InputError: `reader` cannot tell the positions of tokens in the text.
    """
    reader.check_knows_places()

    def from_tensors(**inputs):
        logits, is_real_BT = model(inputs, training=False), inputs["input_mask"] > 0
        return {
            f"{end}_logits": tf.where(is_real_BT, logits[end], tf.float32.min)
            for end in ("start", "end")
        }

    tensors = traced(from_tensors, **tensor_specs(rank=2))

    def from_text(question, context):
        passages = passages_of(
            question,
            context,
            reader=reader,
            stride=task.stride,
            max_question_length=task.max_question_length,
        )
        spans = best_spans(tensors, passages, max_answer_length=task.max_answer_length)
        is_answer = spans.scores > float("-inf")
        if task.allows_no_answer:
            is_answer &= spans.null_scores - spans.scores <= task.null_threshold
        pieces, given = passages.pieces, passages.pieces.given
        contexts = tf.size(question) + tf.range(tf.size(context))
        starts, ends = (tf.pad(each, [[0, 1]]) for each in (pieces.starts, pieces.ends))
        start = tf.gather(starts, tf.where(is_answer, spans.firsts, 0))
        end = given.after_marks(tf.gather(ends, tf.where(is_answer, spans.lasts, 0)))
        is_answer &= end > start  # a token may be a blank
        end = tf.where(is_answer, end, start)
        return {
            "answer": given.cut(start, end),
            "start": tf.where(is_answer, given.in_text(start, contexts), -1),
            "end": tf.where(is_answer, given.in_text(end, contexts), -1),
            "score": tf.cast(tf.maximum(spans.scores, tf.float32.min), tf.float32),
            "no_answer_score": tf.cast(spans.null_scores, tf.float32),
        }

    return {
        "serving_default": traced(from_text, **text_specs(["question", "context"])),
        "tensors": tensors,
    }


def _samples(model: keras.Model, *, tokenizer: TextTokenizer, task: SquadTask) -> list[Sample]:
    """Short contexts and one with more windows than the graph reads at once, for both signatures.

    Scores are compared for all, answers only where one span leads.
    """
    num_pieces = task.max_length + WINDOWS_AT_ONCE * task.stride
    numbered = " ".join(f"{number}, {number * number};" for number in range(num_pieces // 4 + 1))
    asked = [*_SHORT, ("Which numbers " * task.max_question_length, numbered)]
    questions = [
        Question(id=str(number), question=question, context=context)
        for number, (question, context) in enumerate(asked)
    ]
    windows = task.encode(questions, tokenizer)
    batches = [
        windows.batch(np.arange(len(windows))[at : at + WINDOWS_AT_ONCE])[0]
        for at in range(0, len(windows), WINDOWS_AT_ONCE)
    ]
    logits = [eager_outputs(model, inputs) for inputs in batches]
    outputs = [
        {end: each[row] for end, each in batch.items()}
        for batch in logits
        for row in range(len(batch["start"]))
    ]
    found, leads = _answers(questions, windows, outputs, task=task)
    scores = {name: array for name, array in found.items() if name.endswith("score")}
    certain = leads > _LEAST_LEAD
    outputs_of_tensors = {
        f"{end}_logits": np.where(batches[0]["input_mask"], array, tf.float32.min)
        for end, array in logits[0].items()
    }
    return [
        _sample(questions, np.full(len(questions), True), scores),
        *([_sample(questions, certain, found)] if certain.any() else []),
        tensors_sample(batches[0], outputs_of_tensors),
    ]


def _answers(
    questions: Sequence[Question],
    windows: Windows,
    outputs: Sequence[dict[str, np.ndarray]],
    *,
    task: SquadTask,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns the outputs of `serving_default`, and by how much the score of each answer exceeds
    the next best, float64 [Q]."""
    rows, leads = [], []
    predictions = task.predictions(questions, windows, outputs)
    for number, prediction in enumerate(predictions):
        best = spans(windows, number, outputs, task.max_answer_length)
        first, *second = islice(best, 2)
        score = first.start_logit + first.end_logit
        null = min(
            float(outputs[row]["start"][0]) + float(outputs[row]["end"][0])
            for row in windows.of_question(number)
        )
        others = [score - span.start_logit - span.end_logit for span in second]
        if task.allows_no_answer:
            others.append(abs(null - score - task.null_threshold))
        leads.append(min(others, default=np.inf))
        start = windows.offsets[first.first, 0] if prediction.text else -1
        end = start + len(prediction.text) if prediction.text else -1
        rows.append((prediction.text, start, end, score, null))
    columns = zip(*rows, strict=True)
    dtypes = {
        "answer": object,
        "start": np.int32,
        "end": np.int32,
        "score": np.float32,
        "no_answer_score": np.float32,
    }
    found = {
        name: np.array(column, dtype)
        for (name, dtype), column in zip(dtypes.items(), columns, strict=True)
    }
    return found, np.array(leads)


def _sample(
    questions: Sequence[Question], chosen: np.ndarray, outputs: dict[str, np.ndarray]
) -> Sample:
    inputs = {
        name: [
            getattr(each, name) for each, is_one in zip(questions, chosen, strict=True) if is_one
        ]
        for name in ("question", "context")
    }
    return Sample(
        {"signature": "serving_default", "inputs": inputs},
        {name: array[chosen] for name, array in outputs.items()},
    )


def _settings(card: ModelCard, source: str) -> dict:
    """The task that the model was trained on; SQuAD 1.1 for a model from elsewhere."""
    name = str(card.task.get("name", "squad1"))
    return {"task": task_of(card, name=name, source="the checkpoint")}


EXPORTER = Exporter(served_question_answering, _settings)
