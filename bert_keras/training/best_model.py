"""The model of the lowest held-out loss, kept while the run goes on."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import keras

from bert_keras.distribution.cluster import is_chief
from bert_keras.distribution.replicas import number
from bert_keras.storage import json_object, write_text

SCORES = "scores.json"


class BestModel(keras.callbacks.Callback):
    """Calls `save` with a new folder, which becomes `folder`, where `val_loss` is lower than ever;
    scores.json in it tells the step and the loss."""

    def __init__(self, folder: Path, save: Callable[[Path], object]):
        super().__init__()
        self.folder, self.save = folder, save
        self.scores = {"step": 0, "held_out_loss": math.inf}
        if (folder / SCORES).is_file():
            self.scores = json_object(folder / SCORES)

    def on_epoch_end(self, epoch, logs=None):
        loss = (logs or {}).get("val_loss", math.nan)
        if not loss < self.scores["held_out_loss"]:
            return
        self.scores = {"step": number(self.model.optimizer.iterations), "held_out_loss": loss}
        if not is_chief():
            return
        beside = self.folder.with_name(f".{self.folder.name}.part")
        shutil.rmtree(beside, ignore_errors=True)
        self.save(beside)
        write_text(beside / SCORES, json.dumps(self.scores, indent=2) + "\n")
        shutil.rmtree(self.folder, ignore_errors=True)
        beside.rename(self.folder)
