"""Builds the SavedModel signatures and samples of models that embed texts."""

from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from bert_keras.config import EmbeddingConfig, ModelMetadata
from bert_keras.errors import InputError
from bert_keras.exporting.servable import (
    SAMPLE_TEXTS,
    Sample,
    ServableModel,
    sample_text,
    samples_of,
    text_signatures,
    text_specs,
    traced,
)
from bert_keras.exporting.signatures.exporter import Exporter
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.layers.sentence import normalized
from bert_keras.models.sentence_encoder import POOLING_MASK, num_excluded_tokens
from bert_keras.text.encode import encode
from bert_keras.text.tokenizer import TextTokenizer

COUNTS = "num_tokens"  # the signature that counts the tokens of a text, and its output
Outputs = Mapping[str, tf.Tensor]


def served_embeddings(
    model: keras.Model,
    reader: TextToInputs,
    tokenizer: TextTokenizer,
    *,
    embedding: EmbeddingConfig | None = None,
    dimensions: int | None = None,
) -> ServableModel:
    """Builds the signatures of a BertSentenceEncoder or a BertEncoder.

    `serving_default` takes `text`, string [B], puts the default prompt of a sentence encoder before
    it, and cuts texts that exceed `reader.max_length`. `tensors` takes `input_ids`, `input_mask`
    and `segment_ids`, int32 [B,T], of texts that include the prompt.

    Both return `embedding`, float32 [B,E], as `embedding` says. `num_tokens` of a sentence encoder
    takes `text` and returns `num_tokens`, int32 [B], the length of each row.

    The embedding of a BertEncoder is the mean of the hidden states of all tokens, including [CLS]
    and [SEP], scaled to length 1. An encoder with a pooler also returns `pooled`, float32 [B,D].

    Args:
        model: The model.
        reader: Converts texts to the model's inputs inside the graph.
        tokenizer: The same tokenizer outside the graph, which computes the samples.
        embedding: How a sentence encoder computes an embedding; None for a BertEncoder.
        dimensions: The number of values to keep of each embedding; None keeps all.

    Returns:
        The signatures and samples.

    Raises:
        InputError: The embeddings have fewer than `dimensions` values.
    """
    prompt = "" if embedding is None else embedding.prompt()
    if embedding is None:
        outputs_of = _encoder_outputs(model)
    else:
        num_excluded = num_excluded_tokens(embedding, tokenizer, prompt)
        outputs_of = _sentence_outputs(model, num_excluded=num_excluded)
        size = embedding.sizes(model.config.hidden_size)[-1]
        if dimensions is not None and not 1 <= dimensions <= size:
            raise InputError(f"dimensions is {dimensions}; expected 1 to {size}")

    def from_tensors(**inputs):
        outputs = outputs_of(inputs)
        if embedding is None or dimensions is None:
            return outputs
        vector_BE = outputs["embedding"][:, :dimensions]
        return {"embedding": normalized(vector_BE) if embedding.is_normalized else vector_BE}

    def from_text(text):
        return reader(tf.strings.join([prompt, text]) if prompt else text)

    def inputs_of(texts):
        return encode(tokenizer, [prompt + text for text in texts], max_length=reader.max_length)

    texts = [*SAMPLE_TEXTS, sample_text(tokenizer, num_tokens=2 * reader.max_length)]
    samples = samples_of({"text": texts}, inputs_of, from_tensors)
    signatures = text_signatures(from_tensors, from_text)
    if embedding is not None:

        def counts(text):
            return {COUNTS: tf.reduce_sum(from_text(text)["input_mask"], axis=1)}

        signatures[COUNTS] = traced(counts, **text_specs(["text"]))
        expected = {COUNTS: inputs_of(texts)["input_mask"].sum(axis=1, dtype="int32")}
        samples.append(Sample({"signature": COUNTS, "inputs": {"text": texts}}, expected))
    return ServableModel(signatures, samples)


def _encoder_outputs(model: keras.Model) -> Callable[[dict], Outputs]:
    def outputs_of(inputs):
        encoded = model(inputs, training=False)
        real_BT1 = tf.expand_dims(tf.cast(inputs["input_mask"] > 0, tf.float32), axis=2)
        total_BD = tf.reduce_sum(encoded["sequence_output"] * real_BT1, axis=1)
        # After normalization, the sum equals the mean.
        outputs = {"embedding": tf.math.l2_normalize(total_BD, axis=1)}
        if "pooled_output" in encoded:
            outputs["pooled"] = encoded["pooled_output"]
        return outputs

    return outputs_of


def _sentence_outputs(model: keras.Model, *, num_excluded: int) -> Callable[[dict], Outputs]:
    """Returns a function that excludes the first `num_excluded` tokens of a row from pooling."""

    def outputs_of(inputs):
        if num_excluded:
            mask_BT = tf.convert_to_tensor(inputs["input_mask"])
            is_pooled_T = tf.range(tf.shape(mask_BT)[1]) >= num_excluded
            inputs = {**inputs, POOLING_MASK: mask_BT * tf.cast(is_pooled_T, mask_BT.dtype)}
        return {"embedding": model(inputs, training=False)}

    return outputs_of


def _settings(metadata: ModelMetadata, source: str) -> dict:
    if metadata.embedding is None:
        return {}
    return {"embedding": metadata.embedding, "dimensions": None}


EXPORTER = Exporter(served_embeddings, _settings)
