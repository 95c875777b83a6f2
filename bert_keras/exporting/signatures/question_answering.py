"""Builds the SavedModel signatures and samples of a question answering model."""

import dataclasses
from itertools import islice

import keras
import numpy as np
import tensorflow as tf

from bert_keras.config import ModelMetadata
from bert_keras.downstream.catalog import task_of
from bert_keras.downstream.squad.answers import spans
from bert_keras.downstream.squad.questions import Question
from bert_keras.downstream.squad.task import SquadTask
from bert_keras.exporting.servable import (
    Sample,
    ServableModel,
    Signature,
    eager_outputs,
    tensor_specs,
    text_specs,
    traced,
)
from bert_keras.exporting.signatures.exporter import Exporter
from bert_keras.exporting.text_ops.passages import best_spans, passages_of
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.exporting.text_ops.windows import WINDOWS_AT_ONCE
from bert_keras.text.tokenizer import TextTokenizer

# Rounding in the graph can change the order of two spans whose scores differ by less than this.
_MIN_DIFFERENCE = 1e-3
_SHORT_EXAMPLES = (
    ("Who wrote it?", "A short sentence by Anna Lee."),
    ("", "x"),
    ("Where?", "  In  a\n\nlist \u00a0 of   lines. \n"),
    (
        "東京 cafe\u0301?",
        "Cafe\u0301 [MASK] İSTANBUL ß ﬁ ΟΔΟΣ 東京 한국 a\u200bb \x00\ufffd 😀\tend\n",
    ),
)


def served_question_answering(
    model: keras.Model, reader: TextToInputs, tokenizer: TextTokenizer, *, task: SquadTask
) -> ServableModel:
    """Builds the signatures of a question answering model; see `signatures`.

    Args:
        model: A model with the inputs and outputs of a BertQuestionAnswering.
        reader: Converts texts to the model's inputs inside the graph. Its `max_length` is the
            largest number of tokens of a window.
        tokenizer: The same tokenizer outside the graph, which computes the samples.
        task: The settings of the windows and answers; its `max_length` is not used.

    Returns:
        The signatures and samples.

    Raises:
        InputError: `reader` cannot locate tokens in the given text.
    """
    task = dataclasses.replace(task, max_length=reader.max_length)
    return ServableModel(
        signatures(model, reader, task=task), _samples(model, tokenizer=tokenizer, task=task)
    )


def signatures(
    model: keras.Model, reader: TextToInputs, *, task: SquadTask
) -> dict[str, Signature]:
    """Builds `serving_default` and `tensors`.

    `serving_default` takes `question` and `context`, string [B]. It returns `answer`, string [B];
    `start` and `end`, int32 [B], the characters [start, end) of the answer in the context; `score`
    and `no_answer_score`, float32 [B]. Without an answer, `answer` is "", and `start` and `end` are
    -1.

    `tensors` takes `input_ids`, `input_mask` and `segment_ids`, int32 [B,T]. It returns
    `start_logits` and `end_logits`, float32 [B,T], which are the lowest float32 at padding.

    Args:
        model: The question answering model.
        reader: Converts texts to the model's inputs inside the graph.
        task: The settings of the windows and answers.

    Returns:
        The signatures by name.

    Raises:
        InputError: `reader` cannot locate tokens in the given text.
    """
    reader.check_has_offsets()

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
        tokens, source = passages.tokens, passages.tokens.source
        contexts = tf.size(question) + tf.range(tf.size(context))
        starts, ends = (tf.pad(each, [[0, 1]]) for each in (tokens.starts, tokens.ends))
        start = tf.gather(starts, tf.where(is_answer, spans.first_tokens, 0))
        end = source.after_marks(tf.gather(ends, tf.where(is_answer, spans.last_tokens, 0)))
        end = tf.where(is_answer, end, start)
        return {
            "answer": source.cut(start, end),
            "start": tf.where(is_answer, source.in_text(start, contexts), -1),
            "end": tf.where(is_answer, source.in_text(end, contexts), -1),
            "score": tf.cast(tf.maximum(spans.scores, tf.float32.min), tf.float32),
            "no_answer_score": tf.cast(spans.null_scores, tf.float32),
        }

    return {
        "serving_default": traced(from_text, **text_specs(["question", "context"])),
        "tensors": tensors,
    }


def _samples(model: keras.Model, *, tokenizer: TextTokenizer, task: SquadTask) -> list[Sample]:
    """Returns samples for both signatures.

    They have short contexts and one context with more windows than the graph evaluates at once. If
    rounding could change the best span of a question, the sample of `serving_default` contains the
    scores only.
    """
    num_tokens = task.max_length + WINDOWS_AT_ONCE * task.stride
    numbered = " ".join(f"{number}, {number * number};" for number in range(num_tokens // 4 + 1))
    texts = [*_SHORT_EXAMPLES, ("Which numbers " * task.max_question_length, numbered)]
    questions = [
        Question(id=str(number), question=question, context=context)
        for number, (question, context) in enumerate(texts)
    ]
    windows = task.encode(questions, tokenizer)
    inputs, _ = windows.batch(np.arange(len(windows)))
    logits = eager_outputs(model, inputs)
    outputs = [{end: each[row] for end, each in logits.items()} for row in range(len(windows))]
    rows, differences = [], []
    for number, prediction in enumerate(task.predictions(questions, windows, outputs)):
        context = questions[number].context
        candidates = spans(windows, number, outputs, task.max_answer_length, context=context)
        best, *others = islice(candidates, 2)
        score = best.start_logit + best.end_logit
        null_score = min(
            float(outputs[row]["start"][0]) + float(outputs[row]["end"][0])
            for row in windows.of_question(number)
        )
        differences += [score - other.start_logit - other.end_logit for other in others]
        if task.allows_no_answer:
            differences.append(abs(null_score - score - task.null_threshold))
        start = windows.offsets[best.first, 0] if prediction.text else -1
        end = start + len(prediction.text) if prediction.text else -1
        row = {"score": score, "no_answer_score": null_score}
        rows.append({**row, "answer": prediction.text, "start": start, "end": end})
    is_certain = min(differences) > _MIN_DIFFERENCE
    expected = {
        name: np.array([row[name] for row in rows], object if name == "answer" else None)
        for name in (rows[0] if is_certain else ("score", "no_answer_score"))
    }
    columns = dict(zip(("question", "context"), map(list, zip(*texts, strict=True)), strict=True))
    outputs_of_tensors = {
        f"{end}_logits": np.where(inputs["input_mask"], array, tf.float32.min)
        for end, array in logits.items()
    }
    return [
        Sample({"signature": "serving_default", "inputs": columns}, expected),
        Sample({"signature": "tensors", "inputs": inputs}, outputs_of_tensors),
    ]


def _settings(metadata: ModelMetadata, source: str) -> dict:
    """Returns the task that the model was fine-tuned on; SQuAD 1.1 if the metadata has none."""
    name = str(metadata.task.get("name", "squad1"))
    return {"task": task_of(metadata, name=name, source="the checkpoint")}


EXPORTER = Exporter(served_question_answering, _settings)
