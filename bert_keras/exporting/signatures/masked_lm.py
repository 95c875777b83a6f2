"""Builds the SavedModel signatures and samples of a masked language model."""

import keras
import tensorflow as tf

from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError
from bert_keras.exporting.servable import (
    SAMPLE_TEXTS,
    Sample,
    ServableModel,
    sample_text,
    samples_of,
    tensor_specs,
    text_specs,
    traced,
)
from bert_keras.exporting.signatures.exporter import Exporter
from bert_keras.exporting.text_ops.text_to_inputs import MaskedTextToInputs
from bert_keras.text.encode import encode_masked
from bert_keras.text.tokenizer import MASK, TextTokenizer
from bert_keras.text.vocab import Vocabulary

NUM_TOKENS = 5  # tokens returned for each [MASK]
# Rounding in the graph can swap two probabilities whose difference, relative to the larger one, is
# smaller than this.
_MIN_DIFFERENCE = 1e-4


def served_masked_lm(
    model: keras.Model, reader: MaskedTextToInputs, tokenizer: TextTokenizer
) -> ServableModel:
    """Builds the signatures of a BertMaskedLM or BertPretrainer.

    `serving_default` takes `text`, string [B], with any number of [MASK]s. Texts that exceed
    `reader.max_length` are cut, and [MASK]s in the removed part are ignored. `tensors` takes
    `input_ids`, `input_mask` and `segment_ids`, int32 [B,T], and `masked_lm_positions`, int32
    [B,P]. It ignores positions that are 0 or outside of the row.

    Both return the 5 most probable tokens of each [MASK], `pieces`, string [B,P,5], and their
    `probabilities`, float32 [B,P,5]. P is the largest number of [MASK]s in a text. Texts with fewer
    are padded with "" and 0.

    For a BertPretrainer, `next_sentence` takes `text` and `text_pair`, string [B], and returns
    `is_next_probability`, float32 [B]. `tensors` also returns this output.

    Args:
        model: The masked language model.
        reader: Converts texts to the model's inputs inside the graph.
        tokenizer: The same tokenizer outside the graph, which computes the samples.

    Returns:
        The signatures and samples.
    """
    vocabulary = tokenizer.vocabulary

    def from_tensors(**inputs):
        return _most_probable(model, inputs, vocabulary=vocabulary, count=NUM_TOKENS)

    tensors = traced(
        from_tensors,
        **tensor_specs(rank=2),
        masked_lm_positions=tf.TensorSpec([None, None], tf.int32, "masked_lm_positions"),
    )

    def from_text(text):
        inputs = reader(text)
        positions_BP = _mask_positions(inputs["input_ids"], reader.vocabulary.mask_id)
        num_masks = tf.shape(positions_BP)[1]
        # The head needs at least one position.
        padding = [[0, 0], [0, tf.cast(num_masks == 0, tf.int32)]]
        outputs = tensors(**inputs, masked_lm_positions=tf.pad(positions_BP, padding))
        return {name: outputs[name][:, :num_masks] for name in ("pieces", "probabilities")}

    def from_pair(text, text_pair):
        inputs = reader(text, text_pair)
        no_positions = tf.zeros_like(inputs["input_ids"][:, :1])
        outputs = tensors(**inputs, masked_lm_positions=no_positions)
        return {"is_next_probability": outputs["is_next_probability"]}

    signatures = {"serving_default": traced(from_text, **text_specs(["text"])), "tensors": tensors}
    if "is_next_probability" in tensors.structured_outputs:
        signatures["next_sentence"] = traced(from_pair, **text_specs(["text", "text_pair"]))
    return ServableModel(
        signatures, _samples(model, tokenizer=tokenizer, max_length=reader.max_length)
    )


def _most_probable(
    model: keras.Model, inputs: dict, *, vocabulary: Vocabulary, count: int
) -> dict[str, tf.Tensor]:
    """Returns the outputs of `tensors`, with the `count` most probable tokens, in that order."""
    positions_BP = inputs["masked_lm_positions"]
    # The head gathers from flattened rows, so a position outside its row would read another row.
    is_valid_BP = (positions_BP > 0) & (positions_BP < tf.shape(inputs["input_ids"])[1])
    positions_BP = tf.where(is_valid_BP, positions_BP, 0)
    logits = model({**inputs, "masked_lm_positions": positions_BP}, training=False)
    probabilities_BPV = tf.nn.softmax(logits["masked_lm"][..., : len(vocabulary)])
    probabilities, ids = tf.math.top_k(probabilities_BPV, count)
    outputs = {
        "pieces": tf.where(is_valid_BP[..., None], tf.gather(vocabulary.tokens, ids), ""),
        "probabilities": tf.where(is_valid_BP[..., None], probabilities, 0.0),
    }
    if "next_sentence" in logits:
        outputs["is_next_probability"] = tf.nn.softmax(logits["next_sentence"])[:, 0]
    return outputs


def _mask_positions(input_ids_BT: tf.Tensor, mask_id: int) -> tf.Tensor:
    """Returns the positions of the mask tokens of each row, int32 [B,P], padded with 0."""
    is_mask_BT = input_ids_BT == mask_id
    column_BT = tf.broadcast_to(tf.range(tf.shape(is_mask_BT)[1])[None], tf.shape(is_mask_BT))
    return tf.ragged.boolean_mask(column_BT, is_mask_BT).to_tensor()


def _samples(model: keras.Model, *, tokenizer: TextTokenizer, max_length: int) -> list[Sample]:
    """Returns samples with one, several and no masks, and with a mask beyond `max_length`.

    A BertPretrainer also gets pairs of texts.
    """
    vocabulary = tokenizer.vocabulary

    def inputs_of(*columns):
        return encode_masked(tokenizer, *columns, max_length=max_length)

    def masked_tokens(**inputs):
        """Returns the expected outputs; omits `pieces` if rounding could change their order."""
        outputs = _most_probable(model, inputs, vocabulary=vocabulary, count=NUM_TOKENS + 1)
        probabilities = outputs["probabilities"].numpy()
        is_certain = probabilities[..., 1:] <= (1 - _MIN_DIFFERENCE) * probabilities[..., :-1]
        names = ("pieces", "probabilities") if is_certain.all() else ("probabilities",)
        return {name: outputs[name].numpy()[..., :NUM_TOKENS] for name in names}

    def is_next(**inputs):
        outputs = _most_probable(model, inputs, vocabulary=vocabulary, count=1)
        return {"is_next_probability": outputs["is_next_probability"]}

    long = sample_text(tokenizer, num_tokens=2 * max_length)
    _, empty, mixed = SAMPLE_TEXTS
    texts = [mixed, f"{MASK} and{MASK}{MASK}.", empty, f"{MASK} {long} {MASK}"]
    samples = samples_of({"text": texts}, inputs_of, masked_tokens)
    if hasattr(model, "next_sentence"):
        pairs = {"text": texts, "text_pair": texts[::-1]}
        samples += samples_of(pairs, inputs_of, is_next, signature="next_sentence")
    return samples


def _settings(metadata: ModelMetadata, source: str) -> dict:
    if metadata.config.is_causal:
        raise InputError(
            f"{source} contains a causal language model, which does not predict [MASK]; fine-tune "
            f"it, or export its encoder, which bert-keras convert SRC DST --model BertEncoder "
            "writes"
        )
    return {}


EXPORTER = Exporter(served_masked_lm, _settings, MaskedTextToInputs)
