"""A model of multiple choice and its vocabulary come in; a folder that TF Serving loads goes out.

To one trained on SWAG `context` is sent1, and each choice is sent2, a space and an ending.
"""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from bert_keras.export.servable import (
    SAMPLE_TEXTS,
    Exporter,
    Sample,
    Servable,
    long_text,
    samples_of,
    tensor_specs,
)
from bert_keras.export.text_in_graph import TextToInputs
from bert_keras.export.windows_in_graph import in_parts
from bert_keras.tasks.swag import Situation, SwagTask
from bert_keras.tasks.task import softmax
from bert_keras.text.tokenizer import TextTokenizer


def served_multiple_choice(
    model: keras.Model, reader: TextToInputs, tokenizer: TextTokenizer
) -> Servable:
    """Of a BertMultipleChoice. A context and its choice of more pieces than `reader` takes are cut,
    the longer first."""
    asked = _samples(model, tokenizer=tokenizer, max_length=reader.max_length)
    return Servable(signatures(model, text_to_inputs=reader), asked)


def signatures(model: keras.Model, *, text_to_inputs: TextToInputs) -> dict[str, Callable]:
    """`serving_default`: `context` string [B], `choices` string [B,C]. `tensors`: `input_ids`,
    `input_mask`, `segment_ids`, int32 [B,C,T]. Both give `choice` int32 [B], counted from 0, and
    `probabilities` float32 [B,C], which sum to 1.

    C may differ from request to request, and within one: an empty choice, or one without any
    input_mask, is none and has the probability 0. Of texts a few choices are read at a time.
    """

    @tf.function
    def from_rows(**inputs):
        each_alone = {name: ids_XT[:, None] for name, ids_XT in inputs.items()}
        return {"logits": model(each_alone, training=False)[:, 0]}

    # Traced once: the graph of the encoder is stored once and both signatures call it.
    read = from_rows.get_concrete_function(**tensor_specs(rank=2))

    def chosen(logits_X, is_real_BC):
        logits_BC = tf.reshape(logits_X, tf.shape(is_real_BC))
        logits_BC = tf.where(is_real_BC, logits_BC, tf.float32.min)
        probabilities_BC = tf.where(is_real_BC, tf.nn.softmax(logits_BC), 0.0)
        choice_B = tf.argmax(probabilities_BC, axis=1, output_type=tf.int32)
        return {"choice": choice_B, "probabilities": probabilities_BC}

    @tf.function
    def from_tensors(**inputs):
        length = tf.shape(inputs["input_ids"])[-1]
        rows = {name: tf.reshape(ids, [-1, length]) for name, ids in inputs.items()}
        return chosen(read(**rows)["logits"], tf.reduce_any(inputs["input_mask"] > 0, axis=-1))

    @tf.function
    def from_text(context, choices):
        is_any = tf.debugging.Assert(tf.size(choices) > 0, ["choices is empty; send at least one"])
        with tf.control_dependencies([is_any]):
            num_choices = tf.shape(choices)[1]
        rows = text_to_inputs(tf.repeat(context, num_choices), tf.reshape(choices, [-1]))
        found = in_parts(rows, read, outputs={"logits": tf.TensorSpec([None], tf.float32)})
        return chosen(found["logits"], choices != "")

    return {
        "serving_default": from_text.get_concrete_function(
            context=tf.TensorSpec([None], tf.string, "context"),
            choices=tf.TensorSpec([None, None], tf.string, "choices"),
        ),
        "tensors": from_tensors.get_concrete_function(**tensor_specs(rank=3)),
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
    with tf.device("CPU:0"):
        logits_BC = np.asarray(model(inputs, training=False))
    texts = {
        "context": [each.context for each in situations],
        "choices": [list(each.endings) for each in situations],
    }
    found = samples_of(texts, inputs, _outputs(softmax(logits_BC)))
    three = {name: ids[:1].copy() for name, ids in inputs.items()}
    three["input_mask"][:, -1] = 0
    texts = {"context": texts["context"][:1], "choices": [[*texts["choices"][0][:-1], ""]]}
    outputs = _outputs(np.pad(softmax(logits_BC[:1, :-1]), [[0, 0], [0, 1]]))
    return found + samples_of(texts, three, outputs)


def _outputs(probabilities_BC: np.ndarray) -> dict[str, np.ndarray]:
    choice_B = probabilities_BC.argmax(axis=1).astype(np.int32)
    return {"choice": choice_B, "probabilities": probabilities_BC}


EXPORTER = Exporter(served_multiple_choice)
