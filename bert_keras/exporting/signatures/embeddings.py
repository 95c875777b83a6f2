"""Builds the SavedModel signatures and samples of an encoder that embeds texts."""

import keras
import tensorflow as tf

from bert_keras.exporting.servable import (
    SAMPLE_TEXTS,
    ServableModel,
    sample_text,
    samples_of,
    text_signatures,
)
from bert_keras.exporting.signatures.exporter import Exporter
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.text.encode import encode
from bert_keras.text.tokenizer import TextTokenizer


def served_embeddings(
    model: keras.Model, reader: TextToInputs, tokenizer: TextTokenizer
) -> ServableModel:
    """Builds the signatures of a BertEncoder.

    `serving_default` takes `text`, string [B], and cuts texts that exceed `reader.max_length`.
    `tensors` takes `input_ids`, `input_mask` and `segment_ids`, int32 [B,T].

    Both return `embedding`, float32 [B,D]: the mean of the hidden states of all tokens, including
    [CLS] and [SEP], scaled to length 1. Most models of sentence-transformers compute embeddings
    this way. An encoder with a pooler also returns `pooled`, float32 [B,D].

    Args:
        model: The encoder.
        reader: Converts texts to the model's inputs inside the graph.
        tokenizer: The same tokenizer outside the graph, which computes the samples.

    Returns:
        The signatures and samples.
    """

    def from_tensors(**inputs):
        encoded = model(inputs, training=False)
        real_BT1 = tf.expand_dims(tf.cast(inputs["input_mask"] > 0, tf.float32), axis=2)
        total_BD = tf.reduce_sum(encoded["sequence_output"] * real_BT1, axis=1)
        # After normalization, the sum equals the mean.
        outputs = {"embedding": tf.math.l2_normalize(total_BD, axis=1)}
        if "pooled_output" in encoded:
            outputs["pooled"] = encoded["pooled_output"]
        return outputs

    def inputs_of(texts):
        return encode(tokenizer, texts, max_length=reader.max_length)

    texts = [*SAMPLE_TEXTS, sample_text(tokenizer, num_tokens=2 * reader.max_length)]
    samples = samples_of({"text": texts}, inputs_of, from_tensors)
    return ServableModel(text_signatures(from_tensors, reader), samples)


EXPORTER = Exporter(served_embeddings)
