"""Outputs and gradients of our models, in the layout of `their_side`, and batches for both."""

from tempfile import TemporaryDirectory

import numpy as np
import tensorflow as tf

from bert_keras import BertDiscriminator, BertMaskedLM, BertPretrainer
from bert_keras.checkpoints.tensors import named_weights
from bert_keras.config import BertConfig
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.loading import load_model
from bert_keras.models.pretrained import Pretrained
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.training.losses import pretraining_losses


def batch_of(
    config: BertConfig, *, length: int, rows: int = 1, num_predictions: int = 0, seed: int = 1
) -> dict[str, np.ndarray]:
    """Returns random tokens. The first row is full, and each row has half the tokens of the row
    before, at least one. All positions are masked, or `num_predictions` with their labels."""
    random = np.random.default_rng(seed)
    real = np.maximum(1, length // 2 ** np.arange(rows))
    mask = (np.arange(length) < real[:, None]).astype("int32")
    num_segments = config.num_segments or 2
    batch = {
        "input_ids": random.integers(5, config.vocab_size, mask.shape, dtype="int32") * mask,
        "input_mask": mask,
        "segment_ids": random.integers(0, num_segments, mask.shape, dtype="int32") * mask,
        "masked_lm_positions": np.tile(np.arange(length, dtype="int32"), (rows, 1)),
    }
    if not num_predictions:
        return batch
    shape = (rows, num_predictions)
    filled = np.arange(num_predictions) < np.minimum(real, num_predictions)[:, None]
    positions = random.integers(0, real[:, None], shape, dtype="int32")
    return {
        **batch,
        "masked_lm_positions": np.sort(positions, axis=1) * filled.astype("int32"),
        "masked_lm_ids": random.integers(5, config.vocab_size, shape, dtype="int32") * filled,
        "masked_lm_weights": filled.astype("float32"),
        "next_sentence_labels": random.integers(0, 2, (rows, 1), dtype="int32"),
    }


def reading(
    batch: dict[str, np.ndarray], text: str, *, tokenizer: WordPieceTokenizer
) -> dict[str, np.ndarray]:
    """Replaces the random tokens of a batch by a text; each row begins later in the text."""
    ids, vocabulary = tokenizer.ids_batch([text])[0], tokenizer.vocabulary
    rows = np.zeros_like(batch["input_ids"])
    for row, length in enumerate(batch["input_mask"].sum(axis=1)):
        start = row * (len(ids) - length) // len(rows)
        inner = ids[start : start + max(0, length - 2)]
        rows[row, :length] = [vocabulary.cls_id, *inner, vocabulary.sep_id][:length]
    halves = np.arange(rows.shape[1]) >= batch["input_mask"].sum(axis=1, keepdims=True) // 2
    return {**batch, "input_ids": rows, "segment_ids": halves * batch["input_mask"]}


def choices(batch: dict[str, np.ndarray], *, num_choices: int) -> dict[str, np.ndarray]:
    """Returns rows [B x C, T] as the choices [B, C, T] of a BertMultipleChoice."""
    names = ("input_ids", "input_mask", "segment_ids")
    return {name: batch[name].reshape(-1, num_choices, batch[name].shape[1]) for name in names}


def imported(reference) -> Pretrained:
    """Loads the folder that the reference model writes."""
    with TemporaryDirectory() as folder:
        reference.save_pretrained(folder)
        return load_model(folder)


def outputs(model: Pretrained, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the states of the layers, computed eagerly, and the logits from a graph."""
    encoder = model if isinstance(model, BertEncoder) else model.encoder
    actual = {}
    if batch["input_ids"].ndim == 2:
        states = encoder.states(batch)
        for kind in ("hidden_states", "attentions"):
            actual |= {f"{kind}/{i}": each for i, each in enumerate(getattr(states, kind))}
    expected = model.predict_on_batch(batch)
    if "start" in expected:
        expected = np.stack([expected["start"], expected["end"]], axis=-1)
    if isinstance(expected, dict):
        actual |= {name: each for name, each in expected.items() if name != "sequence_output"}
    else:
        actual[model.kind.heads[0]] = expected
    return {name: np.asarray(each) for name, each in actual.items()}


def loss_and_gradients(
    model: BertPretrainer | BertMaskedLM, batch: dict[str, np.ndarray]
) -> tuple[float, dict[str, np.ndarray]]:
    """Returns the loss of pretraining, as `fit` computes it, and the gradients by our names."""
    losses = pretraining_losses()
    with tf.GradientTape() as tape:
        expected = model(batch)
        loss = losses["masked_lm"](
            batch["masked_lm_ids"], expected["masked_lm"], batch["masked_lm_weights"]
        )
        if "next_sentence" in expected:
            loss += losses["next_sentence"](
                batch["next_sentence_labels"], expected["next_sentence"]
            )
    return float(loss), _gradients(tape, loss, model)


def discriminator_gradients(
    model: BertDiscriminator, batch: dict[str, np.ndarray], is_replaced: np.ndarray
) -> tuple[float, dict[str, np.ndarray]]:
    """Returns the mean loss of the tokens without padding, and the gradients by our names."""
    with tf.GradientTape() as tape:
        logits = model(batch)["replaced_token"]
        losses = tf.nn.sigmoid_cross_entropy_with_logits(is_replaced.astype("float32"), logits)
        loss = tf.reduce_mean(losses[batch["input_mask"] == 1])
    return float(loss), _gradients(tape, loss, model)


def _gradients(tape, loss, model: Pretrained) -> dict[str, np.ndarray]:
    variables = named_weights(model)
    gradients = tape.gradient(loss, [variable.value for variable in variables.values()])
    # The gradient of a looked-up table has a row for each use; the conversion adds them.
    arrays = [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]
    return dict(zip(variables, arrays, strict=True))
