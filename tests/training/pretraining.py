"""A script for a small pretraining with dropout that logs the loss of every step.

python tests/training/pretraining.py RECORDS OUTPUT STRATEGY [STEP_TO_DIE_IN_SAVING]
"""

import os
import signal
import sys
from functools import partial
from pathlib import Path

NUM_STEPS = 120


def main(records: str, output: str, name: str, dies_at: str = "0") -> None:
    import keras
    import tensorflow as tf

    from bert_keras import BertPretrainer, preset
    from bert_keras.data.records import Records
    from bert_keras.distribution.strategy import is_chief, strategy_scope
    from bert_keras.training.callbacks import FitSettings
    from bert_keras.training.loop import fit_resumable
    from bert_keras.training.losses import pretraining_losses, pretraining_metrics
    from bert_keras.training.optimizer import BertAdamW
    from bert_keras.training.states import TrainingCheckpoints

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], 2 * [tf.config.LogicalDeviceConfiguration()]
    )

    class LossLog(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.step = int(self.model.optimizer.iterations.numpy())

        def on_train_batch_end(self, batch, logs=None):
            self.step += 1
            if is_chief():
                with open(f"{output}.losses", "a") as file:
                    file.write(f"{self.step} {float(logs['loss']).hex()}\n")

    def dying_save(checkpoints, save=TrainingCheckpoints.save):
        if checkpoints.step != int(dies_at):
            save(checkpoints)
        elif is_chief():  # a half-written state
            (checkpoints.folder / f".step-{dies_at}.npz.part").write_bytes(b"PK")
            os.kill(os.getpid(), signal.SIGKILL)

    TrainingCheckpoints.save = dying_save
    files = sorted(map(str, Path(records).glob("train*.tfrecord")))
    keras.utils.set_random_seed(1)
    with strategy_scope(name):
        model = BertPretrainer(preset("tiny", vocab_size=200, num_layers=1, hidden_size=32))
        losses, metrics = pretraining_losses(), pretraining_metrics()
        model.compile(BertAdamW(1e-3), loss=losses, weighted_metrics=metrics)
        steps = {"num_steps": NUM_STEPS, "steps_per_epoch": 10, "epochs_per_checkpoint": 2}
        sizes = {"keep_checkpoints": 2, "batch_size": 8, "tokens_per_example": 32}
        settings = FitSettings(stage="test", output=Path(output), max_skipped=0, **steps, **sizes)
        batches = partial(Records(files).batches, batch_size=8, seed=1, repeat=True)
        fit_resumable(model, batches, settings, board=[LossLog()])


if __name__ == "__main__":
    main(*sys.argv[1:])
