"""Builds the SavedModel signatures of models that embed texts."""

import keras
import tensorflow as tf

from bert_keras.config import EmbeddingConfig
from bert_keras.exporting.servable import Exporter, ServableModel, text_servable, text_specs, traced
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.serving.embeddings_api import COUNTS


def served_embeddings(
    model: keras.Model, reader: TextToInputs, *, embedding: EmbeddingConfig | None = None
) -> ServableModel:
    """Builds the signatures of a BertSentenceEncoder or a BertEncoder.

    `serving_default` takes `text`, string [B], and puts the default prompt of a sentence encoder
    before it. `tensors` takes `input_ids`, `input_mask` and `segment_ids`, int32 [B,T], of texts
    that include the prompt. Both return `embedding`, float32 [B,E]. `num_tokens` of a sentence
    encoder takes `text` and returns `num_tokens`, int32 [B], the length of each row.

    The embedding of a BertEncoder is the mean of the hidden states of all tokens, including [CLS]
    and [SEP], scaled to length 1. An encoder with a pooler also returns `pooled`, float32 [B,D].
    """

    def from_encoder(**inputs):
        encoded = model(inputs, training=False)
        real_BT1 = tf.expand_dims(tf.cast(inputs["input_mask"] > 0, tf.float32), axis=2)
        total_BD = tf.reduce_sum(encoded["sequence_output"] * real_BT1, axis=1)
        # After normalization, the sum equals the mean.
        outputs = {"embedding": tf.math.l2_normalize(total_BD, axis=1)}
        if "pooled_output" in encoded:
            outputs["pooled"] = encoded["pooled_output"]
        return outputs

    if embedding is None:
        return text_servable(from_encoder, reader)
    prompt = embedding.prompt()

    def from_tensors(**inputs):
        return {"embedding": model(inputs, training=False)}

    def from_text(text):
        return reader(tf.strings.join([prompt, text]) if prompt else text)

    def counts(text):
        return {COUNTS: tf.reduce_sum(from_text(text)["input_mask"], axis=1)}

    servable = text_servable(from_tensors, from_text)
    servable.signatures[COUNTS] = traced(counts, **text_specs(["text"]))
    return servable


EXPORTER = Exporter(served_embeddings, settings=lambda metadata: {"embedding": metadata.embedding})
