"""Signatures of a multiple choice model, and samples made by the code of training.

For a model trained on SWAG `context` is sent1, and each choice is sent2, a space and an ending.
"""

import keras
import numpy as np
import tensorflow as tf

from bert_keras.export.servable import (
    SAMPLE_TEXTS,
    Sample,
    Servable,
    Signature,
    eager_outputs,
    long_text,
    samples_of,
    tensor_specs,
    traced,
)
from bert_keras.export.signatures.exporter import Exporter
from bert_keras.export.text_ops.text_to_inputs import TextToInputs
from bert_keras.export.text_ops.windows import in_parts
from bert_keras.tasks.swag import Situation, SwagTask
from bert_keras.tasks.task import softmax
from bert_keras.text.tokenizer import TextTokenizer


def served_multiple_choice(
    model: keras.Model, reader: TextToInputs, tokenizer: TextTokenizer
) -> Servable:
    """Serves a BertMultipleChoice. A context and its choice of more tokens than `reader` takes are
    cut, the longer first."""
    samples = _samples(model, tokenizer=tokenizer, max_length=reader.max_length)
    return Servable(signatures(model, reader), samples)


def signatures(model: keras.Model, reader: TextToInputs) -> dict[str, Signature]:
    """`serving_default` takes `context` string [B] and `choices` string [B,C]; `tensors` takes
    `input_ids`, `input_mask`, `segment_ids`, int32 [B,C,T]. Both return `choice` int32 [B], counted
    from 0, and `probabilities` float32 [B,C], which sum to 1.

    C may differ between requests, and within one: an empty choice, or one without any input_mask,
    is none and has the probability 0. Of texts a few choices are read at a time.
    """

    def from_rows(**inputs):
        each_alone = {name: ids_XT[:, None] for name, ids_XT in inputs.items()}
        return {"logits": model(each_alone, training=False)[:, 0]}

    rows_read = traced(from_rows, **tensor_specs(rank=2))

    def chosen(logits_X, is_real_BC):
        logits_BC = tf.reshape(logits_X, tf.shape(is_real_BC))
        logits_BC = tf.where(is_real_BC, logits_BC, tf.float32.min)
        probabilities_BC = tf.where(is_real_BC, tf.nn.softmax(logits_BC), 0.0)
        choice_B = tf.argmax(probabilities_BC, axis=1, output_type=tf.int32)
        return {"choice": choice_B, "probabilities": probabilities_BC}

    def from_tensors(**inputs):
        length = tf.shape(inputs["input_ids"])[-1]
        rows = {name: tf.reshape(ids, [-1, length]) for name, ids in inputs.items()}
        logits_X = rows_read(**rows)["logits"]
        return chosen(logits_X, tf.reduce_any(inputs["input_mask"] > 0, axis=-1))

    def from_text(context, choices):
        is_any = tf.debugging.Assert(tf.size(choices) > 0, ["choices is empty; send at least one"])
        with tf.control_dependencies([is_any]):
            num_choices = tf.shape(choices)[1]
        rows = reader(tf.repeat(context, num_choices), tf.reshape(choices, [-1]))
        found = in_parts(rows, rows_read, outputs={"logits": tf.TensorSpec([None], tf.float32)})
        return chosen(found["logits"], choices != "")

    return {
        "serving_default": traced(
            from_text,
            context=tf.TensorSpec([None], tf.string, "context"),
            choices=tf.TensorSpec([None, None], tf.string, "choices"),
        ),
        "tensors": traced(from_tensors, **tensor_specs(rank=3)),
    }


def _samples(model: keras.Model, *, tokenizer: TextTokenizer, max_length: int) -> list[Sample]:
    """Two situations as training reads them, then the first with its last choice left empty."""
    long = long_text(tokenizer, num_pieces=max_length)
    short, empty, mixed = SAMPLE_TEXTS
    situations = [
        Situation(empty, "", (mixed, short, long, "x"), None),
        Situation(long, "", (short, "y", long, mixed), None),
    ]
    encoded = SwagTask(max_length=max_length).encode(situations, tokenizer)
    inputs, _ = encoded.batch(np.arange(len(situations)))
    logits_BC = eager_outputs(model, inputs)
    texts = {
        "context": [each.context for each in situations],
        "choices": [list(each.endings) for each in situations],
    }
    samples = samples_of(texts, inputs, _outputs(softmax(logits_BC)))
    three = {name: ids[:1].copy() for name, ids in inputs.items()}
    three["input_mask"][:, -1] = 0
    texts = {"context": texts["context"][:1], "choices": [[*texts["choices"][0][:-1], ""]]}
    outputs = _outputs(np.pad(softmax(logits_BC[:1, :-1]), [[0, 0], [0, 1]]))
    return samples + samples_of(texts, three, outputs)


def _outputs(probabilities_BC: np.ndarray) -> dict[str, np.ndarray]:
    choice_B = probabilities_BC.argmax(axis=1).astype(np.int32)
    return {"choice": choice_B, "probabilities": probabilities_BC}


EXPORTER = Exporter(served_multiple_choice)
