"""Writes tiny.safetensors: the weights of a tiny BERT with every head, a batch, and what the
reference, transformers, computes from them.

    python tests/golden/make.py

`weights/` and `gradients/` (of the pretraining loss) are by our names, `inputs/` what is asked,
`outputs/MODEL/` what comes out.
"""

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

FOLDER = Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parent / "parity"))


import keras  # noqa: E402
import our_side  # noqa: E402
import their_side  # noqa: E402

from bert_keras.checkpoints.huggingface.config import transformers_classes  # noqa: E402
from bert_keras.config import BertConfig  # noqa: E402
from bert_keras.families import FAMILIES  # noqa: E402
from bert_keras.models.pretrained import named_weights  # noqa: E402

SIZES = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "intermediate_size": 32}
CONFIG = BertConfig(vocab_size=40, max_positions=12, initializer_stddev=0.2, **SIZES)


def golden() -> dict[str, np.ndarray]:
    batch = our_side.batch_of(CONFIG, length=12, rows=4, num_predictions=5)
    pretrainer = their_side.random_reference("BertPretrainer", CONFIG)
    found = {f"inputs/{name}": array for name, array in batch.items()}
    for model in transformers_classes(FAMILIES["bert"]):
        reference = pretrainer.bert
        if model != "BertEncoder":
            reference = their_side.random_reference(model, CONFIG, seed=1)
            reference.load_state_dict(pretrainer.state_dict(), strict=False)
        ours = our_side.imported(reference)
        weights = named_weights(ours).items()
        found |= {f"weights/{name}": keras.ops.convert_to_numpy(w) for name, w in weights}
        asked = our_side.choices(batch, num_choices=2) if model == "BertMultipleChoice" else batch
        for name, array in their_side.outputs(reference, asked).items():
            if model == "BertEncoder" or "/" not in name:
                every = name == "masked_lm"
                places = (np.arange(len(array))[:, None], batch["masked_lm_positions"])
                found[f"outputs/{model}/{name}"] = array[places] if every else array
        if model == "BertPretrainer":
            loss, gradients = their_side.loss_and_gradients(
                reference, batch, metadata=ours.metadata
            )
            found["loss"] = np.array([loss], "float32")
            found |= {f"gradients/{name}": array for name, array in gradients.items()}
    return {name: np.ascontiguousarray(array) for name, array in found.items()}


if __name__ == "__main__":
    path = FOLDER / "tiny.safetensors"
    save_file(golden(), path, {"config": json.dumps(CONFIG.to_dict())})
    path.chmod(0o644)
