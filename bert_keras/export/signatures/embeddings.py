"""Signatures of an encoder that embeds texts, and samples made by the code of training."""

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
    text_specs,
    traced,
)
from bert_keras.export.signatures.exporter import Exporter
from bert_keras.export.text_ops.text_to_inputs import TextToInputs
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer


def served_embeddings(
    model: keras.Model, reader: TextToInputs, tokenizer: TextTokenizer
) -> Servable:
    """Serves a BertEncoder. Texts of more tokens than `reader` takes are cut."""
    samples = _samples(model, tokenizer=tokenizer, max_length=reader.max_length)
    return Servable(signatures(model, reader), samples)


def signatures(model: keras.Model, reader: TextToInputs) -> dict[str, Signature]:
    """`serving_default` takes `text` string [B]; `tensors` takes `input_ids`, `input_mask`,
    `segment_ids`, int32 [B,T].

    Both return `embedding` float32 [B,D], the mean over all tokens with [CLS] and [SEP], scaled to
    length 1, as most models of sentence-transformers give it. An encoder with a pooler also gives
    `pooled` float32 [B,D].
    """

    def from_tensors(**inputs):
        encoded = model(inputs, training=False)
        real_BT1 = tf.cast(inputs["input_mask"] > 0, tf.float32)[..., None]
        total_BD = tf.reduce_sum(encoded["sequence_output"] * real_BT1, axis=1)
        # The sum has the direction of the mean.
        outputs = {"embedding": tf.math.l2_normalize(total_BD, axis=1)}
        if "pooled_output" in encoded:
            outputs["pooled"] = encoded["pooled_output"]
        return outputs

    tensors = traced(from_tensors, **tensor_specs(rank=2))

    def from_text(text):
        return tensors(**reader(text))

    return {"serving_default": traced(from_text, **text_specs(["text"])), "tensors": tensors}


def _samples(model: keras.Model, *, tokenizer: TextTokenizer, max_length: int) -> list[Sample]:
    """Short texts and one that is too long, together, then one alone."""
    texts = [*SAMPLE_TEXTS, long_text(tokenizer, num_pieces=max_length)]
    samples = []
    for chosen in (texts, texts[:1]):
        ids = tokenizer.ids_batch(chosen)
        inputs = pack(ids, vocabulary=tokenizer.vocabulary, max_length=max_length)
        encoded = eager_outputs(model, inputs)
        pairs = zip(encoded["sequence_output"], inputs["input_mask"], strict=True)
        means_BD = np.stack([states[mask > 0].mean(axis=0) for states, mask in pairs])
        outputs = {"embedding": means_BD / np.linalg.norm(means_BD, axis=1, keepdims=True)}
        if "pooled_output" in encoded:
            outputs["pooled"] = encoded["pooled_output"]
        samples += samples_of({"text": chosen}, inputs, outputs)
    return samples


EXPORTER = Exporter(served_embeddings)
