"""A question answering model and its task come in; requests to its export, with answers, go out.

Windows and answers are made by the code of training, not by that of the graph.
"""

from collections.abc import Sequence
from itertools import islice

import keras
import numpy as np
import tensorflow as tf

from bert_keras.export.servable import Sample
from bert_keras.export.windows_in_graph import WINDOWS_AT_ONCE
from bert_keras.tasks.squad.predictions import spans
from bert_keras.tasks.squad.questions import Question
from bert_keras.tasks.squad.task import SquadTask
from bert_keras.tasks.squad.windows import Windows
from bert_keras.text.tokenizer import TextTokenizer

_LEAST_LEAD = 1e-3  # of the best span: what is nearer to another may come second in the graph
_SHORT = (
    ("Who wrote it?", "A short sentence by Anna Lee."),
    ("", "x"),
    (
        "東京 cafe\u0301?",
        "Cafe\u0301 [MASK] İSTANBUL ß ﬁ ΟΔΟΣ 東京 한국 a\u200bb \x00\ufffd 😀\tend\n",
    ),
)


def samples(model: keras.Model, *, tokenizer: TextTokenizer, task: SquadTask) -> list[Sample]:
    """To both signatures, of short contexts and one that has more windows than the graph reads at
    once. Answers are asked only where one span leads and the scores are asked of all.
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
    with tf.device("CPU:0"):
        logits = [
            {end: np.asarray(each) for end, each in model(inputs, training=False).items()}
            for inputs in batches
        ]
    outputs = [
        {end: each[row] for end, each in batch.items()}
        for batch in logits
        for row in range(len(batch["start"]))
    ]
    found, leads = answers(questions, windows, outputs, task=task)
    scores = {name: array for name, array in found.items() if name.endswith("score")}
    certain = leads > _LEAST_LEAD
    tensors = Sample(
        {
            "signature": "tensors",
            "inputs": {name: array.tolist() for name, array in batches[0].items()},
        },
        {
            f"{end}_logits": np.where(batches[0]["input_mask"], array, tf.float32.min)
            for end, array in logits[0].items()
        },
    )
    return [
        _sample(questions, np.full(len(questions), True), scores),
        *([_sample(questions, certain, found)] if certain.any() else []),
        tensors,
    ]


def answers(
    questions: Sequence[Question],
    windows: Windows,
    outputs: Sequence[dict[str, np.ndarray]],
    *,
    task: SquadTask,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The outputs of `serving_default`, and by how much each answer leads before what else it might
    be, float64 [Q]."""
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
