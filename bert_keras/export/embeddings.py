"""An encoder and its vocabulary come in; a folder that TF Serving loads goes out."""

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
    text_specs,
)
from bert_keras.export.text_in_graph import TextToInputs
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer


def served_embeddings(
    model: keras.Model, reader: TextToInputs, tokenizer: TextTokenizer
) -> Servable:
    """Of a BertEncoder; texts of more pieces than `reader` takes are cut."""
    asked = _samples(model, tokenizer=tokenizer, max_length=reader.max_length)
    return Servable(signatures(model, text_to_inputs=reader), asked)


def signatures(model: keras.Model, *, text_to_inputs: TextToInputs) -> dict[str, Callable]:
    """`serving_default`: `text` string [B]. `tensors`: `input_ids`, `input_mask`, `segment_ids`,
    int32 [B,T]. Both give `embedding` float32 [B,D], the mean over all pieces, [CLS] and [SEP]
    among them, scaled to the length 1, which is what the models of sentence-transformers mostly
    give; of an encoder with a pooler also `pooled` float32 [B,D].
    """

    @tf.function
    def from_tensors(**inputs):
        encoded = model(inputs, training=False)
        real_BT1 = tf.cast(inputs["input_mask"] > 0, tf.float32)[..., None]
        total_BD = tf.reduce_sum(encoded["sequence_output"] * real_BT1, axis=1)
        # The sum has the direction of the mean.
        answer = {"embedding": tf.math.l2_normalize(total_BD, axis=1)}
        if "pooled_output" in encoded:
            answer["pooled"] = encoded["pooled_output"]
        return answer

    # Traced once: the graph of the encoder is stored once and `from_text` calls it.
    embed = from_tensors.get_concrete_function(**tensor_specs(rank=2))

    @tf.function
    def from_text(text):
        return embed(**text_to_inputs(text))

    return {
        "serving_default": from_text.get_concrete_function(**text_specs(["text"])),
        "tensors": embed,
    }


def _samples(model: keras.Model, *, tokenizer: TextTokenizer, max_length: int) -> list[Sample]:
    """Short texts and one that is too long, together, then one alone."""
    texts = [*SAMPLE_TEXTS, long_text(tokenizer, num_pieces=max_length)]
    found = []
    for chosen in (texts, texts[:1]):
        ids = tokenizer.ids_batch(chosen)
        inputs = pack(ids, vocabulary=tokenizer.vocabulary, max_length=max_length)
        with tf.device("CPU:0"):
            encoded = model(inputs, training=False)
        pairs = zip(np.asarray(encoded["sequence_output"]), inputs["input_mask"], strict=True)
        means_BD = np.stack([states[mask > 0].mean(axis=0) for states, mask in pairs])
        outputs = {"embedding": means_BD / np.linalg.norm(means_BD, axis=1, keepdims=True)}
        if "pooled_output" in encoded:
            outputs["pooled"] = np.asarray(encoded["pooled_output"])
        found += samples_of({"text": chosen}, inputs, outputs)
    return found


EXPORTER = Exporter(served_embeddings)
