"""The TensorBoard callbacks of a pretraining run."""

import os
from pathlib import Path

import keras

from bert_keras.config import BertConfig
from bert_keras.distribution.strategy import is_chief
from bert_keras.text.vocab import Vocabulary
from bert_keras.training.tensorboard.norms import NormsByLayer
from bert_keras.training.tensorboard.performance import ModelFlopsUtilisation, flops_per_example
from bert_keras.training.tensorboard.samples import MaskedSamples


def pretraining_board(
    batch: tuple,
    *,
    config: BertConfig,
    vocabulary: Vocabulary,
    logs: str | os.PathLike,
    batch_size: int,
    epochs_per_sample: int,
    teacher: BertConfig | None = None,
) -> list[keras.callbacks.Callback]:
    """Returns the `board` of `fit_resumable`; empty on workers but the first, and where nothing
    predicts tokens.

    `batch` is (inputs, targets, weights) as `pretraining_dataset` gives them, of a few records:
    their gaps are filled for all to see. A `teacher` adds the operations of its forward pass.
    """
    if not is_chief() or "masked_lm" not in batch[1]:
        return []
    length = batch[0]["input_ids"].shape[1]
    num_predictions = batch[0]["masked_lm_positions"].shape[1]
    flops = flops_per_example(config, length, num_predictions)
    if teacher is not None:
        flops += flops_per_example(teacher, length, num_predictions) // 3
    return [
        NormsByLayer(),
        ModelFlopsUtilisation(flops_per_step=flops * batch_size),
        MaskedSamples(
            batch,
            vocabulary=vocabulary,
            folder=Path(logs) / "samples",
            epochs_per_sample=epochs_per_sample,
        ),
    ]
