"""Signatures of a model that fills [MASK]s, and samples made by the code of training."""

import keras
import numpy as np
import tensorflow as tf

from bert_keras.architectures import ENCODER
from bert_keras.checkpoints.card import ModelCard
from bert_keras.errors import InputError
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
from bert_keras.export.text_ops.text_to_inputs import MaskedTextToInputs
from bert_keras.tasks.task import softmax
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import MASK, TextTokenizer, ids_with_masks
from bert_keras.text.vocab import Vocabulary

NUM_PIECES = 5  # tokens returned for each [MASK]
# Probabilities that differ by less than this share of the larger may swap their order in the graph.
_CLEAR = 1e-4


def served_masked_lm(
    model: keras.Model, reader: MaskedTextToInputs, tokenizer: TextTokenizer
) -> Servable:
    """Serves a BertMaskedLM or BertPretrainer. Texts of more tokens than `reader` takes are cut,
    with the [MASK]s there."""
    samples = _samples(model, tokenizer=tokenizer, max_length=reader.max_length)
    return Servable(signatures(model, reader, vocabulary=tokenizer.vocabulary), samples)


def signatures(
    model: keras.Model, reader: MaskedTextToInputs, *, vocabulary: Vocabulary
) -> dict[str, Signature]:
    """`serving_default` takes `text` string [B] with any number of [MASK]s; `tensors` takes
    `input_ids`, `input_mask`, `segment_ids` int32 [B,T] and `masked_lm_positions` int32 [B,P], in
    which 0 and positions beyond T are none.

    Both return the most probable `pieces` string [B,P,5] with their `probabilities` float32
    [B,P,5]; P is the largest number of masks in a text, others are padded with "" and 0.

    Of a BertPretrainer `next_sentence` takes `text`, `text_pair` string [B] and returns
    `is_next_probability` float32 [B], which `tensors` returns too.
    """

    def from_tensors(**inputs):
        positions_BP = inputs["masked_lm_positions"]
        # A position beyond its own row would read another row.
        is_asked_BP = (positions_BP > 0) & (positions_BP < tf.shape(inputs["input_ids"])[1])
        inputs["masked_lm_positions"] = tf.where(is_asked_BP, positions_BP, 0)
        outputs = model(inputs, training=False)
        shares_BPV = tf.nn.softmax(outputs["masked_lm"][..., : len(vocabulary)])
        shares, ids = tf.math.top_k(shares_BPV, NUM_PIECES)
        found = {
            "pieces": tf.where(is_asked_BP[..., None], tf.gather(vocabulary.pieces, ids), ""),
            "probabilities": tf.where(is_asked_BP[..., None], shares, 0.0),
        }
        if "next_sentence" in outputs:
            found["is_next_probability"] = tf.nn.softmax(outputs["next_sentence"])[:, 0]
        return found

    tensors = traced(
        from_tensors,
        **tensor_specs(rank=2),
        masked_lm_positions=tf.TensorSpec([None, None], tf.int32, "masked_lm_positions"),
    )

    def from_text(text):
        inputs = reader(text)
        is_mask_BT = inputs["input_ids"] == reader.mask_id
        column_BT = tf.broadcast_to(tf.range(tf.shape(is_mask_BT)[1])[None], tf.shape(is_mask_BT))
        positions_BP = tf.ragged.boolean_mask(column_BT, is_mask_BT).to_tensor()
        num_masks = tf.shape(positions_BP)[1]
        # The head needs at least one position.
        padding = [[0, 0], [0, tf.cast(num_masks == 0, tf.int32)]]
        found = tensors(**inputs, masked_lm_positions=tf.pad(positions_BP, padding))
        return {name: found[name][:, :num_masks] for name in ("pieces", "probabilities")}

    def from_pair(text, text_pair):
        inputs = reader(text, text_pair)
        no_positions = tf.zeros_like(inputs["input_ids"][:, :1])
        found = tensors(**inputs, masked_lm_positions=no_positions)
        return {"is_next_probability": found["is_next_probability"]}

    found = {"serving_default": traced(from_text, **text_specs(["text"])), "tensors": tensors}
    if "is_next_probability" in tensors.structured_outputs:
        found["next_sentence"] = traced(from_pair, **text_specs(["text", "text_pair"]))
    return found


def _samples(model: keras.Model, *, tokenizer: TextTokenizer, max_length: int) -> list[Sample]:
    """Texts with several masks, one, none, and more than fit; of a BertPretrainer pairs too."""
    long = long_text(tokenizer, num_pieces=max_length)
    _, empty, mixed = SAMPLE_TEXTS
    texts = [mixed, f"{MASK} and{MASK}{MASK}.", empty, f"{MASK} {long} {MASK}"]
    samples = []
    for chosen in (texts, texts[:1]):
        inputs = _inputs(chosen, tokenizer=tokenizer, max_length=max_length)
        logits = eager_outputs(model, inputs)["masked_lm"][..., : len(tokenizer.vocabulary)]
        outputs = _most_probable(
            softmax(logits),
            pieces=tokenizer.vocabulary.pieces,
            positions=inputs["masked_lm_positions"],
        )
        samples += samples_of({"text": chosen}, inputs, outputs)
    if not hasattr(model, "next_sentence"):
        return samples
    pairs = {"text": texts, "text_pair": texts[::-1]}
    inputs = _inputs(*pairs.values(), tokenizer=tokenizer, max_length=max_length)
    shares = softmax(eager_outputs(model, inputs)["next_sentence"])
    of_text, of_tensors = samples_of(pairs, inputs, {"is_next_probability": shares[:, 0]})
    of_text.request["signature"] = "next_sentence"
    return [*samples, of_text, of_tensors]


def _inputs(*columns: list[str], tokenizer: TextTokenizer, max_length: int) -> dict:
    """With the positions of the masks, padded with 0."""
    ids = [ids_with_masks(column, tokenizer) for column in columns]
    inputs = pack(*ids, vocabulary=tokenizer.vocabulary, max_length=max_length)
    rows, places = np.nonzero(inputs["input_ids"] == tokenizer.vocabulary.mask_id)
    counts = np.bincount(rows, minlength=len(ids[0]))
    positions = np.zeros((len(counts), counts.max()), np.int32)
    positions[np.arange(counts.max()) < counts[:, None]] = places
    return {**inputs, "masked_lm_positions": positions}


def _most_probable(
    shares_BPV: np.ndarray, *, pieces: tuple[str, ...], positions: np.ndarray
) -> dict[str, np.ndarray]:
    """`probabilities`, and `pieces` where rounding does not change their order."""
    order = np.argsort(-shares_BPV, axis=-1, kind="stable")[..., : NUM_PIECES + 1]
    shares = np.take_along_axis(shares_BPV, order, axis=-1)
    is_real = positions > 0
    found = {"probabilities": np.where(is_real[..., None], shares[..., :NUM_PIECES], 0)}
    if (shares[is_real][:, 1:] < (1 - _CLEAR) * shares[is_real][:, :-1]).all():
        names = np.array(pieces, object)[order[..., :NUM_PIECES]]
        found["pieces"] = np.where(is_real[..., None], names, "")
    return found


def _settings(card: ModelCard, source: str) -> dict:
    if card.config.is_causal:
        raise InputError(
            f"{source} reads from left to right and fills no [MASK]; fine-tune it, or serve "
            f"its vectors: bert-keras convert --model {ENCODER.name}"
        )
    return {}


EXPORTER = Exporter(served_masked_lm, _settings, MaskedTextToInputs)
