"""Writes the model's predictions for a few masked records to TensorBoard."""

import os
import re
from functools import partial

import keras
import numpy as np
import tensorflow as tf

from bert_keras.distribution.replicas import number
from bert_keras.text.fast_tokenizer import legible_pieces
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

    _fill = None
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
        self.answers, self.weights = targets["masked_lm"].numpy(), weights["masked_lm"].numpy()
        self.pieces = legible_pieces(vocabulary)
        self.folder, self.epochs_per_sample = os.fspath(folder), epochs_per_sample

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.epochs_per_sample == 0:
            self._write()

    def on_train_end(self, logs=None):
        self._write()

    def _write(self) -> None:
        step = number(self.model.optimizer.iterations)
        if step == self._sampled_step:
            return
        self._sampled_step = step
        if self._fill is None:
            self._fill = tf.function(partial(_most_probable, self.model), autograph=False)
        predictions, probabilities = (each.numpy() for each in self._fill(self.inputs))
        # Each sample has its own event file, in a folder without other logs, because TensorBoard
        # reads only the newest file of a folder.
        with tf.summary.create_file_writer(self.folder).as_default(step=step):
            rows = range(len(self.answers))
            texts = [self._row(row, predictions[row], probabilities[row]) for row in rows]
            tf.summary.text("masked_lm/samples", texts)

    def _row(self, row: int, predictions: np.ndarray, probabilities: np.ndarray) -> str:
        ids, mask = self.inputs["input_ids"][row].numpy(), self.inputs["input_mask"][row].numpy()
        # With a causal model the target is the token after the position.
        positions = self.inputs["masked_lm_positions"][row].numpy() + self.model.config.is_causal
        gaps = {
            int(positions[gap]): _gap(
                self.pieces[self.answers[row, gap]],
                self._piece(predictions[gap]),
                probabilities[gap],
            )
            for gap in np.flatnonzero(self.weights[row])
        }
        return filled_text([self._piece(each) for each in ids[mask > 0]], gaps)

    def _piece(self, number: int) -> str:
        """Returns a token; a token table may have more rows than the vocabulary has tokens."""
        return self.pieces[number] if number < len(self.pieces) else f"[{number}]"


def filled_text(pieces: list[str], gaps: dict[int, str]) -> str:
    """Joins tokens to words, as Markdown.

    Args:
        pieces: The tokens.
        gaps: Markdown texts that replace the tokens at these positions.
    """
    told = ""
    for position, piece in enumerate(pieces):
        if position in gaps:
            told += f" {gaps[position]}"
        elif piece.startswith("##") and position - 1 not in gaps:
            told += escaped(piece.removeprefix("##"))
        else:
            told += f" {escaped(piece)}"
    return told.strip()


def escaped(text: str) -> str:
    """Escapes characters that have a meaning in Markdown or HTML."""
    return re.sub(r"[^\w\s.,:;?!'\"()/-]|_", lambda found: f"&#{ord(found[0])};", text)


def _gap(answer: str, prediction: str, probability: float) -> str:
    """Returns the target and the prediction as Markdown, in bold if the prediction is correct."""
    told = f"&#91;{escaped(answer)} → {escaped(prediction)} {probability:.2f}&#93;"
    return f"**{told}**" if prediction == answer else told


def _most_probable(model: keras.Model, inputs: dict):
    """Returns the most probable token of each masked position and its probability, both [B, P]."""
    probabilities_BPV = tf.nn.softmax(model(inputs, training=False)["masked_lm"])
    return tf.argmax(probabilities_BPV, axis=-1), tf.reduce_max(probabilities_BPV, axis=-1)
