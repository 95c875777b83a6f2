"""A model of masked words and its vocabulary come in; a folder that TF Serving loads goes out."""

from collections.abc import Callable

import keras
import tensorflow as tf

from bert_keras.export.masked_lm_samples import samples
from bert_keras.export.masks_in_graph import MaskedTextToInputs
from bert_keras.export.servable import Exporter, Servable, tensor_specs, text_specs
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary

NUM_PIECES = 5  # that are told for each [MASK]


def served_masked_lm(
    model: keras.Model, reader: MaskedTextToInputs, tokenizer: TextTokenizer
) -> Servable:
    """Of a BertMaskedLM or BertPretrainer. Texts of more pieces than `reader` takes are cut, with
    the [MASK]s there."""
    asked = samples(model, tokenizer=tokenizer, max_length=reader.max_length, num_pieces=NUM_PIECES)
    signed = signatures(model, text_to_inputs=reader, vocabulary=tokenizer.vocabulary)
    return Servable(signed, asked)


def signatures(
    model: keras.Model, *, text_to_inputs: MaskedTextToInputs, vocabulary: Vocabulary
) -> dict[str, Callable]:
    """`serving_default`: `text` string [B] with any number of [MASK]s. `tensors`: `input_ids`,
    `input_mask`, `segment_ids` int32 [B,T] and `masked_lm_positions` int32 [B,P], 0 where there is
    none; one beyond T is none. Both give the most probable `pieces` string [B,P,5] with their
    `probabilities` float32 [B,P,5]; P is the most masks in a text, others are filled up with "", 0.

    Of a BertPretrainer `next_sentence`: `text`, `text_pair` string [B] to `is_next_probability`
    float32 [B], which `tensors` gives too.
    """

    @tf.function
    def from_tensors(**inputs):
        positions_BP = inputs["masked_lm_positions"]
        # Beyond its own row there stand the texts of others.
        is_asked_BP = (positions_BP > 0) & (positions_BP < tf.shape(inputs["input_ids"])[1])
        inputs["masked_lm_positions"] = tf.where(is_asked_BP, positions_BP, 0)
        outputs = model(inputs, training=False)
        shares_BPV = tf.nn.softmax(outputs["masked_lm"][..., : len(vocabulary)])
        shares, ids = tf.math.top_k(shares_BPV, NUM_PIECES)
        answer = {
            "pieces": tf.where(is_asked_BP[..., None], tf.gather(vocabulary.pieces, ids), ""),
            "probabilities": tf.where(is_asked_BP[..., None], shares, 0.0),
        }
        if "next_sentence" in outputs:
            answer["is_next_probability"] = tf.nn.softmax(outputs["next_sentence"])[:, 0]
        return answer

    # Traced once: the graph of the encoder is stored once and the others call it.
    fill = from_tensors.get_concrete_function(
        **tensor_specs(rank=2),
        masked_lm_positions=tf.TensorSpec([None, None], tf.int32, "masked_lm_positions"),
    )

    @tf.function
    def from_text(text):
        inputs = text_to_inputs(text)
        is_mask_BT = inputs["input_ids"] == text_to_inputs.mask_id
        column_BT = tf.broadcast_to(tf.range(tf.shape(is_mask_BT)[1])[None], tf.shape(is_mask_BT))
        positions_BP = tf.ragged.boolean_mask(column_BT, is_mask_BT).to_tensor()
        num_masks = tf.shape(positions_BP)[1]
        # The head takes one position or more.
        padding = [[0, 0], [0, tf.cast(num_masks == 0, tf.int32)]]
        answer = fill(**inputs, masked_lm_positions=tf.pad(positions_BP, padding))
        return {name: answer[name][:, :num_masks] for name in ("pieces", "probabilities")}

    @tf.function
    def from_pair(text, text_pair):
        inputs = text_to_inputs(text, text_pair)
        no_positions = tf.zeros_like(inputs["input_ids"][:, :1])
        answer = fill(**inputs, masked_lm_positions=no_positions)
        return {"is_next_probability": answer["is_next_probability"]}

    signed = {
        "serving_default": from_text.get_concrete_function(**text_specs(["text"])),
        "tensors": fill,
    }
    if "is_next_probability" in fill.structured_outputs:
        pair = text_specs(["text", "text_pair"])
        signed["next_sentence"] = from_pair.get_concrete_function(**pair)
    return signed


EXPORTER = Exporter(served_masked_lm, reader=MaskedTextToInputs)
