"""Curves that are too good, or do not move: told once, while something can still be done."""

import sys
from collections.abc import Callable

import keras
from tqdm import tqdm

from bert_keras.distribution.cluster import is_chief
from bert_keras.distribution.replicas import number


class Alarms(keras.callbacks.Callback):
    """Looks at the means of every Keras epoch of a pretraining of `num_steps`.

    Next-sentence accuracy of 0.995 within the first twentieth of the steps: the pairs give their
    answer away. Masked-LM loss within 1 % of the unigram's, or above it, after a fifth of the steps
    and twice the warmup: nothing is read off the context. `unigram` gives that loss in nats; it is
    called once, when it is needed.
    """

    def __init__(self, *, num_steps: int, num_warmup_steps: int, unigram: Callable[[], float]):
        super().__init__()
        self.num_steps, self.unigram = num_steps, unigram
        self.patience = max(num_steps / 5, 2 * num_warmup_steps)
        self.told: set[str] = set()

    def on_epoch_end(self, epoch, logs=None):
        step, logs = number(self.model.optimizer.iterations), logs or {}
        if not is_chief():
            return
        accuracy = logs.get("next_sentence_accuracy", 0.0)
        if accuracy >= 0.995 and step <= max(self.num_steps // 20, self.params["steps"]):
            self._tell(
                "pairs",
                f"next-sentence accuracy is {accuracy:.3f} after {step:,} steps: the pairs give "
                "their answer away; look at some with bert-tfrecords show",
            )
        if step >= self.patience and "unigram" not in self.told:
            loss = logs.get("masked_lm_loss", logs["loss"])
            if not hasattr(self, "unigram_loss"):
                self.unigram_loss = self.unigram()
            if loss > 0.99 * self.unigram_loss:
                self._tell(
                    "unigram",
                    f"masked-LM loss is {loss:.3f} after {step:,} steps and the frequencies of the "
                    f"words alone give {self.unigram_loss:.3f}: nothing is read off the context "
                    "yet; try another learning_rate, a longer warmup or initializer_stddev",
                )

    def _tell(self, alarm: str, text: str) -> None:
        if alarm not in self.told:
            self.told.add(alarm)
            tqdm.write(f"WARNING: {text}", file=sys.stderr)
