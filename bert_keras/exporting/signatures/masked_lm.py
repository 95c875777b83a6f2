"""Builds the SavedModel signatures of a masked language model."""

import keras
import tensorflow as tf

from bert_keras.exporting.servable import Exporter, ServableModel, tensor_specs, text_specs, traced
from bert_keras.exporting.text_ops.text_to_inputs import MaskedTextToInputs
from bert_keras.kinds.masked_lm import NUM_TOKENS


def served_masked_lm(model: keras.Model, reader: MaskedTextToInputs) -> ServableModel:
    """Builds the signatures of a BertMaskedLM or BertPretrainer.

    `serving_default` takes `text`, string [B], with any number of [MASK]s. `tensors` takes
    `input_ids`, `input_mask` and `segment_ids`, int32 [B,T], and `masked_lm_positions`, int32
    [B,P]. It ignores positions that are 0 or outside of the row. Both return the 5 most probable
    tokens of each [MASK], `tokens`, string [B,P,5], padded with "", and their `probabilities`.

    For a BertPretrainer, `next_sentence` takes `text` and `text_pair`, string [B], and returns
    `is_next_probability`, float32 [B]. `tensors` also returns this output.
    """
    tokens = reader.vocabulary.tokens

    def from_tensors(**inputs):
        positions_BP = inputs["masked_lm_positions"]
        # The head gathers from flattened rows, so a position outside its row would read another.
        is_valid_BP = (positions_BP > 0) & (positions_BP < tf.shape(inputs["input_ids"])[1])
        positions_BP = tf.where(is_valid_BP, positions_BP, 0)
        logits = model({**inputs, "masked_lm_positions": positions_BP}, training=False)
        probabilities_BPV = tf.nn.softmax(logits["masked_lm"][..., : len(tokens)])
        probabilities, ids = tf.math.top_k(probabilities_BPV, NUM_TOKENS)
        outputs = {
            "tokens": tf.where(is_valid_BP[..., None], tf.gather(tokens, ids), ""),
            "probabilities": tf.where(is_valid_BP[..., None], probabilities, 0.0),
        }
        if "next_sentence" in logits:
            outputs["is_next_probability"] = tf.nn.softmax(logits["next_sentence"])[:, 0]
        return outputs

    positions = tf.TensorSpec([None, None], tf.int32, "masked_lm_positions")
    tensors = traced(from_tensors, **tensor_specs(rank=2), masked_lm_positions=positions)

    def from_text(text):
        inputs = reader(text)
        is_mask_BT = inputs["input_ids"] == reader.vocabulary.mask_id
        columns_BT = tf.broadcast_to(tf.range(tf.shape(is_mask_BT)[1])[None], tf.shape(is_mask_BT))
        positions_BP = tf.ragged.boolean_mask(columns_BT, is_mask_BT).to_tensor()
        num_masks = tf.shape(positions_BP)[1]
        # The head needs at least one position.
        padding = [[0, 0], [0, tf.cast(num_masks == 0, tf.int32)]]
        outputs = tensors(**inputs, masked_lm_positions=tf.pad(positions_BP, padding))
        return {name: outputs[name][:, :num_masks] for name in ("tokens", "probabilities")}

    def from_pair(text, text_pair):
        inputs = reader(text, text_pair)
        no_positions = tf.zeros_like(inputs["input_ids"][:, :1])
        outputs = tensors(**inputs, masked_lm_positions=no_positions)
        return {"is_next_probability": outputs["is_next_probability"]}

    signatures = {"serving_default": traced(from_text, **text_specs(["text"])), "tensors": tensors}
    if "is_next_probability" in tensors.structured_outputs:
        signatures["next_sentence"] = traced(from_pair, **text_specs(["text", "text_pair"]))
    return ServableModel(signatures, from_tensors)


EXPORTER = Exporter(served_masked_lm, reader=MaskedTextToInputs)
