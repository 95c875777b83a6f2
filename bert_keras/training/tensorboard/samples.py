"""Writes the model's predictions for a few masked records to TensorBoard."""

import os
import re
from functools import partial

import keras
import numpy as np
import tensorflow as tf

from bert_keras.distribution.replicas import scalar_value
from bert_keras.text.fast_tokenizer import readable_tokens
from bert_keras.text.vocab import Vocabulary


class MaskedSamples(keras.callbacks.Callback):
    """Writes the predictions for each row of a batch as the text masked_lm/samples.

    Args:
        batch: (inputs, targets, weights) as `pretraining_dataset` returns them.
        vocabulary: The vocabulary of the records.
        folder: The folder of the logs.
        epochs_per_sample: The number of Keras epochs between two samples. The last sample is
            written at the end of the training.
    """

    _predict = None
    _sampled_step = None

    def __init__(
        self,
        batch: tuple,
        vocabulary: Vocabulary,
        folder: str | os.PathLike,
        *,
        epochs_per_sample: int,
    ):
        super().__init__()
        self.inputs, targets, weights = batch
        self.targets, self.weights = targets["masked_lm"].numpy(), weights["masked_lm"].numpy()
        self.tokens = readable_tokens(vocabulary)
        self.folder, self.epochs_per_sample = os.fspath(folder), epochs_per_sample

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.epochs_per_sample == 0:
            self._write()

    def on_train_end(self, logs=None):
        self._write()

    def _write(self) -> None:
        step = scalar_value(self.model.optimizer.iterations)
        if step == self._sampled_step:
            return
        self._sampled_step = step
        if self._predict is None:
            self._predict = tf.function(partial(_most_probable, self.model), autograph=False)
        predictions, probabilities = (each.numpy() for each in self._predict(self.inputs))
        # Each sample has its own event file, in a folder without other logs, because TensorBoard
        # reads only the newest file of a folder.
        with tf.summary.create_file_writer(self.folder).as_default(step=step):
            rows = range(len(self.targets))
            texts = [self._row(row, predictions[row], probabilities[row]) for row in rows]
            tf.summary.text("masked_lm/samples", texts)

    def _row(self, row: int, predictions: np.ndarray, probabilities: np.ndarray) -> str:
        ids, mask = self.inputs["input_ids"][row].numpy(), self.inputs["input_mask"][row].numpy()
        # With a causal model the target is the token after the position.
        positions = self.inputs["masked_lm_positions"][row].numpy() + self.model.config.is_causal
        gaps = {
            int(positions[gap]): _gap(
                self.tokens[self.targets[row, gap]],
                self._token(predictions[gap]),
                probabilities[gap],
            )
            for gap in np.flatnonzero(self.weights[row])
        }
        return filled_text([self._token(each) for each in ids[mask > 0]], gaps)

    def _token(self, token_id: int) -> str:
        """Returns a token; a token table may have more rows than the vocabulary has tokens."""
        return self.tokens[token_id] if token_id < len(self.tokens) else f"[{token_id}]"


def filled_text(tokens: list[str], gaps: dict[int, str]) -> str:
    """Joins tokens to words, as Markdown.

    Args:
        tokens: The tokens.
        gaps: Markdown texts that replace the tokens at these positions.
    """
    text = ""
    for position, token in enumerate(tokens):
        if position in gaps:
            text += f" {gaps[position]}"
        elif token.startswith("##") and position - 1 not in gaps:
            text += escaped(token.removeprefix("##"))
        else:
            text += f" {escaped(token)}"
    return text.strip()


def escaped(text: str) -> str:
    """Escapes characters that have a meaning in Markdown or HTML."""
    return re.sub(r"[^\w\s.,:;?!'\"()/-]|_", lambda found: f"&#{ord(found[0])};", text)


def _gap(target: str, prediction: str, probability: float) -> str:
    """Returns the target and the prediction as Markdown, in bold if the prediction is correct."""
    text = f"&#91;{escaped(target)} → {escaped(prediction)} {probability:.2f}&#93;"
    return f"**{text}**" if prediction == target else text


def _most_probable(model: keras.Model, inputs: dict):
    """Returns the most probable token of each masked position and its probability, both [B, P]."""
    probabilities_BPV = tf.nn.softmax(model(inputs, training=False)["masked_lm"])
    return tf.argmax(probabilities_BPV, axis=-1), tf.reduce_max(probabilities_BPV, axis=-1)
